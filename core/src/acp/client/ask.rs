//! Requests of ours: what may be asked, how it is written, what its answer means.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::sessions::{Known, Session};
use super::{Answer, Client, Clock, Command, Event, Failure, Moment, Stage, Stopped, Timeouts, Which};
use crate::acp::content::ContentBlock;
use crate::acp::exposed::Exposed;
use crate::acp::lenient::object;
use crate::acp::peer::{Fault, LONGEST_ID, Notice, is_extension};
use crate::acp::session::{
    AgentCapabilities, ConfigValue, PromptCapabilities, SessionList, SessionSetup, SessionState,
};
use crate::acp::turn::{Open, StopReason, Turn};
use crate::acp::update::ConfigOptions;
use crate::acp::{Json, SessionId, method};
use crate::closed::Cause;
use crate::machine::{Now, Refused, Tag};
use crate::role::Role;
use crate::rpc::{self, Id, RpcError, code};

/// What was asked.
#[derive(Debug)]
pub(super) enum Ask {
    Initialize,
    Prompt(Tag, SessionId),
    Other(Tag, Wanted),
}

/// What a request of the application is for.
#[derive(Debug)]
pub(super) enum Wanted {
    Authenticate,
    Logout,
    OpenSession(Which),
    ListSessions,
    CloseSession(SessionId),
    DeleteSession,
    SetMode(SessionId),
    SetModel(SessionId),
    SetOption(SessionId),
    Call,
}

impl Ask {
    pub(super) fn is_about(&self, id: &SessionId) -> bool {
        match self {
            Self::Prompt(_, session)
            | Self::Other(
                _,
                Wanted::CloseSession(session)
                | Wanted::SetMode(session)
                | Wanted::SetModel(session)
                | Wanted::SetOption(session)
                | Wanted::OpenSession(Which::Load(session) | Which::Resume(session)),
            ) => session == id,
            Self::Initialize | Self::Other(..) => false,
        }
    }

    pub(super) const fn opens_new_session(&self) -> bool {
        matches!(self, Self::Other(_, Wanted::OpenSession(Which::New | Which::Fork(_))))
    }

    /// Whether its clock starts anew with each word of the agent: it starts an engine, or replays a history.
    pub(super) const fn takes_news_for_progress(&self) -> bool {
        matches!(self, Self::Other(_, Wanted::OpenSession(_)))
    }

    pub(super) const fn tag(&self) -> Option<Tag> {
        match self {
            Self::Initialize => None,
            Self::Prompt(tag, _) | Self::Other(tag, _) => Some(*tag),
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Prompt(..) => "prompt",
            Self::Other(_, Wanted::Authenticate) => "authenticate",
            Self::Other(_, Wanted::OpenSession(_)) => "open a session",
            Self::Other(..) => "a request",
        }
    }

    pub(super) const fn timeout(&self, timeouts: &Timeouts) -> Option<Duration> {
        timeouts.of(self.clock())
    }

    pub(super) const fn clock(&self) -> Clock {
        match self {
            Self::Initialize => Clock::Initialize,
            Self::Prompt(..) => Clock::Turn,
            Self::Other(_, Wanted::Authenticate) => Clock::Authenticate,
            Self::Other(_, Wanted::OpenSession(_)) => Clock::Session,
            Self::Other(..) => Clock::Request,
        }
    }
}

