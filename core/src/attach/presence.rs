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
    /// The name that people know the session by.
    pub name: String,
    /// The process of the session; whoever is gone is not alive.
    pub pid: Option<u32>,
    /// The folder that the session works in, absolute.
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
    /// The file holds no JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// No peer id, or one that is no file name.
    #[error("no usable peer_id")]
    NoPeerId,
}

/// Whether there is still a session behind a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Liveness {
    /// Its process lives, and its record is fresh.
    Alive,
    /// It did not renew its record for [`STALE`].
    Stale,
    /// Its process is gone.
    Gone,
}

/// Why a word of the user names no session.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotFound {
    /// No id and no name begins so.
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

    /// The record that a user means: by its peer id, its session id, at least eight characters of the session id,
    /// its name, the start of its name, or the start of its peer id. The first of these that fits anything counts,
    /// so no name hides another one that is written out. Names are compared without case.
    ///
    /// # Errors
    ///
    /// None of them, or more than one.
    pub fn find<'a>(records: &'a [Self], word: &str) -> Result<&'a Self, NotFound> {
        let (word, lower) = (word.trim(), word.trim().to_lowercase());
        let session =
            |record: &Self, fits: &dyn Fn(&str) -> bool| record.session_id.as_deref().is_some_and(fits);
        let ways: [&dyn Fn(&Self) -> bool; 6] = [
            &|record| record.peer_id == word,
            &|record| session(record, &|id| id == word),
            // Less of one is rather a name that was mistyped.
            &|record| word.chars().count() >= SESSION_START && session(record, &|id| id.starts_with(word)),
            &|record| record.name.to_lowercase() == lower,
            &|record| record.name.to_lowercase().starts_with(&lower),
            &|record| record.peer_id.starts_with(word),
        ];
        let found = |way: &&dyn Fn(&Self) -> bool| -> Vec<&'a Self> {
            records.iter().filter(|record| !word.is_empty() && way(record)).collect()
        };
        let found = ways.iter().map(found).find(|found| !found.is_empty()).unwrap_or_default();
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

