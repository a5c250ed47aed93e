//! Agents: when one is started, what it is wanted for, when it leaves, and what its end means.
//!
//! ```text
//!          wanted               errand done              Up            nothing to do, off, changed, stuck
//!  Down ───────────► Launching ─────────────► Starting ─────► Up ───────────────────────────────────► Leaving
//!   ▲  ▲                 │ cannot be started      │ gone       │ gone                                    │
//!   │  └─────────────────┴────────────────────────┴────────────┘                                         │
//!   └────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! One process for all sessions of an agent. It is never started again by itself; whoever is wanted while it leaves waits
//! until it is gone, so that two of them never write one session's file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::api::{Reason, Status, Variables};
use super::book::{Sid, SourceId, Stand};
use super::config::{AgentKind, AgentSpec, Errand, Event};
use super::links::is_link;
use super::lists::Rows;
use super::lives::{Life, Of};
use super::machine::Hub;
use super::open::{Clock, Expects, Pending, Stage};
use crate::acp::client;
use crate::acp::session::Request as Placed;
use crate::acp::session::{Elicitation, SessionSetup, SessionState, Setting as Word};
use crate::closed::Closed;
use crate::machine::{Now, Open as Way, SpawnSpec, Time};
use crate::rpc::code;
use crate::session::{Acp, Can, Name, Open, Setting, Source, Trouble, Up, Wish, why};

/// An agent, and its process.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) spec: AgentSpec,
    pub(super) run: Run,
    /// What it can do, as far as it ever said; it outlives the process.
    pub(super) can: Option<Can>,
    /// How its last start or life ended badly.
    pub(super) error: Option<String>,
    /// Its first start failed for good: it is not offered.
    pub(super) hidden: bool,
    /// It did speak ACP once.
    verified: bool,
    /// Variables that a client named for it last: those of its next process.
    pub(super) env: Variables,
    /// Those of the process that there is.
    pub(super) runs_with: Variables,
    /// Sessions that wait for it.
    wanted: BTreeSet<Sid>,
    started: Time,
    /// When it was last asked for something.
    pub(super) active: Time,
    /// A list that is being read.
    pub(super) listing: Option<Rows>,
    /// When it was last asked for one.
    pub(super) listed: Option<Time>,
    /// It was started for a list only.
    pub(super) for_list: bool,
}

/// How far an agent's process is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Run {
    Down,
    Launching,
    Starting(SourceId),
    Up(SourceId),
    Leaving(SourceId),
}

/// When an agent that is busy is looked at again.
const SOON: Duration = Duration::from_secs(10);

impl Agent {
    pub(super) fn new(spec: AgentSpec) -> Self {
        Self {
            spec,
            run: Run::Down,
            can: None,
            error: None,
            hidden: false,
            verified: false,
            env: Variables::default(),
            runs_with: Variables::default(),
            wanted: BTreeSet::new(),
            started: Time::ZERO,
            active: Time::ZERO,
            listing: None,
            listed: None,
            for_list: false,
        }
    }

    /// Whether sessions can be wanted of it.
    pub(super) fn is_usable(&self) -> bool {
        self.spec.enabled && !self.hidden && self.spec.launch.is_some()
    }

    /// Whether it may know sessions that the hub does not.
    pub(super) fn is_listing(&self) -> bool {
        self.is_usable() && self.spec.kind == AgentKind::Acp
    }

    /// It has spoken, if only by a link.
    pub(super) const fn proven(&mut self) {
        (self.verified, self.hidden) = (true, false);
    }

    /// Its process, while it is of use.
    pub(super) const fn source(&self) -> Option<SourceId> {
        match self.run {
            Run::Starting(source) | Run::Up(source) => Some(source),
            Run::Down | Run::Launching | Run::Leaving(_) => None,
        }
    }
}

