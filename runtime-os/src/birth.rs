//! Between fork and exec: a child gets a session of its own, the guardian hears of it, and it becomes its program.
//!
//! The standard library gives a child no session, and with a hook it runs a stub without `#!` by `/bin/sh`. So the
//! hook goes all the way: what it returns is an error.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::Pid;

use crate::files;

/// What a child becomes.
pub(crate) struct Image {
    program: CString,
    args: Strings,
    env: Strings,
}

impl Image {
    /// A program with its arguments, the first of which is its own name, and its whole environment. The last
    /// value of a name counts.
    ///
    /// # Errors
    ///
    /// Something has a NUL in it.
    pub(crate) fn new<'a>(
        program: &OsStr,
        args: impl IntoIterator<Item = &'a OsStr>,
        env: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    ) -> io::Result<Self> {
        let env: BTreeMap<&OsStr, &OsStr> = env.into_iter().collect();
        let pairs = env.into_iter().map(|(name, value)| {
            let mut pair = OsString::with_capacity(name.len() + value.len() + 1);
            pair.extend([name, OsStr::new("="), value]);
            pair.into_vec()
        });
        Ok(Self {
            program: CString::new(program.as_bytes())?,
            args: Strings::new(args.into_iter().map(|arg| arg.as_bytes().to_vec()))?,
            env: Strings::new(pairs)?,
        })
    }
}

/// Strings as `execve` takes them.
struct Strings {
    /// One for each, and a null at the end.
    pointers: Vec<AtomicPtr<c_char>>,
    _owned: Vec<CString>,
}

impl Strings {
    fn new(strings: impl Iterator<Item = Vec<u8>>) -> io::Result<Self> {
        let owned: Vec<CString> = strings.map(CString::new).collect::<Result<_, _>>()?;
        let pointers = owned.iter().map(|string| AtomicPtr::new(string.as_ptr().cast_mut()));
        Ok(Self { pointers: pointers.chain([AtomicPtr::default()]).collect(), _owned: owned })
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr().cast()
    }
}

/// Where the guardian listens.
pub(crate) type Ear = Arc<OwnedFd>;

/// Makes the command's child the leader of a session without a terminal, that tells the guardian of itself, and
/// then becomes that program. What else the command says of program, arguments and environment does not count.
pub(crate) fn become_image(command: &mut Command, image: Image, ear: Option<Ear>) {
    // SAFETY: the hook calls what is async-signal-safe (setsid, getpid, sendto, poll, setrlimit, execve) and allocates
    // nothing. `execve` gets strings, and arrays of pointers to strings with a null at their end, that the hook
    // owns; an `AtomicPtr<T>` has the layout of a `*mut T`.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || {
            begin(ear.as_deref())?;
            files::lower();
            libc::execve(image.program.as_ptr(), image.args.as_ptr(), image.env.as_ptr());
            let error = io::Error::last_os_error();
            give_up(ear.as_deref());
            Err(error)
        });
    }
}

/// The child leads a session, and the guardian knows.
fn begin(ear: Option<&OwnedFd>) -> io::Result<()> {
    let us = rustix::process::setsid()?;
    // No program is refused with EPIPE, so it says that the guardian does not listen.
    ear.map_or(Ok(()), |ear| say(ear, '+', us)).map_err(|_| Errno::PIPE.into())
}

/// The child ends before it was anybody.
fn give_up(ear: Option<&OwnedFd>) {
    let _ = ear.map(|ear| say(ear, '-', rustix::process::getpid()));
}

/// Tells the guardian of one group. Allocates nothing.
pub(crate) fn say(ear: &OwnedFd, what: char, group: Pid) -> Result<(), Errno> {
    let mut line = [0; LINE];
    let mut rest = &mut line[..];
    let _ = writeln!(rest, "{what} {}", group.as_raw_nonzero());
    let unused = rest.len();
    say_all(ear, line.get(..LINE - unused).unwrap_or_default())
}

/// Tells the guardian, which may take a moment to listen. Who does not listen then never will.
pub(crate) fn say_all(ear: &OwnedFd, mut lines: &[u8]) -> Result<(), Errno> {
    while !lines.is_empty() {
        match rustix::net::send(ear, lines, QUIETLY) {
            Ok(sent) => lines = lines.get(sent..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut room = PollFd::new(ear, PollFlags::OUT);
                match rustix::event::poll(std::slice::from_mut(&mut room), Some(&PATIENCE)) {
                    Ok(0) => return Err(Errno::TIMEDOUT),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Bytes of a line that names a group.
const LINE: usize = 16;
/// How long a guardian that is alive may leave us waiting.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// No signal, should the guardian be gone: a child that forks has its handlers no more.
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// The socket itself is quiet there.
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::DONTWAIT;
