//! The client's role: starts or reaches an agent, opens sessions, runs turns.
//!
//! ```text
//!  Opening ──Opened──► Initializing ──result, version 1──► Ready ──┐ Shutdown, EOF, fault
//!     │                     │ error, version, clock                │
//!     └── OpenFailed ──┐    └───────────────► Leaving ◄────────────┘
//!                      ▼                         │ the link is closed
//!                    Ended ◄─────────────────────┘
//! ```

mod api;
mod ask;
mod asks;
mod inbound;
mod pieces;
mod sessions;
mod tools;

pub use api::{
    Answer, Clock, Command, Config, Event, Failure, Moment, PermissionAsked, Ready, Requested, Text,
    Timeouts, TurnEnded, Updated, Which,
};
pub(crate) use tools::Tools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::fast;
use super::lenient::object;
use super::peer::{Fault, LONGEST_ID, Notice};
use super::session::{
    AgentCapabilities, ClientCapabilities, Implementation, InitializeRequest, InitializeResponse,
    PROTOCOL_VERSION,
};
use super::turn::{Open, Stopped, Turn};
use super::{Json, SessionId, Update, method};
use crate::closed::{Cause, Closed};
use crate::limits::Limits;
use crate::lines::Line;
use crate::link::Listened;
use crate::machine::{Deadline, Heard, Now, Peer, Refused, Tag, soonest};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{self, Flaw, Frame, Id, RpcError, shown};
use ask::Ask;
use asks::Asks;
use inbound::Inbound;
use pieces::Cut;
use sessions::{Session, Sessions};

/// The client of one connection, with any number of sessions on it.
#[derive(Debug)]
pub struct Client {
    stage: Stage,
    wire: Wire<Event, Fault>,
    asks: Asks,
    sessions: Sessions,
    inbound: Inbound,
    tools: Tools,
    /// When the agent said something last that makes sense.
    news: Listened,
    /// Since when it is the agent's turn to say something.
    quiet_since: Listened,
    message: Option<Arc<str>>,
    /// Characters of which only the first half has come.
    cuts: BTreeMap<SessionId, Cut>,
    info: Option<Implementation>,
    capabilities: ClientCapabilities,
    extensions: Vec<String>,
    raw: bool,
    whole: bool,
    timeouts: Timeouts,
    limits: Limits,
}

#[derive(Debug)]
enum Stage {
    Opening,
    Initializing,
    Ready(Box<Offers>),
}

/// What the agent offers.
#[derive(Debug, Default)]
struct Offers {
    capabilities: AgentCapabilities,
    /// The logins that it does itself, by id.
    logins: Vec<String>,
}

impl Role for Client {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    const DEAF: Option<Fault> = Some(Fault::NotReading);

    fn start(now: Now, config: Config) -> Self {
        let Config { open, info, capabilities, extensions, raw, whole, timeouts, limits, graces } = config;
        let wire = Wire::open(now, open, &limits, &graces);
        Self {
            stage: Stage::Opening,
            asks: Asks::default(),
            sessions: Sessions::default(),
            inbound: Inbound::default(),
            tools: Tools::default(),
            news: wire.link.listened(now),
            quiet_since: wire.link.listened(now),
            wire,
            message: None,
            cuts: BTreeMap::new(),
            info,
            capabilities,
            extensions,
            raw,
            whole,
            timeouts,
            limits,
        }
    }

    fn wire(&self) -> &Wire<Event, Fault> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Event, Fault> {
        &mut self.wire
    }

    fn step(&mut self, now: Now, heard: Option<Heard<'_>>) {
        // By bytes and not by messages: a line of many megabytes takes its time.
        if self.owes_us_nothing() || matches!(heard, Some(Heard::Bytes(_))) {
            self.quiet_since = self.wire.link.listened(now);
        }
    }

    fn opened(&mut self, now: Now, _: Peer) {
        self.initialize(now);
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Initializing | Stage::Ready(_) => Takes::Now,
            Stage::Opening => Takes::Never,
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        if self.is_update(line) {
            self.news = self.wire.link.listened(now);
        } else {
            rpc::read(line, self.limits.depth, |frame| self.frame(now, line, frame));
        }
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.wire.tell(Event::Stderr(String::from_utf8_lossy(bytes).into_owned()));
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        self.ask_for(now, command)
    }

    fn hastens(command: &Command) -> bool {
        matches!(command, Command::Hasten)
    }

    fn due(&self) -> Option<Deadline> {
        let cancel = self.sessions.deadline().map(|until| (until, "confirm the cancel"));
        let silence = self.silence().map(|until| (until, "silence during a turn"));
        let waits = [self.asks.deadline(), cancel, silence].into_iter().flatten();
        let own = waits.map(|(until, why)| Some((self.wire.link.due_at(until)?, why)));
        own.fold(None, soonest)
    }

