//! Small files, replaced as a whole, and larger ones that grow at their end.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentline_core::{Change, Store};
use rustix::io::Errno;

use crate::errno::errno;

/// Does what a machine wants with a file. A reader sees the old content or the new, never a half.
///
/// Safe against our crash; after a power cut it may be the old content. A missing directory is made, for us
/// alone.
///
/// # Errors
///
/// What the system says. Nothing has changed then, but for what was to be added: of that a part may be there.
pub fn carry_out(store: &Store) -> Result<(), Errno> {
    let done = match &store.change {
        Change::Put { bytes, mode } => put(&store.path, bytes.expose(), *mode),
        Change::Append { bytes, mode } => append(&store.path, bytes.expose(), *mode),
        Change::Remove => match fs::remove_file(&store.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        },
    };
    done.map_err(|error| errno(&error))
}

fn put(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary(path)?;
    let written = write(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn append(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    use rustix::fs::OFlags;
    // A link would lead elsewhere, and a pipe would keep us waiting.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let open =
        |new: bool| OpenOptions::new().append(true).create_new(new).mode(mode).custom_flags(flags).open(path);
    let mut file = match open(false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().ok_or(error)?;
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            let file = open(true)?;
            // Exactly these bits, whatever the umask.
            file.set_permissions(Permissions::from_mode(mode))?;
            file
        }
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    file.write_all(bytes)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // `create_new` follows no link, and opens nothing that somebody laid there.
    let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().ok_or(error)?;
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            create()
        }
        // Left by a process of our number that died here.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        created => created,
    }?;
    file.write_all(bytes)?;
    // Exactly these bits, whatever the umask.
    file.set_permissions(Permissions::from_mode(mode))
}

/// A hidden name beside the file that no other process uses.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    name.push(format!(".{}", std::process::id()));
    Ok(path.with_file_name(name))
}
