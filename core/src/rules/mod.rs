//! Rules of permission: what may be done, decided by what a call is and before anybody is asked.
//!
//! The rules of a user are a list, and the first one that fits a call decides. Those of a project are another list, and
//! they can only be stricter: of both decisions the stricter one holds, `reject` before `ask` before `allow`.
//!
//! ```text
//!  call ──► the user's rules, else the policy ──┐
//!    └────► the project's rules ────────────────┴──► the stricter of both
//! ```
//!
//! A rule tests the kind of a tool, its name, the command that it runs and the paths that it touches, as the agent
//! tells them. So rules are a fence for an honest agent that errs; what a lying one does, they do not stop.

mod call;
mod read;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::acp::update::{ToolCallUpdate, ToolKind};
use crate::acp::{OptionKind, PermissionOption, PermissionRequest};

use call::Call;
pub use read::{Wrong, flag, project_rules, rules};

/// The rules of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rules {
    /// The user's, the first that fits counts.
    pub own: Vec<Rule>,
    /// The project's, which can only be stricter.
    pub project: Vec<Rule>,
}

/// One rule. A test that is absent fits any call.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Kinds of tools, any of them. Empty: every kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<ToolKind>,
    /// The tool's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The first words of the command. To allow, there must be no other command beside it; to ask or reject, it may
    /// stand anywhere in the line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A file or folder, relative to the workspace. To allow, all paths of the call must lie in it; to ask or reject,
    /// one of them. Links are not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What a call that fits comes to.
    pub then: Then,
    /// Where it stands, for people.
    pub from: Arc<str>,
}

/// What follows from a rule. An option for good is chosen only where the rule says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The call may run, this once.
    Allow,
    /// It and those like it may run, by an option of the agent's.
    AllowAlways,
    /// A person is asked; where there is none, it may not run.
    Ask,
    /// The call may not run, this once.
    Reject,
    /// Neither it nor those like it may run, by an option of the agent's.
    RejectAlways,
}

impl Rules {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.own.is_empty() && self.project.is_empty()
    }

    /// The rule that decides about a call in that workspace, where one does. `otherwise`: what follows where the user
    /// has no rule for it.
    #[must_use]
    pub fn decide(&self, call: &ToolCallUpdate, cwd: &str, otherwise: Then) -> Option<&Rule> {
        if self.is_empty() {
            return None;
        }
        let call = Call::of(call, cwd);
        let first = |rules: &'_ [Rule]| rules.iter().position(|rule| call.fits(rule));
        let own = first(&self.own).and_then(|at| self.own.get(at));
        let project = first(&self.project).and_then(|at| self.project.get(at));
        let so_far = own.map_or(otherwise, |rule| rule.then).strictness();
        project.filter(|rule| rule.then.strictness() > so_far).or(own)
    }
}

impl Then {
    const fn strictness(self) -> u8 {
        match self {
            Self::Allow | Self::AllowAlways => 0,
            Self::Ask => 1,
            Self::Reject | Self::RejectAlways => 2,
        }
    }

    /// Whether it lets the call run.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Allow | Self::AllowAlways)
    }

    /// The word for it in a file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowAlways => "allow_always",
            Self::Ask => "ask",
            Self::Reject => "reject",
            Self::RejectAlways => "reject_always",
        }
    }

    /// The option that stands for it; none, if the agent offers none or a person is to be asked.
    #[must_use]
    pub fn option(self, asked: &PermissionRequest) -> Option<&PermissionOption> {
        asked.first_of(match self {
            Self::Allow => &[OptionKind::AllowOnce],
            Self::AllowAlways => &[OptionKind::AllowAlways, OptionKind::AllowOnce],
            Self::Ask => &[],
            Self::Reject => &[OptionKind::RejectOnce],
            Self::RejectAlways => &[OptionKind::RejectAlways, OptionKind::RejectOnce],
        })
    }
}

