//! The links of a machine: each action is performed at once, each readiness becomes what was heard.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::SyncSender;

use agentline_core::{Action, Heard, LinkId, Open, OpenError, Peer, SpawnSpec};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::errno::{errno, open_error};
use crate::given::{Given, Output, Restore};
use crate::hangup;
use crate::process::{self, Child};
use crate::socket::{self, Place};
use crate::watch::{End, Source, Token, Watch, Way};

/// The links that are open, and what the machine has to be told about them.
pub(crate) struct Io<W: Watch> {
    watch: W,
    ports: BTreeMap<LinkId, Port<W::Source>>,
    answers: VecDeque<(LinkId, Heard<'static>)>,
    given: Option<Given>,
}

enum Port<S> {
    Stream(Stream<S>),
    Listener {
        _place: Place,
        socket: S,
        taker: Option<LinkId>,
    },
    /// Waits for a connection of that listener.
    Accepting {
        listener: LinkId,
    },
}

impl<W: Watch> Io<W> {
    pub(crate) fn new(watch: W, given: Option<Given>) -> Self {
        Self { watch, ports: BTreeMap::new(), answers: VecDeque::new(), given }
    }

    /// Does it, as far as it can be done without waiting.
    pub(crate) fn perform(&mut self, link: LinkId, action: Action) {
        match action {
            Action::Open(open) => {
                if let Some(answer) = self.open(link, open).unwrap_or_else(|e| Some(Heard::OpenFailed(e))) {
                    self.answers.push_back((link, answer));
                }
            }
            Action::Close => self.close(link),
            Action::Read(_) | Action::Write(_) | Action::CloseWrite | Action::Signal(_) | Action::Probe => {
                if let Some(Port::Stream(stream)) = self.ports.get_mut(&link) {
                    let answer = stream.perform(action);
                    self.answers.extend(answer.map(|heard| (link, heard)));
                    self.arm(link);
                }
            }
        }
    }

    /// What an action came to at once.
    pub(crate) fn answer(&mut self) -> Option<(LinkId, Heard<'static>)> {
        self.answers.pop_front()
    }

    /// One read, write, accept or reaping. `None` if nothing came of it: a late or needless wake.
    pub(crate) fn ready<'a>(
        &mut self,
        Token { link, end }: Token,
        way: Way,
        buffer: &'a mut [u8],
    ) -> Option<(LinkId, Heard<'a>)> {
        let heard = match self.ports.get_mut(&link)? {
            Port::Stream(stream) => {
                let heard = stream.ready(end, way, buffer);
                if heard == Some(Heard::Eof) {
                    let watch = |fd| self.watch.watch(fd, Token { link, end: End::Exit });
                    self.answers.extend(stream.await_hang_up(watch).map(|heard| (link, heard)));
                }
                heard.map(|heard| (link, heard))
            }
            Port::Listener { socket, taker: Some(taker), .. } => {
                let (taker, accepted) = (*taker, socket::accept(&*socket));
                self.accepted(taker, accepted).map(|heard| (taker, heard))
            }
            Port::Listener { .. } | Port::Accepting { .. } => None,
        };
        self.arm(link);
        heard
    }

    /// Closes everything.
    pub(crate) fn clear(&mut self) {
        self.ports.clear();
        self.answers.clear();
    }

