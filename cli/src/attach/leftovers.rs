//! What is left of our own sessions when they were killed: record, socket and token, removed by the next one that
//! looks. Whatever may be somebody else's stays: a record that another program wrote, another machine's whose home this
//! is too, one whose process may live, and everything beside a socket at which somebody may listen.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use agentline_core::attach::files::token_file;
use agentline_core::attach::presence::{Liveness, Record};
use serde::Serialize;

use super::peer::{is_running, now, read_record};

/// Marks a record as one of ours.
pub(crate) fn sign(record: &mut Record) {
    record.set(PROGRAM, OURS);
    record.set(MACHINE, &machine());
}

/// Removes what is provably left behind by sessions with a record in that folder, which nobody else can change.
pub(crate) fn sweep(live: &Path) {
    for entry in fs::read_dir(live).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if is_file
            && let Ok(Some(record)) = read_record(&path)
            && path.file_name() == Some(OsStr::new(&format!("{}.json", record.peer_id)))
            && is_left(&record)
            && sweep_socket(&record)
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn is_left(record: &Record) -> bool {
    let liveness = record.liveness(now(), is_running);
    says(record, PROGRAM, OURS)
        && match liveness {
            Liveness::Alive => false,
            Liveness::Gone => says(record, MACHINE, &machine()),
            // It may have slept, and its process may be of a machine whose processes we do not see.
            Liveness::Stale => record.pid.is_some_and(|pid| !is_running(pid)),
        }
}

/// Whether nothing of its socket is left.
fn sweep_socket(record: &Record) -> bool {
    let Some(socket) = record.attach_socket.as_deref().map(Path::new) else { return true };
    let name = format!("{}.sock", record.peer_id);
    let token = token_file(socket).file_name().map(OsString::from);
    socket.is_absolute()
        && socket.file_name() == Some(OsStr::new(&name))
        && token.is_some_and(|token| agentline_os::socket::sweep(socket, &token))
}

fn says<T: Serialize + ?Sized>(record: &Record, member: &str, value: &T) -> bool {
    let said = record
        .details
        .get(member)
        .and_then(|said| serde_json::from_str::<serde_json::Value>(said.get()).ok());
    said.is_some() && said == serde_json::to_value(value).ok()
}

/// Where process numbers mean what they mean here: this start of this machine, and this container of it.
fn machine() -> String {
    let start = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let container = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", start.trim(), container.display())
}

const OURS: &str = "agentline";
const PROGRAM: &str = "program";
const MACHINE: &str = "machine";
