//! What the client asks and says.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    About, Agent, Ask, Event, Initialized, Prompted, Question, Requested, Session, Stage, Turn, TurnKey,
    TurnState, Wanted,
};
use crate::acp::lenient::or_default;
use crate::acp::method;
use crate::acp::peer::{LONGEST_ID, Notice, Notified, RequestKey, decode};
use crate::acp::permission::PermissionOutcome;
use crate::acp::session::{AuthMethod, ClientCapabilities, ConfigValue, InitializeRequest, SessionSetup};
use crate::acp::{ContentBlock, Json, SessionId};
use crate::machine::Refused;
use crate::rpc::{self, Id, RpcError, code, shown};

impl Agent {
    pub(super) fn request(&mut self, id: Id, method: &str, params: Option<&RawValue>) {
        // Another `initialize` counts until the first other request, as both official SDKs have it.
        if matches!(self.stage, Stage::Greeted) && method != method::INITIALIZE {
            self.stage = Stage::Serving;
        }
        let done = match (&self.stage, method) {
            (Stage::Fresh | Stage::Greeted, method::INITIALIZE) => self.initialize(&id, params),
            (Stage::Serving, method::INITIALIZE) => Err(invalid("initialize comes first, and once")),
            (Stage::Introduced(_), _) => Err(invalid("initialize is not answered yet")),
            (Stage::Fresh, _) => Err(invalid("initialize comes first")),
            _ if self.is_open(&id) => Err(invalid("a request of that id is open")),
            _ if self.requests.len() + self.turns.len() >= self.limits.peer_requests => {
                Err(RpcError::new(code::INTERNAL_ERROR, "too many open requests"))
            }
            (_, method::SESSION_PROMPT) => self.prompt(&id, params),
            _ => self.wanted(method, params).map(|(wanted, about)| self.surface(id.clone(), wanted, about)),
        };
        match done {
            Ok(()) => {}
            Err(error) => {
                if error.code == code::INVALID_PARAMS {
                    self.notice(Notice::BadParams { method: method.to_owned(), why: error.message.clone() });
                }
                self.complain(&id, error);
            }
        }
    }

    fn is_open(&self, id: &Id) -> bool {
        self.requests.values().any(|question| question.id == *id)
            || self.turns.values().any(|turn| turn.id == *id)
    }

    fn initialize(&mut self, id: &Id, params: Option<&RawValue>) -> Result<(), RpcError> {
        let request: InitializeRequest = decode(params)?;
        self.client = ClientCapabilities { meta: None, ..request.client_capabilities.clone() };
        if self.greets_late {
            self.stage = Stage::Introduced(id.clone());
        } else {
            self.greet(id);
        }
        self.wire.tell(Event::Initialized(Box::new(Initialized {
            protocol_version: request.protocol_version,
            client_info: request.client_info,
            capabilities: request.client_capabilities,
        })));
        Ok(())
    }

    pub(super) fn greet(&mut self, id: &Id) {
        self.stage = Stage::Greeted;
        let mut greeting = self.greeting.clone();
        greeting.auth_methods.retain(|login| self.client.auth.terminal || !login.is_terminal());
        self.wire.link.line(|buf| rpc::reply(buf, id, &greeting));
    }

    fn prompt(&mut self, id: &Id, params: Option<&RawValue>) -> Result<(), RpcError> {
        let Prompt { session_id: session, prompt, message_id, meta } = decode(params)?;
        self.may_prompt(&prompt)?;
        match self.sessions.get(&session) {
            Some(Session::Idle) => {}
            Some(Session::Running(_)) => return Err(invalid("a prompt is running on that session")),
            Some(Session::Loading) => return Err(invalid("that session is being loaded")),
            None => return Err(unknown_session(&session)),
        }
        let turn = TurnKey(self.fresh_key());
        self.sessions.insert(session.clone(), Session::Running(turn));
        self.turns.insert(turn, Turn { session: session.clone(), id: id.clone(), state: TurnState::Running });
        self.wire.tell(Event::Prompted(Box::new(Prompted { turn, session, prompt, message_id, meta })));
        Ok(())
    }

