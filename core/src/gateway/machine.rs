//! The machine: routes what is heard, performs what the book says, and shows it to the front. No rule of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::api::{Command, Config, Event};
use super::front::{Front, Said, refusal};
use super::life::Life;
use super::source::introduce;
use crate::acp::SessionSetup;
use crate::closed::{Cause, Closed};
use crate::conversation::{Judge, Overspent, Policy, Purse};
use crate::hub::api::By as Settler;
use crate::hub::book::{ApprovalId, Book, Do, Fact, Home, No, Prompt, Sid, SourceId, TurnEnd};
use crate::machine::{Deadline, Ids, Input, Machine, Now, Output, Outputs, Refused, Tag, soonest};
use crate::nest::{Nest, Told as Nested};
use crate::rpc::{RpcError, code};
use crate::session::{
    AskId, By, Can, Done, Early, Ended, Item, Moment, Name, News, Open, Outcome, Question, Reply, Settled,
    Source, Told, Trouble, TurnId, Up, Wish, may,
};

/// A gateway. Its page is the [module's](super).
#[derive(Debug)]
pub struct Gateway {
    pub(super) front: Nest<(), Front>,
    pub(super) sources: Nest<SourceId, Source>,
    pub(super) book: Book,
    pub(super) life: Life,
    pub(super) lives: u32,
    /// What the agent said of itself when it was last up.
    pub(super) up: Option<Up>,
    /// The one session that there is, where there is only one.
    pub(super) single: Option<Only>,
    pub(super) names: BTreeMap<Name, Sid>,
    pub(super) sessions: BTreeMap<Sid, Session>,
    /// Sessions that wait for an agent.
    pub(super) wanted: BTreeSet<Sid>,
    /// Wishes that do, oldest first.
    pub(super) later: Vec<(Tag, Wish)>,
    /// The book's name of a prompt, and the front's.
    pub(super) prompts: BTreeMap<TurnId, (TurnId, Sid)>,
    /// What the agent has been asked for, by our tag.
    pub(super) expects: BTreeMap<Tag, (SourceId, Expects)>,
    /// Pages that were agreed to: the agent's name of the question, and the book's.
    pub(super) pages: BTreeMap<(SourceId, AskId), ApprovalId>,
    /// Files and terminals that were wanted, by the number that the front knows.
    pub(super) services: BTreeMap<AskId, (SourceId, AskId)>,
    pub(super) early: Early,
    pub(super) next: u64,
    is_full: bool,
    is_held: bool,
    pub(super) is_leaving: bool,
    has_ended: bool,
    ids: Ids,
    pub(super) config: Config,
    pub(super) out: Outputs<Event>,
}

/// A session, beside what the book has of it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) setup: Box<SessionSetup>,
    /// How the client wants it opened, until it is.
    pub(super) asked: Option<(Tag, Open)>,
    /// Who waits for it to be closed.
    closing: Option<Tag>,
    /// What its first turn begins with.
    pub(super) note: Option<String>,
    pub(super) judge: Judge,
    pub(super) purse: Purse,
    pub(super) overspent: Option<Overspent>,
    /// Somebody else's turn runs there, as far as that is known.
    pub(super) is_busy: bool,
    /// And our prompt went there meanwhile, so that it may wait behind.
    is_behind: bool,
}

/// The one session of a source that has no other.
#[derive(Clone, Debug)]
pub(super) struct Only {
    pub(super) name: Name,
    /// Where it works, wherever its client is.
    pub(super) cwd: String,
}

/// What the answer of an agent is for.
#[derive(Debug)]
pub(super) enum Expects {
    /// A session that is being opened.
    Open(Sid),
    /// The front, by its own tag.
    Front(Tag),
    /// Nobody.
    Nothing,
}

/// Tags are counted from there: prompts have numbers below, and to a source both are one space.
pub(super) const TAGS: u64 = 1 << 48;
/// Pages that were agreed to and are not done.
const PAGES: usize = 1024;

