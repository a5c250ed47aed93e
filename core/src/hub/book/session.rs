//! What stands in the book about one session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{ApprovalId, Prompt, SourceId, Stand, Story, unknown};
use crate::hub::api::{LastError, Policy, Reason, Status};
use crate::machine::{Now, Time};
use crate::session::{Can, Name, Question, TurnId};

/// Where a session lives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Home {
    /// The agent's id.
    pub agent: Arc<str>,
    /// The workspace, absolute.
    pub cwd: Arc<str>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// Where it lives.
    pub home: Home,
    /// The user's name of it.
    pub label: Option<String>,
    /// What answers its permissions.
    pub policy: Policy,
    /// The model that its next process begins with, where that is a choice of the hub's.
    pub model: Option<String>,
    /// Whether it is out of the lists.
    pub archived: bool,
    /// What can be done with it; `None` while its agent never said.
    pub can: Option<Can>,
    /// The agent's name of it.
    pub name: Option<Name>,
    /// What was said in it.
    pub story: Story,
    /// When it came into the book, since the Unix epoch.
    pub created: Duration,
    /// When its row changed last.
    pub updated: Duration,
    /// The newest of prompt, word and end.
    pub active: Duration,
    /// Whether a list of its agent's had it.
    pub listed: bool,
    pub(super) child: Child,
    pub(super) link: Option<SourceId>,
    pub(super) turn: Option<Turn>,
    pub(super) stuck: Option<Stuck>,
    pub(super) queue: VecDeque<Queued>,
    pub(super) held: Option<Reason>,
    /// The question in words that the next prompt answers.
    pub(super) words: Option<ApprovalId>,
    /// Other questions that are open, and how many of them ask for more than a permission.
    pub(super) open: usize,
    pub(super) forms: usize,
    pub(super) stand: Stand,
    /// The last prompt, while it can be tried again.
    pub(super) last: Option<(TurnId, Arc<Prompt>)>,
    /// What readers were told last.
    told: Option<Face>,
}

/// A child of the hub's, as far as a session is concerned.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Child {
    #[default]
    None,
    Wanted,
    Open(SourceId),
}

/// The turn that runs.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: TurnId,
    pub(super) source: SourceId,
    /// Its words; none when somebody began it at the source's own end.
    pub(super) prompt: Option<Arc<Prompt>>,
    /// It was told to stop.
    pub(super) cancelled: bool,
    /// When a child has to have confirmed that.
    pub(super) due: Option<Time>,
}

/// Ended for readers, not for the source: nothing may be sent there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stuck {
    pub(super) source: SourceId,
    pub(super) turn: TurnId,
    /// Until when its end is waited for. A link has no clock.
    pub(super) due: Option<Time>,
    /// It was waited for long enough: the source may be replaced.
    pub(super) given_up: bool,
}

/// A prompt that waits.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) turn: TurnId,
    pub(super) prompt: Arc<Prompt>,
    /// The question in words that was open when it was said. It does not answer one that came later.
    pub(super) said_to: Option<ApprovalId>,
}

/// What readers see of a session without asking.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Face {
    status: Status,
    reason: Option<Reason>,
    held: Option<Reason>,
    queued: usize,
    policy: Policy,
    label: Option<String>,
    title: Option<String>,
    name: Option<Name>,
    error: Option<LastError>,
    live: bool,
    /// What only its record tells.
    runs: bool,
    last: Option<TurnId>,
}

impl Session {
    pub(super) fn new(now: Now, home: Home) -> Self {
        Self {
            home,
            label: None,
            policy: Policy::Ask,
            model: None,
            archived: false,
            can: None,
            name: None,
            story: Story::default(),
            created: now.unix,
            updated: now.unix,
            active: now.unix,
            listed: false,
            child: Child::None,
            link: None,
            turn: None,
            stuck: None,
            queue: VecDeque::new(),
            held: None,
            words: None,
            open: 0,
            forms: 0,
            stand: Stand::default(),
            last: None,
            told: None,
        }
    }

    /// Where it stands, without regard to its age.
    #[must_use]
    pub fn status(&self) -> (Status, Option<Reason>) {
        let asks = |reason| (Status::WaitingApproval, Some(reason));
        match () {
            () if self.archived => (Status::Archived, None),
            () if self.open > self.forms => asks(Reason::Permission),
            () if self.open > 0 || self.words.is_some() => asks(Reason::Question),
            () => match &self.turn {
                Some(turn) => (Status::Running, turn.cancelled.then_some(Reason::CancelAsked)),
                None if self.child == Child::Wanted => (Status::Connecting, None),
                None => (self.stand.status, self.stand.reason),
            },
        }
    }

    /// The same at a time of day: what was finished a day ago is idle.
    #[must_use]
    pub fn status_at(&self, unix: Duration) -> (Status, Option<Reason>) {
        match self.status() {
            (Status::Completed, _) if unix.saturating_sub(self.active) > DAY => (Status::Idle, None),
            other => other,
        }
    }

    /// How the last turn or start went.
    #[must_use]
    pub const fn stand(&self) -> &Stand {
        &self.stand
    }

    /// The turn that runs, with its words.
    #[must_use]
    pub fn running(&self) -> Option<(TurnId, Option<&Arc<Prompt>>)> {
        self.turn.as_ref().map(|turn| (turn.id, turn.prompt.as_ref()))
    }

    /// The prompts that wait, oldest first.
    pub fn queued(&self) -> impl ExactSizeIterator<Item = (TurnId, &Arc<Prompt>)> {
        self.queue.iter().map(|queued| (queued.turn, &queued.prompt))
    }

