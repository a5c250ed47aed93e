//! The hub's side of one link.
//!
//! ```text
//!            hello                 Accept: what was kept, then accepted
//!  Fresh ────────────► Deciding ──────────────────────────────────────► Accepted ──end, fault, Leave──► leaving
//!    │ 10 s, bad hello,   │ Refuse
//!    │ another version    │
//!    └────────────────────┴──► answered, leaving
//! ```

mod api;
mod heard;
mod session;

pub use api::{Announced, Command, Config, Event, Fault, Settled, TurnEnded};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::NO_ANSWER;
use super::wire::{Accepted, Capabilities, Hello, Of};
use crate::acp::client::{Clock, Failure, Tools};
use crate::acp::exposed::Exposed;
use crate::acp::permission::PermissionResponse;
use crate::acp::{
    ContentBlock, Notice, PermissionOutcome, RequestKey, SessionId, SessionSetup, Stopped, method,
};
use crate::closed::{Cause, Closed};
use crate::limits::Limits;
use crate::lines::Line;
use crate::link::Listened;
use crate::machine::{Deadline, Now, Refused, Tag};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{self, Id, Pending, RpcError};
use session::{Question, Session, Turn};

/// One agent that dialled in, with its sessions.
#[derive(Debug)]
pub struct Acceptor {
    wire: Wire<Event, Fault>,
    stage: Stage,
    sessions: BTreeMap<SessionId, Session>,
    tools: Tools,
    pending: Pending<Ask>,
    next_key: u64,
    /// Whoever takes our events is full.
    full: bool,
    kept: usize,
    new_session: Duration,
    limits: Limits,
}

#[derive(Debug)]
enum Stage {
    /// No hello until then. What was said before it waits.
    Fresh {
        until: Listened,
        kept: Vec<String>,
    },
    /// The application decides about a hello, which is the request of that id.
    Deciding {
        id: Id,
        hello: Box<Hello>,
        kept: Vec<String>,
    },
    Accepted(Capabilities),
}

/// A request of ours that waits for its answer.
#[derive(Debug)]
enum Ask {
    Prompt(SessionId),
    New { tag: Tag, until: Listened },
}

impl Role for Acceptor {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    const DEAF: Option<Fault> = Some(Fault::NotReading);

    fn start(now: Now, config: Config) -> Self {
        let Config { open, hello, kept, new_session, limits, graces } = config;
        let wire = match open {
            Some(open) => Wire::open(now, open, &limits, &graces),
            None => Wire::adopt(&limits, &graces),
        };
        let until = wire.link.listened(now) + hello;
        Self {
            wire,
            stage: Stage::Fresh { until, kept: Vec::new() },
            sessions: BTreeMap::new(),
            tools: Tools::default(),
            pending: Pending::default(),
            next_key: 0,
            full: false,
            kept,
            new_session,
            limits,
        }
    }

    fn wire(&self) -> &Wire<Event, Fault> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Event, Fault> {
        &mut self.wire
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Fresh { .. } | Stage::Accepted(_) => Takes::Now,
            Stage::Deciding { .. } => Takes::Later,
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        rpc::read(line, self.limits.depth, |frame| self.frame(now, line, frame));
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Leave => {
                self.part(now, Cause::Left);
                Ok(())
            }
            Command::Accept => self.accept(now),
            Command::Refuse(reason) => self.refuse(now, reason),
            Command::Answer { request, outcome } => self.answer(request, outcome),
            Command::NoAnswer { request } => {
                let session = self.asking(request).ok_or(Refused::Unknown)?;
                self.settle_question(&session, &Err(no_answer()), None);
                Ok(())
            }
            Command::Prompt { tag, session, text } => self.prompt(tag, session, text),
            Command::Cancel { session } => self.cancel(session),
            Command::NewSession { tag, setup } => self.open_session(now, tag, &setup),
        }
    }

    fn hold(&mut self, now: Now, full: bool) {
        self.full = full;
        self.hold_or_read(now);
    }

    fn tick(&mut self, now: Now) {
        let listened = self.wire.link.listened(now);
        if let Stage::Fresh { until, .. } = self.stage
            && until <= listened
        {
            return self.part(now, Cause::Fault(Fault::NoHello));
        }
        while let Some((number, tag, until)) = self.oldest_new()
            && until <= listened
        {
            self.pending.forget(number);
            let late = Failure::TimedOut { clock: Clock::Session, after: self.new_session };
            self.wire.tell(Event::Failed(tag, Box::new(late)));
        }
    }

    fn due(&self) -> Option<Deadline> {
        let (until, what) = match self.stage {
            Stage::Fresh { until, .. } => (until, "hello"),
            Stage::Deciding { .. } => return None,
            Stage::Accepted(_) => (self.oldest_new()?.2, "open a session"),
        };
        self.wire.link.due_at(until).map(|at| (at, what))
    }

    fn settle(&mut self, now: Now) {
        self.hold_or_read(now);
    }

    fn parting(&mut self, _: Now, cause: &Cause<Fault>) {
        let left = matches!(cause, Cause::Left);
        let failure = || if left { Failure::Shutdown } else { Failure::Disconnected };
        let sessions: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for session in &sessions {
            self.settle_question(session, &Err(no_answer()), Some(Settled::Lost));
        }
        for session in sessions {
            let turn = self.sessions.get_mut(&session).and_then(Session::end);
            turn.into_iter().for_each(|turn| self.turn_ended(session.clone(), turn, Err(failure())));
        }
        while let Some(ask) = self.pending.pop() {
            if let Ask::New { tag, .. } = ask {
                self.wire.tell(Event::Failed(tag, Box::new(failure())));
            }
        }
    }

    fn last(&mut self, closed: Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(closed)))
    }
}

