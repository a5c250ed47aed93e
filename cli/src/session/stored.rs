//! What is stored of sessions while no hub runs: shown as a hub would that starts, and left as it is.

use std::time::{SystemTime, UNIX_EPOCH};

use agentline_core::discovery::Folders;
use agentline_core::hub::api::{SessionBrief, SessionsList};
use agentline_core::{Now, Time};

use crate::hub::records;

/// The rows that a hub would show, newest first.
pub(super) fn sessions(folders: &Folders, wanted: &SessionsList) -> Vec<SessionBrief> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    records::read(folders, |_, _| {}).rows(Now { mono: Time::ZERO, unix }, wanted)
}
