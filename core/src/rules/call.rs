//! What a rule looks at in a call, as the agent tells it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Rule, Then};
use crate::acp::Json;
use crate::acp::update::{ToolCallUpdate, ToolContent, ToolKind};

/// A call, made ready for tests.
pub(super) struct Call<'a> {
    kind: ToolKind,
    name: Option<&'a str>,
    /// The command lines, where it runs any.
    commands: Vec<String>,
    /// Variables are set for them.
    is_set: bool,
    /// Absolute, without `.` and `..`.
    paths: Vec<String>,
    cwd: &'a str,
}

impl<'a> Call<'a> {
    pub(super) fn of(call: &'a ToolCallUpdate, cwd: &'a str) -> Self {
        let input: Input = call.raw_input.as_ref().map(Input::read).unwrap_or_default();
        let locations = call.locations.iter().flatten().map(|location| &*location.path);
        let diffs = call.content.iter().flatten().filter_map(|content| match content {
            ToolContent::Diff(diff) => Some(&*diff.path),
            ToolContent::Content(_) | ToolContent::Terminal(_) | ToolContent::Unknown(_) => None,
        });
        let named = locations.chain(diffs).chain(input.paths.iter().map(String::as_str));
        let mut paths: Vec<String> = named.map(|path| absolute(cwd, path)).collect();
        paths.dedup();
        Self {
            kind: call.kind.unwrap_or_default(),
            name: call.name.as_deref(),
            commands: input.commands,
            is_set: input.is_set,
            paths,
            cwd,
        }
    }

    pub(super) fn fits(&self, rule: &Rule) -> bool {
        let allows = rule.then.allows();
        (rule.kinds.is_empty() || rule.kinds.contains(&self.kind))
            && rule.tool.as_deref().is_none_or(|tool| self.name == Some(tool))
            && (rule.command.is_empty() || self.runs(&rule.command, rule.then))
            && rule.path.as_deref().is_none_or(|path| self.touches(path, allows))
    }

    fn runs(&self, words: &[String], then: Then) -> bool {
        if then.allows() {
            // Another command may hide behind any of these.
            let is_it = |line: &String| !line.contains(SHELL) && is(line, words);
            return !self.is_set && !self.commands.is_empty() && self.commands.iter().all(is_it);
        }
        self.commands.iter().flat_map(|line| line.split(SHELL)).any(|command| runs(command, words))
    }

    fn touches(&self, path: &str, all: bool) -> bool {
        let folder = absolute(self.cwd, path);
        let is_in = |path: &String| {
            path.strip_prefix(&folder)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder == "/")
        };
        if all {
            !self.paths.is_empty() && self.paths.iter().all(is_in)
        } else {
            self.paths.iter().any(is_in)
        }
    }
}

/// What can put more than one command into a line.
const SHELL: [char; 12] = [';', '&', '|', '\n', '\r', '`', '$', '(', ')', '<', '>', '\\'];

/// Whether a command begins with exactly these words: what is set before it, or runs it, or another program of that name,
/// makes it another command.
fn is(command: &str, words: &[String]) -> bool {
    let mut own = command.split_whitespace();
    words.iter().all(|word| own.next() == Some(word))
}

/// Whether a command may run these words: wherever its program is, whatever is set before it, and anywhere behind what
/// only runs the rest, whose own options nobody knows.
fn runs(command: &str, words: &[String]) -> bool {
    let words_of = command.split_whitespace().map(|word| word.trim_matches(['"', '\'', '{', '}']));
    let own: Vec<&str> = words_of.skip_while(|word| is_set(word)).collect();
    let begins = |own: &[&str]| {
        own.len() >= words.len()
            && own.iter().zip(words).all(|(own, word)| own == word || program(own) == word)
    };
    let is_runner = own.first().is_some_and(|first| RUNS_OTHERS.contains(&program(first)));
    begins(&own) || (is_runner && (1..own.len()).any(|at| begins(&own[at..])))
}

