//! The one wait of a driver, for all descriptors of its links.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use crate::watch::{Token, Way};

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(any(not(target_os = "linux"), test))]
mod portable;
#[cfg(test)]
mod tests;

/// What this system waits with.
#[cfg(target_os = "linux")]
pub(crate) type Native = epoll::Epoll;
#[cfg(not(target_os = "linux"))]
pub(crate) type Native = portable::Portable;

/// Waits for all descriptors of an [`Engine`](crate::Engine) at once. Cloned, it is the same one.
///
/// It is one descriptor itself, readable while [`look`](Poller::look) would find something: a foreign event loop has
/// that one to wait for, however many links there are.
#[derive(Clone)]
pub struct Poller(Arc<Native>);

/// What a wait found and the engine has not dealt with yet.
#[derive(Debug, Default)]
pub struct Round {
    ready: VecDeque<(Token, Way)>,
    /// How often was looked.
    looks: u64,
}

impl Round {
    /// Whether all of it is dealt with, so that it is time to look again.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Descriptors that one look finds at most.
    pub(crate) const MOST: usize = 256;

    pub(crate) fn pop(&mut self) -> Option<(Token, Way)> {
        self.ready.pop_front()
    }

    pub(crate) const fn looks(&self) -> u64 {
        self.looks
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Native::new()?)))
    }

    /// Waits until something is ready, somebody [notifies](Poller::notify), or that time has come, and adds what it
    /// found.
    ///
    /// # Errors
    ///
    /// The poller is broken: nothing would ever be heard again.
    pub fn wait(&self, round: &mut Round, until: Option<Instant>) -> io::Result<()> {
        round.looks += 1;
        self.0.wait(&mut round.ready, until)
    }

    /// Adds what is ready now.
    ///
    /// # Errors
    ///
    /// As those of [`wait`](Poller::wait).
    pub fn look(&self, round: &mut Round) -> io::Result<()> {
        self.wait(round, Some(Instant::now()))
    }

    /// Ends the wait of another thread, or the next one.
    pub fn notify(&self) {
        self.0.notify();
    }

    pub(crate) fn watch(&self, fd: OwnedFd, token: Token) -> Polled<Native> {
        Polled::new(&self.0, fd, token)
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// How a system waits. What is ready is told at each wait, until it is not any more.
pub(crate) trait System: AsFd + Sized + Send + Sync {
    fn new() -> io::Result<Self>;

    fn wait(&self, ready: &mut VecDeque<(Token, Way)>, until: Option<Instant>) -> io::Result<()>;

    fn notify(&self);

    /// Starts to watch. The descriptor stays open until it is [deleted](System::delete): [`Polled`] sees to it.
    fn add(&self, fd: &OwnedFd, token: Token, interest: Interest) -> io::Result<()>;
    fn modify(&self, fd: &OwnedFd, token: Token, interest: Interest) -> io::Result<()>;
    fn delete(&self, fd: &OwnedFd) -> io::Result<()>;
}

/// What somebody wants to hear of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Interest {
    read: bool,
    write: bool,
}

impl Interest {
    const NOTHING: Self = Self { read: false, write: false };
}

/// A descriptor, registered exactly while somebody wants to hear of it: a poller reports a hang-up even to
/// who asks for nothing. It never blocks, or is only read or written when it is ready.
pub(crate) struct Polled<S: System = Native> {
    system: Arc<S>,
    fd: OwnedFd,
    token: Token,
    asked: Interest,
}

impl<S: System> Polled<S> {
    fn new(system: &Arc<S>, fd: OwnedFd, token: Token) -> Self {
        Self { system: Arc::clone(system), fd, token, asked: Interest::NOTHING }
    }

    /// Asks to be told when it can be read or written, or not to be told any more.
    pub(crate) fn want(&mut self, read: bool, write: bool) -> io::Result<()> {
        let interest = Interest { read, write };
        if self.asked == interest {
            return Ok(());
        }
        match (self.asked, interest) {
            (Interest::NOTHING, _) => self.system.add(&self.fd, self.token, interest)?,
            (_, Interest::NOTHING) => self.system.delete(&self.fd)?,
            (_, _) => self.system.modify(&self.fd, self.token, interest)?,
        }
        self.asked = interest;
        Ok(())
    }
}

impl<S: System> AsFd for Polled<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl<S: System> Drop for Polled<S> {
    fn drop(&mut self) {
        // Before the descriptor is closed; an error would mean that it is not registered.
        let _ = self.want(false, false);
    }
}