impl Acceptor {
    /// What may be asked of the agent, once it was let in.
    #[must_use]
    pub const fn offers(&self) -> Option<Capabilities> {
        match &self.stage {
            Stage::Accepted(offers) => Some(*offers),
            Stage::Fresh { .. } | Stage::Deciding { .. } => None,
        }
    }

    /// Stops reading while a hello is not decided.
    fn hold_or_read(&mut self, now: Now) {
        let waits = matches!(self.stage, Stage::Deciding { .. });
        self.wire.hold(now, self.full || waits);
    }

    fn accept(&mut self, now: Now) -> Result<(), Refused> {
        let Stage::Deciding { id, hello, kept } = &mut self.stage else { return Err(Refused::Unknown) };
        let (id, hello, kept) = (id.clone(), std::mem::take(hello), std::mem::take(kept));
        self.stage = Stage::Accepted(hello.capabilities);
        self.wire.tell(Event::Accepted(hello));
        for line in kept {
            self.line(now, Line::Text(&line));
        }
        self.reply(&id, &Accepted { accepted: true, reason: None });
        Ok(())
    }

    fn refuse(&mut self, now: Now, reason: String) -> Result<(), Refused> {
        let Stage::Deciding { id, .. } = &self.stage else { return Err(Refused::Unknown) };
        let id = id.clone();
        self.turn_away(&id, reason);
        self.part(now, Cause::Left);
        Ok(())
    }

    fn turn_away(&mut self, id: &Id, reason: impl Into<String>) {
        self.reply(id, &Accepted { accepted: false, reason: Some(reason.into()) });
    }

    fn prompt(&mut self, tag: Tag, session: SessionId, text: String) -> Result<(), Refused> {
        self.may(|offers| offers.prompt, "prompts")?;
        if self.known(&session)?.turn().is_some() || self.is_used(tag) {
            return Err(Refused::Busy);
        }
        if text.trim().is_empty() {
            return Err(Refused::Invalid("the prompt holds no text"));
        }
        let params = PromptParams { session_id: &session, prompt: [ContentBlock::text(text)] };
        let number = self.request(method::SESSION_PROMPT, &params, Ask::Prompt(session.clone()))?;
        self.settle_question(&session, &Err(no_answer()), Some(Settled::TurnOver));
        if let Some(session) = self.sessions.get_mut(&session) {
            session.prompted(tag, number);
        }
        self.wire.tell(Event::TurnStarted(session, Some(tag)));
        Ok(())
    }

    fn cancel(&mut self, session_id: SessionId) -> Result<(), Refused> {
        self.may(|offers| offers.cancel, "cancelling")?;
        self.known(&session_id)?;
        self.settle_question(&session_id, &Ok(PermissionOutcome::Cancelled), Some(Settled::Cancelled));
        self.wire.link.line(|buf| rpc::notification(buf, method::SESSION_CANCEL, &Of { session_id }));
        Ok(())
    }

    fn open_session(&mut self, now: Now, tag: Tag, setup: &SessionSetup) -> Result<(), Refused> {
        self.may(|offers| offers.new_session, "new sessions")?;
        if self.is_used(tag) {
            return Err(Refused::Busy);
        }
        let until = self.wire.link.listened(now) + self.new_session;
        self.request(method::SESSION_NEW, &Exposed(setup), Ask::New { tag, until })?;
        Ok(())
    }

