//! Which sessions there are: the record that each keeps of itself, and the `transport` block of its notify
//! events.
//!
//! A record of another session is only ever read. Whoever finds a dead one leaves it alone: its owner may be
//! a program that knows better, or have been given the same peer id again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rpc::{self, Json};

/// A record is dead when it is older than this: five heartbeats.
pub const STALE: Duration = Duration::from_secs(150);

/// What a session says of itself in `live/<peer_id>.json`.
///
/// The members that are acted upon are read leniently, each by itself; all others are kept as they are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record {
    /// Names the session, its socket and its files.
    pub peer_id: String,
    /// For people.
    pub name: String,
    /// The process.
    pub pid: Option<u32>,
    /// Its working directory.
    pub cwd: String,
    /// The session, once it has an id.
    pub session_id: Option<String>,
    /// Whether a turn runs.
    pub busy: bool,
    /// Where to attach; `None` while nobody listens.
    pub attach_socket: Option<String>,
    /// When it was written, since the Unix epoch.
    pub updated_at: Duration,
    /// All other members, by name.
    pub details: BTreeMap<String, Json>,
}

/// Why a file is no record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadRecord {
    /// No JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// No peer id, or one that is no file name.
    #[error("no usable peer_id")]
    NoPeerId,
}

/// Whether there is still a session behind a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Liveness {
    /// There is.
    Alive,
    /// It did not renew its record for [`STALE`].
    Stale,
    /// Its process is gone.
    Gone,
}

/// Why a word of the user names no session.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotFound {
    /// No peer id begins so, and no session has that name.
    #[error("no such session")]
    Nobody,
    /// More than one, by peer id.
    #[error("could be any of {}", .0.join(", "))]
    Ambiguous(Vec<String>),
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// There is nothing in it that names a session.
    pub fn read(bytes: &[u8]) -> Result<Self, BadRecord> {
        let mut members: BTreeMap<String, Json> =
            serde_json::from_slice(bytes).map_err(|_| BadRecord::NotAnObject)?;
        let peer_id: String = take(&mut members, "peer_id");
        if !is_peer_id(&peer_id) {
            return Err(BadRecord::NoPeerId);
        }
        let updated_at: f64 = take(&mut members, "updated_at");
        Ok(Self {
            peer_id,
            name: take(&mut members, "name"),
            pid: take(&mut members, "pid"),
            cwd: take(&mut members, "cwd"),
            session_id: take::<Option<String>>(&mut members, "session_id").filter(|id| !id.is_empty()),
            busy: take(&mut members, "busy"),
            attach_socket: take::<Option<String>>(&mut members, "attach_socket").filter(|at| !at.is_empty()),
            updated_at: Duration::try_from_secs_f64(updated_at).unwrap_or_default(),
            details: members,
        })
    }

    /// The record as a file's content.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = rpc::to_json(self).into_bytes();
        bytes.push(b'\n');
        bytes
    }

    /// Sets one of the other members.
    pub fn set<T: Serialize + ?Sized>(&mut self, member: &str, value: &T) {
        self.details.insert(member.to_owned(), Json::new(value));
    }

    /// Whether the session lives. `is_running`: whether its process can be signalled, or only may not be.
    #[must_use]
    pub fn liveness(&self, unix: Duration, is_running: impl FnOnce(u32) -> bool) -> Liveness {
        if unix.saturating_sub(self.updated_at) > STALE {
            Liveness::Stale
        } else if self.pid.is_some_and(is_running) {
            Liveness::Alive
        } else {
            Liveness::Gone
        }
    }

    /// The record that a user means by a peer id, the unique start of one, or a name.
    ///
    /// # Errors
    ///
    /// None of them, or more than one.
    pub fn find<'a>(records: &'a [Self], word: &str) -> Result<&'a Self, NotFound> {
        if let Some(exact) = records.iter().find(|record| record.peer_id == word) {
            return Ok(exact);
        }
        let meant =
            |record: &&Self| !word.is_empty() && (record.name == word || record.peer_id.starts_with(word));
        let found: Vec<&Self> = records.iter().filter(meant).collect();
        match found[..] {
            [] => Err(NotFound::Nobody),
            [one] => Ok(one),
            _ => Err(NotFound::Ambiguous(found.iter().map(|record| record.peer_id.clone()).collect())),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for member in MEMBERS {
            match member {
                "peer_id" => map.serialize_entry(member, &self.peer_id)?,
                "name" => map.serialize_entry(member, &self.name)?,
                "pid" => map.serialize_entry(member, &self.pid)?,
                "cwd" => map.serialize_entry(member, &self.cwd)?,
                "session_id" => map.serialize_entry(member, &self.session_id)?,
                "busy" => map.serialize_entry(member, &self.busy)?,
                "attach_socket" => map.serialize_entry(member, &self.attach_socket)?,
                "updated_at" => map.serialize_entry(member, &self.updated_at.as_secs_f64())?,
                other => map.serialize_entry(member, &self.details.get(other))?,
            }
        }
        for (member, value) in &self.details {
            if !MEMBERS.contains(&member.as_str()) {
                map.serialize_entry(member, value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        Self::read(raw.get().as_bytes()).map_err(serde::de::Error::custom)
    }
}

/// The members of a record, all always there, in this order.
const MEMBERS: [&str; 28] = [
    "peer_id",
    "name",
    "pid",
    "cwd",
    "session_id",
    "git_branch",
    "head_sha",
    "base_ref",
    "repo_root",
    "ahead",
    "behind",
    "dirty_files",
    "dirty_count",
    "task",
    "project_dir",
    "workspace_path",
    "memory_path",
    "log_file",
    "log_level",
    "profile_name",
    "model_provider",
    "model_name",
    "busy",
    "context_tokens",
    "context_window",
    "provider_window",
    "attach_socket",
    "updated_at",
];

/// Takes a member out; one of another type counts as absent.
fn take<T: Default + DeserializeOwned>(members: &mut BTreeMap<String, Json>, name: &str) -> T {
    members.remove(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Where a session can be attached to. Both or neither stand in a notify event.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// The socket.
    pub attach_socket: String,
    /// Whose it is.
    pub peer_id: String,
}

/// The `transport` block of a notify event.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transport {
    /// The process that the session runs under.
    pub ppid: Option<u32>,
    /// The session's working directory.
    pub cwd: String,
    /// Its terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// Where it listens: there from [`Listening`](super::server::Event::Listening) until
    /// [`Closed`](super::server::Event::Closed), and at no other time.
    #[serde(flatten)]
    pub attachment: Option<Attachment>,
}

impl Transport {
    /// The block of a notify event; `None` when there is none.
    #[must_use]
    pub fn from_envelope(bytes: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Envelope {
            transport: Transport,
        }
        serde_json::from_slice(bytes).ok().map(|envelope: Envelope| envelope.transport)
    }
}

/// Whether a peer id can stand in a file name without leaving its folder.
fn is_peer_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 64
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
