//! One question: what it is about, what can be typed, what that means.

use agentline_core::acp::client::PermissionAsked;
use agentline_core::acp::update::{ToolCallUpdate, ToolContent};
use agentline_core::acp::{
    Json, OptionKind, PermissionOption, PermissionOutcome, PermissionRequest, RequestKey,
};

use crate::output::{In, Notes, Tools, label, merge, plain};

/// A permission request, with what is known of the call that it is about.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) request: RequestKey,
    pub(crate) asked: PermissionRequest,
}

impl Question {
    /// `known`: what the agent said of its calls already. A question about one may hold no more than its id.
    pub(crate) fn new(asked: PermissionAsked, known: &Tools) -> Self {
        let PermissionAsked { request, mut asked } = asked;
        if let Some(known) = known.get(&asked.tool_call.tool_call_id) {
            let news = std::mem::replace(&mut asked.tool_call, known.clone());
            merge(&mut asked.tool_call, news);
        }
        Self { request, asked }
    }

    /// What it is about, in full: nobody can agree to what is not shown.
    pub(crate) fn show(&self, notes: &Notes) {
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

    pub(crate) fn prompt(&self, notes: &Notes) -> String {
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

    pub(crate) fn choice(&self, typed: &str) -> Option<&PermissionOption> {
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

    pub(crate) fn denial(&self) -> PermissionOutcome {
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
            Some(command) => lines.extend(
                command
                    .lines()
                    .enumerate()
                    .map(|(at, line)| format!("{} {}", if at == 0 { "$" } else { " " }, plain(line))),
            ),
            None if input.get() != "{}" && input.get() != "null" => {
                lines.push(plain(input.get()).into_owned())
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(options: &[(&str, &str)], call: serde_json::Value) -> Question {
        let options =
            options.iter().map(|(name, kind)| json!({"optionId": name, "name": name, "kind": kind}));
        let options: Vec<_> = options.collect();
        let asked = json!({"sessionId": "s", "toolCall": call, "options": options});
        let request = serde_json::from_value(json!(1)).unwrap();
        Question { request, asked: serde_json::from_str(&asked.to_string()).unwrap() }
    }

    fn chosen<'a>(question: &'a Question, typed: &str) -> Option<&'a str> {
        question.choice(typed).map(|option| &*option.option_id)
    }

    #[test]
    fn letters_stand_for_kinds_and_numbers_where_kinds_are_shared() {
        let call = || json!({"toolCallId": "c"});
        let usual =
            question(&[("Yes", "allow_once"), ("All", "allow_always"), ("No", "reject_once")], call());
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
        assert_eq!(
            (chosen(&alike, "y"), chosen(&alike, "2"), chosen(&alike, "3")),
            (None, Some("Beta"), Some("New"))
        );
    }

    #[test]
    fn the_end_of_input_says_no() {
        let call = || json!({"toolCallId": "c"});
        let no =
            question(&[("Never", "reject_always"), ("Yes", "allow_once"), ("No", "reject_once")], call());
        assert_eq!(no.denial(), PermissionOutcome::selected("No"));
        assert_eq!(question(&[("Yes", "allow_once")], call()).denial(), PermissionOutcome::Cancelled);
    }

    #[test]
    fn the_real_command_is_shown_whole() {
        let shown = |call| details(&question(&[], call).asked.tool_call);
        let long = format!("ls {}; rm -rf ~", "x".repeat(5000));
        for (call, lines) in [
            (json!({"toolCallId": "c", "rawInput": {"command": long}}), vec![format!("$ {long}")]),
            (
                json!({"toolCallId": "c", "rawInput": {"command": ["git", "commit", "-m", "a b"]}}),
                vec!["$ git commit -m 'a b'".into()],
            ),
            (
                json!({"toolCallId": "c", "rawInput": {"command": "a\nb\u{1b}[2J"}}),
                vec!["$ a".into(), "  b\u{fffd}[2J".into()],
            ),
            (
                json!({"toolCallId": "c", "rawInput": {"path": "/x"}, "locations": [{"path": "/x"}]}),
                vec![r#"{"path":"/x"}"#.into()],
            ),
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
