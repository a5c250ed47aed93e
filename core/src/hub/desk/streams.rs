//! Streams: how one begins, goes on after a gap, and ends.

use super::Desk;
use crate::control::{Answer, Key};
use crate::hub::api::{By, Frame, Happening, SessionWatch, SessionsWatch, Synced};
use crate::hub::book::Sid;
use crate::hub::frames;
use crate::hub::machine::Hub;
use crate::hub::open::Clock;
use crate::hub::show;
use crate::hub::watch::{Place, Watcher};
use crate::machine::Now;
use crate::rpc::Json;

impl Hub {
    pub(super) fn session_watch(&mut self, now: Now, key: Key, it: &SessionWatch) -> Desk {
        let sid = self.sid(&it.session_id)?;
        let SessionWatch { thoughts, raw, attended, .. } = *it;
        self.watch.add(Place::Session(sid), Watcher { key, thoughts, raw, attended });
        self.show_state(now, key, Place::Session(sid), it.tail);
        Ok(None)
    }

    pub(super) fn sessions_watch(&mut self, now: Now, key: Key, it: &SessionsWatch) -> Desk {
        let SessionsWatch { thoughts, raw, attended } = *it;
        self.watch.add(Place::All, Watcher { key, thoughts, raw, attended });
        self.look(now);
        self.show_state(now, key, Place::All, 0);
        Ok(None)
    }

    /// A watcher that lost frames is shown how things stand.
    pub(in super::super) fn show_again(&mut self, now: Now, key: Key) {
        if let Some(place) = self.watch.place(key) {
            self.show_state(now, key, place, 0);
        }
    }

    /// How things stand, and that it is told.
    pub(super) fn show_state(&mut self, now: Now, key: Key, place: Place, tail: usize) {
        let about = |sid: Sid, turn, what| frames::frame(sid, turn, now.unix, what).to_json();
        let nobody = |what| {
            let timestamp = Some(show::time(now.unix));
            Frame { session_id: None, turn: None, timestamp, what, raw: None }.to_json()
        };
        let mut state: Vec<Json> = Vec::new();
        match place {
            Place::Session(sid) => {
                state.push(about(sid, None, self.brief(now, sid).into()));
                state.extend(self.old(sid, tail).into_iter().map(|what| about(sid, None, what)));
                let turn = self.book.get(sid).and_then(|session| session.running()).map(|(turn, _)| turn.0);
                state.extend(self.turn(sid).into_iter().map(|what| about(sid, turn, what)));
                state.push(about(sid, None, Synced::default().into()));
            }
            Place::All => {
                let open = self.book.sessions().filter(|(_, session)| !session.archived);
                state.extend(open.map(|(sid, _)| about(sid, None, self.brief(now, sid).into())));
                let asks = self.book.open_asks().filter_map(|ask| Some((ask.sid?, frames::asked(ask))));
                state.extend(asks.map(|(sid, what)| about(sid, None, what)));
                state.push(nobody(Synced::default().into()));
            }
            Place::Questions => {
                state.extend(self.book.open_asks().map(|ask| nobody(show::approval(ask).into())));
                state.push(nobody(Synced::default().into()));
            }
        }
        self.state(now, key, state);
    }

    /// The last messages before the turn that runs: its own words come as they came.
    fn old(&self, sid: Sid, tail: usize) -> Vec<Happening> {
        let Some(session) = self.book.get(sid) else { return Vec::new() };
        let transcript = &session.story.transcript;
        let running = session.running().map(|_| transcript.turn());
        let old = transcript.entries().rev().filter(|entry| Some(entry.turn) != running).take(tail);
        let mut old: Vec<Happening> = old.map(|entry| show::message(sid, entry).into()).collect();
        old.reverse();
        old
    }

    /// The turn that runs, and the questions that are open.
    fn turn(&self, sid: Sid) -> Vec<Happening> {
        let asks = self.book.open_asks().filter(|ask| ask.sid == Some(sid)).map(frames::asked);
        let so_far = self.book.get(sid).map(frames::so_far).unwrap_or_default();
        so_far.into_iter().chain(asks).collect()
    }

    /// A session's row is another one.
    pub(in super::super) fn changed(&mut self, now: Now, sid: Sid) {
        if self.book.get(sid).is_none() {
            // Nothing is told of it after that.
            return self.end_watches(now, sid, "deleted");
        }
        if self.watch.of(sid).next().is_none() {
            return;
        }
        let row = self.brief(now, sid);
        let json = frames::frame(sid, None, now.unix, row.into()).to_json();
        let keys: Vec<Key> = self.watch.of(sid).map(|watcher| watcher.key).collect();
        for key in keys {
            self.frame(now, key, json.clone());
        }
    }

    /// Nothing more will happen in that session for those who follow it alone.
    pub(in super::super) fn end_streams(&mut self, now: Now, sid: Sid, why: &str) {
        self.perform_all(now);
        self.end_watches(now, sid, why);
    }

    fn end_watches(&mut self, now: Now, sid: Sid, why: &str) {
        for watcher in self.watch.take(sid) {
            self.answer(now, watcher.key, Answer::End(why.to_owned()));
        }
    }

    /// A client is gone, with all that it waited for.
    pub(in super::super) fn forget(&mut self, now: Now, key: Key) {
        self.watch.remove(key);
        self.end_wait(key);
        let clocks = &mut self.clocks;
        self.starts.retain(|sid, starts| {
            starts.retain(|start| {
                start.key != key || {
                    clocks.remove(&(start.due, Clock::Start(*sid, key)));
                    false
                }
            });
            !starts.is_empty()
        });
        if let Some(id) = self.programs.remove(&key) {
            self.book.take_back(now, id, By::Withdrawn);
        }
    }
}
