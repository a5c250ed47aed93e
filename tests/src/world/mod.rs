//! Many machines in one virtual time: children, sockets, stdio, and what goes wrong with them.
//!
//! The world plays the runtime of each node. It takes no decision but those of its dice, and a step costs the
//! same however many nodes there are.

mod agenda;
mod faults;
mod node;
mod perform;
mod pipe;

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentline_core::{
    Address, Exit, Group, Heard, Input, LinkId, Machine, Now, OpenError, Peer, Refused, SpawnSpec, StoreId,
    Time,
};

pub use faults::{Faults, Heir, Manners};
pub use node::Node;

use crate::dice::Dice;
use agenda::Agenda;
use node::{Actor, Wish};
use pipe::Pipe;

/// A world of nodes. One run of it is decided by its nodes, its dice and which faults it may have.
pub struct World<'d> {
    now: Time,
    dice: Dice<'d>,
    faults: Faults,
    seats: Vec<Seat>,
    ports: Vec<Port>,
    pipes: Vec<Pipe>,
    children: Vec<Child>,
    programs: BTreeMap<OsString, Program>,
    listeners: BTreeMap<Address, PortId>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// Files whose last change was refused.
    unstored: BTreeSet<PathBuf>,
    io: Agenda<Happening>,
    /// Deadlines; those that no longer hold are passed over.
    ticks: Agenda<NodeId>,
    steps: u64,
    log: Option<Vec<String>>,
}

/// A node of a world, whose machine is an `M`.
pub struct Handle<M> {
    node: NodeId,
    of: PhantomData<fn() -> M>,
}

impl<M> Clone for Handle<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Handle<M> {}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct NodeId(usize);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct PortId(usize);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct PipeId(usize);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct ChildId(usize);

/// Makes the node that a program is, and says how it behaves.
type Program = Box<dyn FnMut(Now, &SpawnSpec) -> (Box<dyn Actor>, Option<Manners>)>;

/// Where a node sits; it is empty when the machine has ended or its process has died.
struct Seat {
    actor: Option<Box<dyn Actor>>,
    due: Option<Time>,
    links: BTreeMap<LinkId, PortId>,
    /// The child that this node is.
    child: Option<ChildId>,
    /// What it opens as given, if it is no child.
    given: Option<Stream>,
}

/// A node's end of a link.
#[derive(Debug)]
struct Port {
    node: NodeId,
    link: LinkId,
    kind: Kind,
    /// The node knows that it is open.
    open: bool,
    /// The node takes bytes.
    reading: bool,
    /// It never gets to it.
    deaf: bool,
    /// How long it takes to get to it.
    slow: Duration,
    /// A read is on the agenda.
    waking: bool,
    rx: Option<PipeId>,
    tx: Option<PipeId>,
}

#[derive(Debug)]
enum Kind {
    /// The open was answered with a failure, or the node has closed it.
    Gone,
    Stream,
    Stdio(ChildId),
    Child(ChildId),
    Accepting(PortId),
    Listener {
        address: Address,
        backlog: VecDeque<Stream>,
        accepting: Option<PortId>,
    },
}

/// The pipes of a connection that nobody has taken yet, as whoever takes it will see them.
#[derive(Debug)]
pub struct Stream {
    rx: PipeId,
    tx: PipeId,
}

/// A process that a node started.
#[derive(Debug)]
struct Child {
    node: NodeId,
    parent: PortId,
    /// Its stdin and stdout, until its machine opens them.
    stdio: Option<(PipeId, PipeId)>,
    stdout: PipeId,
    alive: bool,
    manners: Manners,
}

#[derive(Debug)]
enum Happening {
    Opened(PortId),
    Failed(PortId, OpenError),
    /// The port may have something to read.
    Read(PortId),
    Stderr(PortId, Cow<'static, [u8]>),
    Written(PortId),
    WriteFailed(PortId),
    Exited(PortId, Exit),
    Group(PortId),
    StoreFailed(NodeId, StoreId),
    Dies(ChildId, Exit),
    HeirTalks(ChildId),
    Command(NodeId, Box<dyn Any>),
}

impl<'d> World<'d> {
    /// An empty world.
    #[must_use]
    pub fn new(dice: Dice<'d>, faults: Faults) -> Self {
        Self {
            now: Time::ZERO,
            dice,
            faults,
            seats: Vec::new(),
            ports: Vec::new(),
            pipes: Vec::new(),
            children: Vec::new(),
            programs: BTreeMap::new(),
            listeners: BTreeMap::new(),
            files: BTreeMap::new(),
            unstored: BTreeSet::new(),
            io: Agenda::default(),
            ticks: Agenda::default(),
            steps: 0,
            log: None,
        }
    }