impl Client {
    pub(super) fn ask_for(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let offers = match &self.stage {
            _ if matches!(command, Command::Shutdown) => return self.shut_down(now),
            _ if matches!(command, Command::Hasten) => return self.hasten(now),
            Stage::Opening | Stage::Initializing => return Err(Refused::NotReady),
            Stage::Ready(_) if !self.wire.link.is_open() => return Err(Refused::Closed),
            Stage::Ready(offers) => offers,
        };
        let may = &offers.capabilities;
        match command {
            Command::Authenticate { tag, method } => {
                offered(offers.logins.contains(&method), "that login")?;
                let params = Params::Login { method_id: &method };
                self.request_of(now, tag, Wanted::Authenticate, method::AUTHENTICATE, &params)
            }
            Command::Logout { tag } => {
                offered(may.auth.logout, "logout")?;
                self.request_of(now, tag, Wanted::Logout, method::LOGOUT, &Params::None {})
            }
            Command::OpenSession { tag, which, setup } => {
                may_open(may, &which)?;
                setup.check(may)?;
                self.open_session(now, tag, which, &setup)
            }
            Command::ListSessions { tag, cwd, cursor } => {
                offered(may.session_capabilities.list, "session/list")?;
                let params = Params::List { cwd: cwd.as_deref(), cursor: cursor.as_deref() };
                self.request_of(now, tag, Wanted::ListSessions, method::SESSION_LIST, &params)
            }
            Command::CloseSession { tag, session } => {
                offered(may.session_capabilities.close, "session/close")?;
                self.known(&session)?;
                let params = Params::Session { session_id: &session };
                let wanted = Wanted::CloseSession(session.clone());
                self.request_of(now, tag, wanted, method::SESSION_CLOSE, &params)?;
                // An agent treats it as a cancel of the turn that runs (ACP, session-setup): so do we.
                self.cancelling(now, &session);
                self.give_up_questions_of(&session);
                Ok(())
            }
            Command::DeleteSession { tag, session } => {
                offered(may.session_capabilities.delete, "session/delete")?;
                let params = Params::Session { session_id: &session };
                self.request_of(now, tag, Wanted::DeleteSession, method::SESSION_DELETE, &params)
            }
            Command::SetMode { tag, session, mode } => {
                offered(self.known(&session)?.modes, "session modes")?;
                let params = Params::Mode { session_id: &session, mode_id: &mode };
                self.request_of(now, tag, Wanted::SetMode(session.clone()), method::SESSION_SET_MODE, &params)
            }
            Command::SetModel { tag, session, model } => {
                offered(self.known(&session)?.models, "session models")?;
                let params = Params::Model { session_id: &session, model_id: &model };
                self.request_of(
                    now,
                    tag,
                    Wanted::SetModel(session.clone()),
                    method::SESSION_SET_MODEL,
                    &params,
                )
            }
            Command::SetOption { tag, session, option, value } => {
                offered(self.known(&session)?.options, "session config options")?;
                let kind = matches!(value, ConfigValue::Bool(_)).then_some("boolean");
                let params = Params::Option { session_id: &session, config_id: &option, kind, value: &value };
                let wanted = Wanted::SetOption(session.clone());
                self.request_of(now, tag, wanted, method::SESSION_SET_CONFIG_OPTION, &params)
            }
            Command::Prompt { tag, session, prompt } => {
                may_prompt(may.prompt_capabilities, &prompt)?;
                self.prompt(now, tag, session, &prompt)
            }
            Command::Cancel { session } => self.cancel(now, &session),
            Command::Answer { request, outcome } => self.answer_permission(request, &outcome),
            Command::Reply { request, result } => self.answer_service(request, Ok(&result)),
            Command::Fail { request, error } => self.answer_service(request, Err(&error)),
            Command::Call { tag, method, params } => {
                is_extension(&method, &params)?;
                self.request_of(now, tag, Wanted::Call, &method, &params)
            }
            Command::Notify { method, params } => {
                is_extension(&method, &params)?;
                self.send(|buf| rpc::notification(buf, &method, &params))
            }
            Command::Withdraw { tag } => self.withdraw(now, tag),
            Command::Shutdown => self.shut_down(now),
            Command::Hasten => self.hasten(now),
        }
    }

    fn hasten(&mut self, now: Now) -> Result<(), Refused> {
        self.shut_down(now)?;
        self.wire.link.hasten(now, &mut self.wire.out);
        Ok(())
    }

    fn shut_down(&mut self, now: Now) -> Result<(), Refused> {
        for session in self.sessions.running() {
            self.send_cancel(&session);
        }
        self.part(now, Cause::Left);
        Ok(())
    }

    fn may_ask(&self, tag: Tag) -> Result<(), Refused> {
        if self.asks.number_of(tag).is_some() {
            return Err(Refused::Busy);
        }
        if self.asks.len() >= self.limits.own_requests {
            return Err(Refused::Limit("open requests"));
        }
        Ok(())
    }

    fn known(&self, id: &SessionId) -> Result<&Known, Refused> {
        match self.sessions.get(id.as_str()) {
            Some(Session::Open(known)) => Ok(known),
            Some(Session::Opening(_)) => Err(Refused::NotReady),
            None => Err(Refused::Unknown),
        }
    }

