//! Requests and notifications of the agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Client, Event, PermissionAsked, Requested, Stage, Text, Updated};
use crate::acp::content::TextContent;
use crate::acp::peer::{Notice, Notified, RequestKey, decode};
use crate::acp::permission::{PermissionOutcome, PermissionRequest, PermissionResponse};
use crate::acp::services::{Elicit, ServiceRequest};
use crate::acp::turn::Turn;
use crate::acp::update::{Chunk, Update, Written};
use crate::acp::{ContentBlock, Json, SessionId, method};
use crate::lines::Line;
use crate::link::Link;
use crate::machine::Refused;
use crate::rpc::{self, Id, RpcError, code};

/// The agent's open requests: each is answered exactly once, by the application or when it is withdrawn.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    open: BTreeMap<RequestKey, Question>,
    next: u64,
    /// What is kept of the open ones.
    bytes: usize,
}

/// Bytes of the ids in one question: far more than the longest that were seen, of 4 KiB.
const IDS: usize = 64 << 10;
/// Bytes that are kept of all open questions together.
const QUESTIONS: usize = 1 << 20;
/// What a question or an option costs beside its ids.
const ENTRY: usize = 64;

#[derive(Debug)]
struct Question {
    id: Id,
    what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// With the option ids that were offered.
    Permission(SessionId, Vec<String>),
    /// Of a session or, where it is about a request of ours, of none.
    Elicit(Option<SessionId>),
    Service,
}

impl What {
    /// Whether a person is asked, on that session.
    const fn of(&self) -> Option<&SessionId> {
        match self {
            Self::Permission(session, _) => Some(session),
            Self::Elicit(session) => session.as_ref(),
            Self::Service => None,
        }
    }
}

impl Question {
    fn size(&self) -> usize {
        let options = match &self.what {
            What::Permission(_, options) => options.iter().map(|option| ENTRY + option.len()).sum(),
            What::Elicit(_) | What::Service => 0,
        };
        let session = self.what.of().map_or(0, |session| session.as_str().len());
        ENTRY + self.id.token().len() + session + options
    }
}

impl Inbound {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a question is open there.
    pub(super) fn is_about(&self, session: &SessionId) -> bool {
        self.open.values().any(|question| question.what.of() == Some(session))
    }

    /// Keeps a question until it is answered, if there is room for it.
    fn add(&mut self, id: &Id, what: What) -> Result<RequestKey, RpcError> {
        let question = Question { id: id.clone(), what };
        let size = question.size();
        if size > IDS {
            return Err(RpcError::invalid_params("ids of more than 64 KiB"));
        }
        if self.bytes + size > QUESTIONS {
            return Err(RpcError::new(code::INTERNAL_ERROR, "too many open requests"));
        }
        self.bytes += size;
        let key = RequestKey(self.next);
        self.next += 1;
        self.open.insert(key, question);
        Ok(key)
    }

    fn remove(&mut self, key: RequestKey) -> Option<Question> {
        let question = self.open.remove(&key)?;
        self.bytes -= question.size();
        Some(question)
    }

    fn keys(&self, which: impl Fn(&What) -> bool) -> Vec<RequestKey> {
        let open = self.open.iter().filter(|(_, question)| which(&question.what));
        open.map(|(key, _)| *key).collect()
    }

    fn key_of(&self, id: &Id) -> Option<RequestKey> {
        self.open.iter().find(|(_, question)| question.id == *id).map(|(key, _)| *key)
    }
}

impl Client {
    pub(super) fn request(&mut self, id: Id, method: &str, params: Option<&RawValue>) {
        // Which version is spoken, and what it may ask for, is not settled before the handshake.
        let refused = if matches!(self.stage, Stage::Initializing) {
            Some(RpcError::new(code::INVALID_REQUEST, "initialize is not answered yet"))
        } else if self.inbound.key_of(&id).is_some() {
            Some(RpcError::new(code::INVALID_REQUEST, "a request of that id is open"))
        } else if self.inbound.open.len() >= self.limits.peer_requests {
            Some(RpcError::new(code::INTERNAL_ERROR, "too many open requests"))
        } else if method == method::REQUEST_PERMISSION {
            decode(params).and_then(|asked| self.permission(&id, asked)).err()
        } else {
            let asked = self.service(method, params).and_then(|wanted| {
                let what = if let ServiceRequest::Elicit(elicit) = &wanted {
                    What::Elicit(elicit.session_id.clone())
                } else {
                    What::Service
                };
                let request = self.inbound.add(&id, what)?;
                self.wire.tell(Event::Requested(Box::new(Requested { request, wanted })));
                Ok(())
            });
            asked.err()
        };
        if let Some(error) = refused {
            if error.code == code::INVALID_PARAMS {
                self.notice(Notice::BadParams { method: method.to_owned(), why: error.message.clone() });
            }
            self.wire.link.line(|buf| rpc::reply_error(buf, &id, &error));
        }
    }

