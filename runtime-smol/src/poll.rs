//! Descriptors in the care of the reactor.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use agentline_os::{Source, Token, Watch, Way};
use smol::Async;

/// The reactor, and whom to tell.
pub(crate) struct Polls(pub(crate) Arc<Bell>);

impl Watch for Polls {
    type Source = Polled;

    fn watch(&self, fd: OwnedFd, token: Token) -> io::Result<Polled> {
        let call = |way| Waker::from(Arc::new(Call { bell: Arc::clone(&self.0), token, way }));
        Ok(Polled { fd: Async::new_nonblocking(fd)?, read: call(Way::Read), write: call(Way::Write) })
    }
}

/// A descriptor, and who is called when it is ready.
pub(crate) struct Polled {
    fd: Async<OwnedFd>,
    read: Waker,
    write: Waker,
}

impl Source for Polled {
    /// One call comes for what was asked; nobody is told that it is not wanted any more.
    fn want(&mut self, read: bool, write: bool) -> io::Result<()> {
        // "Ready" is what was called for and dealt with already: ask on, the system looks anew.
        if read {
            let mut context = Context::from_waker(&self.read);
            while self.fd.poll_readable(&mut context)?.is_ready() {}
        }
        if write {
            let mut context = Context::from_waker(&self.write);
            while self.fd.poll_writable(&mut context)?.is_ready() {}
        }
        Ok(())
    }
}

impl AsFd for Polled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One way of one descriptor.
struct Call {
    bell: Arc<Bell>,
    token: Token,
    way: Way,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bell.rung().ready.push_back((self.token, self.way));
        self.bell.ring();
    }
}

/// Wakes the driver, and keeps what it has to look at.
#[derive(Default)]
pub(crate) struct Bell(Mutex<Rung>);

#[derive(Default)]
struct Rung {
    ready: VecDeque<(Token, Way)>,
    driver: Option<Waker>,
}

impl Bell {
    /// From here on `driver` is woken, once.
    pub(crate) fn answer(&self, driver: &Waker) {
        self.rung().driver = Some(driver.clone());
    }

    /// Wakes the driver.
    pub(crate) fn ring(&self) {
        let driver = self.rung().driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Swaps what is ready for an empty queue.
    pub(crate) fn take(&self, round: &mut VecDeque<(Token, Way)>) {
        std::mem::swap(&mut self.rung().ready, round);
    }

    fn rung(&self) -> MutexGuard<'_, Rung> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
