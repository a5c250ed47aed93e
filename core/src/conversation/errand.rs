//! What is asked of an agent without a session: one request, or one for each page of a list.

use serde::{Deserialize, Serialize};

use super::api::SessionOpened;
use crate::acp::SessionId;
use crate::acp::client::{Answer, Command, Which};
use crate::acp::session::{SessionList, SessionSetup};
use crate::machine::Tag;
use crate::problem::Phase;

/// One thing to ask of an agent after the handshake. The run is over when it is done.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Errand {
    /// Log in by that method of the agent's, by id; not by one of the type `terminal`, which is a program to run.
    Login(String),
    /// Log out, where the agent offers it.
    Logout,
    /// List the sessions that it knows, of one workspace or of all: one [`Event::Listed`](super::Event::Listed) a page,
    /// 100 pages at most.
    List(Option<String>),
    /// Remove that session from its list. One that it does not know is removed already.
    Delete(SessionId),
    /// Begin a new session as that one stands: its id is told as
    /// [`Event::SessionOpened`](super::Event::SessionOpened).
    Fork(SessionId),
}

/// An errand that is being done.
#[derive(Debug)]
pub(super) struct Doing {
    errand: Errand,
    /// Of the next page.
    cursor: Option<String>,
    pages: u32,
}

/// What an answer means for it.
pub(super) enum Done {
    /// There is nothing to tell.
    Quietly,
    Page(SessionList),
    Opened(SessionOpened),
}

impl Doing {
    pub(super) const fn new(errand: Errand) -> Self {
        Self { errand, cursor: None, pages: PAGES }
    }

    pub(super) const fn phase(&self) -> Phase {
        match self.errand {
            Errand::Login(_) | Errand::Logout => Phase::Authenticate,
            Errand::List(_) | Errand::Delete(_) | Errand::Fork(_) => Phase::Session,
        }
    }

    /// The request for it, or for the next page of it.
    pub(super) fn request(&mut self, tag: Tag, setup: &SessionSetup) -> Command {
        match &self.errand {
            Errand::Login(method) => Command::Authenticate { tag, method: method.clone() },
            Errand::Logout => Command::Logout { tag },
            Errand::List(cwd) => Command::ListSessions { tag, cwd: cwd.clone(), cursor: self.cursor.take() },
            Errand::Delete(session) => Command::DeleteSession { tag, session: session.clone() },
            Errand::Fork(session) => {
                Command::OpenSession { tag, which: Which::Fork(session.clone()), setup: setup.clone() }
            }
        }
    }

    pub(super) fn answered(&mut self, answer: Answer) -> Done {
        let list = match answer {
            Answer::Sessions(list) => list,
            Answer::SessionOpened { session, state } => {
                return Done::Opened(SessionOpened { session, state });
            }
            Answer::Authenticated
            | Answer::LoggedOut
            | Answer::SessionClosed
            | Answer::SessionDeleted
            | Answer::ModeSet
            | Answer::ModelSet
            | Answer::OptionSet(_)
            | Answer::Called(_) => return Done::Quietly,
        };
        self.pages -= 1;
        self.cursor = list.next_cursor.clone().filter(|_| self.pages > 0);
        Done::Page(list)
    }

    /// Whether something is left to be asked.
    pub(super) const fn goes_on(&self) -> bool {
        self.cursor.is_some()
    }
}

/// Pages of a list that are read: it may have no end.
const PAGES: u32 = 100;