    fn open(&mut self, link: LinkId, open: Open) -> Result<Option<Heard<'static>>, OpenError> {
        let (port, peer) = match open {
            Open::Spawn(spec) => self.spawn(link, &spec)?,
            Open::Connect(address) => {
                let (socket, peer) = socket::connect(&address)?;
                let socket = self.watch.watch(socket, Token { link, end: End::Main });
                (Port::Stream(Stream::socket(socket.map_err(shortage)?)), peer)
            }
            Open::Listen(address) => {
                let (socket, place) = socket::listen(&address)?;
                let socket = self.watch.watch(socket, Token { link, end: End::Main }).map_err(shortage)?;
                (Port::Listener { _place: place, socket, taker: None }, Peer::default())
            }
            Open::Accept(listener) => return self.accept(link, listener),
            Open::Given => (self.take_given(link)?, Peer::default()),
        };
        self.ports.insert(link, port);
        self.arm(link);
        Ok(Some(Heard::Opened(peer)))
    }

    fn spawn(&self, link: LinkId, spec: &SpawnSpec) -> Result<(Port<W::Source>, Peer), OpenError> {
        let spawned = process::spawn(spec)?;
        let pid = spawned.child.pid();
        let watch = |fd, end| self.watch.watch(fd, Token { link, end }).map_err(shortage);
        let stream = Stream {
            main: Some(watch(spawned.stdout, End::Main)?),
            inlet: Inlet::Reading,
            outlet: Outlet::Idle(Sink::Own(watch(spawned.stdin, End::Out)?)),
            stderr: spawned.stderr.map(|fd| watch(fd, End::Stderr)).transpose()?,
            exit: Some(watch(spawned.exit, End::Exit)?),
            child: Some(spawned.child),
            last_words: LAST_WORDS,
            restore: None,
        };
        Ok((Port::Stream(stream), Peer { pid, uid: Some(rustix::process::geteuid().as_raw()) }))
    }

    fn accept(&mut self, link: LinkId, from: LinkId) -> Result<Option<Heard<'static>>, OpenError> {
        let Some(Port::Listener { socket, taker, .. }) = self.ports.get_mut(&from) else {
            return Err(OpenError::NotFound);
        };
        let accepted = socket::accept(&*socket);
        *taker = Some(link);
        self.ports.insert(link, Port::Accepting { listener: from });
        let heard = self.accepted(link, accepted);
        self.arm(from);
        Ok(heard)
    }

    fn accepted(
        &mut self,
        link: LinkId,
        accepted: Result<Option<(OwnedFd, Peer)>, OpenError>,
    ) -> Option<Heard<'static>> {
        let watched = accepted.transpose()?.and_then(|(socket, peer)| {
            let socket = self.watch.watch(socket, Token { link, end: End::Main }).map_err(shortage)?;
            Ok((socket, peer))
        });
        self.close(link);
        Some(match watched {
            Ok((socket, peer)) => {
                self.ports.insert(link, Port::Stream(Stream::socket(socket)));
                self.arm(link);
                Heard::Opened(peer)
            }
            Err(error) => Heard::OpenFailed(error),
        })
    }

    fn take_given(&mut self, link: LinkId) -> Result<Port<W::Source>, OpenError> {
        let given = self.given.take().ok_or(OpenError::Unsupported)?.open().map_err(shortage)?;
        let watch = |fd, end| self.watch.watch(fd, Token { link, end }).map_err(shortage);
        let outlet = match given.output {
            None => Outlet::Shut,
            Some(Output::Pollable(fd)) => Outlet::Idle(Sink::Own(watch(fd, End::Out)?)),
            Some(Output::Thread(writes, acks)) => Outlet::Idle(Sink::Thread(writes, watch(acks, End::Out)?)),
        };
        if given.input.is_none() {
            self.answers.push_back((link, Heard::Eof));
        }
        Ok(Port::Stream(Stream {
            main: given.input.map(|fd| watch(fd, End::Main)).transpose()?,
            inlet: Inlet::Reading,
            outlet,
            stderr: None,
            exit: None,
            child: None,
            last_words: 0,
            restore: Some(given.restore),
        }))
    }

    fn close(&mut self, link: LinkId) {
        if let Some(Port::Accepting { listener }) = self.ports.remove(&link)
            && let Some(Port::Listener { taker, .. }) = self.ports.get_mut(&listener)
        {
            *taker = None;
        }
    }

    /// Asks for what the link waits for. A link that cannot be watched is told as one that has ended.
    fn arm(&mut self, link: LinkId) {
        let armed = match self.ports.get_mut(&link) {
            Some(Port::Stream(stream)) => stream.arm(),
            Some(Port::Listener { socket, taker, .. }) => socket.want(taker.is_some(), false),
            Some(Port::Accepting { .. }) | None => Ok(()),
        };
        if armed.is_err() {
            self.answers.extend([(link, Heard::WriteFailed), (link, Heard::Eof)]);
        }
    }
}

/// A link that carries bytes.
struct Stream<S> {
    /// Where the peer's bytes come from; a socket's go out there too.
    main: Option<S>,
    inlet: Inlet,
    outlet: Outlet<S>,
    stderr: Option<S>,
    /// Readable when the child has ended, or when the peer of a socket that said its last byte has gone.
    exit: Option<S>,
    child: Option<Child>,
    /// How many reads of standard error may still come before the child's exit is told.
    last_words: u8,
    restore: Option<Restore>,
}