impl Hub {
    /// A session wants its agent.
    pub(super) fn want(&mut self, now: Now, sid: Sid) {
        let Some(session) = self.book.get(sid) else { return };
        let id = Arc::clone(&session.home.agent);
        if self.opening.contains_key(&sid) {
            return;
        }
        let by_link = self.opener(&id).filter(|_| session.name.is_none() && !self.models.contains_key(&sid));
        let Some(agent) = self.agents.get_mut(&id).filter(|agent| !agent.hidden) else {
            return self.book.not_opened(now, sid, unusable(Reason::AgentRemoved, &id, "is not there"));
        };
        if let Some(link) = by_link {
            return self.open_by_link(now, link, sid);
        }
        if !agent.spec.enabled {
            let next = format!("is switched off: agentline agent enable {id}");
            return self.book.not_opened(now, sid, unusable(Reason::AgentDisabled, &id, &next));
        }
        if agent.spec.launch.is_none() {
            return self.book.not_opened(now, sid, unusable(Reason::StartFailed, &id, "has no command"));
        }
        agent.active = now.mono;
        agent.for_list = false;
        if agent.spec.kind == AgentKind::Runner {
            return self.want_runner(now, sid);
        }
        if let Run::Up(source) = agent.run {
            return self.open_at(now, source, sid);
        }
        agent.wanted.insert(sid);
        self.launch(&id);
    }

    pub(super) const fn fresh_source(&mut self) -> SourceId {
        self.lives_given += 1;
        SourceId(self.lives_given)
    }

    /// Starts an agent, unless it runs or is about to.
    pub(super) fn launch(&mut self, id: &Arc<str>) {
        let stopping = self.stage != Stage::Serving;
        let Some(agent) = self.agents.get_mut(id).filter(|agent| agent.run == Run::Down && !stopping) else {
            return;
        };
        agent.run = Run::Launching;
        let env = agent.env.clone();
        agent.runs_with = env.clone();
        self.errand(
            Errand::Launch { agent: Arc::clone(id), env, runner: None },
            Pending::Launch(Arc::clone(id)),
        );
    }

    /// It is known how to start it.
    pub(super) fn launched(&mut self, now: Now, id: &Arc<str>, spec: Result<Box<SpawnSpec>, String>) {
        let Some(agent) = self.agents.get_mut(id).filter(|agent| agent.run == Run::Launching) else { return };
        agent.run = Run::Down;
        if !agent.spec.enabled || (agent.wanted.is_empty() && !agent.for_list) {
            return;
        }
        let spec = match spec {
            Ok(spec) => spec,
            Err(why) => {
                agent.error = Some(why.clone());
                return self.give_up(
                    now,
                    id,
                    &Stand::new(Status::Error, Some(Reason::StartFailed)).because("spawn", why),
                );
            }
        };
        let initialize = agent.spec.initialize;
        let source = self.fresh_source();
        let Some(agent) = self.agents.get_mut(id) else { return };
        (agent.run, agent.started) = (Run::Starting(source), now.mono);
        let mut config = client::Config::new(Way::Spawn(spec));
        config.info.clone_from(&self.config.info);
        // Forms and pages are questions like others: whoever looks answers them.
        config.capabilities.elicitation = Elicitation { form: true, url: true };
        config.timeouts.initialize = Some(initialize.unwrap_or(self.config.timeouts.initialize));
        let host = agent.spec.host.clone();
        let acp = Source::Acp(Box::new(Acp::hosting(now, config, host)));
        let placed = self.sources.insert(now, source, acp);
        debug_assert!(placed.is_ok(), "each number is given once");
        self.lives.insert(source, Life::new(Arc::clone(id), Of::Agent));
        self.out.tell(Event::Started(Arc::clone(id)));
    }

    /// It shook hands.
    pub(super) fn up(&mut self, now: Now, source: SourceId, up: &Up) {
        let Some(id) = self.lives.get(&source).map(|life| Arc::clone(&life.agent)) else { return };
        let Some(agent) = self.agents.get_mut(&id).filter(|agent| agent.run == Run::Starting(source)) else {
            return;
        };
        (agent.run, agent.can, agent.error) = (Run::Up(source), Some(up.can), None);
        (agent.verified, agent.hidden, agent.active) = (true, false, now.mono);
        for sid in std::mem::take(&mut agent.wanted) {
            self.open_at(now, source, sid);
        }
        self.idle_at(now, &id);
        self.list(now, &id);
    }

