//! The book against a model that is written from its rules: any order of what people, sources and clocks do, a crash at
//! any moment, and what must hold after each step.

mod acts;
mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use agentline_core::hub::api::{By, Reason, Status};
use agentline_core::hub::book::{
    ApprovalId, Book, Counters, Do, Fact, Home, Kept, Prompt, Record, Sid, SourceId,
};
use agentline_core::session::{AskId, Outcome, TurnId, Wish};
use agentline_core::{Now, Refused, Time};

use super::Tally;
use crate::dice::Dice;

/// Every rule that the model can see decide.
pub const RULES: &[&str] = &[
    "queued behind a turn",
    "held after a cancel",
    "held after a crash",
    "held after a restart",
    "held after a failed start",
    "held after a refusal for room",
    "held by an agent that is busy",
    "a link goes: held",
    "released by a prompt",
    "released by a person",
    "full",
    "withdrawn while it waits",
    "withdrawn while it runs",
    "retried",
    "nothing to retry",
    "closed with prompts",
    "archived refuses",
    "the wanted start fails",
    "a cancel is confirmed",
    "a cancel is given up",
    "stuck keeps prompts back",
    "a stuck child is replaced",
    "a late end frees",
    "a link has no clock",
    "a link takes an idle session",
    "nobody is robbed",
    "a link without prompts",
    "words of a stranger",
    "a terminal's turn",
    "asked",
    "answered by a client",
    "answered by policy",
    "a policy is narrower",
    "already answered",
    "never asked",
    "not offered",
    "over by its turn",
    "over by a cancel",
    "over by its source",
    "over by a crash",
    "asked again",
    "words answered by a prompt",
    "words are for later prompts only",
    "opened too late",
    "crash between two outputs",
    "interrupted",
    "asked beside a session",
    "an answer nobody waits for",
];

/// One run, decided by these bytes: how often each rule decided.
#[must_use]
pub fn run(data: &[u8]) -> Tally {
    let mut ledger = Ledger::new(Dice::new(data));
    while !ledger.dice.is_empty() {
        ledger.step();
    }
    ledger.finish();
    std::mem::take(&mut ledger.tally)
}

/// Whoever finds a fault wants to know how it came about.
impl Drop for Ledger<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.log.len().saturating_sub(60);
            let _ = writeln!(std::io::stderr(), "{}", self.log[from..].join("\n"));
        }
    }
}

struct Ledger<'d> {
    dice: Dice<'d>,
    book: Book,
    now: u64,
    tally: Tally,
    /// What waits for a source: sessions that want one.
    opens: BTreeSet<Sid>,
    alive: BTreeSet<SourceId>,
    links: BTreeSet<SourceId>,
    children: BTreeSet<SourceId>,
    sources: u32,
    /// What each source works on.
    at_source: BTreeMap<(SourceId, Sid), TurnId>,
    asks: u64,
    /// Questions that a source waits for.
    waiting: BTreeSet<(SourceId, AskId)>,
    paper: BTreeMap<Sid, Paper>,
    prompts: BTreeMap<TurnId, Said>,
    questions: BTreeMap<ApprovalId, Asked>,
    /// On disk.
    counters: Counters,
    records: BTreeMap<Sid, Record>,
    files: BTreeMap<(Sid, TurnId), Arc<Prompt>>,
    /// The highest numbers that anybody saw.
    seen: Counters,
    /// Accepted or taken back in this step: nobody was told of it yet.
    fresh: BTreeSet<TurnId>,
    replaced: BTreeSet<SourceId>,
    log: Vec<String>,
}

/// What the model knows of a session.
#[derive(Debug, Default)]
struct Paper {
    running: Option<TurnId>,
    /// The last end, as readers were told it.
    stand: Status,
    held: bool,
    archived: bool,
    wanted: bool,
    words: Option<ApprovalId>,
}

/// A prompt that was accepted.
#[derive(Debug)]
struct Said {
    sid: Sid,
    begun: bool,
    ended: Option<Outcome>,
}

#[derive(Debug)]
struct Asked {
    sid: Option<Sid>,
    words: bool,
    /// The newest prompt when it was asked.
    after: TurnId,
    settled: Option<By>,
}

