//! Manifests: one file per agent in `~/.botbus/agents`, checked row by row (BotBus,
//! `docs/acp-agents.md`, 清单).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folders::Folders;
use super::json::{self, Position};
use super::launch::Launch;
use super::look::{Eyes, Unfit};
use super::search::{Found, locate};
use super::{Agent, Limits, Origin};
use crate::machine::{Change, Store};
use crate::secret::Secret;
use crate::trust::Untrusted;

/// Ids of BotBus's built-in agents and of what would double them: no manifest and no registry entry has one.
pub const RESERVED: [&str; 10] =
    ["codex", "claude", "hermes", "pi", "openclaw", "dsh", "acp", "claude-acp", "codex-acp", "pi-acp"];

/// Why a manifest does not count. The first reason is the only one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// Others can change it, or the folder that it lies in.
    Untrusted(Untrusted),
    /// It cannot be read, or is too long.
    Unreadable,
    /// It is no JSON object of the right fields.
    InvalidJson(Position),
    /// The id has characters that ids have not, or too many.
    BadId,
    /// The file is not named after the id.
    WrongFileName {
        /// The id it should be named after.
        id: String,
    },
    /// The name is empty.
    EmptyName,
    /// The command is an absolute path, but not of a program.
    Command {
        /// The absolute path that `command` names.
        path: PathBuf,
        /// What is wrong with it.
        why: Unfit,
    },
    /// The command is a name that no searched folder has.
    CommandNotFound {
        /// The command as written.
        command: String,
    },
    /// What the settings say of a runner makes no sense: why, in words.
    InvalidRunner(String),
    /// Another agent has the id of a runner.
    TakenId {
        /// The id.
        id: String,
    },
    /// The same of one entry of the settings, which this one is.
    OfRunner {
        /// The runner's id, as written.
        id: String,
        /// What is wrong with it.
        why: Box<Self>,
    },
    /// The id belongs to a built-in agent.
    ReservedId {
        /// The id that is taken.
        id: String,
    },
}

/// What is written into a manifest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Manifest {
    /// What the agent is called by; also the name of its file.
    pub id: String,
    /// The name for people, cut at 40 characters.
    pub name: String,
    /// A path or a name to be searched. Without it the agent has to connect by itself.
    pub command: Option<String>,
    /// The arguments of the command, each whole.
    pub args: Vec<String>,
    /// Variables laid over the environment.
    pub env: BTreeMap<String, Secret<String>>,
}

impl Manifest {
    /// The file that adds the agent, replacing the one it had.
    ///
    /// # Errors
    ///
    /// The reason for which the file would not count, as far as the file alone can tell.
    pub fn add(&self, folders: &Folders) -> Result<Store, Reason> {
        check_id(&self.id)?;
        check_name(&self.name)?;
        check_free(&self.id)?;
        if let Some(command) = &self.command {
            check_command(command, folders)?;
        }
        let wire = Wire {
            id: self.id.clone(),
            name: self.name.trim().to_owned(),
            command: self.command.clone(),
            args: Some(self.args.clone()).filter(|args| !args.is_empty()),
            env: Some(self.env.iter().map(|(name, value)| (name.clone(), value.expose().clone())).collect())
                .filter(|env: &BTreeMap<_, _>| !env.is_empty()),
        };
        let mut bytes = serde_json::to_vec_pretty(&wire).unwrap_or_default();
        bytes.push(b'\n');
        // Its variables may be secrets.
        Ok(Store {
            path: folders.manifest(&self.id),
            change: Change::Put { bytes: bytes.into(), mode: 0o600 },
        })
    }

    /// Takes the agent's file away.
    ///
    /// # Errors
    ///
    /// No id, so no file name either.
    pub fn remove(id: &str, folders: &Folders) -> Result<Store, Reason> {
        check_id(id)?;
        Ok(Store { path: folders.manifest(id), change: Change::Remove })
    }
}

