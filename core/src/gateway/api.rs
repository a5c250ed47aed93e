//! What goes into a gateway and what comes out of it.

use serde::{Deserialize, Serialize};

use super::front::FrontConfig;
use crate::acp::agent;
use crate::attach::presence::Attachment;
use crate::conversation::{Budget, Overspent, Policy};
use crate::rules::Rules;
use crate::session::{Name, Noted, SourceConfig};

/// What a gateway starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How the client is reached.
    pub front: FrontConfig,
    /// What is behind it.
    pub source: SourceConfig,
    /// What decides about permissions before the client does.
    #[serde(default)]
    pub rules: Rules,
    /// Who decides where no rule does: the client, unless it has no words for questions.
    #[serde(default = "ask")]
    pub policy: Policy,
    /// What a session may cost.
    #[serde(default)]
    pub budget: Budget,
}

const fn ask() -> Policy {
    Policy::Ask
}

impl Config {
    /// Between an ACP client at our own stdio and that.
    #[must_use]
    pub fn on_stdio(source: SourceConfig) -> Self {
        Self::new(FrontConfig::Acp(Box::new(agent::Config::on_stdio())), source)
    }

    /// With no rules and no budget; the client decides.
    #[must_use]
    pub fn new(front: FrontConfig, source: SourceConfig) -> Self {
        Self { front, source, rules: Rules::default(), policy: Policy::Ask, budget: Budget::default() }
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
    /// A rule or the policy has decided about a permission, so that the client was not asked.
    Ruled(Box<Ruled>),
    /// A session has cost more than it might. Its turn is being cancelled.
    Overspent(Name, Box<Overspent>),
    /// An agent is gone: why, for people, unless we have ended it.
    Ended(Option<String>),
    /// Others can attach to the session from here on.
    Listening(Box<Attachment>),
    /// Others may not find the session: its record could not be written. Tried again with each heartbeat.
    PresenceFailed {
        /// The system's error number.
        errno: i32,
    },
    /// There is no session to show, for that reason, which people read; or it cannot be shown. The gateway leaves.
    Unserved(String),
    /// The client and the agent are gone; nothing follows.
    Closed,
}

/// What a rule or the policy has decided.
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
    /// Where the rule stands; `None`: the policy has decided.
    pub rule: Option<String>,
}