#[derive(Clone, Copy, PartialEq)]
enum Inlet {
    Reading,
    Held,
    Ended,
}

enum Outlet<S> {
    Idle(Sink<S>),
    Writing(Sink<S>, Vec<u8>, usize),
    Shut,
}

enum Sink<S> {
    /// The socket that we read from.
    Main,
    Own(S),
    Thread(SyncSender<Vec<u8>>, S),
}

impl<S: Source> Stream<S> {
    const fn socket(main: S) -> Self {
        Self {
            main: Some(main),
            inlet: Inlet::Reading,
            outlet: Outlet::Idle(Sink::Main),
            stderr: None,
            exit: None,
            child: None,
            last_words: 0,
            restore: None,
        }
    }

    fn perform(&mut self, action: Action) -> Option<Heard<'static>> {
        match action {
            Action::Read(on) => {
                self.inlet = match (self.inlet, on) {
                    (Inlet::Ended, _) => Inlet::Ended,
                    (Inlet::Reading | Inlet::Held, true) => Inlet::Reading,
                    (Inlet::Reading | Inlet::Held, false) => Inlet::Held,
                };
                None
            }
            Action::Write(bytes) => self.begin_write(bytes),
            Action::CloseWrite => {
                self.close_write();
                None
            }
            Action::Signal(signal) => {
                self.child.as_ref()?.signal(signal);
                None
            }
            Action::Probe => self.child.as_mut().map(|child| Heard::Group(child.probe())),
            Action::Open(_) | Action::Close => None,
        }
    }

    fn ready<'a>(&mut self, end: End, way: Way, buffer: &'a mut [u8]) -> Option<Heard<'a>> {
        match (end, way) {
            (End::Main, Way::Read) if self.inlet == Inlet::Reading => {
                let heard = match read(self.main.as_ref()?, buffer)? {
                    0 => Heard::Eof,
                    n => return Some(Heard::Bytes(buffer.get(..n)?)),
                };
                self.inlet = Inlet::Ended;
                Some(heard)
            }
            (End::Main | End::Out, Way::Write) => self.go_on_writing(),
            (End::Out, Way::Read) => self.acknowledged(),
            (End::Stderr, _) => self.read_stderr(buffer),
            (End::Exit, _) if self.child.is_none() => self.hung_up(),
            (End::Exit, _) => {
                // What the child said last is the reason for its exit, so it is told first. A grandchild that
                // never stops talking does not hide the exit.
                if self.last_words > 0 {
                    self.last_words -= 1;
                    if let Some(n) = self.stderr.as_ref().and_then(|fd| read(fd, buffer)).filter(|n| *n > 0) {
                        return Some(Heard::Stderr(buffer.get(..n)?));
                    }
                }
                let exit = self.child.as_mut()?.reap()?;
                self.exit = None;
                Some(Heard::Exited(exit))
            }
            (End::Main, Way::Read) => None,
        }
    }

    fn read_stderr<'a>(&mut self, buffer: &'a mut [u8]) -> Option<Heard<'a>> {
        let n = read(self.stderr.as_ref()?, buffer)?;
        if n == 0 {
            self.stderr = None;
            return None;
        }
        Some(Heard::Stderr(buffer.get(..n)?))
    }

    /// The peer said its last byte. That of a socket may still read, or be gone.
    fn await_hang_up(&mut self, watch: impl FnOnce(OwnedFd) -> io::Result<S>) -> Option<Heard<'static>> {
        let hung_up = self.hung_up();
        if let Outlet::Idle(Sink::Main) | Outlet::Writing(Sink::Main, ..) = self.outlet {
            // Without a descriptor to spare, the next write finds out.
            self.exit = hangup::alarm(self.main.as_ref()?).ok().and_then(|fd| watch(fd).ok());
        }
        hung_up
    }

    fn hung_up(&mut self) -> Option<Heard<'static>> {
        let (Outlet::Idle(Sink::Main) | Outlet::Writing(Sink::Main, ..)) = self.outlet else { return None };
        if !hangup::has_come(self.main.as_ref()?) {
            return None;
        }
        self.outlet = Outlet::Shut;
        self.exit = None;
        Some(Heard::WriteFailed)
    }

    fn begin_write(&mut self, bytes: Vec<u8>) -> Option<Heard<'static>> {
        match std::mem::replace(&mut self.outlet, Outlet::Shut) {
            Outlet::Idle(Sink::Thread(writes, acks)) => {
                if writes.send(bytes).is_err() {
                    return Some(Heard::WriteFailed);
                }
                self.outlet = Outlet::Writing(Sink::Thread(writes, acks), Vec::new(), 0);
                None
            }
            Outlet::Idle(sink) => self.write(sink, bytes, 0),
            busy @ Outlet::Writing(..) => {
                debug_assert!(false, "two writes outstanding");
                self.outlet = busy;
                None
            }
            Outlet::Shut => Some(Heard::WriteFailed),
        }
    }

    fn go_on_writing(&mut self) -> Option<Heard<'static>> {
        match std::mem::replace(&mut self.outlet, Outlet::Shut) {
            Outlet::Writing(sink @ (Sink::Main | Sink::Own(_)), bytes, done) => self.write(sink, bytes, done),
            idle @ (Outlet::Idle(_) | Outlet::Writing(..) | Outlet::Shut) => {
                self.outlet = idle;
                None
            }
        }
    }

    /// Writes what the system takes now. The outlet stays shut if that fails.
    fn write(&mut self, sink: Sink<S>, bytes: Vec<u8>, mut done: usize) -> Option<Heard<'static>> {
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(self.descriptor(&sink)?, rest) {
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.outlet = Outlet::Writing(sink, bytes, done);
                    return None;
                }
                Err(_) => return Some(Heard::WriteFailed),
            }
        }
        self.outlet = Outlet::Idle(sink);
        Some(Heard::Written)
    }

    fn acknowledged(&mut self) -> Option<Heard<'static>> {
        let Outlet::Writing(Sink::Thread(_, acks), ..) = &self.outlet else { return None };
        let done = read(acks, &mut [0])? > 0;
        let outlet = std::mem::replace(&mut self.outlet, Outlet::Shut);
        match outlet {
            Outlet::Writing(sink, ..) if done => {
                self.outlet = Outlet::Idle(sink);
                Some(Heard::Written)
            }
            Outlet::Idle(_) | Outlet::Writing(..) | Outlet::Shut => Some(Heard::WriteFailed),
        }
    }

    fn close_write(&mut self) {
        let outlet = std::mem::replace(&mut self.outlet, Outlet::Shut);
        if let Outlet::Idle(sink) | Outlet::Writing(sink, ..) = &outlet
            && let Some(fd) = self.descriptor(sink)
        {
            // A socket has two halves; for a pipe this is an error, and closing is enough.
            let _ = rustix::net::shutdown(fd, Shutdown::Write);
        }
        if let Some(restore) = &mut self.restore {
            restore.end_output();
        }
    }

    fn descriptor<'a>(&'a self, sink: &'a Sink<S>) -> Option<BorrowedFd<'a>> {
        match sink {
            Sink::Main => self.main.as_ref().map(AsFd::as_fd),
            Sink::Own(fd) | Sink::Thread(_, fd) => Some(fd.as_fd()),
        }
    }

    fn arm(&mut self) -> io::Result<()> {
        let mut shared = false;
        match &mut self.outlet {
            Outlet::Idle(Sink::Own(fd) | Sink::Thread(_, fd)) => fd.want(false, false)?,
            Outlet::Writing(Sink::Own(fd), ..) => fd.want(false, true)?,
            Outlet::Writing(Sink::Thread(_, fd), ..) => fd.want(true, false)?,
            Outlet::Writing(Sink::Main, ..) => shared = true,
            Outlet::Idle(Sink::Main) | Outlet::Shut => {}
        }
        if let Some(main) = &mut self.main {
            main.want(self.inlet == Inlet::Reading, shared)?;
        }
        for fd in self.stderr.iter_mut().chain(&mut self.exit) {
            fd.want(true, false)?;
        }
        Ok(())
    }
}

/// `None`: nothing there yet. An error is the end, as far as a peer is concerned.
fn read(from: &impl AsFd, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match rustix::io::read(from, &mut *buffer) {
            Ok(n) => return Some(n),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return None,
            Err(_) => return Some(0),
        }
    }
}

fn shortage(error: io::Error) -> OpenError {
    open_error(errno(&error))
}

/// A pipe holds 1 MiB at most, which is 16 full reads.
const LAST_WORDS: u8 = 32;
