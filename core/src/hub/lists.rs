//! Lists of sessions: when an agent is asked for one, and what is made of its pages.

use std::sync::Arc;
use std::time::Duration;

use super::agents::Run;
use super::book::{Listing, SourceId, Stand};
use super::machine::Hub;
use super::open::{Clock, Expects};
use crate::acp::session::{SessionInfo, SessionList};
use crate::machine::Now;
use crate::session::Wish;

/// Pages of a list.
#[derive(Debug)]
pub(super) struct Rows {
    sessions: Vec<SessionInfo>,
    pages: usize,
    since: Duration,
}

impl Hub {
    /// Asks an agent that is up for its sessions.
    pub(super) fn list(&mut self, now: Now, id: &Arc<str>) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let Run::Up(source) = agent.run else { return };
        if agent.listing.is_some() || !agent.can.is_some_and(|can| can.list) {
            return self.close_if_for_list(now, id);
        }
        agent.listing = Some(Rows { sessions: Vec::new(), pages: 0, since: now.unix });
        agent.listed = Some(now.mono);
        self.list_page(now, id, source, None);
    }

    fn list_page(&mut self, now: Now, id: &Arc<str>, source: SourceId, cursor: Option<String>) {
        let wish = Wish::List { cwd: None, cursor };
        if self.wish(now, source, wish, Expects::List(Arc::clone(id))).is_err() {
            self.list_over(now, id, false);
        }
    }

    /// One page, or the reason why there is none.
    pub(super) fn page(&mut self, now: Now, source: SourceId, id: &Arc<str>, page: Option<SessionList>) {
        let Some(rows) = self.agents.get_mut(id).and_then(|agent| agent.listing.as_mut()) else { return };
        let Some(page) = page else { return self.list_over(now, id, false) };
        rows.pages += 1;
        rows.sessions.extend(page.sessions);
        match page.next_cursor {
            Some(cursor) if rows.pages < PAGES => self.list_page(now, id, source, Some(cursor)),
            more => self.list_over(now, id, more.is_none()),
        }
    }

    fn list_over(&mut self, now: Now, id: &Arc<str>, complete: bool) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let (rows, can) = (agent.listing.take(), agent.can.unwrap_or_default());
        if let Some(Rows { sessions, since, pages }) = rows.filter(|rows| rows.pages > 0) {
            let complete = complete && pages <= PAGES;
            let listing = Listing { agent: Arc::clone(id), can, sessions, complete, since };
            let watch = &self.watch;
            self.book.listed(now, listing, |sid| watch.has(sid));
        }
        self.close_if_for_list(now, id);
        self.list_later(now, id);
    }

    /// A process that was started for a list has no other use.
    fn close_if_for_list(&mut self, now: Now, id: &Arc<str>) {
        if self.agents.get(id).is_some_and(|agent| agent.for_list) {
            self.dismiss(now, id, &Stand::default());
        }
    }

    /// The next list, while somebody wants to know.
    pub(super) fn list_later(&mut self, now: Now, id: &Arc<str>) {
        let Some(agent) = self.agents.get(id).filter(|agent| agent.is_listing()) else { return };
        if !self.is_looked_at(now) {
            return;
        }
        let every = match agent.run {
            Run::Up(_) | Run::Starting(_) => self.config.timeouts.list,
            Run::Down | Run::Launching | Run::Leaving(_) => self.config.timeouts.list_start,
        };
        match agent.listed.map(|at| at + every).filter(|at| *at > now.mono) {
            Some(at) => drop(self.clocks.insert((at, Clock::List(Arc::clone(id))))),
            None => self.list_due(now, id),
        }
    }

    /// The clock of a list.
    pub(super) fn list_due(&mut self, now: Now, id: &Arc<str>) {
        let looked = self.is_looked_at(now);
        let Some(agent) = self.agents.get_mut(id).filter(|agent| looked && agent.is_listing()) else {
            return;
        };
        let launches = self.config.eager && agent.run == Run::Down && agent.can.is_none_or(|can| can.list);
        match agent.run {
            Run::Up(_) if agent.listed.is_none_or(|at| at + self.config.timeouts.list <= now.mono) => {
                self.list(now, id);
            }
            Run::Down if launches => {
                (agent.for_list, agent.listed) = (true, Some(now.mono));
                self.launch(id);
            }
            Run::Down | Run::Launching | Run::Starting(_) | Run::Up(_) | Run::Leaving(_) => {}
        }
    }

    /// Whether lists are kept up to date.
    fn is_looked_at(&self, now: Now) -> bool {
        let looked = self.looked.is_some_and(|at| now.mono.since(at) < self.config.timeouts.looked);
        self.config.eager || self.watch.has_all() || looked
    }
}

/// Pages that are read of a list; one that is longer is not complete.
const PAGES: usize = 5;
