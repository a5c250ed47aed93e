//! Permission questions at the terminal: one at a time, and never answered by what was typed before.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use agentline_core::acp::client::PermissionAsked;
use agentline_core::acp::update::{ToolCallUpdate, ToolContent};
use agentline_core::acp::{Json, OptionKind, PermissionOption, PermissionOutcome, PermissionRequest, RequestKey};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::QueueSelector;

use crate::output::{In, Notes, label, plain};

/// Asks whoever sits at the terminal. An input that has ended says no.
pub(crate) struct Asker {
    queue: Arc<Queue>,
    wake: PipeWriter,
}

struct Queue {
    /// The first one is shown.
    open: Mutex<VecDeque<Question>>,
    notes: Notes,
}

/// A permission request, and what is known of the call that it is about.
#[derive(Clone)]
struct Question {
    request: RequestKey,
    asked: PermissionRequest,
}

/// What came of reading a line.
enum Typed {
    Line(String),
    End,
    /// The question is moot.
    Woken,
}

impl Asker {
    /// Reads from `input`; `answer` is called on a thread of its own.
    pub(crate) fn new(
        notes: Notes,
        input: OwnedFd,
        answer: impl Fn(RequestKey, PermissionOutcome) + Send + 'static,
    ) -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        let queue = Arc::new(Queue { open: Mutex::default(), notes });
        let reader = Reader { input: input.into(), woken };
        let of = Arc::clone(&queue);
        thread::Builder::new().name("agentline-ask".into()).spawn(move || of.serve(reader, answer))?;
        Ok(Self { queue, wake })
    }

    /// Asks, after all that was asked before. `known`: what the agent said of the call already.
    pub(crate) fn ask(&mut self, asked: PermissionAsked, known: Option<&ToolCallUpdate>) {
        let PermissionAsked { request, mut asked } = asked;
        if let Some(known) = known {
            let news = std::mem::replace(&mut asked.tool_call, known.clone());
            crate::output::merge(&mut asked.tool_call, news);
        }
        self.queue.lock().push_back(Question { request, asked });
        self.wake();
    }

    /// The question is decided, by whomever.
    pub(crate) fn decided(&mut self, request: RequestKey) {
        self.queue.lock().retain(|question| question.request != request);
        self.wake();
    }

    fn wake(&mut self) {
        // The thread ends with us only.
        let _ = self.wake.write_all(b".");
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Question>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut reader: Reader, answer: impl Fn(RequestKey, PermissionOutcome)) {
        loop {
            let first = self.lock().front().cloned();
            let Some(question) = first else {
                if reader.wait_for_news().is_err() {
                    return;
                }
                continue;
            };
            reader.forget_what_was_typed();
            question.show(&self.notes);
            let outcome = self.outcome(&question, &mut reader);
            self.notes.still();
            // Decided meanwhile, if there is none.
            if let Some(outcome) = outcome {
                self.lock().retain(|open| open.request != question.request);
                answer(question.request, outcome);
            }
        }
    }

    fn outcome(&self, question: &Question, reader: &mut Reader) -> Option<PermissionOutcome> {
        loop {
            match reader.line() {
                Typed::Line(text) => match question.choice(&text) {
                    Some(option) => return Some(PermissionOutcome::selected(&*option.option_id)),
                    None => self.notes.question(&question.prompt(&self.notes)),
                },
                Typed::End => return Some(question.denial()),
                Typed::Woken => {
                    if self.lock().front().is_none_or(|first| first.request != question.request) {
                        return None;
                    }
                }
            }
        }
    }
}

impl Question {
    /// What it is about, in full: nobody can agree to what is not shown.
    fn show(&self, notes: &Notes) {
        let paint = notes.paint();
        let call = &self.asked.tool_call;
        notes.line(&format!("  {} {}", In(paint.ask, "?"), In(paint.strong, label(call))));
        for line in details(call) {
            let style = match line.as_bytes().first() {
                Some(b'+') => paint.good,
                Some(b'-') => paint.bad,
                _ => paint.dim,
            };
            notes.line(&format!("      {}", In(style, line)));
        }
        notes.question(&self.prompt(notes));
    }

    fn prompt(&self, notes: &Notes) -> String {
        let strong = notes.paint().strong;
        let keys = self.keys();
        let options = keys.iter().map(|(key, option)| format!("{} {}", In(strong, key), plain(&option.name)));
        format!("    {} › ", options.collect::<Vec<_>>().join(" · "))
    }

