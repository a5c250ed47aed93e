//! What goes into a gateway and what comes out of it.

use serde::{Deserialize, Serialize};

use crate::acp::agent;
use crate::conversation::{Budget, Overspent};
use crate::rules::Rules;
use crate::session::{Name, Noted, SourceConfig};

/// What a gateway starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The front: how the client is reached. What it is offered is what the agent can.
    pub front: agent::Config,
    /// What is behind it.
    pub source: SourceConfig,
    /// What decides about permissions before the client does.
    #[serde(default)]
    pub rules: Rules,
    /// What a session may cost.
    #[serde(default)]
    pub budget: Budget,
}

impl Config {
    /// Between our own stdio and that.
    #[must_use]
    pub fn on_stdio(source: SourceConfig) -> Self {
        let front = agent::Config::on_stdio();
        Self { front, source, rules: Rules::default(), budget: Budget::default() }
    }
}

/// What the application may ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Leave: what is open at the client fails, and the agent goes down its ladder.
    Shutdown,
}

/// What the application is told. None of it needs an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// An agent is being started.
    Started,
    /// Something about the agent or the client.
    Noted(Box<Noted>),
    /// A rule has decided about a permission, so that the client was not asked.
    Ruled(Box<Ruled>),
    /// A session has cost more than it might. Its turn is being cancelled.
    Overspent(Name, Box<Overspent>),
    /// An agent is gone: why, for people, unless we have ended it.
    Ended(Option<String>),
    /// The client and the agent are gone; nothing follows.
    Closed,
}

/// What a rule has decided.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Ruled {
    /// The session that asked.
    pub session: Name,
    /// What was to be done, as the agent calls it.
    pub title: String,
    /// The option that was chosen; `None`: it was cancelled, since no offered option says no.
    pub option: Option<String>,
    /// Whether it may be done.
    pub allowed: bool,
    /// Where the rule stands.
    pub rule: String,
}
