//! What clients ask, and what they are answered.

pub(super) mod looks;
mod orders;
mod questions;
mod streams;

use super::api::{
    AgentBrief, AgentList, Call, Changed, Health, HubProblem, Method, Policy, Pong, Schema, SessionBrief,
    Stopping, Who,
};
use super::book::{No, Sid};
use super::config::{Caller, Errand};
use super::machine::Hub;
use super::open::{Pending, Stage};
use super::show;
use crate::control::{Answer, ErrorTag, Failure, Key, Request, SCHEMA_VERSION};
use crate::machine::Now;

/// An answer, or nothing yet.
type Desk = Result<Option<Answer>, Failure>;

/// The whole answer.
fn reply<M: Method>(result: &M::Result) -> Desk
where
    M::Result: serde::Serialize,
{
    Ok(Some(Answer::reply(result)))
}

fn no_session(word: &str) -> Failure {
    Failure::new(ErrorTag::NotFound, format!("no session \"{word}\": agentline session list"))
}

fn not_found(what: impl Into<String>) -> Failure {
    Failure::new(ErrorTag::NotFound, what)
}

impl Hub {
    /// A request came.
    pub(in super::super) fn asked(&mut self, now: Now, key: Key, request: &Request) {
        let call = match Call::read(request) {
            Ok(call) => call,
            Err(_) if is_galleys(&request.command) => {
                let text = format!("{} is not here yet", request.command);
                return self.fail(now, key, Failure::invalid_args(text));
            }
            Err(_) if request.command == "app.activate" => {
                let failure = Failure::new(ErrorTag::AppUnavailable, "this hub has no window");
                return self.fail(now, key, failure);
            }
            Err(failure) => return self.fail(now, key, failure),
        };
        match self.peer(key).pid.filter(|_| self.decides(&call) || speaks(&call)) {
            Some(pid) => self.errand(Errand::Who(pid), Pending::Who(key, Box::new(call))),
            None => self.known(now, key, call, &Caller::default()),
        }
    }

    /// It is known who asks.
    pub(in super::super) fn known(&mut self, now: Now, key: Key, call: Call, caller: &Caller) {
        let inside = caller.marked || caller.ancestors.iter().any(|pid| self.is_ours(*pid));
        if inside && self.decides(&call) {
            let text = "a program that an agent started may not decide this: a person has to";
            return self.fail(now, key, Failure::new(ErrorTag::NotPermitted, text));
        }
        match self.call(now, key, call, &caller.who) {
            Ok(Some(answer)) => self.answer(now, key, answer),
            Ok(None) => {}
            Err(failure) => self.fail(now, key, failure),
        }
    }

    /// Whether a command decides what only a person may.
    fn decides(&self, call: &Call) -> bool {
        let answers = |word: &str| {
            let sid = self.sid(word).ok();
            sid.and_then(|sid| self.book.get(sid)).is_some_and(super::book::Session::asks_for_words)
        };
        match call {
            Call::ApprovalRespond(_)
            | Call::SessionSetPolicy(_)
            | Call::AgentsEnable(_)
            | Call::SessionDelete(_)
            | Call::ToolRules(_)
            | Call::SessionShutdownRunner(_)
            | Call::HubStop(_) => true,
            Call::SessionNew(new) => new.policy.is_some_and(show::decides),
            Call::SessionSet(set) => set.mode.is_some() || set.option.is_some(),
            Call::SessionSend(send) => answers(&send.session_id),
            Call::Ping(_)
            | Call::Version(_)
            | Call::HubHealth(_)
            | Call::AgentsList(_)
            | Call::SessionsList(_)
            | Call::SessionsWatch(_)
            | Call::SessionLoad(_)
            | Call::SessionRetry(_)
            | Call::SessionQueue(_)
            | Call::SessionStop(_)
            | Call::SessionWatch(_)
            | Call::SessionShow(_)
            | Call::SessionWait(_)
            | Call::SessionClose(_)
            | Call::SessionArchive(_)
            | Call::SessionRestore(_)
            | Call::SessionRename(_)
            | Call::LlmSet(_)
            | Call::SessionBtw(_)
            | Call::RulesList(_)
            | Call::ApprovalsList(_)
            | Call::ApprovalsWatch(_)
            | Call::ApprovalAsk(_) => false,
        }
    }