    /// What to type for each option: a letter, or numbers where letters are not clear.
    fn keys(&self) -> Vec<(String, &PermissionOption)> {
        let options = &self.asked.options;
        let letters: Option<Vec<_>> = options
            .iter()
            .map(|option| {
                let alike = options.iter().filter(|other| other.kind == option.kind).count();
                letter(&option.kind).filter(|_| alike == 1).map(|letter| (letter.to_owned(), option))
            })
            .collect();
        letters.unwrap_or_else(|| {
            options.iter().enumerate().map(|(at, option)| ((at + 1).to_string(), option)).collect()
        })
    }

    fn choice(&self, typed: &str) -> Option<&PermissionOption> {
        let typed = typed.trim().to_lowercase();
        let word = match &*typed {
            "yes" => "y",
            "always" => "a",
            "no" => "n",
            "never" => "d",
            other => other,
        };
        self.keys().into_iter().find(|(key, _)| key == word).map(|(_, option)| option)
    }

    fn denial(&self) -> PermissionOutcome {
        let no = self.asked.first_of(&[OptionKind::RejectOnce, OptionKind::RejectAlways]);
        no.map_or(PermissionOutcome::Cancelled, |option| PermissionOutcome::selected(&*option.option_id))
    }
}

const fn letter(kind: &OptionKind) -> Option<&'static str> {
    match kind {
        OptionKind::AllowOnce => Some("y"),
        OptionKind::AllowAlways => Some("a"),
        OptionKind::RejectOnce => Some("n"),
        OptionKind::RejectAlways => Some("d"),
        OptionKind::Unknown(_) => None,
    }
}

/// The real command, the change, the input: whatever the agent says that it will do.
fn details(call: &ToolCallUpdate) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(input) = &call.raw_input {
        match command(input) {
            Some(command) => lines.extend(command.lines().enumerate().map(|(at, line)| {
                format!("{} {}", if at == 0 { "$" } else { " " }, plain(line))
            })),
            None if input.get() != "{}" && input.get() != "null" => lines.push(plain(input.get()).into_owned()),
            None => {}
        }
    }
    for content in call.content.iter().flatten() {
        match content {
            ToolContent::Diff(diff) => {
                lines.push(plain(&diff.path).into_owned());
                lines.extend(change(diff.old_text.as_deref().unwrap_or_default(), &diff.new_text));
            }
            ToolContent::Content(block) => {
                let text = block.as_text().map_or_else(|| format!("[{}]", block.tag()), str::to_owned);
                lines.extend(text.lines().map(|line| plain(line).into_owned()));
            }
            ToolContent::Terminal(_) | ToolContent::Unknown(_) => {}
        }
    }
    for location in call.locations.iter().flatten() {
        let path = plain(&location.path).into_owned();
        if !lines.iter().any(|line| line.contains(&path)) {
            lines.push(path);
        }
    }
    lines
}

/// The command line in a tool's input, where there is one.
fn command(input: &Json) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Command {
        Line(String),
        Words(Vec<String>),
    }
    #[derive(serde::Deserialize)]
    struct Input {
        command: Command,
    }
    match serde_json::from_str(input.get()).ok()? {
        Input { command: Command::Line(line) } => Some(line),
        Input { command: Command::Words(words) } => Some(agentline_core::discovery::command_line(&words)),
    }
}

