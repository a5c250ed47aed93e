//! A configured agent that takes tasks: what is checked before anything is started (seed 003).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::api::{Allow, Config, Policy};
use super::env;
use crate::acp::client::{self, Timeouts};
use crate::acp::{ContentBlock, SessionSetup};
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
    /// Its arguments.
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
    /// No to everything.
    #[default]
    Reject,
    /// Yes to everything.
    Allow,
}

/// A task.
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
    /// There is no folder to work in.
    #[error("no working directory: the agent has none configured, and the task brings none")]
    NoDirectory,
    /// The task's folder could mean anything.
    #[error("the working directory must be absolute: {}", .0.display())]
    RelativeDirectory(PathBuf),
    /// The configuration cannot be meant.
    #[error("{0}")]
    Config(&'static str),
}

impl Provider {
    /// Checks what can be checked when the configuration is read.
    ///
    /// # Errors
    ///
    /// A value that cannot be meant.
    pub fn check(&self) -> Result<(), Unstartable> {
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
        Ok(())
    }

    /// The folder of a task: the configured one, else the asker's. Never the one that we happen to run in.
    ///
    /// The caller sees to it that it is a directory that can be entered.
    ///
    /// # Errors
    ///
    /// There is none, or it is relative.
    pub fn directory(&self, task: &Task, started_in: &Path) -> Result<PathBuf, Unstartable> {
        match (&self.cwd, &task.parent_cwd) {
            (Some(cwd), _) => Ok(started_in.join(cwd)),
            (None, Some(cwd)) if cwd.is_absolute() => Ok(cwd.clone()),
            (None, Some(cwd)) => Err(Unstartable::RelativeDirectory(cwd.clone())),
            (None, None) => Err(Unstartable::NoDirectory),
        }
    }

    /// Everything that a run of the task needs; nothing is started.
    ///
    /// # Errors
    ///
    /// The task wants what no process of its own can be held to, or the configuration is wrong.
    pub fn plan(
        &self,
        task: Task,
        cwd: &Path,
        ours: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Config, Unstartable> {
        self.check()?;
        refuse(task.max_depth.is_some(), "a depth")?;
        refuse(task.tool_filter.is_some(), "a choice of tools")?;
        refuse(task.output_schema.is_some(), "an output schema")?;
        let Some(cwd_text) = cwd.to_str() else {
            return Err(Unstartable::Config("the working directory is not UTF-8, which the protocol needs"));
        };
        let given = self.env.iter().map(|(name, value)| (name.into(), value.expose().into()));
        let spec = SpawnSpec {
            program: self.command.clone().into(),
            args: self.args.iter().map(OsString::from).collect(),
            cwd: cwd.to_owned(),
            env: env::scrub(ours, given).env,
            stderr: Stderr::Inherit,
        };
        let client = client::Config {
            timeouts: Timeouts { cancel: Some(CANCEL), ..Timeouts::default() },
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
        Ok(Config { policy, ..Config::new(client, SessionSetup::in_directory(cwd_text), prompt) })
    }
}

fn refuse(wanted: bool, what: &'static str) -> Result<(), Unstartable> {
    if wanted { Err(Unstartable::Capability(what)) } else { Ok(()) }
}

/// A JavaScript timer's longest span, which the published configuration shares.
const MAX_GRACE: u64 = 2_147_483_647;
/// How long a cancelled turn is waited for.
const CANCEL: Duration = Duration::from_secs(5);
