//! The caller's side: one connection, one request at a time.

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::wire::{AgentInfo, Answer, Method, Params, VERSION, failed_turn, welcome};
use crate::closed::{Cause, Closed};
use crate::lines::Line;
use crate::link::Listened;
use crate::machine::{Address, Deadline, Now, Open, Peer, Refused};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{self, After, Flaw, Frame, Id, RpcError, TOO_LONG};
use crate::secret::Secret;

/// Which session to attach to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its socket, from its record or a notify event; never made up.
    pub socket: Address,
    /// The token that lies beside it.
    pub token: Secret<String>,
    /// Sizes and times, each with its reason.
    pub limits: Limits,
}

impl Target {
    /// What no trace of a caller may show.
    #[must_use]
    pub fn secret(&self) -> Secret<Vec<u8>> {
        self.token.expose().as_bytes().to_vec().into()
    }
}

/// What may be asked, one at a time. There is no cancel: it would wait behind the prompt it should cancel.
/// [`Canceller`](super::Canceller) sends it on a connection of its own.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Asks what the session is.
    Load {
        /// The session that is meant, if a particular one is.
        session: Option<String>,
    },
    /// Speaks into the session and waits for the end of the turn.
    Prompt {
        /// The session that is meant, if a particular one is.
        session: Option<String>,
        /// What the user says, as it is typed: text alone.
        text: String,
    },
    /// Asks whether somebody is there.
    Ping,
    /// Leaves. A turn goes on without us.
    Shutdown,
}

/// What the caller is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The token was right; requests can be made.
    Ready(AgentInfo),
    /// What came of the request. Exactly one for each that was not refused.
    Answered(Result<Answer, Failure>),
    /// A line that answers nothing; worth knowing, needs no reaction.
    Noticed(&'static str),
    /// The connection is over. The last event.
    Closed(Box<Closed<Fault>>),
}

/// Why a request has no result.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The session said no.
    #[error("{0}")]
    Refused(Box<RpcError>),
    /// The words were delivered, and their turn failed.
    #[error("the turn failed: {}", error.message)]
    TurnFailed {
        /// The code and the message that the server gave.
        error: Box<RpcError>,
        /// The last piece of what was answered before.
        answer: Option<String>,
    },
    /// The session's answer makes no sense.
    #[error("the answer cannot be read")]
    Unreadable,
    /// The connection ended before the request was sent, or while another than a prompt was open.
    #[error("no answer: {0}")]
    Closed(Cause<Fault>),
    /// The connection ended after the words were sent: their turn may run, or have run.
    #[error("the end of the turn was not seen: {0}")]
    Unseen(Cause<Fault>),
}

/// What a session did wrong.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The token was refused.
    #[error("the token was refused: {0}")]
    Refused(Box<RpcError>),
    /// It speaks another version of the channel.
    #[error("it speaks version {0} of the channel, not {VERSION}")]
    WrongVersion(u64),
    /// Its first answer is not that of an attach server.
    #[error("it is no attach server")]
    NotAttach,
    /// It did not answer within [`Limits::answer`].
    #[error("it does not answer")]
    TimedOut,
    /// It wrote a line over [`Limits::link`].
    #[error("it wrote a line that is too long")]
    LineTooLong,
}

/// One connection to a session, with one request at a time.
#[derive(Debug)]
pub struct Client {
    target: Target,
    wire: Wire<Event, Fault>,
    stage: Stage,
    /// The number of the next request: those of a connection differ, so that no late answer is mistaken.
    next: u64,
}

#[derive(Debug)]
enum Stage {
    Opening,
    /// The token was sent.
    Greeting {
        number: u64,
        until: Listened,
    },
    Idle,
    /// `until`: none for a prompt, which waits in line with those of others.
    Asking {
        number: u64,
        method: Method,
        until: Option<Listened>,
    },
}

impl Role for Client {
    type Config = Target;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    fn start(now: Now, target: Target) -> Self {
        let how = Open::Connect(target.socket.clone());
        let Limits { link, graces, .. } = &target.limits;
        Self { wire: Wire::open(now, how, link, graces), stage: Stage::Opening, next: 1, target }
    }

    fn wire(&self) -> &Wire<Event, Fault> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Event, Fault> {
        &mut self.wire
    }

    fn opened(&mut self, now: Now, _: Peer) {
        let params = Params::initialize(self.target.token.expose());
        let number = self.next;
        self.next += 1;
        self.wire.link.line(|buf| rpc::request(buf, number, Method::Initialize.name(), &params));
        let until = self.wire.link.listened(now) + self.target.limits.answer;
        self.stage = Stage::Greeting { number, until };
    }

