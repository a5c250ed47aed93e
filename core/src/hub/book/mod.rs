//! Who may speak in which session, what waits, and what is asked: pure, without links and without a wire.
//!
//! ```text
//!          prompt                 driver known            Ended, Lost, refused
//!  (none) ───────► queued ──────────────────────► turn ───────────────────────► ended, told once
//!                    │  no driver: Open, then again   │ stop, 5 s: ended for readers; the source is `stuck`
//!                    └── not opened, closed: not sent └──────────► until it says Ended after all, or is down
//! ```
//!
//! * A prompt has its [`TurnId`] from acceptance on, and ends once: it is queued, or it is the turn that runs, or it has
//!   ended.
//! * Whoever drives a session is looked up in the step that sends: a link that has it, else the child that has it open.
//! * Only the end of a step moves a queue. Settling a question never does, nor does the end of a turn by itself.
//! * Nothing is sent while a question is open, while the queue is held, or while the source is stuck with a turn that was
//!   given up.
//! * A question is settled once, and its source is answered at most once.
//!
//! What follows from a call is taken out with [`Book::poll`], in order, and has to be performed before the book is told
//! anything else: a fact stands before the news that came after it.

mod asks;
mod listing;
mod orders;
mod record;
mod session;
mod story;
mod transcript;
mod turns;

pub use self::asks::{Answer, Ask, Settlement};
pub use self::listing::{Listing, WEEK};
pub use self::record::{Kept, Record};
pub use self::session::{Home, Session};
pub use self::story::{Spent, Story};
pub use self::transcript::{Entry, Transcript};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::asks::Asks;
use super::api::{By, Dispatched, LastError, Origin, Reason, Status};
use crate::acp::ContentBlock;
use crate::machine::{Deadline, Now, Refused, Time};
use crate::session::{Can, Ended, Name, Outcome, TurnId, Wish};

/// The number of a session's handle: `s12`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sid(pub u32);

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// The number of a question's id: `a7`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(pub u32);

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

/// One life of one link: a relaunch is another source, so nothing of the old one can be taken for the new one's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceId(pub u32);

/// What somebody said to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The words, and what goes with them.
    pub words: Vec<ContentBlock>,
    /// Who said it.
    pub by: Option<Origin>,
    /// When, since the Unix epoch.
    pub at: Duration,
}

impl Prompt {
    /// The text, without pictures.
    #[must_use]
    pub fn text(&self) -> String {
        self.words.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
    }

    /// How many pictures and the like go with it.
    #[must_use]
    pub fn attachments(&self) -> usize {
        self.words.iter().filter(|block| block.as_text().is_none()).count()
    }
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Do {
    /// It has no driver and wants one: open it somewhere, then say [`opened`](Book::opened) or
    /// [`not_opened`](Book::not_opened).
    Open(Sid),
    /// For this source. A prompt that it refuses is reported by [`refused`](Book::refused).
    Wish(SourceId, Sid, Wish),
    /// An answer, to that source.
    Answer(SourceId, Wish),
    /// It goes on with a turn that was given up, and no other turn runs there: its process has to be another one.
    Replace(SourceId),
    /// What has to survive changed.
    Keep(Kept),
    /// For readers.
    Tell(Option<Sid>, Fact),
}

/// What the book says to readers.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A prompt waits, in that place, from 1.
    Queued(TurnId, usize, Arc<Prompt>),
    /// A turn runs from here on. Without a prompt: somebody began it at the source's own end.
    Began(TurnId, Option<Arc<Prompt>>),
    /// A turn is over.
    Ended(Box<TurnEnd>),
    /// A prompt is over without having been sent.
    NotSent(TurnId, &'static str),
    /// The session's row changed: its status, name, title, policy, or that it is gone.
    Changed,
    /// A question is open.
    Asked(ApprovalId),
    /// A question is over.
    Settled(ApprovalId),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// Which.
    pub turn: TurnId,
    /// How.
    pub how: Outcome,
    /// Where that leaves the session.
    pub stand: Stand,
    /// What its source said of it.
    pub ended: Option<Ended>,
}

impl TurnEnd {
    /// The agent's own word for it.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        self.ended.as_ref()?.word.as_deref()
    }