impl<'d> Ledger<'d> {
    fn new(dice: Dice<'d>) -> Self {
        Self {
            dice,
            book: Book::default(),
            now: 0,
            tally: Tally::default(),
            opens: BTreeSet::new(),
            alive: BTreeSet::new(),
            links: BTreeSet::new(),
            children: BTreeSet::new(),
            sources: 0,
            at_source: BTreeMap::new(),
            asks: 0,
            waiting: BTreeSet::new(),
            paper: BTreeMap::new(),
            prompts: BTreeMap::new(),
            questions: BTreeMap::new(),
            counters: Counters::default(),
            records: BTreeMap::new(),
            files: BTreeMap::new(),
            seen: Counters::default(),
            fresh: BTreeSet::new(),
            replaced: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        Now { mono: Time::from_micros(self.now), unix: Duration::from_micros(1 << 50 | self.now) }
    }

    fn step(&mut self) {
        self.now += self.dice.below(1 << 21) as u64;
        self.fresh.clear();
        self.act();
        // The last word of a hub that is killed may be any of its outputs.
        let words = if self.dice.once_in(250) { self.dice.below(6) } else { usize::MAX };
        let died = self.drain(words);
        for source in std::mem::take(&mut self.replaced).into_iter().filter(|_| words == usize::MAX) {
            self.down(source, None);
        }
        if died || words != usize::MAX {
            self.tally.count("crash between two outputs");
            self.restart();
            self.fresh.clear();
        }
        // Whoever asked has been answered.
        let told = self.fresh.last().map_or(0, |turn| turn.0);
        self.seen.turns = self.seen.turns.max(told);
        self.check();
    }

    /// Performs what is to be done, at most so much; whether something was left.
    fn drain(&mut self, mut words: usize) -> bool {
        while let Some(what) = self.book.poll() {
            if words == 0 {
                return true;
            }
            words -= 1;
            self.log.push(format!("    {what:?}"));
            match what {
                Do::Open(sid) => {
                    // One that is being opened already is not opened once more.
                    self.opens.insert(sid);
                    self.paper_of(sid).wanted = true;
                }
                Do::Wish(source, sid, wish) => self.wished(source, sid, &wish),
                Do::Answer(source, wish) => {
                    let Wish::Answer { ask, .. } = wish else { panic!("no answer: {wish:?}") };
                    assert!(self.alive.contains(&source), "an answer for a dead source");
                    assert!(self.waiting.remove(&(source, ask)), "a second answer");
                }
                Do::Replace(source) => {
                    let works = self.book.at(source).any(|sid| {
                        self.book.get(sid).is_some_and(|session| session.turn_at() == Some(source))
                    });
                    assert!(!works, "replaced while it works for others");
                    self.tally.count("a stuck child is replaced");
                    self.replaced.insert(source);
                }
                Do::Keep(kept) => self.keep(kept),
                Do::Tell(sid, fact) => self.told(sid, fact),
            }
        }
        false
    }

    fn wished(&mut self, source: SourceId, sid: Sid, wish: &Wish) {
        assert!(self.alive.contains(&source), "a wish for a dead source: {wish:?}");
        let Wish::Prompt { turn, .. } = wish else { return };
        let said = &self.prompts.get(turn);
        assert!(said.is_none_or(|said| said.sid == sid && said.begun && said.ended.is_none()));
        let record = &self.records[&sid];
        assert_eq!(
            (record.stand.status, record.last),
            (Status::Running, Some(*turn)),
            "sent before it was kept"
        );
        assert!(self.files.contains_key(&(sid, *turn)), "its words are not kept");
        if self.dice.once_in(16) {
            let now = self.now();
            if self.book.get(sid).is_some_and(|session| session.queued().len() > 0) {
                self.tally.count("held after a refusal for room");
                self.paper_of(sid).held = true;
            }
            self.book.refused(now, sid, *turn, Refused::Crowded);
        } else {
            let other = self.at_source.insert((source, sid), *turn);
            assert_eq!(other, None, "a second prompt while the source has one");
        }
    }

    fn keep(&mut self, kept: Kept) {
        match kept {
            Kept::Counters(counters) => self.counters = counters,
            Kept::Session(sid) => {
                if let Some(record) = self.book.record(sid) {
                    self.records.insert(sid, record);
                }
            }
            Kept::Gone(sid) => drop(self.records.remove(&sid)),
            Kept::Prompt(sid, turn, prompt) => drop(self.files.insert((sid, turn), prompt)),
            Kept::NoPrompt(sid, turn) => {
                // That is decided, and may be all that is left to say of it.
                self.fresh.insert(turn);
                self.files.remove(&(sid, turn));
            }
        }
    }

    fn told(&mut self, sid: Option<Sid>, fact: Fact) {
        match fact {
            Fact::Queued(turn, place, _) => {
                assert!((1..=16).contains(&place));
                self.seen.turns = self.seen.turns.max(turn.0);
            }
            Fact::Began(turn, prompt) => self.began(sid.expect("a session"), turn, prompt.is_some()),
            Fact::Ended(end) => self.ended(sid.expect("a session"), end.turn, end.how, end.stand.status),
            Fact::NotSent(turn, _) => self.not_sent(sid.expect("a session"), turn),
            Fact::Changed => {
                let sid = sid.expect("a session");
                if self.book.get(sid).is_none() {
                    self.paper.remove(&sid);
                    self.opens.remove(&sid);
                }
                self.seen.sessions = self.seen.sessions.max(sid.0);
            }
            Fact::Asked(id) => self.asked(sid, id),
            Fact::Settled(id) => self.settled(id),
        }
    }

    fn began(&mut self, sid: Sid, turn: TurnId, ours: bool) {
        let paper = self.paper.entry(sid).or_default();
        assert_eq!(paper.running.replace(turn), None, "two turns at once");
        assert!(!ours || !paper.held, "sent while held");
        assert!(!ours || !paper.archived, "sent while archived");
        let asks = |asked: &&Asked| asked.sid == Some(sid) && asked.settled.is_none() && !asked.words;
        assert!(!ours || !self.questions.values().any(|asked| asks(&asked)), "sent under a question");
        if let Some(words) = paper.words.filter(|_| ours) {
            assert!(turn > self.questions[&words].after, "answered by what was said before");
            self.tally.count("words answered by a prompt");
        }
        if ours {
            let said = self.prompts.entry(turn).or_insert(Said { sid, begun: false, ended: None });
            assert!(!said.begun && said.ended.is_none(), "began twice");
            said.begun = true;
        }
        self.seen.turns = self.seen.turns.max(turn.0);
    }

    fn ended(&mut self, sid: Sid, turn: TurnId, how: Outcome, stand: Status) {
        let paper = self.paper.entry(sid).or_default();
        assert_eq!(paper.running.take(), Some(turn), "an end of what does not run");
        paper.stand = stand;
        if let Some(said) = self.prompts.get_mut(&turn) {
            assert_eq!(said.ended.replace(how), None, "ended twice");
        }
        if how == Outcome::Lost {
            let is_link = self.links.iter().any(|link| self.at_source.contains_key(&(*link, sid)));
            if self.book.get(sid).is_some_and(|session| session.queued().len() > 0) {
                self.paper.entry(sid).or_default().held = true;
                self.tally.count(if is_link { "a link goes: held" } else { "held after a crash" });
            }
        }
    }

    fn not_sent(&mut self, sid: Sid, turn: TurnId) {
        let paper = self.paper.entry(sid).or_default();
        let ran = paper.running.take_if(|running| *running == turn).is_some();
        let Some(said) = self.prompts.get_mut(&turn) else { return };
        assert_eq!(said.ended.replace(Outcome::NotSent), None, "ended twice");
        assert_eq!(said.begun, ran, "not sent, and begun");
        if ran {
            self.paper_of(sid).stand = Status::Error;
        }
    }

    fn asked(&mut self, sid: Option<Sid>, id: ApprovalId) {
        let ask = self.book.ask(id).expect("it can be read");
        let after = self.prompts.keys().next_back().copied().unwrap_or(TurnId(0));
        let words = ask.is_words();
        let old = self.questions.insert(id, Asked { sid, words, after, settled: None });
        assert!(old.is_none(), "an id is given twice");
        if words && let Some(sid) = sid {
            self.paper_of(sid).words = Some(id);
        }
        self.seen.approvals = self.seen.approvals.max(id.0);
        self.tally.count(if sid.is_some() { "asked" } else { "asked beside a session" });
    }

    fn settled(&mut self, id: ApprovalId) {
        let by = self.book.ask(id).and_then(|ask| Some(ask.settled.as_ref()?.by));
        let by = by.expect("how it ended is remembered");
        let asked = self.questions.get_mut(&id).expect("asked before");
        assert_eq!(asked.settled.replace(by), None, "settled twice");
        if let Some(sid) = asked.sid {
            self.paper_of(sid).words.take_if(|words| *words == id);
        }
        self.tally.count(match by {
            By::Client => "answered by a client",
            By::Policy => "answered by policy",
            By::Withdrawn => "asked again",
            By::TurnEnded => "over by its turn",
            By::Cancelled => "over by a cancel",
            By::Terminal | By::Expired => "over by its source",
            By::Gone => "over by a crash",
        });
    }

    fn paper_of(&mut self, sid: Sid) -> &mut Paper {
        self.paper.entry(sid).or_default()
    }

    /// The hub is killed and starts again from what is on disk.
    fn restart(&mut self) {
        self.log.push("restart".to_owned());
        self.now += 1;
        while self.book.poll().is_some() {}
        self.check_disk();
        self.book = Book::new(self.counters);
        let now = self.now();
        // Tried once, and it can be tried again.
        self.fresh.extend(self.records.values().filter_map(|record| record.last));
        for (sid, record) in std::mem::take(&mut self.records) {
            let mine = self.files.iter().filter(|((of, _), _)| *of == sid);
            let prompts = mine.map(|((_, turn), prompt)| (*turn, Arc::clone(prompt))).collect();
            self.book.take_up(now, record, prompts);
        }
        let Self { opens, alive, links, at_source, waiting, .. } = self;
        opens.clear();
        alive.clear();
        links.clear();
        at_source.clear();
        waiting.clear();
        self.after_restart();
    }

    /// What the model makes of a restart.
    fn after_restart(&mut self) {
        for asked in self.questions.values_mut() {
            asked.settled.get_or_insert(By::Gone);
        }
        self.paper.clear();
        for (sid, session) in self.book.sessions() {
            let (status, _) = session.status();
            let stand = if session.archived { session.stand().status } else { status };
            let held = session.held().is_some();
            if held {
                self.tally.count("held after a restart");
            }
            let paper = Paper { stand, held, archived: session.archived, ..Paper::default() };
            self.paper.insert(sid, paper);
        }
        let waits: BTreeSet<TurnId> =
            self.book.sessions().flat_map(|(_, session)| session.queued()).map(|(turn, _)| turn).collect();
        for (turn, said) in &mut self.prompts {
            if said.ended.is_none() && !waits.contains(turn) {
                let known = said.begun || self.fresh.contains(turn);
                assert!(known || !self.paper.contains_key(&said.sid), "{turn:?} is lost");
                said.ended = Some(Outcome::Lost);
                self.tally.count("interrupted");
            }
        }
        for turn in waits {
            // Accepted in the step that was cut short, or known.
            let sid = self.book.sessions().find(|(_, it)| it.queued().any(|(of, _)| of == turn));
            let sid = sid.map(|(sid, _)| sid).expect("it waits somewhere");
            self.prompts.entry(turn).or_insert(Said { sid, begun: false, ended: None });
        }
        self.drain(usize::MAX);
    }

    fn home(&mut self) -> Home {
        let agent = if self.dice.byte().is_multiple_of(2) { "one" } else { "two" };
        Home { agent: agent.into(), cwd: "/w".into() }
    }

    fn finish(&mut self) {
        let sids: Vec<Sid> = self.book.sessions().map(|(sid, _)| sid).collect();
        for sid in sids {
            let now = self.now();
            self.book.delete(now, sid).expect("it is there");
            self.drain(usize::MAX);
        }
        let links = self.alive.clone();
        for source in links {
            self.down(source, Some(Reason::AgentExited));
        }
        assert!(self.prompts.values().all(|said| said.ended.is_some()), "a prompt never ended");
        let open: Vec<_> = self.questions.iter().filter(|(_, asked)| asked.settled.is_none()).collect();
        assert!(open.is_empty(), "a question never ended: {open:?}");
        assert!(
            self.records.is_empty() && self.files.is_empty(),
            "something stays on disk: {:?}",
            self.files
        );
    }
}
