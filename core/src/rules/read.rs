//! Rules as they are written: in a file of the user, in a file of the project, or on a command line.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::{Rule, Then};
use crate::acp::update::ToolKind;

/// Why something is no list of rules, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Written>,
}

/// The part of a project's settings that is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Settings {
    permissions: Option<File>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    kind: Kinds,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    path: Option<String>,
    then: Then,
}

/// One kind or a list of them.
#[derive(Default)]
struct Kinds(Vec<ToolKind>);

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Some {
            One(String),
            Many(Vec<String>),
        }
        let words = match Some::deserialize(deserializer)? {
            Some::One(word) => vec![word],
            Some::Many(words) => words,
        };
        let kinds: Result<Vec<ToolKind>, String> = words.iter().map(|word| kind(word)).collect();
        kinds.map(Self).map_err(serde::de::Error::custom)
    }
}

/// The rules of a user's file, `{"rules": [...]}`.
///
/// # Errors
///
/// It is none; with line and column where JSON has them.
pub fn rules(bytes: &[u8], from: &str) -> Result<Vec<Rule>, Wrong> {
    let File { rules } = serde_json::from_slice(bytes).map_err(|error| Wrong(error.to_string()))?;
    rules.into_iter().enumerate().map(|(at, written)| written.rule(&format!("{from} rules[{at}]"))).collect()
}

/// The rules of a project's settings, `{"permissions": {"rules": [...]}}`. Whatever else is in them is not looked at.
///
/// # Errors
///
/// As [`rules`]; also a rule that would allow something, which no project may.
pub fn project_rules(bytes: &[u8], from: &str) -> Result<Vec<Rule>, Wrong> {
    let Settings { permissions } = serde_json::from_slice(bytes).map_err(|error| Wrong(error.to_string()))?;
    let rules = permissions.map(|file| file.rules).unwrap_or_default();
    let rules = rules.into_iter().enumerate().map(|(at, written)| {
        if written.then.allows() {
            return Err(Wrong(format!("rules[{at}]: a project may ask or reject, and allow nothing")));
        }
        written.rule(&format!("{from} rules[{at}]"))
    });
    rules.collect()
}

/// A word of a command line, `KIND` or `KIND:PATTERN`: what a command begins with for `execute`, else a path.
///
/// # Errors
///
/// The kind is none, or the pattern is empty.
pub fn flag(word: &str, then: Then, from: &str) -> Result<Rule, Wrong> {
    let (name, pattern) = match word.split_once(':') {
        Some((_, "")) => return Err(Wrong(format!("{word}: nothing after the colon"))),
        Some((name, pattern)) => (name, Some(pattern.to_owned())),
        None => (word, None),
    };
    let kinds = if name == "*" { Vec::new() } else { vec![kind(name).map_err(Wrong)?] };
    let is_command = kinds == [ToolKind::Execute];
    let (command, path) = if is_command { (pattern, None) } else { (None, pattern) };
    Written { kind: Kinds(kinds), tool: None, command, path, then }.rule(from)
}

impl Written {
    fn rule(self, from: &str) -> Result<Rule, Wrong> {
        let Self { kind: Kinds(kinds), tool, command, path, then } = self;
        let from: Arc<str> = from.into();
        let command: Option<Vec<String>> =
            command.map(|command| command.split_whitespace().map(str::to_owned).collect());
        let empty = [
            ("tool", tool.as_ref().is_some_and(String::is_empty)),
            ("command", command.as_ref().is_some_and(Vec::is_empty)),
            ("path", path.as_ref().is_some_and(String::is_empty)),
        ];
        if let Some((what, _)) = empty.into_iter().find(|(_, is_empty)| *is_empty) {
            return Err(Wrong(format!("{from}: {what} is empty, which would fit any call; leave it out")));
        }
        Ok(Rule { kinds, tool, command: command.unwrap_or_default(), path, then, from })
    }
}

fn kind(word: &str) -> Result<ToolKind, String> {
    KINDS.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.as_str()).collect();
        format!("{word} is no kind of tool; one of {}", known.join(", "))
    })
}

const KINDS: [ToolKind; 10] = [
    ToolKind::Read,
    ToolKind::Edit,
    ToolKind::Delete,
    ToolKind::Move,
    ToolKind::Search,
    ToolKind::Execute,
    ToolKind::Think,
    ToolKind::Fetch,
    ToolKind::SwitchMode,
    ToolKind::Other,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_rule_is_refused_with_its_place() {
        for (file, why) in [
            ("", "EOF while parsing"),
            ("[]", "invalid"),
            (r#"{"rules":[],"rule":[]}"#, "unknown field `rule`"),
            (
                "{\"rules\":[\n {\"kinds\":\"read\",\"then\":\"allow\"}]}",
                "unknown field `kinds`, expected one of `kind`, `tool`, `command`, `path`, `then` at line 2",
            ),
            (r#"{"rules":[{"kind":"reed","then":"allow"}]}"#, "reed is no kind of tool; one of read, edit"),
            (r#"{"rules":[{"kind":"read"}]}"#, "missing field `then`"),
            (r#"{"rules":[{"then":"maybe"}]}"#, "unknown variant `maybe`, expected one of `allow`"),
            (r#"{"rules":[{"then":"ask"},{"command":" ","then":"allow"}]}"#, "f rules[1]: command is empty"),
        ] {
            let wrong = rules(file.as_bytes(), "f").expect_err(file).to_string();
            assert!(wrong.contains(why), "{file}: {wrong}");
        }
        let wrong = project_rules(br#"{"permissions":{"rules":[{"then":"ask"},{"then":"allow"}]}}"#, "f");
        assert_eq!(
            wrong.expect_err("it allows").to_string(),
            "rules[1]: a project may ask or reject, and allow nothing"
        );
        assert_eq!(project_rules(br#"{"theme":"dark"}"#, "f"), Ok(Vec::new()));
    }

    #[test]
    fn a_word_of_a_command_line_is_a_kind_and_what_it_works_on() {
        for (word, tests) in [
            ("read", "read"),
            ("*", "any call"),
            ("execute:git status", "execute, command git status"),
            ("edit:src", "edit, path src"),
            ("*:/etc", "path /etc"),
        ] {
            let rule = flag(word, Then::Ask, "--ask").expect(word);
            assert_eq!((&*rule.tests(), rule.then), (tests, Then::Ask));
        }
        for word in ["", "reads", "read:", "execute: "] {
            assert!(flag(word, Then::Allow, "--allow").is_err(), "{word}");
        }
    }
}
