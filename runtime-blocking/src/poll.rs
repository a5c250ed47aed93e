//! Descriptors in the care of a poller.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use agentline_os::{Source, Token, Watch};
use polling::{Event, PollMode, Poller};

/// The poller of one driver.
pub(crate) struct Polls(pub(crate) Arc<Poller>);

impl Watch for Polls {
    type Source = Polled;

    fn watch(&self, fd: OwnedFd, token: Token) -> io::Result<Polled> {
        Ok(Polled { poller: Arc::clone(&self.0), fd, asked: Event::none(token.key()) })
    }
}

/// A descriptor, registered exactly while somebody wants to hear of it: a poller reports a hang-up even to
/// who asks for nothing.
pub(crate) struct Polled {
    poller: Arc<Poller>,
    fd: OwnedFd,
    asked: Event,
}

impl Source for Polled {
    fn want(&mut self, read: bool, write: bool) -> io::Result<()> {
        let (had, want) = (self.asked.readable || self.asked.writable, read || write);
        if (self.asked.readable, self.asked.writable) == (read, write) {
            return Ok(());
        }
        let ask = Event::new(self.asked.key, read, write);
        match (had, want) {
            (false, _) => self.register(ask)?,
            (true, true) => self.poller.modify_with_mode(&self.fd, ask, PollMode::Level)?,
            (true, false) => self.poller.delete(&self.fd)?,
        }
        self.asked = ask;
        Ok(())
    }
}

impl Polled {
    #[expect(unsafe_code, reason = "a poller borrows the descriptor beyond the call")]
    fn register(&self, ask: Event) -> io::Result<()> {
        // SAFETY: the descriptor must be open until it is deleted from the poller. It is owned here, lent
        // only for the time of a borrow, and closed only after `drop` has deleted it. Where `drop` never
        // runs, it is never closed.
        unsafe { self.poller.add_with_mode(&self.fd, ask, PollMode::Level) }
    }
}

impl AsFd for Polled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        // Before the descriptor is closed; an error would mean that it is not registered.
        let _ = self.want(false, false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use polling::Events;

    use super::*;

    fn heard(poller: &Poller) -> usize {
        let mut events = Events::new();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        events.len()
    }

    #[test]
    fn a_descriptor_is_registered_while_wanted_and_gone_when_dropped() {
        let polls = Polls(Arc::new(Poller::new().unwrap()));
        let (ours, theirs) = io::pipe().unwrap();
        let raw = ours.as_fd().try_clone_to_owned().unwrap();
        let mut polled = polls.watch(ours.into(), Token::from_key(0)).unwrap();
        drop(theirs);
        assert_eq!(heard(&polls.0), 0, "nobody asked");
        polled.want(true, false).unwrap();
        assert_eq!((heard(&polls.0), heard(&polls.0)), (1, 1), "told until it is not wanted any more");
        polled.want(false, false).unwrap();
        assert_eq!(heard(&polls.0), 0, "not even the hang-up");
        polled.want(true, false).unwrap();
        drop(polled);
        // A copy of the descriptor is open, so only the deletion can have ended the registration.
        assert_eq!(heard(&polls.0), 0);
        drop(raw);
    }
}
