//! The loop: hand out what the machine said, feed it what is ready, wait.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use agentline_core::{Machine, Refused};
use agentline_os::{Batch, Given, Token, Way};

use crate::handle::{Handle, Shared};
use crate::poll::Poller;

/// A machine with its links, driven by whoever asks it for the next event.
///
/// Nothing is read while an event is not yet taken, so a slow application slows its peers down and no queue
/// grows. Dropped, it kills what children there are, with their groups.
pub struct Driver<M: Machine> {
    shared: Arc<Shared<M>>,
    ready: VecDeque<(Token, Way)>,
    /// The last event was taken, and the next one not yet asked for.
    away: bool,
    buffer: Box<[u8]>,
}

impl<M: Machine> Driver<M> {
    /// Starts a machine.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn new(config: M::Config) -> io::Result<Self> {
        Self::start(config, None)
    }

    /// Starts a machine that opens a link to a stream which is there already.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn with_given(config: M::Config, given: Given) -> io::Result<Self> {
        Self::start(config, Some(given))
    }

    fn start(config: M::Config, given: Option<Given>) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared::new(config, given)?),
            ready: VecDeque::new(),
            away: false,
            buffer: vec![0; READ].into(),
        })
    }

    /// A way to command the machine from elsewhere.
    #[must_use]
    pub fn handle(&self) -> Handle<M> {
        Handle::new(&self.shared)
    }

    /// Whether the next event is there already: asking for it waits for nothing. For who gathers output.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.seat().engine.has_told()
    }

    /// Commands the machine; what it writes is written before this returns.
    ///
    /// # Errors
    ///
    /// The machine refuses, or is over.
    pub fn command(&self, command: M::Command) -> Result<(), Refused> {
        self.shared.command(command)
    }

    /// Several commands, performed together before this returns: what they write goes out in as few writes as
    /// it fits. `commands` may do nothing else with this machine.
    pub fn batch<T>(&self, commands: impl FnOnce(&mut Batch<'_, M>) -> T) -> T {
        self.shared.batch(commands)
    }

    /// The only wait. Whatever is ready comes before the deadline, however late we are.
    fn wait(&mut self, until: Option<Instant>) {
        if self.shared.poller.wait(&mut self.ready, until).is_err() {
            // Nothing would ever be heard again.
            self.shared.seat().engine.abandon();
        } else if self.ready.is_empty() {
            self.shared.seat().engine.tick();
        }
    }
}

/// Events until the machine has ended.
impl<M: Machine> Iterator for Driver<M> {
    type Item = M::Event;

    fn next(&mut self) -> Option<M::Event> {
        loop {
            let mut seat = self.shared.seat();
            seat.waiting = false;
            if let Some(event) = seat.engine.told() {
                self.away = true;
                return Some(event);
            }
            if std::mem::take(&mut self.away) {
                seat.engine.back();
                continue;
            }
            if seat.engine.is_over() {
                return None;
            }
            if let Some((token, way)) = self.ready.pop_front() {
                seat.engine.ready(token, way, &mut self.buffer);
            } else {
                let until = seat.engine.deadline();
                seat.waiting = true;
                drop(seat);
                self.wait(until);
            }
        }
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        self.shared.seat().engine.abandon();
    }
}

/// Bytes of one read: what a pipe holds.
const READ: usize = 64 << 10;
