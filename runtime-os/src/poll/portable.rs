//! Every other system: the `polling` crate.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use polling::{Event, Events, PollMode};

use super::{Interest, System};
use crate::watch::{Token, Way};

pub(crate) struct Portable(polling::Poller);

impl System for Portable {
    fn new() -> io::Result<Self> {
        polling::Poller::new().map(Self)
    }

    fn wait(&self, ready: &mut VecDeque<(Token, Way)>, until: Option<Instant>) -> io::Result<()> {
        let mut events = Events::new();
        match until {
            Some(at) => self.0.wait_deadline(&mut events, at)?,
            None => self.0.wait(&mut events, None)?,
        };
        for event in events.iter() {
            let token = Token::from_key(event.key);
            ready.extend(event.readable.then_some((token, Way::Read)));
            ready.extend(event.writable.then_some((token, Way::Write)));
        }
        Ok(())
    }

    fn notify(&self) {
        // It fails with the poller only, and then the driver has ended.
        let _ = self.0.notify();
    }

    #[expect(unsafe_code, reason = "a poller borrows the descriptor beyond the call")]
    fn add(&self, fd: &OwnedFd, token: Token, interest: Interest) -> io::Result<()> {
        // SAFETY: the descriptor must be open until it is deleted from the poller. `Polled` owns it, lends
        // it only for the time of a borrow, and closes it only after its `drop` has deleted it. Where `drop`
        // never runs, it is never closed.
        unsafe { self.0.add_with_mode(fd, interest.event(token), PollMode::Level) }
    }

    fn modify(&self, fd: &OwnedFd, token: Token, interest: Interest) -> io::Result<()> {
        self.0.modify_with_mode(fd, interest.event(token), PollMode::Level)
    }

    fn delete(&self, fd: &OwnedFd) -> io::Result<()> {
        self.0.delete(fd)
    }
}

impl AsFd for Portable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Interest {
    const fn event(self, token: Token) -> Event {
        Event::new(token.key(), self.read, self.write)
    }
}
