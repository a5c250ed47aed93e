//! The agent's role: serves a client on its own stdio, or on any stream.
//!
//! ```text
//!  Opening ──Opened──► Fresh ──initialize──► Greeted ──any request──► Serving
//!                        │ anything else:       │ initialize again:       │
//!                        │ -32600               │ the latest wins         │ Shutdown, EOF, fault
//!                        └──────────────────────┴───────► Leaving ◄───────┘
//!                                                            │ flushed, or its grace
//!                                                          Ended
//! ```
//!
//! A turn: `Running ──cancel──► Cancelled`, and from either one answer ends it. No update of a turn can follow
//! its answer, since its key is gone.

mod api;
mod inbound;
mod outbound;

pub(crate) use inbound::Prompt;

pub use api::{
    Command, Config, Event, Greeting, Initialized, Of, Prompted, Reply, Requested, TurnKey, Wanted,
};

use std::collections::BTreeMap;

use super::SessionId;
use super::peer::{Fault, Notice, RequestKey};
use super::session::{AgentCapabilities, ClientCapabilities, InitializeResponse};
use crate::closed::{Cause, Closed};
use crate::limits::Limits;
use crate::lines::Line;
use crate::machine::{Now, Peer, Refused, Tag};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{self, Frame, Id, Pending, RpcError};

/// The agent of one connection, with any number of sessions on it.
#[derive(Debug)]
pub struct Agent {
    stage: Stage,
    wire: Wire<Event, Fault>,
    /// What `initialize` is answered with.
    greeting: InitializeResponse,
    client: ClientCapabilities,
    extensions: Vec<String>,
    sessions: BTreeMap<SessionId, Session>,
    /// Those of subagents that the client was told of, by the session that they work for.
    subagents: BTreeMap<SessionId, SessionId>,
    turns: BTreeMap<TurnKey, Turn>,
    requests: BTreeMap<RequestKey, Question>,
    pending: Pending<Ask>,
    next_key: u64,
    greets_late: bool,
    limits: Limits,
}

#[derive(Debug)]
enum Stage {
    Opening,
    Fresh,
    /// `initialize` waits for its answer.
    Introduced(Id),
    Greeted,
    Serving,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Session {
    /// Being loaded: its history may be announced.
    Loading,
    Idle,
    Running(TurnKey),
}

#[derive(Debug)]
struct Turn {
    session: SessionId,
    /// The prompt to answer.
    id: Id,
    state: TurnState,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TurnState {
    Running,
    Cancelled,
}

/// A request of the client that waits for the application.
#[derive(Debug)]
struct Question {
    id: Id,
    about: About,
}

#[derive(Debug)]
enum About {
    NewSession,
    /// Loaded or resumed, and what it was before.
    OldSession(SessionId, Option<Session>),
    Close(SessionId),
    Sessions,
    Options,
    Extension,
    Other,
}

/// A request of ours that waits for the client.
#[derive(Debug)]
enum Ask {
    Permission(Tag, Option<TurnKey>, Vec<String>),
    Service(Tag),
}

impl Ask {
    const fn tag(&self) -> Tag {
        match self {
            Self::Permission(tag, ..) | Self::Service(tag) => *tag,
        }
    }
}

impl Role for Agent {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    const DEAF: Option<Fault> = Some(Fault::NotReading);

    fn start(now: Now, config: Config) -> Self {
        let Config { open, info, capabilities, auth_methods, extensions, greets_late, limits, graces } =
            config;
        Self {
            stage: Stage::Opening,
            wire: Wire::open(now, open, &limits, &graces),
            greeting: InitializeResponse {
                protocol_version: super::session::PROTOCOL_VERSION,
                agent_capabilities: capabilities,
                auth_methods,
                agent_info: info,
                meta: None,
            },
            client: ClientCapabilities::default(),
            extensions,
            sessions: BTreeMap::new(),
            subagents: BTreeMap::new(),
            turns: BTreeMap::new(),
            requests: BTreeMap::new(),
            pending: Pending::default(),
            next_key: 0,
            greets_late,
            limits,
        }
    }

    fn wire(&self) -> &Wire<Event, Fault> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Event, Fault> {
        &mut self.wire
    }

    fn opened(&mut self, _: Now, _: Peer) {
        self.stage = Stage::Fresh;
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Fresh | Stage::Introduced(_) | Stage::Greeted | Stage::Serving => Takes::Now,
            Stage::Opening => Takes::Never,
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        rpc::read(line, self.limits.depth, |frame| self.frame(now, line, frame));
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        self.act_on(now, command)
    }

    fn crowded(&mut self, crowded: bool) {
        self.wire.tell(if crowded { Event::Crowded } else { Event::Drained });
    }

    fn parting(&mut self, _: Now, _: &Cause<Fault>) {
        while let Some((turn, _)) = self.turns.first_key_value() {
            self.cut_short(*turn);
        }
        if let Stage::Introduced(id) = &self.stage {
            self.complain(&id.clone(), RpcError::new(rpc::code::CANCELLED, "the agent is leaving"));
        }
        self.give_up_requests();
    }

    fn last(&mut self, closed: Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(closed)))
    }
}

impl Agent {
    /// Bytes that are not yet with the operating system.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.wire.link.unsent()
    }

    /// Whether `initialize` waits for [`Command::Greet`].
    #[must_use]
    pub const fn is_to_greet(&self) -> bool {
        matches!(self.stage, Stage::Introduced(_))
    }

    const fn offers(&self) -> &AgentCapabilities {
        &self.greeting.agent_capabilities
    }

    fn frame(&mut self, now: Now, line: Line<'_>, frame: Frame<'_>) {
        match frame {
            Frame::Request { id, method, params } => self.request(id, &method, params),
            Frame::Notification { method, params } => self.notification(&method, params),
            Frame::Response { id, outcome } => self.response(&id, outcome),
            Frame::Complaint(error) => self.notice(Notice::Complaint { error, open: self.oldest() }),
            Frame::Malformed(flaw) => {
                if let Some(code) = flaw.answer {
                    self.complain(&flaw.id, RpcError::new(code, flaw.why));
                }
                self.notice(Notice::bad_line(flaw.why, line));
                if let Some(fault) = Fault::of_flaw(&flaw) {
                    self.part(now, Cause::Fault(fault));
                }
            }
        }
    }

    /// The oldest requests of ours that wait for an answer.
    fn oldest(&self) -> Vec<u64> {
        self.pending.iter().map(|(number, _)| number).take(4).collect()
    }

    fn complain(&mut self, id: &Id, error: RpcError) {
        self.wire.link.line(|buf| rpc::reply_error(buf, id, &error));
    }

    const fn fresh_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn notice(&mut self, notice: Notice) {
        self.wire.tell(Event::Noticed(Box::new(notice)));
    }
}
