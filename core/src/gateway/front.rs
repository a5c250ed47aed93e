//! What a front is, whatever it speaks: the mirror of a source.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::acp;
use super::api::Event;
use super::attach::{self, Attach};
use super::galley::{self, Galley};
use crate::acp::agent::{self, Initialized};
use crate::machine::{Deadline, Input, Machine, Now, Output, Refused, Tag};
use crate::rpc::{RpcError, code};
use crate::session::{Can, Outcome, Told, TurnId, Wish};

/// Where a session is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrontConfig {
    /// To an ACP client, such as an editor. What it is offered is what the source can.
    Acp(Box<agent::Config>),
    /// To whoever attaches, as a session in a terminal is. It is one session, open from the start on.
    Attach(Box<attach::Config>),
    /// To Galley's desktop, as a runner. It is one session, open from the start on.
    Galley(Box<galley::Config>),
}

impl FrontConfig {
    /// What its client has words for. What the source can beyond it is not seen; what the client asks beyond what the source
    /// can is refused, before anything is sent.
    #[must_use]
    pub fn words(&self) -> Can {
        match self {
            Self::Acp(_) => acp::words(),
            Self::Attach(_) => attach::words(),
            Self::Galley(_) => galley::words(),
        }
    }
}

/// What a front says. It is told what a source tells, with the book's own names of turns and questions.
#[derive(Debug)]
pub(super) enum Said {
    /// Its client has introduced itself, and waits for [`Told::Up`].
    Introduced(Box<Initialized>),
    /// Its client wants something. A prompt has a name of the front's own; everything else is told as [`Told::Done`] of
    /// that tag, where it has an answer. A cancel is for whatever runs.
    Wish(Tag, Wish),
    /// Its client takes a prompt back: if that waits it goes, if it runs it is cancelled.
    Withdraw(TurnId),
    /// Its client does not read (`true`), or does again.
    Full(bool),
    /// For the application.
    Event(Event),
    /// Its client is gone.
    Left,
}

/// The machine of a front.
#[derive(Debug)]
pub(super) enum Front {
    Acp(Box<acp::Front>),
    Attach(Box<Attach>),
    Galley(Box<Galley>),
}

impl Machine for Front {
    type Config = FrontConfig;
    type Command = Told;
    type Event = Said;

    fn new(now: Now, config: FrontConfig) -> Self {
        match config {
            FrontConfig::Acp(config) => Self::Acp(Box::new(acp::Front::new(now, *config))),
            FrontConfig::Attach(config) => Self::Attach(Box::new(Attach::new(now, *config))),
            FrontConfig::Galley(config) => Self::Galley(Box::new(Galley::new(now, *config))),
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match self {
            Self::Acp(front) => front.handle(now, input),
            Self::Attach(front) => front.handle(now, input),
            Self::Galley(front) => front.handle(now, input),
        }
    }

    /// Takes whatever it is shown.
    fn command(&mut self, now: Now, told: Told) -> Result<(), Refused> {
        match self {
            Self::Acp(front) => front.command(now, told),
            Self::Attach(front) => front.command(now, told),
            Self::Galley(front) => front.command(now, told),
        }
    }

    fn poll(&mut self) -> Option<Output<Said>> {
        match self {
            Self::Acp(front) => front.poll(),
            Self::Attach(front) => front.poll(),
            Self::Galley(front) => front.poll(),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        match self {
            Self::Acp(front) => front.deadline(),
            Self::Attach(front) => front.deadline(),
            Self::Galley(front) => front.deadline(),
        }
    }
}

/// What is shown while the client does not read. It goes on in its order, everything of it: an answer must not overtake its
/// text.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    told: VecDeque<Told>,
    pub(super) is_crowded: bool,
    was_full: bool,
}

impl Waiting {
    pub(super) fn push(&mut self, told: Told) {
        self.told.push_back(told);
    }

    /// What can be shown now.
    pub(super) fn pop(&mut self) -> Option<Told> {
        if self.is_crowded { None } else { self.told.pop_front() }
    }

    /// Nobody reads it any more.
    pub(super) fn clear(&mut self) {
        (self.told, self.is_crowded) = (VecDeque::new(), false);
    }

    /// Whether the source is to be held, if that has changed.
    pub(super) fn full(&mut self) -> Option<bool> {
        let full = self.is_crowded || !self.told.is_empty();
        (std::mem::replace(&mut self.was_full, full) != full).then_some(full)
    }
}

/// Why a front that has one session is done.
pub(super) const LOST: &str = "the agent is gone, and cannot go on with its session";

/// Why something is not even asked of the far side.
pub(super) fn refusal(refused: Refused) -> RpcError {
    let code = match refused {
        Refused::NotOffered(_) => code::METHOD_NOT_FOUND,
        Refused::Unknown => code::NOT_FOUND,
        Refused::Busy => code::INVALID_REQUEST,
        Refused::Invalid(_) => code::INVALID_PARAMS,
        Refused::Closed | Refused::NotReady | Refused::Crowded | Refused::Limit(_) => code::INTERNAL_ERROR,
    };
    RpcError::new(code, refused.to_string())
}

/// Why a turn that did not end by itself is over, for people, where nobody else says it.
pub(super) const fn no_end(how: Outcome) -> &'static str {
    match how {
        Outcome::Lost => "the agent is gone",
        Outcome::Unseen => {
            "the words were delivered; how the turn ended was not seen: look before you send them again"
        }
        Outcome::NotSent => "the prompt was not sent",
        Outcome::Completed | Outcome::MaxTokens | Outcome::Refused | Outcome::Cancelled | Outcome::Failed => {
            "the turn failed"
        }
    }
}
