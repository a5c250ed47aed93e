//! Files that are there to be locked.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use agentline_core::OpenError;
use agentline_core::place::Exposed;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::errno::open_error;

/// A lock that one process of ours has. It is free again when this is dropped, or when the process ends, however it does.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not used")] OwnedFd);

impl Lock {
    /// Takes the lock of a file, which is made if it is not there. `None`: another one has it.
    ///
    /// # Errors
    ///
    /// The file is somebody else's, or the system says no.
    pub fn take(path: &Path) -> Result<Option<Self>, OpenError> {
        Self::take_at(CWD, path)
    }

    /// The same of a file in an open folder.
    pub(crate) fn take_at(folder: impl AsFd, name: &Path) -> Result<Option<Self>, OpenError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        loop {
            let file =
                rustix::fs::openat(&folder, name, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| {
                    if errno == Errno::LOOP {
                        OpenError::NotPrivate(Exposed::Link)
                    } else {
                        open_error(errno)
                    }
                })?;
            let ours = rustix::fs::fstat(&file).map_err(open_error)?;
            if ours.st_uid != rustix::process::geteuid().as_raw() {
                return Err(OpenError::NotPrivate(Exposed::Owner(ours.st_uid)));
            }
            if !lock(&file)? {
                return Ok(None);
            }
            // Whoever takes the file away takes the lock with it: nobody would meet us there.
            let there = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
            if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)) {
                return Ok(Some(Self(file)));
            }
        }
    }

    /// The same, waited for. `None`: another one has it all that time.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn wait(path: &Path, patience: Duration) -> Result<Option<Self>, OpenError> {
        let until = Instant::now() + patience;
        loop {
            match Self::take(path)? {
                None if Instant::now() < until => thread::sleep(PAUSE),
                lock => return Ok(lock),
            }
        }
    }

    /// Whether somebody has the lock of that file now.
    ///
    /// # Errors
    ///
    /// The system says no.
    pub fn is_taken(path: &Path) -> io::Result<bool> {
        let file =
            match rustix::fs::open(path, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
                Ok(file) => file,
                Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Locks an open file or folder; whether nobody else has.
pub(crate) fn lock(file: impl AsFd) -> Result<bool, OpenError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        // A file system without locks: waiting would not help.
        Err(errno) => Err(open_error(errno)),
    }
}

/// Between two attempts. The system has no lock that is waited for with a limit.
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_until_it_is_dropped() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("lock");
        assert!(!Lock::is_taken(&path).unwrap());
        let lock = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::is_taken(&path).unwrap());
        assert!(Lock::take(&path).unwrap().is_none());
        assert!(Lock::wait(&path, Duration::from_millis(1)).unwrap().is_none());
        drop(lock);
        assert!(!Lock::is_taken(&path).unwrap());
        let first = Lock::take(&path).unwrap().unwrap();
        // A file that is not the one at the path locks nobody out.
        std::fs::remove_file(&path).unwrap();
        let second = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::is_taken(&path).unwrap());
        drop((first, second));
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::TempDir::new().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(Lock::take(&link).is_err() && !file.exists());
    }
}