    /// Asks a process that is up to open a session.
    fn open_at(&mut self, now: Now, source: SourceId, sid: Sid) {
        let (Some(session), Some(life)) = (self.book.get(sid), self.lives.get_mut(&source)) else { return };
        let can = self.agents.get(&life.agent).and_then(|agent| agent.can).unwrap_or_default();
        let open = match &session.name {
            None => Open::New,
            Some(name) if can.load => Open::Load(name.clone()),
            Some(name) if can.resume => Open::Resume(name.clone()),
            Some(_) => {
                let id = Arc::clone(&life.agent);
                let stand = unusable(
                    Reason::StartFailed,
                    &id,
                    "cannot continue a session of before: agentline session new",
                );
                return self.book.not_opened(now, sid, stand);
            }
        };
        let setup = Box::new(SessionSetup::in_directory(&*session.home.cwd));
        if let Open::Load(name) = &open {
            // Its history is told before it is open.
            life.names.insert(name.clone(), sid);
            self.book.reread(sid);
        }
        self.opening.insert(sid, source);
        if let Err(refused) = self.wish(now, source, Wish::Open(open, setup), Expects::Open(sid)) {
            self.cannot_open(now, sid, start_failed("refused", refused.to_string()));
        }
    }

    /// The agent has it. A model that was asked for is chosen before the first prompt.
    pub(super) fn opened(&mut self, now: Now, source: SourceId, sid: Sid, name: Name, state: SessionState) {
        let Some(life) = self.lives.get_mut(&source) else { return };
        if life.of.link().is_some() {
            return self.opened_by_link(now, source, sid, name);
        }
        life.names.insert(name.clone(), sid);
        let Some(model) = self.models.get(&sid).cloned() else {
            return self.enter(now, source, sid, name, state);
        };
        let set = state.request(&Word::Model(model)).map_err(|why| why.explain()).and_then(|placed| {
            let wish = Wish::Set { session: name.clone(), setting: setting(placed) };
            let expects = Expects::Model(sid, name, Box::new(state));
            self.wish(now, source, wish, expects).map_err(|why| why.to_string())
        });
        if let Err(why) = set {
            self.cannot_open(now, sid, start_failed("usage", why));
        }
    }

    /// It is open, and takes prompts from here on.
    pub(super) fn enter(&mut self, now: Now, source: SourceId, sid: Sid, name: Name, state: SessionState) {
        self.opening.remove(&sid);
        let Some(life) = self.lives.get(&source) else { return };
        let can = self.agents.get(&life.agent).and_then(|agent| agent.can).unwrap_or_default();
        self.due.insert(sid);
        self.models.remove(&sid);
        if !self.book.opened(now, sid, source, name.clone(), can) {
            if can.close {
                let _ = self.wish(now, source, Wish::Close { session: name }, Expects::Nothing);
            }
            return;
        }
        self.states.insert(sid, state);
        self.catch_up(now, source);
        self.runner_opened(now, source, sid);
    }

    /// A session could not be opened.
    pub(super) fn cannot_open(&mut self, now: Now, sid: Sid, stand: Stand) {
        let source = self.opening.remove(&sid);
        self.due.insert(sid);
        self.book.not_opened(now, sid, stand);
        source.into_iter().for_each(|source| self.catch_up(now, source));
    }

    /// The agent would not open it.
    pub(super) fn refused_to_open(&mut self, now: Now, sid: Sid, trouble: &Trouble) {
        let stand = if trouble.code == code::AUTH_REQUIRED {
            let id = self.book.get(sid).map(|session| Arc::clone(&session.home.agent)).unwrap_or_default();
            let text =
                format!("{}: agentline login {id}, then agentline session retry {sid}", trouble.message);
            Stand::new(Status::Error, Some(Reason::NeedsLogin)).because("needs_login", text)
        } else {
            start_failed("rpc", trouble.message.clone())
        };
        self.cannot_open(now, sid, stand);
    }

    /// The agent has it open, but does not take the model that was asked for: it would be tried with that one again.
    pub(super) fn refused_model(&mut self, now: Now, sid: Sid, state: &SessionState, mut trouble: Trouble) {
        if let Some(model) = self.models.get(&sid) {
            trouble.message = state.explain(&Word::Model(model.clone()), &trouble.message);
        }
        self.refused_to_open(now, sid, &trouble);
    }