    fn tick(&mut self, now: Now) {
        let listened = self.wire.link.listened(now);
        while let Some((number, ask, clock, after)) = self.asks.late(listened, self.news) {
            self.timed_out(now, number, ask, clock, after);
        }
        if let Some(after) = self.timeouts.silence
            && self.silence().is_some_and(|until| until <= listened)
        {
            for session in self.sessions.running() {
                self.give_up(&session, Failure::Silent { after });
            }
        }
        while let Some(session) = self.sessions.unconfirmed(listened) {
            let after = self.timeouts.cancel.unwrap_or_default();
            self.end_turn(&session, Failure::Unconfirmed { after });
        }
    }

    fn parting(&mut self, now: Now, cause: &Cause<Fault>) {
        // Text before the ends of its turns, and both before the connection's.
        self.end_of_all_text();
        self.give_up_questions(|_| true);
        let why = if *cause == Cause::Left { Failure::Shutdown } else { Failure::Disconnected };
        while let Some(ask) = self.asks.pop() {
            self.failed(now, ask, why.clone());
        }
    }

    fn last(&mut self, closed: Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(closed)))
    }
}

impl Client {
    /// Why the connection is being left, if the agent is to blame.
    #[must_use]
    pub const fn why_leaving(&self) -> Option<&Fault> {
        match self.wire.parted() {
            Some(Cause::Fault(fault)) => Some(fault),
            Some(Cause::Left | Cause::Gone | Cause::Failed(_)) | None => None,
        }
    }

