//! Commands that do something to a session.

use std::sync::Arc;

use super::{Desk, not_found, reply};
use crate::acp::content::ImageContent;
use crate::acp::session::Setting as Word;
use crate::acp::{ContentBlock, SessionId};
use crate::control::{Answer, ErrorTag, Failure, Key};
use crate::hub::agents::{Agent, setting};
use crate::hub::api::{
    Deleted, Dispatch, Dispatched, Drop, Image, MessageBrief, Origin, Reason, Role, SessionBtw,
    SessionDelete, SessionLoad, SessionNew, SessionQueue, SessionRename, SessionSend, SessionSet,
    SessionSetPolicy, SessionStop, Shown, Started, Status, Who,
};
use crate::hub::book::{Home, Prompt, Sid, Taken};
use crate::hub::config::{AgentKind, Errand};
use crate::hub::machine::Hub;
use crate::hub::open::{Clock, Expects, Pending, Start, Wants};
use crate::hub::show;
use crate::machine::Now;
use crate::session::{Done, Trouble, TurnId, Wish};

impl Hub {
    /// A new session: first it is looked whether its folder is there.
    pub(super) fn session_new(&mut self, now: Now, key: Key, mut new: SessionNew, who: &Who) -> Desk {
        let agent = self.agent_for(new.agent.as_deref())?;
        if new.task.as_deref().is_some_and(|task| task.trim().is_empty()) && new.images.is_empty() {
            return Err(Failure::invalid_args("the prompt is empty"));
        }
        self.check_images(&agent, &new.images)?;
        if let Some(name) = &new.name {
            self.check_name(name, None)?;
        }
        new.agent = Some(agent.to_string());
        let cwd = new.cwd.get_or_insert_with(|| self.config.home.clone()).clone();
        if !cwd.starts_with('/') {
            return Err(Failure::invalid_args("the folder of a session is an absolute path"));
        }
        let _ = now;
        self.errand(Errand::Folder(cwd), Pending::Folder(key, Box::new((new, who.clone()))));
        Ok(None)
    }

    /// It is known whether the folder is there.
    pub(in super::super) fn folder(
        &mut self,
        now: Now,
        key: Key,
        (new, who): (SessionNew, Who),
        exists: bool,
    ) {
        let cwd = new.cwd.clone().unwrap_or_default();
        if !exists {
            let text = format!("no folder {cwd}: create it, or choose another one with -C");
            return self.fail(now, key, Failure::invalid_args(text));
        }
        // Names and agents may have changed meanwhile.
        let checked = self.agent_for(new.agent.as_deref()).and_then(|agent| {
            new.name.as_deref().map_or(Ok(()), |name| self.check_name(name, None)).map(|()| agent)
        });
        match checked {
            Ok(agent) => self.begin(now, key, &agent, new, who),
            Err(failure) => self.fail(now, key, failure),
        }
    }

    fn begin(&mut self, now: Now, key: Key, agent: &Arc<str>, new: SessionNew, who: Who) {
        let later = match self.equip(now, agent, new.env) {
            Ok(later) => later,
            Err(failure) => return self.fail(now, key, failure),
        };
        let home = Home { agent: Arc::clone(agent), cwd: new.cwd.unwrap_or_default().into() };
        let sid = self.book.add(now, home);
        let policy = self.policy(new.policy);
        // All of these succeed: the session is there.
        let _ = self.book.set_policy(now, sid, policy);
        if new.name.is_some() {
            let _ = self.book.label(now, sid, new.name);
        }
        self.book.can_be(sid, self.agents.get(agent).and_then(|agent| agent.can));
        self.models.extend(new.model.map(|model| (sid, model)));
        if new.task.is_none() && new.images.is_empty() {
            // It is new, so it is not open.
            let _ = self.book.open(now, sid);
            return self.wait_for(now, sid, key, Wants::Prompt(None), later);
        }
        let by = origin(new.supervisor, new.reason, who);
        let images = images(new.images, self.is_runner(agent));
        let prompt = prompt(now, new.task.unwrap_or_default(), images, by);
        match self.book.prompt(now, sid, prompt) {
            Ok(taken) => self.wait_for(now, sid, key, Wants::Prompt(Some(taken)), later),
            Err(no) => {
                let failure = self.no(sid, no);
                self.book.forget(sid);
                self.fail(now, key, failure);
            }
        }
    }

