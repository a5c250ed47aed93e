//! Requests of ours that wait for an answer, with an index of their tags and their clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::api::Clock;
use super::ask::Ask;
use crate::acp::SessionId;
use crate::link::Listened;
use crate::machine::Tag;
use crate::rpc::{Id, Pending};

/// A request that waits for its answer.
#[derive(Debug)]
struct Asked {
    ask: Ask,
    clock: Option<(Listened, Duration)>,
}

#[derive(Debug, Default)]
pub(super) struct Asks {
    open: Pending<Asked>,
    tags: BTreeMap<Tag, u64>,
    /// When the clock of each was to run out, before news of the agent gave it more time.
    due: BTreeSet<(Listened, u64)>,
    /// How many of them open a new session.
    opening: usize,
}

impl Asks {
    pub(super) const fn next(&self) -> u64 {
        self.open.next()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether a session may speak whose id was not told yet.
    pub(super) const fn opens_new_session(&self) -> bool {
        self.opening > 0
    }

    pub(super) fn number_of(&self, tag: Tag) -> Option<u64> {
        self.tags.get(&tag).copied()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Ask> {
        self.open.get(number).map(|asked| &asked.ask)
    }

    pub(super) fn is_about(&self, session: &SessionId) -> bool {
        self.open.iter().any(|(_, asked)| asked.ask.is_about(session))
    }

    /// The oldest of them, as a peer that answers something else should have named them.
    pub(super) fn oldest(&self) -> Vec<u64> {
        self.open.iter().map(|(number, _)| number).take(SHOWN).collect()
    }

    /// Opens a request whose clock runs from now on.
    pub(super) fn open(&mut self, now: Listened, ask: Ask, patience: Option<Duration>) -> u64 {
        let number = self.open.next();
        if let Some(tag) = ask.tag() {
            self.tags.insert(tag, number);
        }
        self.opening += usize::from(ask.opens_new_session());
        let clock = patience.map(|patience| (now + patience, patience));
        self.due.extend(clock.map(|(until, _)| (until, number)));
        self.open.open(Asked { ask, clock })
    }

    /// Closes the request that an answer names.
    pub(super) fn close(&mut self, id: &Id) -> Option<Ask> {
        self.forget(id.number()?)
    }

    pub(super) fn forget(&mut self, number: u64) -> Option<Ask> {
        let Asked { ask, clock } = self.open.forget(number)?;
        if let Some(tag) = ask.tag() {
            self.tags.remove(&tag);
        }
        self.opening -= usize::from(ask.opens_new_session());
        if let Some((until, _)) = clock {
            self.due.remove(&(until, number));
        }
        Some(ask)
    }

    /// Closes the oldest request.
    pub(super) fn pop(&mut self) -> Option<Ask> {
        let (number, _) = self.open.iter().next()?;
        self.forget(number)
    }

    /// When the next clock runs out, and what for; news of the agent may give it more time then.
    pub(super) fn deadline(&self) -> Option<(Listened, &'static str)> {
        let (until, number) = self.due.first()?;
        Some((*until, self.get(*number)?.name()))
    }

    /// A request whose clock has run out, closed, with the clock. The agent's last news were then.
    pub(super) fn late(&mut self, now: Listened, news: Listened) -> Option<(u64, Ask, Clock, Duration)> {
        while let Some((until, number)) = self.due.first().copied().filter(|(until, _)| *until <= now) {
            let Some(Asked { ask, clock: Some((ends, patience)) }) = self.open.get_mut(number) else {
                self.due.pop_first();
                continue;
            };
            let more = news + *patience;
            if ask.takes_news_for_progress() && more > now {
                *ends = more;
                self.due.remove(&(until, number));
                self.due.insert((more, number));
                continue;
            }
            let (clock, patience) = (ask.clock(), *patience);
            return self.forget(number).map(|ask| (number, ask, clock, patience));
        }
        None
    }
}

/// Open requests that are named where an answer fits none.
const SHOWN: usize = 4;