impl Rule {
    /// What it tests, in a few words.
    #[must_use]
    pub fn tests(&self) -> String {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
        let tests = [
            (!kinds.is_empty()).then(|| kinds.join(",")),
            self.tool.as_ref().map(|tool| format!("tool {tool}")),
            (!self.command.is_empty()).then(|| format!("command {}", self.command.join(" "))),
            self.path.as_ref().map(|path| format!("path {path}")),
        ];
        let tests: Vec<String> = tests.into_iter().flatten().collect();
        if tests.is_empty() { "any call".to_owned() } else { tests.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(own: &str, project: &str) -> Rules {
        Rules {
            own: super::rules(own.as_bytes(), "own").expect("rules"),
            project: project_rules(project.as_bytes(), "project").expect("rules"),
        }
    }

    fn decided(rules: &Rules, call: &serde_json::Value, otherwise: Then) -> String {
        let call: ToolCallUpdate = serde_json::from_str(&call.to_string()).expect("a call");
        let rule = rules.decide(&call, "/w", otherwise);
        rule.map_or_else(|| "-".to_owned(), |rule| format!("{} {}", rule.then.as_str(), rule.from))
    }

    #[test]
    fn the_first_rule_that_fits_counts_and_a_project_is_only_stricter() {
        let own = r#"{"rules":[{"kind":"read","then":"allow"},{"kind":["read","edit"],"then":"reject"},{"tool":"web","then":"allow_always"}]}"#;
        let project = r#"{"permissions":{"rules":[{"path":"secret","then":"reject"},{"kind":"execute","then":"ask"}]}}"#;
        let rules = rules(own, project);
        let read = |path: &str| json!({"toolCallId": "c", "kind": "read", "locations": [{"path": path}]});
        for (call, otherwise, said) in [
            (read("/w/a"), Then::Ask, "allow own rules[0]"),
            (read("/w/secret/a"), Then::Ask, "reject project rules[0]"),
            (json!({"toolCallId": "c", "kind": "edit"}), Then::Allow, "reject own rules[1]"),
            (json!({"toolCallId": "c", "name": "web"}), Then::Ask, "allow_always own rules[2]"),
            (json!({"toolCallId": "c", "kind": "execute"}), Then::Allow, "ask project rules[1]"),
            // What the user's policy says already is not said again by a project.
            (json!({"toolCallId": "c", "kind": "execute"}), Then::Ask, "-"),
            (json!({"toolCallId": "c", "kind": "execute"}), Then::Reject, "-"),
            (json!({"toolCallId": "c"}), Then::Allow, "-"),
        ] {
            assert_eq!(decided(&rules, &call, otherwise), said, "{call}");
        }
    }

    #[test]
    fn whatever_a_project_says_nothing_becomes_laxer() {
        let kinds = ["read", "edit", "execute", "other"];
        let lists = [
            "[]",
            r#"[{"then":"ask"}]"#,
            r#"[{"kind":"read","then":"reject"}]"#,
            r#"[{"kind":"edit","then":"reject"},{"then":"ask"}]"#,
        ];
        let own = [
            "[]",
            r#"[{"then":"allow"}]"#,
            r#"[{"kind":"read","then":"ask"},{"kind":"edit","then":"reject"}]"#,
        ];
        for own in own {
            for project in lists {
                for kind in kinds {
                    for otherwise in [Then::Allow, Then::Ask, Then::Reject] {
                        let own = format!(r#"{{"rules":{own}}}"#);
                        let call: ToolCallUpdate =
                            serde_json::from_str(&json!({"toolCallId": "c", "kind": kind}).to_string())
                                .expect("a call");
                        let strictness = |project: &str| {
                            let project = format!(r#"{{"permissions":{{"rules":{project}}}}}"#);
                            let rules = rules(&own, &project);
                            rules
                                .decide(&call, "/w", otherwise)
                                .map_or(otherwise, |rule| rule.then)
                                .strictness()
                        };
                        assert!(strictness(project) >= strictness("[]"), "{own} {project} {kind}");
                    }
                }
            }
        }
    }
}
