//! Unix sockets that nobody but us can reach.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use agentline_core::place::{self, Directory, Exposed, Facts, Found, Verdict};
use agentline_core::{Address, OpenError, Peer};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::errno::open_error;
use crate::lock::{Lock, lock};
use crate::trust;

/// Whether the socket at a path is ours alone: what is asked before anything connects to it.
///
/// # Errors
///
/// There is no socket, or who listens there may be somebody else.
pub fn check(path: &Path) -> Result<(), OpenError> {
    place::name(path)?;
    let socket = rustix::fs::lstat(path).map_err(open_error)?;
    let kind = FileType::from_raw_mode(socket.st_mode);
    if kind == FileType::Symlink {
        return Err(OpenError::NotPrivate(Exposed::Link));
    }
    if kind != FileType::Socket {
        return Err(OpenError::NotASocket);
    }
    below_trusted(folder(path))?;
    let folder = rustix::fs::stat(folder(path)).map_err(open_error)?;
    place::reach(us(), facts(&socket), facts(&folder)).map_err(OpenError::NotPrivate)
}

/// Sees to it that a folder is there and ours alone: made, or tightened, if need be.
///
/// # Errors
///
/// It is another user's, others may write to it or to what is above it, or it is none.
pub fn own_folder(path: &Path) -> Result<(), OpenError> {
    match private(path)? {
        (_, false) => Ok(()),
        (folder, true) => {
            let found = rustix::fs::fstat(&folder).map_err(open_error)?;
            Err(OpenError::NotPrivate(Exposed::FolderMode(Mode::from_raw_mode(found.st_mode).bits())))
        }
    }
}

/// A connection to a socket of ours, for whoever waits for its bytes himself.
///
/// # Errors
///
/// Nobody listens, or who does may be somebody else.
pub fn stream(path: &Path) -> Result<UnixStream, OpenError> {
    let (socket, _) = connect(&Address(path.to_owned()))?;
    rustix::io::ioctl_fionbio(&socket, false).map_err(open_error)?;
    Ok(socket.into())
}

/// Connects to a socket of ours, and says who listens. Never waits: a full backlog is `Busy`.
pub(crate) fn connect(address: &Address) -> Result<(OwnedFd, Peer), OpenError> {
    check(&address.0)?;
    let (socket, peer) = dial(address)?;
    // The file was looked at before; who really answers is known only now.
    place::peer(us(), peer).map_err(OpenError::NotPrivate)?;
    Ok((socket, peer))
}

/// Connects, whosever it is.
fn dial(address: &Address) -> Result<(OwnedFd, Peer), OpenError> {
    let socket = quiet::stream().map_err(open_error)?;
    rustix::net::connect(&socket, &unix(&address.0)?).map_err(|errno| match errno {
        Errno::CONNREFUSED if !is_socket(&address.0) => OpenError::NotASocket,
        other => open_error(other),
    })?;
    let peer = quiet::peer(&socket);
    Ok((socket, peer))
}

