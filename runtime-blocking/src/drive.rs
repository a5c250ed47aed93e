//! The loop: hand out what the machine said, feed it what is ready, wait.

use std::io;
use std::sync::Arc;

use agentline_core::{Machine, Refused};
use agentline_os::{Alert, Batch, Engine, Given, Poller, Round, Shared};

/// Commands a machine from any thread.
pub type Handle<M> = agentline_os::Handle<M, Waiting>;

/// A machine with its links, driven by whoever asks it for the next event.
///
/// Nothing is read while an event is not yet taken, so a slow application slows its peers down and no queue
/// grows. Dropped, it kills what children there are, with their groups.
pub struct Driver<M: Machine> {
    shared: Arc<Shared<M, Waiting>>,
    poller: Poller,
    round: Round,
}

/// Whether the driver waits, and has to hear of what others did.
pub struct Waiting {
    poller: Poller,
    waits: bool,
}

impl Alert for Waiting {
    fn alert<M: Machine>(&mut self, _: &mut Engine<M>) {
        if std::mem::take(&mut self.waits) {
            self.poller.notify();
        }
    }
}

impl<M: Machine> Driver<M> {
    /// Starts a machine.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn new(config: M::Config) -> io::Result<Self> {
        Self::with_given(config, [])
    }

    /// Starts a machine that opens links to streams which are there already: the first is number 0.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn with_given(config: M::Config, given: impl IntoIterator<Item = Given>) -> io::Result<Self> {
        let engine = Engine::with_given(config, given)?;
        let poller = engine.poller();
        let waiting = Waiting { poller: poller.clone(), waits: false };
        Ok(Self { shared: Arc::new(Shared::new(engine, waiting)), poller, round: Round::default() })
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
}

/// Events until the machine has ended.
impl<M: Machine> Iterator for Driver<M> {
    type Item = M::Event;

    fn next(&mut self) -> Option<M::Event> {
        loop {
            let mut seat = self.shared.seat();
            if let Some(event) = seat.engine.told() {
                return Some(event);
            }
            if seat.engine.is_over() {
                return None;
            }
            if self.round.is_empty() {
                let until = seat.engine.deadline();
                seat.alert.waits = true;
                drop(seat);
                // The only wait.
                let waited = self.poller.wait(&mut self.round, until);
                seat = self.shared.seat();
                seat.alert.waits = false;
                if waited.is_err() {
                    seat.engine.abandon();
                }
            }
            seat.engine.turn(&mut self.round);
        }
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        self.shared.seat().engine.abandon();
    }
}
