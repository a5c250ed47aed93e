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
    pub(super) of: Of,
    /// What it said of sessions whose name is not known yet.
    pub(super) early: Early,
}

/// Whose life it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Of {
    /// The process of an agent, for all of its sessions.
    Agent,
    /// The process of one session.
    Runner(Sid),
    /// A link, which offers that.
    Link(Can),
}

impl Of {
    /// What it offers, if it is a link and no process.
    pub(super) const fn link(self) -> Option<Can> {
        match self {
            Self::Link(can) => Some(can),
            Self::Agent | Self::Runner(_) => None,
        }
    }

    /// The session, if it is a runner.
    pub(super) const fn runner(self) -> Option<Sid> {
        match self {
            Self::Runner(sid) => Some(sid),
            Self::Agent | Self::Link(_) => None,
        }
    }
}

impl Life {
    pub(super) fn new(agent: Arc<str>, of: Of) -> Self {
        Self { agent, names: BTreeMap::new(), of, early: Early::default() }
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
