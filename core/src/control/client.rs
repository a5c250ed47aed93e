//! The asking side: calls in order, one stream at most, and the ways in which an answer never comes.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure::{ErrorTag, Failure};
use super::wire::{self, Answer, For, Request, Said};
use crate::closed::{Cause, Closed};
use crate::limits::{Graces, Limits};
use crate::lines::Line;
use crate::link::Listened;
use crate::machine::{Address, Deadline, Now, Open, Peer, Refused, Tag};
use crate::role::{Role, Takes, Wire};
use crate::rpc::After;

/// One connection to a server of the control protocol.
#[derive(Debug)]
pub struct Client {
    wire: Wire<Event, Fault>,
    /// Calls that wait for an answer, oldest first.
    calls: VecDeque<Tag>,
    stage: Stage,
    answer: Option<Duration>,
    /// How long the greeting may take.
    connect: Duration,
    tells_lines: bool,
    limits: Limits,
}

#[derive(Debug)]
enum Stage {
    /// The far end has not said who it is: so many bytes of noise may still come. `None`: the link is not up yet.
    Awaiting { until: Option<Listened>, noise: usize },
    /// The oldest call is due by then. `None`: no call is open, the link is not, or there is no limit.
    Asking { until: Option<Listened> },
    /// A call became a stream, behind which nothing is answered.
    Streaming { tag: Tag },
    /// The application wants no more. The link closes as soon as all is sent.
    Closing,
}

/// What a client starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The server's socket, or a stream that the embedder has.
    pub open: Open,
    /// From asking, or from the answer before, until the answer or the first frame; `None`: for ever. Streams are
    /// exempt. 120 s: as long as Galley's own command line waits.
    pub answer: Option<Duration>,
    /// Whether the far end says first who it is, as `agentline hub pipe` does: [`Event::Greeted`]. What its login shell
    /// says before that is thrown away, up to 64 KiB.
    #[serde(default)]
    pub greeted: bool,
    /// Whether every line of the server is told as it came, before what it means.
    pub tells_lines: bool,
    /// Sizes. Lines of up to 32 MiB are read.
    pub limits: Limits,
    /// How long connecting and leaving may take. Connecting: 10 s, as Galley's own
    /// command line.
    pub graces: Graces,
}

impl Config {
    /// With the numbers that the protocol gives, and our own where it gives none.
    #[must_use]
    pub fn new(open: Open) -> Self {
        let answer = Some(Duration::from_secs(120));
        let (limits, graces) = (Limits::default(), Graces::default());
        Self { open, answer, greeted: false, tells_lines: false, limits, graces }
    }

    /// A client of the server at that socket.
    #[must_use]
    pub fn connect(address: Address) -> Self {
        Self::new(Open::Connect(address))
    }
}

/// What the application asks.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Sends a request, before the link is up if need be. The tag is free again when
    /// the call is complete.
    ///
    /// Refused: `NotReady`, the far end has not greeted yet; `Busy`, a call of that tag is open or a stream runs, behind
    /// which a server reads nothing; `Limit`, too many calls or bytes wait; `Closed`.
    Call(Tag, Request),
    /// From here on an answer may take so long, instead of [`Config::answer`]; the one that is waited for has that time
    /// again. Refused: `Closed`.
    Patience(Option<Duration>),
    /// Closes the connection once all is sent: the way to cancel a stream. Open calls are [`Event::Lost`].
    /// Refused: `Closed`.
    Close,
}

/// What the application is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The far end has said who it is, where [`Config::greeted`] wants it. Calls can be made.
    Greeted(Box<Greeting>),
    /// A line of the server, where [`Config::tells_lines`] wants it.
    Line(String),
    /// A call is answered, or a part of it: all but a [`Frame`](Answer::Frame) complete the call.
    Answered(Tag, Answer),
    /// A call will not be answered, or its stream broke off.
    Lost(Tag, Cause<Fault>),
    /// The server wrote a line that answers nothing. Only news: the connection goes on.
    Unexpected {
        /// What is wrong with it.
        why: &'static str,
        /// The line as text, or the start of one over the limit.
        line: String,
    },
    /// The connection is over; nothing follows.
    Closed(Box<Closed<Fault>>),
}

