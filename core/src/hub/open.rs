//! What is open in a hub: what its requests are for, who waits for what, and what has a time.

use std::sync::Arc;

use super::api::{Call, SessionNew, Who};
use super::book::{Sid, SourceId, Taken};
use crate::acp::RequestKey;
use crate::acp::session::{SessionState, Setting};
use crate::control::Key;
use crate::machine::{OpenError, Time};
use crate::session::Name;

/// How far a hub is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    Serving,
    /// It leaves when no turn runs.
    Draining,
    Leaving(Option<OpenError>),
    Ended,
}

/// What the answer of a source is for.
#[derive(Debug)]
pub(super) enum Expects {
    Open(Sid),
    /// What was said before.
    History(Sid),
    Model(Sid, Name, Box<SessionState>),
    Set(Key, Sid, Box<Setting>),
    List(Arc<str>),
    Nothing,
}

/// What the answer of the outside is for.
#[derive(Debug)]
pub(super) enum Pending {
    /// Who asks that.
    Who(Key, Box<Call>),
    /// Whether the folder of a new session exists.
    Folder(Key, Box<(SessionNew, Who)>),
    Launch(Arc<str>),
    Runner(Sid),
    /// Rules are kept, for whoever set them.
    Rules(Option<Key>),
    /// What was said before, for a runner.
    Recall(SourceId, Sid),
    /// The same, for a reader.
    Show(Key, Sid, Option<usize>),
    Discover(Key),
    Enable(Key, String, bool),
    File(SourceId, RequestKey),
}

/// A client that waits for a session to be open.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) key: Key,
    pub(super) wants: Wants,
    /// When it is told how far that is.
    pub(super) due: Time,
    /// It named variables that only the next process of the agent will have.
    pub(super) later: bool,
}

/// What it is told then.
#[derive(Debug)]
pub(super) enum Wants {
    Prompt(Option<Taken>),
    Session,
    Messages(Option<usize>),
}

/// A client that waits for a session to be over with.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) sid: Sid,
    pub(super) through: bool,
    pub(super) due: Option<Time>,
}

/// What has a time.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Clock {
    /// Those who wait for the start of a session.
    Start(Sid, Key),
    /// A wait is over.
    Wait(Key),
    Idle(Arc<str>),
    /// A runner goes on with a run that was given up.
    Stuck(SourceId),
    List(Arc<str>),
    Store,
}
