//! Requests of ours: what may be asked, how it is written, what its answer means.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Answer, Client, Command, Event, Failure, Session, Stage, Stopped, Timeouts, Which};
use crate::acp::content::ContentBlock;
use crate::acp::peer::Notice;
use crate::acp::session::{
    AgentCapabilities, ConfigValue, McpServer, SessionList, SessionSetup, SessionState,
};
use crate::acp::turn::{Open, StopReason, Turn};
use crate::acp::update::ConfigOptions;
use crate::acp::{Json, SessionId, lenient, method};
use crate::machine::{Deadline, Now, Refused, Tag, Time};
use crate::rpc::{self, Id, RpcError, code};

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) until: Option<Time>,
}

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
    SetMode,
    SetOption,
    Call,
}

impl Asked {
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.until.map(|until| (until, self.ask.name()))
    }

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.until.is_some_and(|until| until <= now.mono)
    }

    pub(super) const fn opens_new_session(&self) -> bool {
        matches!(self.ask, Ask::Other(_, Wanted::OpenSession(Which::New)))
    }
}

impl Ask {
    const fn tag(&self) -> Option<Tag> {
        match self {
            Self::Initialize => None,
            Self::Prompt(tag, _) | Self::Other(tag, _) => Some(*tag),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Prompt(..) => "prompt",
            Self::Other(_, Wanted::Authenticate) => "authenticate",
            Self::Other(_, Wanted::OpenSession(_)) => "open a session",
            Self::Other(..) => "a request",
        }
    }

    pub(super) const fn timeout(&self, timeouts: &Timeouts) -> Option<Duration> {
        match self {
            Self::Initialize => timeouts.initialize,
            Self::Prompt(..) => timeouts.turn,
            Self::Other(_, Wanted::Authenticate) => timeouts.authenticate,
            Self::Other(_, Wanted::OpenSession(_)) => timeouts.session,
            Self::Other(..) => timeouts.request,
        }
    }
}