/// Characters of a session id that are enough to mean it.
const SESSION_START: usize = 8;

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
    /// The path of the session's socket.
    pub attach_socket: String,
    /// The peer id of the session behind it.
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
    /// The terminal that the session runs in, where it has one.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As the real program writes one.
    const WRITTEN: &str = r#"{"peer_id": "ab12cd34", "name": "proj-7f", "pid": 4242, "cwd": "/home/u/proj",
        "session_id": "sess-1", "git_branch": "", "head_sha": null, "ahead": 0, "dirty_files": ["a b"],
        "model_name": "m-1", "busy": true, "context_tokens": 12345678901234567890123,
        "attach_socket": "/tmp/agentica-501/ab12cd34.sock", "updated_at": 1700000000.25, "later": {"x": 1.50}}"#;

    fn record(peer_id: &str, name: &str) -> Record {
        Record { peer_id: peer_id.to_owned(), name: name.to_owned(), ..Record::default() }
    }

    #[test]
    fn a_record_is_read_and_nothing_of_it_is_lost() {
        let record = Record::read(WRITTEN.as_bytes()).unwrap();
        assert_eq!((record.pid, record.busy), (Some(4242), true));
        assert_eq!(record.attach_socket.as_deref(), Some("/tmp/agentica-501/ab12cd34.sock"));
        assert_eq!(record.updated_at, Duration::from_millis(1_700_000_000_250));
        let again = String::from_utf8(record.to_bytes()).unwrap();
        for kept in
            [r#""context_tokens":12345678901234567890123"#, r#""later":{"x": 1.50}"#, r#""head_sha":null"#]
        {
            assert!(again.contains(kept), "{again}");
        }
        assert_eq!(Record::read(again.as_bytes()).unwrap().to_bytes(), again.as_bytes());
    }

    #[test]
    fn a_record_of_ours_has_every_member_in_order() {
        let mut ours = record("ab12cd34", "x-00");
        ours.set("model_name", "m");
        ours.set("own", &[1]);
        let text = String::from_utf8(ours.to_bytes()).unwrap();
        let found: Vec<usize> =
            MEMBERS.iter().map(|name| text.find(&format!("\"{name}\":")).expect(name)).collect();
        assert!(found.is_sorted());
        assert!(text.contains(r#""model_name":"m""#) && text.ends_with("\"own\":[1]}\n"), "{text}");
    }

    #[test]
    fn one_bad_member_does_not_hide_the_session() {
        let bytes = br#"{"peer_id":"a","name":7,"pid":"x","cwd":null,"busy":"yes","updated_at":"now","session_id":""}"#;
        let expected = record("a", "");
        assert_eq!(Record::read(bytes), Ok(expected));
    }

    #[test]
    fn what_names_no_session_is_no_record() {
        assert_eq!(Record::read(b"[]"), Err(BadRecord::NotAnObject));
        assert_eq!(Record::read(b"{\"peer_id\":"), Err(BadRecord::NotAnObject));
        for id in ["", "../x", "a/b", "a.b", &"a".repeat(65)] {
            let bytes = format!(r#"{{"peer_id":"{id}"}}"#);
            assert_eq!(Record::read(bytes.as_bytes()), Err(BadRecord::NoPeerId), "{id}");
        }
    }

    #[test]
    fn a_session_lives_while_its_process_does_and_its_record_is_fresh() {
        let record = Record::read(WRITTEN.as_bytes()).unwrap();
        let after = |seconds| record.updated_at + Duration::from_secs(seconds);
        assert_eq!(record.liveness(after(150), |pid| pid == 4242), Liveness::Alive);
        assert_eq!(record.liveness(after(151), |_| true), Liveness::Stale);
        assert_eq!(record.liveness(after(0), |_| false), Liveness::Gone);
        assert_eq!(record.liveness(Duration::ZERO, |_| true), Liveness::Alive, "a clock that went back");
        assert_eq!(Record::default().liveness(Duration::ZERO, |_| true), Liveness::Gone, "no pid");
    }

    #[test]
    fn a_word_finds_one_session_or_says_why_not() {
        let records = [record("ab12", "proj-00"), record("ab34", "proj-00"), record("ab", "other-01")];
        let found = |word| Record::find(&records, word).map(|record| record.peer_id.as_str());
        assert_eq!(found("ab"), Ok("ab"), "exact before prefix");
        assert_eq!(found("ab1"), Ok("ab12"));
        assert_eq!(found("other-01"), Ok("ab"));
        assert_eq!(found("proj-00"), Err(NotFound::Ambiguous(vec!["ab12".to_owned(), "ab34".to_owned()])));
        assert_eq!(found("nobody"), Err(NotFound::Nobody));
        assert_eq!(found(" "), Err(NotFound::Nobody));
    }

    #[test]
    fn e8_a_session_is_found_by_its_session_id_and_the_start_of_its_name_too() {
        let with = |peer_id, name, session: &str| Record {
            session_id: Some(session.to_owned()),
            ..record(peer_id, name)
        };
        let records = [
            with("aa11", "Proj-7f", "0123456789ab"),
            with("bb22", "proj-7f-x", "01234567ffff"),
            with("cc33", "bb-1", "short"),
        ];
        let found = |word| Record::find(&records, word).map(|record| record.peer_id.as_str());
        let both = Err(NotFound::Ambiguous(vec!["aa11".to_owned(), "bb22".to_owned()]));
        assert_eq!(found("0123456789ab"), Ok("aa11"));
        assert_eq!(found("012345678"), Ok("aa11"));
        assert_eq!(found("01234567"), both);
        assert_eq!(found("0123456"), Err(NotFound::Nobody), "seven letters of a session id");
        assert_eq!(found("short"), Ok("cc33"), "the whole of a short one");
        assert_eq!(found("proj-7F"), Ok("aa11"), "a whole name before the start of another");
        assert_eq!(found("proj"), both);
        assert_eq!(found("bb"), Ok("cc33"), "a name before a peer id, as elsewhere");
        assert_eq!(found("bb2"), Ok("bb22"));
    }

    #[test]
    fn the_transport_block_is_read_and_written() {
        let envelope = br#"{"v":1,"source":"agentica","session_key":"s","event":"run.started","ts":1.5,
            "transport":{"ppid":12,"cwd":"/p","tty":"/dev/pts/3","attach_socket":"/t/a.sock","peer_id":"a"},"payload":{}}"#;
        let transport = Transport::from_envelope(envelope).unwrap();
        let attachment = Attachment { attach_socket: "/t/a.sock".to_owned(), peer_id: "a".to_owned() };
        assert_eq!(transport.attachment, Some(attachment));
        assert_eq!(
            rpc::to_json(&transport),
            r#"{"ppid":12,"cwd":"/p","tty":"/dev/pts/3","attach_socket":"/t/a.sock","peer_id":"a"}"#
        );
        let bare = Transport { ppid: Some(12), cwd: "/p".to_owned(), tty: None, attachment: None };
        assert_eq!(rpc::to_json(&bare), r#"{"ppid":12,"cwd":"/p"}"#);
        assert_eq!(Transport::from_envelope(br#"{"transport":{"ppid":12,"cwd":"/p"}}"#), Some(bare));
        assert_eq!(Transport::from_envelope(b"{}"), None);
    }
}
