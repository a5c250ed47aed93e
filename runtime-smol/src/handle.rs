//! The way in for other tasks and threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use agentline_core::{Machine, Refused};
use agentline_os::{Batch, Engine, Given};

use crate::poll::{Bell, Polls};

/// Commands a machine from any task or thread: the keyboard's, the one that waits for signals, a watcher's.
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

/// What a driver, its events and its handles share.
pub(crate) struct Shared<M: Machine> {
    pub(crate) bell: Arc<Bell>,
    seat: Mutex<Seat<M>>,
}

pub(crate) struct Seat<M: Machine> {
    pub(crate) engine: Engine<M, Polls>,
    pub(crate) reader: Reader,
    /// Whoever takes them said that it is full.
    full: bool,
}

/// Whoever takes the events.
pub(crate) enum Reader {
    Busy,
    Waiting(Waker),
    Gone,
}

impl<M: Machine> Shared<M> {
    pub(crate) fn new(config: M::Config, given: Option<Given>) -> Self {
        let bell = Arc::new(Bell::default());
        let engine = Engine::new(config, Polls(Arc::clone(&bell)), given);
        Self { bell, seat: Mutex::new(Seat { engine, reader: Reader::Busy, full: false }) }
    }

    /// Never held while waiting.
    pub(crate) fn seat(&self) -> MutexGuard<'_, Seat<M>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step of the machine, and whoever has to know of it is woken.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Engine<M, Polls>) -> T) -> T {
        let mut seat = self.seat();
        let done = step(&mut seat.engine);
        seat.balance();
        done
    }

    pub(crate) fn command(&self, command: M::Command) -> Result<(), Refused> {
        self.batch(|batch| batch.command(command))
    }

    pub(crate) fn batch<T>(&self, commands: impl FnOnce(&mut Batch<'_, M>) -> T) -> T {
        let done = self.step(|engine| engine.batch(commands));
        self.bell.ring();
        done
    }

    pub(crate) fn hold(&self, full: bool) {
        let mut seat = self.seat();
        seat.full = full;
        seat.balance();
        drop(seat);
        self.bell.ring();
    }
}

impl<M: Machine> Seat<M> {
    /// Wakes the reader if there is something for it, and holds the machine until it has come.
    pub(crate) fn balance(&mut self) {
        if let Reader::Gone = self.reader {
            while self.engine.told().is_some() {}
        }
        self.engine.hold(self.full || self.engine.has_told());
        if (self.engine.has_told() || self.engine.is_over())
            && let Reader::Waiting(waker) = &self.reader
        {
            waker.wake_by_ref();
            self.reader = Reader::Busy;
        }
    }
}