impl Client {
    pub(super) fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let offers = match &self.stage {
            Stage::Leaving(_) | Stage::Ended => return Err(Refused::Closed),
            Stage::Opening | Stage::Initializing if !matches!(command, Command::Shutdown) => {
                return Err(Refused::NotReady);
            }
            Stage::Ready(_) if !self.link.is_open() && !matches!(command, Command::Shutdown) => {
                return Err(Refused::Closed);
            }
            Stage::Opening | Stage::Initializing => &AgentCapabilities::default(),
            Stage::Ready(offers) => &**offers,
        };
        match command {
            Command::Authenticate { tag, method } => {
                self.may_ask(tag)?;
                let params = Params { method_id: Some(&method), ..Params::default() };
                self.ask(now, Ask::Other(tag, Wanted::Authenticate), method::AUTHENTICATE, &params);
            }
            Command::Logout { tag } => {
                offered(offers.auth.logout, "logout")?;
                self.may_ask(tag)?;
                self.ask(now, Ask::Other(tag, Wanted::Logout), method::LOGOUT, &Params::default());
            }
            Command::OpenSession { tag, which, setup } => {
                may_open(offers, &which, &setup)?;
                self.may_ask(tag)?;
                return self.open_session(now, tag, which, &setup);
            }
            Command::ListSessions { tag, cwd, cursor } => {
                offered(offers.session_capabilities.list, "session/list")?;
                self.may_ask(tag)?;
                let params = Params { cwd: cwd.as_deref(), cursor: cursor.as_deref(), ..Params::default() };
                self.ask(now, Ask::Other(tag, Wanted::ListSessions), method::SESSION_LIST, &params);
            }
            Command::CloseSession { tag, session } => {
                offered(offers.session_capabilities.close, "session/close")?;
                self.may_ask(tag)?;
                self.session(&session)?;
                let params = Params::of(&session);
                let ask = Ask::Other(tag, Wanted::CloseSession(session.clone()));
                self.ask(now, ask, method::SESSION_CLOSE, &params);
            }
            Command::DeleteSession { tag, session } => {
                offered(offers.session_capabilities.delete, "session/delete")?;
                self.may_ask(tag)?;
                let params = Params::of(&session);
                self.ask(now, Ask::Other(tag, Wanted::DeleteSession), method::SESSION_DELETE, &params);
            }
            Command::SetMode { tag, session, mode } => {
                let Session::Open { modes, .. } = self.session(&session)? else {
                    return Err(Refused::NotReady);
                };
                offered(*modes, "session modes")?;
                self.may_ask(tag)?;
                let params = Params { mode_id: Some(&mode), ..Params::of(&session) };
                self.ask(now, Ask::Other(tag, Wanted::SetMode), method::SESSION_SET_MODE, &params);
            }
            Command::SetOption { tag, session, option, value } => {
                let Session::Open { options, .. } = self.session(&session)? else {
                    return Err(Refused::NotReady);
                };
                offered(*options, "session config options")?;
                self.may_ask(tag)?;
                let kind = matches!(value, ConfigValue::Bool(_)).then_some("boolean");
                let params =
                    Params { config_id: Some(&option), kind, value: Some(&value), ..Params::of(&session) };
                self.ask(now, Ask::Other(tag, Wanted::SetOption), method::SESSION_SET_CONFIG_OPTION, &params);
            }
            Command::Prompt { tag, session, prompt } => {
                may_prompt(offers, &prompt)?;
                self.may_ask(tag)?;
                return self.prompt(now, tag, session, &prompt);
            }
            Command::Cancel { session } => return self.cancel(now, &session),
            Command::Answer { request, outcome } => return self.answer_permission(request, &outcome),
            Command::Reply { request, result } => return self.answer_service(request, Ok(&result)),
            Command::Fail { request, error } => return self.answer_service(request, Err(&error)),
            Command::Call { tag, method, params } => {
                is_extension(&method)?;
                self.may_ask(tag)?;
                self.ask(now, Ask::Other(tag, Wanted::Call), &method, &params);
            }
            Command::Notify { method, params } => {
                is_extension(&method)?;
                self.link.line(|buf| rpc::notification(buf, &method, &params));
            }
            Command::Withdraw { tag } => {
                let number = self.number_of(tag).ok_or(Refused::Unknown)?;
                self.withdraw(number);
            }
            Command::Shutdown => {
                for session in self.running() {
                    self.send_cancel(&session);
                }
                self.leave(now, None);
                self.fail_all(&Failure::Shutdown);
            }
        }
        Ok(())
    }

    fn may_ask(&self, tag: Tag) -> Result<(), Refused> {
        if self.number_of(tag).is_some() {
            return Err(Refused::Busy);
        }
        if self.pending.len() >= self.limits.own_requests {
            return Err(Refused::Limit("open requests"));
        }
        Ok(())
    }

    fn number_of(&self, tag: Tag) -> Option<u64> {
        self.pending.iter().find(|(_, asked)| asked.ask.tag() == Some(tag)).map(|(number, _)| number)
    }

    fn session(&self, id: &SessionId) -> Result<&Session, Refused> {
        self.sessions.get(id).ok_or(Refused::Unknown)
    }

    fn open_session(
        &mut self,
        now: Now,
        tag: Tag,
        which: Which,
        setup: &SessionSetup,
    ) -> Result<(), Refused> {
        if self.sessions.len() >= self.limits.sessions {
            return Err(Refused::Limit("sessions"));
        }
        let (method, session_id) = match &which {
            Which::New => (method::SESSION_NEW, None),
            Which::Load(id) => (method::SESSION_LOAD, Some(id)),
            Which::Resume(id) => (method::SESSION_RESUME, Some(id)),
        };
        if let Some(id) = session_id {
            if self.sessions.contains_key(id) {
                return Err(Refused::Busy);
            }
            // Its history comes before the answer.
            self.sessions.insert(id.clone(), Session::Loading);
        }
        let params = SetupParams { session_id: session_id.cloned(), setup };
        self.ask(now, Ask::Other(tag, Wanted::OpenSession(which)), method, &params);
        Ok(())
    }

    fn prompt(
        &mut self,
        now: Now,
        tag: Tag,
        session: SessionId,
        prompt: &[ContentBlock],
    ) -> Result<(), Refused> {
        match self.session(&session)? {
            Session::Loading => return Err(Refused::NotReady),
            Session::Open { turn, .. } if !turn.is_idle() => return Err(Refused::Busy),
            Session::Open { .. } => {}
        }
        let params = Params { prompt: Some(prompt), ..Params::of(&session) };
        let request = self.ask(now, Ask::Prompt(tag, session.clone()), method::SESSION_PROMPT, &params);
        if let Some(Session::Open { turn, .. }) = self.sessions.get_mut(&session) {
            *turn = Turn::Running(Open { request, tag });
        }
        self.heard_at = now.mono;
        Ok(())
    }

    fn cancel(&mut self, now: Now, id: &SessionId) -> Result<(), Refused> {
        let until = self.timeouts.cancel.map(|grace| now.mono + grace);
        match self.sessions.get_mut(id) {
            Some(Session::Open { turn, .. }) => match *turn {
                Turn::Running(open) => *turn = Turn::Cancelling(open, until),
                // Once per turn: a second one could hit the turn after it.
                Turn::Cancelling(..) => return Ok(()),
                Turn::Idle => return Err(Refused::Unknown),
            },
            Some(Session::Loading) | None => return Err(Refused::Unknown),
        }
        self.send_cancel(id);
        Ok(())
    }

    /// Tells the agent, then gives up every question of that session.
    pub(super) fn send_cancel(&mut self, session: &SessionId) {
        let params = Params::of(session);
        self.link.line(|buf| rpc::notification(buf, method::SESSION_CANCEL, &params));
        self.cancel_permissions(session);
    }

    pub(super) fn withdraw(&mut self, number: u64) {
        let params = Params { request_id: Some(number), ..Params::default() };
        self.link.line(|buf| rpc::notification(buf, method::CANCEL_REQUEST, &params));
    }

    pub(super) fn response(&mut self, now: Now, id: &Id, outcome: Result<&RawValue, RpcError>) {
        let Some(Asked { ask, .. }) = self.pending.close(id) else {
            return self.notice(Notice::Orphan { id: id.token().to_owned() });
        };
        match (ask, outcome) {
            (Ask::Initialize, outcome) => self.handshake(now, outcome.map(Json::from)),
            (ask, Err(error)) => self.failed(ask, Failure::Rpc(error)),
            (Ask::Prompt(tag, session), Ok(result)) => {
                let end = serde_json::from_str(result.get())
                    .map(|PromptResponse { stop_reason, usage, meta }| Stopped {
                        reason: stop_reason,
                        usage,
                        meta,
                    })
                    .map_err(|error| unreadable(&error));
                self.turn_over(tag, session, end);
            }
            (Ask::Other(tag, wanted), Ok(result)) => match self.answer(&wanted, result) {
                Ok(answer) => self.out.tell(Event::Answered(tag, Box::new(answer))),
                Err(failure) => self.failed(Ask::Other(tag, wanted), failure),
            },
        }
    }

    /// What a result means for a request.
    fn answer(&mut self, wanted: &Wanted, result: &RawValue) -> Result<Answer, Failure> {
        let json = result.get();
        Ok(match wanted {
            Wanted::Authenticate => Answer::Authenticated,
            Wanted::Logout => Answer::LoggedOut,
            Wanted::OpenSession(which) => self.session_opened(which, json)?,
            Wanted::ListSessions => Answer::Sessions(
                serde_json::from_str::<SessionList>(json).map_err(|error| unreadable(&error))?,
            ),
            Wanted::CloseSession(session) => {
                self.end_turn(session, Failure::Disconnected);
                self.cancel_permissions(session);
                self.sessions.remove(session);
                Answer::SessionClosed
            }
            Wanted::DeleteSession => Answer::SessionDeleted,
            Wanted::SetMode => Answer::ModeSet,
            Wanted::SetOption => {
                let options: ConfigOptions =
                    serde_json::from_str(json).map_err(|error| unreadable(&error))?;
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
            Which::New => {
                serde_json::from_str::<Opened>(json).map_err(|error| unreadable(&error))?.session_id
            }
            Which::Load(session) | Which::Resume(session) => session.clone(),
        };
        if let Some(Session::Open { .. }) = self.sessions.get(&session) {
            return Err(Failure::Unreadable("the agent gave a session id that is in use".to_owned()));
        }
        // A null result is an open session without modes.
        let state: SessionState = serde_json::from_str(json).unwrap_or_default();
        let known = Session::open(state.modes.is_some(), state.config_options.is_some());
        self.sessions.insert(session.clone(), known);
        Ok(Answer::SessionOpened { session, state })
    }

    pub(super) fn failed(&mut self, ask: Ask, failure: Failure) {
        match ask {
            Ask::Initialize => {}
            Ask::Prompt(tag, session) => self.turn_over(tag, session, Err(failure)),
            Ask::Other(tag, wanted) => {
                let missing = matches!(&failure, Failure::Rpc(error) if error.code == code::NOT_FOUND);
                match wanted {
                    // What is not there is closed, and deleted.
                    Wanted::CloseSession(_) | Wanted::DeleteSession if missing => {
                        if let Ok(answer) = self.answer(&wanted, RawValue::NULL) {
                            return self.out.tell(Event::Answered(tag, Box::new(answer)));
                        }
                    }
                    Wanted::OpenSession(Which::Load(session) | Which::Resume(session)) => {
                        self.sessions.remove(&session);
                    }
                    Wanted::Authenticate
                    | Wanted::Logout
                    | Wanted::OpenSession(Which::New)
                    | Wanted::ListSessions
                    | Wanted::CloseSession(_)
                    | Wanted::DeleteSession
                    | Wanted::SetMode
                    | Wanted::SetOption
                    | Wanted::Call => {}
                }
                self.out.tell(Event::Failed(tag, Box::new(failure)));
            }
        }
    }

    fn turn_over(&mut self, tag: Tag, session: SessionId, end: Result<Stopped, Failure>) {
        if let Some(Session::Open { turn, .. }) = self.sessions.get_mut(&session) {
            turn.end();
        }
        self.tell_end(session, tag, end);
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::Unreadable(error.to_string())
}

fn offered(yes: bool, what: &'static str) -> Result<(), Refused> {
    if yes { Ok(()) } else { Err(Refused::NotOffered(what)) }
}

fn is_extension(method: &str) -> Result<(), Refused> {
    if method.starts_with('_') {
        Ok(())
    } else {
        Err(Refused::Invalid("a method of an extension begins with _"))
    }
}

fn may_open(offers: &AgentCapabilities, which: &Which, setup: &SessionSetup) -> Result<(), Refused> {
    match which {
        Which::New => {}
        Which::Load(_) => offered(offers.load_session, "session/load")?,
        Which::Resume(_) => offered(offers.session_capabilities.resume, "session/resume")?,
    }
    if !setup.cwd.starts_with('/') {
        return Err(Refused::Invalid("the working directory must be absolute"));
    }
    if !setup.additional_directories.is_empty() {
        offered(offers.session_capabilities.additional_directories, "additional directories")?;
    }
    if setup.system_prompt.is_some() {
        offered(offers.session_capabilities.system_prompt, "a system prompt")?;
    }
    for server in &setup.mcp_servers {
        match server {
            McpServer::Stdio(_) => {}
            McpServer::Http(_) => offered(offers.mcp_capabilities.http, "MCP servers over HTTP")?,
            McpServer::Sse(_) => offered(offers.mcp_capabilities.sse, "MCP servers over SSE")?,
        }
    }
    Ok(())
}

fn may_prompt(offers: &AgentCapabilities, prompt: &[ContentBlock]) -> Result<(), Refused> {
    let may = &offers.prompt_capabilities;
    for block in prompt {
        match block {
            ContentBlock::Text(_) | ContentBlock::ResourceLink(_) => {}
            ContentBlock::Image(_) => offered(may.image, "images")?,
            ContentBlock::Audio(_) => offered(may.audio, "audio")?,
            ContentBlock::Resource(_) => offered(may.embedded_context, "embedded resources")?,
            ContentBlock::Unknown(_) => return Err(Refused::Invalid("a content block of an unknown type")),
        }
    }
    Ok(())
}

/// The parameters of all requests but `initialize` and those that open a session: absent is not written.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a [ContentBlock]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a ConfigValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<u64>,
}

impl<'a> Params<'a> {
    fn of(session: &'a SessionId) -> Self {
        Self { session_id: Some(session), ..Self::default() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetupParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    #[serde(flatten)]
    setup: &'a SessionSetup,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptResponse {
    stop_reason: StopReason,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: Option<Json>,
    #[serde(default, rename = "_meta", deserialize_with = "lenient::or_default")]
    meta: Option<Json>,
}