    /// The agent of that id, else the one that goes without saying.
    fn agent_for(&self, id: Option<&str>) -> Result<Arc<str>, Failure> {
        let default = || self.agents.values().find(|agent| agent.spec.default).map(|agent| &*agent.spec.id);
        let usable = |agent: &&Agent| agent.is_usable() || self.opener(&agent.spec.id).is_some();
        let mut on = self.agents.values().filter(|agent| usable(agent) && agent.spec.origin != BUILT_IN);
        let id = match id.or_else(default) {
            Some(id) => id,
            None => match (on.next(), on.next()) {
                (Some(only), None) => &*only.spec.id,
                (Some(_), Some(_)) => {
                    return Err(Failure::invalid_args("several agents are here: choose one with --agent"));
                }
                (None, _) => return Err(not_found("no agent is here: agentline agent list")),
            },
        };
        let agent = self.agents.get(id).filter(|agent| !agent.hidden);
        let agent = agent.ok_or_else(|| not_found(format!("no agent \"{id}\": agentline agent list")))?;
        let id = Arc::clone(&agent.spec.id);
        match () {
            () if !agent.spec.enabled => Err(Failure::new(
                ErrorTag::RunnerError,
                format!("{} is switched off: agentline agent enable {id}", agent.spec.name),
            )),
            () if agent.spec.launch.is_none() && self.opener(&id).is_none() => Err(Failure::new(
                ErrorTag::RunnerError,
                format!("{} has no command: it starts tasks only by itself", agent.spec.name),
            )),
            () => Ok(id),
        }
    }

    fn check_images(&self, agent: &str, images: &[Image]) -> Result<(), Failure> {
        let can = self.agents.get(agent).and_then(|agent| agent.can);
        if !images.is_empty() && can.is_some_and(|can| !can.images) {
            return Err(Failure::invalid_args(format!("{agent} takes no images")));
        }
        if self.is_runner(agent) && images.iter().any(|image| image.path.is_none()) {
            let text =
                format!("{agent} takes images as files of this machine, and this one has no path here");
            return Err(Failure::invalid_args(text));
        }
        Ok(())
    }

    fn is_runner(&self, agent: &str) -> bool {
        self.agents.get(agent).is_some_and(|agent| agent.spec.kind == AgentKind::Runner)
    }

    fn check_name(&self, name: &str, of: Option<Sid>) -> Result<(), Failure> {
        let is_handle =
            name.strip_prefix('s').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let bad = name.trim() != name
            || !(1..=64).contains(&name.chars().count())
            || name.contains('@')
            || name.chars().any(char::is_control)
            || ["last", "all", "local"].contains(&name)
            || is_handle;
        if bad {
            let text =
                "a name has 1 to 64 characters, no @, is not last, all or local, and looks like no handle";
            return Err(Failure::invalid_args(text));
        }
        let taken = self.book.sessions().find(|(sid, session)| {
            Some(*sid) != of && !session.archived && session.label.as_deref() == Some(name)
        });
        taken.map_or(Ok(()), |(sid, _)| Err(Failure::invalid_args(format!("{sid} has that name already"))))
    }