    /// Remembers everything that happens, for a person.
    #[must_use]
    pub fn logged(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// Names a program that nodes can spawn. Its manners are the dice's to choose.
    pub fn program<M>(&mut self, name: &str, mut make: impl FnMut(Now, &SpawnSpec) -> Node<M> + 'static)
    where
        M: Machine<Command: 'static> + 'static,
    {
        let program = move |now: Now, spec: &SpawnSpec| -> (Box<dyn Actor>, Option<Manners>) {
            (Box::new(make(now, spec)), None)
        };
        self.programs.insert(name.into(), Box::new(program));
    }

    /// Names a program that has these manners, whatever the dice say.
    pub fn rude_program<M>(
        &mut self,
        name: &str,
        manners: impl Fn(&SpawnSpec) -> Manners + 'static,
        mut make: impl FnMut(Now, &SpawnSpec) -> Node<M> + 'static,
    ) where
        M: Machine<Command: 'static> + 'static,
    {
        let program = move |now: Now, spec: &SpawnSpec| -> (Box<dyn Actor>, Option<Manners>) {
            (Box::new(make(now, spec)), Some(manners(spec)))
        };
        self.programs.insert(name.into(), Box::new(program));
    }

    /// Puts in a node.
    pub fn add<M: Machine<Command: 'static> + 'static>(&mut self, node: Node<M>) -> Handle<M> {
        Handle { node: self.seat(Box::new(node), None, None), of: PhantomData }
    }

    /// The two ends of a stream that nobody has opened.
    pub fn stream(&mut self) -> (Stream, Stream) {
        let (there, back) = (self.pipe(Pipe::held_by(1, 1)), self.pipe(Pipe::held_by(1, 1)));
        (Stream { rx: back, tx: there }, Stream { rx: there, tx: back })
    }

    /// Puts in a node that opens this when it opens what it was given.
    pub fn add_with_given<M>(&mut self, node: Node<M>, given: Stream) -> Handle<M>
    where
        M: Machine<Command: 'static> + 'static,
    {
        Handle { node: self.seat(Box::new(node), None, Some(given)), of: PhantomData }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { mono: self.now, unix: EPOCH + self.now.since(Time::ZERO) }
    }

    /// Gives a command now.
    ///
    /// # Errors
    ///
    /// The machine refused it, or it is gone.
    pub fn command<M>(&mut self, to: Handle<M>, command: M::Command) -> Result<(), Refused>
    where
        M: Machine<Command: 'static>,
    {
        self.give(to.node, Box::new(command))
    }

    /// Gives a command later. What is refused is lost.
    pub fn command_in<M>(&mut self, span: Duration, to: Handle<M>, command: M::Command)
    where
        M: Machine<Command: 'static>,
    {
        self.io.add(self.now + span, Happening::Command(to.node, Box::new(command)));
    }

    /// Tells a node that whoever takes its events is full, or has room again.
    pub fn hold<M>(&mut self, of: Handle<M>, hold: bool) {
        self.feed(of.node, Input::Hold(hold));
    }

    /// The machine of a node, while it lives.
    #[must_use]
    pub fn machine<M: 'static>(&self, of: Handle<M>) -> Option<&M> {
        self.seats[of.node.0].actor.as_ref()?.machine().downcast_ref()
    }

    /// Whether the node's machine has ended or its process died.
    #[must_use]
    pub fn is_over<M>(&self, of: Handle<M>) -> bool {
        self.seats[of.node.0].actor.is_none()
    }

    /// How many processes live that are not known to be dead by their group.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.children.iter().filter(|child| child.has_group()).count()
    }

    /// A file that a machine stored.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// All files that machines stored.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice()))
    }

