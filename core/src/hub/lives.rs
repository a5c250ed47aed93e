//! The lives of agents' processes and links: what they call their sessions, and what they said of one too early.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::book::{Sid, SourceId};
use super::machine::Hub;
use crate::machine::Now;
use crate::rpc::Json;
use crate::session::{Can, Item, Name};

/// News of a process that are kept until their session has a name, and the bytes of them.
const EARLY: usize = 100;
const EARLY_BYTES: usize = 256 << 10;

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

/// News that came before the name of their session: bounded in number and in bytes.
#[derive(Debug, Default)]
pub(super) struct Early {
    items: Vec<Item>,
    bytes: usize,
}

impl Life {
    pub(super) fn new(agent: Arc<str>, link: Option<Can>) -> Self {
        Self { agent, names: BTreeMap::new(), link, early: Early::default() }
    }
}

impl Early {
    /// Keeps it. `false`: there is no room.
    pub(super) fn keep(&mut self, item: &Item) -> bool {
        let raw = item.raw.as_ref().map_or(0, |raw| raw.get().len());
        let bytes = self.bytes + raw + Json::new(item).get().len();
        let fits = self.items.len() < EARLY && bytes <= EARLY_BYTES;
        if fits {
            self.items.push(item.clone());
            self.bytes = bytes;
        }
        fits
    }

    /// Whether something was said of that one.
    pub(super) fn knows(&self, name: &Name) -> bool {
        self.items.iter().any(|item| item.session == *name)
    }
}

impl Hub {
    /// One more name is known: what was said before is heard now. While others are being opened it may wait again.
    pub(super) fn catch_up(&mut self, now: Now, source: SourceId) {
        let early = self.lives.get_mut(&source).map(|life| std::mem::take(&mut life.early));
        for item in early.map(|early| early.items).into_iter().flatten() {
            self.item(now, source, &item);
        }
    }
}
