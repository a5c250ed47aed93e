//! Files that are read as a whole, and new ones: regular files within a limit, and nobody is waited for.
//!
//! A pipe or a device in the place of a file would make us wait, or read, for ever.

use std::fmt;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Why a file is not read or made. To be read after its path.
#[derive(Debug)]
pub enum Unusable {
    /// Something else is there: what it is.
    NotAFile(&'static str),
    /// It has more bytes than that.
    TooLong(usize),
    /// What the system says.
    System(io::Error),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFile(what) => write!(f, "is {what}, not a file"),
            Self::TooLong(limit) if *limit >= 1 << 20 => write!(f, "is longer than {} MiB", limit >> 20),
            Self::TooLong(limit) => write!(f, "is longer than {} KiB", limit >> 10),
            Self::System(error) if error.kind() == ErrorKind::NotFound => f.write_str("is not there"),
            Self::System(error) if error.kind() == ErrorKind::AlreadyExists => {
                f.write_str("is there already")
            }
            Self::System(error) => write!(f, "cannot be used: {error}"),
        }
    }
}

impl std::error::Error for Unusable {}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Unusable {
    /// Whether a regular file is there where a new one was to be made.
    #[must_use]
    pub fn is_in_the_way(&self) -> bool {
        matches!(self, Self::System(error) if error.kind() == ErrorKind::AlreadyExists)
    }

    /// Whether nothing is there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::System(error) if error.kind() == ErrorKind::NotFound)
    }
}

/// The content of a regular file.
///
/// # Errors
///
/// It cannot be opened or read, is something else, or has more bytes than that.
pub fn read(path: &Path, limit: usize) -> Result<Vec<u8>, Unusable> {
    read_with_facts(path, limit).map(|(bytes, _)| bytes)
}

/// The content of a regular file, and whose it is.
///
/// # Errors
///
/// As [`read`].
pub fn read_with_facts(path: &Path, limit: usize) -> Result<(Vec<u8>, Metadata), Unusable> {
    let file = open(path)?;
    let facts = file.metadata()?;
    must_be_file(facts.file_type())?;
    Ok((within(file, limit)?, facts))
}

/// The content of what somebody names by hand: a regular file, or a pipe that the shell hands over as
/// `/dev/stdin` or `/dev/fd/N`, which is read to its end.
///
/// # Errors
///
/// As [`read`].
pub fn read_given(path: &Path, limit: usize) -> Result<Vec<u8>, Unusable> {
    let is_handed = path == Path::new("/dev/stdin") || path.starts_with("/dev/fd");
    if !is_handed {
        return read(path, limit);
    }
    let file = File::open(path)?;
    if !file.metadata()?.file_type().is_fifo() {
        return read(path, limit);
    }
    within(file, limit)
}

/// A new file that only we may read. Nothing that is there is touched, and no link is followed, unless `replace`
/// says that a regular file may go.
///
/// # Errors
///
/// Something is there, or the system says no.
pub fn create_private(path: &Path, replace: bool) -> Result<File, Unusable> {
    match fs::symlink_metadata(path) {
        Ok(facts) => {
            must_be_file(facts.file_type())?;
            if replace {
                fs::remove_file(path)?;
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?)
}

/// Waits for nobody, should it be a pipe.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

fn within(file: File, limit: usize) -> Result<Vec<u8>, Unusable> {
    let mut bytes = Vec::new();
    // One byte more, to tell a file of exactly that size from a longer one; the size that was told may be old.
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit { Err(Unusable::TooLong(limit)) } else { Ok(bytes) }
}

fn must_be_file(kind: FileType) -> Result<(), Unusable> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_symlink() {
        "a symlink"
    } else {
        "a device"
    };
    Err(Unusable::NotAFile(what))
}
