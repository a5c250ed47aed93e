//! Commands that only look, and those that wait.

use std::cmp::Reverse;
use std::time::Duration;

use super::{Desk, reply};
use crate::control::{Answer, Key};
use crate::hub::api::{
    Reason, SessionBrief, SessionShow, SessionWait, SessionsList, Status, Waited, WaitedFor,
};
use crate::hub::book::{Book, Sid, WEEK};
use crate::hub::machine::Hub;
use crate::hub::open::{Clock, Wait, Wants};
use crate::hub::show;
use crate::machine::Now;

impl Hub {
    /// Sessions as rows, newest first.
    pub(super) fn sessions_list(&mut self, now: Now, it: &SessionsList) -> Desk {
        self.look(now);
        let sids = newest_first(&self.book);
        let after = it.after.as_deref().map(|word| self.sid(word)).transpose()?;
        let from = after.and_then(|sid| sids.iter().position(|of| *of == sid)).map_or(0, |at| at + 1);
        let rows = sids.iter().skip(from).filter(|sid| is_listed(&self.book, now, **sid, it));
        let rows: Vec<SessionBrief> =
            rows.take(it.limit.unwrap_or(usize::MAX)).map(|sid| self.brief(now, *sid)).collect();
        reply::<SessionsList>(&rows)
    }

    /// Somebody looks at all sessions: lists are kept up to date for a while.
    pub(super) fn look(&mut self, now: Now) {
        self.looked = Some(now.mono);
        for id in self.agents.keys().cloned().collect::<Vec<_>>() {
            self.list_later(now, &id);
        }
    }

    /// The messages: those that are known, or those that the agent is asked for.
    pub(super) fn session_show(&mut self, now: Now, key: Key, it: &SessionShow) -> Desk {
        let sid = self.sid(&it.session_id)?;
        if it.load != Some(false) && self.show_stored(key, sid, it.tail) {
            return Ok(None);
        }
        let session = self.book.get(sid).ok_or_else(|| super::no_session(&it.session_id))?;
        let known = session.running().is_some()
            || session.link().is_some()
            || (session.story.complete && session.driver().is_some());
        let loads = session.can.is_none_or(|can| can.load) && session.name.is_some();
        let usable = self.agents.get(&session.home.agent).is_some_and(|agent| agent.is_usable());
        if known || it.load == Some(false) || !loads || !usable || session.archived {
            let messages = show::messages(sid, session, it.tail);
            return reply::<SessionShow>(&messages);
        }
        self.book.open(now, sid).map_err(|no| self.no(sid, no))?;
        self.wait_for(now, sid, key, Wants::Messages(it.tail), false);
        Ok(None)
    }

    /// Answers when nothing runs and nothing is about to.
    pub(super) fn session_wait(&mut self, now: Now, key: Key, it: &SessionWait) -> Desk {
        let sid = self.sid(&it.session_id)?;
        if let Some(reason) = self.waited(sid, it.through_questions) {
            return reply::<SessionWait>(&self.waited_for(now, sid, reason));
        }
        let after = it.timeout_ms.map(|timeout| Duration::from_millis(timeout.min(MONTH_MS)));
        let due = after.map(|after| now.mono + after);
        self.clocks.extend(due.map(|due| (due, Clock::Wait(key))));
        self.waits.insert(key, Wait { sid, through: it.through_questions, due });
        Ok(None)
    }

    /// Nobody waits there any more.
    pub(super) fn end_wait(&mut self, key: Key) -> Option<Wait> {
        let wait = self.waits.remove(&key)?;
        wait.due.map(|due| self.clocks.remove(&(due, Clock::Wait(key))));
        Some(wait)
    }

    /// Something changed about a session: who waits for its end may be answered.
    pub(in super::super) fn check_waits(&mut self, now: Now, sid: Sid) {
        let over: Vec<(Key, bool)> = self
            .waits
            .iter()
            .filter(|(_, wait)| wait.sid == sid)
            .map(|(key, wait)| (*key, wait.through))
            .collect();
        for (key, through) in over {
            if self.book.get(sid).is_none() {
                self.end_wait(key);
                self.fail(now, key, super::no_session(&sid.to_string()));
            } else if let Some(reason) = self.waited(sid, through) {
                self.end_wait(key);
                let waited = self.waited_for(now, sid, reason);
                self.answer(now, key, Answer::reply(&waited));
            }
        }
    }

    /// The time of a wait is over.
    pub(in super::super) fn wait_over(&mut self, now: Now, key: Key) {
        if let Some(wait) = self.end_wait(key) {
            let waited = self.waited_for(now, wait.sid, WaitedFor::Timeout);
            self.answer(now, key, Answer::reply(&waited));
        }
    }

    fn waited_for(&self, now: Now, sid: Sid, reason: WaitedFor) -> Waited {
        let message = self.book.get(sid).and_then(|session| show::last_message(sid, session));
        Waited { session: self.brief(now, sid), message, reason }
    }

    fn waited(&self, sid: Sid, through: bool) -> Option<WaitedFor> {
        let session = self.book.get(sid)?;
        if session.questions() > 0 {
            return (!through).then_some(WaitedFor::WaitingApproval);
        }
        if session.is_busy() || self.opening.contains_key(&sid) {
            return None;
        }
        if session.held().is_some() && session.stand().reason != Some(Reason::StartFailed) {
            return Some(WaitedFor::Held);
        }
        Some(match session.stand().status {
            Status::Completed => WaitedFor::Completed,
            Status::Cancelled => WaitedFor::Cancelled,
            Status::Error => WaitedFor::Error,
            Status::Idle
            | Status::Connecting
            | Status::Running
            | Status::WaitingApproval
            | Status::Archived => WaitedFor::Idle,
        })
    }
}

/// The longest wait that has a clock.
const MONTH_MS: u64 = 30 * 24 * 3600 * 1000;

/// The sessions of a book, newest first.
pub(in crate::hub) fn newest_first(book: &Book) -> Vec<Sid> {
    let mut sids: Vec<_> = book.sessions().map(|(sid, session)| Reverse((session.active, sid))).collect();
    sids.sort_unstable();
    sids.into_iter().map(|Reverse((_, sid))| sid).collect()
}

/// Whether a list has that session.
pub(in crate::hub) fn is_listed(book: &Book, now: Now, sid: Sid, it: &SessionsList) -> bool {
    let Some(session) = book.get(sid) else { return false };
    let (status, _) = session.status_at(now.unix);
    let shown = match it.archived {
        Some(archived) => session.archived == archived,
        None => it.all || !session.archived,
    };
    let recent = it.all || session.is_busy() || now.unix.saturating_sub(session.active) <= WEEK;
    shown
        && recent
        && it.status.is_none_or(|wanted| wanted == status)
        && it.agent.as_deref().is_none_or(|agent| agent == &*session.home.agent)
        && it.cwd.as_deref().is_none_or(|cwd| cwd == &*session.home.cwd)
}
