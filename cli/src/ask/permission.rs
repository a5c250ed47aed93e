//! A permission request: what it is about, what can be typed, what that means.

use agentline_core::acp::update::{ToolCallUpdate, ToolContent};
use agentline_core::acp::{Json, OptionKind, PermissionOption, PermissionOutcome, PermissionRequest};

use super::{Answer, Entered};
use crate::output::{In, Notes, Paint, Tools, label, merge, plain, shorten};
use crate::words::command_line;

/// A permission request, with what is known of the call that it is about.
#[derive(Clone)]
pub(crate) struct Permission {
    pub(crate) call: ToolCallUpdate,
    pub(crate) options: Vec<PermissionOption>,
    /// Who asks, where it may be one of many.
    pub(crate) whose: Option<String>,
    /// It can be left without an answer, which is a no where none of the options is one.
    pub(crate) cancels: bool,
}

impl Permission {
    /// `known`: what the agent said of its calls already. A question about one may hold no more than its id.
    pub(crate) fn new(asked: PermissionRequest, known: &Tools) -> Self {
        let PermissionRequest { mut tool_call, options, .. } = asked;
        if let Some(known) = known.get(&tool_call.tool_call_id) {
            let news = std::mem::replace(&mut tool_call, known.clone());
            merge(&mut tool_call, news);
        }
        Self { call: tool_call, options, whose: None, cancels: true }
    }

    /// Shortens it to what there is room for; what it weighs then, in bytes.
    pub(crate) fn shorten(&mut self, room: usize) -> usize {
        for option in &mut self.options {
            option.name.truncate(option.name.floor_char_boundary(NAME));
            option.name.shrink_to_fit();
            if let OptionKind::Unknown(word) = &mut option.kind {
                // Only that it is unknown counts.
                *word = String::new();
            }
        }
        let ids = self.options.iter().map(|option| {
            size_of::<PermissionOption>() + option.option_id.capacity() + option.name.capacity()
        });
        let whose = self.whose.as_ref().map_or(0, String::capacity);
        whose + ids.sum::<usize>() + shorten(&mut self.call, room)
    }

    /// What it is about: as much of it as leaves the choice on the screen.
    pub(crate) fn show(&self, notes: &Notes) {
        let room = notes.rows().map_or(DETAIL, |rows| rows.saturating_sub(self.keys().len() + 6));
        self.lines(notes.paint(), room.clamp(LEAST, DETAIL)).iter().for_each(|line| notes.line(line));
    }

    /// What it is about, with nothing left out, one a line.
    pub(crate) fn all(&self, paint: Paint) -> Vec<String> {
        self.lines(paint, usize::MAX)
    }

    fn lines(&self, paint: Paint, most: usize) -> Vec<String> {
        bounded(details(&self.call), most).iter().map(|line| detail(line, paint)).collect()
    }

    /// The title and what can be chosen, one a line.
    pub(crate) fn choices(&self, paint: Paint) -> Vec<String> {
        let whose = self.whose.as_ref();
        let whose = whose.map_or_else(String::new, |whose| format!("  {}", In(paint.dim, plain(whose))));
        let title = format!("  {} {}{whose}", In(paint.ask, "?"), In(paint.strong, label(&self.call)));
        let keys = self.keys();
        let widest = keys.iter().map(|(key, _)| key.len()).max().unwrap_or_default();
        let row = |(key, option): &(String, Option<&PermissionOption>)| {
            let name = option.map_or("Reject", |option| option.name.trim());
            format!("      {}  {}", In(paint.strong, format!("{key:widest$}")), plain(name))
        };
        std::iter::once(title).chain(keys.iter().map(row)).collect()
    }

