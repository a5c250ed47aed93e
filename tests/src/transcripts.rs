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
                Output::Do(..) | Output::Store(_) | Output::Tell(_) | Output::End => {}
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

/// One line of a capture of a real agent.
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
    /// Whether the recorder wrote it: `<START …>`, `<EOF>`, `<EXIT …>`.
    #[must_use]
    pub fn is_remark(&self) -> bool {
        ["<START ", "<EOF>", "<EXIT "].iter().any(|mark| self.line.starts_with(mark))
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

/// The captures of a folder below `fixtures`, by name, in order.
///
/// # Panics
///
/// The folder is missing, or holds something that is no capture.
#[must_use]
pub fn captures(folder: &str) -> Vec<(String, Vec<Captured>)> {
    let folder = fixture(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ndjson"));
    paths.sort();
    paths.into_iter().map(|path| (name(&path), capture(&path))).collect()
}

/// What went over one stream of a capture, cut where the other side had its say.
#[must_use]
pub fn spoken(capture: &[Captured], dir: Direction) -> Wire {
    let heard: Vec<&Captured> =
        capture.iter().filter(|line| line.dir != Direction::Err && !line.is_remark()).collect();
    let parts =
        heard.chunk_by(|a, b| a.dir == b.dir).filter(|lines| lines.iter().all(|line| line.dir == dir));
    Wire::new(parts.map(|lines| lines.iter().map(|line| line.line.clone() + "\n").collect::<String>()))
}

/// A file or folder that the suites keep.
#[must_use]
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn capture(path: &Path) -> Vec<Captured> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()))
    };
    text.lines().map(line).collect()
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
        assert_eq!(captures.len(), 82);
        assert!(captures.iter().all(|(_, lines)| !lines.is_empty()));
    }
}