    fn call(&mut self, now: Now, key: Key, call: Call, who: &Who) -> Desk {
        if self.stage != Stage::Serving && starts(&call) {
            return Err(Failure::new(ErrorTag::Busy, "the hub is stopping"));
        }
        match call {
            Call::Ping(_) => reply::<super::api::Ping>(&Pong { pong: true }),
            Call::Version(_) => reply::<super::api::Version>(&Schema { schema_version: SCHEMA_VERSION }),
            Call::HubHealth(_) => reply::<super::api::HubHealth>(&self.health(now)),
            Call::HubStop(stop) => self.hub_stop(now, key, stop.when_idle),
            Call::AgentsList(_) => {
                self.errand(Errand::Discover, Pending::Discover(key));
                Ok(None)
            }
            Call::AgentsEnable(it) => self.enable(key, &it.id, it.enabled),
            Call::SessionsList(it) => self.sessions_list(now, &it),
            Call::SessionsWatch(it) => self.sessions_watch(now, key, &it),
            Call::SessionNew(it) => self.session_new(now, key, it, who),
            Call::SessionLoad(it) => self.session_load(now, key, it),
            Call::SessionSend(it) => self.session_send(now, key, it, who),
            Call::SessionRetry(it) => self.session_retry(now, key, &it.session_id),
            Call::SessionQueue(it) => self.session_queue(now, &it),
            Call::SessionStop(it) => self.session_stop(now, &it.session_id),
            Call::SessionWatch(it) => self.session_watch(now, key, &it),
            Call::SessionShow(it) => self.session_show(now, key, &it),
            Call::SessionWait(it) => self.session_wait(now, key, &it),
            Call::SessionClose(it) => self.session_close(now, &it.session_id),
            Call::SessionArchive(it) => self.session_archive(now, &it.session_id),
            Call::SessionRestore(it) => self.session_restore(now, &it.session_id),
            Call::SessionDelete(it) => self.session_delete(now, &it.session_id),
            Call::SessionRename(it) => self.session_rename(now, &it),
            Call::SessionSet(it) => self.session_set(now, key, it),
            Call::LlmSet(it) => self.session_set(
                now,
                key,
                super::api::SessionSet {
                    session_id: it.session_id,
                    model: Some(it.llm_name),
                    ..Default::default()
                },
            ),
            Call::SessionSetPolicy(it) => self.session_set_policy(now, &it),
            Call::SessionBtw(it) => self.session_btw(now, it),
            Call::SessionShutdownRunner(it) => self.session_shutdown_runner(now, &it.session_id),
            Call::RulesList(_) => reply::<super::api::RulesList>(&self.config.switches.rules),
            Call::ToolRules(it) => self.set_rules(now, key, it).map(|()| None),
            Call::ApprovalsList(it) => self.approvals_list(&it),
            Call::ApprovalsWatch(it) => self.approvals_watch(now, key, &it),
            Call::ApprovalRespond(it) => self.approval_respond(now, it, who),
            Call::ApprovalAsk(it) => self.approval_ask(now, key, it, who),
        }
    }

    /// The session that somebody means: by handle, by name, by the agent's id, or by the start of one of these.
    pub(super) fn sid(&self, word: &str) -> Result<Sid, Failure> {
        let handle = word.strip_prefix('s').and_then(|number| number.parse().ok()).map(Sid);
        if let Some(sid) = handle.filter(|sid| sid.to_string() == word && self.book.get(*sid).is_some()) {
            return Ok(sid);
        }
        let names = |is: &dyn Fn(&str) -> bool| -> Vec<Sid> {
            let of = self.book.sessions().filter(|(_, session)| {
                session.label.as_deref().filter(|_| !session.archived).is_some_and(is)
                    || session.name.as_ref().is_some_and(|name| is(name.as_str()))
            });
            of.map(|(sid, _)| sid).collect()
        };
        let exact = names(&|name| name == word);
        let alike = if exact.is_empty() && word.chars().count() >= 4 {
            names(&|name| name.starts_with(word))
        } else {
            exact
        };
        match *alike {
            [] => Err(no_session(word)),
            [sid] => Ok(sid),
            [..] => {
                let all: Vec<String> = alike.iter().take(10).map(ToString::to_string).collect();
                Err(Failure::invalid_args(format!("\"{word}\" may be any of {}", all.join(", "))))
            }
        }
    }

    pub(super) fn brief(&self, now: Now, sid: Sid) -> SessionBrief {
        let Some(session) = self.book.get(sid) else {
            return SessionBrief { id: sid.to_string(), ..SessionBrief::default() };
        };
        let agent = self.agents.get(&session.home.agent);
        let label = agent.map_or(&*session.home.agent, |agent| &agent.spec.name);
        let usable = agent.is_some_and(super::agents::Agent::is_usable);
        let channel = show::channel(agent.map(|agent| agent.spec.kind).unwrap_or_default());
        let of = show::Agent { label, usable, channel };
        show::session(sid, session, now.unix, self.started.unix, of)
    }