impl Machine for Gateway {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let mut this = Self {
            front: Nest::of((), Front::new(now, config.front.clone())),
            sources: Nest::default(),
            book: Book::passing(),
            life: Life::Down,
            lives: 0,
            up: None,
            single: None,
            names: BTreeMap::new(),
            sessions: BTreeMap::new(),
            wanted: BTreeSet::new(),
            later: Vec::new(),
            prompts: BTreeMap::new(),
            expects: BTreeMap::new(),
            pages: BTreeMap::new(),
            services: BTreeMap::new(),
            early: Early::default(),
            next: TAGS,
            is_full: false,
            is_held: false,
            is_leaving: false,
            has_ended: false,
            ids: Ids::default(),
            config,
            out: Outputs::default(),
        };
        this.settle(now);
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if self.has_ended {
            return;
        }
        match input {
            Input::Link(link, heard) => {
                let _ = self.front.handle(now, link, heard) || self.sources.handle(now, link, heard);
            }
            Input::Hold(held) => {
                self.is_held = held;
                self.front.hold_all(now, held);
                self.hold_sources(now);
            }
            // Neither side keeps files.
            Input::StoreFailed(..) | Input::Tick => {}
        }
        self.front.tick(now);
        self.sources.tick(now);
        self.book.tick(now);
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if self.has_ended || self.is_leaving {
            return Err(Refused::Closed);
        }
        match command {
            Command::Shutdown => {
                let closed = Closed { cause: Cause::Left, obituary: Default::default() };
                self.show(now, Told::Down(Box::new(closed)));
                self.leave(now);
            }
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        soonest(self.book.deadline(), soonest(self.front.deadline(), self.sources.deadline()))
    }
}

impl Gateway {
    /// The book, to be looked at.
    #[must_use]
    pub const fn book(&self) -> &Book {
        &self.book
    }

    /// The end of every step.
    fn settle(&mut self, now: Now) {
        loop {
            // First what follows from the last event: a fact stands before the news that came after it.
            if let Some(what) = self.book.poll() {
                self.perform(now, what);
            } else if let Some(((), said)) = self.front.next(&mut self.ids, &mut self.out) {
                if let Nested::Event(said) = said {
                    self.said(now, said);
                }
            } else if let Some((source, told)) = self.sources.next(&mut self.ids, &mut self.out) {
                match told {
                    Nested::Event(told) => self.told(now, source, told),
                    Nested::Ended => self.ended(now, source),
                }
            } else {
                break;
            }
        }
        if self.front.is_empty() && self.sources.is_empty() && !self.has_ended {
            self.has_ended = true;
            self.out.tell(Event::Closed);
            self.out.end();
        }
    }

    fn hold_sources(&mut self, now: Now) {
        self.sources.hold_all(now, self.is_held || self.is_full);
    }

    fn said(&mut self, now: Now, said: Said) {
        match said {
            Said::Introduced(who) => {
                if let Some(up) = &self.up {
                    return self.show(now, Told::Up(Box::new(up.clone())));
                }
                introduce(&mut self.config.source, *who);
                self.launch(now);
            }
            Said::Wish(tag, wish) => self.wished(now, tag, wish),
            Said::Withdraw(turn) => {
                let prompt = self.prompts.iter().find(|(_, (of, _))| *of == turn);
                if let Some((turn, (_, sid))) = prompt.map(|(turn, of)| (*turn, *of)) {
                    if self.would_hit_another(sid) {
                        let why = "Not cancelled: a turn of the session's own may run before this prompt, and would be cancelled instead.";
                        return self.news(now, sid, News::Note(why.to_owned()));
                    }
                    // Refused when it is over by itself, or when its source takes no cancel: then it ends by itself.
                    let _ = self.book.withdraw(now, sid, turn);
                }
            }
            Said::Full(full) => {
                self.is_full = full;
                self.hold_sources(now);
            }
            Said::Event(event) => self.out.tell(event),
            Said::Left => self.leave(now),
        }
    }