/// Who speaks at the far end of a pipe: its first line.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Greeting {
    /// The version of the pipe: 1. 0 means that there is no hub.
    pub hub: u32,
    /// The version of the program, or of the hub if that is another one.
    #[serde(default)]
    pub version: String,
    /// The hub's process.
    #[serde(default)]
    pub pid: u32,
    /// The home of the user there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Why there is no hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where there is none: the agents that one would have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// What a server did wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It wrote a line over the limit, or does not write lines.
    #[error("the server's answer cannot be read")]
    Unreadable,
    /// It took longer than [`Config::answer`].
    #[error("the server does not answer")]
    TimedOut,
    /// It did not say who it is, or took longer for it than connecting may take.
    #[error("the far end does not say who it is")]
    NoGreeting,
}

impl From<&Cause<Fault>> for Failure {
    /// As a command line reports it: a Galley that cannot be heard is `db_unavailable`, exit code 4
    /// (`docs/agent-api/errors-and-exit-codes.md` §3).
    fn from(lost: &Cause<Fault>) -> Self {
        let why = match lost {
            Cause::Gone => "the connection ended before the answer was complete".to_owned(),
            Cause::Left => "the connection was closed".to_owned(),
            Cause::Failed(_) | Cause::Fault(_) => lost.to_string(),
        };
        Self::new(ErrorTag::DbUnavailable, why)
    }
}

impl Role for Client {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    fn start(now: Now, Config { open, answer, greeted, tells_lines, limits, graces }: Config) -> Self {
        let stage = match greeted {
            true => Stage::Awaiting { until: None, noise: NOISE },
            false => Stage::Asking { until: None },
        };
        Self {
            wire: Wire::open(now, open, &limits, &graces),
            calls: VecDeque::new(),
            stage,
            answer,
            connect: graces.open,
            tells_lines,
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
        if let Stage::Awaiting { until, .. } = &mut self.stage {
            *until = Some(self.wire.link.listened(now) + self.connect);
        }
        self.restart(now);
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Awaiting { .. } | Stage::Asking { .. } | Stage::Streaming { .. } => Takes::Now,
            Stage::Closing => Takes::Never,
        }
    }

    fn longest(&self) -> Option<usize> {
        let greets = matches!(self.stage, Stage::Awaiting { .. });
        Some(if greets { NOISE } else { self.limits.line })
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        if let Stage::Awaiting { .. } = self.stage {
            return self.greeted(now, line);
        }
        if let (true, Line::Text(text)) = (self.tells_lines, line) {
            self.wire.tell(Event::Line(text.to_owned()));
        }
        let streaming = matches!(self.stage, Stage::Streaming { .. });
        match wire::said(line, streaming, &self.limits) {
            Said::Answer(to, answer) => self.answered(now, to, answer),
            Said::Unreadable(why, line, after) => {
                self.unreadable(now, why, line);
                if after == After::End {
                    self.part(now, Cause::Fault(Fault::Unreadable));
                }
            }
        }
    }

    fn ended(&mut self, now: Now) {
        let closing = matches!(self.stage, Stage::Closing);
        self.part(now, if closing { Cause::Left } else { Cause::Gone });
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Call(tag, request) => self.call(now, tag, &request),
            Command::Patience(_) if matches!(self.stage, Stage::Closing) => Err(Refused::Closed),
            Command::Patience(answer) => {
                self.answer = answer;
                self.restart(now);
                Ok(())
            }
            Command::Close => self.close(),
        }
    }

    fn tick(&mut self, now: Now) {
        let (until, fault) = match self.stage {
            Stage::Awaiting { until, .. } => (until, Fault::NoGreeting),
            Stage::Asking { until } => (until, Fault::TimedOut),
            Stage::Streaming { .. } | Stage::Closing => return,
        };
        if until.is_some_and(|until| until <= self.wire.link.listened(now)) {
            self.cut(now, Cause::Fault(fault));
        }
    }

    fn due(&self) -> Option<Deadline> {
        let (until, why) = match self.stage {
            Stage::Awaiting { until, .. } => (until?, "greeting"),
            Stage::Asking { until } => (until?, "answer"),
            Stage::Streaming { .. } | Stage::Closing => return None,
        };
        self.wire.link.due_at(until).map(|at| (at, why))
    }

    fn settle(&mut self, now: Now) {
        if !matches!(self.stage, Stage::Closing) {
            return;
        }
        if self.wire.link.unsent() == 0 {
            self.cut(now, Cause::Left);
        } else if self.wire.link.is_open() {
            // Nobody is waited for once it is sent.
            self.wire.link.leave(now, &mut self.wire.out);
        }
    }

    fn parting(&mut self, _: Now, cause: &Cause<Fault>) {
        self.lose(cause, Stage::Closing);
    }

    fn last(&mut self, closed: Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(closed)))
    }
}

