//! What an agent lists as its sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Book, Home, RECORDS, Session, Sid, Stand};
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
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

impl Book {
    /// Takes a list in: what is new is added, what is known gets its title and time, and after a complete list what an
    /// earlier one had and this one has not is forgotten, unless it is in use, `watched`, or newer than the list.
    pub fn listed(&mut self, now: Now, listing: Listing, watched: impl Fn(Sid) -> bool) {
        let Listing { agent, can, sessions, complete, since } = listing;
        let mut seen: BTreeSet<Name> = BTreeSet::new();
        for row in sessions {
            if seen.insert(row.session_id.clone()) {
                self.list_row(now, &agent, can, &row);
            }
        }
        if !complete {
            return;
        }
        let is_gone = |sid: Sid, session: &Session| {
            session.listed
                && session.name.as_ref().is_some_and(|name| !seen.contains(name))
                && session.active < since
                && !session.is_in_use()
                && !watched(sid)
        };
        let gone = self.of(&agent).filter(|sid| self.get(*sid).is_some_and(|it| is_gone(*sid, it)));
        for sid in gone.collect::<Vec<_>>() {
            self.forget(sid);
        }
    }

    fn list_row(&mut self, now: Now, agent: &Arc<str>, can: Can, row: &SessionInfo) {
        let name = &row.session_id;
        let at = row.updated_at.as_deref().and_then(Timestamp::parse).map(|Timestamp(at)| at);
        let age = at.map(|at| now.unix.saturating_sub(at));
        let known = self.find(agent, name);
        let sid = match known {
            Some(sid) => sid,
            None if age.is_some_and(|age| age > WEEK) || self.of(agent).len() >= RECORDS => return,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::ContentBlock;
    use crate::hub::book::{Do, Fact, Prompt, SourceId};
    use crate::machine::Time;

    const SINCE: Duration = Duration::from_secs(1_800_000_000);

    fn at(seconds: u64) -> Now {
        Now { mono: Time::ZERO, unix: SINCE + Duration::from_secs(seconds) }
    }

    fn row(name: &str, age: Option<u64>) -> SessionInfo {
        SessionInfo {
            session_id: name.into(),
            cwd: "/w".to_owned(),
            additional_directories: Vec::new(),
            title: Some(format!("about {name}")),
            updated_at: age.map(|age| Timestamp(SINCE - Duration::from_secs(age)).to_string()),
        }
    }

    fn list(book: &mut Book, now: u64, rows: Vec<SessionInfo>, complete: bool) -> Vec<String> {
        let can = Can { load: true, prompt: true, ..Can::default() };
        let since = at(now).unix;
        let listing = Listing { agent: "one".into(), can, sessions: rows, complete, since };
        book.listed(at(now), listing, |sid| sid == Sid(2));
        let shown =
            book.sessions().map(|(_, it)| format!("{} {:?}", it.name.as_ref().unwrap(), it.status().0));
        shown.collect()
    }

    #[test]
    fn what_is_listed_comes_in_by_its_age_and_the_first_of_a_name_counts() {
        let mut book = Book::default();
        let day = 24 * 3600;
        let rows = vec![
            row("new", Some(60)),
            row("old", Some(2 * day)),
            row("timeless", None),
            row("ancient", Some(8 * day)),
            SessionInfo { title: Some("a second of it".to_owned()), ..row("new", Some(1)) },
        ];
        let known = list(&mut book, 0, rows, true);
        assert_eq!(known, ["new Completed", "old Idle", "timeless Idle"]);
        assert_eq!(book.get(Sid(1)).and_then(|it| it.story.title()), Some("about new"));
    }

    #[test]
    fn only_a_complete_list_makes_forget_and_only_what_an_earlier_one_had_and_nobody_uses() {
        let mut book = Book::default();
        let all =
            || ["gone", "watched", "prompted", "younger", "kept"].map(|name| row(name, Some(60))).to_vec();
        list(&mut book, 0, all(), true);
        let home = Home { agent: "one".into(), cwd: "/w".into() };
        book.add_named(at(0), home, "never listed".into());
        let words = vec![ContentBlock::text("x")];
        book.prompt(at(0), Sid(3), Prompt { words, by: None, at: SINCE }).unwrap();
        let kept = || vec![row("kept", Some(60))];
        assert_eq!(list(&mut book, 10, kept(), false).len(), 6);
        while book.poll().is_some() {}
        let known = list(&mut book, 10, kept(), true);
        let names: Vec<&str> =
            known.iter().filter_map(|row| row.rsplit_once(' ')).map(|(name, _)| name).collect();
        assert_eq!(names, ["watched", "prompted", "kept", "never listed"]);
        let told = std::iter::from_fn(|| book.poll());
        let gone = told.filter(|what| matches!(what, Do::Tell(Some(Sid(1 | 4)), Fact::Changed))).count();
        assert_eq!(gone, 2);
    }

    #[test]
    fn those_that_are_in_use_are_kept_whatever_their_number_and_go_when_they_are_not() {
        let mut book = Book::default();
        let (link, can) = (SourceId(7), Can { prompt: true, ..Can::default() });
        let home = || Home { agent: "one".into(), cwd: "/w".into() };
        for number in 0..1000 {
            let name: Name = (*format!("n{number}")).into();
            let sid = book.add_named(at(number), home(), name.clone());
            assert!(book.announce(at(number), sid, link, name, can));
            while book.poll().is_some() {}
        }
        assert_eq!(book.of("one").len(), 1000);
        book.down(at(1000), link, &Stand::default());
        book.add(at(1001), home());
        let left: Vec<Sid> = book.of("one").collect();
        assert_eq!((left.len(), left.first(), left.last()), (RECORDS, Some(&Sid(802)), Some(&Sid(1001))));
        assert!(book.sessions().map(|(sid, _)| sid).eq(left));
    }

    #[test]
    fn what_was_stored_is_spared_at_first_and_longer_where_the_clock_is_far_ahead() {
        let day = 24 * 3600;
        for (ahead, spared) in [(0, 600), (8 * day, day)] {
            let mut book = Book::default();
            let home = || Home { agent: "one".into(), cwd: "/w".into() };
            let mut old = Book::default();
            for _ in 0..RECORDS {
                let sid = old.add(at(0), home());
                book.take_up(at(ahead), old.record(sid).expect("a record"), Vec::new());
            }
            let after = |seconds: u64| Now { mono: Time::from_micros(seconds * 1_000_000), ..at(ahead) };
            book.add(after(spared - 1), home());
            assert_eq!(book.sessions().count(), RECORDS + 1);
            book.add(after(spared), home());
            assert_eq!(book.sessions().count(), RECORDS, "{ahead}");
        }
    }

    #[test]
    fn a_list_of_more_than_are_kept_burns_no_numbers() {
        let mut book = Book::default();
        let rows = || (0..300).map(|n| row(&format!("n{n}"), Some(60))).collect::<Vec<_>>();
        assert_eq!(list(&mut book, 0, rows(), false).len(), RECORDS);
        assert_eq!(list(&mut book, 60, rows(), false).len(), RECORDS);
        let sid = book.add(at(0), Home { agent: "one".into(), cwd: "/w".into() });
        assert_eq!((sid, book.sessions().count()), (Sid(201), RECORDS));
    }
}
