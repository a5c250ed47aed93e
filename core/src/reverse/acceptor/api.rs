//! What the hub's side of a link is configured with, asked for, and tells.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::limits;
use super::super::wire::Hello;
use crate::acp::client::{Failure, PermissionAsked, Updated};
use crate::acp::{Notice, Notified, PermissionOutcome, RequestKey, SessionId, SessionSetup, Stopped};
use crate::closed::Closed;
use crate::limits::{Graces, Limits};
use crate::machine::{Open, Tag};

/// What the hub's side of a link starts from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How the link comes about. `None`: a listener has taken it.
    pub open: Option<Open>,
    /// From the connection to a hello. 10 s.
    pub hello: Duration,
    /// Notifications that are kept before it. 100.
    pub kept: usize,
    /// For a new session's answer. 60 s.
    pub new_session: Duration,
    /// Sizes and counts that bound what the peer can make us keep. Lines of 16 MiB, 50 sessions.
    pub limits: Limits,
    /// How the link may take its leave.
    pub graces: Graces,
}

impl Config {
    /// Around a connection that a listener took, with the numbers of the extension.
    #[must_use]
    pub fn taken() -> Self {
        Self {
            open: None,
            hello: Duration::from_secs(10),
            kept: 100,
            new_session: Duration::from_secs(60),
            limits: limits(),
            graces: Graces::default(),
        }
    }
}

/// What may be asked.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Let the agent in. What it said before its hello is told first, and then the agent hears of it.
    Accept,
    /// Do not; the reason is for the agent's people to read. The link ends when it is written.
    Refuse(String),
    /// Begin a turn on a session that is idle. It ends in one [`Event::TurnEnded`] with the tag.
    Prompt {
        /// Comes back with the end.
        tag: Tag,
        /// A session of this link.
        session: SessionId,
        /// What is said; not only blanks.
        text: String,
    },
    /// Cancel whatever runs on a session, also while nothing seems to. An open question is answered `cancelled`. It ends
    /// no turn by itself.
    Cancel {
        /// A session of this link.
        session: SessionId,
    },
    /// Open a new session: [`Event::SessionOpened`] or [`Event::Failed`].
    NewSession {
        /// Comes back with the answer.
        tag: Tag,
        /// Where, and with which servers.
        setup: Box<SessionSetup>,
    },
    /// Answer a question.
    Answer {
        /// Its key, from [`Event::PermissionAsked`].
        request: RequestKey,
        /// One of the options that were offered, or `cancelled`.
        outcome: PermissionOutcome,
    },
    /// Leave a question to the terminal: nobody here has an answer.
    NoAnswer {
        /// Its key, from [`Event::PermissionAsked`].
        request: RequestKey,
    },
    /// Leave: open questions are left to the terminal, what is unsent is sent.
    Leave,
}

/// What the hub is told of one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// An agent introduces itself. Wants [`Command::Accept`] or [`Command::Refuse`]; it is not read meanwhile.
    Hello(Box<Hello>),
    /// It is let in. What follows was said by an agent that was let in.
    Accepted(Box<Hello>),
    /// A session is there, or has another title.
    Announced(Box<Announced>),
    /// A turn runs: by the prompt of that tag, or begun at the agent's own end.
    TurnStarted(SessionId, Option<Tag>),
    /// News of a session.
    Updated(Box<Updated>),
    /// A question, in a turn or not. What was told of its tool call is put into it.
    PermissionAsked(Box<PermissionAsked>),
    /// A question needs no answer any more; the agent has one from us.
    Settled {
        /// Its key.
        request: RequestKey,
        /// The session that it was asked in.
        session: SessionId,
        /// Why.
        why: Settled,
    },
    /// A turn is over.
    TurnEnded(Box<TurnEnded>),
    /// A new session is there.
    SessionOpened(Tag, SessionId),
    /// There is no new session.
    Failed(Tag, Box<Failure>),
    /// A notification that is not part of the extension.
    Notified(Box<Notified>),
    /// Something about the agent that is worth knowing and needs no reaction.
    Noticed(Box<Notice>),
    /// The link is over. Questions, turns and requests ended before, in this order.
    Closed(Box<Closed<Fault>>),
}

/// A session that an agent shows.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Announced {
    /// The agent's own name of it.
    pub session: SessionId,
    /// Its workspace.
    pub cwd: String,
    /// Its title, if the agent gives one.
    pub title: Option<String>,
}

/// Why a question needs no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// The terminal was first.
    InTerminal,
    /// A newer one took its place.
    Overtaken,
    /// A turn began or ended.
    TurnOver,
    /// We cancelled what runs.
    Cancelled,
    /// The link is over.
    Lost,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnEnded {
    /// The session that it ran on.
    pub session: SessionId,
    /// The tag of its prompt; `None`: it began at the agent's own end.
    pub tag: Option<Tag>,
    /// How. A turn whose end has no reason ended in the ordinary way.
    pub end: Result<Stopped, Failure>,
}

/// What an agent can do wrong.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// It did not say hello in time.
    #[error("it did not say hello")]
    NoHello,
    /// Its hello lacks an id or a version.
    #[error("its hello lacks an id or a version")]
    BadHello,
    /// It speaks another version of the extension.
    #[error("it speaks version {0} of the extension, not {VERSION}", VERSION = super::super::VERSION)]
    WrongVersion(i64),
    /// It reads so slowly that too much is waiting for it.
    #[error("it does not read what it is sent")]
    NotReading,
}