    /// Why the book does nothing, for people.
    fn no(&self, sid: Sid, no: No) -> Failure {
        match no {
            No::Session => no_session(&sid.to_string()),
            No::Archived => Failure::invalid_args(format!("it is archived: agentline session restore {sid}")),
            No::Full => Failure::new(
                ErrorTag::Busy,
                format!("16 prompts wait already: agentline session queue {sid}"),
            ),
            No::Running => Failure::invalid_args("something runs: wait for it, or cancel it"),
            No::NothingToRetry => {
                Failure::invalid_args("the last prompt went well: there is nothing to try again")
            }
            No::Refused(why) => Failure::invalid_args(why.to_string()),
            No::Question => not_found("no such question"),
            No::Answered(_) => Failure::new(ErrorTag::AlreadyAnswered, "the question is over"),
            No::NotOffered => Failure::invalid_args("the question takes no such answer"),
        }
    }

    fn health(&self, now: Now) -> Health {
        let up = |agent: &&super::agents::Agent| agent.source().is_some();
        Health {
            ok: self.problems.is_empty(),
            pid: self.config.pid,
            version: self.config.version.clone(),
            uptime_ms: u64::try_from(now.mono.since(self.started.mono).as_millis()).unwrap_or(u64::MAX),
            links: self.links(),
            sessions: self.book.sessions().count(),
            running: self.running(),
            questions: self.book.open_asks().count(),
            agents: self.agents.values().filter(up).count() + self.runners.len(),
            clients: self.clients(),
            reverse: self.reverse(),
            transcripts: self.config.switches.transcripts,
            problems: self.problems.values().cloned().collect(),
        }
    }

    fn running(&self) -> usize {
        self.book.sessions().filter(|(_, session)| session.running().is_some()).count()
    }

    fn hub_stop(&mut self, now: Now, key: Key, when_idle: bool) -> Desk {
        let stopping = Stopping { stopping: true, running: self.running() };
        self.answer(now, key, Answer::reply(&stopping));
        if when_idle && stopping.running > 0 {
            self.stage = Stage::Draining;
            self.book.pause();
        } else if self.stage == Stage::Serving || self.stage == Stage::Draining {
            self.stop(now);
        }
        Ok(None)
    }

    /// The agents of this machine, after the folders were looked at again.
    pub(in super::super) fn list_agents(&mut self, now: Now, key: Key, problems: Vec<HubProblem>) {
        let mut agents: Vec<AgentBrief> = self.agents.values().map(|agent| self.agent(agent)).collect();
        agents.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        let since = |problem: HubProblem| HubProblem {
            since: if problem.since.is_empty() { show::time(now.unix) } else { problem.since },
            ..problem
        };
        let list = AgentList { agents, problems: problems.into_iter().map(since).collect() };
        self.answer(now, key, Answer::reply(&list));
    }

    fn agent(&self, agent: &super::agents::Agent) -> AgentBrief {
        let sessions = self.book.of(&agent.spec.id).len();
        AgentBrief {
            id: agent.spec.id.to_string(),
            name: agent.spec.name.clone(),
            origin: agent.spec.origin.clone(),
            kind: agent.spec.kind,
            enabled: agent.spec.enabled,
            running: agent.source().is_some() || self.runners(&agent.spec.id) > 0,
            hidden: agent.hidden,
            error: agent.error.clone(),
            can: agent.can.map(show::can).unwrap_or_default(),
            sessions,
        }
    }

    fn enable(&mut self, key: Key, id: &str, on: bool) -> Desk {
        if !self.agents.contains_key(id) {
            return Err(not_found(format!("no agent \"{id}\": agentline agent list")));
        }
        let errand = Errand::Enable { agent: id.to_owned(), on };
        self.errand(errand, Pending::Enable(key, id.to_owned(), on));
        Ok(None)
    }

    /// The settings know it, or could not be written.
    pub(in super::super) fn enabled(
        &mut self,
        now: Now,
        key: Key,
        id: &str,
        on: bool,
        changed: Result<bool, String>,
    ) {
        match changed {
            Ok(changed) => {
                self.switched(now, id, on);
                self.answer(now, key, Answer::reply(&Changed { changed }));
            }
            Err(why) => self.fail(now, key, Failure::new(ErrorTag::RunnerError, why)),
        }
    }

    /// The policy of a session that is given none.
    pub(super) fn policy(&self, given: Option<Policy>) -> Policy {
        given.unwrap_or(self.config.policy)
    }
}

/// Whether who says it is shown beside what is said.
const fn speaks(call: &Call) -> bool {
    matches!(call, Call::SessionNew(_) | Call::SessionSend(_) | Call::ApprovalAsk(_))
}

/// Whether it begins something that a hub which leaves would cut short.
const fn starts(call: &Call) -> bool {
    matches!(
        call,
        Call::SessionNew(_)
            | Call::SessionSend(_)
            | Call::SessionRetry(_)
            | Call::SessionLoad(_)
            | Call::ApprovalAsk(_)
    )
}

/// Commands that Galley has for its runners.
fn is_galleys(command: &str) -> bool {
    ["session.reinject", "session.pet_attach", "session.pet_detach"].contains(&command)
}
