//! A stream that is there already: our own stdin and stdout, or one that the embedder has.
//!
//! Pipes and sockets are made non-blocking, and are given back as they were. Terminals and files cannot be
//! waited for or are shared with a shell: a thread of their own reads or writes them.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use rustix::fs::{FileType, OFlags};

/// A stream for a link that is opened with [`Open::Given`](agentline_core::Open::Given(0)).
#[derive(Debug)]
pub struct Given {
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    stdio: bool,
}

impl Given {
    /// Our own stdin and stdout, which nobody else in this process may use from here on. One that is
    /// closed is at its end.
    #[must_use]
    pub fn stdio() -> Self {
        // Copies above 2, so that closing ours leaves the process its standard descriptors.
        let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).ok();
        let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).ok();
        Self { input, output, stdio: true }
    }

    /// Two pipes, files or terminals.
    #[must_use]
    pub fn pair(input: impl Into<OwnedFd>, output: impl Into<OwnedFd>) -> Self {
        Self { input: Some(input.into()), output: Some(output.into()), stdio: false }
    }

    /// A connected socket.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn socket(socket: impl Into<OwnedFd>) -> io::Result<Self> {
        let input = socket.into();
        let output = input.try_clone()?;
        Ok(Self::pair(input, output))
    }

    /// Makes both halves such that they can be waited for.
    pub(crate) fn open(self) -> io::Result<Opened> {
        let restore = Restore {
            _input: self.input.as_ref().and_then(Flags::of),
            output: self.output.as_ref().and_then(Flags::of),
            stdout: self.stdio && self.output.as_ref().is_some_and(is_pollable),
        };
        let input = self.input.map(|fd| if is_pollable(&fd) { unblock(fd) } else { pump_in(fd) });
        let output = self
            .output
            .map(|fd| if is_pollable(&fd) { unblock(fd).map(Output::Pollable) } else { pump_out(fd) });
        Ok(Opened { input: input.transpose()?, output: output.transpose()?, restore })
    }
}

/// A given stream that can be waited for. A missing half has ended.
pub(crate) struct Opened {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: Option<Output>,
    pub(crate) restore: Restore,
}

/// Where our bytes go.
pub(crate) enum Output {
    /// A descriptor that never blocks.
    Pollable(OwnedFd),
    /// A thread takes one write at a time; the descriptor yields a byte for each that is done, and ends
    /// with the first that fails.
    Thread(SyncSender<Vec<u8>>, OwnedFd),
}

/// Dropped, it gives a stream back as it was.
pub(crate) struct Restore {
    _input: Option<Flags>,
    output: Option<Flags>,
    /// Our output is our stdout, and somebody waits for its end.
    stdout: bool,
}

impl Restore {
    /// The peer has to see the end of our output: no copy of it stays open, be it descriptor 1.
    pub(crate) fn end_output(&mut self) {
        self.output = None;
        if self.stdout
            && let Ok(null) = std::fs::File::options().write(true).open("/dev/null")
        {
            let _ = rustix::stdio::dup2_stdout(null);
        }
    }
}

struct Flags {
    fd: OwnedFd,
    were: OFlags,
}

impl Flags {
    fn of(fd: &OwnedFd) -> Option<Self> {
        let were = rustix::fs::fcntl_getfl(fd).ok()?;
        Some(Self { fd: fd.try_clone().ok()?, were })
    }
}

impl Drop for Flags {
    fn drop(&mut self) {
        let _ = rustix::fs::fcntl_setfl(&self.fd, self.were);
    }
}

fn is_pollable(fd: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(fd).map(|found| FileType::from_raw_mode(found.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

fn unblock(fd: OwnedFd) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}

/// A pipe that a thread fills. It reads ahead by what the pipe holds, and ends with the link at the latest
/// when one more read has come back.
fn pump_in(fd: OwnedFd) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&fd, false)?;
    let (ours, mut theirs) = io::pipe()?;
    thread::Builder::new().name("agentline-read".into()).spawn(move || {
        // An error of the file is its end, one of the pipe means that nobody reads any more.
        let _ = io::copy(&mut std::fs::File::from(fd), &mut theirs);
    })?;
    unblock(ours.into())
}

fn pump_out(fd: OwnedFd) -> io::Result<Output> {
    rustix::io::ioctl_fionbio(&fd, false)?;
    let (acks, mut ack) = io::pipe()?;
    let (writes, todo) = sync_channel::<Vec<u8>>(1);
    thread::Builder::new().name("agentline-write".into()).spawn(move || {
        let mut file = std::fs::File::from(fd);
        for bytes in todo {
            if file.write_all(&bytes).and_then(|()| ack.write_all(b".")).is_err() {
                return;
            }
        }
    })?;
    Ok(Output::Thread(writes, unblock(acks.into())?))
}