    pub(super) fn session_send(&mut self, now: Now, key: Key, send: SessionSend, who: &Who) -> Desk {
        let sid = self.sid(&send.session_id)?;
        if send.content.trim().is_empty() && send.images.is_empty() {
            return Err(Failure::invalid_args("the prompt is empty"));
        }
        let agent = self.book.get(sid).map(|session| Arc::clone(&session.home.agent)).unwrap_or_default();
        if self.book.get(sid).is_some_and(|session| session.link().is_none()) {
            self.agent_for(Some(&agent))?;
        }
        self.check_images(&agent, &send.images)?;
        if self.is_forgetful() && self.book.get(sid).is_some_and(|session| session.running().is_some()) {
            let text = "it would have to wait, and what waits cannot be stored: agentline hub status";
            return Err(Failure::new(ErrorTag::RunnerError, text));
        }
        let later = self.equip(now, &agent, send.env)?;
        self.touch(now, &agent);
        let by = origin(send.supervisor, send.reason, who.clone());
        let images = images(send.images, self.is_runner(&agent));
        let prompt = prompt(now, send.content, images, by);
        let taken = self.book.prompt(now, sid, prompt).map_err(|no| self.no(sid, no))?;
        self.taken(now, sid, key, Some(taken), later)
    }

    pub(super) fn session_retry(&mut self, now: Now, key: Key, word: &str) -> Desk {
        let sid = self.sid(word)?;
        let taken = self.book.retry(now, sid).map_err(|no| self.no(sid, no))?;
        self.taken(now, sid, key, taken, false)
    }

    /// Behind others the answer comes at once; else when the agent has the session.
    fn taken(&mut self, now: Now, sid: Sid, key: Key, taken: Option<Taken>, later: bool) -> Desk {
        let waits = taken.is_some_and(|it| matches!(it.dispatched, Dispatched::Queued | Dispatched::Held));
        if waits {
            let warning = later.then_some(ENV_LATER);
            return Ok(Some(Answer::reply(&self.begun(now, sid, taken, warning))));
        }
        self.wait_for(now, sid, key, Wants::Prompt(taken), later);
        Ok(None)
    }

