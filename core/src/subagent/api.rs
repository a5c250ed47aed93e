//! What goes into a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::acp::{ContentBlock, PermissionOutcome, RequestKey};
use crate::conversation::{self, Reply};
use crate::host::FileError;

/// What a run starts from: one child, one session, one prompt.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The agent, the session, and who decides.
    pub conversation: conversation::Config,
    /// The task. Empty, the run is over when the session is open. A resource becomes a link where the agent takes links only.
    pub prompt: Vec<ContentBlock>,
    /// For the whole run. `None` waits for ever.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// How often the application may ask again when an answer is not what it wanted. It then judges each answer of a turn
    /// that was completed, before that is the result: [`Event::Answered`](super::Event::Answered). `None`: the first
    /// answer is the result, whatever it is.
    #[serde(default)]
    pub again: Option<u32>,
}

impl Config {
    /// A run that takes as long as it takes.
    #[must_use]
    pub const fn new(conversation: conversation::Config, prompt: Vec<ContentBlock>) -> Self {
        Self { conversation, prompt, timeout: None, again: None }
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
        /// The answer, whose values have to fit the form.
        reply: Reply,
    },
    /// Say how a file was read or written.
    FileDone {
        /// The key, from [`Event::FileWanted`](super::Event::FileWanted).
        request: RequestKey,
        /// What it holds, or nothing where it was written.
        done: Result<String, FileError>,
    },
    /// The answer is what was wanted, and the result. Refused: `Unknown`, no answer waits for a judgement.
    Accept,
    /// The answer is not what was wanted. Refused: `Unknown`, no answer waits for a judgement.
    Reject {
        /// What is wrong with it: the reason of the failure, where the agent is not asked again.
        why: String,
        /// What the agent is told, in the same session. It is not asked again where there is nothing to say, or where it
        /// was as often as [it might](Config::again): then the run fails.
        prompt: Vec<ContentBlock>,
    },
    /// End the child: the ladder begins at once.
    Dispose,
    /// The same, and the child is not waited for: SIGTERM at once, SIGKILL 0.2 s later. Also taken while it leaves.
    Hasten,
}
