//! What the agent says.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::VERSION;
use super::super::wire::{Announce, Hello, Resolved, State, TurnNews, method};
use super::session::Question;
use super::{Acceptor, Announced, Ask, Event, Fault, Settled, Stage, no_answer};
use crate::acp::client::{Failure, Moment, PermissionAsked, Updated};
use crate::acp::lenient::object;
use crate::acp::peer::decode;
use crate::acp::update::{Speaker, Update, Written};
use crate::acp::{
    Json, Notice, Notified, PermissionRequest, RequestKey, SessionId, StopReason, Stopped, method as acp,
};
use crate::closed::Cause;
use crate::lines::Line;
use crate::machine::{Now, Tag};
use crate::role::Role;
use crate::rpc::{Flaw, Frame, Id, RpcError, code, or_default};

impl Acceptor {
    pub(super) fn frame(&mut self, now: Now, line: Line<'_>, frame: Frame<'_>) {
        let is_accepted = matches!(self.stage, Stage::Accepted(_));
        match frame {
            Frame::Request { id, method, params } if method == method::HELLO => self.hello(now, id, params),
            Frame::Request { id, method, params } if is_accepted => self.requested(&id, &method, params),
            Frame::Request { id, .. } => {
                self.complain(&id, &RpcError::new(code::INVALID_PARAMS, "send _botbus/hello first"));
            }
            Frame::Notification { method, params } if is_accepted => self.notified(&method, params),
            Frame::Notification { .. } => self.keep(line),
            Frame::Response { id, outcome } => self.response(&id, outcome),
            Frame::Complaint(error) => {
                let open = self.pending.iter().map(|(number, _)| number).take(4).collect();
                self.notice(Notice::Complaint { error, open });
            }
            Frame::Malformed(flaw) => self.malformed(line, flaw),
        }
    }

    /// Whatever is no message costs only itself. Whoever waits for an answer to it has one.
    fn malformed(&mut self, line: Line<'_>, flaw: Flaw) {
        self.notice(Notice::bad_line(flaw.why, line));
        match flaw.answer {
            Some(code) if flaw.id != Id::null() => self.complain(&flaw.id, &RpcError::new(code, flaw.why)),
            Some(_) => {}
            None => {
                let unreadable = Failure::Unreadable(flaw.why.to_owned());
                self.pending
                    .close(&flaw.id)
                    .into_iter()
                    .for_each(|ask| self.failed(&flaw.id, ask, unreadable.clone()));
            }
        }
    }

    /// What comes before the hello, as far as there is room for it.
    fn keep(&mut self, line: Line<'_>) {
        let (Stage::Fresh { kept, .. }, Line::Text(text)) = (&mut self.stage, line) else { return };
        let bytes: usize = kept.iter().map(String::len).sum();
        if kept.len() < self.kept && bytes + text.len() <= self.limits.line {
            kept.push(text.to_owned());
        }
    }

    fn hello(&mut self, now: Now, id: Id, params: Option<&RawValue>) {
        let hello: Result<Hello, RpcError> = decode(params);
        let fault = match (&mut self.stage, hello) {
            (_, Err(_)) => {
                self.complain(&id, &RpcError::invalid_params("a hello needs an id and a version"));
                Fault::BadHello
            }
            (_, Ok(Hello { version, .. })) if version != VERSION => {
                self.turn_away(&id, "only version 1 of the extension is supported");
                Fault::WrongVersion(version)
            }
            (Stage::Fresh { kept, .. }, Ok(hello)) => {
                let kept = std::mem::take(kept);
                self.wire.tell(Event::Hello(Box::new(hello.clone())));
                self.stage = Stage::Deciding { id, hello: Box::new(hello), kept };
                return;
            }
            (Stage::Deciding { .. } | Stage::Accepted(_), Ok(_)) => {
                return self.turn_away(&id, "this connection has said hello already");
            }
        };
        // Who was let in stays in, whatever else it says.
        if !matches!(self.stage, Stage::Accepted(_)) {
            self.part(now, Cause::Fault(fault));
        }
    }

