//! Ways to log in (ACP, authentication), and the pre-standard forms that agents still write.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::acp::Json;
use crate::acp::lenient::{items, or_default, or_null};

/// A way to log in.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct AuthMethod {
    /// The id that `authenticate` takes.
    pub id: String,
    /// The name for people.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// What it is, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `terminal`: run the agent's command again, interactively. Absent or anything else: the agent does it.
    #[serde(
        rename = "type",
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub kind: Option<String>,
    /// For `terminal`: arguments to append to the agent's command.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// For `terminal`: variables to lay over the agent's environment.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// For `env_var`, which older agents have: the variables that hold the key.
    #[serde(default, deserialize_with = "items", skip_serializing_if = "Vec::is_empty")]
    pub vars: Vec<Variable>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A variable of the agent's environment.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// What the agent looks for it by.
    pub name: String,
}

/// A program that logs in, to be run in a person's terminal.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct TerminalLogin {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables to lay over the environment that the agent has.
    pub env: BTreeMap<String, String>,
}

impl AuthMethod {
    /// Whether the client runs it, as the agent's command once more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.kind.as_deref() == Some("terminal")
    }

    /// What to run in a terminal to log in by this method; `None`: the agent does it itself.
    ///
    /// `agent` is the agent's own command, and `runs` says whether an absolute path is a program. A whole command in
    /// `_meta`, as written before there was a type for it, counts for more. Else the method's arguments take the place
    /// of what puts the agent into its ACP mode, unless they are a whole command themselves.
    #[must_use]
    pub fn terminal(&self, agent: &[String], runs: impl Fn(&str) -> bool) -> Option<TerminalLogin> {
        let is_program = |word: &String| word.starts_with('/') && runs(word);
        if let Some(Whole { command, args, env }) = self.whole().filter(|whole| is_program(&whole.command)) {
            let command = std::iter::once(command).chain(args).collect();
            return Some(TerminalLogin { command, env });
        }
        if !self.is_terminal() {
            return None;
        }
        let own = self.args.first().is_some_and(is_program);
        let agent = agent.iter().filter(|_| !own).filter(|word| !is_acp_switch(word));
        let command = agent.chain(&self.args).cloned().collect();
        Some(TerminalLogin { command, env: self.env.clone() })
    }

    /// The whole command in `_meta`.
    fn whole(&self) -> Option<Whole> {
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "terminal-auth", default, deserialize_with = "or_default")]
            whole: Option<Whole>,
        }
        let meta: Meta = serde_json::from_str(self.meta.as_ref()?.get()).ok()?;
        meta.whole
    }
}

#[derive(Deserialize)]
struct Whole {
    command: String,
    #[serde(default, deserialize_with = "or_default")]
    args: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    env: BTreeMap<String, String>,
}

/// Whether a word of an agent's command line puts it into its ACP mode.
fn is_acp_switch(word: &str) -> bool {
    matches!(word, "acp" | "--acp" | "--experimental-acp") || word.starts_with("--acp=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(method: &str, agent: &[&str]) -> Option<String> {
        let method: AuthMethod = serde_json::from_str(method).expect("a method");
        let agent: Vec<String> = agent.iter().map(|word| (*word).to_owned()).collect();
        let login = method.terminal(&agent, |path| path.starts_with("/bin/"))?;
        let env = login.env.iter().map(|(name, value)| format!("{name}={value}"));
        Some(env.chain(login.command).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_command_of_a_terminal_login_is_read_as_agents_write_it() {
        for (method, agent, runs) in [
            // The agent does it.
            (r#"{"id":"a"}"#, &["x", "--acp"][..], None),
            (r#"{"id":"a","type":"agent","args":["y"]}"#, &["x"], None),
            // Arguments instead of the ACP switch.
            (
                r#"{"id":"a","type":"terminal","args":["login"],"env":{"A":"1"}}"#,
                &["x", "-v", "--acp"],
                Some("A=1 x -v login"),
            ),
            (r#"{"id":"a","type":"terminal","args":["login"]}"#, &["x", "acp"], Some("x login")),
            (r#"{"id":"a","type":"terminal"}"#, &["x", "--experimental-acp"], Some("x")),
            // Arguments that are a whole command.
            (
                r#"{"id":"a","type":"terminal","args":["/bin/x","--setup"]}"#,
                &["x", "--acp"],
                Some("/bin/x --setup"),
            ),
            // A whole command from before there was a type.
            (
                r#"{"id":"a","_meta":{"terminal-auth":{"command":"/bin/x","args":["login"],"env":{"B":"2"},"label":"L"}}}"#,
                &["y"],
                Some("B=2 /bin/x login"),
            ),
            (
                r#"{"id":"a","type":"terminal","args":["--login"],"_meta":{"terminal-auth":{"command":"/bin/x","args":["login"]}}}"#,
                &["y"],
                Some("/bin/x login"),
            ),
            // Which is none: no absolute path, no program, no command.
            (r#"{"id":"a","_meta":{"terminal-auth":{"command":"x"}}}"#, &["y"], None),
            (
                r#"{"id":"a","type":"terminal","_meta":{"terminal-auth":{"command":"/gone"}}}"#,
                &["y"],
                Some("y"),
            ),
            (r#"{"id":"a","type":"terminal","_meta":{"terminal-auth":true}}"#, &["y"], Some("y")),
        ] {
            assert_eq!(command(method, agent).as_deref(), runs, "{method}");
        }
    }

    #[test]
    fn a_method_that_wants_a_variable_names_it() {
        let method = r#"{"id":"k","name":"Key","type":"env_var","vars":[{"name":"A_KEY"},5,{"name":"B_KEY","secret":true}]}"#;
        let method: AuthMethod = serde_json::from_str(method).expect("a method");
        let names: Vec<&str> = method.vars.iter().map(|var| &*var.name).collect();
        assert_eq!(names, ["A_KEY", "B_KEY"]);
    }
}