    /// One block that cannot be taken refuses the whole prompt: nothing is dropped silently.
    fn may_prompt(&self, prompt: &[ContentBlock]) -> Result<(), RpcError> {
        let may = self.offers().prompt_capabilities;
        let refused: Vec<&str> =
            prompt.iter().filter(|block| !may.take(block)).map(ContentBlock::tag).collect();
        if refused.is_empty() {
            Ok(())
        } else {
            Err(RpcError::invalid_params(format!("content that is not taken: {}", refused.join(", "))))
        }
    }

    fn wanted(&self, method: &str, params: Option<&RawValue>) -> Result<(Wanted, About), RpcError> {
        let offers = self.offers();
        let sessions = offers.session_capabilities;
        Ok(match method {
            method::AUTHENTICATE => {
                let Authenticate { method_id } = decode(params)?;
                let own = |login: &&AuthMethod| login.id == method_id && !login.is_terminal();
                if self.greeting.auth_methods.iter().find(own).is_none() {
                    return Err(RpcError::invalid_params(format!("no such login method: {method_id}")));
                }
                (Wanted::Authenticate(method_id), About::Other)
            }
            method::LOGOUT if offers.auth.logout => (Wanted::Logout, About::Other),
            method::SESSION_NEW => (Wanted::NewSession(self.checked(decode(params)?)?), About::NewSession),
            method::SESSION_LOAD if offers.load_session => {
                let session = self.reopened(params)?;
                let setup = self.checked(decode(params)?)?;
                let before = self.sessions.get(&session).copied();
                (Wanted::LoadSession(session.clone(), setup), About::OldSession(session, before))
            }
            method::SESSION_RESUME if sessions.resume => {
                let session = self.reopened(params)?;
                let setup = self.checked(decode(params)?)?;
                let before = self.sessions.get(&session).copied();
                (Wanted::ResumeSession(session.clone(), setup), About::OldSession(session, before))
            }
            method::SESSION_LIST if sessions.list => {
                let List { cwd, cursor } = decode(params)?;
                (Wanted::ListSessions { cwd, cursor }, About::Sessions)
            }
            method::SESSION_CLOSE if sessions.close => {
                let session = self.known(params)?;
                (Wanted::CloseSession(session.clone()), About::Close(session))
            }
            method::SESSION_DELETE if sessions.delete => {
                let Of { session_id } = decode(params)?;
                (Wanted::DeleteSession(session_id), About::Other)
            }
            method::SESSION_SET_MODE => {
                let SetMode { mode_id } = decode(params)?;
                (Wanted::SetMode(self.known(params)?, mode_id), About::Other)
            }
            method::SESSION_SET_CONFIG_OPTION => {
                let SetOption { config_id, value } = decode(params)?;
                (Wanted::SetOption(self.known(params)?, config_id, value), About::Options)
            }
            _ if self.extensions.iter().any(|name| name == method) => {
                (Wanted::Extension(method.to_owned(), params.map(Json::from)), About::Extension)
            }
            _ => return Err(RpcError::method_not_found(method)),
        })
    }

    /// The session of a request that needs one that is open.
    fn known(&self, params: Option<&RawValue>) -> Result<SessionId, RpcError> {
        let Of { session_id } = decode(params)?;
        match self.sessions.get(&session_id) {
            Some(Session::Idle | Session::Running(_)) => Ok(session_id),
            Some(Session::Loading) | None => Err(unknown_session(&session_id)),
        }
    }

    /// The session of a request that opens an old one.
    fn reopened(&self, params: Option<&RawValue>) -> Result<SessionId, RpcError> {
        let Of { session_id } = decode(params)?;
        if session_id.as_str().len() > LONGEST_ID {
            return Err(RpcError::invalid_params("a session id of more than 8 KiB"));
        }
        match self.sessions.get(&session_id) {
            Some(Session::Running(_)) => Err(invalid("a prompt is running on that session")),
            Some(Session::Loading) => Err(invalid("that session is being loaded")),
            Some(Session::Idle) | None => Ok(session_id),
        }
    }

    fn checked(&self, setup: SessionSetup) -> Result<SessionSetup, RpcError> {
        setup.check(self.offers()).map_err(|refused| {
            RpcError::invalid_params(if let Refused::NotOffered(what) = refused {
                format!("not offered: {what}")
            } else {
                refused.to_string()
            })
        })?;
        if self.sessions.len() >= self.limits.sessions {
            return Err(RpcError::new(code::INTERNAL_ERROR, "too many sessions"));
        }
        Ok(setup)
    }

