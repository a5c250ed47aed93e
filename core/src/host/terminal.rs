//! One command: a child in a session of its own, of whose output the end is kept.

use super::output::Tail;
use crate::limits::{Graces, Limits};
use crate::link::{Link, Report};
use crate::machine::{
    Deadline, Exit, Heard, Input, LinkId, Machine, Now, Open, OpenError, Output, Outputs, Refused, SpawnSpec,
    Time, soonest,
};

/// A command that runs, has ended, or was released and is on its way out.
#[derive(Debug)]
pub(super) struct Terminal {
    link: Link,
    output: Tail,
    exit: Option<Exit>,
    /// When the last output counts as lost, once the command has ended: another may hold the pipe.
    settled: Option<Time>,
    /// The end was told.
    told: bool,
    /// Nobody asks for it any more.
    released: bool,
    grace: std::time::Duration,
    out: Outputs<Event>,
}

/// What a terminal starts from: the command, and how many bytes of its output are kept.
pub(super) struct Config {
    pub(super) spec: SpawnSpec,
    pub(super) keep: usize,
    pub(super) graces: Graces,
}

#[derive(Debug)]
pub(super) enum Command {
    /// The command ends; what it wrote can still be read.
    Kill,
    /// The same, and nothing of it is asked for any more.
    Release,
}

#[derive(Debug)]
pub(super) enum Event {
    Started,
    /// It never will; nothing follows.
    Failed(OpenError),
    Exited,
}

impl Machine for Terminal {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config { spec, keep, graces } = config;
        let mut out = Outputs::default();
        let link = Link::open(now, LinkId::FIRST, Open::spawn(spec), &Limits::default(), &graces, &mut out);
        let (output, grace) = (Tail::new(keep), graces.drain);
        Self { link, output, exit: None, settled: None, told: false, released: false, grace, out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(_, heard) = input {
            let report = self.link.heard(now, heard, &mut self.out);
            self.reported(&report);
            if let Heard::Exited(exit) = heard
                && self.exit.is_none()
            {
                (self.exit, self.settled) = (Some(exit), Some(now.mono + self.grace));
            }
        }
        let report = self.link.tick(now, &mut self.out);
        self.reported(&report);
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        self.released |= matches!(command, Command::Release);
        self.link.hasten(now, &mut self.out);
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        let settled = self.settled.filter(|_| !self.told).map(|at| (at, "the last output of a command"));
        soonest(settled, self.link.deadline())
    }
}

impl Terminal {
    /// What it wrote, as far as it is kept, and whether there was more before it.
    pub(super) fn output(&self) -> (String, bool) {
        self.output.text()
    }

    /// How the command ended, once that was told.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit.filter(|_| self.told)
    }

    fn reported(&mut self, report: &Report<'_>) {
        match report {
            // It is told nothing: whatever waits for input goes on without.
            Report::Opened(_) => {
                self.link.end_input(&mut self.out);
                self.out.tell(Event::Started);
            }
            Report::Failed(error) => {
                (self.told, self.released) = (true, true);
                self.out.tell(Event::Failed(*error));
            }
            Report::Bytes(bytes) | Report::Stderr(bytes) => self.output.write(bytes),
            Report::Quiet | Report::Ended => {}
        }
    }

    fn settle(&mut self, now: Now) {
        let is_whole = self.link.has_ended() || self.settled.is_some_and(|at| at <= now.mono);
        let is_over = self.exit.is_some() && is_whole;
        // A process that even SIGKILL does not end is given up.
        if (is_over || self.link.is_closed()) && !std::mem::replace(&mut self.told, true) {
            self.exit.get_or_insert(Exit::Unknown);
            self.output.end();
            self.out.tell(Event::Exited);
        }
        if self.released && self.link.is_closed() {
            self.released = false;
            self.out.end();
        }
    }
}
