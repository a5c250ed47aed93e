//! A machine and its links: the loop of every driver, without its wait.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use agentline_core::{Input, Machine, Now, Output, Refused, Time};

use crate::clock::Clock;
use crate::given::Given;
use crate::io::Io;
use crate::poll::{Poller, Round};
use crate::store;

/// Feeds a machine and does what it wants, at once. After each call the machine is drained: what it had to
/// say waits to be [taken](Engine::told), and nothing is read meanwhile.
pub struct Engine<M: Machine> {
    machine: M,
    io: Io,
    told: VecDeque<M::Event>,
    clock: Clock,
    /// When the machine was last fed.
    fed: Now,
    /// Since when nobody reads, because of an event that was not taken, or of an application that is busy with the last.
    unread: Option<Now>,
    overdue: Overdue,
    /// Whoever takes the events said that it is full.
    held: bool,
    over: bool,
}

/// A deadline that has come, and is served when all that lies in the pipes was read.
#[derive(Default)]
enum Overdue {
    #[default]
    No,
    /// What was ready then is being read; the number of the look that found it first.
    Reading(Time, u64),
    /// The process had not run for long, and whoever was frozen with it got a moment to speak.
    Spared(Time),
}

impl<M: Machine> Engine<M> {
    /// Starts a machine.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn new(config: M::Config) -> io::Result<Self> {
        Self::with_given(config, [])
    }

    /// Starts a machine that may open links to streams which are there already: the first is number 0.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn with_given(config: M::Config, given: impl IntoIterator<Item = Given>) -> io::Result<Self> {
        let mut io = Io::new()?;
        for (number, given) in (0..).zip(given) {
            io.give(number, given);
        }
        let clock = Clock::start();
        let now = clock.now();
        let machine = M::new(now, config);
        let mut engine = Self {
            machine,
            io,
            told: VecDeque::new(),
            clock,
            fed: now,
            unread: None,
            overdue: Overdue::No,
            held: false,
            over: false,
        };
        engine.settle(now);
        Ok(engine)
    }

    /// What to wait with, and for: it is readable while there is something to do.
    #[must_use]
    pub fn poller(&self) -> Poller {
        self.io.poller()
    }

    /// A stream for a link that will be opened as given by that number. One that was not taken yet is replaced.
    pub fn give(&mut self, number: u32, given: Given) {
        self.io.give(number, given);
    }

    /// Goes on by one step: one read, write, accept or reaping of the round, or, when the last look found nothing, the
    /// deadline if it has come. While an event waits to be taken nothing is read, and only the deadline is served.
    pub fn turn(&mut self, round: &mut Round) {
        // The one back-pressure: whoever does not take events is not read for.
        if self.has_told() {
            return self.tick_unread();
        }
        self.read_on();
        if self.has_told() {
            return;
        }
        let Some((token, way)) = round.pop() else { return self.tick() };
        BUFFER.with_borrow_mut(|buffer| {
            if let Some((link, heard)) = self.io.ready(token, way, buffer) {
                let now = self.moment(round.looks());
                self.machine.handle(now, Input::Link(link, heard));
                self.settle(now);
            } else {
                // Nothing happened, so no time passed for the machine; what is waited for may still have changed.
                self.settle(self.fed);
            }
        });
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
        let now = self.moment_of_command();
        if self.unread.is_some() {
            self.absent_until(now);
        }
        let done = commands(&mut Batch { machine: &mut self.machine, now, over: self.over });
        self.settle(now);
        done
    }

    /// Whoever takes the events is full, or has room again. While it is full the peers are not read, and nothing
    /// runs out because they seem to be silent; all other clocks, commands and exits go on. What was read before
    /// is still told.
    pub fn hold(&mut self, full: bool) {
        if self.held != full {
            let now = self.moment_of_command();
            if self.unread.is_some() {
                self.absent_until(now);
            }
            self.held = full;
            self.machine.handle(now, Input::Hold(full));
            self.settle(now);
        }
    }

    /// The oldest event that nobody has taken. With `None` reading goes on.
    pub fn told(&mut self) -> Option<M::Event> {
        if self.told.is_empty() {
            self.told.shrink_to(KEPT);
            self.read_on();
        }
        self.told.pop_front()
    }

    /// Whether events wait to be taken.
    #[must_use]
    pub fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// When to [turn](Engine::turn) at the latest, after a look.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.clock.at(self.machine.deadline()?.0)
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

    /// Whoever takes the events is back for more.
    fn read_on(&mut self) {
        if self.unread.is_some() {
            let now = self.clock.now();
            self.absent_until(now);
            if self.told.is_empty() {
                self.unread = None;
            }
        }
    }

    /// Nobody read meanwhile, and what waits for the peers' words must not run out because of that.
    fn absent_until(&mut self, now: Now) {
        let Some(since) = self.unread.replace(now) else { return };
        // Told only if it could matter: two inputs for each event would cost more than the event.
        if now.mono.since(since.mono) >= AWAY || self.is_due(now) {
            // Time does not go back for the machine.
            let since = if since.mono < self.fed.mono { self.fed } else { since };
            self.machine.handle(since, Input::Hold(true));
            self.machine.handle(now, Input::Hold(self.held));
            self.settle(now);
        } else {
            self.unread = Some(since);
        }
    }

    fn is_due(&self, now: Now) -> bool {
        self.machine.deadline().is_some_and(|(at, _)| at <= now.mono)
    }

    /// Events are not taken, so the peers have time; whatever else is due is due.
    fn tick_unread(&mut self) {
        let now = self.clock.now();
        if self.is_due(now) {
            self.absent_until(now);
            self.machine.handle(now, Input::Tick);
            self.settle(now);
        }
    }

    /// The last look found nothing, so that what was not heard was not said.
    fn tick(&mut self) {
        let now = self.clock.now();
        let Some((at, _)) = self.machine.deadline().filter(|(at, _)| *at <= now.mono) else { return };
        let late = now.mono.since(at);
        if late >= FROZEN && !matches!(self.overdue, Overdue::Spared(spared) if spared == at) {
            self.overdue = Overdue::Spared(at);
            self.clock.stand_at(self.fed.mono.max(before(at, MOMENT)));
            return;
        }
        self.overdue = Overdue::No;
        self.machine.handle(now, Input::Tick);
        self.settle(now);
    }

    /// The time of what was read just now. It stands still right before a deadline until all that lay in the pipes when
    /// that came was read, however late we are; a peer that never stops talking does not put it off for ever.
    fn moment(&mut self, look: u64) -> Now {
        let now = self.clock.now();
        let Some((at, _)) = self.machine.deadline().filter(|(at, _)| *at <= now.mono) else { return now };
        let first = match self.overdue {
            Overdue::Reading(of, first) if of == at => first,
            Overdue::No | Overdue::Reading(..) | Overdue::Spared(_) => look,
        };
        let most = FULL_PIPE * (1 + (self.io.len() / Round::MOST) as u64);
        if look - first >= most {
            return now;
        }
        self.overdue = Overdue::Reading(at, first);
        self.stand_before(at)
    }

    /// The time of a command. What still lies in a pipe comes before a deadline, whatever is done meanwhile.
    fn moment_of_command(&mut self) -> Now {
        match (&self.overdue, self.machine.deadline()) {
            (Overdue::Reading(of, _), Some((at, _))) if *of == at && self.clock.now().mono >= at => {
                self.stand_before(at)
            }
            _ => self.clock.now(),
        }
    }

    fn stand_before(&mut self, at: Time) -> Now {
        self.clock.stand_at(self.fed.mono.max(before(at, Duration::from_micros(1))))
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
                    Output::End => {
                        self.abandon();
                        break;
                    }
                }
            }
            let Some((link, heard)) = self.io.answer() else { break };
            self.machine.handle(now, Input::Link(link, heard));
        }
        if self.has_told() {
            self.unread.get_or_insert(now);
        }
    }
}

fn before(at: Time, span: Duration) -> Time {
    Time::ZERO + at.since(Time::ZERO + span)
}

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

thread_local! {
    /// One for all engines of a thread: nothing stays in it between two turns.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// Events that room is kept for while there are none.
const KEPT: usize = 16;
/// Bytes of one read: what a pipe holds.
const READ: usize = 64 << 10;
/// An absence that counts: far less than any clock takes, and far more than most handlers.
const AWAY: Duration = Duration::from_millis(10);
/// A wait that ended so late was stopped with its process or its machine, and the peers may have been as well.
const FROZEN: Duration = Duration::from_secs(1);
/// What they get to speak then.
const MOMENT: Duration = Duration::from_millis(500);
/// Looks that empty the fullest pipe: 1 MiB is 16 full reads, and a peer may be in the middle of a write.
const FULL_PIPE: u64 = 32;
