//! A program that goes on without us, and holds nothing of ours.

use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::Mode;
use rustix::io::FdFlags;

/// Starts a program that outlives us.
///
/// It leads a session of its own, is in `/`, reads nothing, writes to the end of `log`, ignores that a terminal hangs up,
/// and makes files for its user alone. It inherits no other descriptor: whoever waits for the end of a pipe that we were
/// given, as `x=$(…)` does, would wait for it.
///
/// # Errors
///
/// It cannot be started.
pub fn start(command: &mut Command, log: File) -> io::Result<Child> {
    inherit_nothing();
    command.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // SAFETY: the hook calls what is async-signal-safe (setsid, umask, signal) and allocates nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::umask(Mode::RWXG | Mode::RWXO);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    command.spawn()
}

/// From here on no program that we start inherits a descriptor beyond the standard ones.
fn inherit_nothing() {
    let named = fs::read_dir("/dev/fd").map(|entries| {
        let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
        names.collect::<Vec<_>>()
    });
    // Without such a folder: as many as most processes may have.
    for fd in named.unwrap_or_else(|_| (0..1024).collect()).into_iter().filter(|fd| *fd > 2) {
        // SAFETY: the number is used for one call. If it is nobody's by now the call fails, and if it is another's,
        // that one was opened by this program, which passes none on.
        #[allow(unsafe_code)]
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC);
    }
}
