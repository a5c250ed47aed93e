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

pub use api::{Command, Config, Event, Initialized, Prompted, Reply, Requested, TurnKey, Wanted};

use std::collections::BTreeMap;

use super::SessionId;
use super::peer::{Closed, Fault, Notice, RequestKey};
use super::session::{AgentCapabilities, ClientCapabilities, InitializeResponse};
use crate::limits::Limits;
use crate::lines::{Line, Lines, ReadLines, Takes};
use crate::link::{Link, Report};
use crate::machine::{Deadline, Input, LinkId, Machine, Now, Output, Outputs, Refused, Tag};
use crate::rpc::{self, Frame, Id, Pending, RpcError};

/// The agent of one connection, with any number of sessions on it.
#[derive(Debug)]
pub struct Agent {
    stage: Stage,
    link: Link,
    lines: Lines,
    flow: Flow,
    /// What `initialize` is answered with.
    greeting: InitializeResponse,
    client: ClientCapabilities,
    extensions: Vec<String>,
    sessions: BTreeMap<SessionId, Session>,
    turns: BTreeMap<TurnKey, Turn>,
    requests: BTreeMap<RequestKey, Question>,
    pending: Pending<Ask>,
    next_key: u64,
    limits: Limits,
    out: Outputs<Event>,
}

#[derive(Debug)]
enum Stage {
    Opening,
    Fresh,
    Greeted,
    Serving,
    Leaving(Option<Fault>),
    Ended,
}

/// Whether the client keeps up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flow {
    Free,
    Crowded,
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
    Permission(Tag, TurnKey, Vec<String>),
    Service(Tag),
}

impl Ask {
    const fn tag(&self) -> Tag {
        match self {
            Self::Permission(tag, ..) | Self::Service(tag) => *tag,
        }
    }
}

impl Machine for Agent {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config { open, info, capabilities, auth_methods, extensions, limits, graces } = config;
        let mut out = Outputs::default();
        Self {
            stage: Stage::Opening,
            link: Link::open(now, LinkId::FIRST, open, &limits, &graces, &mut out),
            lines: Lines::new(limits.line),
            flow: Flow::Free,
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
            turns: BTreeMap::new(),
            requests: BTreeMap::new(),
            pending: Pending::default(),
            next_key: 0,
            limits,
            out,
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(LinkId::FIRST, heard) => {
                let report = self.link.heard(now, heard, &mut self.out);
                self.report(now, report);
            }
            Input::Hold(hold) => self.link.hold(now, hold, &mut self.out),
            Input::Tick | Input::Link(..) | Input::StoreFailed(_) => {}
        }
        let report = self.link.tick(now, &mut self.out);
        self.report(now, report);
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let done = self.obey(now, command);
        self.settle(now);
        done
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.link.deadline()
    }
}

impl ReadLines for Agent {
    fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Fresh | Stage::Greeted | Stage::Serving => Takes::Now,
            Stage::Opening | Stage::Leaving(_) | Stage::Ended => Takes::Never,
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        match line {
            Line::Text(text) => self.frame(text),
            Line::NotUtf8(bytes) => {
                self.complain(&Id::null(), RpcError::new(rpc::code::PARSE_ERROR, "not UTF-8"));
                self.bad_line("not UTF-8", &String::from_utf8_lossy(bytes));
            }
            Line::TooLong => self.leave(now, Some(Fault::LineTooLong)),
        }
        self.watch_unsent(now);
    }
}

impl Agent {
    /// Bytes that are not yet with the operating system.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.link.unsent()
    }

    const fn offers(&self) -> &AgentCapabilities {
        &self.greeting.agent_capabilities
    }

    fn report(&mut self, now: Now, report: Report<'_>) {
        match report {
            Report::Quiet | Report::Stderr(_) | Report::Failed(_) => {}
            Report::Opened(_) => self.stage = Stage::Fresh,
            Report::Bytes(bytes) => self.read(now, bytes),
            Report::Ended => {
                self.read_end(now);
                self.leave(now, None);
            }
        }
    }

    fn frame(&mut self, line: &str) {
        match rpc::parse(line, self.limits.depth) {
            Frame::Request { id, method, params } => self.request(id, &method, params),
            Frame::Notification { method, params } => self.notification(&method, params),
            Frame::Response { id, outcome } => self.response(&id, outcome),
            Frame::Complaint(error) => self.notice(Notice::Complaint(error)),
            Frame::Malformed(flaw) => {
                if let Some(code) = flaw.answer {
                    self.complain(&flaw.id, RpcError::new(code, flaw.why));
                }
                self.bad_line(flaw.why, line);
            }
        }
    }

    fn complain(&mut self, id: &Id, error: RpcError) {
        self.link.line(|buf| rpc::reply_error(buf, id, &error));
    }

    /// Ends what is open, sends what is unsent, and leaves.
    fn leave(&mut self, now: Now, fault: Option<Fault>) {
        if matches!(self.stage, Stage::Leaving(_) | Stage::Ended) {
            return;
        }
        while let Some((turn, _)) = self.turns.first_key_value() {
            self.cut_short(*turn);
        }
        self.give_up_requests();
        self.stage = Stage::Leaving(fault);
        self.link.leave(now, &mut self.out);
    }

    /// The end of every step: one write, and the last words when the link is gone.
    fn settle(&mut self, now: Now) {
        self.watch_unsent(now);
        self.link.flush(now, &mut self.out);
        self.watch_flow();
        if self.link.is_closed() && !matches!(self.stage, Stage::Ended) {
            self.leave(now, None);
            let fault = match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Leaving(fault) => fault,
                Stage::Opening | Stage::Fresh | Stage::Greeted | Stage::Serving | Stage::Ended => None,
            };
            self.out.tell(Event::Closed(Box::new(Closed { fault, obituary: self.link.obituary() })));
            self.out.end();
        }
    }

    /// Looked at after each line: what came in one read can ask for many times its size.
    fn watch_unsent(&mut self, now: Now) {
        if self.link.unsent() > self.limits.unsent_hard {
            self.leave(now, Some(Fault::NotReading));
        }
    }

    fn watch_flow(&mut self) {
        if !matches!(self.takes(), Takes::Now) {
            return;
        }
        let unsent = self.link.unsent();
        match self.flow {
            Flow::Free if unsent > self.limits.unsent_soft => {
                self.flow = Flow::Crowded;
                self.out.tell(Event::Crowded);
            }
            Flow::Crowded if unsent <= self.limits.unsent_soft / 2 => {
                self.flow = Flow::Free;
                self.out.tell(Event::Drained);
            }
            Flow::Free | Flow::Crowded => {}
        }
    }

    const fn fresh_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn notice(&mut self, notice: Notice) {
        self.out.tell(Event::Noticed(Box::new(notice)));
    }

    fn bad_line(&mut self, why: &'static str, line: &str) {
        self.notice(Notice::bad_line(why, line));
    }
}