    /// What to do now: `y, a or n, then Enter`.
    pub(crate) fn call(&self) -> String {
        let keys: Vec<String> = self.keys().into_iter().map(|(key, _)| key).collect();
        let keys = match &*keys {
            [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
            keys => keys.concat(),
        };
        format!("{keys}, then Enter")
    }

    /// What to say to an answer that is none.
    pub(crate) fn nudge(&self) -> String {
        let call = self.call();
        let all = if self.is_cut() { "; v shows all of it" } else { "" };
        format!("! not an answer: type {call}{all}")
    }

    fn is_cut(&self) -> bool {
        let all = details(&self.call);
        all.len() > LEAST || all.iter().any(|line| line.chars().count() > LINE)
    }

    /// What to type for each option. There is always a way to say no, also where the agent offers none.
    pub(crate) fn keys(&self) -> Vec<(String, Option<&PermissionOption>)> {
        let keys = keyed(&self.options).into_iter();
        let mut keys: Vec<(String, Option<&PermissionOption>)> =
            keys.map(|(key, option)| (key, Some(option))).collect();
        if self.cancels && keys.iter().all(|(key, _)| key != "n") {
            keys.push(("n".to_owned(), None));
        }
        keys
    }

    /// What was typed.
    pub(crate) fn enter(&self, typed: &str) -> Entered {
        let word = meant(typed);
        if matches!(&*word, "v" | "view") {
            return Entered::ShowAll;
        }
        let Some((_, option)) = self.keys().into_iter().find(|(key, _)| *key == word) else {
            return Entered::Nothing;
        };
        Entered::Answer(match option {
            Some(option) => Answer::Permission(PermissionOutcome::selected(&*option.option_id)),
            None => self.denial(),
        })
    }

    pub(crate) fn denial(&self) -> Answer {
        let no = [OptionKind::RejectOnce, OptionKind::RejectAlways];
        let no = no.iter().find_map(|kind| self.options.iter().find(|option| option.kind == *kind));
        let outcome =
            no.map_or(PermissionOutcome::Cancelled, |option| PermissionOutcome::selected(&*option.option_id));
        Answer::Permission(outcome)
    }
}

/// A line of what it is about, in its colour.
fn detail(line: &str, paint: Paint) -> String {
    let style = match line.as_bytes().first() {
        Some(b'+') => paint.good,
        Some(b'-') => paint.bad,
        _ => paint.dim,
    };
    format!("      {}", In(style, line))
}

/// What to type for each option: a letter for the first of its kind, a number where letters are taken.
fn keyed(options: &[PermissionOption]) -> Vec<(String, &PermissionOption)> {
    let mut keys: Vec<(String, &PermissionOption)> = Vec::new();
    for (at, option) in options.iter().enumerate() {
        let letter = letter(&option.kind).filter(|letter| keys.iter().all(|(key, _)| key != letter));
        keys.push((letter.map_or_else(|| (at + 1).to_string(), str::to_owned), option));
    }
    keys
}

/// The key that is meant by what was typed.
fn meant(typed: &str) -> String {
    let typed = typed.trim().to_lowercase();
    match &*typed {
        "yes" => "y".into(),
        "always" => "a".into(),
        "no" => "n".into(),
        "never" => "d".into(),
        _ => typed,
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

/// So many lines at most, and none that fills a screen: what is left out is counted, and both ends are there.
fn bounded(lines: Vec<String>, most: usize) -> Vec<String> {
    let all = lines.len();
    if most == usize::MAX {
        return lines;
    }
    let mut lines: Vec<String> = lines.into_iter().map(short).collect();
    if all <= most {
        return lines;
    }
    let tail = lines.split_off(all - TAIL);
    lines.truncate(most - TAIL - 1);
    let left_out = all - lines.len() - TAIL;
    lines.push(format!("… {left_out} more lines of {all}; v and Enter show all …"));
    lines.extend(tail);
    lines
}

/// A line of at most so many letters: the middle of a longer one is left out.
fn short(line: String) -> String {
    let letters: Vec<char> = line.chars().collect();
    if letters.len() <= LINE {
        return line;
    }
    let (head, tail) = (&letters[..LINE * 2 / 3], &letters[letters.len() - LINE / 4..]);
    let left_out = letters.len() - head.len() - tail.len();
    let (head, tail): (String, String) = (head.iter().collect(), tail.iter().collect());
    format!("{head} … {left_out} more letters; v and Enter show all … {tail}")
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
        Input { command: Command::Words(words) } => Some(command_line(&words)),
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

/// Lines of what it is about, on the highest screen.
const DETAIL: usize = 16;
/// The same on the lowest.
const LEAST: usize = 6;
/// Those of them that are its end.
const TAIL: usize = 3;
/// Letters of a line.
const LINE: usize = 600;
/// Bytes of the name of an option.
const NAME: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(options: &[(&str, &str)], call: serde_json::Value) -> Permission {
        let options =
            options.iter().map(|(name, kind)| json!({"optionId": name, "name": name, "kind": kind}));
        let options: Vec<_> = options.collect();
        let asked = json!({"sessionId": "s", "toolCall": call, "options": options});
        Permission::new(serde_json::from_str(&asked.to_string()).unwrap(), &Tools::default())
    }

    fn chosen(question: &Permission, typed: &str) -> Option<String> {
        match question.enter(typed) {
            Entered::Answer(Answer::Permission(outcome)) => {
                Some(serde_json::to_value(&outcome).unwrap().to_string())
            }
            Entered::ShowAll => Some("all".into()),
            Entered::Answer(Answer::Reply(..)) | Entered::Next | Entered::Nothing => None,
        }
    }

    fn keys(question: &Permission) -> Vec<String> {
        question.keys().into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn letters_stand_for_kinds_and_numbers_where_they_are_taken() {
        let call = || json!({"toolCallId": "c"});
        let usual =
            question(&[("Yes", "allow_once"), ("All", "allow_always"), ("No", "reject_once")], call());
        let option = |id: &str| Some(json!({"outcome": "selected", "optionId": id}).to_string());
        for (typed, id) in [
            ("y", option("Yes")),
            (" YES \n", option("Yes")),
            ("a", option("All")),
            ("no", option("No")),
            ("v", Some("all".into())),
            ("", None),
            ("d", None),
            ("1", None),
            ("yep", None),
        ] {
            assert_eq!(chosen(&usual, typed), id, "{typed:?}");
        }
        assert_eq!((usual.call().as_str(), keys(&usual).len()), ("y, a or n, then Enter", 3));
        let alike = question(&[("Alpha", "allow_once"), ("Beta", "allow_once"), ("New", "later")], call());
        assert_eq!(keys(&alike), ["y", "2", "3", "n"]);
        assert_eq!((chosen(&alike, "2"), chosen(&alike, "3")), (option("Beta"), option("New")));
        let four = question(
            &[("A", "allow_once"), ("B", "allow_always"), ("C", "allow_always"), ("D", "reject_once")],
            call(),
        );
        assert_eq!(keys(&four), ["y", "a", "3", "n"]);
    }

    #[test]
    fn one_can_always_say_no() {
        let only = question(&[("Yes", "allow_once")], json!({"toolCallId": "c"}));
        let no = Answer::Permission(PermissionOutcome::Cancelled);
        assert_eq!(only.enter("n"), Entered::Answer(no));
        assert_eq!(only.choices(Paint::default()), ["  ? c", "      y  Yes", "      n  Reject"]);
        let asked = Permission { cancels: false, whose: Some("a7 · s3".into()), ..only };
        assert_eq!(asked.choices(Paint::default()), ["  ? c  a7 · s3", "      y  Yes"]);
    }

    #[test]
    fn what_is_long_is_cut_in_the_middle_with_a_count() {
        let lines: Vec<String> = (1..=160).map(|at| format!("+ {at}")).collect();
        let shown = bounded(lines.clone(), 10);
        assert_eq!(shown.len(), 10);
        assert_eq!((&*shown[0], &*shown[9]), ("+ 1", "+ 160"));
        assert_eq!(shown[6], "… 151 more lines of 160; v and Enter show all …");
        assert_eq!(bounded(lines.clone(), usize::MAX), lines);
        let long = format!("ls {}; rm -rf ~", "x".repeat(5000));
        let cut = short(long);
        assert!(cut.ends_with("; rm -rf ~") && cut.contains("more letters") && cut.len() < 700, "{cut}");
    }

    #[test]
    fn the_end_of_input_says_no() {
        let call = || json!({"toolCallId": "c"});
        let no =
            question(&[("Never", "reject_always"), ("Yes", "allow_once"), ("No", "reject_once")], call());
        assert_eq!(no.denial(), Answer::Permission(PermissionOutcome::selected("No")));
        let only = question(&[("Yes", "allow_once")], call());
        assert_eq!(only.denial(), Answer::Permission(PermissionOutcome::Cancelled));
    }

    #[test]
    fn the_real_command_is_shown_whole() {
        let shown = |call| details(&question(&[], call).call);
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