    fn takes(&self) -> Takes {
        Takes::Now
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        rpc::read(line, self.target.limits.link.depth, |frame| self.frame(now, frame));
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Load { session } => {
                self.request(now, Method::Load, &Params::Other { session_id: session.as_deref() })
            }
            Command::Prompt { text, .. } if text.trim().is_empty() => {
                Err(Refused::Invalid("the prompt holds no text"))
            }
            Command::Prompt { session, text } => {
                self.request(now, Method::Prompt, &Params::prompt(session.as_deref(), &text))
            }
            Command::Ping => self.request(now, Method::Ping, &Params::Other { session_id: None }),
            Command::Shutdown => {
                self.part(now, Cause::Left);
                Ok(())
            }
        }
    }

    fn tick(&mut self, now: Now) {
        if self.patience().is_some_and(|until| until <= self.wire.link.listened(now)) {
            self.part(now, Cause::Fault(Fault::TimedOut));
        }
    }

    fn due(&self) -> Option<Deadline> {
        self.wire.link.due_at(self.patience()?).map(|at| (at, "answer"))
    }

    fn parting(&mut self, _: Now, cause: &Cause<Fault>) {
        if let Stage::Asking { method, .. } = std::mem::replace(&mut self.stage, Stage::Idle) {
            let failure = if method == Method::Prompt { Failure::Unseen } else { Failure::Closed };
            self.wire.tell(Event::Answered(Err(failure(cause.clone()))));
        }
    }

    fn last(&mut self, closed: Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(closed)))
    }
}

impl Client {
    /// Whether a prompt waits for its answer.
    #[must_use]
    pub const fn is_prompting(&self) -> bool {
        matches!(self.stage, Stage::Asking { method: Method::Prompt, .. })
    }

    /// Makes a request, if it is the time for one.
    pub(super) fn request(&mut self, now: Now, method: Method, params: &Params<'_>) -> Result<(), Refused> {
        match self.stage {
            Stage::Idle => {}
            Stage::Opening | Stage::Greeting { .. } => return Err(Refused::NotReady),
            Stage::Asking { .. } => return Err(Refused::Busy),
        }
        let mut line = Vec::new();
        rpc::request(&mut line, self.next, method.name(), params);
        if line.len() > self.target.limits.link.line {
            return Err(Refused::Limit("the prompt is longer than a session takes"));
        }
        let until =
            (method != Method::Prompt).then(|| self.wire.link.listened(now) + self.target.limits.answer);
        self.stage = Stage::Asking { number: self.next, method, until };
        self.next += 1;
        self.wire.link.line(|buf| buf.append(&mut line));
        Ok(())
    }

    fn frame(&mut self, now: Now, frame: Frame<'_>) {
        match (frame, &self.stage) {
            (Frame::Response { id, outcome }, Stage::Greeting { number, .. }) if is(&id, *number) => {
                self.greeted(now, outcome.map(welcome));
            }
            (Frame::Response { id, outcome }, Stage::Asking { number, method, .. }) if is(&id, *number) => {
                let answer = match outcome {
                    Ok(result) => Answer::from_result(*method, result).ok_or(Failure::Unreadable),
                    Err(error) => Err(Failure::of_answer(*method, error)),
                };
                self.answered(answer);
            }
            // It names no request, but only one line of ours can be meant.
            (Frame::Complaint(error), Stage::Greeting { .. }) => self.greeted(now, Err(error)),
            (Frame::Complaint(error), Stage::Asking { .. }) => {
                self.answered(Err(Failure::Refused(error.into())));
            }
            (Frame::Malformed(flaw), _) => self.flaw(now, &flaw),
            (Frame::Response { .. } | Frame::Complaint(_), _) => {
                self.wire.tell(Event::Noticed("an answer to nothing"));
            }
            (Frame::Request { .. } | Frame::Notification { .. }, _) => {
                self.wire.tell(Event::Noticed("sessions do not ask"));
            }
        }
    }

    /// Nothing is answered: sessions do not ask. A request whose answer cannot be read has none.
    fn flaw(&mut self, now: Now, flaw: &Flaw) {
        self.wire.tell(Event::Noticed(flaw.why));
        match (&self.stage, flaw.after) {
            (_, After::End) => {
                let fault = if flaw.why == TOO_LONG { Fault::LineTooLong } else { Fault::NotAttach };
                self.part(now, Cause::Fault(fault));
            }
            (Stage::Asking { number, .. }, After::GoOn) if is(&flaw.id, *number) => {
                self.answered(Err(Failure::Unreadable));
            }
            (_, After::GoOn) => {}
        }
    }

    fn greeted(&mut self, now: Now, outcome: Result<Option<(u64, AgentInfo)>, RpcError>) {
        let fault = match outcome {
            Ok(Some((VERSION, agent))) => {
                self.stage = Stage::Idle;
                return self.wire.tell(Event::Ready(agent));
            }
            Ok(Some((version, _))) => Fault::WrongVersion(version),
            Ok(None) => Fault::NotAttach,
            Err(error) => Fault::Refused(error.into()),
        };
        self.part(now, Cause::Fault(fault));
    }

    fn answered(&mut self, answer: Result<Answer, Failure>) {
        self.stage = Stage::Idle;
        self.wire.tell(Event::Answered(answer));
    }

    /// How long the server is waited for.
    const fn patience(&self) -> Option<Listened> {
        match self.stage {
            Stage::Greeting { until, .. } => Some(until),
            Stage::Asking { until, .. } => until,
            Stage::Opening | Stage::Idle => None,
        }
    }
}

impl Failure {
    /// What an error means as the answer to that request.
    fn of_answer(method: Method, error: RpcError) -> Self {
        let failed = if method == Method::Prompt { failed_turn(&error) } else { None };
        match failed {
            Some(answer) => Self::TurnFailed { error: error.into(), answer },
            None => Self::Refused(error.into()),
        }
    }
}

fn is(id: &Id, number: u64) -> bool {
    id.number() == Some(number)
}