    fn wished(&mut self, now: Now, tag: Tag, wish: Wish) {
        match wish {
            Wish::Open(open, setup) => self.open(now, tag, open, setup),
            Wish::Prompt { session, turn, words } => {
                if let Err(trouble) = self.prompt(now, &session, turn, words) {
                    self.not_sent(now, session, turn, Some(trouble));
                }
            }
            Wish::Answer { ask, reply } => self.answer(now, ask, reply),
            Wish::Serve { ask, answer } => {
                if let Some((source, ask)) = self.services.remove(&ask) {
                    self.whatever(now, source, Wish::Serve { ask, answer });
                }
            }
            Wish::Close { session } => self.close(now, tag, &session),
            Wish::Cancel { session } => {
                if let Some(sid) = self.names.get(&session) {
                    // Refused when nothing runs there.
                    let _ = self.book.stop(now, *sid);
                }
            }
            wish @ (Wish::Accept
            | Wish::Refuse(_)
            | Wish::FileDone { .. }
            | Wish::List { .. }
            | Wish::Set { .. }
            | Wish::Aside { .. }
            | Wish::Rules(_)
            | Wish::OfRunner(_)
            | Wish::Delete { .. }
            | Wish::Login { .. }
            | Wish::Logout
            | Wish::Seen(_)
            | Wish::Leave) => self.pass(now, tag, wish),
        }
    }

    fn open(&mut self, now: Now, tag: Tag, open: Open, setup: Box<SessionSetup>) {
        let is_single = self.can().single && open == Open::New;
        if let (false, Err(trouble)) = (is_single, self.may(&Wish::Open(open.clone(), Box::default()))) {
            return self.done(now, tag, Err(trouble));
        }
        let known = match &open {
            Open::Load(name) | Open::Resume(name) => Some(name),
            Open::New | Open::Fork(_) => self.single.as_ref().filter(|_| is_single).map(|only| &only.name),
        };
        if let Some((name, sid)) = known.and_then(|name| Some((name, *self.names.get(name)?))) {
            if self.book.get(sid).is_some_and(|session| session.driver().is_some() || session.is_busy()) {
                let error = match open {
                    Open::Load(_) | Open::Resume(_) => {
                        RpcError::new(code::INVALID_REQUEST, "that session is open already")
                    }
                    Open::New | Open::Fork(_) => RpcError::invalid_params(format!(
                        "this agent is the session {name}, which is open: it has no other"
                    )),
                };
                return self.done(now, tag, Err(error));
            }
            // It was lost with an agent that is gone.
            self.forget(sid);
        }
        let sid = self.book.add(now, Home { agent: AGENT.into(), cwd: (&*setup.cwd).into() });
        let judge = Judge {
            policy: self.config.policy,
            rules: self.config.rules.clone(),
            cwd: setup.cwd.clone(),
            asks: self.config.policy == Policy::Ask,
        };
        let purse = Purse::new(self.config.budget);
        let asked = Some((tag, open));
        let session = Session {
            setup,
            asked,
            closing: None,
            note: None,
            judge,
            purse,
            overspent: None,
            is_busy: false,
            is_behind: false,
        };
        self.sessions.insert(sid, session);
        // Refused when it is archived, and nobody archives here.
        let _ = self.book.open(now, sid);
    }

    fn prompt(
        &mut self,
        now: Now,
        session: &Name,
        turn: TurnId,
        words: Vec<crate::acp::ContentBlock>,
    ) -> Result<(), Trouble> {
        let sid = *self.names.get(session).ok_or_else(|| refusal(Refused::Unknown))?;
        if let Some(overspent) = self.sessions.get(&sid).and_then(|session| session.overspent.as_ref()) {
            return Err(spent(overspent));
        }
        let taken = self.book.prompt(now, sid, Prompt { words, by: None, at: now.unix }).map_err(no)?;
        self.prompts.insert(taken.turn, (turn, sid));
        Ok(())
    }

    fn answer(&mut self, now: Now, ask: AskId, reply: Reply) {
        let Ok(id) = u32::try_from(ask.0).map(ApprovalId) else { return };
        let page = self.book.ask(id).and_then(|ask| match (&ask.asked.question, &reply) {
            (Question::Page { .. }, Reply::Accept(_)) => Some((ask.source()?, ask.asked.ask)),
            _ => None,
        });
        if let Some(page) = page {
            if self.pages.len() >= PAGES {
                self.pages.pop_first();
            }
            self.pages.insert(page, id);
        }
        // Refused when it is over by itself: whoever answers late has answered nothing.
        let _ = self.book.reply(now, id, reply, Settler::Client);
    }