    fn requested(&mut self, id: &Id, method: &str, params: Option<&RawValue>) {
        let done = match method {
            acp::REQUEST_PERMISSION => decode(params).and_then(|asked| self.permission(id, asked)),
            _ => Err(RpcError::method_not_found(method)),
        };
        if let Err(error) = done {
            if error.code == code::INVALID_PARAMS {
                self.notice(Notice::BadParams { method: method.to_owned(), why: error.message.clone() });
            }
            self.complain(id, &error);
        }
    }

    fn permission(&mut self, id: &Id, mut asked: PermissionRequest) -> Result<(), RpcError> {
        let name = asked.session_id.clone();
        let call = &asked.tool_call.tool_call_id;
        let options: Vec<String> = asked.options.iter().map(|option| option.option_id.clone()).collect();
        if call.len() + options.iter().map(String::len).sum::<usize>() > IDS || options.len() > OPTIONS {
            return Err(RpcError::invalid_params("ids of more than 64 KiB"));
        }
        let session = self.sessions.get_mut(&name).ok_or_else(no_answer)?;
        if session.is_resolved(call) {
            return Err(no_answer());
        }
        self.tools.complete(&name, &mut asked.tool_call);
        self.settle_question(&name, &Err(no_answer()), Some(Settled::Overtaken));
        let key = RequestKey(self.next_key);
        self.next_key += 1;
        let call = asked.tool_call.tool_call_id.clone();
        if let Some(session) = self.sessions.get_mut(&name) {
            session.question = Some(Question { key, id: id.clone(), call, options });
        }
        self.wire.tell(Event::PermissionAsked(Box::new(PermissionAsked { request: key, asked })));
        Ok(())
    }

    fn notified(&mut self, method: &str, params: Option<&RawValue>) {
        let done = match method {
            acp::SESSION_UPDATE => {
                decode::<Written<'_>>(params).and_then(Written::read).map(|(session, update, raw)| {
                    self.updated(SessionId::from(&*session), update, raw);
                })
            }
            method::SESSION => decode(params).and_then(|announce| self.announced(announce)),
            method::TURN => decode(params).map(|news| self.turn(news)),
            method::RESOLVED => decode(params).and_then(|resolved| self.resolved(resolved)),
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

    fn announced(&mut self, Announce { session_id: session, cwd, title }: Announce) -> Result<(), RpcError> {
        let length = session.as_str().len();
        let bad = match () {
            () if length == 0 || cwd.is_empty() => "a session has an id and a directory",
            () if length > LONGEST_NAME => "a session id of more than 1 KiB",
            () if !self.has_room_for(&session) => "too many sessions on one link",
            () => {
                self.sessions.entry(session.clone()).or_default();
                self.wire.tell(Event::Announced(Box::new(Announced { session, cwd, title })));
                return Ok(());
            }
        };
        Err(RpcError::invalid_params(bad))
    }

    fn has_room_for(&self, session: &SessionId) -> bool {
        self.sessions.len() < self.limits.sessions || self.sessions.contains_key(session)
    }

    fn updated(&mut self, session: SessionId, update: Update, raw: &RawValue) {
        let Some(known) = self.sessions.get(&session) else {
            return self.notice(Notice::UnknownSession(session));
        };
        let moment = if known.turn().is_some() { Moment::Turn } else { Moment::Between };
        // We know what we said.
        if matches!(update, Update::Message(Speaker::User, _)) && known.prompt().is_some() {
            return;
        }
        self.tools.note(&session, &update);
        let raw = raw.into();
        self.wire.tell(Event::Updated(Box::new(Updated { session, of: None, moment, update, raw })));
    }

    fn turn(&mut self, TurnNews { session_id: name, state, stop_reason }: TurnNews) {
        let Some(session) = self.sessions.get_mut(&name) else {
            return self.notice(Notice::UnknownSession(name));
        };
        match state {
            State::Started => {
                if session.started() {
                    self.settle_question(&name, &Err(no_answer()), Some(Settled::TurnOver));
                    self.wire.tell(Event::TurnStarted(name, None));
                }
            }
            State::Ended => {
                let Ok(turn) = session.ended() else { return };
                self.settle_question(&name, &Err(no_answer()), Some(Settled::TurnOver));
                if let Some(turn) = turn {
                    self.turn_ended(name, turn, Ok(reason(stop_reason).into()));
                }
            }
            State::Unknown => {}
        }
    }

