//! The machine: routes what is heard, performs what the book says, and keeps the clocks. No rule of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::agents::Agent;
use super::api::{HubProblem, Reason, Status};
use super::book::{ApprovalId, Book, Do, Kept, Sid, SourceId, Stand};
use super::config::{Command, Config, Errand, Event, Found, Stored};
use super::links::{Links, is_link};
use super::lives::Life;
use super::memory::Memory;
use super::open::{Clock, Expects, Pending, Stage, Start, Wait};
use super::runners::Runner;
use super::shelf::{Shelf, take_up};
use super::show;
use super::watch::Watch;
use crate::acp::session::SessionState;
use crate::control::{ErrorTag, Failure, Key, Server, server};
use crate::host::FileError;
use crate::machine::{
    Deadline, Heard, Ids, Input, LinkId, Machine, Now, Output, Outputs, Refused, Tag, Time, soonest,
};
use crate::nest::{Nest, Told as Nested};
use crate::rpc::{RpcError, code};
use crate::session::{Done, Item, News, Source, Told, TurnId, Wish};

/// The hub of a machine. Its page is the [module's](super).
#[derive(Debug)]
pub struct Hub {
    pub(super) sources: Nest<SourceId, Source>,
    pub(super) links: Option<Links>,
    pub(super) control: Nest<(), Server>,
    pub(super) book: Book,
    pub(super) agents: BTreeMap<Arc<str>, Agent>,
    /// The processes of runners, by the session that each has.
    pub(super) runners: BTreeMap<Sid, Runner>,
    /// The lives of agents' processes, and what they call their sessions.
    pub(super) lives: BTreeMap<SourceId, Life>,
    pub(super) lives_given: u32,
    /// Sessions that are being opened, and where.
    pub(super) opening: BTreeMap<Sid, SourceId>,
    /// Models to choose before the first prompt.
    pub(super) models: BTreeMap<Sid, String>,
    /// What can be chosen in sessions that are open.
    pub(super) states: BTreeMap<Sid, SessionState>,
    /// What the answers of sources are for.
    pub(super) expects: BTreeMap<Tag, (SourceId, Expects)>,
    /// What the answers of the outside are for.
    errands: BTreeMap<Tag, Pending>,
    /// Clients that wait for a session to be open.
    pub(super) starts: BTreeMap<Sid, Vec<Start>>,
    /// Sessions of which that may have changed.
    pub(super) due: BTreeSet<Sid>,
    /// Prompts that were not sent in this step.
    pub(super) unsent: BTreeSet<TurnId>,
    /// Clients that wait for a session to be over with.
    pub(super) waits: BTreeMap<Key, Wait>,
    /// Programs that ask.
    pub(super) programs: BTreeMap<Key, ApprovalId>,
    pub(super) watch: Watch,
    /// What is kept of conversations with runners.
    pub(super) memory: Memory,
    /// When somebody listed sessions last.
    pub(super) looked: Option<Time>,
    pub(super) shelf: Shelf,
    pub(super) clocks: BTreeSet<(Time, Clock)>,
    /// Processes of ours.
    pids: BTreeMap<LinkId, u32>,
    pub(super) problems: BTreeMap<String, HubProblem>,
    pub(super) stage: Stage,
    pub(super) started: Now,
    tags: u64,
    pub(super) ids: Ids,
    pub(super) config: Config,
    pub(super) out: Outputs<Event>,
}

/// Tags are counted from there: prompts have numbers below, and to a source both are one space.
const TAGS: u64 = 1 << 48;

