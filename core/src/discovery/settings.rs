//! The user's switches: which agents are on, which is the default, which variables each may have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::folders::Folders;
use super::json::{self, Position};
use super::launch::Environment;
use crate::hub::api::{ToolRules, Transcripts};
use crate::machine::{Change, Store};

/// `settings.json`. Fields that this version does not know are kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The agent that runs when none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<String>,
    /// What is known per id, also of agents that are not installed now.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    agents: BTreeMap<String, Switches>,
    /// The command, with its arguments, that is told when something waits or is over and nobody looks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// Other machines, and how each is reached.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Host>,
    /// Commands that speak Galley's runner protocol, by id, as they are written: [`Runner`](super::Runner) says what each
    /// may hold. One that makes no sense is a problem of its own, and the settings count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runners: BTreeMap<String, Value>,
    /// The tools that runners need not ask about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_rules: Option<ToolRules>,
    /// Of which conversations a hub keeps what was said: `none`, or `runners`. Absent: of those with runners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcripts: Option<Transcripts>,
    /// Whether a hub takes in agents that run already and dial in. Absent: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<bool>,
    /// Everything that this version does not know, kept as it is.
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// How the hub of another machine is reached: by a command whose stdin and stdout are those of `agentline hub pipe`
/// there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Host {
    /// By this command, as it is.
    Command(Vec<String>),
    /// By ssh, to a host of that name. What the object holds is kept as it is.
    Ssh(BTreeMap<String, Value>),
}

/// What the user decided about one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Switches {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    /// Names of variables, never their values.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    env: BTreeSet<String>,
    /// A file of variables with their values, read when the hub starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env_file: Option<PathBuf>,
    /// Milliseconds that its handshake with the hub may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    init_timeout_ms: Option<u64>,
    /// The hub runs commands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_terminal: Option<bool>,
    /// The hub reads and writes files of a session's workspace for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_files: Option<bool>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// The file is not what we wrote: it is left alone until somebody mends it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the settings cannot be read ({0}): mend or remove the file")]
pub struct BadSettings(pub Position);

/// A name that no variable can have.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a variable's name is not empty and has no `=`")]
pub struct BadName;