fn is_set(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The name of a program that is given by its path.
fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Programs that run the rest of the line.
const RUNS_OTHERS: [&str; 9] = ["sudo", "doas", "env", "exec", "command", "nohup", "time", "nice", "xargs"];

/// A path without `.` and `..`, from the workspace on.
fn absolute(cwd: &str, path: &str) -> String {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{cwd}/{path}") };
    let mut steps: Vec<&str> = Vec::new();
    for step in whole.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

/// What goes into a tool, by the names that agents use.
#[derive(Default)]
struct Input {
    commands: Vec<String>,
    paths: Vec<String>,
    is_set: bool,
}

impl Input {
    fn read(raw: &Json) -> Self {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Line {
            Whole(String),
            Words(Vec<String>),
            Pairs(BTreeMap<String, IgnoredAny>),
            List(Vec<IgnoredAny>),
            Else(IgnoredAny),
        }
        let Ok(members) = serde_json::from_str::<BTreeMap<String, Line>>(raw.get()) else {
            return Self::default();
        };
        let mut input = Self::default();
        for (name, line) in members {
            match (&*name, line) {
                ("command" | "cmd" | "commandLine" | "script", Line::Whole(line)) => {
                    input.commands.push(line)
                }
                ("command" | "cmd" | "argv", Line::Words(words)) => input.commands.extend(lines_of(&words)),
                (name, Line::Whole(path)) if PATHS.contains(&name) => input.paths.push(path),
                (name, Line::Words(paths)) if PATHS.contains(&name) => input.paths.extend(paths),
                ("env", Line::Words(names)) => input.is_set |= !names.is_empty(),
                ("env", Line::Pairs(pairs)) => input.is_set |= !pairs.is_empty(),
                ("env", Line::List(pairs)) => input.is_set |= !pairs.is_empty(),
                (_, Line::Whole(_) | Line::Words(_) | Line::Pairs(_) | Line::List(_) | Line::Else(_)) => {}
            }
        }
        input
    }
}

/// The command lines of a list of words: that of a shell is what it is given to run. A shell of the agent's own may run
/// anything, so it is a command as well.
fn lines_of(words: &[String]) -> Vec<String> {
    match words {
        [shell, flags, script, ..]
            if flags.starts_with('-') && flags.ends_with('c') && SHELLS.contains(&program(shell)) =>
        {
            let folder = shell.strip_suffix(program(shell)).unwrap_or_default();
            let is_known = SHELL_FOLDERS.contains(&folder) && words.len() == 3;
            let itself = (!is_known).then(|| words.join(" "));
            itself.into_iter().chain([script.clone()]).collect()
        }
        words => vec![words.join(" ")],
    }
}

const SHELLS: [&str; 5] = ["sh", "bash", "zsh", "dash", "fish"];
const SHELL_FOLDERS: [&str; 3] = ["", "/bin/", "/usr/bin/"];
const PATHS: [&str; 9] = [
    "path",
    "paths",
    "file",
    "file_path",
    "filePath",
    "abs_path",
    "absolute_path",
    "notebook_path",
    "directory",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(rule: &str, call: &serde_json::Value) -> bool {
        let rules = super::super::rules(format!(r#"{{"rules":[{rule}]}}"#).as_bytes(), "f").expect("a rule");
        let call: ToolCallUpdate = serde_json::from_str(&call.to_string()).expect("a call");
        Call::of(&call, "/w").fits(&rules[0])
    }

    #[test]
    fn to_allow_a_command_it_must_be_alone_and_to_reject_it_may_stand_anywhere() {
        let allow = r#"{"command":"git status","then":"allow"}"#;
        let reject = r#"{"command":"rm","then":"reject"}"#;
        let call = |line: &str| json!({"toolCallId": "c", "rawInput": {"command": line}});
        for (line, allowed, rejected) in [
            ("git status", true, false),
            ("git status --short", true, false),
            ("A=1 git status", false, false),
            ("sudo git status", false, false),
            ("/tmp/x/git status", false, false),
            ("sudo -n rm x", false, true),
            ("A=1 xargs -0 -n 1 /bin/rm", false, true),
            ("sudo -u me git status", false, false),
            ("git  status -s", true, false),
            ("git stat", false, false),
            ("git statusx", false, false),
            ("git status; rm -rf /", false, true),
            ("git status && rm x", false, true),
            ("git status $(rm x)", false, true),
            ("git status\nrm x", false, true),
            ("git status | xargs rm", false, true),
            ("git status > x", false, false),
            ("sudo /bin/rm -rf /", false, true),
            ("echo rm", false, false),
            ("", false, false),
        ] {
            assert_eq!(fits(allow, &call(line)), allowed, "allow {line}");
            assert_eq!(fits(reject, &call(line)), rejected, "reject {line}");
        }
        for words in [
            json!(["git", "status"]),
            json!(["bash", "-lc", "git status"]),
            json!(["/bin/sh", "-c", "git status"]),
        ] {
            assert!(fits(allow, &json!({"toolCallId": "c", "rawInput": {"command": words}})), "{words}");
        }
        for (env, allowed) in [
            (json!({}), true),
            (json!([]), true),
            (json!(null), true),
            (json!({"GIT_SSH": "/tmp/x"}), false),
            (json!([{"name": "PATH", "value": "/tmp/x"}]), false),
            (json!(["PATH"]), false),
        ] {
            let input = json!({"command": "git status", "env": env});
            let call = json!({"toolCallId": "c", "rawInput": input});
            assert_eq!(fits(allow, &call), allowed, "{env} makes another command of it");
        }
        let set = json!({"command": "rm x", "env": ["A"]});
        assert!(fits(reject, &json!({"toolCallId": "c", "rawInput": set})));
        for input in [
            json!({"command": ["/tmp/x/bash", "-c", "git status"]}),
            json!({"command": ["bash", "-c", "git status", "more"]}),
            json!({"command": "git status", "script": "rm x"}),
        ] {
            assert!(!fits(allow, &json!({"toolCallId": "c", "rawInput": input})), "{input}");
        }
        let both = json!({"command": "rm x", "script": "git status"});
        assert!(fits(reject, &json!({"toolCallId": "c", "rawInput": both})), "any of them");
        assert!(!fits(allow, &json!({"toolCallId": "c", "title": "git status"})), "a title is for people");
    }

    #[test]
    fn to_allow_all_paths_must_lie_in_the_folder_and_to_reject_one() {
        let (allow, reject) = (r#"{"path":"src","then":"allow"}"#, r#"{"path":"/etc","then":"reject"}"#);
        let call = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(|path| json!({"path": path})).collect();
            json!({"toolCallId": "c", "locations": paths})
        };
        for (paths, allowed, rejected) in [
            (&["/w/src/a"][..], true, false),
            (&["/w/src"], true, false),
            (&["src/./b"], true, false),
            (&["/w/src/../../etc/passwd"], false, true),
            (&["/w/srcs/a"], false, false),
            (&["/w/src/a", "/w/b"], false, false),
            (&["/w/src/a", "/etc/x"], false, true),
            (&[], false, false),
        ] {
            assert_eq!(fits(allow, &call(paths)), allowed, "allow {paths:?}");
            assert_eq!(fits(reject, &call(paths)), rejected, "reject {paths:?}");
        }
        let diff = json!({"toolCallId": "c", "content": [{"type": "diff", "path": "/etc/x", "newText": ""}]});
        let input = json!({"toolCallId": "c", "rawInput": {"file_path": "/etc/x", "n": 5}});
        assert!(fits(reject, &diff) && fits(reject, &input));
        assert!(fits(r#"{"path":"/","then":"reject"}"#, &input));
    }
}
