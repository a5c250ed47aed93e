//! A configured agent that takes tasks: what is checked before anything is started. Names,
//! values and defaults are those of the ACP subagent of DeepSeek Harness.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::env;
use super::{Allow, Config, Policy};
use crate::acp::client;
use crate::acp::{ContentBlock, SessionSetup};
use crate::conversation;
use crate::limits::Graces;
use crate::machine::{Open, SpawnSpec, Stderr};

/// An agent to delegate to, as it is configured.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provider {
    /// What it is called by.
    #[serde(default = "acp")]
    pub provider_name: String,
    /// The program; no shell is involved.
    pub command: String,
    /// The arguments of the program, each whole.
    #[serde(default)]
    pub args: Vec<String>,
    /// The workspace of every task, instead of the asker's. Relative to the folder we were started in.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// How permission requests are answered.
    #[serde(default)]
    pub permission: Permission,
    /// Variables laid over the scrubbed environment.
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, crate::secret::Secret<String>>,
    /// What becomes of its standard error.
    #[serde(default)]
    pub stderr: Stderr,
    /// Milliseconds from the end of its stdin until SIGTERM.
    #[serde(default = "eof_grace")]
    pub dispose_eof_grace_ms: u64,
    /// Milliseconds from SIGTERM until SIGKILL.
    #[serde(default = "grace")]
    pub dispose_grace_ms: u64,
}

fn acp() -> String {
    "acp".to_owned()
}

const fn eof_grace() -> u64 {
    6000
}

const fn grace() -> u64 {
    3000
}

/// How permission requests are answered: nobody is asked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// An option that rejects is chosen, or nothing.
    #[default]
    Reject,
    /// The first option that allows is chosen.
    Allow,
}

/// A task for an agent, and what its asker wants of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Task {
    /// What is to be done; only text is passed on.
    pub prompt: Vec<ContentBlock>,
    /// The workspace of whoever asks.
    pub parent_cwd: Option<PathBuf>,
    /// Wanted: a bound on further delegation.
    pub max_depth: Option<u32>,
    /// Wanted: a choice of tools.
    pub tool_filter: Option<Vec<String>>,
    /// Wanted: an answer of that form.
    pub output_schema: Option<crate::acp::Json>,
}

/// Why a task is not started. Everything that goes wrong later is a result.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unstartable {
    /// Another process has its own depth, tools and forms.
    #[error("this agent cannot be held to {0}: it runs in a process of its own")]
    Capability(&'static str),
    /// Nobody is called that.
    #[error("no agent is configured by the name {0}")]
    Name(String),
    /// There is no folder to work in. The one that we happen to run in is nobody's workspace.
    #[error("no working directory: the agent has none configured, and the task brings none")]
    NoDirectory,
    /// The task's folder could mean anything.
    #[error("the working directory must be absolute: {}", .0.display())]
    RelativeDirectory(PathBuf),
    /// The folder is missing, is none, or cannot be entered.
    #[error("the working directory cannot be entered: {}", .0.display())]
    BadDirectory(PathBuf),
    /// The configuration cannot be meant.
    #[error("{0}")]
    Config(&'static str),
}

impl Provider {
    /// Checks what can be checked when the configuration is read, and makes its folder absolute.
    ///
    /// # Errors
    ///
    /// A value cannot be meant, or the folder cannot be entered.
    pub fn load(
        mut self,
        started_in: &Path,
        can_enter: impl FnOnce(&Path) -> bool,
    ) -> Result<Self, Unstartable> {
        if self.command.is_empty() {
            return Err(Unstartable::Config("the command is empty"));
        }
        if self.cwd.as_deref().is_some_and(|cwd| cwd.as_os_str().is_empty()) {
            return Err(Unstartable::Config("the working directory is empty"));
        }
        let is_sane = |millis: u64| (1..=MAX_GRACE).contains(&millis);
        if !is_sane(self.dispose_eof_grace_ms) || !is_sane(self.dispose_grace_ms) {
            return Err(Unstartable::Config("a grace is between 1 and 2147483647 milliseconds"));
        }
        // By its components, so that "." leaves no trace.
        let absolute = |cwd| started_in.join(cwd).components().collect::<PathBuf>();
        self.cwd = self.cwd.map(|cwd| enter(&absolute(cwd), can_enter)).transpose()?;
        Ok(self)
    }

    /// Everything that a run of the task needs; nothing is started. `ours` is our environment.
    ///
    /// # Errors
    ///
    /// The task wants what no process of its own can be held to, or there is no folder to work in.
    pub fn plan(
        &self,
        task: Task,
        can_enter: impl FnOnce(&Path) -> bool,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Config, Unstartable> {
        refuse(task.max_depth.is_some(), "a depth")?;
        refuse(task.tool_filter.is_some(), "a choice of tools")?;
        refuse(task.output_schema.is_some(), "an output schema")?;
        let cwd = self.cwd.as_deref().or(task.parent_cwd.as_deref()).ok_or(Unstartable::NoDirectory)?;
        let cwd = enter(cwd, can_enter)?;
        let Some(cwd_text) = cwd.to_str() else {
            return Err(Unstartable::Config("the working directory is not UTF-8, which the protocol needs"));
        };
        let setup = SessionSetup::in_directory(cwd_text);
        let given = self.env.iter().map(|(name, value)| (name.into(), value.expose().into()));
        let spec = SpawnSpec {
            program: self.command.clone().into(),
            args: self.args.iter().map(OsString::from).collect(),
            cwd,
            env: env::scrub(ours, given).env,
            stderr: self.stderr,
        };
        let client = client::Config {
            graces: Graces {
                eof: Duration::from_millis(self.dispose_eof_grace_ms),
                term: Duration::from_millis(self.dispose_grace_ms),
                ..Graces::default()
            },
            ..client::Config::new(Open::spawn(spec))
        };
        let prompt = task.prompt.into_iter().filter(|block| block.as_text().is_some()).collect();
        let policy = match self.permission {
            Permission::Reject => Policy::Reject,
            Permission::Allow => Policy::Allow(Allow::InOrder),
        };
        let conversation = conversation::Config { policy, ..conversation::Config::new(client, setup) };
        Ok(Config::new(conversation, prompt))
    }
}

fn enter(cwd: &Path, can_enter: impl FnOnce(&Path) -> bool) -> Result<PathBuf, Unstartable> {
    if !cwd.is_absolute() {
        return Err(Unstartable::RelativeDirectory(cwd.to_owned()));
    }
    if !can_enter(cwd) {
        return Err(Unstartable::BadDirectory(cwd.to_owned()));
    }
    Ok(cwd.to_owned())
}

fn refuse(wanted: bool, what: &'static str) -> Result<(), Unstartable> {
    if wanted { Err(Unstartable::Capability(what)) } else { Ok(()) }
}

/// A JavaScript timer's longest span, which the published configuration shares.
const MAX_GRACE: u64 = 2_147_483_647;