impl Machine for Hub {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, mut config: Config) -> Self {
        let Stored { counters, records, prompts, problems } = std::mem::take(&mut config.stored);
        let agents = config.agents.iter().map(|spec| (Arc::clone(&spec.id), Agent::new(spec.clone())));
        let mut hub = Self {
            sources: Nest::default(),
            links: None,
            control: Nest::of((), Server::new(now, config.control.clone())),
            book: Book::new(counters),
            agents: agents.collect(),
            runners: BTreeMap::new(),
            lives: BTreeMap::new(),
            lives_given: 0,
            opening: BTreeMap::new(),
            models: BTreeMap::new(),
            states: BTreeMap::new(),
            expects: BTreeMap::new(),
            errands: BTreeMap::new(),
            starts: BTreeMap::new(),
            due: BTreeSet::new(),
            unsent: BTreeSet::new(),
            waits: BTreeMap::new(),
            programs: BTreeMap::new(),
            watch: Watch::default(),
            memory: Memory::default(),
            looked: None,
            shelf: Shelf::new(config.state.clone(), counters),
            clocks: BTreeSet::new(),
            pids: BTreeMap::new(),
            problems: BTreeMap::new(),
            stage: Stage::Serving,
            started: now,
            tags: TAGS,
            ids: Ids::default(),
            config,
            out: Outputs::default(),
        };
        if let Some(address) = hub.config.reverse.clone() {
            hub.listen(now, address);
        }
        let left = take_up(&mut hub.book, now, records, prompts);
        // Where a record cannot be read, they may be those of its session.
        if problems.is_empty() {
            for (sid, turn) in left {
                hub.shelf.keep(Kept::NoPrompt(sid, turn), &hub.book, &mut hub.ids, &mut hub.out);
            }
        }
        for problem in problems {
            hub.problem(now, problem);
        }
        for id in hub.agents.keys().cloned().collect::<Vec<_>>() {
            hub.list_later(now, &id);
        }
        hub.settle(now);
        hub
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if self.stage == Stage::Ended {
            return;
        }
        match input {
            Input::Link(link, heard) => self.heard(now, link, heard),
            Input::StoreFailed(id, errno) => self.store_failed(now, id, errno),
            // Whoever is slow is a watcher, and is told what it missed.
            Input::Tick | Input::Hold(_) => {}
        }
        self.sources.tick(now);
        self.links_heard(now, None);
        self.control.tick(now);
        self.book.tick(now);
        self.forget_conversations(now);
        while let Some((at, clock)) = self.clocks.first().cloned()
            && at <= now.mono
        {
            self.clocks.pop_first();
            self.rings(now, clock);
        }
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if self.stage == Stage::Ended {
            return Err(Refused::Closed);
        }
        match command {
            Command::Done(tag, found) => {
                let pending = self.errands.remove(&tag).ok_or(Refused::Unknown)?;
                self.found(now, pending, found);
            }
            Command::Agents(specs) => self.sync(now, specs),
            Command::Switches(switches) => self.switches(now, switches),
            Command::Listen => {
                self.control.command(now, &(), server::Command::Listen)?;
                if let Some(address) = self.config.reverse.clone() {
                    self.listen_anew(now, address);
                }
            }
            Command::Stop => {
                if !matches!(self.stage, Stage::Serving | Stage::Draining) {
                    return Err(Refused::Closed);
                }
                self.stop(now);
            }
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        let clock = self.clocks.first().map(|(at, clock)| {
            let name = match clock {
                Clock::Start(..) => "answer a slow start",
                Clock::Wait(_) => "end a wait",
                Clock::Idle(_) => "close an idle agent",
                Clock::Stuck(_) => "end a stuck runner",
                Clock::List(_) => "list sessions",
                Clock::Store => "store again",
            };
            (*at, name)
        });
        let links = self.links.as_ref().and_then(Links::deadline);
        let links = soonest(links, soonest(self.sources.deadline(), self.control.deadline()));
        soonest(soonest(self.book.deadline(), clock), links)
    }
}

impl Hub {
    /// The book, to be looked at.
    #[must_use]
    pub const fn book(&self) -> &Book {
        &self.book
    }

    /// Whether that process is there.
    #[must_use]
    pub fn is_live(&self, source: SourceId) -> bool {
        self.sources.get(&source).is_some() || self.is_linked(source)
    }

    fn heard(&mut self, now: Now, link: LinkId, heard: Heard<'_>) {
        if self.sources.handle(now, link, heard) {
            match heard {
                Heard::Opened(peer) => drop(peer.pid.map(|pid| self.pids.insert(link, pid))),
                Heard::Exited(_) => drop(self.pids.remove(&link)),
                Heard::OpenFailed(_)
                | Heard::Bytes(_)
                | Heard::Eof
                | Heard::Stderr(_)
                | Heard::Written
                | Heard::WriteFailed
                | Heard::Group(_) => {}
            }
        } else if !self.control.handle(now, link, heard) {
            self.links_heard(now, Some((link, heard)));
        }
    }

    /// Whether a process is one of ours, and so an agent's.
    pub(super) fn is_ours(&self, pid: u32) -> bool {
        self.pids.values().any(|of| *of == pid)
    }

    pub(super) fn errand(&mut self, errand: Errand, pending: Pending) {
        self.tags += 1;
        self.errands.insert(Tag(self.tags), pending);
        self.out.tell(Event::Errand(Tag(self.tags), errand));
    }

