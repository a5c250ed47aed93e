//! Galley runners: one process for each session, whose memory is in the process. So an idle one stays, until there are
//! too many.
//!
//! ```text
//!          wanted              errand done              Up            closed, off, replaced, too many, gone
//!  (none) ────────► Launching ─────────────► Starting ─────► Up ─────────────────────────────────────────► Leaving
//!    ▲                  │ cannot be started      │ gone                                                       │
//!    └──────────────────┴────────────────────────┴────────────────────────────────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::agents::{Run, broken_off, start_failed};
use super::api::{Policy, Reason, Sent, Status};
use super::book::{Sid, SourceId, Stand};
use super::config::{Errand, Event, RunnerStart};
use super::lives::{Life, Of};
use super::machine::Hub;
use super::open::{Clock, Expects, Pending, Stage};
use crate::acp::session::{ConfigOption, ConfigValue, SessionSetup};
use crate::closed::Closed;
use crate::control::{ErrorTag, Failure};
use crate::galley::desktop;
use crate::machine::{Machine, Now, Open as Way, SpawnSpec};
use crate::session::galley::Config;
use crate::session::{Can, Item, Moment, Name, News, Open, Source, SourceConfig, Up, Wish, why};

/// The process of one session.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) run: Run,
    /// It is wanted again when it is gone.
    wanted: bool,
    /// What is told of its memory when it is open.
    pub(super) notice: Option<String>,
}

/// Processes that stay while there is nothing to do for them.
const MOST: usize = 20;
/// How long a runner may take to end a run that was given up, from then on: a model that says nothing keeps it from that
/// for 20 s and more.
const PATIENCE: Duration = Duration::from_secs(30);

impl Runner {
    const fn new(run: Run) -> Self {
        Self { run, wanted: false, notice: None }
    }
}

impl Hub {
    /// The session whose process that is.
    pub(super) fn runner_of(&self, source: SourceId) -> Option<Sid> {
        self.lives.get(&source).and_then(|life| life.of.runner())
    }

    /// The runners of an agent whose process lives or is about to.
    pub(super) fn runners(&self, agent: &str) -> usize {
        let is_of = |sid: &Sid| self.book.get(*sid).is_some_and(|session| *session.home.agent == *agent);
        self.runners.keys().filter(|sid| is_of(sid)).count()
    }

    /// A session wants its runner.
    pub(super) fn want_runner(&mut self, now: Now, sid: Sid) {
        match self.runners.get_mut(&sid) {
            None => self.launch_runner(now, sid),
            Some(Runner { run: Run::Up(source), .. }) => {
                let source = *source;
                self.open_runner(now, source, sid);
            }
            Some(Runner { run: Run::Leaving(_), wanted, .. }) => *wanted = true,
            Some(Runner { run: Run::Down | Run::Launching | Run::Starting(_), .. }) => {}
        }
    }

    fn launch_runner(&mut self, now: Now, sid: Sid) {
        let Some(session) = self.book.get(sid).filter(|_| self.stage == Stage::Serving) else { return };
        let id = Arc::clone(&session.home.agent);
        let (workspace, llm) = (session.home.cwd.to_string(), session.model.clone());
        let start = RunnerStart { session: sid.to_string(), workspace, llm };
        self.make_room_for_runner(now);
        self.runners.insert(sid, Runner::new(Run::Launching));
        let env = self.agents.get(&id).map(|agent| agent.env.clone()).unwrap_or_default();
        let errand = Errand::Launch { agent: id, env, runner: Some(start) };
        self.errand(errand, Pending::Runner(sid));
    }

    /// Of those that have nothing to do the one that had nothing for longest leaves.
    fn make_room_for_runner(&mut self, now: Now) {
        if self.runners.len() < MOST {
            return;
        }
        let idle = self.runners.iter().filter_map(|(sid, runner)| {
            let Run::Up(source) = runner.run else { return None };
            let session = self.book.get(*sid)?;
            let works = self.book.is_at_work(source) || session.questions() > 0;
            (!works && !self.opening.contains_key(sid)).then_some((session.active, *sid))
        });
        if let Some((_, sid)) = idle.min() {
            self.end_runner(now, sid, &Stand::default(), Wish::Close { session: name(sid) });
        }
    }

