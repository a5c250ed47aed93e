//! Agents to delegate to, by name: a task goes to whoever its name is configured for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentline_core::subagent::Config;
use agentline_core::subagent::provider::{Provider, Task, Unstartable};

use crate::process::can_enter;

/// The agents that tasks can be given to. None of them can be held to a depth, a choice of tools or an output
/// schema; a task that wants one is refused before anything is started.
#[derive(Clone, Debug)]
pub struct Providers {
    by_name: BTreeMap<String, Provider>,
    started_in: PathBuf,
}

impl Providers {
    /// Nobody yet. Relative folders of those to come are taken from the folder that we were started in.
    #[must_use]
    pub fn new(started_in: &Path) -> Self {
        Self { by_name: BTreeMap::new(), started_in: started_in.to_owned() }
    }

    /// Adds an agent, or replaces the one of that name.
    ///
    /// # Errors
    ///
    /// Its configuration cannot be meant, or its folder cannot be entered.
    pub fn add(&mut self, provider: Provider) -> Result<(), Unstartable> {
        let provider = provider.load(&self.started_in, can_enter)?;
        self.by_name.insert(provider.provider_name.clone(), provider);
        Ok(())
    }

    /// The names that tasks can be given to, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Everything that a run of the task needs, with our environment as it is now; nothing is started.
    ///
    /// # Errors
    ///
    /// No agent has that name, the task wants what it cannot be held to, or there is no folder to work in.
    pub fn plan(&self, name: &str, task: Task) -> Result<Config, Unstartable> {
        let provider = self.by_name.get(name).ok_or_else(|| Unstartable::Name(name.to_owned()))?;
        provider.plan(task, can_enter, std::env::vars_os())
    }
}