    /// Whether the disk refused the last change of that file.
    #[must_use]
    pub fn is_unstored(&self, path: &Path) -> bool {
        self.unstored.contains(path)
    }

    /// The decisions that are still to come.
    #[must_use]
    pub const fn dice(&self) -> &Dice<'d> {
        &self.dice
    }

    /// How many things have happened.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// What was remembered, see [`World::logged`].
    #[must_use]
    pub fn log(&self) -> &[String] {
        self.log.as_deref().unwrap_or_default()
    }

    /// Runs until nothing is left to happen.
    ///
    /// # Panics
    ///
    /// It does not come to rest.
    pub fn run(&mut self) {
        self.run_until(Time::from_micros(u64::MAX));
    }

    /// Runs until that time.
    ///
    /// # Panics
    ///
    /// It does not come to rest.
    pub fn run_until(&mut self, until: Time) {
        let limit = self.steps + MOST_STEPS;
        while self.step(until) {
            assert!(self.steps < limit, "no rest after {MOST_STEPS} steps: {:#?}", self.tail());
        }
        if until < Time::from_micros(u64::MAX) {
            self.now = self.now.max(until);
        }
    }

    /// Lets the next thing happen; `false`: there is none until then.
    fn step(&mut self, until: Time) -> bool {
        while let Some((at, node)) = self.ticks.first()
            && self.seats[node.0].due != Some(at)
        {
            self.ticks.pop();
        }
        let (io, tick) = (self.io.first().map(|first| first.0), self.ticks.first().map(|first| first.0));
        let Some(at) = [io, tick].into_iter().flatten().min().filter(|at| *at <= until) else {
            return false;
        };
        self.steps += 1;
        self.now = self.now.max(at);
        if self.faults.jumps(&mut self.dice) {
            self.note(|| "the clock jumps by an hour".to_owned());
            self.now = self.now + HOUR;
        }
        // News that are there come before timers, as in the runtimes.
        if io.is_some_and(|at| at <= self.now) {
            if let Some((_, happening)) = self.io.pop() {
                self.happen(happening);
            }
        } else if let Some((_, node)) = self.ticks.pop() {
            self.seats[node.0].due = None;
            self.feed(node, Input::Tick);
        }
        true
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Opened(port) => {
                if !matches!(self.port(port).kind, Kind::Gone) {
                    self.port(port).open = true;
                    let pid = u32::try_from(port.0).ok();
                    self.hear(port, Heard::Opened(Peer { pid, uid: Some(1000) }));
                    self.wake_reader(port);
                }
            }
            Happening::Failed(port, error) => self.hear(port, Heard::OpenFailed(error)),
            Happening::Read(port) => self.read(port),
            Happening::Stderr(port, bytes) => self.hear(port, Heard::Stderr(&bytes)),
            Happening::Written(port) => self.hear(port, Heard::Written),
            Happening::WriteFailed(port) => self.hear(port, Heard::WriteFailed),
            Happening::Exited(port, exit) => self.hear(port, Heard::Exited(exit)),
            Happening::Group(port) => {
                if let Kind::Child(child) = self.port(port).kind {
                    let group = if self.children[child.0].has_group() { Group::Alive } else { Group::Gone };
                    self.hear(port, Heard::Group(group));
                }
            }
            Happening::StoreFailed(node, id) => self.feed(node, Input::StoreFailed(id, NO_SPACE)),
            Happening::Dies(child, exit) => self.die(child, exit),
            Happening::HeirTalks(child) => self.heir_talks(child),
            Happening::Command(node, command) => {
                let _ = self.give(node, command);
            }
        }
    }

    /// Hands the next bytes of a port's pipe, or their end, to its node.
    fn read(&mut self, id: PortId) {
        let port = &mut self.ports[id.0];
        port.waking = false;
        let Some(rx) = port.rx.filter(|_| port.open && port.reading) else { return };
        let pipe = &self.pipes[rx.0];
        if pipe.buffered() > 0 {
            let bytes = pipe.peek(self.faults.piece(&mut self.dice));
            let (node, link, taken) = (port.node, port.link, bytes.len());
            if let Some(log) = &mut self.log {
                log.push(format!("{:?} {node:?} {link:?} ← {}", self.now, String::from_utf8_lossy(bytes)));
            }
            let now = Now { mono: self.now, unix: EPOCH + self.now.since(Time::ZERO) };
            if let Some(actor) = &mut self.seats[node.0].actor {
                actor.handle(now, Input::Link(link, Heard::Bytes(bytes)));
            }
            if let Some(writer) = self.pipes[rx.0].advance(taken) {
                self.later(Happening::Written(writer));
            }
            self.settle(node);
        } else if pipe.is_readable() {
            self.pipes[rx.0].ended = true;
            self.hear(id, Heard::Eof);
            if self.has_hung_up(id) {
                self.later(Happening::WriteFailed(id));
            }
        }
        self.wake_reader(id);
    }

    /// Puts a read on the agenda if there is something to read and someone who wants it.
    fn wake_reader(&mut self, id: PortId) {
        let port = &mut self.ports[id.0];
        if port.open
            && port.reading
            && !port.deaf
            && !port.waking
            && port.rx.is_some_and(|rx| self.pipes[rx.0].is_readable())
        {
            port.waking = true;
            let at = self.now + port.slow + self.faults.pause(&mut self.dice);
            self.io.add(at, Happening::Read(id));
        }
    }

    fn hear(&mut self, port: PortId, heard: Heard<'_>) {
        let port = &self.ports[port.0];
        if !matches!(port.kind, Kind::Gone) || matches!(heard, Heard::OpenFailed(_)) {
            self.feed(port.node, Input::Link(port.link, heard));
        }
    }

    fn feed(&mut self, node: NodeId, input: Input<'_>) {
        let now = self.now();
        self.note(|| format!("{:?} {node:?} ← {input:?}", now.mono));
        if let Some(actor) = &mut self.seats[node.0].actor {
            actor.handle(now, input);
            self.settle(node);
        }
    }

    fn give(&mut self, node: NodeId, command: Box<dyn Any>) -> Result<(), Refused> {
        let now = self.now();
        let actor = self.seats[node.0].actor.as_mut().ok_or(Refused::Closed)?;
        let done = actor.command(now, command);
        self.note(|| format!("{:?} {node:?} commanded: {done:?}", now.mono));
        self.settle(node);
        done
    }

    fn seat(&mut self, actor: Box<dyn Actor>, child: Option<ChildId>, given: Option<Stream>) -> NodeId {
        let node = NodeId(self.seats.len());
        self.seats.push(Seat { actor: Some(actor), due: None, links: BTreeMap::new(), child, given });
        self.settle(node);
        node
    }

    /// Fulfils all wishes of a node and notes when it wants to be ticked.
    fn settle(&mut self, node: NodeId) {
        let now = self.now();
        while let Some(wish) = self.seats[node.0].actor.as_mut().and_then(|actor| actor.next(now)) {
            match wish {
                Wish::Do(link, action) => self.perform(node, link, action),
                Wish::Store(id, store) => self.store(node, id, store),
                Wish::Complain(bytes) => self.complain(node, bytes),
                Wish::End => self.end(node),
            }
        }
        let seat = &mut self.seats[node.0];
        let due = seat.actor.as_ref().and_then(|actor| actor.deadline());
        if due != seat.due {
            seat.due = due;
            if let Some(at) = due {
                self.ticks.add(at, node);
            }
        }
    }

    fn later(&mut self, happening: Happening) {
        let at = self.now + self.faults.pause(&mut self.dice);
        self.io.add(at, happening);
    }

    fn port(&mut self, id: PortId) -> &mut Port {
        &mut self.ports[id.0]
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    fn tail(&self) -> &[String] {
        let log = self.log();
        &log[log.len().saturating_sub(40)..]
    }
}

impl Child {
    const fn has_group(&self) -> bool {
        self.alive || self.manners.heir.is_some()
    }
}

/// The wall clock at the start of a world.
const EPOCH: Duration = Duration::from_secs(1_900_000_000);
const HOUR: Duration = Duration::from_secs(3600);
/// Far more than any scenario needs.
const MOST_STEPS: u64 = 1_000_000;
/// The system's number for a full disk.
const NO_SPACE: i32 = 28;
