//! What may be done with the place of a socket. A runtime gathers the facts and obeys, under the start lock.
//!
//! "Connection refused, so unlink and bind" is not enough: a regular file, a directory and a socket that is
//! bound but does not listen yet refuse alike. Only a dead socket of ours may go, and only while nobody else
//! of ours is starting.

use std::path::Path;

use crate::machine::OpenError;

/// What is at the path, not following a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// No file.
    Nothing,
    /// A socket of another user.
    ForeignSocket,
    /// A socket of ours, and what an attempt to connect to it came to: `None` if it was taken.
    Socket(Option<OpenError>),
    /// A regular file, a directory, a link: nothing that a listener left behind.
    Other,
}

/// What a listener may do with its path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The path is free.
    Bind,
    /// A dead socket of ours is in the way: unlink it, then bind.
    Replace,
    /// Leave everything as it is.
    Refuse(OpenError),
}

/// Judges the path of a socket. `locked`: the start lock is ours.
#[must_use]
pub const fn verdict(locked: bool, found: Found) -> Verdict {
    if !locked {
        return Verdict::Refuse(OpenError::Busy);
    }
    match found {
        Found::Nothing | Found::Socket(Some(OpenError::NotFound)) => Verdict::Bind,
        Found::Socket(Some(OpenError::Refused)) => Verdict::Replace,
        // A full backlog is a living listener's.
        Found::Socket(None | Some(OpenError::Busy)) => Verdict::Refuse(OpenError::InUse),
        // No answer is no proof of death.
        Found::Socket(Some(error)) => Verdict::Refuse(error),
        Found::ForeignSocket => Verdict::Refuse(OpenError::NotPrivate),
        Found::Other => Verdict::Refuse(OpenError::NotASocket),
    }
}

/// What a listener may do with the directory of its socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Directory {
    /// It is ours alone.
    Private,
    /// It is ours, and others may enter: take their permissions away first.
    Tighten,
    /// It is a meeting place of many users, or another user's.
    Refuse,
}

/// Judges a directory (a real one, not a link to one) by its owner and mode.
#[must_use]
pub const fn directory(ours: bool, mode: u32) -> Directory {
    match (ours, mode & SHARED, mode & OTHERS) {
        (false, ..) => Directory::Refuse,
        // Whoever owns `/tmp` must not close it to the rest.
        (true, 1.., _) => Directory::Refuse,
        (true, 0, 0) => Directory::Private,
        (true, 0, _) => Directory::Tighten,
    }
}

/// Checks that a path fits into a socket address and names a file.
///
/// # Errors
///
/// `PathTooLong`, or `NotFound` for a path that is empty or has a NUL in it (an abstract name).
pub fn name(path: &Path) -> Result<(), OpenError> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.len() > LONGEST {
        Err(OpenError::PathTooLong)
    } else if path.file_name().is_none() || bytes.contains(&0) {
        Err(OpenError::NotFound)
    } else {
        Ok(())
    }
}

/// Bytes of a socket's path: `sun_path` is 108 on Linux and 104 elsewhere, with the NUL at its end.
const LONGEST: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// The sticky bit.
const SHARED: u32 = 0o1000;
/// The permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dead_socket_of_ours_is_replaced() {
        use OpenError::{
            Busy, InUse, NotASocket, NotFound, NotPrivate, Refused, System, TimedOut, TooManyFiles,
        };
        for (found, expected) in [
            (Found::Nothing, Verdict::Bind),
            (Found::Socket(Some(NotFound)), Verdict::Bind),
            (Found::Socket(Some(Refused)), Verdict::Replace),
            (Found::Socket(None), Verdict::Refuse(InUse)),
            (Found::Socket(Some(Busy)), Verdict::Refuse(InUse)),
            (Found::Socket(Some(TooManyFiles)), Verdict::Refuse(TooManyFiles)),
            (Found::Socket(Some(TimedOut)), Verdict::Refuse(TimedOut)),
            (Found::Socket(Some(NotASocket)), Verdict::Refuse(NotASocket)),
            (Found::Socket(Some(System(13))), Verdict::Refuse(System(13))),
            (Found::ForeignSocket, Verdict::Refuse(NotPrivate)),
            (Found::Other, Verdict::Refuse(NotASocket)),
        ] {
            assert_eq!(verdict(true, found), expected, "{found:?}");
            assert_eq!(verdict(false, found), Verdict::Refuse(Busy), "{found:?} without the lock");
        }
    }

    #[test]
    fn a_shared_or_foreign_directory_is_left_alone() {
        for (ours, mode, expected) in [
            (true, 0o700, Directory::Private),
            (true, 0o500, Directory::Private),
            (true, 0o755, Directory::Tighten),
            (true, 0o770, Directory::Tighten),
            (true, 0o1777, Directory::Refuse),
            (true, 0o1700, Directory::Refuse),
            (false, 0o700, Directory::Refuse),
            (false, 0o1777, Directory::Refuse),
        ] {
            assert_eq!(directory(ours, mode), expected, "{ours} {mode:o}");
        }
    }

    #[test]
    fn a_name_fits_or_is_refused_before_any_system_call() {
        let long = |bytes: usize| name(Path::new(&format!("/{}", "é".repeat(bytes / 2)))).is_ok();
        assert!(long(LONGEST - 1) && !long(LONGEST + 1));
        for none in ["", "/", "\0abstract", "/tmp/a\0b", "/tmp/.."] {
            assert_eq!(name(Path::new(none)), Err(OpenError::NotFound), "{none:?}");
        }
    }
}
