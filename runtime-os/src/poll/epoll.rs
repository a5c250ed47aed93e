//! Linux: one system call a wait.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::{Interest, Round, System};
use crate::watch::{Token, Way};

pub(crate) struct Epoll {
    epoll: OwnedFd,
    /// Readable when a wait is to end.
    notified: OwnedFd,
}

impl System for Epoll {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let notified = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &notified, NOTIFIED, EventFlags::IN)?;
        Ok(Self { epoll, notified })
    }

    fn wait(&self, ready: &mut VecDeque<(Token, Way)>, until: Option<Instant>) -> io::Result<()> {
        let mut room = [MaybeUninit::uninit(); Round::MOST];
        let found = loop {
            match epoll::wait(&self.epoll, &mut room, until.map(left).as_ref()) {
                Ok((found, _)) => break found,
                // Stopped and continued: it says nothing about what is ready.
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        for event in found {
            // Copied: the fields of an event may lie unaligned.
            let (data, flags) = (event.data, event.flags);
            if data == NOTIFIED {
                let _ = rustix::io::read(&self.notified, &mut [0; 8]);
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "a key was made from a usize")]
            let token = Token::from_key(data.u64() as usize);
            ready.extend(flags.intersects(READABLE).then_some((token, Way::Read)));
            ready.extend(flags.intersects(WRITABLE).then_some((token, Way::Write)));
        }
        Ok(())
    }

    fn notify(&self) {
        // It fails when it is full: notified already.
        let _ = rustix::io::write(&self.notified, &1_u64.to_ne_bytes());
    }

    fn add(&self, fd: &OwnedFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token.key() as u64), interest.flags())?)
    }

    fn modify(&self, fd: &OwnedFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token.key() as u64), interest.flags())?)
    }

    fn delete(&self, fd: &OwnedFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Interest {
    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

/// Rounded up to milliseconds by the call. An early end is harmless: nothing is due yet.
fn left(until: Instant) -> Timespec {
    let left = until.saturating_duration_since(Instant::now()).min(LONGEST);
    Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
}

const NOTIFIED: EventData = EventData::new_u64(u64::MAX);
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::HUP).union(EventFlags::ERR);
const WRITABLE: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);
/// A day: the call takes 24 of them at most.
const LONGEST: Duration = Duration::from_secs(86_400);
