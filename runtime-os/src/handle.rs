//! An engine that many threads command while one of them drives.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentline_core::{Machine, Refused};

use crate::engine::{Batch, Engine};
use crate::given::Given;

/// Commands a machine from any task or thread: the keyboard's, the one that waits for signals, a watcher's.
///
/// It needs no queue: a command is decided, and what it writes is written, before the call returns. It never
/// waits for more than one step of the driver.
pub struct Handle<M: Machine, A: Alert>(Arc<Shared<M, A>>);

/// What a runtime adds to an engine: how its driver, and whoever takes the events, hear of what others did.
pub trait Alert: Sized {
    /// The engine has moved: whoever waits for that is woken.
    fn alert<M: Machine>(&mut self, engine: &mut Engine<M>);
}

/// What a driver and its handles share.
pub struct Shared<M: Machine, A: Alert>(Mutex<Seat<M, A>>);

/// An engine, and who waits for it.
pub struct Seat<M: Machine, A: Alert> {
    /// The engine that does what was asked.
    pub engine: Engine<M>,
    /// Wakes whoever waits, when there is something to do.
    pub alert: A,
}

impl<M: Machine, A: Alert> Handle<M, A> {
    /// A handle of that engine.
    #[must_use]
    pub fn new(shared: &Arc<Shared<M, A>>) -> Self {
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
        self.0.step(|engine| engine.hold(full));
    }

    /// A stream for a link that will be opened as given by that number.
    pub fn give(&self, number: u32, given: Given) {
        self.0.seat().engine.give(number, given);
    }
}

impl<M: Machine, A: Alert> Clone for Handle<M, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Machine, A: Alert> Shared<M, A> {
    /// An engine for more than one thread.
    pub const fn new(engine: Engine<M>, alert: A) -> Self {
        Self(Mutex::new(Seat { engine, alert }))
    }

    /// The engine, for oneself. Never kept while waiting.
    pub fn seat(&self) -> MutexGuard<'_, Seat<M, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step of the engine, and whoever has to know of it is woken.
    pub fn step<T>(&self, step: impl FnOnce(&mut Engine<M>) -> T) -> T {
        let Seat { engine, alert } = &mut *self.seat();
        let done = step(engine);
        alert.alert(engine);
        done
    }

    /// Commands the machine; what it writes is written before this returns.
    ///
    /// # Errors
    ///
    /// The machine refuses, or is over.
    pub fn command(&self, command: M::Command) -> Result<(), Refused> {
        self.batch(|batch| batch.command(command))
    }

    /// Several commands, performed together before this returns.
    pub fn batch<T>(&self, commands: impl FnOnce(&mut Batch<'_, M>) -> T) -> T {
        self.step(|engine| engine.batch(commands))
    }
}
