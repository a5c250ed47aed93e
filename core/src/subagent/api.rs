//! What goes into a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::acp::client;
use crate::acp::session::{SessionSetup, Setting};
use crate::acp::{ContentBlock, PermissionOutcome, RequestKey};
use crate::conversation::{Budget, Choice, Policy, Questions, Reply};
use crate::rules::Rules;

/// What a run starts from: one child, one session, one prompt.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The agent and the clocks of the connection.
    pub client: client::Config,
    /// The workspace and what goes with it.
    pub setup: SessionSetup,
    /// A new session or an old one.
    #[serde(default)]
    pub session: Choice,
    /// The history of an old session is to be told: as in a [conversation](crate::conversation::Config::transcript).
    #[serde(default)]
    pub transcript: bool,
    /// How to log in, if need be: as in a [conversation](crate::conversation::Config::login).
    #[serde(default)]
    pub login: Option<String>,
    /// What to set before the prompt, in order.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// The task. Empty, the run is over when the session is open. A resource becomes a link where the agent takes links only.
    pub prompt: Vec<ContentBlock>,
    /// Who answers permission requests.
    #[serde(default)]
    pub policy: Policy,
    /// What decides before it: as in a [conversation](crate::conversation::Config::rules).
    #[serde(default)]
    pub rules: Rules,
    /// Who answers its other questions: as in a [conversation](crate::conversation::Config::questions).
    #[serde(default)]
    pub questions: Questions,
    /// What the agent may spend: as in a [conversation](crate::conversation::Config::budget).
    #[serde(default)]
    pub budget: Budget,
    /// For the whole run. `None` waits for ever.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// Bytes of the answer that are kept for the result; the beginning, when there is more.
    #[serde(default = "output_limit")]
    pub output_limit: usize,
}

/// Longer answers than this are read as they stream.
const fn output_limit() -> usize {
    16 << 20
}

impl Config {
    /// A run with the default policy, which refuses, and the default clocks.
    #[must_use]
    pub fn new(client: client::Config, setup: SessionSetup, prompt: Vec<ContentBlock>) -> Self {
        Self {
            client,
            setup,
            session: Choice::New,
            transcript: false,
            login: None,
            settings: Vec::new(),
            prompt,
            policy: Policy::Reject,
            rules: Rules::default(),
            questions: Questions::Decline,
            budget: Budget::default(),
            timeout: None,
            output_limit: output_limit(),
        }
    }
}

/// What the application may ask.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Cancel the run; before the prompt that ends it, and a second time it does not wait for the agent.
    Cancel,
    /// Answer a permission request.
    Answer {
        /// The key of the question, from [`Event::PermissionAsked`](super::Event::PermissionAsked).
        request: RequestKey,
        /// An offered option, or `cancelled`.
        outcome: PermissionOutcome,
    },
    /// Answer any other question. What does not fit the form is refused, and the question stays open.
    Reply {
        /// The key of the question, from [`Event::QuestionAsked`](super::Event::QuestionAsked).
        request: RequestKey,
        /// The answer.
        reply: Reply,
    },
    /// End the child: the ladder begins at once.
    Dispose,
    /// The same, and the child is not waited for: SIGTERM at once, SIGKILL 0.2 s later. Also taken while it leaves.
    Hasten,
}