    fn close(&mut self, now: Now, tag: Tag, name: &Name) {
        let Some(sid) = self.names.get(name).copied() else {
            return self.done(now, tag, Ok(Done::Fine));
        };
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.closing = Some(tag);
        }
        let _ = self.book.close(now, sid, "closed");
        self.drain(now);
        // There was nothing to ask of the agent.
        if let Some(tag) = self.sessions.get_mut(&sid).and_then(|session| session.closing.take()) {
            self.done(now, tag, Ok(Done::Fine));
        }
        self.forget(sid);
    }

    /// Nothing that is said of it from here on has a place.
    pub(super) fn forget(&mut self, sid: Sid) {
        self.names.retain(|_, of| *of != sid);
        self.wanted.remove(&sid);
        self.sessions.remove(&sid);
        self.book.forget(sid);
    }

    /// Whether a cancel might end what somebody else began.
    fn would_hit_another(&self, sid: Sid) -> bool {
        self.can().cancel_is_wide && self.sessions.get(&sid).is_some_and(|session| session.is_behind)
    }

    /// What concerns no turn and no question goes on as it is.
    pub(super) fn pass(&mut self, now: Now, tag: Tag, wish: Wish) {
        if let Err(trouble) = self.may(&wish) {
            return self.done(now, tag, Err(trouble));
        }
        let Life::Up(source) = self.life else {
            self.later.push((tag, wish));
            return self.launch(now);
        };
        if let Err(refused) = self.wish(now, source, wish, Expects::Front(tag)) {
            self.done(now, tag, Err(refusal(refused)));
        }
    }

    /// Whether the agent can, as far as it ever said. Settings can be changed at any time where they can at all: the agent
    /// itself says when they cannot.
    fn may(&self, wish: &Wish) -> Result<(), Trouble> {
        self.up.as_ref().map_or(Ok(()), |up| may(up.can, wish, false)).map_err(refusal)
    }

    pub(super) fn wish(
        &mut self,
        now: Now,
        source: SourceId,
        wish: Wish,
        expects: Expects,
    ) -> Result<(), Refused> {
        self.next += 1;
        let tag = Tag(self.next);
        self.sources.command(now, &source, (tag, wish))?;
        if !matches!(expects, Expects::Nothing) {
            self.expects.insert(tag, (source, expects));
        }
        Ok(())
    }

    /// Refused when it makes no difference any more: the question is over, the source is gone.
    pub(super) fn whatever(&mut self, now: Now, source: SourceId, wish: Wish) {
        let _ = self.wish(now, source, wish, Expects::Nothing);
    }

    /// All that the book has said.
    pub(super) fn drain(&mut self, now: Now) {
        while let Some(what) = self.book.poll() {
            self.perform(now, what);
        }
    }

    fn perform(&mut self, now: Now, what: Do) {
        match what {
            Do::Open(sid) => self.want(now, sid),
            Do::Wish(source, sid, wish) => self.perform_wish(now, source, sid, wish),
            Do::Answer(source, wish) => self.whatever(now, source, wish),
            Do::Replace(source) => self.replace(now, source),
            Do::Tell(Some(sid), fact) => self.fact(now, sid, fact),
            Do::Tell(None, _) | Do::Keep(_) => {}
        }
    }

    fn perform_wish(&mut self, now: Now, source: SourceId, sid: Sid, wish: Wish) {
        let prompt = if let Wish::Prompt { turn, .. } = wish { Some(turn) } else { None };
        let closing = match (&wish, self.sessions.get_mut(&sid)) {
            (Wish::Close { .. }, Some(session)) => session.closing.take(),
            _ => None,
        };
        let done = self.wish(now, source, wish, closing.map_or(Expects::Nothing, Expects::Front));
        match (done, prompt, closing) {
            (Err(refused), Some(turn), _) => self.book.refused(now, sid, turn, refused),
            (Err(refused), None, Some(tag)) => self.done(now, tag, Err(refusal(refused))),
            (Ok(()), ..) | (Err(_), None, None) => {}
        }
    }

    /// What the book says, in the words of a source.
    fn fact(&mut self, now: Now, sid: Sid, fact: Fact) {
        match fact {
            Fact::Began(turn, prompt) => {
                if let Some(session) = self.sessions.get_mut(&sid) {
                    session.purse.begin();
                    session.is_behind = session.is_busy;
                }
                let ours = self.prompts.get(&turn).filter(|_| prompt.is_some());
                let by = ours.map_or(By::There, |(turn, _)| By::Us(*turn));
                self.news(now, sid, News::Began(by));
                if let Some(note) = self.sessions.get_mut(&sid).and_then(|session| session.note.take()) {
                    self.news(now, sid, News::Note(note));
                }
            }
            Fact::Ended(end) => self.turn_ended(now, sid, *end),
            Fact::NotSent(turn, _) => {
                let Some((turn, _)) = self.prompts.remove(&turn) else { return };
                let Some(session) = self.book.get(sid) else { return };
                let error = session.stand().error.as_ref();
                let trouble = error.map(|error| RpcError::new(code::INTERNAL_ERROR, &*error.message));
                if let Some(name) = session.name.clone() {
                    self.not_sent(now, name, turn, trouble);
                }
            }
            Fact::Asked(id) => self.asked(now, sid, id),
            Fact::Settled(id) => {
                self.news(now, sid, News::Settled(AskId(id.0.into()), Settled::Withdrawn));
            }
            // Nobody is there who could say later that it may go on.
            Fact::Changed if self.book.get(sid).is_some_and(|session| session.held().is_some()) => {
                if !self.is_leaving {
                    let _ = self.book.release(now, sid);
                }
            }
            Fact::Queued(..) | Fact::Changed => {}
        }
    }

    fn turn_ended(&mut self, now: Now, sid: Sid, TurnEnd { turn, how, ended, .. }: TurnEnd) {
        let ours = self.prompts.remove(&turn).map(|(turn, _)| turn);
        let none = Ended { turn: None, how, word: None, trouble: None, spent: None, meta: None };
        let mut ended = Ended { turn: ours, how, ..ended.unwrap_or(none) };
        if let Some(overspent) = self.sessions.get(&sid).and_then(|session| session.overspent.as_ref()) {
            ended.how = Outcome::Failed;
            ended.trouble = Some(Box::new(spent(overspent)));
        }
        if let Some(session) = self.sessions.get_mut(&sid) {
            // The cost is the session's, the tools are those of a turn.
            session.overspent.take_if(|overspent| matches!(overspent, Overspent::Tools { .. }));
            (session.is_busy, session.is_behind) = (false, false);
        }
        self.news(now, sid, News::Ended(Box::new(ended)));
    }

    fn not_sent(&mut self, now: Now, session: Name, turn: TurnId, trouble: Option<Trouble>) {
        let (how, trouble) = (Outcome::NotSent, trouble.map(Box::new));
        let ended = Ended { turn: Some(turn), how, word: None, trouble, spent: None, meta: None };
        let news = News::Ended(Box::new(ended));
        self.show(now, Told::News(Item { session, moment: Moment::Between, news, raw: None }));
    }

    pub(super) fn news(&mut self, now: Now, sid: Sid, news: News) {
        let Some(session) = self.book.get(sid).and_then(|session| session.name.clone()) else { return };
        self.show(now, Told::News(Item { session, moment: Moment::Turn, news, raw: None }));
    }

    pub(super) fn done(&mut self, now: Now, tag: Tag, done: Result<Done, Trouble>) {
        self.show(now, Told::Done(tag, Box::new(done)));
    }

    /// A front takes whatever it is shown. Once it is gone nobody is there to see it.
    pub(super) fn show(&mut self, now: Now, told: Told) {
        let _ = self.front.command(now, &(), told);
    }

    pub(super) fn can(&self) -> Can {
        self.up.as_ref().map(|up| up.can).unwrap_or_default()
    }
}

fn spent(overspent: &Overspent) -> Trouble {
    RpcError::new(code::INTERNAL_ERROR, format!("the budget is spent: {overspent}"))
}

/// Why the book takes no prompt.
fn no(why: No) -> Trouble {
    match why {
        No::Refused(refused) => refusal(refused),
        No::Session | No::Question | No::Answered(_) | No::NotOffered | No::NothingToRetry => {
            refusal(Refused::Unknown)
        }
        No::Archived | No::Running => refusal(Refused::Busy),
        No::Full => refusal(Refused::Limit("prompts wait in that session")),
    }
}

/// The agent has no id here.
const AGENT: &str = "agent";
