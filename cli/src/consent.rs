//! Who answers what the agent asks: the rules of permission, the policy, and values for forms.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;

use agentline_core::conversation::Questions;
use agentline_core::rules::{self, Rule, Rules, Then};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{self, Consent, Permission, Permits};
use crate::plan::{is_interactive, policy};
use crate::prompt::{self, usage};
use crate::words::Problem;
use agentline_core::conversation::Policy;

/// A rule as it is shown.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Row {
    /// What follows.
    pub(crate) then: &'static str,
    /// Of which calls.
    pub(crate) calls: String,
    /// Where it stands.
    pub(crate) from: String,
    /// It can only be stricter than what the rules of the user say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) project: bool,
}

impl Row {
    /// Of which calls, and where it stands.
    pub(crate) fn about(&self) -> String {
        let only = if self.project { ", only if stricter" } else { "" };
        format!("{} ({}{only})", self.calls, self.from)
    }
}

impl args::Rules {
    /// The user's rules: those of the command line, the strictest first, and then those of the file.
    pub(crate) fn read(&self) -> Result<Vec<Rule>, Problem> {
        let flags = [
            ("--reject", &self.reject, Then::Reject),
            ("--ask", &self.ask, Then::Ask),
            ("--allow", &self.allow, Then::Allow),
        ];
        let mut own = Vec::new();
        for (option, words, then) in flags {
            for word in words {
                let rule = rules::flag(word, then, &format!("{option} {word}"));
                own.push(rule.map_err(|wrong| usage(format!("{option}: {wrong}")))?);
            }
        }
        if let Some(file) = &self.permission_rules {
            const OPTION: &str = "--permission-rules";
            let bytes = prompt::read(OPTION, file, prompt::TEXT)?;
            let more = rules::rules(&bytes, &file.to_string_lossy());
            own.extend(more.map_err(|wrong| {
                prompt::of_file(OPTION, file, format_args!("is no list of rules: {wrong}"))
            })?);
        }
        Ok(own)
    }
}

impl Permits {
    /// What decides about permissions, in the order it is asked.
    pub(crate) fn table(&self, rules: &Rules) -> Vec<Row> {
        let row = |rule: &Rule, project| Row {
            then: rule.then.as_str(),
            calls: rule.tests(),
            from: rule.from.to_string(),
            project,
        };
        let (then, from) = match policy(self.permission) {
            Policy::Ask => ("ask", "--permission ask"),
            Policy::Allow(_) => ("allow", "--permission allow"),
            Policy::Reject | Policy::Cancel => ("reject", "--permission reject"),
            Policy::Fail => ("reject", "--permission fail"),
        };
        let from = if self.permission.is_none() { "by default" } else { from };
        let last = Row { then, calls: "any other call".into(), from: from.into(), project: false };
        let own = rules.own.iter().map(|rule| row(rule, false));
        own.chain([last]).chain(rules.project.iter().map(|rule| row(rule, true))).collect()
    }
}

impl Consent {
    /// Who answers forms and pages.
    pub(crate) fn questions(&self) -> Result<Questions, Problem> {
        Ok(match &self.answers {
            Some(file) => Questions::Given(answers(file)?),
            None if self.permits.permission == Some(Permission::Hub) => Questions::Decline,
            None if is_interactive() || self.permits.permission == Some(Permission::Ask) => Questions::Ask,
            None => Questions::Decline,
        })
    }
}

/// The rules of the project in that folder, if it has some.
pub(crate) fn of_project(workspace: &Path) -> Result<Vec<Rule>, Problem> {
    let file = workspace.join(PROJECT);
    let bytes = match std::fs::symlink_metadata(&file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Ok(_) | Err(_) => prompt::read("the project's settings", &file, SETTINGS)?,
    };
    let wrong = |why: &dyn Display| usage(format!("{} is no settings file: {why}", file.display()));
    rules::project_rules(&bytes, PROJECT).map_err(|error| wrong(&error))
}

/// Values for forms, by field: texts, numbers, true, false and lists of texts.
fn answers(file: &Path) -> Result<Map<String, Value>, Problem> {
    const OPTION: &str = "--answers";
    let wrong = |why: &dyn Display| prompt::of_file(OPTION, file, format_args!("{why}"));
    let bytes = prompt::read(OPTION, file, prompt::TEXT)?;
    let values: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
    let Value::Object(values) = values else { return Err(wrong(&"it is no object of field to value")) };
    for (field, value) in &values {
        let fits = match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
            Value::Array(list) => list.iter().all(Value::is_string),
            Value::Null | Value::Object(_) => false,
        };
        if !fits {
            return Err(wrong(&format_args!(
                "{field} is neither a text, a number, true, false, nor a list of texts"
            )));
        }
    }
    Ok(values)
}

/// What a project says about itself.
const PROJECT: &str = ".agentline/settings.json";
/// Bytes of that.
const SETTINGS: usize = 1 << 20;