    /// What was said under that number, while it waits, runs, or can be tried again.
    #[must_use]
    pub fn said(&self, turn: TurnId) -> Option<&Arc<Prompt>> {
        let waits = self.queue.iter().find(|queued| queued.turn == turn).map(|queued| &queued.prompt);
        let runs = || self.turn.as_ref().filter(|it| it.id == turn).and_then(|it| it.prompt.as_ref());
        let last = || self.last.as_ref().filter(|(last, _)| *last == turn).map(|(_, prompt)| prompt);
        waits.or_else(runs).or_else(last)
    }

    /// Whether the next prompt is an answer.
    #[must_use]
    pub const fn asks_for_words(&self) -> bool {
        self.words.is_some()
    }

    /// Why they are not sent by themselves.
    #[must_use]
    pub const fn held(&self) -> Option<Reason> {
        self.held
    }

    /// Questions that are open.
    #[must_use]
    pub fn questions(&self) -> usize {
        self.open + usize::from(self.words.is_some())
    }

    /// Whether what waits is about to be sent, or something runs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.turn.is_some() || self.child == Child::Wanted || (!self.queue.is_empty() && self.held.is_none())
    }

    /// Whoever drives it: a link that has it, else the child that has it open.
    #[must_use]
    pub fn driver(&self) -> Option<SourceId> {
        self.link.or(self.child())
    }

    /// Whether somebody drives it, or is about to.
    #[must_use]
    pub fn is_driven(&self) -> bool {
        self.driver().is_some() || self.is_busy() || self.stuck.is_some()
    }

    /// The child that has it open.
    #[must_use]
    pub const fn child(&self) -> Option<SourceId> {
        if let Child::Open(source) = self.child { Some(source) } else { None }
    }

    /// The link that has it.
    #[must_use]
    pub const fn link(&self) -> Option<SourceId> {
        self.link
    }

    /// Whether it waits for a child.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.child == Child::Wanted
    }

    /// The source that goes on with a turn that was given up.
    #[must_use]
    pub fn stuck_at(&self) -> Option<SourceId> {
        self.stuck.map(|stuck| stuck.source)
    }

    /// Whose turn it is.
    #[must_use]
    pub fn turn_at(&self) -> Option<SourceId> {
        self.turn.as_ref().map(|turn| turn.source)
    }

    /// Whether that source has something to do for it, or will have.
    #[must_use]
    pub fn is_at_work(&self, source: SourceId) -> bool {
        self.turn_at() == Some(source)
            || self.stuck_at() == Some(source)
            || (self.driver() == Some(source) && !self.queue.is_empty() && self.held.is_none())
    }

    /// Whether anything is going on with it, or about to.
    pub(super) fn is_in_use(&self) -> bool {
        self.is_driven() || !self.queue.is_empty() || self.questions() > 0
    }

    /// What can be done with it, as far as that is known.
    #[must_use]
    pub fn can(&self) -> Can {
        self.can.unwrap_or_else(unknown)
    }

    /// Whether a process of its agent can open it, as far as that is known.
    #[must_use]
    pub fn is_openable(&self) -> bool {
        self.name.is_none() || self.can.is_none_or(|can| can.load || can.resume)
    }

    /// Whether there is a prompt or a start that could be tried again.
    #[must_use]
    pub fn can_retry(&self) -> bool {
        let failed = self.last.is_some() || self.stand.status == Status::Error;
        failed && self.turn.is_none() && !self.archived && self.child != Child::Wanted
    }

    /// Whether a turn runs, be it one that was given up.
    pub(super) fn runs(&self) -> bool {
        self.turn.is_some() || self.stuck.is_some()
    }

    /// Whether what a source says is about it.
    pub(super) fn is_at(&self, source: SourceId) -> bool {
        self.link == Some(source) || self.child() == Some(source) || self.stuck_at() == Some(source)
    }

    /// Whether a source may ask that now: a link whenever it has the session, a child in its turn, and words may be asked
    /// for at any time.
    pub(super) fn may_ask(&self, source: SourceId, question: &Question) -> bool {
        let is_words = matches!(question, Question::Words { .. });
        self.driver() == Some(source)
            && (is_words || self.link == Some(source) || self.turn_at() == Some(source))
    }

    /// Where the prompt that goes next stands: the oldest, or the oldest that was said to the open question.
    pub(super) fn next(&self) -> Option<usize> {
        self.queue.iter().position(|queued| self.words.is_none() || queued.said_to == self.words)
    }

    /// Whether nothing may be sent now.
    pub(super) fn waits(&self) -> bool {
        self.turn.is_some() || self.stuck.is_some() || self.held.is_some() || self.open > 0
    }

    /// What waits is not sent by itself from here on.
    pub(super) fn hold(&mut self, why: Reason) {
        self.held = (!self.queue.is_empty()).then_some(why);
    }

    /// Whether its row is another one than readers know.
    pub(super) fn is_news(&mut self) -> bool {
        if self.queue.is_empty() {
            self.held = None;
        }
        let (status, reason) = self.status();
        let face = Face {
            status,
            reason,
            held: self.held,
            queued: self.queue.len(),
            policy: self.policy,
            label: self.label.clone(),
            title: self.story.title().map(str::to_owned),
            name: self.name.clone(),
            error: self.stand.error.clone(),
            live: self.driver().is_some(),
            runs: self.runs(),
            last: self.last.as_ref().map(|(turn, _)| *turn),
        };
        let same = self.told.as_ref() == Some(&face);
        self.told = Some(face);
        !same
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);
