//! Whoever types: at a terminal key by key, elsewhere line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use agentline_core::acp::RequestKey;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;

use super::desk::{Desk, Typed};
use super::history::History;
use super::keys::Keys;
use super::modes::Modes;
use crate::output::{Notes, Page};

/// The desk, and what reads for it. Dropped, the terminal is as it was.
pub(crate) struct Keyboard<K = RequestKey> {
    pub(crate) desk: Arc<Desk<K>>,
    modes: Option<Modal>,
}

/// A terminal whose keys are read, one by one, until we are gone.
struct Modal {
    modes: Arc<Modes>,
    /// Closed with us, which whoever reads finds out.
    _stays: OwnedFd,
    ends: OwnedFd,
}

impl<K: Clone + PartialEq + Send + 'static> Keyboard<K> {
    /// A terminal that can draw: what is said goes above what is typed. The notes to be used from here on.
    ///
    /// # Errors
    ///
    /// Stdin is no terminal.
    pub(crate) fn keys(notes: &Notes, history: Option<(History, Vec<String>)>) -> io::Result<(Self, Notes)> {
        let page = Page::new(notes.paint());
        let notes = Notes::above(Arc::clone(&page), notes.paint());
        let (ends, _stays) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let modes = Some(Modal { modes: Modes::take(page)?, _stays, ends });
        Ok((Self { desk: Desk::new(notes.clone(), history), modes }, notes))
    }

    /// Anything else.
    pub(crate) fn lines(notes: &Notes) -> Self {
        Self { desk: Desk::new(notes.clone(), None), modes: None }
    }

    /// Reads on a thread of its own.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub(crate) fn read(&self, on: impl FnMut(Typed<K>) + Send + 'static) -> io::Result<()> {
        let desk = Arc::clone(&self.desk);
        let thread = thread::Builder::new().name("agentline-keyboard".into());
        match &self.modes {
            Some(Modal { modes, ends, .. }) => {
                let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
                let (modes, ends) = (Arc::clone(modes), ends.try_clone()?);
                thread.spawn(move || read_keys(stdin, &ends, &desk, &modes, on)).map(drop)
            }
            None => thread.spawn(move || read_lines(&desk, on)).map(drop),
        }
    }
}

impl<K> Drop for Keyboard<K> {
    fn drop(&mut self) {
        if let Some(Modal { modes, .. }) = &self.modes {
            modes.leave();
        }
    }
}

fn read_keys<K: Clone + PartialEq>(
    mut stdin: File,
    ends: &OwnedFd,
    desk: &Desk<K>,
    modes: &Modes,
    mut on: impl FnMut(Typed<K>),
) {
    let (mut keys, mut bytes) = (Keys::default(), [0; 4096]);
    loop {
        if keys.is_open() && !is_ready_soon(&stdin) {
            keys.pause();
        }
        if is_over(&stdin, ends) {
            return;
        }
        let read = match stdin.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return on(Typed::HangUp),
            Ok(read) => read,
        };
        keys.feed(&bytes[..read], |key| match desk.press(key) {
            Some(Typed::Suspend) => {
                modes.suspend();
            }
            Some(Typed::End) => {
                desk.end().into_iter().for_each(&mut on);
                on(Typed::End);
            }
            typed => typed.into_iter().for_each(&mut on),
        });
    }
}

/// Waits for a key, or until nobody wants one any more.
fn is_over(input: &File, ends: &OwnedFd) -> bool {
    let mut both = [PollFd::new(input, PollFlags::IN), PollFd::new(ends, PollFlags::IN)];
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut both, None));
    ready.is_ok() && !both[1].revents().is_empty()
}

/// Whether more of a key comes at once.
fn is_ready_soon(input: &File) -> bool {
    let soon = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let mut one = [PollFd::new(input, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut one, Some(&soon))).is_ok_and(|ready| ready > 0)
}

/// Each line as soon as it is typed; from a pipe no sooner than it is wanted, so that a line that follows a question
/// is its answer.
fn read_lines<K: Clone + PartialEq>(desk: &Desk<K>, mut on: impl FnMut(Typed<K>)) {
    let is_typed = io::stdin().is_terminal();
    let mut lines = BufReader::new(io::stdin());
    loop {
        if !is_typed {
            desk.wait_until_wanted();
        }
        let mut line = Vec::new();
        let read = lines.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        let whole = line.last() == Some(&b'\n') || (line.len() as u64) < LONGEST;
        if !whole {
            on(Typed::TooLong);
        }
        if !whole || !read.is_ok_and(|read| read > 0) {
            desk.end().into_iter().for_each(&mut on);
            return on(Typed::End);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let line = line.strip_suffix('\r').unwrap_or(line).to_owned();
        desk.line(line).into_iter().for_each(&mut on);
    }
}

/// Bytes of a line: what an agent is told in one message, with room to spare.
pub(crate) const LONGEST: u64 = 4 << 20;