    /// Somebody asked something of that agent.
    fn touch(&mut self, now: Now, agent: &Arc<str>) {
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.active = now.mono;
        }
    }

    pub(super) fn session_load(&mut self, now: Now, key: Key, load: SessionLoad) -> Desk {
        let sid = match &load.agent {
            None => self.sid(&load.session_id)?,
            Some(agent) => {
                let agent = self.agent_for(Some(agent))?;
                if self.is_runner(&agent) {
                    let text = format!("{agent} keeps no sessions: name one of the hub's, without --agent");
                    return Err(Failure::invalid_args(text));
                }
                let name: SessionId = (*load.session_id).into();
                if load.session_id.is_empty() || load.session_id.len() > 1024 {
                    return Err(Failure::invalid_args("that is no id of a session"));
                }
                self.book.find(&agent, &name).unwrap_or_else(|| {
                    let cwd = load.cwd.unwrap_or_else(|| self.config.home.clone());
                    self.book.add_named(now, Home { agent, cwd: cwd.into() }, name)
                })
            }
        };
        let agent = self.book.get(sid).map(|session| Arc::clone(&session.home.agent)).unwrap_or_default();
        let later = self.equip(now, &agent, load.env)?;
        self.touch(now, &agent);
        self.book.open(now, sid).map_err(|no| self.no(sid, no))?;
        self.wait_for(now, sid, key, Wants::Session, later);
        Ok(None)
    }

    /// A client waits for a session to be open, but not for ever. `later`: it named variables that only the agent's next
    /// process will have.
    pub(super) fn wait_for(&mut self, now: Now, sid: Sid, key: Key, wants: Wants, later: bool) {
        let due = now.mono + self.config.timeouts.start;
        self.starts.entry(sid).or_default().push(Start { key, wants, due, later });
        self.clocks.insert((due, Clock::Start(sid, key)));
        self.due.insert(sid);
    }

    /// Whoever waits for a session to be open is answered, if it is, or will not be.
    pub(in super::super) fn answer_starts(&mut self, now: Now, sid: Sid) {
        let opens = self.book.get(sid).is_some_and(crate::hub::book::Session::is_wanted);
        if opens || self.opening.contains_key(&sid) {
            return;
        }
        for start in self.starts.remove(&sid).unwrap_or_default() {
            self.clocks.remove(&(start.due, Clock::Start(sid, start.key)));
            let answer = self.started(now, sid, &start.wants, start.later.then_some(ENV_LATER), false);
            self.answer(now, start.key, answer);
        }
    }

    /// It takes long: the client is told how far it is.
    pub(in super::super) fn slow_start(&mut self, now: Now, sid: Sid, key: Key) {
        let Some(starts) = self.starts.get_mut(&sid) else { return };
        let Some(at) = starts.iter().position(|start| start.key == key) else { return };
        let start = starts.remove(at);
        let answer = self.started(now, sid, &start.wants, Some("slow_start"), true);
        self.answer(now, key, answer);
    }

    fn started(&self, now: Now, sid: Sid, wants: &Wants, warning: Option<&str>, slow: bool) -> Answer {
        let Some(session) = self.book.get(sid) else {
            return Answer::Fail(super::no_session(&sid.to_string()));
        };
        let (stand, open) = (session.stand(), session.driver().is_some());
        let unsent = |taken: &Option<Taken>| taken.is_some_and(|taken| self.is_unsent(taken.turn));
        let failed = match wants {
            Wants::Prompt(taken) if unsent(taken) => true,
            Wants::Prompt(None) | Wants::Session => !open && !slow,
            Wants::Prompt(Some(_)) | Wants::Messages(_) => false,
        };
        if failed {
            let needs_login = stand.reason == Some(Reason::NeedsLogin);
            let tag = if needs_login { ErrorTag::NeedsLogin } else { ErrorTag::RunnerError };
            let error = stand.error.as_ref().filter(|_| stand.status == Status::Error);
            let text = error.map_or("it could not be opened", |error| &*error.message);
            let retryable = self.brief(now, sid).retryable;
            let beside = serde_json::json!({ "sessionId": sid.to_string(), "retryable": retryable });
            return Answer::Fail(Failure::new(tag, text).beside(&beside));
        }
        match wants {
            Wants::Prompt(taken) => Answer::reply(&self.begun(now, sid, *taken, warning)),
            Wants::Session => {
                let session = self.brief(now, sid);
                Answer::reply(&Shown { session, warning: warning.map(str::to_owned) })
            }
            Wants::Messages(tail) => {
                let messages = show::messages(sid, session, *tail);
                if messages.is_empty() && !open {
                    let error = stand.error.as_ref().map(|error| error.message.clone());
                    let text = error.unwrap_or_else(|| "its messages cannot be read".to_owned());
                    return Answer::Fail(Failure::new(ErrorTag::RunnerError, text));
                }
                Answer::reply(&messages)
            }
        }
    }

    fn begun(&self, now: Now, sid: Sid, taken: Option<Taken>, warning: Option<&str>) -> Started {
        let warning = warning.or_else(|| self.is_forgetful().then_some("not_stored"));
        let session = self.brief(now, sid);
        let Some(taken) = taken else {
            return Started { session, warning: warning.map(str::to_owned), ..Started::default() };
        };
        let prompt = self.book.get(sid).and_then(|session| session.said(taken.turn));
        let message = prompt.map(|prompt| MessageBrief {
            id: format!("p{}", taken.turn.0),
            session_id: sid.to_string(),
            role: Role::User,
            content: prompt.text(),
            created_at: show::time(prompt.at),
            attachments: prompt.attachments(),
            origin: prompt.by.clone(),
            ..MessageBrief::default()
        });
        Started {
            session,
            message,
            dispatch: taken.dispatched,
            turn: Some(taken.turn.0),
            position: Some(taken.place).filter(|_| taken.dispatched == Dispatched::Queued),
            warning: warning.map(str::to_owned),
        }
    }

    pub(super) fn session_queue(&mut self, now: Now, it: &SessionQueue) -> Desk {
        let sid = self.sid(&it.session_id)?;
        match it.drop {
            None => {}
            Some(Drop::All) => drop(self.book.withdraw_all(now, sid)),
            Some(Drop::Turn(turn)) => {
                let waits = self.book.get(sid).is_some_and(|it| it.queued().any(|(of, _)| of.0 == turn));
                if !waits {
                    return Err(not_found(format!("no prompt {turn} waits")));
                }
                let _ = self.book.withdraw(now, sid, TurnId(turn));
            }
        }
        if it.release {
            self.book.release(now, sid).map_err(|no| self.no(sid, no))?;
        }
        let session = self.book.get(sid).ok_or_else(|| super::no_session(&it.session_id))?;
        reply::<SessionQueue>(&show::queue(session))
    }

    pub(super) fn session_stop(&mut self, now: Now, word: &str) -> Desk {
        let sid = self.sid(word)?;
        let stopped = self.book.stop(now, sid).map_err(|no| self.no(sid, no))?;
        let held = self.book.get(sid).filter(|session| session.held().is_some());
        let dispatch = if stopped { "abort_sent" } else { "already_stopped" }.to_owned();
        reply::<SessionStop>(&Dispatch { dispatch, held: held.map_or(0, |session| session.queued().len()) })
    }

    fn shown(&self, now: Now, sid: Sid, dropped: usize) -> Desk {
        let warning = (dropped > 0).then(|| format!("not_sent: {dropped}"));
        Ok(Some(Answer::reply(&Shown { session: self.brief(now, sid), warning })))
    }

    pub(super) fn session_close(&mut self, now: Now, word: &str) -> Desk {
        let sid = self.sid(word)?;
        let dropped = self.book.close(now, sid, "closed").map_err(|no| self.no(sid, no))?;
        self.states.remove(&sid);
        self.end_streams(now, sid, "closed");
        self.shown(now, sid, dropped)
    }

    pub(super) fn session_archive(&mut self, now: Now, word: &str) -> Desk {
        let sid = self.sid(word)?;
        let dropped = self.book.archive(now, sid).map_err(|no| self.no(sid, no))?;
        self.states.remove(&sid);
        self.end_streams(now, sid, "archived");
        self.shown(now, sid, dropped)
    }

    pub(super) fn session_restore(&mut self, now: Now, word: &str) -> Desk {
        let sid = self.sid(word)?;
        let label = self.book.get(sid).and_then(|session| session.label.clone());
        if label.is_some_and(|label| self.check_name(&label, Some(sid)).is_err()) {
            // Another one has the name by now.
            let _ = self.book.label(now, sid, None);
        }
        self.book.restore(now, sid).map_err(|no| self.no(sid, no))?;
        self.shown(now, sid, 0)
    }

    pub(super) fn session_delete(&mut self, now: Now, word: &str) -> Desk {
        let sid = self.sid(word)?;
        self.book.delete(now, sid).map_err(|no| self.no(sid, no))?;
        self.states.remove(&sid);
        self.models.remove(&sid);
        self.end_streams(now, sid, "deleted");
        reply::<SessionDelete>(&Deleted { deleted: true })
    }

    pub(super) fn session_btw(&mut self, now: Now, it: SessionBtw) -> Desk {
        let sid = self.sid_of_runner(&it.session_id)?;
        if it.question.trim().is_empty() {
            return Err(Failure::invalid_args("the question is empty"));
        }
        reply::<SessionBtw>(&self.btw(now, sid, it.question)?)
    }

    pub(super) fn session_shutdown_runner(&mut self, now: Now, word: &str) -> Desk {
        let sid = self.sid_of_runner(word)?;
        let sent = self.shut_runner_down(now, sid);
        Ok(Some(Answer::reply(&sent)))
    }

    /// The session that somebody means, if a runner has it.
    fn sid_of_runner(&self, word: &str) -> Result<Sid, Failure> {
        let sid = self.sid(word)?;
        let is_runners = self.book.get(sid).is_some_and(|session| self.is_runner(&session.home.agent));
        let failure = || Failure::invalid_args(format!("{sid} is no session of a Galley runner"));
        if is_runners { Ok(sid) } else { Err(failure()) }
    }

    pub(super) fn session_rename(&mut self, now: Now, it: &SessionRename) -> Desk {
        let sid = self.sid(&it.session_id)?;
        self.check_name(&it.name, Some(sid))?;
        self.book.label(now, sid, Some(it.name.clone())).map_err(|no| self.no(sid, no))?;
        self.shown(now, sid, 0)
    }

    pub(super) fn session_set_policy(&mut self, now: Now, it: &SessionSetPolicy) -> Desk {
        let sid = self.sid(&it.session_id)?;
        self.book.set_policy(now, sid, it.policy).map_err(|no| self.no(sid, no))?;
        self.tell_policy(now, sid, it.policy);
        self.shown(now, sid, 0)
    }

    pub(super) fn session_set(&mut self, now: Now, key: Key, it: SessionSet) -> Desk {
        let sid = self.sid(&it.session_id)?;
        let word = match (it.model, it.mode, it.option) {
            (Some(model), None, None) => Word::Model(model),
            (None, Some(mode), None) => Word::Mode(mode),
            (None, None, Some(option)) => Word::Option(option.id, option.value),
            _ => return Err(Failure::invalid_args("one of model, mode and option is set at a time")),
        };
        let session = self.book.get(sid).ok_or_else(|| super::no_session(&it.session_id))?;
        let (Some(source), Some(name), Some(state)) =
            (session.driver(), session.name.clone(), self.states.get(&sid))
        else {
            let text = "no agent has it open: send a prompt first, or agentline session load";
            return Err(Failure::invalid_args(text));
        };
        let placed = state.request(&word).map_err(|why| Failure::invalid_args(why.explain()))?;
        let wish = Wish::Set { session: name, setting: setting(placed) };
        self.wish(now, source, wish, Expects::Set(key, sid, Box::new(word)))
            .map_err(|refused| Failure::invalid_args(refused.to_string()))?;
        Ok(None)
    }

    /// A setting was taken, or not.
    pub(in super::super) fn was_set(
        &mut self,
        now: Now,
        key: Key,
        sid: Sid,
        word: &Word,
        done: Result<Done, Trouble>,
    ) {
        let answer = match done {
            Ok(done) => {
                if let (Done::Set(options), Some(state)) = (done, self.states.get_mut(&sid)) {
                    state.config_options = Some(options);
                }
                Answer::reply(&Shown { session: self.brief(now, sid), warning: None })
            }
            Err(trouble) => {
                let state = self.states.get(&sid);
                let why = state.map(|state| state.explain(word, &trouble.message));
                Answer::fail(ErrorTag::InvalidArgs, why.unwrap_or(trouble.message))
            }
        };
        self.answer(now, key, answer);
    }
}

/// What is said where an agent has other variables than were named.
const ENV_LATER: &str = "env_later";
/// Agents that come with the hub go without saying last.
const BUILT_IN: &str = "built-in";

fn origin(supervisor: Option<String>, reason: Option<String>, who: Who) -> Origin {
    let via = if supervisor.is_some() { "supervisor" } else { "cli" }.to_owned();
    Origin { via, supervisor, reason, who: (who != Who::default()).then_some(who) }
}

/// An ACP agent gets the bytes, and nothing of where they are; a runner gets the file.
fn images(images: Vec<Image>, as_files: bool) -> Vec<ContentBlock> {
    let image = |Image { mime_type, data, path }| {
        let (data, uri) = if as_files { (String::new(), path) } else { (data, None) };
        ContentBlock::Image(ImageContent { data, mime_type, uri, annotations: None, meta: None })
    };
    images.into_iter().map(image).collect()
}

fn prompt(now: Now, text: String, images: Vec<ContentBlock>, by: Origin) -> Prompt {
    let text = Some(text).filter(|text| !text.trim().is_empty()).map(ContentBlock::text);
    Prompt { words: text.into_iter().chain(images).collect(), by: Some(by), at: now.unix }
}
