//! Which sessions there are, and how the one that is meant can be reached.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::words::{Kind, Phase, Problem};
use agentline_core::attach::files::{TokenFile, live_dir, token_file};
use agentline_core::attach::presence::{Liveness, NotFound, Record, Transport};
use agentline_core::attach::{Limits, Target};
use agentline_core::{Address, OpenError, Secret};
use agentline_os::file;
use rustix::io::Errno;
use rustix::process::Pid;
use serde::Serialize;

use super::leftovers;
use crate::chat::host::exposed;
use crate::find;
use crate::output::plain;
use crate::prompt::usage;

/// The records of this user's sessions.
pub(crate) struct Peers {
    /// The folder of the records.
    folder: PathBuf,
    /// What chose that folder.
    chosen_by: &'static str,
    /// Sorted by peer id, each with whether it lives.
    found: Vec<(Record, Liveness)>,
    /// Records that other users wrote.
    foreign: Vec<Foreign>,
}

/// A record that another user wrote: it names a socket of theirs.
pub(crate) struct Foreign {
    file: PathBuf,
    user: u32,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, user } = self;
        write!(f, "{} belongs to user {user} and is not used", plain(&file.to_string_lossy()))
    }
}

/// A session as programs are told of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Peer<'a> {
    pub(crate) peer_id: &'a str,
    pub(crate) name: &'a str,
    pid: Option<u32>,
    pub(crate) cwd: &'a str,
    session_id: Option<&'a str>,
    busy: bool,
    socket: Option<&'a str>,
    pub(crate) alive: bool,
}

impl Peers {
    /// Reads all of them. What is no record is passed over.
    pub(crate) fn look() -> Result<Self, Problem> {
        let home = find::home()?;
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let (cache, agentica) = (variable("AGENTICA_CACHE_DIR"), variable("AGENTICA_HOME"));
        let chosen_by = match (&cache, &agentica) {
            (Some(_), _) => "AGENTICA_CACHE_DIR",
            (None, Some(_)) => "AGENTICA_HOME",
            (None, None) if variable("HOME").is_none() => "the password file",
            (None, None) => "HOME",
        };
        let folder = live_dir(cache.as_deref(), agentica.as_deref(), &home);
        agentline_os::trust::check(&folder, None).map_err(|untrusted| exposed(&untrusted))?;
        leftovers::sweep(&folder);
        let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let records = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let (mut ours, mut foreign) = (Vec::new(), Vec::new());
        for path in records {
            match read_record(&path) {
                Ok(record) => ours.extend(record),
                Err(theirs) => foreign.push(theirs),
            }
        }
        ours.sort_by(|a: &Record, b| a.peer_id.cmp(&b.peer_id));
        let found = ours.into_iter().map(|record| {
            let liveness = record.liveness(now(), is_running);
            (record, liveness)
        });
        Ok(Self { folder, chosen_by, found: found.collect(), foreign })
    }

    /// For programs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Peer<'_>> {
        self.found.iter().map(|(record, liveness)| Peer {
            peer_id: &record.peer_id,
            name: &record.name,
            pid: record.pid,
            cwd: &record.cwd,
            session_id: record.session_id.as_deref(),
            busy: record.busy,
            socket: record.attach_socket.as_deref(),
            alive: *liveness == Liveness::Alive,
        })
    }

    /// What is there and was passed over for its owner.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &Foreign> {
        self.foreign.iter().take(NAMED)
    }

    /// For people: id, name, state, pid, working directory, socket.
    pub(crate) fn rows(&self) -> Vec<[String; 6]> {
        let row = |(record, liveness): &(Record, Liveness)| {
            let state = match liveness {
                Liveness::Alive if record.busy => "busy",
                Liveness::Alive => "idle",
                Liveness::Stale | Liveness::Gone => "dead",
            };
            let pid = record.pid.map(|pid| pid.to_string()).unwrap_or_default();
            let socket = record.attach_socket.as_deref().unwrap_or("-");
            [&*record.peer_id, &record.name, state, &pid, &record.cwd, socket]
                .map(|cell| plain(cell).into_owned())
        };
        self.found.iter().map(row).collect()
    }

    /// Nobody that lives is called so: who is there instead.
    fn nobody(&self, word: &str) -> Problem {
        let alive = self.found.iter().filter(|(_, liveness)| *liveness == Liveness::Alive);
        let mut alive: Vec<String> = alive.map(|(record, _)| shown(record)).collect();
        if alive.is_empty() {
            return missing(format!("{}: {} is none", self.nothing(), plain(word)))
                .hint("agentline chat --attachable, in another terminal");
        }
        let more = alive.len().saturating_sub(NAMED);
        alive.truncate(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        missing(format!("no session is called {}; there are {}{more}", plain(word), alive.join(", ")))
            .hint("agentline attach list")
    }

    /// Where was looked, for whoever found nothing.
    pub(crate) fn nothing(&self) -> String {
        let nothing = format!("no session in {} (chosen by {})", self.folder.display(), self.chosen_by);
        self.foreign().fold(nothing, |said, theirs| format!("{said}; {theirs}"))
    }

    /// The socket of the session that a word means. The living come before the dead.
    fn socket(&self, word: &str) -> Result<PathBuf, Problem> {
        let those = |alive: bool| -> Vec<Record> {
            let found = self.found.iter().filter(|(_, liveness)| (*liveness == Liveness::Alive) == alive);
            found.map(|(record, _)| record.clone()).collect()
        };
        match Record::find(&those(true), word) {
            Ok(record) => match &record.attach_socket {
                Some(socket) => Ok(PathBuf::from(socket)),
                None => Err(unreachable(format!("the session {} lets nobody attach", shown(record)))
                    .hint("agentline chat --attachable, or AGENTICA_ATTACH_ENABLED=1 agentica")),
            },
            Err(ambiguous @ NotFound::Ambiguous(_)) => {
                Err(usage(format!("{} {ambiguous}", plain(word))).hint("agentline attach list"))
            }
            Err(NotFound::Nobody) => Err(match Record::find(&those(false), word) {
                Ok(record) => self.dead(record),
                Err(_) => self.nobody(word),
            }),
        }
    }

    fn dead(&self, record: &Record) -> Problem {
        let why = self.found.iter().find(|(found, _)| found == record).map(|(_, liveness)| *liveness);
        let why = match (why, record.pid) {
            (Some(Liveness::Stale), _) => "it has not renewed its record for too long".to_owned(),
            (_, Some(pid)) => format!("its process {pid} is gone"),
            (_, None) => "its record names no process".to_owned(),
        };
        missing(format!("the session {} is dead: {why}", shown(record)))
    }
}