    fn resolved(&mut self, Resolved { session_id, tool_call_id }: Resolved) -> Result<(), RpcError> {
        if tool_call_id.len() > IDS {
            return Err(RpcError::invalid_params("an id of more than 64 KiB"));
        }
        let Some(session) = self.sessions.get_mut(&session_id) else {
            self.notice(Notice::UnknownSession(session_id));
            return Ok(());
        };
        if session.resolve(tool_call_id) {
            self.settle_question(&session_id, &Err(no_answer()), Some(Settled::InTerminal));
        }
        Ok(())
    }

    fn response(&mut self, id: &Id, outcome: Result<&RawValue, RpcError>) {
        let Some(ask) = self.pending.close(id) else {
            // That a turn was over before its answer came is usual.
            if id.number().is_none_or(|number| number >= self.pending.next()) {
                self.notice(Notice::orphan(
                    id,
                    self.pending.iter().map(|(number, _)| number).take(4).collect(),
                ));
            }
            return;
        };
        match (outcome, ask) {
            (Err(error), ask) => self.failed(id, ask, Failure::Rpc(error)),
            (Ok(result), Ask::Prompt(session)) => self.answered(id, session, stopped(result)),
            (Ok(result), Ask::New { tag, .. }) => self.opened(tag, result),
        }
    }

    fn failed(&mut self, id: &Id, ask: Ask, failure: Failure) {
        match ask {
            Ask::Prompt(session) => self.answered(id, session, Err(failure)),
            Ask::New { tag, .. } => self.wire.tell(Event::Failed(tag, Box::new(failure))),
        }
    }

    fn answered(&mut self, id: &Id, name: SessionId, end: Result<Stopped, Failure>) {
        let session = self.sessions.get_mut(&name);
        let over = session.zip(id.number()).and_then(|(session, number)| session.answered(number));
        if let Some(prompt) = over {
            self.settle_question(&name, &Err(no_answer()), Some(Settled::TurnOver));
            self.turn_ended(name, super::Turn::Ours(prompt), end);
        }
    }

    fn opened(&mut self, tag: Tag, result: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Opened {
            session_id: SessionId,
        }
        let opened = object::<Opened>(result.get()).ok().map(|opened| opened.session_id);
        let is_name = |name: &SessionId| (1..=LONGEST_NAME).contains(&name.as_str().len());
        let event = match opened.filter(is_name) {
            None => failed(tag, "no session id"),
            Some(name) if !self.has_room_for(&name) => failed(tag, "too many sessions on one link"),
            Some(name) => {
                // It may have been announced before: then it is that one.
                self.sessions.entry(name.clone()).or_default();
                Event::SessionOpened(tag, name)
            }
        };
        self.wire.tell(event);
    }
}

fn failed(tag: Tag, why: &str) -> Event {
    Event::Failed(tag, Box::new(Failure::Unreadable(why.to_owned())))
}

/// A missing word is an ordinary end.
fn reason(word: Option<String>) -> StopReason {
    word.map_or(StopReason::EndTurn, StopReason::from_word)
}

/// How a prompt ended, by its answer.
fn stopped(result: &RawValue) -> Result<Stopped, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        #[serde(default, deserialize_with = "or_default")]
        stop_reason: Option<String>,
        #[serde(default, deserialize_with = "or_default")]
        usage: Option<Json>,
        #[serde(default, rename = "_meta", deserialize_with = "or_default")]
        meta: Option<Json>,
    }
    match object(result.get()) {
        Ok(Answer { stop_reason, usage, meta }) => Ok(Stopped { reason: reason(stop_reason), usage, meta }),
        // An answer all the same.
        Err(_) => Ok(StopReason::EndTurn.into()),
    }
}

/// Bytes of the ids in one question: far more than the longest that were seen, of 4 KiB.
const IDS: usize = 64 << 10;
/// Options of one question.
const OPTIONS: usize = 1024;
/// Bytes of a session's id.
const LONGEST_NAME: usize = 1 << 10;
