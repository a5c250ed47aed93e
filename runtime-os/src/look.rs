//! What discovery wants to know, looked up. Starts nothing.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use agentline_core::discovery::{self, Discovery, Look, Names, Report, Snapshot, Step, Unfit};
use rustix::fs::Access;

use crate::{file, trust};

/// The agents of this machine.
#[must_use]
pub fn discover(discovery: &Discovery) -> Report {
    resolve(discovery, Snapshot::default())
}

/// The agents that there would be with this manifest and no other.
#[must_use]
pub fn with_manifest(discovery: &Discovery, file: &Path, bytes: &[u8]) -> Report {
    let mut seen = Snapshot::default();
    let name = file.file_name().map(OsString::from).unwrap_or_default();
    seen.folder(discovery.folders.manifests(), Names::Of(vec![name]));
    seen.file(file.to_owned(), Some(bytes.to_vec()));
    resolve(discovery, seen)
}

fn resolve(discovery: &Discovery, mut seen: Snapshot) -> Report {
    loop {
        match discovery.resolve(&seen) {
            Step::Done(report) => return report,
            Step::Look(looks) => looks.into_iter().for_each(|look| look_at(look, &mut seen)),
        }
    }
}

fn look_at(look: Look, seen: &mut Snapshot) {
    match look {
        Look::Folder(path) => {
            let names = names(&path);
            seen.folder(path, names);
        }
        Look::File { path, limit } => {
            let bytes = file::read(&path, limit).ok();
            seen.file(path, bytes);
        }
        Look::Trust { path, home } => {
            let trust = trust::check(&path, Some(&home));
            seen.trust(path, trust);
        }
        Look::Program(path) => {
            let program = program(&path);
            seen.program(path, program);
        }
    }
}

fn names(folder: &Path) -> Names {
    let names = || -> io::Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    match names() {
        Ok(names) => Names::Of(names),
        Err(error) if error.kind() == ErrorKind::NotFound => Names::Missing,
        Err(_) => Names::Unreadable,
    }
}

fn program(path: &Path) -> Result<discovery::File, Unfit> {
    let facts = fs::metadata(path).map_err(|error| {
        if error.kind() == ErrorKind::PermissionDenied {
            Unfit::Denied
        } else if fs::symlink_metadata(path).is_ok() {
            Unfit::Dangling
        } else {
            Unfit::Missing
        }
    })?;
    if !facts.is_file() {
        return Err(Unfit::NotAFile);
    }
    rustix::fs::access(path, Access::EXEC_OK).map_err(|_| Unfit::NotExecutable)?;
    let real = fs::canonicalize(path).map_err(|_| Unfit::Dangling)?;
    let modified = Duration::from_secs(u64::try_from(facts.mtime()).unwrap_or_default());
    Ok(discovery::File { real, inode: facts.ino(), size: facts.size(), modified })
}