/// The session that is meant: a socket, a notify event on stdin, a peer id or its unique start, or a name.
pub(crate) fn target(peer: &str, token: Option<&Path>) -> Result<Target, Problem> {
    let socket = match peer {
        "-" => socket_of_event()?,
        path if path.contains('/') => PathBuf::from(path),
        word => Peers::look()?.socket(word)?,
    };
    must_be_ours(&socket)?;
    let token = read_token(&token.map_or_else(|| token_file(&socket), Path::to_owned))?;
    Ok(Target { socket: Address(socket), token, limits: Limits::default() })
}

fn socket_of_event() -> Result<PathBuf, Problem> {
    let mut event = Vec::new();
    io::stdin().take(EVENT).read_to_end(&mut event).map_err(|error| usage(format!("stdin: {error}")))?;
    let transport = Transport::from_envelope(&event).ok_or_else(|| usage("stdin holds no notify event"))?;
    let attachment =
        transport.attachment.ok_or_else(|| missing("the session of the event lets nobody attach"))?;
    Ok(attachment.attach_socket.into())
}

/// The token of a socket is not even read when another user may listen there.
fn must_be_ours(socket: &Path) -> Result<(), Problem> {
    let of = |why: &dyn fmt::Display| unreachable(format!("{} {why}", socket.display()));
    agentline_os::socket::check(socket).map_err(|error| {
        if error == OpenError::NotFound {
            of(&"is not there").hint("agentline attach list")
        } else if error == OpenError::NotASocket {
            of(&"is no socket")
        } else if let OpenError::NotPrivate(why) = error {
            of(&format_args!("is not private: {why}"))
        } else {
            of(&format_args!("cannot be used: {error}"))
        }
    })
}

fn read_token(path: &Path) -> Result<Secret<String>, Problem> {
    let of = |why: fmt::Arguments<'_>| unreachable(format!("{}{why}", path.display()));
    let read = file::read_with_facts(path, TOKEN);
    let (bytes, facts) = read.map_err(|unusable| of(format_args!(" {unusable}")))?;
    let file = TokenFile { is_ours: facts.uid() == us(), mode: facts.mode(), bytes: &bytes };
    file.token().map_err(|unfit| of(format_args!(": {unfit}")))
}

/// A record of ours; `None` of what is no record.
pub(super) fn read_record(path: &Path) -> Result<Option<Record>, Foreign> {
    let Ok((bytes, facts)) = file::read_with_facts(path, RECORD) else { return Ok(None) };
    if facts.uid() != us() {
        return Err(Foreign { file: path.to_owned(), user: facts.uid() });
    }
    Ok(Record::read(&bytes).ok())
}

/// Since the Unix epoch.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(crate) fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| matches!(rustix::process::test_kill_process(pid), Ok(()) | Err(Errno::PERM)))
}

fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn shown(record: &Record) -> String {
    plain(&format!("{} ({})", record.peer_id, record.name)).into_owned()
}

fn missing(message: impl Into<String>) -> Problem {
    Problem::new(Phase::Discovery, Kind::NotFound, message)
}

fn unreachable(message: impl Into<String>) -> Problem {
    Problem::new(Phase::Connect, Kind::Unreachable, message)
}

/// Sessions that are named.
const NAMED: usize = 5;
/// Bytes of a record, far more than any has.
const RECORD: usize = 1 << 20;
/// Bytes of a notify event: it may hold an answer.
const EVENT: u64 = 8 << 20;
/// Bytes of a token file.
const TOKEN: usize = 4096;
