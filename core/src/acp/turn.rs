//! One prompt turn as the client sees it, and how it may end (ACP, prompt-turn).

use serde::{Deserialize, Serialize};

use super::Json;
use super::lenient::or_default;
use crate::link::Listened;
use crate::machine::Tag;

/// The turn of one session.
///
/// ```text
///  Idle ──prompt──► Running ──cancel──► Cancelling
///   ▲                │  │ silence         │  │ grace
///   │                │  └───► GivenUp ◄───┼──┘
///   └──── answer ────┴───────────┴────────┘
/// ```
///
/// A turn that was given up takes a prompt like one that is idle.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Turn {
    #[default]
    Idle,
    Running(Open),
    /// The agent was told; its answer is waited for until then.
    Cancelling(Open, Option<Listened>),
    /// Over for the application, while the agent has not answered that request: it may still be at work.
    GivenUp(Open),
}

/// The prompt that is open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Open {
    /// The number of its request.
    pub(super) request: u64,
    /// The caller's name for it.
    pub(super) tag: Tag,
}

impl Turn {
    /// The prompt that the application waits for.
    pub(super) const fn open(&self) -> Option<Open> {
        match self {
            Self::Idle | Self::GivenUp(_) => None,
            Self::Running(open) | Self::Cancelling(open, _) => Some(*open),
        }
    }

    /// Whether the agent was told to stop and has not answered.
    pub(super) const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelling(..) | Self::GivenUp(_))
    }
}

/// Why a turn ended, in the agent's word.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent is done.
    EndTurn,
    /// The model's output limit came.
    MaxTokens,
    /// Too many model requests in one turn.
    MaxTurnRequests,
    /// The agent will not.
    Refusal,
    /// The client asked for it: not an error.
    Cancelled,
    /// A word that the protocol does not have. Neither success nor crash.
    #[serde(untagged)]
    Other(String),
}

impl StopReason {
    /// The word that stands for it on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Other(word) => word,
        }
    }

    /// The reason that the word stands for.
    pub(crate) fn from_word(word: String) -> Self {
        let known = [Self::EndTurn, Self::MaxTokens, Self::MaxTurnRequests, Self::Refusal, Self::Cancelled];
        known.into_iter().find(|reason| reason.as_str() == word).unwrap_or(Self::Other(word))
    }
}

/// The agent's own end of a turn.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    /// Why it ended, in the agent's word.
    #[serde(rename = "stopReason")]
    pub reason: StopReason,
    /// What the turn cost, as written, where the agent says so.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub usage: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(
        default,
        rename = "_meta",
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub meta: Option<Json>,
}

impl From<StopReason> for Stopped {
    fn from(reason: StopReason) -> Self {
        Self { reason, usage: None, meta: None }
    }
}