    fn permission(&mut self, id: &Id, mut asked: PermissionRequest) -> Result<(), RpcError> {
        let session = &asked.session_id;
        if self.is_cancelled(session) {
            // Asked in a turn that is being cancelled: the answer is fixed.
            reply_cancelled(&mut self.wire.link, id);
            return Ok(());
        }
        self.tools.complete(session, &mut asked.tool_call);
        let options = asked.options.iter().map(|option| option.option_id.clone()).collect();
        let request = self.inbound.add(id, What::Permission(session.clone(), options))?;
        self.wire.tell(Event::PermissionAsked(Box::new(PermissionAsked { request, asked })));
        Ok(())
    }

    /// Whether a question of that session would be one of a turn that is being cancelled. A session that we do not
    /// know is one of a turn's own: a subagent's.
    fn is_cancelled(&self, id: &SessionId) -> bool {
        match self.sessions.get(id.as_str()) {
            Some(_) => self.sessions.turn(id).is_some_and(Turn::is_cancelled),
            None => self.sessions.any_is_cancelled() && !self.sessions.any_runs(),
        }
    }

    /// What the agent wants, if it was offered.
    fn service(&self, method: &str, params: Option<&RawValue>) -> Result<ServiceRequest, RpcError> {
        let offers = &self.capabilities;
        let wanted = match method {
            method::FS_READ if offers.fs.read_text_file => ServiceRequest::ReadTextFile(decode(params)?),
            method::FS_WRITE if offers.fs.write_text_file => ServiceRequest::WriteTextFile(decode(params)?),
            method::TERMINAL_CREATE if offers.terminal => ServiceRequest::CreateTerminal(decode(params)?),
            method::TERMINAL_OUTPUT if offers.terminal => ServiceRequest::TerminalOutput(decode(params)?),
            method::TERMINAL_WAIT if offers.terminal => ServiceRequest::WaitForTerminal(decode(params)?),
            method::TERMINAL_KILL if offers.terminal => ServiceRequest::KillTerminal(decode(params)?),
            method::TERMINAL_RELEASE if offers.terminal => ServiceRequest::ReleaseTerminal(decode(params)?),
            method::ELICIT if offers.elicitation.form || offers.elicitation.url => {
                let elicit: Elicit = decode(params)?;
                let may = match &*elicit.mode {
                    "form" => offers.elicitation.form,
                    "url" => offers.elicitation.url,
                    _ => false,
                };
                if !may {
                    return Err(RpcError::invalid_params("this mode of elicitation was not offered"));
                }
                ServiceRequest::Elicit(elicit)
            }
            _ if self.extensions.iter().any(|name| name == method) => {
                ServiceRequest::Extension { method: method.to_owned(), params: params.map(Json::from) }
            }
            _ => return Err(RpcError::method_not_found(method)),
        };
        Ok(wanted)
    }

