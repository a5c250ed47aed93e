//! A peer that has gone, told from one that has only closed its half: both end what is read.
//!
//! Only Linux says which it was before somebody writes. Elsewhere the next write finds out.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

/// Whether the peer of a socket has closed both halves.
#[cfg(target_os = "linux")]
pub(crate) fn has_come(socket: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    // A hang-up is reported to whoever asks for nothing, too.
    let mut asked = PollFd::new(&socket, PollFlags::empty());
    let polled = poll(std::slice::from_mut(&mut asked), Some(&Timespec::default()));
    polled.is_ok() && !asked.revents().is_empty()
}

/// A descriptor that is readable as soon as the peer of a socket has closed both halves.
#[cfg(target_os = "linux")]
pub(crate) fn alarm(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
    let alarm = create(CreateFlags::CLOEXEC)?;
    add(&alarm, socket, EventData::new_u64(0), EventFlags::empty())?;
    Ok(alarm)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn has_come(_: impl AsFd) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn alarm(_: impl AsFd) -> Result<OwnedFd, Errno> {
    Err(Errno::OPNOTSUPP)
}