    /// It is known how to start it.
    pub(super) fn runner_launched(&mut self, now: Now, sid: Sid, spec: Result<Box<SpawnSpec>, String>) {
        if self.runners.get(&sid).is_none_or(|runner| runner.run != Run::Launching) {
            return;
        }
        let wanted = self.book.get(sid).filter(|session| session.is_wanted());
        let Some((id, policy)) = wanted.map(|session| (Arc::clone(&session.home.agent), session.policy))
        else {
            self.runners.remove(&sid);
            return;
        };
        let spec = match spec {
            Ok(spec) => spec,
            Err(why) => {
                self.runners.remove(&sid);
                if let Some(agent) = self.agents.get_mut(&id) {
                    agent.error = Some(why.clone());
                }
                return self.cannot_open(now, sid, start_failed("spawn", why));
            }
        };
        let mut desktop = desktop::Config::new(Way::Spawn(spec));
        desktop.auto_approve = policy == Policy::Allow;
        desktop.rules = self.rules_of(sid);
        let source = self.fresh_source();
        let config = Config { desktop, session: name(sid) };
        let placed =
            self.sources.insert(now, source, Source::new(now, SourceConfig::Runner(Box::new(config))));
        debug_assert!(placed.is_ok(), "each number is given once");
        self.runners.insert(sid, Runner::new(Run::Starting(source)));
        let mut life = Life::new(Arc::clone(&id), Of::Runner(sid));
        life.names.insert(name(sid), sid);
        self.lives.insert(source, life);
        self.out.tell(Event::Started(id));
    }

    /// It is ready.
    pub(super) fn runner_up(&mut self, now: Now, source: SourceId, sid: Sid, up: &Up) {
        let Some(runner) = self.runners.get_mut(&sid).filter(|it| it.run == Run::Starting(source)) else {
            return;
        };
        runner.run = Run::Up(source);
        let agent = self.lives.get(&source).and_then(|life| self.agents.get_mut(&life.agent));
        if let Some(agent) = agent {
            // A runner that is gone is started again for its session.
            (agent.can, agent.error) = (Some(Can { resume: true, ..up.can }), None);
            agent.proven();
        }
        if self.book.get(sid).is_some_and(|session| session.is_wanted()) {
            self.recall(now, source, sid);
        } else {
            self.end_runner(now, sid, &Stand::default(), Wish::Leave);
        }
    }

    pub(super) fn open_runner(&mut self, now: Now, source: SourceId, sid: Sid) {
        let Some(session) = self.book.get(sid) else { return };
        let setup = Box::new(SessionSetup::in_directory(&*session.home.cwd));
        self.opening.insert(sid, source);
        if let Err(refused) = self.wish(now, source, Wish::Open(Open::New, setup), Expects::Open(sid)) {
            self.cannot_open(now, sid, start_failed("refused", refused.to_string()));
        }
    }

    /// It takes prompts: what is to be known of its memory is told.
    pub(super) fn runner_opened(&mut self, now: Now, source: SourceId, sid: Sid) {
        let notice = self.runners.get_mut(&sid).and_then(|runner| runner.notice.take());
        if let Some(text) = notice {
            let (session, moment, news) = (name(sid), Moment::Between, News::Note(text));
            self.news(now, source, &Item { session, moment, news, raw: None });
        }
    }

    /// A runner has another model: its next process begins with that.
    pub(super) fn runner_has(&mut self, sid: Sid, options: &[ConfigOption]) {
        let model = options.iter().find(|option| option.category.as_deref() == Some("model"));
        if let Some(ConfigValue::Id(name)) = model.map(|option| option.current_value.clone())
            && self.runners.contains_key(&sid)
        {
            self.book.set_model(sid, name);
        }
    }