    fn request_of(
        &mut self,
        now: Now,
        tag: Tag,
        wanted: Wanted,
        method: &str,
        params: &impl Serialize,
    ) -> Result<(), Refused> {
        self.may_ask(tag)?;
        self.ask(now, Ask::Other(tag, wanted), method, params).map(drop)
    }

    fn open_session(
        &mut self,
        now: Now,
        tag: Tag,
        which: Which,
        setup: &SessionSetup,
    ) -> Result<(), Refused> {
        let room = self.sessions.len() < self.limits.sessions;
        let idle = if room { None } else { Some(self.longest_idle().ok_or(Refused::Limit("sessions"))?) };
        let (method, old) = match &which {
            Which::New => (method::SESSION_NEW, None),
            Which::Fork(_) => (method::SESSION_FORK, None),
            Which::Load(id) => (method::SESSION_LOAD, Some((id.clone(), Moment::Replay))),
            Which::Resume(id) => (method::SESSION_RESUME, Some((id.clone(), Moment::Between))),
        };
        if old.as_ref().is_some_and(|(id, _)| self.sessions.get(id.as_str()).is_some()) {
            return Err(Refused::Busy);
        }
        let session_id = match &which {
            Which::New => None,
            Which::Fork(id) | Which::Load(id) | Which::Resume(id) => Some(id.clone()),
        };
        let params = SetupParams { session_id: session_id.as_ref(), setup: Exposed(setup) };
        self.request_of(now, tag, Wanted::OpenSession(which), method, &params)?;
        if let Some(idle) = idle {
            self.sessions.remove(&idle);
            self.notice(Notice::Forgotten(idle));
        }
        if let Some((id, moment)) = old {
            // Its updates come before the answer.
            self.sessions.insert(id, Session::Opening(moment));
        }
        Ok(())
    }

    /// The session that gives way to another: where nothing is open, and which can be opened again.
    fn longest_idle(&self) -> Option<SessionId> {
        let Stage::Ready(offers) = &self.stage else { return None };
        let may = &offers.capabilities;
        if !may.load_session && !may.session_capabilities.resume {
            return None;
        }
        let busy = |id: &SessionId| self.inbound.is_about(id) || self.asks.is_about(id);
        self.sessions.longest_idle(busy)
    }

    fn prompt(
        &mut self,
        now: Now,
        tag: Tag,
        session: SessionId,
        prompt: &[ContentBlock],
    ) -> Result<(), Refused> {
        if self.known(&session)?.turn().open().is_some() {
            return Err(Refused::Busy);
        }
        self.may_ask(tag)?;
        let params = Params::Prompt { session_id: &session, prompt };
        let request = self.ask(now, Ask::Prompt(tag, session.clone()), method::SESSION_PROMPT, &params)?;
        self.sessions.set_turn(&session, Turn::Running(Open { request, tag }));
        self.quiet_since = self.wire.link.listened(now);
        Ok(())
    }

    fn cancel(&mut self, now: Now, id: &SessionId) -> Result<(), Refused> {
        match self.sessions.turn(id).ok_or(Refused::Unknown)? {
            // Once per turn: a second one could hit the turn after it.
            Turn::Cancelling(..) => return Ok(()),
            Turn::Idle | Turn::GivenUp(_) => return Err(Refused::Unknown),
            Turn::Running(_) => {}
        }
        self.cancelling(now, id);
        self.send_cancel(id);
        Ok(())
    }

    /// A turn that runs is to end as cancelled.
    fn cancelling(&mut self, now: Now, id: &SessionId) {
        let until = self.timeouts.cancel.map(|grace| self.wire.link.listened(now) + grace);
        if let Some(Turn::Running(open)) = self.sessions.turn(id).copied() {
            self.sessions.set_turn(id, Turn::Cancelling(open, until));
        }
    }

    /// Tells the agent, then gives up every permission that it asks for there.
    pub(super) fn send_cancel(&mut self, session: &SessionId) {
        let params = Params::Session { session_id: session };
        self.wire.link.line(|buf| rpc::notification(buf, method::SESSION_CANCEL, &params));
        self.give_up_questions_of(session);
    }

    fn withdraw(&mut self, now: Now, tag: Tag) -> Result<(), Refused> {
        let number = self.asks.number_of(tag).ok_or(Refused::Unknown)?;
        // Few agents know of the other way to cancel a turn.
        if let Some(Ask::Prompt(_, session)) = self.asks.get(number) {
            let session = session.clone();
            return self.cancel(now, &session);
        }
        self.send_withdrawal(number);
        Ok(())
    }

