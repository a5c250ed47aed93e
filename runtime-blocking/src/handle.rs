//! The way in for other threads.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentline_core::{Machine, Refused};
use agentline_os::{Batch, Engine, Given};

use crate::poll::{Poller, Polls, System};

/// Commands a machine from any thread: the keyboard's, the one that waits for signals, a watcher's.
///
/// It needs no queue: a command is decided, and what it writes is written, before the call returns. It never
/// waits for more than one step of the driver.
pub struct Handle<M: Machine>(Arc<Shared<M>>);

impl<M: Machine> Handle<M> {
    pub(crate) fn new(shared: &Arc<Shared<M>>) -> Self {
        Self(Arc::clone(shared))
    }

    /// Commands the machine.
    ///
    /// # Errors
    ///
    /// The machine refuses, is over, or its driver is gone.
    pub fn command(&self, command: M::Command) -> Result<(), Refused> {
        self.0.command(command)
    }

    /// Several commands, performed together before this returns: what they write goes out in as few writes as
    /// it fits. `commands` may do nothing else with this machine.
    pub fn batch<T>(&self, commands: impl FnOnce(&mut Batch<'_, M>) -> T) -> T {
        self.0.batch(commands)
    }

    /// Whoever takes the events is full, or has room again. While it is full the peers are not read, and nothing
    /// runs out because they seem to be silent; all other clocks, commands and exits go on. What was read before
    /// is still told.
    pub fn hold(&self, full: bool) {
        self.0.hold(full);
    }
}

impl<M: Machine> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What a driver and its handles share.
pub(crate) struct Shared<M: Machine> {
    pub(crate) poller: Arc<System>,
    seat: Mutex<Seat<M>>,
}

pub(crate) struct Seat<M: Machine> {
    pub(crate) engine: Engine<M, Polls<System>>,
    /// The driver waits, and has to hear of what others did.
    pub(crate) waiting: bool,
}

impl<M: Machine> Shared<M> {
    pub(crate) fn new(config: M::Config, given: Option<Given>) -> io::Result<Self> {
        let poller = Arc::new(System::new()?);
        let engine = Engine::new(config, Polls(Arc::clone(&poller)), given);
        Ok(Self { poller, seat: Mutex::new(Seat { engine, waiting: false }) })
    }

    /// Never held while waiting.
    pub(crate) fn seat(&self) -> MutexGuard<'_, Seat<M>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn command(&self, command: M::Command) -> Result<(), Refused> {
        self.batch(|batch| batch.command(command))
    }

    pub(crate) fn batch<T>(&self, commands: impl FnOnce(&mut Batch<'_, M>) -> T) -> T {
        self.step(|engine| engine.batch(commands))
    }

    pub(crate) fn hold(&self, full: bool) {
        self.step(|engine| engine.hold(full));
    }

    fn step<T>(&self, step: impl FnOnce(&mut Engine<M, Polls<System>>) -> T) -> T {
        let mut seat = self.seat();
        let done = step(&mut seat.engine);
        if std::mem::take(&mut seat.waiting) {
            self.poller.notify();
        }
        done
    }
}
