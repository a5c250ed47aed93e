//! A machine and its links: the loop of both runtimes, without its wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentline_core::{Input, Machine, Now, Output, Refused, Time};

use crate::given::Given;
use crate::io::Io;
use crate::store;
use crate::watch::{Token, Watch, Way};

/// Feeds a machine and does what it wants, at once. After each call the machine is drained: what it had to
/// say waits to be [taken](Engine::told).
pub struct Engine<M: Machine, W: Watch> {
    machine: M,
    io: Io<W>,
    told: VecDeque<M::Event>,
    clock: Clock,
    /// When the machine was last fed.
    fed: Now,
    held: bool,
    over: bool,
}

impl<M: Machine, W: Watch> Engine<M, W> {
    /// Starts a machine. `given`: the stream for a link that is opened as given.
    pub fn new(config: M::Config, watch: W, given: Option<Given>) -> Self {
        let clock = Clock(Instant::now());
        let now = clock.now();
        let machine = M::new(now, config);
        let io = Io::new(watch, given);
        let mut engine =
            Self { machine, io, told: VecDeque::new(), clock, fed: now, held: false, over: false };
        engine.settle(now);
        engine
    }

    /// A descriptor is ready: one read, write, accept or reaping.
    pub fn ready(&mut self, token: Token, way: Way, buffer: &mut [u8]) {
        if let Some((link, heard)) = self.io.ready(token, way, buffer) {
            let now = self.clock.now();
            self.machine.handle(now, Input::Link(link, heard));
            self.settle(now);
        }
    }

    /// Whoever takes the events is full, or has room again.
    pub fn hold(&mut self, hold: bool) {
        if self.held != hold {
            self.held = hold;
            let now = self.clock.now();
            self.machine.handle(now, Input::Hold(hold));
            self.settle(now);
        }
    }

    /// Whoever takes the events is back for more. Nobody read meanwhile, and what waits for the peers' words
    /// must not run out because of that.
    pub fn back(&mut self) {
        let now = self.clock.now();
        if now.mono.since(self.fed.mono) >= AWAY {
            self.machine.handle(self.fed, Input::Hold(true));
            self.machine.handle(now, Input::Hold(self.held));
            self.settle(now);
        }
    }

    /// The deadline may have come.
    pub fn tick(&mut self) {
        let now = self.clock.now();
        if self.machine.deadline().is_some_and(|(at, _)| at <= now.mono) {
            self.machine.handle(now, Input::Tick);
            self.settle(now);
        }
    }

    /// The application wants something: it is performed before this returns.
    ///
    /// # Errors
    ///
    /// The machine refuses, or is over.
    pub fn command(&mut self, command: M::Command) -> Result<(), Refused> {
        self.batch(|batch| batch.command(command))
    }

    /// Several commands, performed together.
    pub fn batch<T>(&mut self, commands: impl FnOnce(&mut Batch<'_, M>) -> T) -> T {
        let now = self.clock.now();
        let done = commands(&mut Batch { machine: &mut self.machine, now, over: self.over });
        self.settle(now);
        done
    }

    /// The oldest event that nobody has taken.
    pub fn told(&mut self) -> Option<M::Event> {
        self.told.pop_front()
    }

    /// Whether events wait to be taken.
    #[must_use]
    pub fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// When to [tick](Engine::tick) at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let (at, _) = self.machine.deadline()?;
        self.clock.0.checked_add(at.since(Time::ZERO))
    }

    /// Whether the machine is done. All its links are closed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Closes all links now. Children are killed with their groups.
    pub fn abandon(&mut self) {
        self.over = true;
        self.io.clear();
    }

    /// Does what the machine wants. What an action comes to at once belongs to the same moment.
    fn settle(&mut self, now: Now) {
        self.fed = now;
        loop {
            while let Some(output) = self.machine.poll() {
                match output {
                    Output::Do(link, action) => self.io.perform(link, action),
                    Output::Store(id, store) => {
                        if let Err(errno) = store::carry_out(&store) {
                            self.machine.handle(now, Input::StoreFailed(id, errno.raw_os_error()));
                        }
                    }
                    Output::Tell(event) => self.told.push_back(event),
                    Output::End => return self.abandon(),
                }
            }
            let Some((link, heard)) = self.io.answer() else { return };
            self.machine.handle(now, Input::Link(link, heard));
        }
    }
}

/// An absence that counts: far less than any clock takes, and far more than most handlers.
const AWAY: Duration = Duration::from_millis(10);

/// Commands that are performed together: what they write goes out in as few writes as it fits.
pub struct Batch<'a, M: Machine> {
    machine: &'a mut M,
    now: Now,
    over: bool,
}

impl<M: Machine> Batch<'_, M> {
    /// Commands the machine. It is performed at the end of the batch.
    ///
    /// # Errors
    ///
    /// The machine refuses, or is over. The other commands of the batch stand.
    pub fn command(&mut self, command: M::Command) -> Result<(), Refused> {
        if self.over {
            return Err(Refused::Closed);
        }
        self.machine.command(self.now, command)
    }
}

/// Both clocks, counted from the start of the machine.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Now {
        let mono = Time::ZERO + self.0.elapsed();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { mono, unix }
    }
}