/// Takes the next connection of ours, and says who it is; `None` while there is none. Another user is hung up on,
/// unheard.
pub(crate) fn accept(listener: impl AsFd) -> Result<Option<(OwnedFd, Peer)>, OpenError> {
    loop {
        match quiet::accept(&listener) {
            Ok(socket) => {
                let peer = quiet::peer(&socket);
                if place::peer(us(), peer).is_ok() {
                    return Ok(Some((socket, peer)));
                }
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
    let (directory, is_shared) = private(folder(&address.0))?;
    let lock = StartLock::take(&directory, is_shared, name)?;
    match place::verdict(lock.is_some(), look(&directory, name, address)) {
        Verdict::Bind => {}
        Verdict::Replace => rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(open_error)?,
        Verdict::Refuse(error) => return Err(error),
    }
    let socket = quiet::stream().map_err(open_error)?;
    // Born 0600 where the system takes the mode from here (Linux); elsewhere the directory covers the moment.
    let _ = rustix::fs::fchmod(&socket, OURS);
    rustix::net::bind(&socket, &unix(&address.0)?).map_err(open_error)?;
    let ours = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(open_error)?;
    if Mode::from_raw_mode(ours.st_mode) != OURS {
        rustix::fs::chmodat(&directory, name, OURS, AtFlags::empty()).map_err(open_error)?;
    }
    rustix::net::listen(&socket, BACKLOG).map_err(open_error)?;
    // Held until somebody listens: a bound socket that does not refuses callers like a dead one.
    drop(lock);
    Ok((socket, Place { name: name.into(), ours, directory }))
}

/// Keeps others of us from starting at the same place. Held for a few system calls.
enum StartLock<'a> {
    /// A directory that is ours alone.
    Directory(&'a OwnedFd),
    /// A file beside the socket, gone with the lock: in a shared directory anybody could hold the directory's.
    File { directory: &'a OwnedFd, name: OsString, _lock: Lock },
}

impl<'a> StartLock<'a> {
    /// `None`: somebody else has it.
    fn take(directory: &'a OwnedFd, is_shared: bool, socket: &OsStr) -> Result<Option<Self>, OpenError> {
        if !is_shared {
            return Ok(lock(directory)?.then_some(Self::Directory(directory)));
        }
        let mut name = OsString::from(".");
        name.push(socket);
        name.push(".lock");
        let lock = Lock::take_at(directory, name.as_ref())?;
        Ok(lock.map(|lock| Self::File { directory, name, _lock: lock }))
    }
}

impl Drop for StartLock<'_> {
    fn drop(&mut self) {
        let _ = match self {
            Self::Directory(directory) => rustix::fs::flock(*directory, FlockOperation::Unlock),
            Self::File { directory, name, .. } => rustix::fs::unlinkat(*directory, &*name, AtFlags::empty()),
        };
    }
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
        if found.is_ok_and(|found| is_same(&found, &self.ours)) {
            let _ = rustix::fs::unlinkat(&self.directory, &*self.name, AtFlags::empty());
        }
    }
}

/// Opens a directory where nobody else can put a socket of ours away, made or tightened if need be. Whether it is
/// shared with others.
fn private(path: &Path) -> Result<(OwnedFd, bool), OpenError> {
    below_trusted(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // A link of root's is part of the system: `/tmp` is one on some.
    let follow = match rustix::fs::lstat(path) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => {
            if found.st_uid != 0 || us() == 0 {
                return Err(OpenError::NotPrivate(Exposed::FolderLink));
            }
            OFlags::empty()
        }
        Ok(_) | Err(_) => OFlags::NOFOLLOW,
    };
    let open = || rustix::fs::open(path, flags | follow, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) => {
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(path);
            open()
        }
        found => found,
    };
    let directory = opened.map_err(|errno| match errno {
        Errno::LOOP => OpenError::NotPrivate(Exposed::FolderLink),
        other => open_error(other),
    })?;
    let found = rustix::fs::fstat(&directory).map_err(open_error)?;
    match place::directory(us(), facts(&found)) {
        Directory::Private => {}
        Directory::Tighten => rustix::fs::fchmod(&directory, Mode::RWXU).map_err(open_error)?,
        Directory::Shared => return Ok((directory, true)),
        Directory::Refuse(why) => return Err(OpenError::NotPrivate(why)),
    }
    Ok((directory, false))
}

/// Whether nobody else can change what is above a folder.
fn below_trusted(folder: &Path) -> Result<(), OpenError> {
    let trusted = folder.parent().is_none_or(|above| trust::check(above, None).is_ok());
    if trusted { Ok(()) } else { Err(OpenError::NotPrivate(Exposed::Above)) }
}

/// Where a file lies.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

const fn facts(found: &Stat) -> Facts {
    Facts { owner: found.st_uid, mode: found.st_mode }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn look(directory: &OwnedFd, name: &OsStr, address: &Address) -> Found {
    let Ok(found) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Found::Nothing;
    };
    match (FileType::from_raw_mode(found.st_mode), found.st_uid == us()) {
        (FileType::Socket, true) => Found::Socket(dial(address).err()),
        (FileType::Socket, false) => Found::ForeignSocket(found.st_uid),
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