    pub(super) fn wish(
        &mut self,
        now: Now,
        source: SourceId,
        wish: Wish,
        expects: Expects,
    ) -> Result<(), Refused> {
        self.tags += 1;
        let tag = Tag(self.tags);
        let leaves = matches!(wish, Wish::Close { .. } | Wish::Leave);
        self.say(now, source, tag, wish)?;
        if leaves {
            self.runner_leaves(source);
        }
        if !matches!(expects, Expects::Nothing) {
            self.expects.insert(tag, (source, expects));
        }
        Ok(())
    }

    /// What was found out is used.
    fn found(&mut self, now: Now, pending: Pending, found: Found) {
        match (pending, found) {
            (Pending::Launch(id), Found::Launch(spec)) => self.launched(now, &id, spec),
            (Pending::Runner(sid), Found::Launch(spec)) => self.runner_launched(now, sid, spec),
            (Pending::Rules(key), Found::Kept(kept)) => self.rules_kept(now, key, kept),
            (Pending::Recall(source, sid), Found::Read(read)) => {
                self.recalled(now, source, sid, read.map(|bytes| bytes.expose().clone()));
            }
            (Pending::Show(key, sid, tail), Found::Read(read)) => {
                self.shown_stored(now, key, (sid, tail), read.map(|bytes| bytes.expose().clone()));
            }
            (Pending::Who(key, call), Found::Who(caller)) => self.known(now, key, *call, &caller),
            (Pending::Folder(key, new), Found::Folder(exists)) => self.folder(now, key, *new, exists),
            (Pending::Discover(key), Found::Agents(specs, problems)) => {
                self.sync(now, specs);
                self.list_agents(now, key, problems);
            }
            (Pending::Enable(key, id, on), Found::Enabled(changed)) => {
                self.enabled(now, key, &id, on, changed);
            }
            (Pending::File(source, request), Found::File(done)) => {
                self.file_done(now, source, request, done);
            }
            // An answer to another question: as if nothing had been found.
            (Pending::Launch(id), _) => self.launched(now, &id, Err(NOT_FOUND.to_owned())),
            (Pending::Runner(sid), _) => self.runner_launched(now, sid, Err(NOT_FOUND.to_owned())),
            (Pending::Rules(key), _) => self.rules_kept(now, key, Err(NOT_FOUND.to_owned())),
            (Pending::File(source, request), _) => {
                self.file_done(now, source, request, Err(FileError::Denied));
            }
            (Pending::Recall(source, sid), _) => {
                self.recalled(now, source, sid, Err(NOT_FOUND.to_owned()));
            }
            (
                Pending::Show(key, ..)
                | Pending::Who(key, _)
                | Pending::Folder(key, _)
                | Pending::Discover(key),
                _,
            )
            | (Pending::Enable(key, ..), _) => {
                self.fail(now, key, Failure::new(ErrorTag::Internal, "it could not be found out"));
            }
        }
    }

    /// The end of every step.
    fn settle(&mut self, now: Now) {
        loop {
            // First what follows from the last event: a fact stands before the news that came after it.
            if let Some(what) = self.book.poll() {
                self.perform(now, what);
            } else if let Some(sid) = self.due.pop_first() {
                self.answer_starts(now, sid);
            } else if let Some(((), told)) = self.control.next(&mut self.ids, &mut self.out) {
                self.control_told(now, told);
            } else if let Some((source, told)) = self.sources.next(&mut self.ids, &mut self.out) {
                match told {
                    Nested::Event(told) => self.told(now, source, told),
                    Nested::Ended => self.ended(now, source),
                }
            } else if let Some((source, told)) = self.next_of_links() {
                match told {
                    Nested::Event(told) => self.told(now, source, told),
                    Nested::Ended => self.ended(now, source),
                }
            } else if !self.moves_on(now) {
                break;
            }
        }
        self.unsent.clear();
    }

    fn control_told(&mut self, now: Now, told: Nested<server::Event>) {
        match told {
            Nested::Event(server::Event::Requested(key, request)) => self.asked(now, key, &request),
            Nested::Event(server::Event::CaughtUp(key, _)) => self.show_again(now, key),
            Nested::Event(server::Event::Abandoned(key)) => self.forget(now, key),
            Nested::Event(server::Event::Listening) => self.out.tell(Event::Listening),
            Nested::Event(server::Event::Closed(failed)) => {
                if !matches!(self.stage, Stage::Leaving(_)) {
                    self.stop(now);
                }
                if let Stage::Leaving(why) = &mut self.stage {
                    *why = why.or(failed);
                }
            }
            Nested::Ended => {}
        }
    }

