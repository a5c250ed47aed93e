//! What is stored of sessions while no hub runs: read, and left as it is.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentline_core::discovery::Folders;
use agentline_core::hub::api::{Reason, SessionBrief, SessionsList, Status};
use agentline_os::file;
use serde::Deserialize;

use crate::words::{Kind, Phase, Problem};

/// Whether that is why there is no answer.
pub(super) fn is_absent(problem: &Problem) -> bool {
    problem.phase == Phase::Connect
        && problem.kind == Kind::Unreachable
        && problem.message.starts_with("no hub runs")
}

/// Of a record, what a row shows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    version: u32,
    session: u32,
    agent: String,
    cwd: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    reason: Option<Reason>,
    #[serde(default)]
    active: Duration,
}

/// The rows that a hub would show, newest first.
pub(super) fn sessions(folders: &Folders, wanted: &SessionsList) -> Vec<SessionBrief> {
    let entries = fs::read_dir(folders.sessions()).into_iter().flatten().flatten();
    let files =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    let records =
        files.filter_map(|path| serde_json::from_slice::<Record>(&file::read(&path, LONGEST).ok()?).ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_new = |record: &Record| !record.archived && now.saturating_sub(record.active) < WEEK;
    let mut records: Vec<Record> =
        records.filter(|record| record.version == 1 && (wanted.all || is_new(record))).collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.active));
    let rows = records.into_iter().map(Record::row);
    let fits = |row: &SessionBrief| {
        wanted.status.is_none_or(|status| row.status == status)
            && wanted.agent.as_ref().is_none_or(|agent| row.agent == *agent)
            && wanted.cwd.as_ref().is_none_or(|cwd| row.cwd == *cwd)
    };
    rows.filter(fits).take(wanted.limit.unwrap_or(usize::MAX)).collect()
}

impl Record {
    fn row(self) -> SessionBrief {
        let (status, reason) = match self.status {
            _ if self.archived => (Status::Archived, None),
            Status::Running | Status::WaitingApproval | Status::Connecting => {
                (Status::Cancelled, Some(Reason::Interrupted))
            }
            status @ (Status::Idle
            | Status::Error
            | Status::Completed
            | Status::Cancelled
            | Status::Archived) => (status, self.reason),
        };
        let active =
            humantime::format_rfc3339_seconds(UNIX_EPOCH + self.active).to_string().replace('Z', "+00:00");
        let folder = self.cwd.rsplit('/').next().unwrap_or_default().to_owned();
        SessionBrief {
            id: format!("s{}", self.session),
            title: self.title.unwrap_or(folder),
            status,
            status_reason: reason,
            last_activity_at: active,
            name: self.name,
            agent: self.agent,
            cwd: self.cwd,
            ..SessionBrief::default()
        }
    }
}

/// Bytes of a record.
const LONGEST: usize = 64 << 10;
/// What is older is shown only when asked for.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