    /// A runner told its last word. Whoever follows its session alone hears that.
    pub(super) fn runner_down(&mut self, now: Now, source: SourceId, sid: Sid, closed: &Closed<String>) {
        let (kind, text) = why(closed);
        let Some(id) = self.lives.get(&source).map(|life| Arc::clone(&life.agent)) else { return };
        self.out.tell(Event::Ended(Arc::clone(&id), text.clone()));
        let Some(runner) = self.runners.get_mut(&sid) else { return };
        let run = std::mem::replace(&mut runner.run, Run::Leaving(source));
        if run == Run::Leaving(source) {
            self.book.down(now, source, &Stand::default());
        } else {
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.error = Some(text.clone());
            }
            let failed = start_failed(kind, text.clone());
            self.fail_openings(now, source, &failed);
            self.cannot_open(now, sid, failed);
            let exited = Stand::new(Status::Error, Some(Reason::AgentExited)).because(kind, text);
            self.book.down(now, source, &exited);
        }
        self.end_streams(now, sid, "subprocess_exited");
    }

    /// Its process is gone.
    pub(super) fn runner_ended(&mut self, now: Now, sid: Sid) {
        if self.runners.remove(&sid).is_some_and(|runner| runner.wanted) {
            self.want(now, sid);
        }
    }

    /// Ends a runner, in that way. Its session stands as that says, if something was going on.
    pub(super) fn end_runner(&mut self, now: Now, sid: Sid, stand: &Stand, how: Wish) {
        let Some(runner) = self.runners.get_mut(&sid) else { return };
        match runner.run {
            Run::Starting(source) | Run::Up(source) => {
                runner.run = Run::Leaving(source);
                self.fail_openings(now, source, &broken_off(stand));
                self.book.down(now, source, stand);
                // A source that is gone has nothing to leave.
                let _ = self.wish(now, source, how, Expects::Nothing);
            }
            Run::Launching => drop(self.runners.remove(&sid)),
            Run::Leaving(source) if stand.reason.is_some() => {
                runner.wanted = false;
                // What it may finish by itself takes too long now.
                let _ = self.wish(now, source, how, Expects::Nothing);
            }
            Run::Leaving(_) | Run::Down => {}
        }
        if stand.reason.is_some() {
            self.cannot_open(now, sid, broken_off(stand));
        }
    }

    /// The same of all runners, or of those of an agent.
    pub(super) fn end_runners(&mut self, now: Now, agent: Option<&str>, stand: &Stand) {
        let agent_of = |sid: &Sid| self.book.get(*sid).map(|session| &*session.home.agent);
        let is_of = |sid: &Sid| agent.is_none() || agent_of(sid) == agent;
        for sid in self.runners.keys().copied().filter(is_of).collect::<Vec<_>>() {
            self.end_runner(now, sid, stand, Wish::Leave);
        }
    }

    /// A run was given up. Its runner is left some time to end it.
    pub(super) fn runner_stuck(&mut self, now: Now, source: SourceId) {
        self.clocks.insert((now.mono + PATIENCE, Clock::Stuck(source)));
    }

    /// It had the time.
    pub(super) fn still_stuck(&mut self, now: Now, source: SourceId) {
        let Some(sid) = self.runner_of(source) else { return };
        if self.book.get(sid).is_some_and(|session| session.stuck_at() == Some(source)) {
            self.end_runner(now, sid, &Stand::default(), Wish::Leave);
        }
    }

    /// A question beside the conversation.
    pub(super) fn btw(&mut self, now: Now, sid: Sid, question: String) -> Result<Sent, Failure> {
        let Some(Run::Up(source)) = self.runners.get(&sid).map(|runner| runner.run) else {
            let text = format!("no runner has {sid}: session send starts one");
            return Err(Failure::new(ErrorTag::RunnerError, text));
        };
        let wish = Wish::Aside { session: name(sid), question };
        self.wish(now, source, wish, Expects::Nothing)
            .map_err(|refused| Failure::new(ErrorTag::RunnerError, refused.to_string()))?;
        Ok(Sent { dispatch: "dispatched".to_owned() })
    }

    /// Ends the process of a session.
    pub(super) fn shut_runner_down(&mut self, now: Now, sid: Sid) -> Sent {
        let runs = self.runners.get(&sid).is_some_and(|it| matches!(it.run, Run::Starting(_) | Run::Up(_)));
        if runs {
            let stand = Stand::new(Status::Cancelled, None);
            self.end_runner(now, sid, &stand, Wish::Leave);
        }
        let dispatch = if runs { "shutdown_sent" } else { "already_stopped" }.to_owned();
        Sent { dispatch }
    }

    /// A runner was told to leave: it takes no prompts from here on.
    pub(super) fn runner_leaves(&mut self, source: SourceId) {
        let sid = self.runner_of(source);
        if let Some(runner) = sid.and_then(|sid| self.runners.get_mut(&sid)) {
            runner.run = Run::Leaving(source);
        }
    }
}

/// What a runner calls its session: the id that it was started with, no word of a peer's.
fn name(sid: Sid) -> Name {
    sid.to_string().as_str().into()
}