    pub(super) fn send_withdrawal(&mut self, number: u64) {
        let params = Params::Request { request_id: number };
        self.wire.link.line(|buf| rpc::notification(buf, method::CANCEL_REQUEST, &params));
    }

    pub(super) fn response(&mut self, now: Now, id: &Id, outcome: Result<&RawValue, RpcError>) {
        let Some(ask) = self.asks.close(id) else { return self.orphan(id) };
        match (ask, outcome) {
            (Ask::Initialize, outcome) => self.handshake(now, outcome.map(Json::from)),
            (ask, Err(error)) => self.failed(now, ask, Failure::Rpc(error)),
            (Ask::Prompt(tag, session), Ok(result)) => {
                let end = object(result.get()).map_err(|error| unreadable(&error));
                self.turn_over(session, tag, end);
            }
            (Ask::Other(tag, wanted), Ok(result)) => match self.answer(&wanted, result) {
                Ok(answer) => self.wire.tell(Event::Answered(tag, Box::new(answer))),
                Err(failure) => self.failed(now, Ask::Other(tag, wanted), failure),
            },
        }
    }

    /// An answer that nobody waits for. It may be the late end of a turn that was given up.
    fn orphan(&mut self, id: &Id) {
        let late = id.number().and_then(|number| self.sessions.late_answer(number));
        let notice = late.map(|(session, tag)| Notice::LateEnd { session, tag });
        self.notice(notice.unwrap_or_else(|| Notice::orphan(id, self.asks.oldest())));
    }

    /// What a result means for a request.
    fn answer(&mut self, wanted: &Wanted, result: &RawValue) -> Result<Answer, Failure> {
        let json = result.get();
        Ok(match wanted {
            Wanted::Authenticate => Answer::Authenticated,
            Wanted::Logout => Answer::LoggedOut,
            Wanted::OpenSession(which) => self.session_opened(which, json)?,
            Wanted::ListSessions => {
                Answer::Sessions(object::<SessionList>(json).map_err(|error| unreadable(&error))?)
            }
            Wanted::CloseSession(session) => {
                self.end_turn(session, Failure::Disconnected);
                self.give_up_questions_of(session);
                self.end_of_text(session);
                self.sessions.remove(session);
                Answer::SessionClosed
            }
            Wanted::DeleteSession => Answer::SessionDeleted,
            Wanted::SetMode(_) => Answer::ModeSet,
            Wanted::SetModel(_) => Answer::ModelSet,
            Wanted::SetOption(_) => {
                let options: ConfigOptions = object(json).map_err(|error| unreadable(&error))?;
                Answer::OptionSet(options.config_options)
            }
            Wanted::Call => Answer::Called(Json::from(result)),
        })
    }

