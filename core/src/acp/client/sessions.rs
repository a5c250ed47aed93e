//! The sessions of a connection, with an index of what each timer and each late answer is about: a thousand idle
//! sessions cost an update of one of them nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{LONGEST_ID, Moment, Open, Turn};
use crate::acp::SessionId;
use crate::link::Listened;
use crate::machine::Tag;

/// What is known of a session.
#[derive(Debug)]
pub(super) enum Session {
    /// It is being loaded or resumed; its updates belong there.
    Opening(Moment),
    /// On the heap: the tree that keeps sessions has room for eleven as soon as there is one.
    Open(Box<Known>),
}

/// What is known of a session that is open.
#[derive(Debug, Default)]
pub(super) struct Known {
    turn: Turn,
    /// The last turn that was given up, until the agent ends it after all.
    late: Option<Open>,
    /// When it was opened or spoken to, as a number that rises.
    used: u64,
    /// Whether it has modes to choose from.
    pub(super) modes: bool,
    /// Whether it has models to choose from, beside its options.
    pub(super) models: bool,
    /// Whether it has options to set.
    pub(super) options: bool,
}

impl Known {
    pub(super) const fn new(modes: bool, models: bool, options: bool) -> Self {
        Self { turn: Turn::Idle, late: None, used: 0, modes, models, options }
    }

    pub(super) const fn turn(&self) -> &Turn {
        &self.turn
    }
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    /// Those with a turn that nobody has cancelled.
    running: BTreeSet<SessionId>,
    /// Those of subagents, by the session that they work for.
    subagents: BTreeMap<SessionId, SessionId>,
    /// Rises whenever one is used.
    uses: u64,
    /// How many have a turn that was cancelled, and that the agent has not ended.
    cancelled: usize,
    /// Those of them whose turn is to be over by then.
    due: BTreeSet<(Listened, SessionId)>,
    /// Those with a turn that was given up, by the request that the agent has not answered.
    late: BTreeMap<u64, SessionId>,
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Session> {
        self.all.get(id)
    }

    /// The session of that id, with the id as it is kept.
    pub(super) fn find(&self, id: &str) -> Option<(&SessionId, &Session)> {
        self.all.get_key_value(id)
    }

    pub(super) fn known_mut(&mut self, id: &SessionId) -> Option<&mut Known> {
        match self.all.get_mut(id)? {
            Session::Open(known) => Some(known),
            Session::Opening(_) => None,
        }
    }

    pub(super) fn turn(&self, id: &SessionId) -> Option<&Turn> {
        match self.all.get(id)? {
            Session::Open(known) => Some(&known.turn),
            Session::Opening(_) => None,
        }
    }

    pub(super) fn insert(&mut self, id: SessionId, mut session: Session) {
        self.remove(&id);
        if let Session::Open(known) = &mut session {
            self.uses += 1;
            known.used = self.uses;
        }
        self.all.insert(id, session);
    }

    /// A subagent works in a session of its own, for that one. More than a few hundred are not told apart.
    pub(super) fn adopt(&mut self, subagent: SessionId, of: SessionId) {
        let is_strange = !self.all.contains_key(&subagent);
        if is_strange && subagent.as_str().len() <= LONGEST_ID && self.subagents.len() < SUBAGENTS {
            self.subagents.insert(subagent, of);
        }
    }

    /// A session of a subagent, and the one that it works for.
    pub(super) fn subagent(&self, id: &str) -> Option<(SessionId, SessionId)> {
        self.subagents.get_key_value(id).map(|(session, of)| (session.clone(), of.clone()))
    }

    pub(super) fn remove(&mut self, id: &SessionId) {
        self.subagents.retain(|_, of| of != id);
        self.set_turn(id, Turn::Idle);
        if let Some(Session::Open(known)) = self.all.remove(id)
            && let Some(late) = known.late
        {
            self.late.remove(&late.request);
        }
    }

    /// Changes the turn of an open session and returns what it was.
    pub(super) fn set_turn(&mut self, id: &SessionId, turn: Turn) -> Option<Turn> {
        let Session::Open(known) = self.all.get_mut(id)? else { return None };
        let was = std::mem::replace(&mut known.turn, turn);
        match was {
            Turn::Idle => {}
            Turn::Running(_) => drop(self.running.remove(id)),
            Turn::Cancelling(_, until) => {
                self.cancelled -= 1;
                until.map(|until| self.due.remove(&(until, id.clone())));
            }
            Turn::GivenUp(_) => self.cancelled -= 1,
        }
        match turn {
            Turn::Idle => {}
            Turn::Running(_) => {
                self.uses += 1;
                known.used = self.uses;
                self.running.insert(id.clone());
            }
            Turn::Cancelling(_, until) => {
                self.cancelled += 1;
                self.due.extend(until.map(|until| (until, id.clone())));
            }
            Turn::GivenUp(open) => {
                self.cancelled += 1;
                if let Some(older) = known.late.replace(open) {
                    self.late.remove(&older.request);
                }
                self.late.insert(open.request, id.clone());
            }
        }
        Some(was)
    }

    /// Ends a turn without the agent, and names its prompt.
    pub(super) fn give_up(&mut self, id: &SessionId) -> Option<Open> {
        let open = self.turn(id)?.open()?;
        self.set_turn(id, Turn::GivenUp(open));
        Some(open)
    }

    /// The late answer to a request: a turn that was given up is over for the agent as well. Names its session and its
    /// prompt.
    pub(super) fn late_answer(&mut self, request: u64) -> Option<(SessionId, Tag)> {
        let session = self.late.remove(&request)?;
        let known = self.known_mut(&session)?;
        let late = known.late.take()?;
        if known.turn == Turn::GivenUp(late) {
            self.set_turn(&session, Turn::Idle);
        }
        Some((session, late.tag))
    }

    /// The one that was not used for longest, of those that nobody is busy with.
    pub(super) fn longest_idle(&self, busy: impl Fn(&SessionId) -> bool) -> Option<SessionId> {
        let idle = self.all.iter().filter_map(|(id, state)| match state {
            Session::Open(known) if matches!(known.turn, Turn::Idle) && !busy(id) => Some((&known.used, id)),
            Session::Open(_) | Session::Opening(_) => None,
        });
        idle.min().map(|(_, id)| id.clone())
    }

    /// Whether a turn of another one runs.
    pub(super) fn runs_beside(&self, id: &SessionId) -> bool {
        self.running.len() > usize::from(self.running.contains(id))
    }

    /// Those with a turn that nobody has cancelled.
    pub(super) fn running(&self) -> Vec<SessionId> {
        self.running.iter().cloned().collect()
    }

    pub(super) fn any_runs(&self) -> bool {
        !self.running.is_empty()
    }

    pub(super) const fn any_is_cancelled(&self) -> bool {
        self.cancelled > 0
    }

    /// When the next cancelled turn is to be over.
    pub(super) fn deadline(&self) -> Option<Listened> {
        self.due.first().map(|(until, _)| *until)
    }

    /// A session whose cancelled turn should be over by now.
    pub(super) fn unconfirmed(&self, now: Listened) -> Option<SessionId> {
        self.due.first().filter(|(until, _)| *until <= now).map(|(_, session)| session.clone())
    }
}

/// Subagents that are told apart.
const SUBAGENTS: usize = 512;