    /// The stages of the end. Whether there is something to do after it.
    fn moves_on(&mut self, now: Now) -> bool {
        match self.stage {
            Stage::Draining if !self.book.sessions().any(|(_, session)| session.running().is_some()) => {
                self.stop(now);
                true
            }
            Stage::Leaving(why) if self.control.is_empty() && self.sources.is_empty() && self.no_links() => {
                self.stage = Stage::Ended;
                self.clocks.clear();
                self.book.put_down();
                self.perform_all(now);
                self.shelf.retry(&self.book, &mut self.ids, &mut self.out);
                self.out.tell(Event::Closed(why));
                self.out.end();
                false
            }
            Stage::Serving | Stage::Draining | Stage::Leaving(_) | Stage::Ended => false,
        }
    }

    /// Turns end, agents leave, streams end. What waits stays on disk.
    pub(super) fn stop(&mut self, now: Now) {
        self.stage = Stage::Leaving(None);
        let stand = Stand::new(Status::Cancelled, Some(Reason::HubStopped));
        for id in self.agents.keys().cloned().collect::<Vec<_>>() {
            self.dismiss(now, &id, &stand);
        }
        self.end_runners(now, None, &stand);
        self.stop_links(now, &stand);
        self.perform_all(now);
        // Refused when it is leaving by itself.
        let _ = self.control.command(now, &(), server::Command::Shutdown("hub_stopping".to_owned()));
    }

    /// Performs what the book says, to its end.
    pub(super) fn perform_all(&mut self, now: Now) {
        while let Some(what) = self.book.poll() {
            self.perform(now, what);
        }
    }

    fn perform(&mut self, now: Now, what: Do) {
        match what {
            Do::Open(sid) => self.want(now, sid),
            Do::Wish(source, sid, wish) => self.perform_wish(now, source, sid, wish),
            // Refused when the question is over by itself.
            Do::Answer(source, wish) => drop(self.wish(now, source, wish, Expects::Nothing)),
            Do::Replace(source) => self.replace(now, source),
            Do::Keep(kept) => {
                if let Kept::Gone(sid) = kept {
                    self.forget_conversation(sid);
                }
                self.shelf.keep(kept, &self.book, &mut self.ids, &mut self.out);
            }
            Do::Tell(sid, fact) => self.fact(now, sid, &fact),
        }
    }

    fn perform_wish(&mut self, now: Now, source: SourceId, sid: Sid, wish: Wish) {
        let prompt = if let Wish::Prompt { turn, .. } = wish { Some(turn) } else { None };
        let done = self.wish(now, source, wish, Expects::Nothing);
        if let (Some(turn), Err(refused)) = (prompt, done) {
            self.book.refused(now, sid, turn, refused);
        }
    }

    fn told(&mut self, now: Now, source: SourceId, told: Told) {
        match told {
            Told::Up(up) => match self.runner_of(source) {
                Some(sid) => self.runner_up(now, source, sid, &up),
                None => self.up(now, source, &up),
            },
            Told::Hello(up) => self.hello(now, source, &up),
            Told::News(item) => self.item(now, source, &item),
            Told::Done(tag, done) => self.done(now, source, tag, *done),
            Told::Noted(noted) => {
                if let Some(life) = self.lives.get(&source) {
                    self.out.tell(Event::Noted(Arc::clone(&life.agent), noted));
                }
            }
            Told::File(wanted) => self.file_wanted(source, wanted),
            // Nothing of the kind is offered that is not hosted.
            Told::Wanted(ask, _) => {
                let error = RpcError::new(code::METHOD_NOT_FOUND, "not offered");
                let wish = Wish::Serve { ask, answer: Err(error) };
                // Refused when it is over by itself.
                let _ = self.wish(now, source, wish, Expects::Nothing);
            }
            Told::Other(_) => {}
            Told::Down(closed) => self.down(now, source, &closed),
        }
    }

    pub(super) fn item(&mut self, now: Now, source: SourceId, item: &Item) {
        if let News::Announced(there) = &item.news {
            self.announced(now, source, item, there);
        } else {
            self.news(now, source, item);
        }
    }

