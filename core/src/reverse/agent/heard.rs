//! What the hub says.

use serde_json::value::RawValue;

use super::super::wire::{Accepted, Of, State};
use super::{Agent, Ask, Event, Fault, Session, Stage, Turn};
use crate::acp::agent::{Prompt, Prompted, TurnKey};
use crate::acp::lenient::object;
use crate::acp::peer::decode;
use crate::acp::{Notice, PermissionOutcome, RequestKey, SessionSetup, method};
use crate::closed::Cause;
use crate::lines::Line;
use crate::machine::Now;
use crate::role::Role;
use crate::rpc::{Frame, Id, RpcError, code, shown};

impl Agent {
    pub(super) fn frame(&mut self, now: Now, line: Line<'_>, frame: Frame<'_>) {
        match frame {
            Frame::Request { id, method, params } => self.requested(id, &method, params),
            Frame::Notification { method, params } => self.notified(&method, params),
            Frame::Response { id, outcome } => self.response(now, &id, outcome),
            Frame::Complaint(error) => {
                self.notice(Notice::Complaint { error, open: self.oldest() });
            }
            Frame::Malformed(flaw) => {
                self.notice(Notice::bad_line(flaw.why, line));
                match flaw.answer {
                    Some(code) if flaw.id != Id::null() => {
                        self.complain(&flaw.id, &RpcError::new(code, flaw.why));
                    }
                    Some(_) => {}
                    None => self.answered(now, &flaw.id, None),
                }
            }
        }
    }

    fn requested(&mut self, id: Id, method: &str, params: Option<&RawValue>) {
        let may = self.hello.capabilities;
        let done = match method {
            _ if self.stage != Stage::Accepted => Err(invalid("the hello is not answered yet")),
            _ if self.requests.len() + self.turns.len() >= self.limits.peer_requests => {
                Err(RpcError::new(code::INTERNAL_ERROR, "too many open requests"))
            }
            method::SESSION_PROMPT if may.prompt => {
                decode(params).and_then(|prompt| self.prompt(&id, prompt))
            }
            method::SESSION_NEW if may.new_session => decode(params).map(|setup| self.wanted(&id, setup)),
            _ => Err(RpcError::method_not_found(method)),
        };
        if let Err(error) = done {
            if error.code == code::INVALID_PARAMS {
                self.notice(Notice::BadParams { method: method.to_owned(), why: error.message.clone() });
            }
            self.complain(&id, &error);
            self.agree_again(method, params);
        }
    }

    fn prompt(
        &mut self,
        id: &Id,
        Prompt { session_id: session, prompt, message_id, meta }: Prompt,
    ) -> Result<(), RpcError> {
        match self.sessions.get(&session) {
            Some(Session::Idle) => {}
            Some(Session::Ours | Session::Hubs(_)) => {
                return Err(invalid("a turn is running on that session"));
            }
            None => {
                return Err(RpcError::new(
                    code::NOT_FOUND,
                    format!("no such session: {}", shown(session.as_str())),
                ));
            }
        }
        let turn = TurnKey(self.fresh_key());
        self.sessions.insert(session.clone(), Session::Hubs(turn));
        self.turns.insert(turn, Turn { session: session.clone(), id: id.clone() });
        self.say_turn(&session, State::Started, None);
        self.wire.tell(Event::Prompted(Box::new(Prompted { turn, session, prompt, message_id, meta })));
        Ok(())
    }

    /// A prompt that crossed the beginning of our own turn hid it: the hub hears of it once more.
    fn agree_again(&mut self, method: &str, params: Option<&RawValue>) {
        let refused = decode::<Of>(params).ok().filter(|_| method == method::SESSION_PROMPT);
        if let Some(Of { session_id }) = refused
            && self.sessions.get(&session_id) == Some(&Session::Ours)
        {
            self.say_turn(&session_id, State::Ended, None);
            self.say_turn(&session_id, State::Started, None);
        }
    }

    fn wanted(&mut self, id: &Id, setup: SessionSetup) {
        let request = RequestKey(self.fresh_key());
        self.requests.insert(request, id.clone());
        self.wire.tell(Event::SessionWanted(request, Box::new(setup)));
    }

    fn notified(&mut self, method: &str, params: Option<&RawValue>) {
        if method != method::SESSION_CANCEL || !self.hello.capabilities.cancel {
            return;
        }
        match decode(params) {
            Ok(Of { session_id }) if self.sessions.contains_key(&session_id) => {
                self.wire.tell(Event::Cancelled(session_id));
            }
            Ok(Of { session_id }) => self.notice(Notice::UnknownSession(session_id)),
            Err(error) => self.notice(Notice::BadParams { method: method.to_owned(), why: error.message }),
        }
    }

    fn response(&mut self, now: Now, id: &Id, outcome: Result<&RawValue, RpcError>) {
        // A question that the terminal has answered is answered by the hub all the same.
        let is_late = id.number().is_some_and(|number| number < self.pending.next());
        if !is_late {
            return self.notice(Notice::orphan(id, self.oldest()));
        }
        match outcome {
            Ok(result) => self.answered(now, id, Some(result)),
            Err(error) if self.stage != Stage::Accepted => {
                self.part(now, Cause::Fault(Fault::Refused(error.message)));
            }
            Err(_) => self.answered(now, id, None),
        }
    }

    /// An answer, if it can be read.
    fn answered(&mut self, now: Now, id: &Id, result: Option<&RawValue>) {
        match self.pending.close(id) {
            None => {}
            Some(Ask::Hello) => self.greeted(now, result),
            Some(Ask::Permission { tag, options, .. }) => {
                let outcome = result.and_then(|result| PermissionOutcome::read(result, &options));
                self.wire.tell(match outcome {
                    Some(outcome) => Event::PermissionAnswered(tag, outcome),
                    None => Event::Unanswered(tag),
                });
            }
        }
    }

    fn greeted(&mut self, now: Now, result: Option<&RawValue>) {
        let fault = match result.and_then(|result| object(result.get()).ok()) {
            Some(Accepted { accepted: true, .. }) => {
                self.stage = Stage::Accepted;
                return self.wire.tell(Event::Accepted);
            }
            Some(Accepted { accepted: false, reason }) => Fault::Refused(reason.unwrap_or_default()),
            None => Fault::NotHub,
        };
        self.part(now, Cause::Fault(fault));
    }

    fn oldest(&self) -> Vec<u64> {
        self.pending.iter().map(|(number, _)| number).take(4).collect()
    }

    const fn fresh_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn notice(&mut self, notice: Notice) {
        self.wire.tell(Event::Noticed(Box::new(notice)));
    }
}

fn invalid(why: &str) -> RpcError {
    RpcError::new(code::INVALID_REQUEST, why)
}