/// What is taken away and what is put there, without the lines that both ends share.
fn change(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let shared = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[shared..], &new[shared..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let signed = |sign: char, lines: &[&str]| -> Vec<String> {
        lines.iter().map(|line| format!("{sign} {}", plain(line))).collect()
    };
    [signed('-', old), signed('+', new)].concat()
}

/// Lines of the terminal, or of whatever our stdin is.
struct Reader {
    input: File,
    woken: PipeReader,
}

impl Reader {
    /// The next line, or else the next wake.
    fn line(&mut self) -> Typed {
        let mut line = Vec::new();
        loop {
            match self.poll() {
                Ok(true) => return Typed::Woken,
                Ok(false) => {}
                Err(_) => return Typed::End,
            }
            let mut byte = [0];
            match self.input.read(&mut byte) {
                Ok(0) | Err(_) => return Typed::End,
                Ok(_) if byte == [b'\n'] => return Typed::Line(String::from_utf8_lossy(&line).into_owned()),
                Ok(_) => line.extend(byte),
            }
        }
    }

    fn wait_for_news(&mut self) -> io::Result<()> {
        self.woken.read_exact(&mut [0])
    }

    /// Waits; whether somebody woke us.
    fn poll(&mut self) -> io::Result<bool> {
        let mut both = [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.input, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut both, None))?;
        let woken = !both[0].revents().is_empty();
        if woken {
            self.wait_for_news()?;
        }
        Ok(woken)
    }

    fn forget_what_was_typed(&mut self) {
        if rustix::termios::tcflush(&self.input, QueueSelector::IFlush).is_ok() {
            return;
        }
        let is_ready = |input: &File| {
            let now = Timespec::default();
            let mut one = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
            rustix::event::poll(&mut one, Some(&now)).is_ok_and(|ready| ready > 0)
        };
        let mut typed = [0; 1024];
        while is_ready(&self.input) && self.input.read(&mut typed).is_ok_and(|read| read > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(options: &[(&str, &str)], call: serde_json::Value) -> Question {
        let options = options.iter().map(|(name, kind)| json!({"optionId": name, "name": name, "kind": kind}));
        let options: Vec<_> = options.collect();
        let asked = json!({"sessionId": "s", "toolCall": call, "options": options});
        let request = serde_json::from_value(json!(1)).unwrap();
        Question { request, asked: serde_json::from_value(asked).unwrap() }
    }

    fn chosen<'a>(question: &'a Question, typed: &str) -> Option<&'a str> {
        question.choice(typed).map(|option| &*option.option_id)
    }

    #[test]
    fn letters_stand_for_kinds_and_numbers_where_kinds_are_shared() {
        let call = || json!({"toolCallId": "c"});
        let usual = question(&[("Yes", "allow_once"), ("All", "allow_always"), ("No", "reject_once")], call());
        for (typed, id) in [
            ("y", Some("Yes")),
            (" YES \n", Some("Yes")),
            ("a", Some("All")),
            ("no", Some("No")),
            ("", None),
            ("d", None),
            ("1", None),
            ("yep", None),
        ] {
            assert_eq!(chosen(&usual, typed), id, "{typed:?}");
        }
        let alike = question(&[("Alpha", "allow_once"), ("Beta", "allow_once"), ("New", "later")], call());
        assert_eq!((chosen(&alike, "y"), chosen(&alike, "2"), chosen(&alike, "3")), (None, Some("Beta"), Some("New")));
    }

    #[test]
    fn the_end_of_input_says_no() {
        let call = || json!({"toolCallId": "c"});
        let no = question(&[("Never", "reject_always"), ("Yes", "allow_once"), ("No", "reject_once")], call());
        assert_eq!(no.denial(), PermissionOutcome::selected("No"));
        assert_eq!(question(&[("Yes", "allow_once")], call()).denial(), PermissionOutcome::Cancelled);
    }

    #[test]
    fn the_real_command_is_shown_whole() {
        let shown = |call| details(&question(&[], call).asked.tool_call);
        let long = format!("ls {}; rm -rf ~", "x".repeat(5000));
        for (call, lines) in [
            (json!({"toolCallId": "c", "rawInput": {"command": long}}), vec![format!("$ {long}")]),
            (json!({"toolCallId": "c", "rawInput": {"command": ["git", "commit", "-m", "a b"]}}), vec!["$ git commit -m 'a b'".into()]),
            (json!({"toolCallId": "c", "rawInput": {"command": "a\nb\u{1b}[2J"}}), vec!["$ a".into(), "  b\u{fffd}[2J".into()]),
            (json!({"toolCallId": "c", "rawInput": {"path": "/x"}, "locations": [{"path": "/x"}]}), vec![r#"{"path":"/x"}"#.into()]),
            (json!({"toolCallId": "c", "rawInput": {}}), vec![]),
            (
                json!({"toolCallId": "c", "content": [{"type": "diff", "path": "/f", "oldText": "a\nb\nc", "newText": "a\nB\nc"}]}),
                vec!["/f".into(), "- b".into(), "+ B".into()],
            ),
        ] {
            assert_eq!(shown(call), lines);
        }
    }

    #[test]
    fn a_change_is_what_differs() {
        for (old, new, lines) in [
            ("", "a", vec!["+ a"]),
            ("a", "", vec!["- a"]),
            ("a\nb", "a\nb", vec![]),
            ("a\na\na", "a\na", vec!["- a"]),
            ("x\nb\ny", "x\nc\nd\ny", vec!["- b", "+ c", "+ d"]),
        ] {
            assert_eq!(change(old, new), lines);
        }
    }
}