    pub(super) fn news(&mut self, now: Now, source: SourceId, item: &Item) {
        let Some(life) = self.lives.get(&source) else { return };
        let Some(&sid) = life.names.get(&item.session) else {
            return self.unknown(now, source, item);
        };
        if let News::Options(options) = &item.news
            && let Some(state) = self.states.get_mut(&sid)
        {
            state.config_options = Some(options.clone());
            self.runner_has(sid, options);
        }
        if self.book.news(now, sid, source, item) {
            // What the book makes of it comes first.
            self.perform_all(now);
            self.note_news(now, sid, item);
            self.show(now, sid, item);
        }
    }

    /// News of a name that nobody knows: of a session that is being opened, or one of the agent's own.
    fn unknown(&mut self, now: Now, source: SourceId, item: &Item) {
        if is_link(source) {
            return self.unknown_of_link(now, source, item);
        }
        if let News::Asked(asked) = &item.news {
            let agent = self.lives.get(&source).map(|life| Arc::clone(&life.agent)).unwrap_or_default();
            return self.book.ask_beside(now, source, agent, (**asked).clone());
        }
        let opens = self.opening.values().any(|of| *of == source);
        if let Some(life) = self.lives.get_mut(&source).filter(|_| opens) {
            life.early.keep(item);
        }
    }

    fn done(&mut self, now: Now, source: SourceId, tag: Tag, done: Result<Done, crate::session::Trouble>) {
        let Some((_, expects)) = self.expects.remove(&tag) else { return };
        match (expects, done) {
            (Expects::Open(sid), Ok(Done::Opened(name, state))) => {
                self.opened(now, source, sid, name, *state);
            }
            (Expects::History(sid), done) => self.was_recalled(now, source, sid, done.map(drop)),
            (Expects::Open(sid), Err(trouble)) => self.refused_to_open(now, sid, &trouble),
            (Expects::Model(sid, name, state), Ok(_)) => self.enter(now, source, sid, name, *state),
            (Expects::Model(sid, _, state), Err(trouble)) => self.refused_model(now, sid, &state, trouble),
            (Expects::Set(key, sid, word), done) => self.was_set(now, key, sid, &word, done),
            (Expects::List(id), Ok(Done::Listed(page))) => self.page(now, source, &id, Some(*page)),
            (Expects::List(id), _) => self.page(now, source, &id, None),
            (Expects::Open(_) | Expects::Nothing, _) => {}
        }
    }

    fn rings(&mut self, now: Now, clock: Clock) {
        match clock {
            Clock::Start(sid, key) => self.slow_start(now, sid, key),
            Clock::Wait(key) => self.wait_over(now, key),
            Clock::Idle(id) => self.idle(now, &id),
            Clock::Stuck(source) => self.still_stuck(now, source),
            Clock::List(id) => self.list_due(now, &id),
            Clock::Store => {
                self.problems.remove(NOT_STORED);
                self.shelf.retry(&self.book, &mut self.ids, &mut self.out);
            }
        }
    }

    fn store_failed(&mut self, now: Now, id: crate::machine::StoreId, errno: i32) {
        if self.shelf.store_failed(id) && !self.problems.contains_key(NOT_STORED) {
            self.clocks.insert((now.mono + self.config.timeouts.store, Clock::Store));
            let problem = HubProblem {
                id: NOT_STORED.to_owned(),
                since: String::new(),
                text: format!("what has to survive a restart cannot be written: system error {errno}"),
                next: Some("make room on the disk; it is tried again every 30 s".to_owned()),
            };
            self.problem(now, problem);
        }
    }

    pub(super) fn problem(&mut self, now: Now, problem: HubProblem) {
        if self.problems.len() < PROBLEMS {
            let since = if problem.since.is_empty() { show::time(now.unix) } else { problem.since };
            self.problems.insert(problem.id.clone(), HubProblem { since, ..problem });
        }
    }

    /// Whether what has to survive cannot be written.
    pub(super) fn is_forgetful(&self) -> bool {
        !self.shelf.is_well()
    }

    pub(super) fn is_unsent(&self, turn: TurnId) -> bool {
        self.unsent.contains(&turn)
    }

    pub(super) fn clients(&self) -> usize {
        self.control.get(&()).map_or(0, Server::connections)
    }

    pub(super) fn peer(&self, key: Key) -> crate::machine::Peer {
        self.control.get(&()).map_or_else(Default::default, |server| server.peer(key))
    }
}

/// Why something is not started where nobody said how.
const NOT_FOUND: &str = "it was not found out how";
/// The problem of a disk that takes nothing.
const NOT_STORED: &str = "not_stored";
/// Problems that are kept.
const PROBLEMS: usize = 100;