impl Reason {
    /// The name that programs know it by: `code` of `agent list --json`. Names are never changed, only added.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Untrusted(_) => "untrusted",
            Self::Unreadable => "unreadable",
            Self::InvalidJson(_) => "invalid_json",
            Self::BadId => "bad_id",
            Self::WrongFileName { .. } => "wrong_file_name",
            Self::EmptyName => "empty_name",
            Self::Command { why: Unfit::Missing | Unfit::Dangling, .. } => "command_missing",
            Self::Command {
                why:
                    Unfit::Denied
                    | Unfit::NotAFile
                    | Unfit::NotExecutable
                    | Unfit::Empty
                    | Unfit::OutsidePackage(_),
                ..
            } => "command_not_executable",
            Self::CommandNotFound { .. } => "command_not_found",
            Self::ReservedId { .. } => "reserved_id",
            Self::InvalidRunner(_) => "invalid_runner",
            Self::TakenId { .. } => "taken_id",
            Self::OfRunner { why, .. } => why.code(),
        }
    }
}

/// Whether a file of that name is a manifest at all: its extension is exactly `json`.
pub(super) fn is_manifest(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("json"))
}

/// Where manifests are resolved.
pub(super) struct Place<'a> {
    pub(super) folders: &'a Folders,
    pub(super) search: &'a [PathBuf],
    pub(super) limits: &'a Limits,
}

/// The agent of one manifest. Programs that were passed over are added to `passed`.
pub(super) fn resolve(
    eyes: &mut Eyes<'_>,
    place: &Place<'_>,
    file: &Path,
    passed: &mut Vec<(PathBuf, Unfit)>,
) -> Result<Agent, Reason> {
    eyes.trust(file, &place.folders.home).map_err(Reason::Untrusted)?;
    let bytes = eyes.file(file, place.limits.manifest).flatten().ok_or(Reason::Unreadable)?;
    let wire: Wire = json::object(bytes).map_err(Reason::InvalidJson)?;
    check_id(&wire.id)?;
    if file.file_stem() != Some(OsStr::new(&wire.id)) {
        return Err(Reason::WrongFileName { id: wire.id });
    }
    let name = check_name(&wire.name)?.chars().take(place.limits.name).collect();
    let command = wire.command.as_deref().map(str::trim).filter(|command| !command.is_empty());
    let found = command.map(|command| program(eyes, place, command, passed)).transpose()?;
    check_free(&wire.id)?;
    let launch = found.map(|found| Launch {
        found,
        args: wire.args.unwrap_or_default(),
        env: wire.env.unwrap_or_default().into_iter().map(|(name, value)| (name, value.into())).collect(),
    });
    Ok(Agent { id: wire.id, name, origin: Origin::Manifest, launch, enabled: true, over_cap: false })
}

pub(super) fn program(
    eyes: &mut Eyes<'_>,
    place: &Place<'_>,
    command: &str,
    passed: &mut Vec<(PathBuf, Unfit)>,
) -> Result<Found, Reason> {
    let path = place.folders.expand(command);
    if !path.is_absolute() {
        return locate(eyes, place.search, command, None, passed)
            .ok_or_else(|| Reason::CommandNotFound { command: command.into() });
    }
    match eyes.program(&path).unwrap_or(Err(Unfit::Missing)) {
        Ok(file) => Ok(Found { program: path, file: file.clone() }),
        Err(why) => Err(Reason::Command { path, why }),
    }
}

/// The fields of a manifest; unknown ones are nobody's business.
#[derive(Serialize, Deserialize)]
struct Wire {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<BTreeMap<String, String>>,
}

pub(super) fn check_id(id: &str) -> Result<(), Reason> {
    if super::is_id(id) { Ok(()) } else { Err(Reason::BadId) }
}

pub(super) fn check_name(name: &str) -> Result<&str, Reason> {
    Some(name.trim()).filter(|name| !name.is_empty()).ok_or(Reason::EmptyName)
}

/// A path relative to whatever folder we are in now would mean nothing later.
fn check_command(command: &str, folders: &Folders) -> Result<(), Reason> {
    if command.contains('/') && !folders.expand(command.trim()).is_absolute() {
        return Err(Reason::CommandNotFound { command: command.into() });
    }
    Ok(())
}

pub(super) fn check_free(id: &str) -> Result<(), Reason> {
    if RESERVED.contains(&id) { Err(Reason::ReservedId { id: id.into() }) } else { Ok(()) }
}
