//! The agent's side: shows its own sessions to a hub.
//!
//! ```text
//!  Opening ──Opened: hello──► Greeting ──accepted──► Accepted ──end, fault, Leave──► leaving
//!     │ nobody there             │ refused, 10 s
//!     └──────────────────────────┴──► closed
//! ```
//!
//! A turn, whoever began it, is said to the hub with its beginning and its end. That of a prompt ends before its answer, so
//! that an end can never be taken for that of a later turn.

mod api;
mod heard;

pub use api::{Command, Config, Event, Fault};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::VERSION;
use super::wire::{self, Announce, Hello, Resolved, State, TurnNews};
use crate::acp::agent::TurnKey;
use crate::acp::update::{SessionUpdate, Speaker, TextUpdate, ToolCallUpdate, Update};
use crate::acp::{PermissionOption, PermissionRequest, RequestKey, SessionId, StopReason, Stopped, method};
use crate::closed::{Cause, Closed};
use crate::limits::Limits;
use crate::lines::Line;
use crate::link::Listened;
use crate::machine::{Deadline, Now, Peer, Refused, Tag};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{self, Id, Pending, RpcError, code};

/// An agent that shows its sessions to a hub.
#[derive(Debug)]
pub struct Agent {
    wire: Wire<Event, Fault>,
    stage: Stage,
    hello: Hello,
    patience: Duration,
    sessions: BTreeMap<SessionId, Session>,
    turns: BTreeMap<TurnKey, Turn>,
    requests: BTreeMap<RequestKey, Id>,
    pending: Pending<Ask>,
    next_key: u64,
    limits: Limits,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Opening,
    /// The hello is the request 0.
    Greeting {
        until: Listened,
    },
    Accepted,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Session {
    Idle,
    /// A turn of our own end.
    Ours,
    /// A prompt of the hub's.
    Hubs(TurnKey),
}

/// A prompt of the hub's that runs.
#[derive(Debug)]
struct Turn {
    session: SessionId,
    id: Id,
}

/// A request of ours that waits for the hub.
#[derive(Debug)]
enum Ask {
    Hello,
    Permission { tag: Tag, session: SessionId, call: String, options: Vec<String> },
}

impl Role for Agent {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    const DEAF: Option<Fault> = Some(Fault::NotReading);

    fn start(now: Now, config: Config) -> Self {
        let Config { open, id, pid, capabilities, hello, limits, graces } = config;
        Self {
            wire: Wire::open(now, open, &limits, &graces),
            stage: Stage::Opening,
            hello: Hello { id, version: VERSION, pid, capabilities },
            patience: hello,
            sessions: BTreeMap::new(),
            turns: BTreeMap::new(),
            requests: BTreeMap::new(),
            pending: Pending::default(),
            next_key: 0,
            limits,
        }
    }

    fn wire(&self) -> &Wire<Event, Fault> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Event, Fault> {
        &mut self.wire
    }

    fn opened(&mut self, now: Now, _: Peer) {
        let until = self.wire.link.listened(now) + self.patience;
        self.stage = Stage::Greeting { until };
        let number = self.pending.open(Ask::Hello);
        let hello = &self.hello;
        self.wire.link.line(|buf| rpc::request(buf, number, wire::method::HELLO, hello));
    }

    fn takes(&self) -> Takes {
        Takes::Now
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        rpc::read(line, self.limits.depth, |frame| self.frame(now, line, frame));
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if command == Command::Leave {
            self.part(now, Cause::Left);
            return Ok(());
        }
        if self.stage != Stage::Accepted {
            return Err(Refused::NotReady);
        }
        match command {
            Command::Announce { session, cwd, title } => self.announce(session, cwd, title),
            Command::StartTurn { session } => self.start_turn(session),
            Command::EndTurn { session, reason } => self.end_turn(session, &reason),
            Command::Say { session, speaker, text, message } => {
                self.may_tell(&session, speaker == Speaker::User)?;
                let params = TextUpdate::new(&session, speaker, &text, message.as_deref());
                self.notify(method::SESSION_UPDATE, &params)
            }
            Command::Report { session, update } => self.report(session, *update),
            Command::AskPermission { tag, session, tool_call, options } => {
                self.ask(tag, session, *tool_call, options)
            }
            Command::ResolvePermission { tag } => self.resolve(tag),
            Command::EndPrompt { turn, stopped } => self.end_prompt(turn, &stopped),
            Command::FailPrompt { turn, error } => self.fail_prompt(turn, &error),
            Command::OpenSession { request, session } => self.open_session(request, session),
            Command::FailSession { request, error } => {
                let id = self.requests.get(&request).ok_or(Refused::Unknown)?;
                self.wire.link.line_within(self.limits.line, |buf| rpc::reply_error(buf, id, &error))?;
                self.requests.remove(&request);
                Ok(())
            }
            Command::Leave => Ok(()),
        }
    }

