//! Files of a workspace, read and written for an agent: nothing outside of its folders is touched.
//!
//! Each folder on the way is opened from the last one, without following links, and held until the file is there. What
//! a link says is read and walked in the same way. So nobody can put another folder or link in the place of one that
//! was looked at already.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use agentline_core::host::walk::{Astray, Root, Step, Walk};
use agentline_core::host::{Access, FileError, FileWanted};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, readlinkat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::errno::errno;

/// Reads or writes a file for an agent: what it holds, or nothing. Waits for nobody.
///
/// A file is replaced as a whole, by a new one with the same permission bits: a reader sees the old content or the new.
///
/// # Errors
///
/// It is not in the workspace, or is no file of text that may be used so. No file has changed then.
pub fn carry_out(wanted: &FileWanted) -> Result<String, FileError> {
    let roots: Vec<Root> = wanted.roots.iter().map(|root| root_of(root)).collect();
    let way = Way { roots: &roots, makes: matches!(wanted.access, Access::Write(_)), folders: Vec::new() };
    let place = way.walk(Path::new(&wanted.path))?;
    match &wanted.access {
        Access::Read => read(&place, wanted.limit),
        Access::Write(text) => write(&place, text).map(|()| String::new()),
    }
}

fn root_of(told: &str) -> Root {
    let told = PathBuf::from(told);
    let real = std::fs::canonicalize(&told).unwrap_or_else(|_| told.clone());
    Root { told, real }
}

/// A file by its name in a folder. It may not be there yet.
struct Place {
    folder: OwnedFd,
    name: OsString,
    /// The file, if it is there.
    file: Option<File>,
}

/// A way to a file, with the folders that it went through.
struct Way<'a> {
    roots: &'a [Root],
    /// Missing folders may be made, and a missing file is no mistake.
    makes: bool,
    folders: Vec<OwnedFd>,
}

impl Way<'_> {
    fn walk(mut self, path: &Path) -> Result<Place, FileError> {
        let mut walk = Walk::new(self.roots, path).map_err(astray)?;
        loop {
            let step = walk.step().map_err(astray)?;
            let target = match &step {
                Step::Enter(root) => {
                    self.folders.clear();
                    let root = self.roots.get(*root).ok_or(FileError::Outside)?;
                    self.folders.push(folder(rustix::fs::CWD, root.real.as_os_str()).map_err(failed)?);
                    continue;
                }
                Step::Up => {
                    self.folders.pop();
                    continue;
                }
                Step::Folder => return Err(FileError::Folder),
                Step::Down(name) => self.enter(name, self.makes && walk.descends())?,
                Step::File(name) => match self.open(name)? {
                    Found::Link(target) => Some(target),
                    Found::File(file) => return self.at(name, Some(file)),
                    Found::Nothing => return self.at(name, None),
                },
            };
            if let Some(target) = target {
                walk.follow(&step, &target).map_err(astray)?;
            }
        }
    }

    fn here(&self) -> Result<&OwnedFd, FileError> {
        self.folders.last().ok_or(FileError::Outside)
    }

    /// Enters a folder, which is made if need be, unless it is a link: then where that leads to.
    fn enter(&mut self, name: &OsStr, makes: bool) -> Result<Option<PathBuf>, FileError> {
        let here = self.here()?;
        let found = match folder(here, name) {
            Err(Errno::NOENT) if makes => match mkdirat(here, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => folder(here, name),
                Err(errno) => Err(errno),
            },
            found => found,
        };
        match found {
            Ok(folder) => {
                self.folders.push(folder);
                Ok(None)
            }
            Err(errno @ (Errno::NOTDIR | Errno::LOOP | Errno::MLINK)) => {
                link(here, name)?.map(Some).ok_or_else(|| failed(errno))
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Opens a file, without waiting, should it be a pipe.
    fn open(&self, name: &OsStr) -> Result<Found, FileError> {
        let here = self.here()?;
        let access = if self.makes { OFlags::WRONLY } else { OFlags::RDONLY };
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        match openat(here, name, flags, Mode::empty()) {
            Ok(file) => {
                let kind = FileType::from_raw_mode(fstat(&file).map_err(failed)?.st_mode);
                if kind.is_file() {
                    Ok(Found::File(file.into()))
                } else {
                    Err(if kind.is_dir() { FileError::Folder } else { FileError::Special })
                }
            }
            Err(Errno::NOENT) if self.makes => Ok(Found::Nothing),
            Err(errno @ (Errno::LOOP | Errno::MLINK)) => {
                link(here, name)?.map(Found::Link).ok_or_else(|| failed(errno))
            }
            Err(errno) => Err(failed(errno)),
        }
    }

    fn at(mut self, name: &OsStr, file: Option<File>) -> Result<Place, FileError> {
        let folder = self.folders.pop().ok_or(FileError::Outside)?;
        Ok(Place { folder, name: name.to_owned(), file })
    }
}

enum Found {
    File(File),
    Link(PathBuf),
    Nothing,
}

fn folder(at: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(at, name, LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Where a link leads to; nothing, if it is none.
fn link(at: impl AsFd, name: &OsStr) -> Result<Option<PathBuf>, FileError> {
    match readlinkat(at, name, Vec::new()) {
        Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
        Err(Errno::INVAL) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

fn read(place: &Place, limit: usize) -> Result<String, FileError> {
    let file = place.file.as_ref().ok_or(FileError::Missing)?;
    let mut bytes = Vec::new();
    // One byte more, to tell a file of exactly that size from a longer one; the size that was told may be old.
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| failed(errno(&error)))?;
    if bytes.len() > limit {
        return Err(FileError::TooLong(limit));
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText)
}

fn write(place: &Place, text: &str) -> Result<(), FileError> {
    let mode = place.file.as_ref().map(fstat).transpose().map_err(failed)?;
    let mode = mode.map(|facts| Mode::from_raw_mode(facts.st_mode));
    let new = temporary(&place.name);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&place.folder, &new, flags, Mode::from_raw_mode(0o666)).map_err(failed)?;
    let put = || {
        if let Some(mode) = mode {
            fchmod(&file, mode)?;
        }
        File::from(file).write_all(text.as_bytes())?;
        io::Result::Ok(renameat(&place.folder, &new, &place.folder, &place.name)?)
    };
    put().map_err(|error| {
        let _ = unlinkat(&place.folder, &new, AtFlags::empty());
        failed(errno(&error))
    })
}

/// A hidden name beside the file that nobody else uses.
fn temporary(name: &OsStr) -> OsString {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let start = name.to_string_lossy();
    let start = &start[..start.floor_char_boundary(START.min(start.len()))];
    format!(".{start}.{}.{number}", std::process::id()).into()
}

const fn astray(why: Astray) -> FileError {
    match why {
        Astray::Outside => FileError::Outside,
        Astray::Circle => FileError::System(Errno::LOOP.raw_os_error()),
    }
}

fn failed(errno: Errno) -> FileError {
    match errno {
        Errno::NOENT => FileError::Missing,
        Errno::ISDIR => FileError::Folder,
        // A pipe that nobody reads, a socket, or a file where a folder should be.
        Errno::NXIO | Errno::NOTDIR | Errno::OPNOTSUPP => FileError::Special,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FileError::Denied,
        errno => FileError::System(errno.raw_os_error()),
    }
}

/// To go through a folder is enough.
#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = OFlags::RDONLY;
/// Bytes of a file's name that its temporary one begins with: a name may have 255.
const START: usize = 200;
