//! What each action does to the world.

use std::collections::VecDeque;
use std::time::Duration;

use agentline_core::{
    Action, Address, Change, Exit, LinkId, Open, OpenError, Signal, SpawnSpec, Store, StoreId,
};

use super::{Child, ChildId, Happening, Kind, Manners, NodeId, Pipe, PipeId, Port, PortId, Stream, World};

impl World<'_> {
    pub(super) fn perform(&mut self, node: NodeId, link: LinkId, action: Action) {
        self.note_action(node, link, &action);
        if let Action::Open(how) = action {
            return self.open(node, link, how);
        }
        let Some(port) = self.seats[node.0].links.get(&link).copied() else { return };
        match action {
            Action::Open(_) => {}
            Action::Read(reading) => {
                self.port(port).reading = reading;
                self.wake_reader(port);
            }
            Action::Write(bytes) => self.write(port, &bytes),
            Action::CloseWrite => self.close_write(port, 0),
            Action::Signal(signal) => self.signal(port, signal),
            Action::Probe => self.later(Happening::Group(port)),
            Action::Close => self.close(port),
        }
    }

    pub(super) fn store(&mut self, node: NodeId, id: StoreId, store: Store) {
        if self.faults.store_fails(&mut self.dice) {
            self.unstored.insert(store.path);
            return self.later(Happening::StoreFailed(node, id));
        }
        self.unstored.remove(&store.path);
        match store.change {
            Change::Put { bytes, .. } => {
                self.files.insert(store.path, bytes.expose().clone());
            }
            Change::Append { bytes, .. } => {
                self.files.entry(store.path).or_default().extend(bytes.expose());
            }
            Change::Remove => {
                self.files.remove(&store.path);
            }
        }
    }

    /// A child writes to its standard error, which is always read.
    pub(super) fn complain(&mut self, node: NodeId, bytes: Vec<u8>) {
        if let Some(child) = self.seats[node.0].child {
            let parent = self.children[child.0].parent;
            self.later(Happening::Stderr(parent, bytes.into()));
        }
    }

    /// The machine of a node has ended: so does its process, if it has one and no reason to linger.
    pub(super) fn end(&mut self, node: NodeId) {
        let seat = &self.seats[node.0];
        let status = seat.actor.as_ref().map_or(0, |actor| actor.status());
        match seat.child {
            Some(child) if self.children[child.0].manners.lingers => self.vacate(node),
            Some(child) => self.die(child, Exit::Code(status)),
            None => self.vacate(node),
        }
    }

    /// The first process of a child is gone; who else is in its group may live on.
    pub(super) fn die(&mut self, id: ChildId, exit: Exit) {
        let child = &mut self.children[id.0];
        if !std::mem::replace(&mut child.alive, false) {
            return;
        }
        let (node, parent) = (child.node, child.parent);
        if let Some((stdin, stdout)) = child.stdio.take() {
            self.release_reader(stdin);
            self.release_writer(stdout, 0);
        }
        if self.children[id.0].manners.heir.is_some() {
            self.io.add(self.now + CHAT, Happening::HeirTalks(id));
        }
        self.vacate(node);
        self.later(Happening::Exited(parent, exit));
    }

    pub(super) fn heir_talks(&mut self, id: ChildId) {
        let child = &mut self.children[id.0];
        let stdout = child.stdout;
        if let Some(heir) = &mut child.manners.heir
            && heir.chats > 0
        {
            heir.chats -= 1;
            self.io.add(self.now + CHAT, Happening::HeirTalks(id));
            self.pipes[stdout.0].append(NOISE);
            self.wake_reader_of(stdout);
        }
    }

    fn open(&mut self, node: NodeId, link: LinkId, how: Open) {
        let port = PortId(self.ports.len());
        self.ports.push(Port {
            node,
            link,
            kind: Kind::Gone,
            open: false,
            reading: true,
            deaf: false,
            slow: Duration::ZERO,
            waking: false,
            rx: None,
            tx: None,
        });
        self.seats[node.0].links.insert(link, port);
        let opened = match how {
            Open::Spawn(spec) => self.spawn(port, &spec),
            Open::Connect(address) => self.connect(port, &address),
            Open::Listen(address) => self.listen(port, address),
            Open::Accept(listener) => return self.accept(port, listener),
            Open::Given(_) => self.take_given(port),
        };
        match opened {
            Ok(()) => self.later(Happening::Opened(port)),
            Err(error) => self.later(Happening::Failed(port, error)),
        }
    }

    fn spawn(&mut self, parent: PortId, spec: &SpawnSpec) -> Result<(), OpenError> {
        if let Some(error) = self.faults.spawn_error(&mut self.dice) {
            return Err(error);
        }
        let now = self.now();
        let program = self.programs.get_mut(&spec.program).ok_or(OpenError::NotFound)?;
        let (actor, manners) = program(now, spec);
        let manners = manners.unwrap_or_else(|| self.faults.manners(&mut self.dice));
        let holders = 1 + u8::from(manners.heir.is_some());
        let stdin = self.pipe(Pipe::held_by(1, holders));
        let stdout = self.pipe(Pipe::held_by(holders, 1));
        let child = ChildId(self.children.len());
        self.children.push(Child {
            node: NodeId(self.seats.len()),
            parent,
            stdio: Some((stdin, stdout)),
            stdout,
            alive: true,
            manners,
        });
        self.join(parent, Kind::Child(child), stdout, stdin);
        self.seat(actor, Some(child), None);
        Ok(())
    }

    fn take_given(&mut self, port: PortId) -> Result<(), OpenError> {
        let node = self.port(port).node;
        if let Some(Stream { rx, tx }) = self.seats[node.0].given.take() {
            self.join(port, Kind::Stream, rx, tx);
            return Ok(());
        }
        let child = self.seats[node.0].child.ok_or(OpenError::Unsupported)?;
        let (stdin, stdout) = self.children[child.0].stdio.take().ok_or(OpenError::Unsupported)?;
        self.join(port, Kind::Stdio(child), stdin, stdout);
        let Manners { deaf, slow, .. } = self.children[child.0].manners;
        let port = self.port(port);
        (port.deaf, port.slow) = (deaf, slow);
        Ok(())
    }

    fn connect(&mut self, port: PortId, address: &Address) -> Result<(), OpenError> {
        if let Some(error) = self.faults.connect_error(&mut self.dice) {
            return Err(error);
        }
        let listener = *self.listeners.get(address).ok_or(OpenError::NotFound)?;
        let (rx, tx) = (self.pipe(Pipe::held_by(1, 1)), self.pipe(Pipe::held_by(1, 1)));
        let Kind::Listener { backlog, .. } = &mut self.port(listener).kind else {
            return Err(OpenError::Refused);
        };
        if backlog.len() >= BACKLOG {
            return Err(OpenError::Busy);
        }
        backlog.push_back(Stream { rx: tx, tx: rx });
        self.join(port, Kind::Stream, rx, tx);
        self.pair_up(listener);
        Ok(())
    }

    fn listen(&mut self, port: PortId, address: Address) -> Result<(), OpenError> {
        if self.listeners.contains_key(&address) {
            return Err(OpenError::InUse);
        }
        self.listeners.insert(address.clone(), port);
        self.port(port).kind = Kind::Listener { address, backlog: VecDeque::new(), accepting: None };
        Ok(())
    }

    fn accept(&mut self, port: PortId, listener: LinkId) {
        if self.faults.accept_fails(&mut self.dice) {
            return self.later(Happening::Failed(port, OpenError::TooManyFiles));
        }
        let node = self.port(port).node;
        let listener = self.seats[node.0].links.get(&listener).copied();
        let Some(listener) = listener else {
            return self.later(Happening::Failed(port, OpenError::Unsupported));
        };
        self.port(port).kind = Kind::Accepting(listener);
        if let Kind::Listener { accepting, .. } = &mut self.port(listener).kind {
            assert!(accepting.replace(port).is_none(), "two accepts at once");
            self.pair_up(listener);
        }
    }

    /// Gives the next caller to the accept that waits, if there are both.
    fn pair_up(&mut self, listener: PortId) {
        let Kind::Listener { backlog, accepting, .. } = &mut self.port(listener).kind else { return };
        if accepting.is_some()
            && let Some(caller) = backlog.pop_front()
            && let Some(taken) = accepting.take()
        {
            self.join(taken, Kind::Stream, caller.rx, caller.tx);
            self.later(Happening::Opened(taken));
        }
    }

    fn write(&mut self, id: PortId, bytes: &[u8]) {
        if matches!(self.port(id).kind, Kind::Stream) && self.faults.breaks(&mut self.dice) {
            self.sever(id);
        }
        let Some(tx) = self.port(id).tx.filter(|tx| !self.pipes[tx.0].is_broken()) else {
            return self.later(Happening::WriteFailed(id));
        };
        let mut fits = self.pipes[tx.0].write(id, bytes);
        if let Kind::Stdio(child) = self.port(id).kind {
            let manners = self.children[child.0].manners;
            if let Some(exit) = self.faults.dies(&mut self.dice) {
                let lost = self.dice.below(bytes.len() + 1);
                self.close_write(id, lost);
                return self.io.add(self.now, Happening::Dies(child, exit));
            }
            if manners.chatty {
                self.pipes[tx.0].append(NOISE);
                fits = fits && self.pipes[tx.0].buffered() <= Pipe::CAPACITY;
                let parent = self.children[child.0].parent;
                self.io.add(self.now, Happening::Stderr(parent, NOISE.into()));
            }
            if manners.shuts_stdin
                && let Some(stdin) = self.port(id).rx.take()
            {
                self.release_reader(stdin);
            }
        }
        if fits {
            self.later(Happening::Written(id));
        }
        self.wake_reader_of(tx);
    }

    fn close_write(&mut self, port: PortId, lost: usize) {
        if let Some(tx) = self.port(port).tx.take() {
            self.release_writer(tx, lost);
        }
    }

    /// The connection is gone for both ends.
    fn sever(&mut self, id: PortId) {
        let port = self.port(id);
        for pipe in [port.rx, port.tx].into_iter().flatten() {
            self.release_writer(pipe, 0);
            self.release_reader(pipe);
        }
    }

    fn signal(&mut self, port: PortId, signal: Signal) {
        let Kind::Child(id) = self.port(port).kind else { return };
        let child = &mut self.children[id.0];
        let kill = signal == Signal::Kill;
        if child.manners.heir.is_some_and(|heir| kill || !heir.ignores_term) {
            self.bury_heir(id);
        }
        let child = &self.children[id.0];
        let (node, spared) = (child.node, child.manners.ignores_term && !kill);
        if !child.alive || spared {
            return;
        }
        let now = self.now();
        if !kill && self.seats[node.0].actor.as_mut().is_some_and(|actor| actor.term(now)) {
            return self.settle(node);
        }
        let exit = Exit::Signal(if kill { 9 } else { 15 });
        self.later(Happening::Dies(id, exit));
    }

    fn close(&mut self, id: PortId) {
        let port = self.port(id);
        let (rx, tx) = (port.rx.take(), port.tx.take());
        let (node, link) = (port.node, port.link);
        let kind = std::mem::replace(&mut port.kind, Kind::Gone);
        self.seats[node.0].links.remove(&link);
        if let Some(rx) = rx {
            self.release_reader(rx);
        }
        if let Some(tx) = tx {
            self.release_writer(tx, 0);
        }
        match kind {
            Kind::Child(child) => {
                self.bury_heir(child);
                self.die(child, Exit::Signal(9));
            }
            Kind::Listener { address, backlog, .. } => {
                self.listeners.remove(&address);
                for Stream { rx, tx } in backlog {
                    self.release_reader(rx);
                    self.release_writer(tx, 0);
                }
            }
            Kind::Accepting(listener) => {
                if let Kind::Listener { accepting, .. } = &mut self.port(listener).kind {
                    *accepting = None;
                }
            }
            Kind::Gone | Kind::Stream | Kind::Stdio(_) => {}
        }
    }

    /// Nobody sits there any more; all links of whoever did are cut.
    fn vacate(&mut self, node: NodeId) {
        let seat = &mut self.seats[node.0];
        seat.actor = None;
        seat.due = None;
        let ports: Vec<PortId> = seat.links.values().copied().collect();
        for port in ports {
            let port = self.port(port);
            let (rx, tx) = (port.rx.take(), port.tx.take());
            port.kind = Kind::Gone;
            if let Some(rx) = rx {
                self.release_reader(rx);
            }
            if let Some(tx) = tx {
                self.release_writer(tx, 0);
            }
        }
    }

    fn bury_heir(&mut self, id: ChildId) {
        let child = &mut self.children[id.0];
        if child.manners.heir.take().is_some() {
            let (parent, stdout) = (child.parent, child.stdout);
            self.release_writer(stdout, 0);
            if let Some(stdin) = self.port(parent).tx {
                self.release_reader(stdin);
            }
        }
    }

    fn release_writer(&mut self, id: PipeId, lost: usize) {
        let pipe = &mut self.pipes[id.0];
        pipe.give_up(lost);
        pipe.writers = pipe.writers.saturating_sub(1);
        self.wake_reader_of(id);
    }

    fn release_reader(&mut self, id: PipeId) {
        let pipe = &mut self.pipes[id.0];
        pipe.readers = pipe.readers.saturating_sub(1);
        if !pipe.is_broken() {
            return;
        }
        let (waiting, writer) = (pipe.break_off(), pipe.writer);
        if let Some(writer) = waiting.or(writer.filter(|writer| self.has_hung_up(*writer))) {
            self.later(Happening::WriteFailed(writer));
        }
    }

    /// Whether a node that has read to the end of a connection can know that nobody reads it either.
    pub(super) fn has_hung_up(&self, id: PortId) -> bool {
        let Port { kind, rx, tx, .. } = &self.ports[id.0];
        let ended = rx.is_some_and(|rx| self.pipes[rx.0].ended);
        let broken = tx.is_some_and(|tx| self.pipes[tx.0].is_broken());
        matches!(kind, Kind::Stream) && ended && broken
    }

    fn wake_reader_of(&mut self, pipe: PipeId) {
        if let Some(reader) = self.pipes[pipe.0].reader {
            self.wake_reader(reader);
        }
    }

    pub(super) fn pipe(&mut self, pipe: Pipe) -> PipeId {
        self.pipes.push(pipe);
        PipeId(self.pipes.len() - 1)
    }

    fn join(&mut self, id: PortId, kind: Kind, rx: PipeId, tx: PipeId) {
        self.pipes[rx.0].reader = Some(id);
        self.pipes[tx.0].writer = Some(id);
        let port = self.port(id);
        port.kind = kind;
        port.rx = Some(rx);
        port.tx = Some(tx);
    }

    fn note_action(&mut self, node: NodeId, link: LinkId, action: &Action) {
        let now = self.now;
        self.note(|| match action {
            Action::Write(bytes) => format!("{now:?} {node:?} {link:?} → {}", String::from_utf8_lossy(bytes)),
            Action::Open(_)
            | Action::Read(_)
            | Action::CloseWrite
            | Action::Signal(_)
            | Action::Probe
            | Action::Close => format!("{now:?} {node:?} {link:?} → {action:?}"),
        });
    }
}

/// Callers that may wait to be accepted: few, so that tests meet the limit.
const BACKLOG: usize = 4;
/// The pause between two lines of someone who should be gone.
const CHAT: Duration = Duration::from_millis(300);
const NOISE: &[u8] = b"npm warn: this is no protocol\n";
