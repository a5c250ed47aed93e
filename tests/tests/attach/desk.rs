//! A machine, and the operating system around it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use agentline_core::{
    Action, Change, Heard, Input, LinkId, Machine, Now, Open, Output, Refused, Store, Time,
};

pub(crate) struct Desk<M: Machine> {
    pub(crate) machine: M,
    pub(crate) now: Now,
    /// The connections that were asked for and have not been opened.
    pub(crate) connecting: VecDeque<LinkId>,
    pub(crate) accepting: Option<LinkId>,
    written: BTreeMap<LinkId, Vec<u8>>,
    pub(crate) held: BTreeMap<LinkId, bool>,
    pub(crate) shut: Vec<LinkId>,
    pub(crate) closed: Vec<LinkId>,
    pub(crate) files: BTreeMap<PathBuf, (String, u32)>,
    pub(crate) events: VecDeque<M::Event>,
    pub(crate) ended: bool,
}

impl<M: Machine> Desk<M> {
    pub(crate) fn new(config: M::Config) -> Self {
        let now = Now { mono: Time::ZERO, unix: Duration::from_secs(1_700_000_000) };
        let mut desk = Self {
            machine: M::new(now, config),
            now,
            connecting: VecDeque::new(),
            accepting: None,
            written: BTreeMap::new(),
            held: BTreeMap::new(),
            shut: Vec::new(),
            closed: Vec::new(),
            files: BTreeMap::new(),
            events: VecDeque::new(),
            ended: false,
        };
        desk.drain();
        desk
    }

    pub(crate) fn handle(&mut self, input: Input<'_>) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    pub(crate) fn heard(&mut self, link: LinkId, heard: Heard<'_>) {
        self.handle(Input::Link(link, heard));
    }

    pub(crate) fn send(&mut self, link: LinkId, bytes: &[u8]) {
        self.heard(link, Heard::Bytes(bytes));
    }

    pub(crate) fn command(&mut self, command: M::Command) -> Result<(), Refused> {
        let done = self.machine.command(self.now, command);
        self.drain();
        done
    }

    pub(crate) fn run(&mut self, commands: impl IntoIterator<Item = M::Command>) {
        for command in commands {
            assert_eq!(self.command(command), Ok(()));
        }
    }

    /// What the other end can read by now.
    pub(crate) fn read(&mut self, link: LinkId) -> String {
        let bytes = self.written.remove(&link).unwrap_or_default();
        String::from_utf8(bytes).expect("text")
    }

    pub(crate) fn pass(&mut self, time: Duration) {
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
            assert!(!self.ended, "nothing follows the end");
            match output {
                Output::Do(link, action) => self.perform(link, action),
                Output::Store(Store { path, change: Change::Put { bytes, mode } }) => {
                    let text = String::from_utf8(bytes.expose().clone()).expect("files are text");
                    self.files.insert(path, (text, mode));
                }
                Output::Store(Store { path, change: Change::Remove }) => {
                    self.files.remove(&path);
                }
                Output::Tell(event) => self.events.push_back(event),
                Output::End => self.ended = true,
            }
        }
    }

    fn perform(&mut self, link: LinkId, action: Action) {
        assert!(!self.closed.contains(&link), "nothing follows Close");
        match action {
            Action::Open(Open::Listen(_)) => assert_eq!(link, LinkId::FIRST),
            Action::Open(Open::Accept(listener)) => {
                assert_eq!(listener, LinkId::FIRST);
                assert_eq!(self.accepting.replace(link), None, "one accept at a time");
            }
            Action::Open(Open::Connect(_)) => self.connecting.push_back(link),
            Action::Write(bytes) => {
                assert!(bytes.ends_with(b"\n"), "whole lines");
                self.written.entry(link).or_default().extend(bytes);
                self.machine.handle(self.now, Input::Link(link, Heard::Written));
            }
            Action::Read(read) => {
                self.held.insert(link, !read);
            }
            Action::CloseWrite => self.shut.push(link),
            Action::Close => self.closed.push(link),
            other @ (Action::Open(Open::Spawn(_) | Open::Given) | Action::Signal(_) | Action::Probe) => {
                panic!("unexpected {other:?}")
            }
        }
    }
}