    fn surface(&mut self, id: Id, wanted: Wanted, about: About) {
        match &about {
            About::OldSession(session, _) => {
                self.sessions.insert(session.clone(), Session::Loading);
            }
            // The turn hears of it first, and can still end by itself.
            About::Close(session) => self.cancel(&session.clone()),
            About::NewSession | About::Sessions | About::Options | About::Extension | About::Other => {}
        }
        let request = RequestKey(self.fresh_key());
        self.requests.insert(request, Question { id, about });
        self.wire.tell(Event::Requested(Box::new(Requested { request, wanted })));
    }

    pub(super) fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        if let Stage::Fresh = self.stage {
            return;
        }
        let done = match method {
            method::SESSION_CANCEL => decode(params).map(|Of { session_id }| self.cancel(&session_id)),
            method::CANCEL_REQUEST => decode(params).map(|Cancel { request_id }| self.give_up(&request_id)),
            _ => {
                let params = params.map(Json::from);
                self.wire.tell(Event::Notified(Box::new(Notified { method: method.to_owned(), params })));
                Ok(())
            }
        };
        if let Err(error) = done {
            self.notice(Notice::BadParams { method: method.to_owned(), why: error.message });
        }
    }

    /// Cancels the turn of a session. No turn, or a session that nobody knows: nothing to do.
    fn cancel(&mut self, session: &SessionId) {
        if let Some(Session::Running(turn)) = self.sessions.get(session) {
            self.cancel_turn(*turn);
        }
    }

    fn cancel_turn(&mut self, key: TurnKey) {
        if let Some(turn) = self.turns.get_mut(&key)
            && turn.state == TurnState::Running
        {
            turn.state = TurnState::Cancelled;
            self.wire.tell(Event::Cancelled(key));
        }
    }

    /// `$/cancel_request`: a prompt is cancelled, anything else is over. What is answered already is ignored.
    fn give_up(&mut self, id: &Id) {
        if let Some(key) = self.turns.iter().find(|(_, turn)| turn.id == *id).map(|(key, _)| *key) {
            return self.cancel_turn(key);
        }
        let Some(key) = self.requests.iter().find(|(_, question)| question.id == *id).map(|(key, _)| *key)
        else {
            return;
        };
        self.close_request(key);
        self.complain(id, RpcError::new(code::CANCELLED, "request cancelled"));
        self.wire.tell(Event::Withdrawn(key));
    }

    /// A request is over without success: a session that was being loaded is as it was before.
    pub(super) fn close_request(&mut self, key: RequestKey) -> Option<Question> {
        let question = self.requests.remove(&key)?;
        if let About::OldSession(session, before) = &question.about {
            match before {
                Some(before) => self.sessions.insert(session.clone(), *before),
                None => self.forget(&session.clone()),
            };
        }
        Some(question)
    }

    pub(super) fn response(&mut self, id: &Id, outcome: Result<&RawValue, RpcError>) {
        match self.pending.close(id) {
            Some(Ask::Permission(tag, _, options)) => {
                let chosen = outcome.ok().and_then(|result| PermissionOutcome::read(result, &options));
                // Whatever is not plainly one of the offered options is no permission.
                let outcome = chosen.unwrap_or(PermissionOutcome::Cancelled);
                self.wire.tell(Event::PermissionAnswered(tag, outcome));
            }
            Some(Ask::Service(tag)) => self.wire.tell(Event::Served(tag, outcome.map(Json::from))),
            None => self.notice(Notice::orphan(id, self.oldest())),
        }
    }
}

fn invalid(why: &str) -> RpcError {
    RpcError::new(code::INVALID_REQUEST, why)
}

fn unknown_session(session: &SessionId) -> RpcError {
    let session = shown(session.as_str());
    let data = Some(Json::new(&serde_json::json!({ "sessionId": session })));
    RpcError { data, ..RpcError::new(code::NOT_FOUND, format!("no such session: {session}")) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    pub(crate) session_id: SessionId,
    pub(crate) prompt: Vec<ContentBlock>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) message_id: Option<String>,
    #[serde(default, rename = "_meta")]
    pub(crate) meta: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authenticate {
    method_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Of {
    session_id: SessionId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetMode {
    mode_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetOption {
    config_id: String,
    value: ConfigValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancel {
    request_id: Id,
}