    fn tick(&mut self, now: Now) {
        if let Stage::Greeting { until } = self.stage
            && until <= self.wire.link.listened(now)
        {
            self.part(now, Cause::Fault(Fault::TimedOut));
        }
    }

    fn due(&self) -> Option<Deadline> {
        let Stage::Greeting { until } = self.stage else { return None };
        self.wire.link.due_at(until).map(|at| (at, "hello"))
    }

    fn crowded(&mut self, crowded: bool) {
        self.wire.tell(if crowded { Event::Crowded } else { Event::Drained });
    }

    fn parting(&mut self, _: Now, _: &Cause<Fault>) {
        while let Some((_, id)) = self.requests.pop_first() {
            self.complain(&id, &RpcError::new(code::CANCELLED, "the agent is leaving"));
        }
        while let Some((turn, Turn { id, .. })) = self.turns.pop_first() {
            self.complain(&id, &RpcError::new(code::CANCELLED, "the agent is leaving"));
            self.wire.tell(Event::TurnOver(turn));
        }
        while let Some(ask) = self.pending.pop() {
            ask.tag().into_iter().for_each(|tag| self.wire.tell(Event::Unanswered(tag)));
        }
    }

    fn last(&mut self, closed: Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(closed)))
    }
}

impl Agent {
    fn announce(&mut self, session: SessionId, cwd: String, title: Option<String>) -> Result<(), Refused> {
        if session.as_str().is_empty() || cwd.is_empty() {
            return Err(Refused::Invalid("a session has an id and a directory"));
        }
        self.has_room_for(&session)?;
        let params = Announce { session_id: session.clone(), cwd, title };
        self.notify(wire::method::SESSION, &params)?;
        self.sessions.entry(session).or_insert(Session::Idle);
        Ok(())
    }

    fn has_room_for(&self, session: &SessionId) -> Result<(), Refused> {
        if self.sessions.len() >= self.limits.sessions && !self.sessions.contains_key(session) {
            return Err(Refused::Limit("sessions of one link"));
        }
        Ok(())
    }

    fn start_turn(&mut self, session: SessionId) -> Result<(), Refused> {
        match self.sessions.get(&session).ok_or(Refused::Unknown)? {
            Session::Idle => {}
            Session::Ours | Session::Hubs(_) => return Err(Refused::Busy),
        }
        self.say_turn(&session, State::Started, None);
        self.sessions.insert(session, Session::Ours);
        Ok(())
    }

    fn end_turn(&mut self, session: SessionId, reason: &StopReason) -> Result<(), Refused> {
        let Some(Session::Ours) = self.sessions.get(&session) else { return Err(Refused::Unknown) };
        self.say_turn(&session, State::Ended, Some(reason));
        self.sessions.insert(session, Session::Idle);
        Ok(())
    }

    fn say_turn(&mut self, session: &SessionId, state: State, reason: Option<&StopReason>) {
        let stop_reason = reason.map(|reason| reason.as_str().to_owned());
        let params = TurnNews { session_id: session.clone(), state, stop_reason };
        self.wire.link.line(|buf| rpc::notification(buf, wire::method::TURN, &params));
    }

    fn may_tell(&self, session: &SessionId, is_users: bool) -> Result<(), Refused> {
        self.wire.has_room()?;
        match self.sessions.get(session).ok_or(Refused::Unknown)? {
            Session::Hubs(_) if is_users => Err(Refused::Invalid("the hub knows what it said")),
            Session::Idle | Session::Ours | Session::Hubs(_) => Ok(()),
        }
    }

    fn report(&mut self, session_id: SessionId, update: Update) -> Result<(), Refused> {
        self.may_tell(&session_id, matches!(update, Update::Message(Speaker::User, _)))?;
        self.notify(method::SESSION_UPDATE, &SessionUpdate { session_id, update })
    }

