//! Folders for a moment: gone when they are dropped, or when the next one is made and their maker was killed.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};
use tempfile::{Builder, TempDir};

/// A folder that nobody else has. Its lock, which ends with its maker, says that it is not a leftover.
pub(crate) struct Scratch {
    folder: TempDir,
    _lock: Option<File>,
}

impl Scratch {
    /// Makes one, and removes those whose makers are dead.
    pub(crate) fn new() -> io::Result<Self> {
        let place = std::env::temp_dir();
        sweep(&place);
        Self::within(&place)
    }

    fn within(place: &Path) -> io::Result<Self> {
        loop {
            let folder =
                Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(place)?;
            let lock = open(folder.path())?;
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&lock, folder.path()) => return Ok(Self { folder, _lock: Some(lock) }),
                // Somebody swept just then, and it was not locked yet.
                Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) => drop(folder),
                // Without locks nothing is swept.
                Err(_) => return Ok(Self { folder, _lock: None }),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it, and says if that does not work.
    pub(crate) fn close(self) -> io::Result<()> {
        self.folder.close()
    }
}

/// Removes what is provably left: a folder of ours by its name, owner and mode, that nobody holds. What cannot be
/// removed stays.
fn sweep(place: &Path) {
    let us = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(folder) = open(&path) else { continue };
        let is_ours =
            folder.metadata().is_ok_and(|found| found.uid() == us && found.mode() & 0o7777 == 0o700);
        if is_ours
            && rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_at(&folder, &path)
        {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Opens a folder that is no link to one.
fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(folder)
}

/// Whether that path leads to what was opened.
fn is_at(opened: &File, path: &Path) -> bool {
    match (opened.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(there)) => (opened.dev(), opened.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

const PREFIX: &str = "agentline-check-";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn a4_only_what_is_left_of_ours_is_swept() {
        let place = TempDir::new().unwrap();
        let at = |name: &str| place.path().join(name);
        let folder = |name: &str| {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "").unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o700)).unwrap();
        };
        let kept = Scratch::within(place.path()).unwrap();
        for name in ["agentline-check-dead", "agentline-check-open", "agentline-other", "target"] {
            folder(name);
        }
        fs::set_permissions(at("agentline-check-open"), Permissions::from_mode(0o755)).unwrap();
        symlink(at("target"), at("agentline-check-link")).unwrap();
        fs::write(at("agentline-check-file"), "").unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            folder("agentline-check-foreign");
            chown(at("agentline-check-foreign"), Some(65534), None).unwrap();
        }
        sweep(place.path());
        assert!(!at("agentline-check-dead").exists());
        let mut others = vec!["agentline-check-open", "agentline-other", "target", "agentline-check-link"];
        others.push("agentline-check-file");
        others.extend(is_root.then_some("agentline-check-foreign"));
        for name in others {
            assert!(at(name).symlink_metadata().is_ok(), "{name}");
        }
        assert!(at("target/file").exists() && kept.path().exists());
        // Once its maker is gone, so is the lock.
        let path = kept.folder.keep();
        sweep(place.path());
        assert!(path.exists(), "still held");
        drop(kept._lock);
        sweep(place.path());
        assert!(!path.exists());
    }
}