    /// What it cost, as written.
    #[must_use]
    pub fn spent(&self) -> Option<&crate::rpc::Json> {
        self.ended.as_ref()?.spent.as_ref()
    }
}

/// Where a session stands while nothing runs and nothing is asked.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Stand {
    /// Idle, completed, cancelled or error.
    pub status: Status,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<LastError>,
}

impl Stand {
    /// Without more to say.
    #[must_use]
    pub const fn new(status: Status, reason: Option<Reason>) -> Self {
        Self { status, reason, error: None }
    }

    /// With an error for people.
    #[must_use]
    pub fn because(self, kind: &str, message: impl Into<String>) -> Self {
        Self { error: Some(LastError { kind: kind.to_owned(), message: message.into() }), ..self }
    }
}

/// What became of a prompt that was accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// Its number.
    pub turn: TurnId,
    /// How far it is.
    pub dispatched: Dispatched,
    /// Its place among those that wait, from 1; 0 when it does not.
    pub place: usize,
}

/// Why the book does nothing. Nothing changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum No {
    /// There is no such session.
    Session,
    /// It is archived.
    Archived,
    /// As many prompts as may wait do.
    Full,
    /// Something runs that excludes it.
    Running,
    /// There is no prompt that could be tried again.
    NothingToRetry,
    /// Its source cannot.
    Refused(Refused),
    /// No question was ever given that id.
    Question,
    /// The question is over: how, and by which option.
    Answered(By),
    /// The question takes no such answer.
    NotOffered,
}

/// Numbers that are never given twice, not even after a crash: they are taken in blocks, and a block that was begun is
/// never begun again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counters {
    /// The last handle that may have been given.
    pub sessions: u32,
    /// The last question's id that may have been given.
    pub approvals: u32,
    /// The last prompt's number that may have been given.
    pub turns: u64,
}

/// All sessions, prompts and questions.
#[derive(Debug, Default)]
pub struct Book {
    sessions: BTreeMap<Sid, Session>,
    names: BTreeMap<(Arc<str>, Name), Sid>,
    /// The sessions of each agent.
    of: BTreeMap<Arc<str>, Rows>,
    /// Nothing is forgotten for its number before.
    spared: Time,
    /// When the newest session of before was active.
    newest: Duration,
    /// Sessions that have or had to do with a source.
    at: BTreeMap<SourceId, BTreeSet<Sid>>,
    /// Sources that are to be replaced: nothing is sent there any more.
    leaving: BTreeSet<SourceId>,
    asks: Asks,
    clocks: BTreeSet<(Time, Sid)>,
    /// Nothing is sent any more.
    paused: bool,
    /// What is said is nobody's to read later.
    forgets: bool,
    given: Counters,
    reserved: Counters,
    files: VecDeque<Kept>,
    /// Sessions whose record is another one.
    dirty: BTreeSet<Sid>,
    out: VecDeque<Do>,
}

/// The sessions of an agent.
#[derive(Debug, Default)]
struct Rows {
    sids: BTreeSet<Sid>,
    /// With more than these it is looked whether some may go.
    enough: usize,
}

/// Prompts that may wait in one session.
pub const QUEUE: usize = 16;
/// How long a child may take to confirm a cancel.
pub const CONFIRM: Duration = Duration::from_secs(5);
/// Sessions of one agent that are kept.
pub const RECORDS: usize = 200;
/// Numbers that are reserved at once.
const BLOCK: u32 = 64;

impl Book {
    /// An empty book that gives no number of before.
    #[must_use]
    pub fn new(before: Counters) -> Self {
        Self { given: before, reserved: before, ..Self::default() }
    }