    /// A process told its last word.
    pub(super) fn down(&mut self, now: Now, source: SourceId, closed: &Closed<String>) {
        if is_link(source) {
            return self.link_down(now, source);
        }
        if let Some(sid) = self.runner_of(source) {
            return self.runner_down(now, source, sid, closed);
        }
        let Some(id) = self.lives.get(&source).map(|life| Arc::clone(&life.agent)) else { return };
        let (kind, text) = why(closed);
        self.out.tell(Event::Ended(Arc::clone(&id), text.clone()));
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let starting = agent.run == Run::Starting(source);
        let limit = agent.spec.initialize.unwrap_or(self.config.timeouts.initialize);
        let timed_out = starting && now.mono.since(agent.started) >= limit;
        // It was dismissed, and an agent that was removed and came back may have another process by now.
        if agent.source() != Some(source) {
            return;
        }
        agent.run = Run::Leaving(source);
        agent.error = Some(text.clone());
        if starting && !timed_out && !agent.verified && agent.spec.origin == "registry" {
            agent.hidden = true;
        }
        let text = if timed_out {
            format!("{text}; a slow start is no broken agent: agentline agent set {id} --init-timeout 30s")
        } else {
            text
        };
        self.fail_openings(now, source, &start_failed(kind, text.clone()));
        if starting {
            self.give_up(now, &id, &start_failed(kind, text));
        } else {
            let exited = Stand::new(Status::Error, Some(Reason::AgentExited)).because(kind, text);
            self.book.down(now, source, &exited);
        }
    }

    /// A process is gone. Whoever waited for that has it started again.
    pub(super) fn ended(&mut self, now: Now, source: SourceId) {
        let Some(life) = self.lives.remove(&source) else { return };
        let gone: Vec<Sid> = life.names.into_values().collect();
        for sid in gone {
            if self.book.get(sid).is_none_or(|session| session.child().is_none()) {
                self.states.remove(&sid);
            }
        }
        self.expects.retain(|_, (of, _)| *of != source);
        match life.of {
            Of::Link(_) => return,
            Of::Runner(sid) => return self.runner_ended(now, sid),
            Of::Agent => {}
        }
        let Some(agent) = self.agents.get_mut(&life.agent) else { return };
        if matches!(agent.run, Run::Leaving(of) | Run::Starting(of) | Run::Up(of) if of == source) {
            agent.run = Run::Down;
            agent.listing = None;
        }
        let wanted = std::mem::take(&mut agent.wanted);
        for sid in wanted {
            self.want(now, sid);
        }
    }

