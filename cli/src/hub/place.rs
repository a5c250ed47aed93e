//! Where the hub of this user is: `hub.json` beside its records, and who that is.

use std::path::{Path, PathBuf};

use agentline_core::discovery::Folders;
use agentline_core::{Change, Store};
use agentline_os::{Lock, file, socket, store};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::words::{Kind, Phase, Problem};

/// What a hub says of itself as long as it serves.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Serving {
    /// The machine: a home may be shared by several.
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// Its control socket.
    pub(crate) control: PathBuf,
    /// Its socket for agents that connect by themselves, if it has it.
    #[serde(default)]
    pub(crate) reverse: Option<PathBuf>,
    pub(crate) version: String,
    /// RFC 3339.
    pub(crate) started_at: String,
}

impl Serving {
    /// The hub of these folders, if one says that it serves. Whether it lives is another question.
    pub(crate) fn read(folders: &Folders) -> Option<Self> {
        let bytes = file::read(&folders.hub(), LONGEST).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Lets everybody know.
    pub(crate) fn write(&self, folders: &Folders) -> Result<(), Errno> {
        let bytes = serde_json::to_vec(self).unwrap_or_default().into();
        store::carry_out(&Store { path: folders.hub(), change: Change::Put { bytes, mode: 0o600 } })
    }

    /// Nobody serves there any more.
    pub(crate) fn remove(folders: &Folders) {
        // What stays behind names a process that does not hold the lock.
        let _ = store::carry_out(&Store { path: folders.hub(), change: Change::Remove });
    }

    /// Refuses the hub of another machine.
    pub(crate) fn here(self) -> Result<Self, Problem> {
        if self.host == host() {
            return Ok(self);
        }
        let Self { host, pid, .. } = &self;
        let message = format!("the hub of this folder runs on {host} (pid {pid})");
        Err(unreachable(message).hint(format!("--host {host}, or AGENTLINE_HOME=/another/folder")))
    }
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Sees to it that the folder of the records is there and ours alone.
pub(crate) fn own(folders: &Folders) -> Result<(), Problem> {
    let path = &folders.state.path;
    socket::own_folder(path).map_err(|error| {
        let message = format!("the folder {} cannot hold a hub: {error}", path.display());
        unreachable(message).hint("AGENTLINE_HOME=/a/folder/of/yours agentline …")
    })
}

/// Whether a hub lives: it holds its lock, whatever its files say.
pub(crate) fn lives(folders: &Folders) -> bool {
    Lock::is_taken(&folders.hub_lock()).unwrap_or(false)
}

/// Takes a lock of ours.
pub(crate) fn lock(path: &Path, patience: std::time::Duration) -> Result<Option<Lock>, Problem> {
    Lock::wait(path, patience)
        .map_err(|error| unreachable(format!("the lock {} cannot be taken: {error}", path.display())))
}

/// Whether that is why there is no answer: nobody has started one.
pub(crate) fn is_absent(problem: &Problem) -> bool {
    problem.phase == Phase::Connect
        && problem.kind == Kind::Unreachable
        && problem.message.starts_with("no hub runs")
}

pub(crate) fn unreachable(message: impl Into<String>) -> Problem {
    Problem::new(Phase::Connect, Kind::Unreachable, message)
}

/// Bytes of `hub.json`.
const LONGEST: usize = 64 << 10;
