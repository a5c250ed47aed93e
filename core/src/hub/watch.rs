//! Who follows what.

use std::collections::BTreeMap;

use super::api::Frame;
use super::book::Sid;
use crate::control::Key;
use crate::rpc::Json;

/// Streams of clients, by what they follow.
#[derive(Debug, Default)]
pub(super) struct Watch {
    sessions: BTreeMap<Sid, Vec<Watcher>>,
    all: Vec<Watcher>,
    questions: Vec<Watcher>,
    places: BTreeMap<Key, Place>,
}

/// A stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Watcher {
    pub(super) key: Key,
    pub(super) thoughts: bool,
    pub(super) raw: bool,
    /// A person looks.
    pub(super) attended: bool,
}

/// What a stream follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    Session(Sid),
    All,
    Questions,
}

/// A frame that is encoded when the first one wants it, and then for all.
pub(super) struct Once<'a> {
    frame: Frame,
    raw: Option<&'a Json>,
    plain: Option<Json>,
    whole: Option<Json>,
}

impl<'a> Once<'a> {
    pub(super) const fn new(frame: Frame, raw: Option<&'a Json>) -> Self {
        Self { frame, raw, plain: None, whole: None }
    }

    /// As that stream wants it.
    pub(super) fn of(&mut self, watcher: &Watcher) -> Json {
        match self.raw.filter(|_| watcher.raw) {
            None => self.plain.get_or_insert_with(|| self.frame.to_json()).clone(),
            Some(raw) => {
                let frame = &mut self.frame;
                let whole = self.whole.get_or_insert_with(|| {
                    frame.raw = Some(raw.clone());
                    let whole = frame.to_json();
                    frame.raw = None;
                    whole
                });
                whole.clone()
            }
        }
    }
}

impl Watch {
    pub(super) fn add(&mut self, place: Place, watcher: Watcher) {
        self.places.insert(watcher.key, place);
        match place {
            Place::Session(sid) => self.sessions.entry(sid).or_default().push(watcher),
            Place::All => self.all.push(watcher),
            Place::Questions => self.questions.push(watcher),
        }
    }

    /// The client is gone.
    pub(super) fn remove(&mut self, key: Key) {
        let list = match self.places.remove(&key) {
            Some(Place::Session(sid)) => self.sessions.get_mut(&sid),
            Some(Place::All) => Some(&mut self.all),
            Some(Place::Questions) => Some(&mut self.questions),
            None => None,
        };
        if let Some(list) = list {
            list.retain(|watcher| watcher.key != key);
        }
        self.sessions.retain(|_, list| !list.is_empty());
    }

    /// What a stream follows.
    pub(super) fn place(&self, key: Key) -> Option<Place> {
        self.places.get(&key).copied()
    }

    /// Whoever follows a session, alone or with all others.
    pub(super) fn of(&self, sid: Sid) -> impl Iterator<Item = &Watcher> {
        self.sessions.get(&sid).into_iter().flatten().chain(&self.all)
    }

    /// Whoever follows the questions.
    pub(super) fn questions(&self) -> impl Iterator<Item = &Watcher> {
        self.questions.iter()
    }

    /// Whether somebody follows that session alone.
    pub(super) fn has(&self, sid: Sid) -> bool {
        self.sessions.contains_key(&sid)
    }

    /// Whether somebody follows all sessions.
    pub(super) fn has_all(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether a person looks at a session, or at its questions.
    pub(super) fn is_attended(&self, sid: Option<Sid>, question: bool) -> bool {
        let alone = sid.and_then(|sid| self.sessions.get(&sid)).into_iter().flatten();
        let questions = self.questions.iter().filter(|_| question);
        alone.chain(&self.all).chain(questions).any(|watcher| watcher.attended)
    }

    /// The streams of a session that is gone from readers.
    pub(super) fn take(&mut self, sid: Sid) -> Vec<Watcher> {
        let gone = self.sessions.remove(&sid).unwrap_or_default();
        for watcher in &gone {
            self.places.remove(&watcher.key);
        }
        gone
    }
}
