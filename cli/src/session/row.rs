//! A session in words: what it is called, where it stands, and what a command exits with for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentline_core::hub::api::{Reason, SessionBrief, Status};
use serde::Serialize;

use crate::find;
use crate::output::plain;

/// What people call it: `s3 try-claude`.
pub(crate) fn called(session: &SessionBrief) -> String {
    let id = handle(session);
    match session.name.as_deref() {
        Some(name) => format!("{id} {}", plain(name)),
        None => id,
    }
}

/// Its id, with its machine if that is another one.
pub(super) fn handle(session: &SessionBrief) -> String {
    match session.host.as_deref() {
        Some(host) => format!("{}@{host}", plain(&session.id)),
        None => plain(&session.id).into_owned(),
    }
}

/// The word on the wire.
pub(super) fn word<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// `running`, `error needs_login`, `waiting_approval !2`.
pub(super) fn stands(session: &SessionBrief) -> String {
    let mut text = word(&session.status);
    if let Some(reason) =
        session.status_reason.filter(|reason| !matches!(reason, Reason::Permission | Reason::Question))
    {
        text = format!("{text} {}", word(&reason));
    }
    match session.questions {
        0 => text,
        open => format!("{text} !{open}"),
    }
}

/// A folder as people write it.
pub(super) fn tilde(path: &str) -> String {
    let home =
        find::home().ok().and_then(|home| home.into_os_string().into_string().ok()).unwrap_or_default();
    match path.strip_prefix(&home) {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            format!("~{}", plain(rest))
        }
        Some(_) | None => plain(path).into_owned(),
    }
}

/// `12s`, `20m`, `3h`, `5d`.
pub(crate) fn age(at: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch(at).map_or_else(|| "-".into(), |at| ago(now.saturating_sub(at)))
}

/// A time of a hub's, since the Unix epoch.
pub(super) fn since_epoch(at: &str) -> Option<Duration> {
    let at = humantime::parse_rfc3339(&at.replace("+00:00", "Z")).ok()?;
    at.duration_since(UNIX_EPOCH).ok()
}

/// A span in one word.
pub(crate) fn ago(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Whether something happens there, or is about to.
pub(super) fn is_busy(session: &SessionBrief) -> bool {
    matches!(session.status, Status::Connecting | Status::Running | Status::WaitingApproval)
}

/// What a command exits with that has waited for a session.
pub(super) fn exit_code(session: &SessionBrief) -> u8 {
    match (session.status, session.status_reason) {
        (Status::WaitingApproval, _) => WAITS,
        (Status::Error, Some(Reason::AgentExited | Reason::StartFailed)) => 5,
        (Status::Error, Some(Reason::NeedsLogin)) => 7,
        (Status::Error, _) => 1,
        (Status::Cancelled, _) => 130,
        (Status::Idle | Status::Connecting | Status::Running | Status::Completed | Status::Archived, _) => 0,
    }
}

/// The exit code of a session that waits for an answer.
pub(super) const WAITS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_exit_code() {
        for (status, reason, code) in [
            (Status::Completed, None, 0),
            (Status::Idle, None, 0),
            (Status::Error, Some(Reason::Refusal), 1),
            (Status::Error, Some(Reason::AgentExited), 5),
            (Status::Error, Some(Reason::StartFailed), 5),
            (Status::Error, Some(Reason::NeedsLogin), 7),
            (Status::Cancelled, Some(Reason::Interrupted), 130),
            (Status::WaitingApproval, Some(Reason::Permission), 8),
        ] {
            let session = SessionBrief { status, status_reason: reason, ..SessionBrief::default() };
            assert_eq!(exit_code(&session), code, "{status:?}");
        }
    }

    #[test]
    fn a_row_is_in_plain_words() {
        let mut session =
            SessionBrief { id: "s3".into(), status: Status::WaitingApproval, ..SessionBrief::default() };
        (session.questions, session.status_reason) = (2, Some(Reason::Permission));
        assert_eq!(stands(&session), "waiting_approval !2");
        let mut failed = SessionBrief { status: Status::Error, ..SessionBrief::default() };
        failed.status_reason = Some(Reason::NeedsLogin);
        assert_eq!(stands(&failed), "error needs_login");
        session.name = Some("a\u{1b}[2Jb".into());
        session.host = Some("box".into());
        assert_eq!(called(&session), "s3@box a\u{fffd}[2Jb");
        for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1m"), (7300, "2h"), (200_000, "2d")] {
            assert_eq!(ago(Duration::from_secs(seconds)), text);
        }
    }
}