    /// The same for one reader who says all prompts himself: nothing of what is said is kept or left out, and what a
    /// source repeats of a prompt is told like anything else.
    #[must_use]
    pub fn passing() -> Self {
        Self { forgets: true, ..Self::default() }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Do> {
        // All of a step is on disk before anything of it is said. A prompt goes before the record that no longer knows
        // it: a file that no record knows is a prompt that waits.
        if let Some(kept) = self.files.pop_front() {
            return Some(Do::Keep(kept));
        }
        if let Some(sid) = self.dirty.pop_first() {
            let kept = if self.sessions.contains_key(&sid) { Kept::Session(sid) } else { Kept::Gone(sid) };
            return Some(Do::Keep(kept));
        }
        self.out.pop_front()
    }

    /// All sessions, by handle.
    pub fn sessions(&self) -> impl DoubleEndedIterator<Item = (Sid, &Session)> {
        self.sessions.iter().map(|(sid, session)| (*sid, session))
    }

    /// A session.
    #[must_use]
    pub fn get(&self, sid: Sid) -> Option<&Session> {
        self.sessions.get(&sid)
    }

    /// The session that an agent calls by that name.
    #[must_use]
    pub fn find(&self, agent: &str, name: &Name) -> Option<Sid> {
        self.names.get(&(agent.into(), name.clone())).copied()
    }

    /// The questions that are open, by id.
    pub fn open_asks(&self) -> impl Iterator<Item = &Ask> {
        self.asks.open()
    }

    /// The questions that are over and still remembered, oldest first.
    pub fn settled_asks(&self) -> impl Iterator<Item = &Ask> {
        self.asks.settled()
    }

    /// A question that is open or remembered.
    #[must_use]
    pub fn ask(&self, id: ApprovalId) -> Option<&Ask> {
        self.asks.get(id)
    }

    /// Sessions that have to do with a source.
    pub fn at(&self, source: SourceId) -> impl Iterator<Item = Sid> {
        self.at.get(&source).into_iter().flatten().copied()
    }

    /// Whether a source has something to do, or will have.
    #[must_use]
    pub fn is_at_work(&self, source: SourceId) -> bool {
        self.at(source).any(|sid| self.get(sid).is_some_and(|session| session.is_at_work(source)))
    }

    /// When [`tick`](Self::tick) has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        self.clocks.first().map(|(at, _)| (*at, "confirm a cancel"))
    }

    /// A new session, which has no agent yet.
    pub fn add(&mut self, now: Now, home: Home) -> Sid {
        self.given.sessions += 1;
        self.reserve();
        let sid = Sid(self.given.sessions);
        let agent = Arc::clone(&home.agent);
        self.insert(sid, Session::new(now, home));
        self.prune(now, &agent, sid);
        self.show(now, sid);
        sid
    }

    fn insert(&mut self, sid: Sid, session: Session) {
        self.of.entry(Arc::clone(&session.home.agent)).or_default().sids.insert(sid);
        self.sessions.insert(sid, session);
    }

    /// The sessions that are known of an agent.
    pub fn of(&self, agent: &str) -> impl ExactSizeIterator<Item = Sid> {
        static NONE: BTreeSet<Sid> = BTreeSet::new();
        self.of.get(agent).map_or(&NONE, |rows| &rows.sids).iter().copied()
    }

    /// Sessions are bounded by number: of those of an agent at which nothing is at work, the ones that were active least
    /// recently go.
    fn prune(&mut self, now: Now, agent: &str, new: Sid) {
        let Some(rows) = self.of.get(agent) else { return };
        if now.mono < self.spared || rows.sids.len() <= rows.enough.max(RECORDS) {
            return;
        }
        let idle = |sid: &Sid| Some(self.sessions.get(sid)?).filter(|it| *sid != new && !it.is_in_use());
        let mut idle: Vec<(Duration, Sid)> =
            rows.sids.iter().filter_map(|sid| Some((idle(sid)?.active, *sid))).collect();
        idle.sort_unstable();
        idle.truncate(rows.sids.len() - RECORDS);
        // Those that are left are in use, or few: they need not be looked through for each new one.
        let left = rows.sids.len() - idle.len();
        for (_, sid) in idle {
            self.forget(sid);
        }
        if let Some(rows) = self.of.get_mut(agent) {
            rows.enough = left + (left - left.min(RECORDS)) / 4;
        }
    }

