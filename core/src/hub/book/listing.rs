//! What an agent lists as its sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Book, Home, Session, Sid, Stand};
use crate::acp::session::SessionInfo;
use crate::hub::api::Status;
use crate::machine::Now;
use crate::session::{Can, Name};
use crate::timestamp::Timestamp;

/// What an agent listed.
#[derive(Debug)]
pub struct Listing {
    /// The agent's id.
    pub agent: Arc<str>,
    /// What it can do.
    pub can: Can,
    /// Its sessions, from all pages that were asked for.
    pub sessions: Vec<SessionInfo>,
    /// Whether the last page was reached.
    pub complete: bool,
    /// When the list was asked for, since the Unix epoch.
    pub since: Duration,
}

/// What is older is in no list.
pub const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Book {
    /// Takes a list in: what is new is added, what is known gets its title and time, and after a complete list what an
    /// earlier one had and this one has not is forgotten, unless it is in use, `watched`, or newer than the list.
    pub fn listed(&mut self, now: Now, listing: Listing, watched: impl Fn(Sid) -> bool) {
        let Listing { agent, can, sessions, complete, since } = listing;
        let mut seen: BTreeMap<Name, SessionInfo> = BTreeMap::new();
        for row in sessions {
            seen.entry(row.session_id.clone()).or_insert(row);
        }
        for (name, row) in &seen {
            self.list_row(now, &agent, can, name, row);
        }
        if !complete {
            return;
        }
        let is_gone = |sid: Sid, session: &Session| {
            session.home.agent == agent
                && session.listed
                && session.name.as_ref().is_some_and(|name| !seen.contains_key(name))
                && session.active < since
                && !session.is_in_use()
                && !watched(sid)
        };
        let gone = self.sessions.iter().filter(|(sid, session)| is_gone(**sid, session));
        for sid in gone.map(|(sid, _)| *sid).collect::<Vec<_>>() {
            self.forget(sid);
        }
    }

    fn list_row(&mut self, now: Now, agent: &Arc<str>, can: Can, name: &Name, row: &SessionInfo) {
        let at = row.updated_at.as_deref().and_then(Timestamp::parse).map(|Timestamp(at)| at);
        let age = at.map(|at| now.unix.saturating_sub(at));
        let known = self.find(agent, name);
        let sid = match known {
            Some(sid) => sid,
            None if age.is_some_and(|age| age > WEEK) => return,
            None => {
                let sid = self.add(now, Home { agent: Arc::clone(agent), cwd: (*row.cwd).into() });
                self.name(sid, name.clone());
                sid
            }
        };
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        session.listed = true;
        row.title.iter().for_each(|title| session.story.listed(title));
        if session.driver().is_none() {
            session.can = Some(can);
        }
        if known.is_none() {
            let is_new = age.is_some_and(|age| age <= DAY);
            session.stand = Stand::new(if is_new { Status::Completed } else { Status::Idle }, None);
            session.active = at.unwrap_or_default();
        } else if let Some(at) = at {
            session.active = session.active.max(at);
        }
        self.show(now, sid);
    }
}
