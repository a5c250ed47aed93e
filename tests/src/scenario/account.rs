//! What a machine did and heard, such that it does not depend on who drove it.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentline_core::machine::soonest;
use agentline_core::{
    Action, Change, Deadline, Exit, Heard, Input, LinkId, Machine, Now, Open, Output, Refused, Time,
};
use serde::Serialize;
use serde_json::Value;

/// Where an account is kept while its machine is elsewhere.
pub type Ledger = Arc<Mutex<Account>>;

/// The account of one machine.
///
/// It leaves out what a runtime may choose: how bytes are cut, how writes are packed, when reading is held, how
/// often a group is looked for, and in which order the news of different links come.
#[derive(Debug, Default)]
pub struct Account {
    links: BTreeMap<LinkId, Log>,
    events: Vec<Value>,
    /// Stored files and refused commands.
    asides: Vec<String>,
}

#[derive(Debug, Default)]
struct Log {
    deeds: Vec<Deed>,
    bytes: Vec<u8>,
    stderr: Vec<u8>,
    exit: Option<Exit>,
}

#[derive(Debug)]
enum Deed {
    Wrote(Vec<u8>),
    Did(String),
}

impl Account {
    /// The account, to be compared and read. Paths below `dir` lose it.
    #[must_use]
    pub fn lines(&self, dir: &Path) -> Vec<String> {
        let events = self.events.iter().map(|event| format!("told {}", plain(event.clone())));
        let links = self.links.iter().flat_map(|(link, log)| {
            log.lines().into_iter().map(move |line| format!("link {} {line}", link.number()))
        });
        let lines = events.chain(links).chain(self.asides.iter().cloned());
        let dir = dir.to_string_lossy().into_owned();
        lines.map(|line| shorten(without_times(&line.replace(&dir, "DIR")))).collect()
    }

    fn hear(&mut self, input: Input<'_>) {
        let Input::Link(link, heard) = input else { return };
        let log = self.links.entry(link).or_default();
        match heard {
            Heard::Bytes(bytes) => log.bytes.extend_from_slice(bytes),
            Heard::Stderr(bytes) => log.stderr.extend_from_slice(bytes),
            Heard::Exited(exit) => log.exit = Some(exit),
            Heard::Opened(_)
            | Heard::OpenFailed(_)
            | Heard::Eof
            | Heard::Written
            | Heard::WriteFailed
            | Heard::Group(_) => {}
        }
    }

    fn note<E: Serialize>(&mut self, output: &Output<E>) {
        match output {
            Output::Do(link, action) => self.links.entry(*link).or_default().note(action),
            Output::Store(_, store) => {
                let done = if store.change == Change::Remove { "removed" } else { "stored" };
                self.asides.push(format!("{done} {}", store.path.display()));
            }
            Output::Tell(event) => self.events.push(serde_json::to_value(event).expect("events are data")),
            Output::End => self.events.push("end".into()),
        }
    }
}

impl Log {
    fn note(&mut self, action: &Action) {
        let deed = match action {
            Action::Write(bytes) => {
                if let Some(Deed::Wrote(before)) = self.deeds.last_mut() {
                    before.extend_from_slice(bytes);
                } else {
                    self.deeds.push(Deed::Wrote(bytes.clone()));
                }
                return;
            }
            Action::Read(_) | Action::Probe => return,
            Action::Open(Open::Spawn(_)) => "spawned".to_owned(),
            Action::Open(_) | Action::CloseWrite | Action::Signal(_) | Action::Close => {
                format!("{action:?}")
            }
        };
        self.deeds.push(Deed::Did(deed));
    }

    fn lines(&self) -> Vec<String> {
        let deeds = self.deeds.iter().map(|deed| match deed {
            Deed::Wrote(bytes) => format!("wrote {}", text(bytes)),
            Deed::Did(what) => what.clone(),
        });
        let heard = [("read", &self.bytes), ("stderr", &self.stderr)];
        let heard = heard.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        let heard = heard.map(|(what, bytes)| format!("{what} {}", text(bytes)));
        deeds.chain(heard).chain(self.exit.map(|exit| format!("{exit:?}"))).collect()
    }
}

/// An event without what differs from process to process, and from order to order: who hears of an exit before
/// the end of output has not closed its own half, and either may come first.
fn plain(event: Value) -> Value {
    match event {
        Value::Array(list) => list.into_iter().map(plain).collect(),
        Value::Object(members) => {
            // How far we were when the child ended is as much a matter of luck.
            let members = members.into_iter().filter(|(name, _)| name != "exitRung");
            let members = members.map(|(name, value)| match (&*name, value) {
                ("pid" | "uid", _) => (name, Value::Null),
                ("rung", Value::String(rung)) if rung == "own" => (name, "eof".into()),
                (_, value) => (name, plain(value)),
            });
            Value::Object(members.collect())
        }
        Value::String(text) => Value::String(shorten(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => event,
    }
}

fn text(bytes: &[u8]) -> String {
    shorten(String::from_utf8_lossy(bytes).into_owned())
}

/// A long text by its beginning, its length and its hash.
fn shorten(text: String) -> String {
    const LONG: usize = 2000;
    if text.len() <= LONG {
        return text;
    }
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    let start: String = text.chars().take(40).collect();
    format!("{start}… {} bytes, {:x}", text.len(), hash.finish())
}

/// A machine whose account is kept.
///
/// If its application is `busy`, it is full from each event on for a moment.
pub(super) struct Noted<M: Machine> {
    machine: M,
    ledger: Ledger,
    busy: bool,
    full: Option<Time>,
    out: VecDeque<Output<M::Event>>,
}

impl<M: Machine<Event: Serialize>> Noted<M> {
    fn settle(&mut self, now: Now) {
        let before = self.out.len();
        self.drain();
        let mut told = self.out.range(before..).map(|output| matches!(output, Output::Tell(_)));
        if self.busy && self.full.is_none() && told.any(|told| told) {
            self.full = Some(now.mono + MOMENT);
            self.machine.handle(now, Input::Hold(true));
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            self.account().note(&output);
            self.out.push_back(output);
        }
        if matches!(self.out.back(), Some(Output::End)) {
            self.busy = false;
            self.full = None;
        }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Machine<Event: Serialize>> Machine for Noted<M> {
    type Config = (M::Config, Ledger, bool);
    type Command = M::Command;
    type Event = M::Event;

    fn new(now: Now, (config, ledger, busy): Self::Config) -> Self {
        let machine = M::new(now, config);
        let mut noted = Self { machine, ledger, busy, full: None, out: VecDeque::new() };
        noted.settle(now);
        noted
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.account().hear(input);
        self.machine.handle(now, input);
        if self.full.take_if(|until| *until <= now.mono).is_some() {
            self.machine.handle(now, Input::Hold(false));
        }
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: M::Command) -> Result<(), Refused> {
        let done = self.machine.command(now, command);
        if let Err(refused) = done {
            self.account().asides.push(format!("refused: {refused}"));
        }
        self.settle(now);
        done
    }

    fn poll(&mut self) -> Option<Output<M::Event>> {
        self.out.pop_front()
    }

    fn deadline(&self) -> Option<Deadline> {
        soonest(self.full.map(|until| (until, "room again")), self.machine.deadline())
    }
}

/// How long a busy application takes.
const MOMENT: Duration = Duration::from_millis(1);

/// The stages have clocks of their own.
fn without_times(line: &str) -> String {
    const NAME: &str = "\"timestamp\":\"";
    let mut parts = line.split(NAME);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + NAME + part.find('"').map_or(part, |end| &part[end..]))
}