    /// A session that its agent has under that name.
    pub fn add_named(&mut self, now: Now, home: Home, name: Name) -> Sid {
        let sid = self.add(now, home);
        self.name(sid, name);
        self.show(now, sid);
        sid
    }

    /// What can be done with a session, as its agent said before it had it.
    pub fn can_be(&mut self, sid: Sid, can: Option<Can>) {
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.can = session.can.or(can);
        }
    }

    /// No number is given from here on: those that were reserved are not lost.
    pub fn put_down(&mut self) {
        if self.reserved != self.given {
            self.reserved = self.given;
            self.files.push_back(Kept::Counters(self.given));
        }
    }

    /// Whether what is old may be forgotten: the hub has run for some time, and its clock is right.
    #[must_use]
    pub fn may_forget(&self, now: Now) -> bool {
        now.mono >= self.spared
    }

    /// No prompt is sent from here on; all of them wait.
    pub const fn pause(&mut self) {
        self.paused = true;
    }

    fn turn_id(&mut self) -> TurnId {
        self.given.turns += 1;
        self.reserve();
        TurnId(self.given.turns)
    }

    /// Before a number is given, the block that it is from is on disk.
    fn reserve(&mut self) {
        let Counters { sessions, approvals, turns } = &mut self.reserved;
        let given = self.given;
        if given.sessions > *sessions || given.approvals > *approvals || given.turns > *turns {
            *sessions = (*sessions).max(given.sessions.saturating_add(BLOCK));
            *approvals = (*approvals).max(given.approvals.saturating_add(BLOCK));
            *turns = (*turns).max(given.turns.saturating_add(BLOCK.into()));
            self.files.push_back(Kept::Counters(self.reserved));
        }
    }

    fn tell(&mut self, sid: Sid, fact: Fact) {
        self.out.push_back(Do::Tell(Some(sid), fact));
    }

    fn wish(&mut self, source: SourceId, sid: Sid, wish: Wish) {
        self.out.push_back(Do::Wish(source, sid, wish));
    }

    /// A session has to do with a source from here on.
    fn meets(&mut self, source: SourceId, sid: Sid) {
        self.at.entry(source).or_default().insert(sid);
    }

    /// The session is called so by its agent from here on. Another one of that name gives it up.
    fn name(&mut self, sid: Sid, name: Name) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let agent = Arc::clone(&session.home.agent);
        if let Some(old) = session.name.replace(name.clone()) {
            self.names.remove(&(Arc::clone(&agent), old));
        }
        let other = self.names.insert((agent, name), sid).filter(|other| *other != sid);
        if let Some(other) = other.and_then(|other| self.sessions.get_mut(&other)) {
            other.name = None;
        }
    }

    /// The end of a step: what may go goes, and what readers see of the session is told if it changed.
    fn settle(&mut self, now: Now, sid: Sid) {
        self.go_on(now, sid);
        self.show(now, sid);
    }

    /// Tells and keeps a session's row, if it is another one.
    fn show(&mut self, now: Now, sid: Sid) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        if session.is_news() {
            session.updated = now.unix;
            self.dirty.insert(sid);
            self.tell(sid, Fact::Changed);
        }
    }
}

/// What a source can do of which nothing is known: it is asked, and says so.
#[must_use]
pub fn unknown() -> Can {
    Can { new: true, load: true, prompt: true, images: true, cancel: true, ..Can::default() }
}
