//! A link that carries bytes: a child's pipes, a socket, a given stream.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::SyncSender;

use agentline_core::{Action, Heard};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::given::Restore;
use crate::hangup;
use crate::process::Child;
use crate::watch::{End, Source, Way};

/// The descriptors of one link, and how far each has come.
pub(crate) struct Stream<S> {
    /// Where the peer's bytes come from; a socket's go out there too.
    pub(crate) main: Option<S>,
    pub(crate) inlet: Inlet,
    pub(crate) outlet: Outlet<S>,
    pub(crate) stderr: Option<S>,
    /// Readable when the child has ended, or when the peer of a socket that said its last byte has gone.
    pub(crate) exit: Option<S>,
    pub(crate) child: Option<Child>,
    /// How many reads of standard error may still come before the child's exit is told.
    pub(crate) last_words: u8,
    pub(crate) restore: Option<Restore>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Inlet {
    Reading,
    Held,
    Ended,
}

pub(crate) enum Outlet<S> {
    Idle(Sink<S>),
    Writing(Sink<S>, Vec<u8>, usize),
    Shut,
}

pub(crate) enum Sink<S> {
    /// The socket that we read from.
    Main,
    Own(S),
    Thread(SyncSender<Vec<u8>>, S),
}

impl<S: Source> Stream<S> {
    pub(crate) const fn socket(main: S) -> Self {
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

    pub(crate) fn perform(&mut self, action: Action) -> Option<Heard<'static>> {
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

    pub(crate) fn ready<'a>(&mut self, end: End, way: Way, buffer: &'a mut [u8]) -> Option<Heard<'a>> {
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
    pub(crate) fn await_hang_up(
        &mut self,
        watch: impl FnOnce(OwnedFd) -> io::Result<S>,
    ) -> Option<Heard<'static>> {
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

    pub(crate) fn arm(&mut self) -> io::Result<()> {
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

/// A pipe holds 1 MiB at most, which is 16 full reads.
pub(crate) const LAST_WORDS: u8 = 32;
