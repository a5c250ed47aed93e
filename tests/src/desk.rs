//! A machine, and an operating system around it that does what it is told at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentline_core::{
    Action, Address, Change, Heard, Input, LinkId, Machine, Now, Open, Output, Refused, Signal, Store,
    StoreId, Time,
};

use crate::invariants::{Checked, Checks};

/// A machine that is watched, and everything that it did.
pub struct Desk<M: Machine> {
    /// The machine.
    pub machine: Checked<M>,
    /// The time.
    pub now: Now,
    /// The links that were asked for and have not been opened.
    pub connecting: VecDeque<LinkId>,
    /// Where it listens.
    pub listening: Vec<(LinkId, Address)>,
    /// The accept that is outstanding at its first listener.
    pub accepting: Option<LinkId>,
    /// Those at other listeners.
    pub accepts: BTreeMap<LinkId, LinkId>,
    /// The programs that it started.
    pub programs: BTreeMap<LinkId, OsString>,
    /// Links whose writes are not acknowledged, because nobody reads them.
    pub deaf: BTreeSet<LinkId>,
    written: BTreeMap<LinkId, Vec<u8>>,
    /// Links that it was told to read, or not to.
    pub held: BTreeMap<LinkId, bool>,
    /// Links of which it closed its half.
    pub shut: Vec<LinkId>,
    /// Children that it signalled, in order.
    pub signals: Vec<(LinkId, Signal)>,
    /// Links that it closed.
    pub closed: Vec<LinkId>,
    /// Its files, and who may read them.
    pub files: BTreeMap<PathBuf, (String, u32)>,
    /// By which id it stored each file.
    pub stored_as: BTreeMap<PathBuf, StoreId>,
    /// What it said and nobody has looked at.
    pub events: VecDeque<M::Event>,
    /// Whether it is done.
    pub ended: bool,
}

impl<M: Machine> Desk<M> {
    /// A machine of that config, at the start of its run.
    pub fn new(config: M::Config) -> Self {
        let now = Now { mono: Time::ZERO, unix: Duration::from_secs(1_700_000_000) };
        let mut desk = Self {
            machine: Checked::around(M::new(now, config), Checks::default()),
            now,
            connecting: VecDeque::new(),
            listening: Vec::new(),
            accepting: None,
            accepts: BTreeMap::new(),
            programs: BTreeMap::new(),
            deaf: BTreeSet::new(),
            written: BTreeMap::new(),
            held: BTreeMap::new(),
            shut: Vec::new(),
            signals: Vec::new(),
            closed: Vec::new(),
            files: BTreeMap::new(),
            stored_as: BTreeMap::new(),
            events: VecDeque::new(),
            ended: false,
        };
        desk.drain();
        desk
    }

    /// Tells it something.
    pub fn handle(&mut self, input: Input<'_>) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    /// Tells it what happened on a link.
    pub fn heard(&mut self, link: LinkId, heard: Heard<'_>) {
        self.handle(Input::Link(link, heard));
    }

    /// Sends it bytes.
    pub fn send(&mut self, link: LinkId, bytes: &[u8]) {
        self.heard(link, Heard::Bytes(bytes));
    }

    /// Its peer says lines, one read each.
    pub fn hear(&mut self, lines: &[&str]) {
        for line in lines {
            self.send(LinkId::FIRST, format!("{line}\n").as_bytes());
        }
    }

    /// The lines that its peer can read by now.
    pub fn said(&mut self) -> Vec<String> {
        self.read(LinkId::FIRST).lines().map(str::to_owned).collect()
    }

    /// Asks it for something.
    ///
    /// # Errors
    ///
    /// It refuses.
    pub fn command(&mut self, command: M::Command) -> Result<(), Refused> {
        let done = self.machine.command(self.now, command);
        self.drain();
        done
    }

    /// Asks it for things that it does not refuse.
    ///
    /// # Panics
    ///
    /// It refuses one.
    pub fn run(&mut self, commands: impl IntoIterator<Item = M::Command>) {
        for command in commands {
            assert_eq!(self.command(command), Ok(()));
        }
    }

    /// What the other end can read by now.
    ///
    /// # Panics
    ///
    /// It is no text.
    pub fn read(&mut self, link: LinkId) -> String {
        let bytes = self.written.remove(&link).unwrap_or_default();
        String::from_utf8(bytes).expect("text")
    }

    /// Takes the accept that is outstanding at that listener.
    pub fn accept_at(&mut self, listener: LinkId) -> Option<LinkId> {
        if listener == LinkId::FIRST { self.accepting.take() } else { self.accepts.remove(&listener) }
    }

    /// Lets time pass.
    ///
    /// # Panics
    ///
    /// A tick leaves its deadline where it was.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now.mono + time;
        while let Some((at, _)) = self.machine.deadline().filter(|(at, _)| *at <= until) {
            self.advance(at);
            self.handle(Input::Tick);
            let next = self.machine.deadline();
            assert!(next.is_none_or(|(next, _)| next > at), "a tick at the deadline moves it");
        }
        self.advance(until);
    }

    fn advance(&mut self, to: Time) {
        self.now = Now { mono: to, unix: self.now.unix + to.since(self.now.mono) };
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Do(link, action) => self.perform(link, action),
                Output::Store(id, store) => self.store(id, *store),
                Output::Tell(event) => self.events.push_back(event),
                Output::End => self.ended = true,
            }
        }
    }

    fn store(&mut self, id: StoreId, Store { path, change }: Store) {
        match change {
            Change::Put { bytes, mode } => {
                self.stored_as.insert(path.clone(), id);
                let text = String::from_utf8(bytes.expose().clone()).expect("files are text");
                self.files.insert(path, (text, mode));
            }
            Change::Append { bytes, mode } => {
                let text = std::str::from_utf8(bytes.expose()).expect("files are text");
                self.stored_as.insert(path.clone(), id);
                self.files.entry(path).or_insert_with(|| (String::new(), mode)).0.push_str(text);
            }
            Change::Remove => {
                self.files.remove(&path);
            }
        }
    }

    fn perform(&mut self, link: LinkId, action: Action) {
        match action {
            Action::Open(Open::Listen(address)) => self.listening.push((link, address)),
            Action::Open(Open::Accept(LinkId::FIRST)) => {
                assert_eq!(self.accepting.replace(link), None, "one accept at a time");
            }
            Action::Open(Open::Accept(listener)) => {
                assert_eq!(self.accepts.insert(listener, link), None, "one accept at a time");
            }
            Action::Open(Open::Spawn(spec)) => {
                self.programs.insert(link, spec.program);
                self.connecting.push_back(link);
            }
            Action::Open(Open::Connect(_) | Open::Given(_)) => self.connecting.push_back(link),
            Action::Write(bytes) => {
                self.written.entry(link).or_default().extend(bytes);
                if !self.deaf.contains(&link) {
                    self.machine.handle(self.now, Input::Link(link, Heard::Written));
                }
            }
            Action::Read(read) => {
                self.held.insert(link, !read);
            }
            Action::CloseWrite => self.shut.push(link),
            Action::Close => self.closed.push(link),
            Action::Signal(signal) => self.signals.push((link, signal)),
            // The test says when the group is gone.
            Action::Probe => {}
        }
    }
}