    /// All who wait for an agent hear that it will not come.
    fn give_up(&mut self, now: Now, id: &Arc<str>, stand: &Stand) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.for_list = false;
        for sid in std::mem::take(&mut agent.wanted) {
            self.cannot_open(now, sid, stand.clone());
        }
    }

    pub(super) fn fail_openings(&mut self, now: Now, source: SourceId, stand: &Stand) {
        let there = self.opening.iter().filter(|(_, of)| **of == source).map(|(sid, _)| *sid);
        for sid in there.collect::<Vec<_>>() {
            self.cannot_open(now, sid, stand.clone());
        }
    }

    /// Ends an agent's process. Its sessions stand as that says, if something was going on.
    pub(super) fn dismiss(&mut self, now: Now, id: &Arc<str>, stand: &Stand) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let run = agent.run;
        match run {
            Run::Starting(source) | Run::Up(source) => {
                agent.run = Run::Leaving(source);
                self.fail_openings(now, source, &broken_off(stand));
                self.book.down(now, source, stand);
                // A source that is gone has nothing to leave.
                let _ = self.wish(now, source, Wish::Leave, Expects::Nothing);
            }
            Run::Launching => agent.run = Run::Down,
            Run::Down | Run::Leaving(_) => {}
        }
        self.end_runners(now, Some(id), stand);
        if stand.reason.is_some() {
            self.give_up(now, id, &broken_off(stand));
        }
    }

    /// A process goes on with a turn that was given up, and has nothing else to do.
    pub(super) fn replace(&mut self, now: Now, source: SourceId) {
        if self.runner_of(source).is_some() {
            return self.runner_stuck(now, source);
        }
        if let Some(id) = self.lives.get(&source).map(|life| Arc::clone(&life.agent)) {
            self.dismiss(now, &id, &Stand::default());
        }
    }

    /// The agents are others.
    pub(super) fn sync(&mut self, now: Now, specs: Vec<AgentSpec>) {
        let mut seen = BTreeSet::new();
        for spec in specs {
            if !seen.insert(Arc::clone(&spec.id)) {
                continue;
            }
            let Some(agent) = self.agents.get_mut(&spec.id) else {
                self.agents.insert(Arc::clone(&spec.id), Agent::new(spec));
                continue;
            };
            let (was, id) = (std::mem::replace(&mut agent.spec, spec), Arc::clone(&agent.spec.id));
            agent.hidden &= was == agent.spec;
            let stand = if was.launch != agent.spec.launch {
                (agent.verified, agent.can, agent.listed) = (false, None, None);
                Reason::AgentChanged
            } else if was.enabled && !agent.spec.enabled {
                Reason::AgentDisabled
            } else {
                continue;
            };
            let stand = Stand::new(Status::Cancelled, Some(stand));
            if stand.reason == Some(Reason::AgentDisabled) {
                agent.env = Variables::default();
                self.unlink(now, Some(&id), &stand);
            }
            self.dismiss(now, &id, &stand);
        }
        let gone = self.agents.keys().filter(|id| !seen.contains(*id)).cloned();
        for id in gone.collect::<Vec<_>>() {
            let stand = Stand::new(Status::Cancelled, Some(Reason::AgentRemoved));
            self.unlink(now, Some(&id), &stand);
            self.dismiss(now, &id, &stand);
            self.agents.remove(&id);
        }
    }

    /// Switched on or off.
    pub(super) fn switched(&mut self, now: Now, id: &str, on: bool) {
        let specs = self.agents.values().map(|agent| agent.spec.clone());
        let specs = specs.map(|spec| if *spec.id == *id { AgentSpec { enabled: on, ..spec } } else { spec });
        self.sync(now, specs.collect());
    }

    /// Looks again whether an agent has something to do, when it could have had nothing for long enough.
    fn idle_at(&mut self, now: Now, id: &Arc<str>) {
        let Some(agent) = self.agents.get(id) else { return };
        // Something that is under way keeps it, and is no activity: it is looked again soon.
        let at = (agent.active + self.config.timeouts.idle).max(now.mono + SOON);
        self.clocks.insert((at, Clock::Idle(Arc::clone(id))));
    }

    /// The clock of an idle agent.
    pub(super) fn idle(&mut self, now: Now, id: &Arc<str>) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let Run::Up(source) = agent.run else { return };
        if self.book.is_at_work(source) {
            agent.active = now.mono;
        }
        let busy = agent.listing.is_some() || self.opening.values().any(|of| *of == source);
        if busy || now.mono.since(agent.active) < self.config.timeouts.idle {
            return self.idle_at(now, id);
        }
        self.dismiss(now, id, &Stand::default());
    }
}

/// Where a setting has its place.
pub(super) fn setting(placed: Placed) -> Setting {
    match placed {
        Placed::Option(option, value) => Setting::Option(option, value),
        Placed::Mode(mode) => Setting::Mode(mode),
        Placed::Model(model) => Setting::Model(model),
    }
}

pub(super) fn start_failed(kind: &str, why: impl Into<String>) -> Stand {
    Stand::new(Status::Error, Some(Reason::StartFailed)).because(kind, why)
}

fn unusable(reason: Reason, id: &str, why: &str) -> Stand {
    Stand::new(Status::Error, Some(reason)).because("unavailable", format!("{id} {why}"))
}

/// What was being opened when we ended the agent ourselves.
pub(super) fn broken_off(stand: &Stand) -> Stand {
    let reason = stand.reason.unwrap_or(Reason::StartFailed);
    Stand::new(Status::Error, Some(reason)).because("cancelled", "the agent was stopped meanwhile")
}
