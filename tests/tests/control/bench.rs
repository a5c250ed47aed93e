//! One machine on a table: what it writes is collected, and every step is checked.

use std::collections::BTreeMap;
use std::time::Duration;

use agentline_core::{
    Action, Heard, Input, LinkId, Machine, Now, Open, OpenError, Output, Peer, Refused, Time,
};
use serde_json::value::RawValue;

/// A machine with the links it opened and all that it said.
pub(crate) struct Bench<M: Machine> {
    pub(crate) machine: M,
    pub(crate) now: Now,
    pub(crate) wires: BTreeMap<LinkId, Wire>,
    pub(crate) events: Vec<M::Event>,
    pub(crate) ended: bool,
    /// Writes are acknowledged as soon as they are seen.
    pub(crate) acks: bool,
    listener: Option<LinkId>,
    accepting: Option<LinkId>,
}

/// The outside of one link.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) written: Vec<u8>,
    pub(crate) unread: bool,
    pub(crate) outstanding: usize,
    pub(crate) half_closed: bool,
    pub(crate) closed: bool,
}

impl<M: Machine> Bench<M> {
    pub(crate) fn new(config: M::Config) -> Self {
        let now = Now::default();
        let mut bench = Self {
            machine: M::new(now, config),
            now,
            wires: BTreeMap::new(),
            events: Vec::new(),
            ended: false,
            acks: true,
            listener: None,
            accepting: None,
        };
        bench.drain();
        bench
    }

    pub(crate) fn hear(&mut self, link: LinkId, heard: Heard<'_>) {
        self.feed(Input::Link(link, heard));
    }

    pub(crate) fn feed(&mut self, input: Input<'_>) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    pub(crate) fn bytes(&mut self, link: LinkId, bytes: impl AsRef<[u8]>) {
        self.hear(link, Heard::Bytes(bytes.as_ref()));
    }

    pub(crate) fn command(&mut self, command: M::Command) -> Result<(), Refused> {
        let done = self.machine.command(self.now, command);
        self.drain();
        done
    }

    /// Lets time pass: every deadline on the way is met when it comes.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now.mono + span;
        for _ in 0..1000 {
            let Some((at, why)) = self.machine.deadline().filter(|(at, _)| *at <= end) else {
                self.now.mono = end;
                return;
            };
            self.now.mono = at.max(self.now.mono);
            self.feed(Input::Tick);
            let next = self.machine.deadline();
            assert!(next.is_none_or(|(next, _)| next > at), "{why} fires again and again: {next:?}");
        }
        panic!("time does not pass");
    }

    /// One tick after a long sleep.
    pub(crate) fn oversleep(&mut self, span: Duration) {
        self.now.mono = self.now.mono + span;
        self.feed(Input::Tick);
    }

    pub(crate) fn at(&self) -> Time {
        self.now.mono
    }

    pub(crate) fn ack(&mut self, link: LinkId) {
        let wire = self.wires.get_mut(&link).unwrap();
        if std::mem::take(&mut wire.outstanding) > 0 {
            self.hear(link, Heard::Written);
        }
    }

    /// A client connects to the listener; its link.
    pub(crate) fn accept(&mut self, uid: u32) -> LinkId {
        if let Some(listener) = self.listener.take() {
            self.hear(listener, Heard::Opened(Peer::default()));
        }
        let link = self.accepting.take().expect("a seat is free");
        self.hear(link, Heard::Opened(Peer { pid: None, uid: Some(uid) }));
        link
    }

    pub(crate) fn fail_to_listen(&mut self, error: OpenError) {
        let listener = self.listener.take().unwrap();
        self.hear(listener, Heard::OpenFailed(error));
    }

    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting.is_some()
    }

    pub(crate) fn wire(&self, link: LinkId) -> &Wire {
        &self.wires[&link]
    }

    /// The lines written on a link since the last call.
    pub(crate) fn lines(&mut self, link: LinkId) -> Vec<String> {
        let written = std::mem::take(&mut self.wires.get_mut(&link).unwrap().written);
        String::from_utf8(written).unwrap().lines().map(str::to_owned).collect()
    }

    /// What was said since the last call.
    pub(crate) fn told(&mut self) -> Vec<M::Event> {
        std::mem::take(&mut self.events)
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            assert!(!self.ended, "an output after the end");
            match output {
                Output::Do(link, action) => self.act(link, action),
                Output::Tell(event) => self.events.push(event),
                Output::Store(..) => panic!("nothing is stored here"),
                Output::End => self.ended = true,
            }
        }
        let waiting = self.wires.iter().find(|(_, wire)| self.acks && wire.outstanding > 0 && !wire.closed);
        if let Some((link, _)) = waiting {
            let link = *link;
            self.ack(link);
        }
    }

    fn act(&mut self, link: LinkId, action: Action) {
        let wire = self.wires.entry(link).or_default();
        assert!(!wire.closed, "{action:?} after Close");
        match action {
            Action::Open(Open::Listen(_)) => self.listener = Some(link),
            Action::Open(Open::Accept(_)) => self.accepting = Some(link),
            Action::Open(_) => {}
            Action::Read(read) => {
                assert_eq!(wire.unread, read, "Read({read}) twice");
                wire.unread = !read;
            }
            Action::Write(bytes) => {
                assert_eq!(wire.outstanding, 0, "two writes at once");
                assert!(!wire.half_closed, "a write after CloseWrite");
                check_lines(&bytes);
                wire.outstanding = bytes.len();
                wire.written.extend(bytes);
            }
            Action::CloseWrite => {
                wire.half_closed = true;
                wire.outstanding = 0;
            }
            Action::Close => {
                wire.closed = true;
                if self.accepting == Some(link) {
                    self.accepting = None;
                }
            }
            Action::Signal(_) | Action::Probe => panic!("there is no child"),
        }
    }
}

/// Whole lines, each one JSON object.
fn check_lines(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        serde_json::from_str::<BTreeMap<String, &RawValue>>(line).unwrap();
    }
}

/// Numbers that look random and are the same in every run (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}
