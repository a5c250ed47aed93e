//! Unix sockets that nobody but us can reach.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use agentline_core::place::{self, Directory, Found, Verdict};
use agentline_core::{Address, OpenError, Peer};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::errno::{errno, open_error};
use crate::trust;

/// Connects, and says who listens. Never waits: a full backlog is `Busy`.
pub(crate) fn connect(address: &Address) -> Result<(OwnedFd, Peer), OpenError> {
    place::name(&address.0)?;
    let socket = quiet::stream().map_err(open_error)?;
    rustix::net::connect(&socket, &unix(&address.0)?).map_err(|errno| match errno {
        Errno::CONNREFUSED if !is_socket(&address.0) => OpenError::NotASocket,
        other => open_error(other),
    })?;
    let peer = quiet::peer(&socket);
    Ok((socket, peer))
}

/// Takes the next connection, and says who it is; `None` while there is none.
pub(crate) fn accept(listener: impl AsFd) -> Result<Option<(OwnedFd, Peer)>, OpenError> {
    loop {
        match quiet::accept(&listener) {
            Ok(socket) => {
                let peer = quiet::peer(&socket);
                return Ok(Some((socket, peer)));
            }
            // Who hung up before we came is no failure of ours.
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(open_error(errno)),
        }
    }
}

/// Listens at a private socket, with what it takes to clean up.
pub(crate) fn listen(address: &Address) -> Result<(OwnedFd, Place), OpenError> {
    place::name(&address.0)?;
    let name = address.0.file_name().ok_or(OpenError::NotFound)?;
    let directory = private(address.0.parent().unwrap_or(Path::new("")))?;
    // The directory is ours alone, so its lock is the start lock. Held for a few system calls.
    let locked = match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => true,
        Err(Errno::WOULDBLOCK) => false,
        // A file system without locks: waiting would not help.
        Err(errno) => return Err(open_error(errno)),
    };
    match place::verdict(locked, look(&directory, name, address)) {
        Verdict::Bind => {}
        Verdict::Replace => rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(open_error)?,
        Verdict::Refuse(error) => return Err(error),
    }
    let socket = quiet::stream().map_err(open_error)?;
    // Born 0600 where the system takes the mode from here (Linux); elsewhere the directory covers the moment.
    let _ = rustix::fs::fchmod(&socket, OURS);
    rustix::net::bind(&socket, &unix(&address.0)?).map_err(open_error)?;
    let ours = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(open_error)?;
    let place = Place { name: name.into(), ours, directory };
    if Mode::from_raw_mode(place.ours.st_mode) != OURS {
        rustix::fs::chmodat(&place.directory, name, OURS, AtFlags::empty()).map_err(open_error)?;
    }
    rustix::net::listen(&socket, BACKLOG).map_err(open_error)?;
    let _ = rustix::fs::flock(&place.directory, FlockOperation::Unlock);
    Ok((socket, place))
}

/// Removes a socket of ours at which nobody listens any more, and the file of that name beside it; whether nothing of
/// the socket is left. Only in a folder that is ours alone, under the start lock, so nobody is about to listen.
#[must_use]
pub fn sweep(socket: &Path, beside: &OsStr) -> bool {
    let (Some(name), Some(folder)) = (socket.file_name(), socket.parent()) else { return false };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(errno) => return errno == Errno::NOENT,
    };
    let is_ours = |found: &Stat| found.st_uid == us();
    let is_private = |found: Stat| is_ours(&found) && !Mode::from_raw_mode(found.st_mode).intersects(OTHERS);
    if !rustix::fs::fstat(&directory).is_ok_and(is_private)
        || rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        return false;
    }
    match place::verdict(true, look(&directory, name, &Address(socket.to_owned()))) {
        Verdict::Bind => {}
        Verdict::Replace if rustix::fs::unlinkat(&directory, name, AtFlags::empty()).is_ok() => {}
        Verdict::Replace | Verdict::Refuse(_) => return false,
    }
    let found = rustix::fs::statat(&directory, beside, AtFlags::SYMLINK_NOFOLLOW);
    let is_file = |found: &Stat| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if found.is_ok_and(|found| is_ours(&found) && is_file(&found)) {
        let _ = rustix::fs::unlinkat(&directory, beside, AtFlags::empty());
    }
    true
}

