//! What discovery wants to know of the file system, and what it was told.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::trust::Untrusted;

/// One thing to look at. Whoever can look tells the [`Snapshot`] under the same path.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Look {
    /// The names in a folder: [`Snapshot::folder`].
    Folder(PathBuf),
    /// The content of a file: [`Snapshot::file`].
    File {
        /// The absolute path to look at.
        path: PathBuf,
        /// A file of more bytes counts as unreadable.
        limit: usize,
    },
    /// Whether only the user and root can change what is at a path: [`Snapshot::trust`].
    Trust {
        /// The absolute path to look at.
        path: PathBuf,
        /// The home of the user, which is taken for granted.
        home: PathBuf,
    },
    /// What a program file is, symlinks followed, nothing started: [`Snapshot::program`].
    Program(PathBuf),
}

/// A file that can be executed. A reinstall or an update changes at least one of these.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct File {
    /// The path with every symlink resolved.
    pub real: PathBuf,
    /// The number of its inode: another one is another file.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last modified, since the Unix epoch; zero when before.
    pub modified: Duration,
}

/// The names in a folder, in any order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Names {
    /// The names of what is in it, in no order.
    Of(Vec<OsString>),
    /// There is no such folder.
    Missing,
    /// It may not be read, or is no folder.
    Unreadable,
}

/// Why a path is not the program that was looked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unfit {
    /// Nothing is there under that name.
    Missing,
    /// A symlink that leads nowhere, or in circles.
    Dangling,
    /// Some folder on the way may not be entered.
    Denied,
    /// A folder, a socket, a device.
    NotAFile,
    /// We may not execute it.
    NotExecutable,
    /// It has no bytes. Found by the core.
    Empty,
    /// Its real path is outside the npm package of that name. Found by the core.
    OutsidePackage(String),
}

/// Facts about the file system, gathered by whoever can look.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    // By text, not by `Path`: paths compare component by component, and there are a thousand of them.
    folders: BTreeMap<OsString, Names>,
    files: BTreeMap<OsString, Option<Vec<u8>>>,
    programs: BTreeMap<OsString, Result<File, Unfit>>,
    trust: BTreeMap<OsString, Result<(), Untrusted>>,
}

impl Snapshot {
    /// What a folder holds.
    pub fn folder(&mut self, path: PathBuf, names: Names) {
        self.folders.insert(path.into(), names);
    }

    /// What a file holds; `None` when it is missing, too long or cannot be read.
    pub fn file(&mut self, path: PathBuf, bytes: Option<Vec<u8>>) {
        self.files.insert(path.into(), bytes);
    }

    /// Whether what is at a path can be trusted; what is missing can.
    pub fn trust(&mut self, path: PathBuf, trust: Result<(), Untrusted>) {
        self.trust.insert(path.into(), trust);
    }

    /// What is at a path where a program may be.
    pub fn program(&mut self, path: PathBuf, program: Result<File, Unfit>) {
        self.programs.insert(path.into(), program);
    }
}

/// Reads a snapshot and notes what it does not hold yet.
pub(super) struct Eyes<'a> {
    seen: &'a Snapshot,
    unseen: Vec<Look>,
}

impl<'a> Eyes<'a> {
    pub(super) const fn new(seen: &'a Snapshot) -> Self {
        Self { seen, unseen: Vec::new() }
    }

    pub(super) fn folder(&mut self, path: &Path) -> Option<&'a Names> {
        let names = self.seen.folders.get(path.as_os_str());
        if names.is_none() {
            self.unseen.push(Look::Folder(path.into()));
        }
        names
    }

    pub(super) fn file(&mut self, path: &Path, limit: usize) -> Option<Option<&'a [u8]>> {
        let bytes = self.seen.files.get(path.as_os_str());
        if bytes.is_none() {
            self.unseen.push(Look::File { path: path.into(), limit });
        }
        bytes.map(Option::as_deref)
    }

    /// What was not looked at yet is trusted: nothing follows from it before all was.
    pub(super) fn trust(&mut self, path: &Path, home: &Path) -> Result<(), Untrusted> {
        let trust = self.seen.trust.get(path.as_os_str());
        if trust.is_none() {
            self.unseen.push(Look::Trust { path: path.into(), home: home.into() });
        }
        trust.cloned().unwrap_or(Ok(()))
    }

    pub(super) fn program(&mut self, path: &Path) -> Option<Result<&'a File, Unfit>> {
        let program = self.seen.programs.get(path.as_os_str());
        if program.is_none() {
            self.unseen.push(Look::Program(path.into()));
        }
        program.map(|program| match program {
            Ok(file) if file.size == 0 => Err(Unfit::Empty),
            Ok(file) => Ok(file),
            Err(unfit) => Err(unfit.clone()),
        })
    }

    /// What is still to be looked at; empty when nothing was missed.
    pub(super) fn unseen(self) -> Vec<Look> {
        self.unseen
    }
}
