//! The lives of agents' processes and links: what they call their sessions, and what they said of one too early.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::book::{Sid, SourceId};
use super::machine::Hub;
use crate::machine::Now;
use crate::session::{Can, Early, Name};

/// One life of an agent's process.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) agent: Arc<str>,
    pub(super) names: BTreeMap<Name, Sid>,
    /// What it offers, if it is a link and no process.
    pub(super) link: Option<Can>,
    /// What it said of sessions whose name is not known yet.
    pub(super) early: Early,
}

impl Life {
    pub(super) fn new(agent: Arc<str>, link: Option<Can>) -> Self {
        Self { agent, names: BTreeMap::new(), link, early: Early::default() }
    }
}

impl Hub {
    /// One more name is known: what was said before is heard now. While others are being opened it may wait again.
    pub(super) fn catch_up(&mut self, now: Now, source: SourceId) {
        let early = self.lives.get_mut(&source).map(|life| std::mem::take(&mut life.early));
        for item in early.map(Early::into_items).into_iter().flatten() {
            self.item(now, source, &item);
        }
    }
}
