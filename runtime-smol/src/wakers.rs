//! Who waits for the machine: whoever takes its events, and the driver.

use std::task::Waker;
use std::time::Instant;

use agentline_core::Machine;
use agentline_os::{Alert, Engine};

/// Wakes who waits when the machine has moved.
pub struct Wakers {
    pub(crate) reader: Reader,
    pub(crate) driver: Option<Waker>,
    /// When the driver goes on by itself.
    pub(crate) alarm: Option<Instant>,
}

/// Whoever takes the events.
pub(crate) enum Reader {
    Busy,
    Waiting(Waker),
    Gone,
}

impl Wakers {
    pub(crate) const fn new() -> Self {
        Self { reader: Reader::Busy, driver: None, alarm: None }
    }

    pub(crate) fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    fn is_early<M: Machine>(&self, engine: &Engine<M>) -> bool {
        engine.deadline().is_some_and(|until| self.alarm.is_none_or(|alarm| until < alarm))
    }
}

impl Alert for Wakers {
    fn alert<M: Machine>(&mut self, engine: &mut Engine<M>) {
        if let Reader::Gone = self.reader {
            while engine.told().is_some() {}
        }
        if (engine.has_told() || engine.is_over())
            && let Reader::Waiting(waker) = &self.reader
        {
            waker.wake_by_ref();
            self.reader = Reader::Busy;
        }
        if engine.is_over() || self.is_early(engine) {
            self.wake_driver();
        }
    }
}