    pub(super) fn notification(&mut self, method: &str, params: Option<&RawValue>, line: Line<'_>) {
        match method {
            method::SESSION_UPDATE => match decode::<Written<'_>>(params).and_then(Written::read) {
                Ok((session, update, raw)) => self.update(&session, update, raw, line),
                Err(error) => self.bad_params(method, error),
            },
            method::CANCEL_REQUEST => match decode::<CancelRequest>(params) {
                Ok(CancelRequest { request_id }) => self.withdrawn_by_agent(&request_id),
                Err(error) => self.bad_params(method, error),
            },
            _ => self.wire.tell(Event::Notified(Box::new(Notified {
                method: method.to_owned(),
                params: params.map(Json::from),
            }))),
        }
    }

    fn bad_params(&mut self, method: &str, error: RpcError) {
        self.notice(Notice::BadParams { method: method.to_owned(), why: error.message });
    }

    pub(super) fn update(&mut self, session: &str, update: Update, raw: &RawValue, line: Line<'_>) {
        if let Some((session, of)) = self.sessions.subagent(session) {
            return self.of_subagent(session, of, update, raw.into());
        }
        let Some((session, moment)) = self.place(session) else { return };
        if let Some(known) = self.sessions.known_mut(&session) {
            // Some agents say only here that they have modes or options at all.
            known.modes |= matches!(update, Update::CurrentMode(_));
            known.options |= matches!(update, Update::ConfigOptions(_));
        }
        match update {
            Update::Message(
                speaker,
                Chunk {
                    content: ContentBlock::Text(TextContent { text, annotations, meta }),
                    message_id,
                    meta: beside,
                },
            ) if !self.whole || (annotations.is_none() && meta.is_none() && beside.is_none()) => {
                let message = message_id.map(|id| self.intern(&id));
                self.text(Text { session, speaker, moment, text, message }, line);
            }
            update @ (Update::Message(..)
            | Update::ToolCall(_)
            | Update::ToolCallUpdate(_)
            | Update::Plan(_)
            | Update::AvailableCommands(_)
            | Update::CurrentMode(_)
            | Update::ConfigOptions(_)
            | Update::SessionInfo(_)
            | Update::Usage(_)
            | Update::Other(_)) => {
                self.end_of_text(&session);
                self.tools.note(&session, &update);
                self.adopt(&session, &update);
                self.wire.tell(Event::Updated(Box::new(Updated {
                    session,
                    of: None,
                    moment,
                    update,
                    raw: raw.into(),
                })));
            }
        }
    }

    /// What a subagent says and does.
    pub(super) fn of_subagent(&mut self, session: SessionId, of: SessionId, update: Update, raw: Json) {
        let Some((of, moment)) = self.place(of.as_str()) else { return };
        self.tools.note(&session, &update);
        self.adopt(&of, &update);
        self.wire.tell(Event::Updated(Box::new(Updated { session, of: Some(of), moment, update, raw })));
    }

    /// Takes note of a subagent that works for that session, if that is what it tells.
    fn adopt(&mut self, of: &SessionId, update: &Update) {
        if self.capabilities.subagents
            && let Some(subagent) = update.subagent()
        {
            self.sessions.adopt(subagent, of.clone());
        }
    }

    /// The agent no longer wants an answer, and gets the one that says so.
    fn withdrawn_by_agent(&mut self, id: &Id) {
        if let Some(key) = self.inbound.key_of(id) {
            self.give_up_question(key);
        }
    }

    /// Answers every open question of a session with `cancelled`. Those of sessions that we do not know are of some
    /// turn's own, a subagent's: they go with the last turn that runs.
    pub(super) fn give_up_questions_of(&mut self, session: &SessionId) {
        let last = !self.sessions.runs_beside(session);
        let strange = |of: &SessionId| self.sessions.get(of.as_str()).is_none();
        let goes = |what: &What| what.of().is_some_and(|of| of == session || last && strange(of));
        let keys = self.inbound.keys(goes);
        keys.into_iter().for_each(|key| self.give_up_question(key));
    }

    /// Answers open questions for the application, which is told.
    pub(super) fn give_up_questions(&mut self, which: impl Fn(&What) -> bool) {
        let keys = self.inbound.keys(which);
        keys.into_iter().for_each(|key| self.give_up_question(key));
    }

    fn give_up_question(&mut self, key: RequestKey) {
        let Some(Question { id, what }) = self.inbound.remove(key) else { return };
        match what {
            What::Permission(..) => reply_cancelled(&mut self.wire.link, &id),
            What::Elicit(_) => {
                self.wire.link.line(|buf| rpc::reply(buf, &id, &Cancelled { action: "cancel" }))
            }
            What::Service => {
                let error = RpcError::new(code::CANCELLED, "request cancelled");
                self.wire.link.line(|buf| rpc::reply_error(buf, &id, &error));
            }
        }
        self.wire.tell(Event::Withdrawn(key));
    }

    pub(super) fn answer_permission(
        &mut self,
        key: RequestKey,
        outcome: &PermissionOutcome,
    ) -> Result<(), Refused> {
        let Some(Question { id, what: What::Permission(_, options) }) = self.inbound.open.get(&key) else {
            return Err(Refused::Unknown);
        };
        if let PermissionOutcome::Selected { option_id } = outcome
            && !options.contains(option_id)
        {
            return Err(Refused::Invalid("that option was not offered"));
        }
        let response = PermissionResponse { outcome: outcome.clone() };
        self.wire.link.line(|buf| rpc::reply(buf, id, &response));
        self.inbound.remove(key);
        Ok(())
    }

    pub(super) fn answer_service(
        &mut self,
        key: RequestKey,
        answer: Result<&Json, &RpcError>,
    ) -> Result<(), Refused> {
        let Some(Question { id, what: What::Elicit(_) | What::Service }) = self.inbound.open.get(&key) else {
            return Err(Refused::Unknown);
        };
        // One that is refused leaves the question open: it can be answered otherwise.
        match answer {
            Ok(result) => self.wire.answer(self.limits.line, |buf| rpc::reply(buf, id, result)),
            Err(error) => {
                self.wire.link.line_within(self.limits.line, |buf| rpc::reply_error(buf, id, error))
            }
        }?;
        self.inbound.remove(key);
        Ok(())
    }
}

fn reply_cancelled(link: &mut Link, id: &Id) {
    let response = PermissionResponse { outcome: PermissionOutcome::Cancelled };
    link.line(|buf| rpc::reply(buf, id, &response));
}

/// What an elicitation is answered that nobody answers.
#[derive(Serialize)]
struct Cancelled {
    action: &'static str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelRequest {
    request_id: Id,
}
