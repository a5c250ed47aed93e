//! Dialogues that a person can read, and captures of real peers.

use std::fmt;
use std::path::{Path, PathBuf};

use agentline_core::{Action, Heard, Input, LinkId, Machine, Now, Output, Peer};
use serde::Deserialize;

use crate::invariants::Checked;
use crate::split::Wire;

/// A dialogue over one link, as text: `→` a line that the machine writes, `←` a line that its peer writes,
/// `!` something that the application does, `#` a remark.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Dialogue(pub Vec<Step>);

/// One line of a dialogue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// The machine writes.
    Written(String),
    /// The peer writes.
    Heard(String),
    /// The application does something that it knows by this name.
    Done(String),
}

impl Dialogue {
    /// Reads a dialogue.
    ///
    /// # Panics
    ///
    /// A line begins with none of the marks.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let step = |line: &str| {
            let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
            match mark {
                "→" => Some(Step::Written(rest.to_owned())),
                "←" => Some(Step::Heard(rest.to_owned())),
                "!" => Some(Step::Done(rest.to_owned())),
                "#" | "" => None,
                _ => panic!("no mark before {line:?}"),
            }
        };
        Self(text.lines().filter_map(step).collect())
    }

    /// Plays the peer's and the application's part, and compares what the machine writes with its own. Links
    /// open and writes are acknowledged at once.
    ///
    /// # Panics
    ///
    /// The machine writes something else.
    pub fn play<M: Machine>(&self, machine: &mut Checked<M>, mut act: impl FnMut(&mut Checked<M>, &str)) {
        let mut played = Self::default();
        played.drain(machine);
        for step in &self.0 {
            match step {
                Step::Written(_) => continue,
                Step::Heard(line) => {
                    let bytes = format!("{line}\n");
                    played.0.push(step.clone());
                    let heard = Heard::Bytes(bytes.as_bytes());
                    machine.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
                }
                Step::Done(what) => {
                    played.0.push(step.clone());
                    act(machine, what);
                }
            }
            played.drain(machine);
        }
        assert_eq!(played.to_string(), self.to_string());
    }

    fn drain<M: Machine>(&mut self, machine: &mut Checked<M>) {
        while let Some(output) = machine.poll() {
            match output {
                Output::Do(link, Action::Write(bytes)) => {
                    let text = String::from_utf8_lossy(&bytes);
                    self.0.extend(text.lines().map(|line| Step::Written(line.to_owned())));
                    machine.handle(Now::default(), Input::Link(link, Heard::Written));
                }
                Output::Do(link, Action::Open(_)) => {
                    let heard = Heard::Opened(Peer::default());
                    machine.handle(Now::default(), Input::Link(link, heard));
                }
                Output::Do(..) | Output::Store(..) | Output::Tell(_) | Output::End => {}
            }
        }
    }
}

impl fmt::Display for Dialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Written(line) => writeln!(f, "→ {line}")?,
                Step::Heard(line) => writeln!(f, "← {line}")?,
                Step::Done(what) => writeln!(f, "! {what}")?,
            }
        }
        Ok(())
    }
}

/// One run of a real agent.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The agent and the occasion, and which run of it.
    pub name: String,
    /// Everything that went over its streams, in order.
    pub lines: Vec<Captured>,
}

/// One line of a capture.
#[derive(Clone, Debug, Deserialize)]
pub struct Captured {
    /// Milliseconds since the agent was started.
    pub t: f64,
    /// Who wrote it where.
    pub dir: Direction,
    /// The line, without its end.
    pub line: String,
}

impl Captured {
    /// What the recorder remarks in place of a line: `EOF`, `SIGTERM`, `EXIT 0`.
    #[must_use]
    pub fn remark(&self) -> Option<&str> {
        let inner = self.line.strip_prefix('<')?.strip_suffix('>')?;
        (self.dir != Direction::Err).then_some(inner)
    }

    fn is_exit(&self) -> bool {
        self.remark().is_some_and(|remark| remark.starts_with("EXIT"))
    }
}

/// Which of a child's three streams a line went over.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Its stdin.
    In,
    /// Its stdout.
    Out,
    /// Its standard error.
    Err,
}

impl Capture {
    /// What went over one stream, in parts that end where the other side had its say.
    #[must_use]
    pub fn spoken(&self, dir: Direction) -> Wire {
        let said = |line: &&Captured| line.dir != Direction::Err && line.remark().is_none();
        let lines: Vec<&Captured> = self.lines.iter().filter(said).collect();
        let parts =
            lines.chunk_by(|a, b| a.dir == b.dir).filter(|part| part.iter().all(|line| line.dir == dir));
        Wire::new(parts.map(|part| part.iter().map(|line| line.line.clone() + "\n").collect::<String>()))
    }
}

/// The captures of a folder below `fixtures`, in order of their names; a file holds one run after the other.
///
/// # Panics
///
/// The folder is missing, or holds something that is no capture.
#[must_use]
pub fn captures(folder: &str) -> Vec<Capture> {
    let folder = fixture(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ndjson"));
    paths.sort();
    paths.iter().flat_map(|path| runs(path)).collect()
}

/// A file or folder that the suites keep.
#[must_use]
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

fn runs(path: &Path) -> Vec<Capture> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut runs: Vec<Capture> = Vec::new();
    let mut exited = true;
    for line in text.lines() {
        let line: Captured =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()));
        // What an agent wrote to standard error may be recorded after its exit.
        if exited && line.dir != Direction::Err {
            exited = false;
            runs.push(Capture { name: format!("{file} {}", runs.len() + 1), lines: Vec::new() });
        }
        exited |= line.is_exit();
        runs.last_mut().expect("a run begins with a line of the client").lines.push(line);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::Checks;
    use crate::toy::{Say, Talk};
    use agentline_core::{Graces, Limits};

    #[test]
    fn a_dialogue_is_played_and_shown_as_it_was_written() {
        let text = "! greet\n→ hello\n← and to you\n! twice\n→ a\n→ b\n";
        let dialogue = Dialogue::parse(&format!("# A remark.\n\n{text}"));
        assert_eq!(dialogue.to_string(), text);
        let talk = Talk::adopt(&Limits::default(), &Graces::default());
        let checks = Checks { json: false, ..Checks::default() };
        dialogue.play(&mut Checked::around(talk, checks), |machine, what| {
            let lines: &[&str] = if what == "greet" { &["hello"] } else { &["a", "b"] };
            let lines = lines.iter().map(|&line| line.to_owned()).collect();
            assert_eq!(machine.command(Now::default(), Say::Lines(lines)), Ok(()));
        });
    }

    #[test]
    fn all_captures_are_read() {
        let captures = captures("acp");
        assert_eq!(captures.len(), 209);
        for capture in captures {
            assert!(capture.lines.iter().any(Captured::is_exit), "{}", capture.name);
        }
    }
}