    fn session_opened(&mut self, which: &Which, json: &str) -> Result<Answer, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Opened {
            session_id: SessionId,
        }
        let session = match which {
            Which::New | Which::Fork(_) => {
                object::<Opened>(json).map_err(|error| unreadable(&error))?.session_id
            }
            Which::Load(session) | Which::Resume(session) => session.clone(),
        };
        if session.as_str().len() > LONGEST_ID {
            return Err(Failure::Unreadable("the agent gave a session id of more than 8 KiB".to_owned()));
        }
        if let Some(Session::Open(_)) = self.sessions.get(session.as_str()) {
            return Err(Failure::Unreadable("the agent gave a session id that is in use".to_owned()));
        }
        // A null result is an open session without modes.
        let state: SessionState = object(json).unwrap_or_default();
        let (modes, models) = (state.modes.is_some(), state.models.is_some());
        let known = Known::new(modes, models, state.config_options.is_some());
        self.sessions.insert(session.clone(), Session::Open(Box::new(known)));
        Ok(Answer::SessionOpened { session, state })
    }

    pub(super) fn failed(&mut self, now: Now, ask: Ask, failure: Failure) {
        match (ask, failure) {
            (Ask::Initialize, Failure::TimedOut { after, .. }) => self.fault(now, Fault::TimedOut { after }),
            (Ask::Initialize, Failure::Unreadable(why)) => self.fault(now, Fault::Unreadable(why)),
            (Ask::Initialize, _) => {}
            (Ask::Prompt(tag, session), failure) => self.turn_over(session, tag, Err(failure)),
            (Ask::Other(tag, wanted), failure) => self.request_failed(tag, &wanted, failure),
        }
    }

    fn request_failed(&mut self, tag: Tag, wanted: &Wanted, failure: Failure) {
        match wanted {
            // What is not there is closed, and deleted.
            Wanted::CloseSession(_) | Wanted::DeleteSession if failure.is(code::NOT_FOUND) => {
                if let Ok(answer) = self.answer(wanted, RawValue::NULL) {
                    return self.wire.tell(Event::Answered(tag, Box::new(answer)));
                }
            }
            Wanted::OpenSession(Which::Load(session) | Which::Resume(session)) => {
                if let Some(Session::Opening(_)) = self.sessions.get(session.as_str()) {
                    self.end_of_text(session);
                    self.sessions.remove(session);
                }
            }
            Wanted::Authenticate
            | Wanted::Logout
            | Wanted::OpenSession(Which::New | Which::Fork(_))
            | Wanted::ListSessions
            | Wanted::CloseSession(_)
            | Wanted::DeleteSession
            | Wanted::SetMode(_)
            | Wanted::SetModel(_)
            | Wanted::SetOption(_)
            | Wanted::Call => {}
        }
        self.wire.tell(Event::Failed(tag, Box::new(failure)));
    }

    /// The agent has ended a turn, or will never end it.
    fn turn_over(&mut self, session: SessionId, tag: Tag, end: Result<Stopped, Failure>) {
        // What it asked is moot, and an open question would stop the clocks of the next turn.
        self.give_up_questions_of(&session);
        let was = self.sessions.set_turn(&session, Turn::Idle);
        let cancelled = was.is_some_and(|turn| turn.is_cancelled());
        let end = match end {
            // Some agents end a cancelled turn as any request that was cancelled.
            Err(failure) if cancelled && failure.is(code::CANCELLED) => Ok(StopReason::Cancelled.into()),
            end => end,
        };
        self.tell_end(session, tag, end);
    }
}

impl Failure {
    fn is(&self, code: i64) -> bool {
        matches!(self, Self::Rpc(error) if error.code == code)
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::Unreadable(error.to_string())
}

fn offered(yes: bool, what: &'static str) -> Result<(), Refused> {
    if yes { Ok(()) } else { Err(Refused::NotOffered(what)) }
}

fn may_open(may: &AgentCapabilities, which: &Which) -> Result<(), Refused> {
    match which {
        Which::New => Ok(()),
        Which::Fork(_) => offered(may.session_capabilities.fork, "session/fork"),
        Which::Load(_) => offered(may.load_session, "session/load"),
        Which::Resume(_) => offered(may.session_capabilities.resume, "session/resume"),
    }
}

fn may_prompt(may: PromptCapabilities, prompt: &[ContentBlock]) -> Result<(), Refused> {
    match prompt.iter().find(|block| !may.take(block)) {
        None => Ok(()),
        Some(ContentBlock::Image(_)) => Err(Refused::NotOffered("images")),
        Some(ContentBlock::Audio(_)) => Err(Refused::NotOffered("audio")),
        Some(ContentBlock::Resource(_)) => Err(Refused::NotOffered("embedded resources")),
        Some(ContentBlock::Text(_) | ContentBlock::ResourceLink(_) | ContentBlock::Unknown(_)) => {
            Err(Refused::Invalid("a content block of an unknown type"))
        }
    }
}

/// The parameters of what we ask and tell, but for `initialize` and what opens a session.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Params<'a> {
    None {},
    Login {
        method_id: &'a str,
    },
    List {
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<&'a str>,
    },
    Session {
        session_id: &'a SessionId,
    },
    Prompt {
        session_id: &'a SessionId,
        prompt: &'a [ContentBlock],
    },
    Mode {
        session_id: &'a SessionId,
        mode_id: &'a str,
    },
    Model {
        session_id: &'a SessionId,
        model_id: &'a str,
    },
    Option {
        session_id: &'a SessionId,
        config_id: &'a str,
        /// Absent for a select: agents from before there were other types do not know the field.
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        kind: Option<&'static str>,
        value: &'a ConfigValue,
    },
    Request {
        request_id: u64,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetupParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a SessionId>,
    #[serde(flatten)]
    setup: Exposed<'a, SessionSetup>,
}