impl Client {
    /// Calls that wait for an answer, an open stream not counted.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    fn call(&mut self, now: Now, tag: Tag, request: &Request) -> Result<(), Refused> {
        match self.stage {
            Stage::Asking { .. } if self.wire.link.is_writable() => {}
            Stage::Awaiting { .. } => return Err(Refused::NotReady),
            Stage::Streaming { .. } => return Err(Refused::Busy),
            Stage::Asking { .. } | Stage::Closing => return Err(Refused::Closed),
        }
        if self.calls.contains(&tag) {
            return Err(Refused::Busy);
        }
        if self.calls.len() >= self.limits.own_requests {
            return Err(Refused::Limit("open calls"));
        }
        if self.wire.link.unsent() >= self.limits.unsent_soft {
            return Err(Refused::Limit("unsent bytes"));
        }
        if request.args.as_ref().is_some_and(|args| args.get().len() > self.limits.line) {
            return Err(Refused::Limit("bytes of a request"));
        }
        self.wire.link.line(|buf| wire::call(buf, tag, request));
        self.calls.push_back(tag);
        if self.calls.len() == 1 {
            self.restart(now);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Refused> {
        if let Stage::Closing = self.stage {
            return Err(Refused::Closed);
        }
        self.lose(&Cause::Left, Stage::Closing);
        Ok(())
    }

    /// Reads a line of somebody who has not said yet who it is.
    fn greeted(&mut self, now: Now, line: Line<'_>) {
        let Stage::Awaiting { noise, .. } = &mut self.stage else { return };
        let text = if let Line::Text(text) = line { text } else { "" };
        // Of what is longer than all noise may be, only the beginning is here.
        let said = if let Line::TooLong(_) = line { NOISE } else { line.shown().len() };
        if let Some(greeting) = text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten() {
            self.stage = Stage::Asking { until: None };
            return self.wire.tell(Event::Greeted(greeting));
        }
        match noise.checked_sub(said + 1) {
            Some(rest) => *noise = rest,
            None => self.cut(now, Cause::Fault(Fault::NoGreeting)),
        }
    }

    /// The clock of the oldest call starts again.
    fn restart(&mut self, now: Now) {
        if let Stage::Asking { until } = &mut self.stage {
            let waits = self.wire.link.is_open() && !self.calls.is_empty();
            *until = self.answer.filter(|_| waits).map(|answer| self.wire.link.listened(now) + answer);
        }
    }

    fn answered(&mut self, now: Now, to: For, answer: Answer) {
        let streams = match self.stage {
            Stage::Asking { .. } => None,
            Stage::Streaming { tag } => Some(tag),
            Stage::Awaiting { .. } | Stage::Closing => return,
        };
        let Some(tag) = streams.or_else(|| self.take(to)) else {
            let why = "answers no open call";
            return self.wire.tell(Event::Unexpected { why, line: answer.to_string() });
        };
        let last = match answer {
            Answer::Frame(_) => {
                self.stage = Stage::Streaming { tag };
                false
            }
            Answer::Reply(_) | Answer::Fail(_) => streams.is_some(),
            Answer::End(_) => true,
        };
        self.wire.tell(Event::Answered(tag, answer));
        if last {
            self.stage = Stage::Closing;
            self.part(now, Cause::Gone);
        } else {
            self.restart(now);
        }
    }

    fn unreadable(&mut self, now: Now, why: &'static str, line: String) {
        match self.stage {
            Stage::Asking { .. } if !self.calls.is_empty() => {
                let message = format!("the answer is {why}");
                self.answered(now, For::Oldest, Answer::fail(ErrorTag::Internal, message));
            }
            Stage::Asking { .. } | Stage::Streaming { .. } => self.wire.tell(Event::Unexpected { why, line }),
            Stage::Awaiting { .. } | Stage::Closing => {}
        }
    }

    fn take(&mut self, to: For) -> Option<Tag> {
        match to {
            For::Oldest => self.calls.pop_front(),
            For::Tag(tag) => {
                let at = self.calls.iter().position(|call| *call == tag)?;
                self.calls.remove(at)
            }
            For::Stranger => None,
        }
    }

    /// No answer will come any more.
    fn lose(&mut self, why: &Cause<Fault>, next: Stage) {
        if let Stage::Streaming { tag } = std::mem::replace(&mut self.stage, next) {
            self.wire.tell(Event::Lost(tag, why.clone()));
        }
        for tag in self.calls.drain(..) {
            self.wire.tell(Event::Lost(tag, why.clone()));
        }
    }
}

/// Bytes that a login shell may say before its program does.
const NOISE: usize = 64 << 10;