    fn ask(
        &mut self,
        tag: Tag,
        session: SessionId,
        tool_call: ToolCallUpdate,
        options: Vec<PermissionOption>,
    ) -> Result<(), Refused> {
        if !self.sessions.contains_key(&session) {
            return Err(Refused::Unknown);
        }
        if self.asked(tag).is_some() {
            return Err(Refused::Busy);
        }
        if self.pending.len() >= self.limits.own_requests {
            return Err(Refused::Limit("open requests"));
        }
        let call = tool_call.tool_call_id.clone();
        let ids = options.iter().map(|option| option.option_id.clone()).collect();
        let params = PermissionRequest { session_id: session.clone(), tool_call, options, meta: None };
        let number = self.pending.next();
        self.wire.link.line_within(self.limits.line, |buf| {
            rpc::request(buf, number, method::REQUEST_PERMISSION, &params);
        })?;
        self.pending.open(Ask::Permission { tag, session, call, options: ids });
        Ok(())
    }

    fn resolve(&mut self, tag: Tag) -> Result<(), Refused> {
        let asked = self.asked(tag).and_then(|number| self.pending.forget(number));
        let Some(Ask::Permission { session, call, .. }) = asked else { return Err(Refused::Unknown) };
        let params = Resolved { session_id: session, tool_call_id: call };
        self.wire.link.line(|buf| rpc::notification(buf, wire::method::RESOLVED, &params));
        Ok(())
    }

    fn asked(&self, tag: Tag) -> Option<u64> {
        self.pending.iter().find(|(_, ask)| ask.tag() == Some(tag)).map(|(number, _)| number)
    }

    /// Its end is said first: the hub then takes it for no other's.
    fn end_prompt(&mut self, key: TurnKey, stopped: &Stopped) -> Result<(), Refused> {
        let Turn { session, id } = self.turns.get(&key).ok_or(Refused::Unknown)?;
        let (session, id) = (session.clone(), id.clone());
        let mut answer = Vec::new();
        rpc::reply(&mut answer, &id, stopped);
        if answer.len() > self.limits.line {
            return Err(Refused::Limit("bytes of one line"));
        }
        self.say_turn(&session, State::Ended, Some(&stopped.reason));
        self.wire.link.line(|buf| buf.append(&mut answer));
        self.close_turn(key);
        Ok(())
    }

    /// Its answer is said first: an end has no words for what went wrong.
    fn fail_prompt(&mut self, key: TurnKey, error: &RpcError) -> Result<(), Refused> {
        let Turn { session, id } = self.turns.get(&key).ok_or(Refused::Unknown)?;
        let session = session.clone();
        self.wire.link.line_within(self.limits.line, |buf| rpc::reply_error(buf, id, error))?;
        self.say_turn(&session, State::Ended, None);
        self.close_turn(key);
        Ok(())
    }

    fn close_turn(&mut self, key: TurnKey) {
        if let Some(turn) = self.turns.remove(&key) {
            self.sessions.insert(turn.session, Session::Idle);
        }
    }

    fn open_session(&mut self, request: RequestKey, session: SessionId) -> Result<(), Refused> {
        let id = self.requests.get(&request).ok_or(Refused::Unknown)?;
        if session.as_str().is_empty() {
            return Err(Refused::Invalid("a session has an id"));
        }
        self.has_room_for(&session)?;
        let params = wire::Of { session_id: session.clone() };
        self.wire.link.line_within(self.limits.line, |buf| rpc::reply(buf, id, &params))?;
        self.requests.remove(&request);
        self.sessions.entry(session).or_insert(Session::Idle);
        Ok(())
    }

    fn notify<P: Serialize>(&mut self, method: &str, params: &P) -> Result<(), Refused> {
        self.wire.link.line_within(self.limits.line, |buf| rpc::notification(buf, method, params))
    }

    fn complain(&mut self, id: &Id, error: &RpcError) {
        self.wire.link.line(|buf| rpc::reply_error(buf, id, error));
    }
}

impl Ask {
    const fn tag(&self) -> Option<Tag> {
        match self {
            Self::Hello => None,
            Self::Permission { tag, .. } => Some(*tag),
        }
    }
}
