//! The clock that stands still while nobody reads.

use std::ops::Add;
use std::time::Duration;

use crate::machine::{Now, Time};

/// What a peer has time for is measured by this: its words may lie in the pipe, unread for our own sake.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// How long it stood still in all.
    held_for: Duration,
    /// What it shows while it stands still.
    stopped: Option<Listened>,
}

/// A moment on a link's own clock, which stands still while the link is held. What waits for the peer's words goes
/// by it: they may lie in the pipe, unread.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Listened(Time);

impl Add<Duration> for Listened {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0 + span)
    }
}

impl Clock {
    pub(super) fn shows(&self, now: Now) -> Listened {
        self.stopped.unwrap_or(Listened(Time::ZERO + now.mono.since(Time::ZERO + self.held_for)))
    }

    pub(super) fn stop(&mut self, now: Now) {
        self.stopped = Some(self.shows(now));
    }

    pub(super) fn go_on(&mut self, now: Now) {
        if let Some(shown) = self.stopped.take() {
            self.held_for = now.mono.since(shown.0);
        }
    }

    /// When it will show that; `None` while it stands still.
    pub(super) fn due_at(&self, until: Listened) -> Option<Time> {
        self.stopped.is_none().then(|| until.0 + self.held_for)
    }
}
