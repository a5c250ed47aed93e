//! What an agent that dials in is configured with, asked for, and tells.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::wire::Capabilities;
use super::super::{VERSION, limits};
use crate::acp::agent::{Prompted, TurnKey};
use crate::acp::update::{Speaker, ToolCallUpdate, Update};
use crate::acp::{
    Notice, PermissionOption, PermissionOutcome, RequestKey, SessionId, SessionSetup, StopReason, Stopped,
};
use crate::closed::Closed;
use crate::limits::{Graces, Limits};
use crate::machine::{Address, Open, Tag};
use crate::rpc::RpcError;

/// What an agent that dials in starts from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How the hub is reached. Where nobody listens the run ends as `Failed`, and the agent goes on without a hub.
    pub open: Open,
    /// The id of the agent's manifest or in the registry: a hub lets in whom it knows.
    pub id: String,
    /// The process to name in the hello.
    pub pid: Option<u32>,
    /// What the hub may ask of us. What is not offered is refused, and never told.
    pub capabilities: Capabilities,
    /// For the hub's answer to the hello. 10 s.
    pub hello: Duration,
    /// Sizes and counts that bound what the peer can make us keep. Lines of 16 MiB, 50 sessions.
    pub limits: Limits,
    /// How the link may take its leave.
    pub graces: Graces,
}

impl Config {
    /// The agent of that id, which offers nothing, at the socket of a hub.
    #[must_use]
    pub fn connect(hub: Address, id: impl Into<String>) -> Self {
        Self {
            open: Open::Connect(hub),
            id: id.into(),
            pid: None,
            capabilities: Capabilities::default(),
            hello: Duration::from_secs(10),
            limits: limits(),
            graces: Graces::default(),
        }
    }
}

/// What may be asked. Everything but [`Command::Leave`] needs [`Event::Accepted`] before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Show a session, or its new title.
    Announce {
        /// Our own name of it.
        session: SessionId,
        /// Its workspace.
        cwd: String,
        /// Its title.
        title: Option<String>,
    },
    /// A turn begins at our own end.
    StartTurn {
        /// A session that was shown and is idle.
        session: SessionId,
    },
    /// That turn is over.
    EndTurn {
        /// Its session.
        session: SessionId,
        /// Why.
        reason: StopReason,
    },
    /// A piece of text. What the user types is told as well, but in a turn of the hub's, which knows what it said.
    Say {
        /// A session that was shown.
        session: SessionId,
        /// Whose words they are.
        speaker: Speaker,
        /// To be appended to what was said before, without anything between.
        text: String,
        /// Pieces of one id are one message.
        message: Option<Arc<str>>,
    },
    /// Any other update.
    Report {
        /// A session that was shown.
        session: SessionId,
        /// What is new.
        update: Box<Update>,
    },
    /// Ask the hub as well as the terminal. [`Event::PermissionAnswered`] or [`Event::Unanswered`], unless the terminal is
    /// first.
    AskPermission {
        /// Comes back with the answer.
        tag: Tag,
        /// A session that was shown.
        session: SessionId,
        /// The tool call that it is about.
        tool_call: Box<ToolCallUpdate>,
        /// What can be answered, the most likely first.
        options: Vec<PermissionOption>,
    },
    /// The terminal was first: the hub is told, and nothing more comes of that question.
    ResolvePermission {
        /// The tag of the question.
        tag: Tag,
    },
    /// The turn of a prompt is over.
    EndPrompt {
        /// A turn that has not ended.
        turn: TurnKey,
        /// Why, and what it cost.
        stopped: Box<Stopped>,
    },
    /// The turn of a prompt failed.
    FailPrompt {
        /// A turn that has not ended.
        turn: TurnKey,
        /// What the hub reads and perhaps shows.
        error: Box<RpcError>,
    },
    /// A session that the hub wanted is there.
    OpenSession {
        /// The key from [`Event::SessionWanted`].
        request: RequestKey,
        /// Our own name of it.
        session: SessionId,
    },
    /// There is no such session.
    FailSession {
        /// The key from [`Event::SessionWanted`].
        request: RequestKey,
        /// What the hub reads and perhaps shows.
        error: Box<RpcError>,
    },
    /// Leave. What is unsent is sent.
    Leave,
}

/// What an agent that dials in is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The hub lets us in: sessions can be shown.
    Accepted,
    /// The hub says something on a session. The turn has begun; it ends by [`Command::EndPrompt`] or
    /// [`Command::FailPrompt`].
    Prompted(Box<Prompted>),
    /// What runs on that session is to end, whoever began it. Nothing may run.
    Cancelled(SessionId),
    /// The hub wants a new session. Wants [`Command::OpenSession`] or [`Command::FailSession`].
    SessionWanted(RequestKey, Box<SessionSetup>),
    /// The hub was first: the terminal need not be asked any more.
    PermissionAnswered(Tag, PermissionOutcome),
    /// The hub has no answer: the terminal goes on asking.
    Unanswered(Tag),
    /// Nobody waits for the end of that turn any more: the link is over.
    TurnOver(TurnKey),
    /// So much is unsent that text is refused from here on, until [`Event::Drained`] or the end.
    Crowded,
    /// There is room again.
    Drained,
    /// Something about the hub that is worth knowing and needs no reaction.
    Noticed(Box<Notice>),
    /// The link is over. There is no other one in this session.
    Closed(Box<Closed<Fault>>),
}

/// What a hub can do wrong, or say no to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// It does not let us in, in its own words.
    #[error("the hub says no: {0}")]
    Refused(String),
    /// Its answer to the hello cannot be read.
    #[error("it is no hub that speaks version {VERSION} of the extension")]
    NotHub,
    /// It did not answer the hello in time.
    #[error("it does not answer")]
    TimedOut,
    /// It reads so slowly that too much is waiting for it.
    #[error("it does not read what it is sent")]
    NotReading,
}
