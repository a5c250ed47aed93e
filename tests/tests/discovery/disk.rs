//! A file system in memory, and the look at it that a program would take.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use agentline_core::discovery::{Discovery, File, Look, Names, Report, Snapshot, Step, Unfit};
use agentline_core::trust::{Untrusted, Why};

/// Files and links by absolute path; folders are where something is in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    nodes: BTreeMap<PathBuf, Node>,
    writes: u64,
    /// What others can change.
    pub(crate) untrusted: BTreeMap<PathBuf, Why>,
    /// Names come in the other order.
    pub(crate) backwards: bool,
}

#[derive(Clone, Debug)]
enum Node {
    File {
        bytes: Vec<u8>,
        executable: bool,
        inode: u64,
    },
    Link(PathBuf),
    /// A file that cannot be read or a folder that cannot be entered.
    Closed,
}

impl Disk {
    /// A file that is not executable.
    pub(crate) fn file(&mut self, path: &str, bytes: &str) -> &mut Self {
        self.put(path, |inode| Node::File { bytes: bytes.into(), executable: false, inode })
    }

    /// A program.
    pub(crate) fn program(&mut self, path: &str) -> &mut Self {
        self.put(path, |inode| Node::File { bytes: b"#!/bin/sh\n".into(), executable: true, inode })
    }

    /// An executable file without a byte.
    pub(crate) fn empty_program(&mut self, path: &str) -> &mut Self {
        self.put(path, |inode| Node::File { bytes: Vec::new(), executable: true, inode })
    }

    /// A symlink.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> &mut Self {
        self.put(path, |_| Node::Link(target.into()))
    }

    /// Something that we may not look at.
    pub(crate) fn closed(&mut self, path: &str) -> &mut Self {
        self.put(path, |_| Node::Closed)
    }

    /// Takes a file away.
    pub(crate) fn remove(&mut self, path: &str) -> &mut Self {
        self.nodes.remove(Path::new(path));
        self
    }

    /// Runs discovery to its end. Three rounds must do.
    pub(crate) fn report(&self, discovery: &Discovery) -> Report {
        let mut seen = Snapshot::default();
        for _ in 0..=3 {
            match discovery.resolve(&seen) {
                Step::Done(report) => return report,
                Step::Look(looks) => looks.into_iter().for_each(|look| self.look(look, &mut seen)),
            }
        }
        panic!("still curious after three rounds");
    }

    fn put(&mut self, path: &str, node: impl FnOnce(u64) -> Node) -> &mut Self {
        self.writes += 1;
        self.nodes.insert(path.into(), node(self.writes));
        self
    }

    fn look(&self, look: Look, seen: &mut Snapshot) {
        match look {
            Look::Folder(path) => seen.folder(path.clone(), self.names(&path)),
            Look::File { path, limit } => {
                let bytes = match self.node(&path) {
                    Ok((_, Node::File { bytes, .. })) if bytes.len() <= limit => Some(bytes.clone()),
                    Ok((_, Node::File { .. } | Node::Link(_) | Node::Closed)) | Err(_) => None,
                };
                seen.file(path, bytes);
            }
            Look::Trust { path, .. } => {
                let untrusted = |why: &Why| Untrusted { path: path.clone(), why: *why };
                seen.trust(path.clone(), self.untrusted.get(&path).map(untrusted).map_or(Ok(()), Err));
            }
            Look::Program(path) => seen.program(path.clone(), self.stat(&path)),
        }
    }

    fn names(&self, folder: &Path) -> Names {
        if let Some(Node::Closed) = self.nodes.get(folder) {
            return Names::Unreadable;
        }
        let below = self.nodes.keys().filter_map(|path| path.strip_prefix(folder).ok());
        let mut names: Vec<OsString> =
            below.filter_map(|rest| rest.components().next()).map(|name| name.as_os_str().into()).collect();
        names.dedup();
        if self.backwards {
            names.reverse();
        }
        if names.is_empty() { Names::Missing } else { Names::Of(names) }
    }

    fn stat(&self, path: &Path) -> Result<File, Unfit> {
        match self.node(path)? {
            (_, Node::Closed) => Err(Unfit::Denied),
            (_, Node::File { executable: false, .. }) => Err(Unfit::NotExecutable),
            (_, Node::Link(_)) => Err(Unfit::Dangling),
            (real, Node::File { bytes, inode, .. }) => Ok(File {
                real,
                inode: *inode,
                size: bytes.len() as u64,
                modified: Duration::from_secs(*inode),
            }),
        }
    }

    /// What is at the end of all links, and where that is.
    fn node(&self, path: &Path) -> Result<(PathBuf, &Node), Unfit> {
        let mut real = path.to_owned();
        for hop in 0..40 {
            match self.nodes.get(&real) {
                Some(Node::Link(target)) => {
                    real = normal(&real.parent().unwrap_or(Path::new("/")).join(target));
                }
                Some(node) => return Ok((real, node)),
                None if self.nodes.keys().any(|other| other.starts_with(&real)) => {
                    return Err(Unfit::NotAFile);
                }
                None if hop == 0 => return Err(Unfit::Missing),
                None => break,
            }
        }
        Err(Unfit::Dangling)
    }
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(part),
        }
    }
    normal
}
