//! A link that carries bytes: a child's pipes, a socket, a given stream.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::SyncSender;

use agentline_core::{Action, Heard};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::given::Restore;
use crate::hangup;
use crate::poll::Polled;
use crate::process::Child;
use crate::watch::{End, Way};

/// The descriptors of one link, and how far each has come.
pub(crate) struct Stream {
    /// Where the peer's bytes come from; a socket's go out there too.
    main: Option<Polled>,
    inlet: Inlet,
    outlet: Outlet,
    process: Option<Process>,
    /// Readable when the peer of a socket that has said its last byte is gone.
    hang_up: Option<Polled>,
    restore: Option<Restore>,
}

#[derive(Clone, Copy, PartialEq)]
enum Inlet {
    Reading,
    Held,
    Ended,
}

/// Where our bytes go.
pub(crate) enum Outlet {
    Idle(Sink),
    /// So many of these bytes are written.
    Writing(Sink, Vec<u8>, usize),
    Shut,
}

/// What takes our bytes.
pub(crate) enum Sink {
    /// The socket that we read from.
    Main,
    Own(Polled),
    /// A thread, and where it acknowledges each write.
    Thread(SyncSender<Vec<u8>>, Polled),
}

impl Stream {
    pub(crate) const fn new(
        main: Option<Polled>,
        outlet: Outlet,
        process: Option<Process>,
        restore: Option<Restore>,
    ) -> Self {
        Self { main, inlet: Inlet::Reading, outlet, process, hang_up: None, restore }
    }

    pub(crate) const fn socket(main: Polled) -> Self {
        Self::new(Some(main), Outlet::Idle(Sink::Main), None, None)
    }

    /// Nothing will ever come: the given half was closed.
    pub(crate) const fn has_ended(&self) -> bool {
        self.main.is_none()
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
                self.process.as_ref()?.child.signal(signal);
                None
            }
            Action::Probe => self.process.as_mut().map(|process| Heard::Group(process.child.probe())),
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
            (End::Stderr, _) => self.process.as_mut()?.read_stderr(buffer),
            (End::Exit, _) => match &mut self.process {
                Some(process) => process.exited(buffer),
                None => self.hung_up(),
            },
            (End::Main, Way::Read) => None,
        }
    }

    /// The peer said its last byte. That of a socket may still read, or be gone.
    pub(crate) fn await_hang_up(&mut self, watch: impl FnOnce(OwnedFd) -> Polled) -> Option<Heard<'static>> {
        let hung_up = self.hung_up();
        if let Outlet::Idle(Sink::Main) | Outlet::Writing(Sink::Main, ..) = self.outlet {
            // Without a descriptor to spare, the next write finds out.
            self.hang_up = hangup::alarm(self.main.as_ref()?).ok().map(watch);
        }
        hung_up
    }

    fn hung_up(&mut self) -> Option<Heard<'static>> {
        let (Outlet::Idle(Sink::Main) | Outlet::Writing(Sink::Main, ..)) = self.outlet else { return None };
        if !hangup::has_come(self.main.as_ref()?) {
            return None;
        }
        self.outlet = Outlet::Shut;
        self.hang_up = None;
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
    fn write(&mut self, sink: Sink, bytes: Vec<u8>, mut done: usize) -> Option<Heard<'static>> {
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
        // With both halves closed it would never fall silent.
        self.hang_up = None;
        if let Some(restore) = &mut self.restore {
            restore.end_output();
        }
    }

    fn descriptor<'a>(&'a self, sink: &'a Sink) -> Option<BorrowedFd<'a>> {
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
        if let Some(hang_up) = &mut self.hang_up {
            hang_up.want(true, false)?;
        }
        self.process.as_mut().map_or(Ok(()), Process::arm)
    }
}

/// A child behind a stream.
pub(crate) struct Process {
    child: Child,
    stderr: Option<Polled>,
    exit: Option<Polled>,
    /// How many reads of standard error may still come before the exit is told.
    last_words: u8,
}

impl Process {
    pub(crate) const fn new(child: Child, stderr: Option<Polled>, exit: Polled) -> Self {
        Self { child, stderr, exit: Some(exit), last_words: LAST_WORDS }
    }

    fn read_stderr<'a>(&mut self, buffer: &'a mut [u8]) -> Option<Heard<'a>> {
        let n = read(self.stderr.as_ref()?, buffer)?;
        if n == 0 {
            self.stderr = None;
            return None;
        }
        Some(Heard::Stderr(buffer.get(..n)?))
    }

    /// What the child said last is the reason for its exit, so it is told first. A grandchild that never
    /// stops talking does not hide the exit.
    fn exited<'a>(&mut self, buffer: &'a mut [u8]) -> Option<Heard<'a>> {
        if self.last_words > 0 {
            self.last_words -= 1;
            if let Some(n) = self.stderr.as_ref().and_then(|fd| read(fd, buffer)).filter(|n| *n > 0) {
                return Some(Heard::Stderr(buffer.get(..n)?));
            }
        }
        let exit = self.child.reap()?;
        self.exit = None;
        Some(Heard::Exited(exit))
    }

    /// Also while the link is held: a child that waits to complain must not wait for our reader.
    fn arm(&mut self) -> io::Result<()> {
        self.stderr.iter_mut().chain(&mut self.exit).try_for_each(|fd| fd.want(true, false))
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
const LAST_WORDS: u8 = 32;