/// The name of a socket of ours. Dropped, it is unlinked, unless the name is somebody else's by now.
pub(crate) struct Place {
    directory: OwnedFd,
    name: Box<OsStr>,
    ours: Stat,
}

impl Drop for Place {
    fn drop(&mut self) {
        let found = rustix::fs::statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == (self.ours.st_dev, self.ours.st_ino)) {
            let _ = rustix::fs::unlinkat(&self.directory, &*self.name, AtFlags::empty());
        }
    }
}

/// Opens a directory that is ours alone, made or tightened if need be.
fn private(path: &Path) -> Result<OwnedFd, OpenError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    if path.parent().is_some_and(|above| trust::check(above, None).is_err()) {
        return Err(OpenError::NotPrivate);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::open(path, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) => {
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(path);
            open()
        }
        found => found,
    };
    let directory = opened.map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::ACCESS => OpenError::NotPrivate,
        other => open_error(other),
    })?;
    let directory = File::from(directory);
    let found = directory.metadata().map_err(|error| open_error(errno(&error)))?;
    match place::directory(found.uid() == us(), found.mode()) {
        Directory::Private => {}
        Directory::Tighten => rustix::fs::fchmod(&directory, Mode::RWXU).map_err(open_error)?,
        Directory::Refuse => return Err(OpenError::NotPrivate),
    }
    Ok(directory.into())
}

fn look(directory: &OwnedFd, name: &OsStr, address: &Address) -> Found {
    let Ok(found) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Found::Nothing;
    };
    match (FileType::from_raw_mode(found.st_mode), found.st_uid == us()) {
        (FileType::Socket, true) => Found::Socket(connect(address).err()),
        (FileType::Socket, false) => Found::ForeignSocket,
        _ => Found::Other,
    }
}

fn unix(path: &Path) -> Result<SocketAddrUnix, OpenError> {
    SocketAddrUnix::new(path.as_os_str().as_bytes()).map_err(open_error)
}

fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_socket(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

/// Read and write for the owner.
const OURS: Mode = Mode::RUSR.union(Mode::WUSR);
/// Every permission of everybody else.
const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);
/// Connections that may wait to be accepted: what Linux grants by default at most was 128 for decades.
const BACKLOG: i32 = 128;

/// Sockets that no child inherits and that never block, and who is at the other end.
#[cfg(target_os = "linux")]
mod quiet {
    use super::{AddressFamily, AsFd, Errno, OwnedFd, Peer, SocketType};
    use rustix::net::SocketFlags;

    pub(super) fn stream() -> Result<OwnedFd, Errno> {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)
    }

    pub(super) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
        rustix::net::accept_with(listener, FLAGS)
    }

    pub(super) fn peer(socket: &OwnedFd) -> Peer {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(socket) else { return Peer::default() };
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok();
        Peer { pid, uid: Some(peer.uid.as_raw()) }
    }

    const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
}

#[cfg(not(target_os = "linux"))]
mod quiet {
    use super::{AddressFamily, AsFd, Errno, OwnedFd, Peer, SocketType};
    use rustix::io::FdFlags;

    pub(super) fn stream() -> Result<OwnedFd, Errno> {
        rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).and_then(quiet)
    }

    pub(super) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
        rustix::net::accept(listener).and_then(quiet)
    }

    pub(super) fn peer(socket: &OwnedFd) -> Peer {
        let uid = nix::unistd::getpeereid(socket).map(|(uid, _)| uid.as_raw());
        Peer { pid: None, uid: uid.ok() }
    }

    fn quiet(socket: OwnedFd) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    }
}