    fn answer(&mut self, request: RequestKey, outcome: PermissionOutcome) -> Result<(), Refused> {
        let session = self.asking(request).ok_or(Refused::Unknown)?;
        let question = self.sessions.get(&session).and_then(|session| session.question.as_ref());
        if let PermissionOutcome::Selected { option_id } = &outcome
            && !question.is_some_and(|question| question.options.contains(option_id))
        {
            return Err(Refused::Invalid("that option was not offered"));
        }
        self.settle_question(&session, &Ok(outcome), None);
        Ok(())
    }

    /// The session that has that question open.
    fn asking(&self, request: RequestKey) -> Option<SessionId> {
        let asks = |session: &Session| session.question.as_ref().is_some_and(|open| open.key == request);
        self.sessions.iter().find(|(_, session)| asks(session)).map(|(name, _)| name.clone())
    }

    /// Answers the question that is open on a session, if one is, and tells why where the application did not answer it.
    fn settle_question(
        &mut self,
        session: &SessionId,
        answer: &Result<PermissionOutcome, RpcError>,
        why: Option<Settled>,
    ) {
        let open = self.sessions.get_mut(session).and_then(|session| session.question.take());
        let Some(Question { key, id, .. }) = open else { return };
        match answer {
            Ok(outcome) => self.reply(&id, &PermissionResponse { outcome: outcome.clone() }),
            Err(error) => self.complain(&id, error),
        }
        if let Some(why) = why {
            self.wire.tell(Event::Settled { request: key, session: session.clone(), why });
        }
    }

    fn turn_ended(&mut self, session: SessionId, turn: Turn, end: Result<Stopped, Failure>) {
        let tag = if let Turn::Ours(prompt) = turn { Some(prompt.tag) } else { None };
        if let Turn::Ours(prompt) = turn {
            self.pending.forget(prompt.number);
        }
        self.tools.forget(&session);
        self.wire.tell(Event::TurnEnded(Box::new(TurnEnded { session, tag, end })));
    }

    fn may(&self, offered: impl Fn(Capabilities) -> bool, what: &'static str) -> Result<(), Refused> {
        match self.offers() {
            None => Err(Refused::NotReady),
            Some(offers) if offered(offers) => Ok(()),
            Some(_) => Err(Refused::NotOffered(what)),
        }
    }

    fn known(&self, session: &SessionId) -> Result<&Session, Refused> {
        self.sessions.get(session).ok_or(Refused::Unknown)
    }

    fn is_used(&self, tag: Tag) -> bool {
        let prompts = self.sessions.values().filter_map(Session::prompt).map(|prompt| prompt.tag);
        let opening = self.pending.iter().filter_map(|(_, ask)| ask.opens().map(|(tag, _)| tag));
        prompts.chain(opening).any(|used| used == tag)
    }

    /// The new session that has been waited for the longest.
    fn oldest_new(&self) -> Option<(u64, Tag, Listened)> {
        self.pending.iter().find_map(|(number, ask)| ask.opens().map(|(tag, until)| (number, tag, until)))
    }

    fn request<P: Serialize>(&mut self, method: &str, params: &P, ask: Ask) -> Result<u64, Refused> {
        if self.pending.len() >= self.limits.own_requests {
            return Err(Refused::Limit("open requests"));
        }
        if self.wire.link.unsent() > self.limits.unsent_soft {
            return Err(Refused::Crowded);
        }
        let number = self.pending.next();
        self.wire.link.line_within(self.limits.line, |buf| rpc::request(buf, number, method, params))?;
        Ok(self.pending.open(ask))
    }

    fn reply<R: Serialize>(&mut self, id: &Id, result: &R) {
        self.wire.link.line(|buf| rpc::reply(buf, id, result));
    }

    fn complain(&mut self, id: &Id, error: &RpcError) {
        self.wire.link.line(|buf| rpc::reply_error(buf, id, error));
    }

    fn notice(&mut self, notice: Notice) {
        self.wire.tell(Event::Noticed(Box::new(notice)));
    }
}

impl Ask {
    const fn opens(&self) -> Option<(Tag, Listened)> {
        match self {
            Self::New { tag, until } => Some((*tag, *until)),
            Self::Prompt(_) => None,
        }
    }
}

fn no_answer() -> RpcError {
    RpcError::new(NO_ANSWER, "no answer here: the terminal goes on asking")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PromptParams<'a> {
    session_id: &'a SessionId,
    prompt: [ContentBlock; 1],
}
