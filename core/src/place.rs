//! What may be done with the place of a socket, and who may be met there. A runtime gathers the facts and obeys:
//! a listener under the start lock, a caller before it connects, and both of them before a byte is read or
//! written.
//!
//! "Connection refused, so unlink and bind" is not enough: a regular file, a directory and a socket that is
//! bound but does not listen yet refuse alike. Only a dead socket of ours may go, and only while nobody else
//! of ours is starting.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::machine::{OpenError, Peer};

/// What makes a socket not ours alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Exposed {
    /// The path may lead elsewhere tomorrow.
    #[error("it is a symbolic link")]
    Link,
    /// Another user made it.
    #[error("it belongs to user {0}")]
    Owner(u32),
    /// Others may connect to it.
    #[error("other users may write to it (mode {0:03o})")]
    Mode(u32),
    /// The same of the folder that it lies in.
    #[error("its folder is a symbolic link")]
    FolderLink,
    /// Its user may put another socket in its place.
    #[error("its folder belongs to user {0}")]
    FolderOwner(u32),
    /// Others may put another socket in its place.
    #[error("other users may write to its folder (mode {0:03o})")]
    FolderMode(u32),
    /// Others can change a folder above that.
    #[error("other users can change a folder above it")]
    Above,
    /// Another user is at the other end.
    #[error("user {0} is at the other end")]
    Peer(u32),
}

/// Owner and permission bits of a file or a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facts {
    /// The id of the user whose it is.
    pub owner: u32,
    /// Permission bits, the sticky bit among them.
    pub mode: u32,
}

/// Judges the socket that somebody who runs as `us` is about to connect to, and the folder that it lies in.
///
/// # Errors
///
/// Who listens there may be somebody else.
pub const fn reach(us: u32, socket: Facts, folder: Facts) -> Result<(), Exposed> {
    if socket.owner != us {
        Err(Exposed::Owner(socket.owner))
    } else if socket.mode & WRITABLE != 0 {
        Err(Exposed::Mode(socket.mode & PERMISSIONS))
    } else if folder.owner != us && folder.owner != ROOT {
        Err(Exposed::FolderOwner(folder.owner))
    } else if folder.mode & WRITABLE != 0 && folder.mode & SHARED == 0 {
        Err(Exposed::FolderMode(folder.mode & PERMISSIONS))
    } else {
        Ok(())
    }
}

/// Judges who is at the other end of a connection. Where the system does not say, the file's owner and mode do.
///
/// # Errors
///
/// It is another user.
pub const fn peer(us: u32, peer: Peer) -> Result<(), Exposed> {
    match peer.uid {
        Some(uid) if uid != us => Err(Exposed::Peer(uid)),
        Some(_) | None => Ok(()),
    }
}

/// What is at the path, not following a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// No file is there.
    Nothing,
    /// A socket of another user, who is this.
    ForeignSocket(u32),
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
        Found::ForeignSocket(owner) => Verdict::Refuse(OpenError::NotPrivate(Exposed::Owner(owner))),
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
    /// It is a meeting place of many users, such as `/tmp`: what is ours there nobody else may remove, and the
    /// socket's own mode keeps others out. It is left as it is, and the start lock is a file beside the socket.
    Shared,
    /// It is another user's.
    Refuse(Exposed),
}

/// Judges the directory of a listener that runs as `us` (a real one, not a link to one).
#[must_use]
pub const fn directory(us: u32, Facts { owner, mode }: Facts) -> Directory {
    let is_shared = mode & SHARED != 0;
    if owner != us && !(owner == ROOT && is_shared) {
        Directory::Refuse(Exposed::FolderOwner(owner))
    } else if is_shared {
        Directory::Shared
    } else if mode & OTHERS != 0 {
        Directory::Tighten
    } else {
        Directory::Private
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
/// The sticky bit: only its owner removes a file.
const SHARED: u32 = 0o1000;
/// Who may do anything anyway.
const ROOT: u32 = 0;
/// Writable by others, which for a socket is: they may connect.
const WRITABLE: u32 = 0o022;
/// What a mode is without the file's type.
const PERMISSIONS: u32 = 0o7777;
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
        let foreign = NotPrivate(Exposed::Owner(7));
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
            (Found::ForeignSocket(7), Verdict::Refuse(foreign)),
            (Found::Other, Verdict::Refuse(NotASocket)),
        ] {
            assert_eq!(verdict(true, found), expected, "{found:?}");
            assert_eq!(verdict(false, found), Verdict::Refuse(Busy), "{found:?} without the lock");
        }
    }

    #[test]
    fn e2_a_shared_directory_is_left_as_it_is_and_a_foreign_one_alone() {
        const US: u32 = 501;
        let foreign = |owner| Directory::Refuse(Exposed::FolderOwner(owner));
        for (owner, mode, expected) in [
            (US, 0o700, Directory::Private),
            (US, 0o500, Directory::Private),
            (US, 0o755, Directory::Tighten),
            (US, 0o770, Directory::Tighten),
            (US, 0o1777, Directory::Shared),
            (US, 0o1700, Directory::Shared),
            (0, 0o1777, Directory::Shared),
            (0, 0o755, foreign(0)),
            (0, 0o777, foreign(0)),
            (7, 0o700, foreign(7)),
            (7, 0o1777, foreign(7)),
        ] {
            assert_eq!(directory(US, Facts { owner, mode }), expected, "{owner} {mode:o}");
        }
    }

    #[test]
    fn e3_only_a_socket_of_ours_where_nobody_else_can_put_one_is_reached() {
        const US: u32 = 501;
        let facts = |(owner, mode)| Facts { owner, mode };
        for (socket, folder, expected) in [
            ((US, 0o140_600), (US, 0o40_700), Ok(())),
            ((US, 0o755), (US, 0o755), Ok(())),
            ((US, 0o600), (0, 0o755), Ok(())),
            ((US, 0o600), (0, 0o1777), Ok(())),
            ((US, 0o600), (US, 0o1777), Ok(())),
            ((0, 0o600), (US, 0o700), Err(Exposed::Owner(0))),
            ((7, 0o600), (0, 0o1777), Err(Exposed::Owner(7))),
            ((US, 0o140_666), (US, 0o700), Err(Exposed::Mode(0o666))),
            ((US, 0o620), (US, 0o700), Err(Exposed::Mode(0o620))),
            ((US, 0o600), (7, 0o700), Err(Exposed::FolderOwner(7))),
            ((US, 0o600), (US, 0o40_777), Err(Exposed::FolderMode(0o777))),
            ((US, 0o600), (0, 0o775), Err(Exposed::FolderMode(0o775))),
        ] {
            assert_eq!(reach(US, facts(socket), facts(folder)), expected, "{socket:?} in {folder:?}");
        }
        assert_eq!(peer(US, Peer { pid: Some(1), uid: Some(US) }), Ok(()));
        assert_eq!(peer(US, Peer::default()), Ok(()));
        assert_eq!(peer(US, Peer { pid: Some(1), uid: Some(0) }), Err(Exposed::Peer(0)));
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