impl Settings {
    /// Reads a settings file. An empty one holds no decisions.
    ///
    /// # Errors
    ///
    /// It is no JSON object, or a field we know has another form.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadSettings> {
        if bytes.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        json::object(bytes).map_err(BadSettings)
    }

    /// The file to write.
    #[must_use]
    pub fn store(&self, folders: &Folders) -> Store {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        Store { path: folders.settings(), change: Change::Put { bytes: bytes.into(), mode: 0o600 } }
    }

    /// Whether an agent is on. All are until somebody says otherwise.
    #[must_use]
    pub fn is_enabled(&self, id: &str) -> bool {
        self.agents.get(id).and_then(|agent| agent.enabled).unwrap_or(true)
    }

    /// Switches an agent on or off, installed or not; whether that changed anything.
    pub fn enable(&mut self, id: &str, on: bool) -> bool {
        let changes = self.is_enabled(id) != on;
        if changes {
            self.agent(id).enabled = Some(on);
        }
        changes
    }

    /// Remembers that an agent may have a variable of ours; whether that is news.
    ///
    /// # Errors
    ///
    /// No variable can have that name. A value, as in `NAME=value`, is never remembered.
    pub fn remember_env(&mut self, id: &str, name: &str) -> Result<bool, BadName> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(BadName);
        }
        Ok(self.agent(id).env.insert(name.into()))
    }

    /// The names of the variables that an agent may have.
    pub fn env_names(&self, id: &str) -> impl Iterator<Item = &str> {
        let runner = self.runners.get(id).and_then(|runner| runner.get("env")?.as_array());
        let of_runner = runner.into_iter().flatten().filter_map(Value::as_str);
        let said = self.agents.get(id).into_iter().flat_map(|agent| agent.env.iter().map(String::as_str));
        said.chain(of_runner)
    }

    /// The file of variables that the hub gives an agent, read at each of its starts.
    #[must_use]
    pub fn env_file(&self, id: &str) -> Option<&Path> {
        self.agents.get(id)?.env_file.as_deref()
    }

    /// Remembers that file, which is absolute.
    pub fn set_env_file(&mut self, id: &str, file: PathBuf) {
        self.agent(id).env_file = Some(file);
    }

    /// How long an agent's handshake with the hub may take, if that was said.
    #[must_use]
    pub fn init_timeout(&self, id: &str) -> Option<Duration> {
        self.agents.get(id)?.init_timeout_ms.map(Duration::from_millis)
    }

    /// Remembers how long its handshake may take.
    pub fn set_init_timeout(&mut self, id: &str, limit: Duration) {
        self.agent(id).init_timeout_ms = Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    }

    /// Whether the hub runs commands for an agent, which then need none of its own.
    #[must_use]
    pub fn hosts_terminal(&self, id: &str) -> bool {
        self.agents.get(id).and_then(|agent| agent.host_terminal).unwrap_or(false)
    }

    /// Remembers whether it does.
    pub fn set_host_terminal(&mut self, id: &str, on: bool) {
        self.agent(id).host_terminal = Some(on);
    }

    /// Whether the hub reads and writes files of a session's workspace for an agent.
    #[must_use]
    pub fn hosts_files(&self, id: &str) -> bool {
        self.agents.get(id).and_then(|agent| agent.host_files).unwrap_or(false)
    }

    /// Remembers whether it does.
    pub fn set_host_files(&mut self, id: &str, on: bool) {
        self.agent(id).host_files = Some(on);
    }

    /// Whether any agent was promised a variable.
    #[must_use]
    pub fn has_env(&self) -> bool {
        self.agents.values().any(|agent| !agent.env.is_empty())
    }

    /// Lays the remembered variables over an environment, as far as `ours` has them.
    pub fn lay_over(&self, id: &str, env: &mut Environment, ours: &Environment) {
        for name in self.env_names(id) {
            if let Some((name, value)) = ours.get_key_value(std::ffi::OsStr::new(name)) {
                env.insert(name.clone(), value.clone());
            }
        }
    }

    fn agent(&mut self, id: &str) -> &mut Switches {
        self.agents.entry(id.into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn text(settings: &Settings) -> String {
        let folders = Folders::new("/home/me".into(), &|_| None);
        match settings.store(&folders).change {
            Change::Put { bytes, mode: 0o600 } => String::from_utf8(bytes.expose().clone()).unwrap(),
            Change::Put { .. } | Change::Append { .. } | Change::Remove => {
                panic!("settings are private files")
            }
        }
    }

    #[test]
    fn unknown_fields_survive_an_edit() {
        let file =
            r#"{"rules":{"alwaysAllow":["ls"]},"agents":{"x":{"enabled":false,"model":"big"}},"v":[1,null]}"#;
        let mut settings = Settings::parse(file.as_bytes()).unwrap();
        assert!(settings.enable("x", true) && settings.enable("y", false));
        settings.default_agent = Some("x".into());
        assert_eq!(
            serde_json::from_str::<Value>(&text(&settings)).unwrap(),
            serde_json::json!({
                "defaultAgent": "x",
                "rules": {"alwaysAllow": ["ls"]},
                "agents": {"x": {"enabled": true, "model": "big"}, "y": {"enabled": false}},
                "v": [1, null],
            })
        );
        assert_eq!(Settings::parse(text(&settings).as_bytes()), Ok(settings));
    }

    #[test]
    fn what_is_so_already_is_no_change() {
        let mut settings = Settings::default();
        assert!(!settings.enable("x", true));
        assert!(settings.enable("x", false) && !settings.enable("x", false) && settings.enable("x", true));
        assert_eq!(settings.remember_env("x", "KEY"), Ok(true));
        assert_eq!(settings.remember_env("x", "KEY"), Ok(false));
        assert!(settings.is_enabled("x") && settings.is_enabled("never seen"));
    }

    #[test]
    fn values_are_never_remembered() {
        let mut settings = Settings::default();
        for bad in ["", "KEY=hunter2", "=", "A\0B"] {
            assert_eq!(settings.remember_env("x", bad), Err(BadName));
        }
        assert_eq!(settings, Settings::default());
        assert_eq!(text(&settings), "{}\n");
    }

    #[test]
    fn remembered_variables_come_last() {
        let mut settings = Settings::default();
        settings.remember_env("x", "KEY").unwrap();
        settings.remember_env("x", "GONE").unwrap();
        let env = |value: &str| Environment::from([("KEY".into(), OsString::from(value).into())]);
        let (mut child, ours) = (env("of the manifest"), env("ours"));
        settings.lay_over("x", &mut child, &ours);
        assert_eq!(child, ours);
    }

    #[test]
    fn a_damaged_file_is_named_not_replaced() {
        for bad in ["[]", "{\"agents\":3}", "{\"agents\":{\"x\":{\"enabled\":\"no\"}}}", "{\"a\":", "\0\0\0"]
        {
            assert!(Settings::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        for fine in ["", " \n", "{}", "\u{feff}{}"] {
            assert_eq!(Settings::parse(fine.as_bytes()), Ok(Settings::default()), "{fine}");
        }
    }
}
