//! A machine around a machine that tells what passes through.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::mask::{self, Masks};
use super::record::{Clock, Dir, Header, Record};
use crate::machine::{Action, Deadline, Heard, Input, LinkId, Machine, Now, Output, Outputs, Refused};
use crate::secret::Secret;

/// A machine whose run can be recorded. It behaves as the machine inside; one that is off costs nothing.
///
/// The line about an output comes before the output, so that it is written even when the output goes wrong.
/// When secrets are to be masked, the end of a chunk that may be the start of one waits for the next chunk: the
/// machine sees the stream cut elsewhere, as any pipe may cut it.
#[derive(Debug)]
pub struct Tap<M: Machine> {
    machine: M,
    log: Option<Log<M::Event>>,
}

/// The config of a [`Tap`].
#[derive(Clone, Debug)]
pub struct Tapped<C> {
    /// The config of the machine inside.
    pub config: C,
    /// `None`: the tap is off.
    pub recording: Option<Recording>,
}

/// What the tap must know to record.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The channel that the machine speaks.
    pub channel: String,
    /// Which side of the channel it is.
    pub role: String,
    /// Byte strings that no line may show: what the config and the commands hold as a [`Secret`] is to be named
    /// here, for its way over the wire. Those of several lines are masked line by line; lines of less than four
    /// bytes are not masked, they would hide the rest of the trace instead.
    pub secrets: Vec<Secret<Vec<u8>>>,
}

/// An event of a [`Tap`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Traced<E> {
    /// The machine inside said something.
    Event(E),
    /// The next line of the trace, without its line end.
    Line(String),
}

#[derive(Debug)]
struct Log<E> {
    clock: Clock,
    masks: Masks,
    /// Ends of chunks, by link and kind, that may be the start of a secret.
    waiting: BTreeMap<(LinkId, Dir), Vec<u8>>,
    /// Links of which the end of input or the exit has come.
    ending: BTreeSet<LinkId>,
    out: Outputs<Traced<E>>,
}

impl<M: Machine> Tap<M> {
    /// The machine that is recorded, to be looked at.
    pub const fn machine(&self) -> &M {
        &self.machine
    }
}

impl<M> Machine for Tap<M>
where
    M: Machine<Config: Serialize, Command: Serialize, Event: Serialize>,
{
    type Config = Tapped<M::Config>;
    type Command = M::Command;
    type Event = Traced<M::Event>;

    fn new(now: Now, Tapped { config, recording }: Self::Config) -> Self {
        let log = recording.map(|recording| Log::new(now, &config, recording));
        let mut tap = Self { machine: M::new(now, config), log };
        tap.drain(now);
        tap
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, Heard::Bytes(chunk)) => {
                if let Some(bytes) = self.cut(link, Dir::In, chunk) {
                    self.feed(now, Input::Link(link, Heard::Bytes(&bytes)));
                }
            }
            Input::Link(link, Heard::Stderr(chunk)) => {
                if let Some(bytes) = self.cut(link, Dir::Err, chunk) {
                    self.feed(now, Input::Link(link, Heard::Stderr(&bytes)));
                }
            }
            Input::Link(link, heard @ (Heard::Eof | Heard::Exited(_))) => {
                if heard == Heard::Eof {
                    self.feed_rest(now, link, Dir::In, |bytes| Heard::Bytes(bytes));
                }
                if self.is_over(link) {
                    self.feed_rest(now, link, Dir::Err, |bytes| Heard::Stderr(bytes));
                }
                self.feed(now, input);
            }
            Input::Tick | Input::Hold(_) | Input::StoreFailed(..) | Input::Link(..) => self.feed(now, input),
        }
    }

    fn command(&mut self, now: Now, command: Self::Command) -> Result<(), Refused> {
        if let Some(log) = &mut self.log {
            log.write(Record::command(now, &command));
        }
        let done = self.machine.command(now, command);
        if let (Some(log), Err(refused)) = (&mut self.log, &done) {
            log.write(Record::refused(now, refused));
        }
        self.drain(now);
        done
    }

    fn poll(&mut self) -> Option<Output<Self::Event>> {
        match &mut self.log {
            Some(log) => log.out.pop(),
            None => self.machine.poll().map(|output| output.map(Traced::Event)),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        self.machine.deadline()
    }
}

impl<M: Machine<Event: Serialize>> Tap<M> {
    fn feed(&mut self, now: Now, input: Input<'_>) {
        if let Some(log) = &mut self.log {
            log.write(Record::input(now, &input));
        }
        self.machine.handle(now, input);
        self.drain(now);
    }

    /// What waited for a chunk that will not come. The machine sees it as the record shows it, or else what it
    /// says about it could show more.
    fn feed_rest(&mut self, now: Now, link: LinkId, dir: Dir, heard: fn(&[u8]) -> Heard<'_>) {
        if let Some(bytes) = self.log.as_mut().and_then(|log| log.waiting.remove(&(link, dir))) {
            self.feed(now, Input::Link(link, heard(mask::cut_off(&bytes))));
        }
    }

    /// Whether end of input and exit have both come, whichever was first: no more standard error is expected.
    fn is_over(&mut self, link: LinkId) -> bool {
        self.log.as_mut().is_some_and(|log| !log.ending.insert(link))
    }

    fn drain(&mut self, now: Now) {
        let Some(log) = &mut self.log else { return };
        while let Some(output) = self.machine.poll() {
            log.write(Record::output(now, &output));
            if let Output::Do(link, Action::Close) = output {
                log.waiting.retain(|(of, _), _| *of != link);
                log.ending.remove(&link);
            }
            log.out.push(output.map(Traced::Event));
        }
    }

    /// What waited and the chunk, without an end that may be the start of a secret.
    fn cut<'a>(&mut self, link: LinkId, dir: Dir, chunk: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let Some(log) = self.log.as_mut().filter(|log| !log.masks.is_empty()) else {
            return Some(Cow::Borrowed(chunk));
        };
        let mut bytes = log.waiting.remove(&(link, dir)).unwrap_or_default();
        bytes.extend_from_slice(chunk);
        let open = log.masks.open_end(&bytes);
        if open > 0 {
            log.waiting.insert((link, dir), bytes.split_off(bytes.len() - open));
        }
        (open == 0 || !bytes.is_empty()).then_some(Cow::Owned(bytes))
    }
}

impl<E> Log<E> {
    fn new<C: Serialize>(now: Now, config: &C, recording: Recording) -> Self {
        let masks = Masks::new(&recording.secrets);
        let mut out = Outputs::default();
        let header = Header::new(now, recording.channel, recording.role, config).masked(&masks);
        out.tell(Traced::Line(header.to_line()));
        Self { clock: Clock::new(now), masks, waiting: BTreeMap::new(), ending: BTreeSet::new(), out }
    }

    fn write(&mut self, record: Record) {
        let record = record.masked(&self.masks);
        let unix = self.clock.state(record.at);
        self.out.tell(Traced::Line(record.to_line(unix)));
    }
}
