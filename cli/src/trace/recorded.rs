//! A machine that is driven, and recorded where that is wanted.

use std::io;
use std::path::PathBuf;

use agentline_blocking::{Driver, Handle};
use agentline_core::trace::{Recording, Tap, Tapped, Traced};
use agentline_core::{Machine, Refused, Secret};
use clap::Args;
use serde::Serialize;

use super::Trace;
use crate::output::Notes;
use crate::words::Problem;

/// Whether a run is recorded, as the command line says.
#[derive(Debug, Default, Args)]
pub(crate) struct Record {
    /// Record everything that is said, in a new file: `agentline trace view FILE` shows it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// With --trace: replace a file that is there
    #[arg(long, requires = "trace")]
    force: bool,
}

impl Record {
    /// The file, before anything is started.
    pub(crate) fn file(&self) -> Result<Option<Trace>, Problem> {
        self.trace.as_deref().map(|path| Trace::new(path, self.force)).transpose()
    }
}

/// The driver of a machine that tells its events, and keeps the lines of its trace.
pub(crate) struct Recorded<M: Machine<Config: Serialize, Command: Serialize, Event: Serialize>> {
    driver: Driver<Tap<M>>,
    /// An event that was met while lines of the trace were taken.
    met: Option<M::Event>,
    trace: Option<Trace>,
    notes: Notes,
}

impl<M: Machine<Config: Serialize, Command: Serialize, Event: Serialize>> Recorded<M> {
    /// Starts a machine: which side of which channel it is, and what no line may show.
    pub(crate) fn new(
        config: M::Config,
        (channel, role): (&str, &str),
        secrets: Vec<Secret<Vec<u8>>>,
        trace: Option<Trace>,
        notes: &Notes,
    ) -> io::Result<Self> {
        let recording =
            trace.is_some().then(|| Recording { channel: channel.into(), role: role.into(), secrets });
        let driver = Driver::new(Tapped { config, recording })?;
        Ok(Self { driver, met: None, trace, notes: notes.clone() })
    }

    /// Where what cuts the trace short is told from now on.
    pub(crate) fn note_to(&mut self, notes: &Notes) {
        self.notes = notes.clone();
    }

    pub(crate) fn handle(&self) -> Handle<Tap<M>> {
        self.driver.handle()
    }

    pub(crate) fn command(&self, command: M::Command) -> Result<(), Refused> {
        self.driver.command(command)
    }

    /// Whether the next event is there already.
    pub(crate) fn is_ready(&mut self) -> bool {
        while self.met.is_none() && self.driver.is_ready() {
            let Some(told) = self.driver.next() else { return true };
            self.met = self.event(told);
        }
        self.met.is_some()
    }

    /// The event, if it is one; a line goes to the file.
    fn event(&mut self, told: Traced<M::Event>) -> Option<M::Event> {
        match told {
            Traced::Event(event) => Some(event),
            Traced::Line(line) => {
                let broken = self.trace.as_mut().and_then(|trace| trace.write(&line));
                self.note(broken);
                None
            }
        }
    }

    fn note(&self, broken: Option<String>) {
        if let Some(broken) = broken {
            self.notes.line(&format!("! {broken}"));
        }
    }
}

/// Events until the machine has ended.
impl<M: Machine<Config: Serialize, Command: Serialize, Event: Serialize>> Iterator for Recorded<M> {
    type Item = M::Event;

    fn next(&mut self) -> Option<M::Event> {
        if let Some(event) = self.met.take() {
            return Some(event);
        }
        while let Some(told) = self.driver.next() {
            if let Some(event) = self.event(told) {
                return Some(event);
            }
        }
        let broken = self.trace.as_mut().and_then(Trace::flush);
        self.note(broken);
        None
    }
}
