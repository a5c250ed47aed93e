//! The links of a machine: each action is performed at once, each readiness becomes what was heard.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use agentline_core::{Action, Heard, LinkId, Open, OpenError, Peer, SpawnSpec};

use crate::errno::{errno, open_error};
use crate::given::{Given, Output};
use crate::poll::{Polled, Poller};
use crate::process;
use crate::socket::{self, Place};
use crate::stream::{Outlet, Process, Sink, Stream};
use crate::watch::{End, Token, Way};

/// The links that are open, and what the machine has to be told about them.
pub(crate) struct Io {
    poller: Poller,
    ports: BTreeMap<LinkId, Port>,
    /// What each waits for may have changed.
    touched: Vec<LinkId>,
    answers: VecDeque<(LinkId, Heard<'static>)>,
    given: BTreeMap<u32, Given>,
}

enum Port {
    Stream(Stream),
    Listener {
        _place: Place,
        socket: Polled,
        taker: Option<LinkId>,
    },
    /// Waits for a connection of that listener.
    Accepting {
        listener: LinkId,
    },
}

impl Io {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            poller: Poller::new()?,
            ports: BTreeMap::new(),
            touched: Vec::new(),
            answers: VecDeque::new(),
            given: BTreeMap::new(),
        })
    }

    pub(crate) fn poller(&self) -> Poller {
        self.poller.clone()
    }

    /// A stream for the link that is opened as given by that number.
    pub(crate) fn give(&mut self, number: u32, given: Given) {
        self.given.insert(number, given);
    }

    /// How many links there are.
    pub(crate) fn len(&self) -> usize {
        self.ports.len()
    }

    /// Does it, as far as it can be done without waiting.
    pub(crate) fn perform(&mut self, link: LinkId, action: Action) {
        match action {
            Action::Open(open) => {
                if let Err(error) = self.open(link, open) {
                    self.answers.push_back((link, Heard::OpenFailed(error)));
                }
            }
            Action::Close => self.close(link),
            Action::Read(_) | Action::Write(_) | Action::CloseWrite | Action::Signal(_) | Action::Probe => {
                if let Some(Port::Stream(stream)) = self.ports.get_mut(&link) {
                    let answer = stream.perform(action);
                    self.answers.extend(answer.map(|heard| (link, heard)));
                    self.touched.push(link);
                }
            }
        }
    }

    /// What an action came to at once. `None`: all is done that could be, and the rest is waited for.
    pub(crate) fn answer(&mut self) -> Option<(LinkId, Heard<'static>)> {
        if self.answers.is_empty() {
            self.await_all();
        }
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
                // A socket that only closed its half looks the same: from here on its hang-up is listened for.
                if heard == Some(Heard::Eof) {
                    let watch = |fd| self.poller.watch(fd, Token { link, end: End::Exit });
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
        self.touched.push(link);
        heard
    }

    /// Closes every link, and forgets what was to be written.
    pub(crate) fn clear(&mut self) {
        self.ports.clear();
        self.touched.clear();
        self.answers.clear();
    }

    fn open(&mut self, link: LinkId, open: Open) -> Result<(), OpenError> {
        let (port, peer) = match open {
            Open::Spawn(spec) => self.spawn(link, &spec)?,
            Open::Connect(address) => {
                let (socket, peer) = socket::connect(&address)?;
                let socket = self.poller.watch(socket, Token { link, end: End::Main });
                (Port::Stream(Stream::socket(socket)), peer)
            }
            Open::Listen(address) => {
                let (socket, place) = socket::listen(&address)?;
                let socket = self.poller.watch(socket, Token { link, end: End::Main });
                (Port::Listener { _place: place, socket, taker: None }, Peer::default())
            }
            Open::Accept(listener) => return self.accept(link, listener),
            Open::Given(number) => (self.take_given(link, number)?, Peer::default()),
        };
        self.answers.push_back((link, Heard::Opened(peer)));
        if let Port::Stream(stream) = &port
            && stream.has_ended()
        {
            self.answers.push_back((link, Heard::Eof));
        }
        self.ports.insert(link, port);
        self.touched.push(link);
        Ok(())
    }

    fn spawn(&self, link: LinkId, spec: &SpawnSpec) -> Result<(Port, Peer), OpenError> {
        let spawned = process::spawn(spec)?;
        let pid = spawned.child.pid();
        let watch = |fd, end| self.poller.watch(fd, Token { link, end });
        let stdout = watch(spawned.stdout, End::Main);
        let stdin = Outlet::Idle(Sink::Own(watch(spawned.stdin, End::Out)));
        let stderr = spawned.stderr.map(|fd| watch(fd, End::Stderr));
        let process = Process::new(spawned.child, stderr, watch(spawned.exit, End::Exit));
        let stream = Stream::new(Some(stdout), stdin, Some(process), None);
        Ok((Port::Stream(stream), Peer { pid, uid: Some(rustix::process::geteuid().as_raw()) }))
    }

    fn accept(&mut self, link: LinkId, from: LinkId) -> Result<(), OpenError> {
        let Some(Port::Listener { socket, taker, .. }) = self.ports.get_mut(&from) else {
            return Err(OpenError::NotFound);
        };
        // Who waits in the backlog already is there at once, without a look.
        let accepted = socket::accept(&*socket);
        *taker = Some(link);
        self.ports.insert(link, Port::Accepting { listener: from });
        let heard = self.accepted(link, accepted);
        self.answers.extend(heard.map(|heard| (link, heard)));
        self.touched.push(from);
        Ok(())
    }

    fn accepted(
        &mut self,
        link: LinkId,
        accepted: Result<Option<(OwnedFd, Peer)>, OpenError>,
    ) -> Option<Heard<'static>> {
        let accepted = accepted.transpose()?;
        // The link is no longer one that waits: the listener takes nobody until the core asks again.
        self.close(link);
        Some(match accepted {
            Ok((socket, peer)) => {
                let socket = self.poller.watch(socket, Token { link, end: End::Main });
                self.ports.insert(link, Port::Stream(Stream::socket(socket)));
                self.touched.push(link);
                Heard::Opened(peer)
            }
            Err(error) => Heard::OpenFailed(error),
        })
    }

    fn take_given(&mut self, link: LinkId, number: u32) -> Result<Port, OpenError> {
        let given = self.given.remove(&number).ok_or(OpenError::Unsupported)?.open().map_err(shortage)?;
        let watch = |fd, end| self.poller.watch(fd, Token { link, end });
        let outlet = match given.output {
            None => Outlet::Shut,
            Some(Output::Pollable(fd)) => Outlet::Idle(Sink::Own(watch(fd, End::Out))),
            Some(Output::Thread(writes, acks)) => Outlet::Idle(Sink::Thread(writes, watch(acks, End::Out))),
        };
        let input = given.input.map(|fd| watch(fd, End::Main));
        Ok(Port::Stream(Stream::new(input, outlet, None, Some(given.restore))))
    }

    fn close(&mut self, link: LinkId) {
        if let Some(Port::Accepting { listener }) = self.ports.remove(&link)
            && let Some(Port::Listener { taker, .. }) = self.ports.get_mut(&listener)
        {
            *taker = None;
        }
    }

    /// Asks for what the links wait for, once all that concerns them is done. One that cannot be watched is told as one
    /// that has ended.
    fn await_all(&mut self) {
        while let Some(link) = self.touched.pop() {
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
}

fn shortage(error: io::Error) -> OpenError {
    open_error(errno(&error))
}