    /// Whether the connection is over, or about to be.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.wire.parted().is_some()
    }

    /// The end of what the child has written to standard error so far.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        self.wire.link.obituary().stderr_tail
    }

    /// Bytes that are not yet with the operating system.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.wire.link.unsent()
    }

    /// Whether that session was opened here.
    #[must_use]
    pub fn knows(&self, session: &SessionId) -> bool {
        self.sessions.get(session.as_str()).is_some()
    }

    fn initialize(&mut self, now: Now) {
        self.stage = Stage::Initializing;
        let params = InitializeRequest {
            protocol_version: PROTOCOL_VERSION,
            client_capabilities: self.capabilities.clone(),
            client_info: self.info.clone(),
            meta: None,
        };
        if let Err(refused) = self.ask(now, Ask::Initialize, method::INITIALIZE, &params) {
            self.fault(now, Fault::Unreadable(refused.to_string()));
        }
    }

    /// Nearly all lines are updates, and most of these pieces of text.
    fn is_update(&mut self, line: Line<'_>) -> bool {
        let Line::Text(text) = line else { return false };
        if self.raw {
            self.wire.tell(Event::Line(text.to_owned()));
        }
        if let Some(chunk) = fast::text_chunk(text) {
            self.text_chunk(chunk);
            return true;
        }
        // What is wrong with it is told by whoever takes any line.
        let update = fast::update(text, self.limits.depth);
        let Some((session, raw, Ok(update))) = update.map(|(id, raw)| (id, raw, Update::read(raw.get())))
        else {
            return false;
        };
        self.update(&session, update, raw, line);
        true
    }

    fn frame(&mut self, now: Now, line: Line<'_>, frame: Frame<'_>) {
        if !matches!(frame, Frame::Malformed(_)) {
            self.news = self.wire.link.listened(now);
        }
        match frame {
            Frame::Request { method, .. } if self.is_echo(&method) => self.fault(now, Fault::Echo),
            Frame::Request { id, method, params } => self.request(id, &method, params),
            Frame::Notification { method, params } => self.notification(&method, params, line),
            Frame::Response { id, outcome } => self.response(now, &id, outcome),
            Frame::Complaint(error) => self.notice(Notice::Complaint { error, open: self.asks.oldest() }),
            Frame::Malformed(flaw) => {
                self.flaw(now, &flaw);
                self.notice(Notice::bad_line(flaw.why, line));
                if let Some(fault) = Fault::of_flaw(&flaw) {
                    self.fault(now, fault);
                }
            }
        }
    }

    /// No agent asks for a handshake. Our answer would come back as well, and be taken for the agent's.
    fn is_echo(&self, method: &str) -> bool {
        matches!(self.stage, Stage::Initializing) && method == method::INITIALIZE
    }

    /// Only who asked gets an answer: some agents die of an error that names no request.
    fn flaw(&mut self, now: Now, flaw: &Flaw) {
        if flaw.id == Id::null() {
            return;
        }
        if let Some(code) = flaw.answer {
            let error = RpcError::new(code, flaw.why);
            self.wire.link.line(|buf| rpc::reply_error(buf, &flaw.id, &error));
        } else if let Some(ask) = self.asks.close(&flaw.id) {
            self.failed(now, ask, Failure::Unreadable(flaw.why.to_owned()));
        }
    }

    /// Which session an update is for, and when it comes; `None` when nobody has that session.
    fn place(&mut self, id: &str) -> Option<(SessionId, Moment)> {
        if let Some((session, state)) = self.sessions.find(id) {
            let moment = match state {
                Session::Opening(moment) => *moment,
                Session::Open(known) if known.turn().open().is_some() => Moment::Turn,
                Session::Open(_) => Moment::Between,
            };
            return Some((session.clone(), moment));
        }
        // A new session may speak before its id is told.
        if self.asks.opens_new_session() {
            return Some((SessionId::from(id), Moment::Between));
        }
        self.notice(Notice::UnknownSession(SessionId::from(id)));
        None
    }

    /// Chunks of one message share its id.
    fn intern(&mut self, id: &str) -> Arc<str> {
        if let Some(last) = &self.message
            && **last == *id
        {
            return last.clone();
        }
        let id: Arc<str> = id.into();
        if id.len() <= LONGEST_ID {
            self.message = Some(id.clone());
        }
        id
    }

    fn handshake(&mut self, now: Now, outcome: Result<Json, RpcError>) {
        let raw = match outcome {
            Ok(raw) => raw,
            Err(error) => return self.fault(now, Fault::Refused(error)),
        };
        if let Some(version) = version_of(&raw).filter(|version| version != "1") {
            return self.fault(now, Fault::WrongVersion(version));
        }
        let response: InitializeResponse = match object(raw.get()) {
            Ok(response) => response,
            Err(error) => return self.fault(now, Fault::Unreadable(error.to_string())),
        };
        let own = response.auth_methods.iter().filter(|method| !method.is_terminal());
        let fits = own.filter(|method| method.id.len() <= LONGEST_ID).take(LOGINS);
        self.stage = Stage::Ready(Box::new(Offers {
            logins: fits.map(|method| method.id.clone()).collect(),
            capabilities: AgentCapabilities { meta: None, ..response.agent_capabilities.clone() },
        }));
        self.wire.tell(Event::Ready(Box::new(Ready {
            protocol_version: response.protocol_version,
            agent_info: response.agent_info,
            capabilities: response.agent_capabilities,
            auth_methods: response.auth_methods,
            raw,
        })));
    }

    /// Sends a request and remembers what its answer is for.
    fn ask<P: Serialize + ?Sized>(
        &mut self,
        now: Now,
        ask: Ask,
        method: &str,
        params: &P,
    ) -> Result<u64, Refused> {
        let number = self.asks.next();
        self.send(|buf| rpc::request(buf, number, method, params))?;
        let patience = ask.timeout(&self.timeouts);
        Ok(self.asks.open(self.wire.link.listened(now), ask, patience))
    }

    /// Queues a request of the application's, unless that alone would make the agent look deaf.
    fn send(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Refused> {
        self.wire.send(self.limits.line, fill)
    }

    fn timed_out(&mut self, now: Now, number: u64, ask: Ask, clock: Clock, after: Duration) {
        let failure = Failure::TimedOut { clock, after };
        match ask {
            Ask::Prompt(_, session) => return self.give_up(&session, failure),
            // Whoever has not answered the handshake may know no other message.
            Ask::Initialize => {}
            Ask::Other(..) => self.send_withdrawal(number),
        }
        self.failed(now, ask, failure);
    }

    /// When the silence of the agent has lasted too long: only while it owes us something during a turn.
    fn silence(&self) -> Option<Listened> {
        let timeout = self.timeouts.silence?;
        (self.sessions.any_runs() && !self.owes_us_nothing()).then(|| self.quiet_since + timeout)
    }

    /// Whether its silence is our own doing: a question of its is open.
    fn owes_us_nothing(&self) -> bool {
        !self.inbound.is_empty()
    }

    /// Ends a turn that lasts too long; the agent is told, unless it was already.
    fn give_up(&mut self, session: &SessionId, why: Failure) {
        if let Some(Turn::Running(_)) = self.sessions.turn(session) {
            self.send_cancel(session);
        }
        self.end_turn(session, why);
    }

    /// Ends a turn without the agent's answer, which is an orphan when it comes.
    fn end_turn(&mut self, session: &SessionId, why: Failure) {
        let Some(Open { request, tag }) = self.sessions.give_up(session) else { return };
        self.asks.forget(request);
        self.give_up_questions_of(session);
        self.tell_end(session.clone(), tag, Err(why));
    }

    fn tell_end(&mut self, session: SessionId, tag: Tag, end: Result<Stopped, Failure>) {
        self.end_of_text(&session);
        self.tools.forget(&session);
        self.wire.tell(Event::TurnEnded(Box::new(TurnEnded { session, tag, end })));
    }

    fn fault(&mut self, now: Now, fault: Fault) {
        self.part(now, Cause::Fault(fault));
    }

    fn notice(&mut self, notice: Notice) {
        self.wire.tell(Event::Noticed(Box::new(notice)));
    }
}

/// The version that an agent answers with, as it is written: 1, `"1"` and 1.0 are three different things.
fn version_of(raw: &Json) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer<'a> {
        #[serde(borrow)]
        protocol_version: &'a RawValue,
    }
    let Answer { protocol_version } = object(raw.get()).ok()?;
    Some(shown(protocol_version.get()).into_owned())
}

/// Logins of an agent that can be asked for.
const LOGINS: usize = 64;
