//! Descriptors in the care of a poller.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use agentline_os::{Source, Token, Watch, Way};

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(any(not(target_os = "linux"), test))]
mod portable;
#[cfg(test)]
mod tests;

/// What this system waits with.
#[cfg(target_os = "linux")]
pub(crate) type System = epoll::Epoll;
#[cfg(not(target_os = "linux"))]
pub(crate) type System = portable::Portable;

/// One wait for many descriptors. What is ready is told at each wait, until it is not any more.
pub(crate) trait Poller: Sized + Send + Sync {
    fn new() -> io::Result<Self>;

    /// Waits until something is ready, somebody [notifies](Poller::notify), or that time has come.
    fn wait(&self, ready: &mut VecDeque<(Token, Way)>, until: Option<Instant>) -> io::Result<()>;

    /// Ends the wait of another thread, or the next one.
    fn notify(&self);

    /// Starts to watch. The descriptor stays open until it is [deleted](Poller::delete): [`Polled`] sees to it.
    fn add(&self, fd: &OwnedFd, token: Token, ask: Ask) -> io::Result<()>;
    fn modify(&self, fd: &OwnedFd, token: Token, ask: Ask) -> io::Result<()>;
    fn delete(&self, fd: &OwnedFd) -> io::Result<()>;
}

/// What somebody wants to hear of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ask {
    read: bool,
    write: bool,
}

impl Ask {
    const NOTHING: Self = Self { read: false, write: false };
}

/// The poller of one driver.
pub(crate) struct Polls<P>(pub(crate) Arc<P>);

impl<P: Poller> Watch for Polls<P> {
    type Source = Polled<P>;

    fn watch(&self, fd: OwnedFd, token: Token) -> io::Result<Polled<P>> {
        Ok(Polled { poller: Arc::clone(&self.0), fd, token, asked: Ask::NOTHING })
    }
}

/// A descriptor, registered exactly while somebody wants to hear of it: a poller reports a hang-up even to
/// who asks for nothing.
pub(crate) struct Polled<P: Poller> {
    poller: Arc<P>,
    fd: OwnedFd,
    token: Token,
    asked: Ask,
}

impl<P: Poller> Source for Polled<P> {
    fn want(&mut self, read: bool, write: bool) -> io::Result<()> {
        let ask = Ask { read, write };
        if self.asked == ask {
            return Ok(());
        }
        match (self.asked, ask) {
            (Ask::NOTHING, _) => self.poller.add(&self.fd, self.token, ask)?,
            (_, Ask::NOTHING) => self.poller.delete(&self.fd)?,
            (_, _) => self.poller.modify(&self.fd, self.token, ask)?,
        }
        self.asked = ask;
        Ok(())
    }
}

impl<P: Poller> AsFd for Polled<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl<P: Poller> Drop for Polled<P> {
    fn drop(&mut self) {
        // Before the descriptor is closed; an error would mean that it is not registered.
        let _ = self.want(false, false);
    }
}
