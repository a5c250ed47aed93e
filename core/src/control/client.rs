//! The asking side: calls in order, one stream at most, and the ways in which an answer never comes.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure::{ErrorTag, Failure};
use super::wire::{self, Answer, For, Request, Said};
use crate::limits::{Graces, Limits};
use crate::lines::{Line, Lines, ReadLines, Takes};
use crate::link::{Link, Listened, Obituary, Report};
use crate::machine::{
    Address, Deadline, Heard, Input, LinkId, Machine, Now, Open, OpenError, Output, Outputs, Refused, Tag,
    soonest,
};

/// One connection to a server of the control protocol.
#[derive(Debug)]
pub struct Client {
    link: Link,
    lines: Lines,
    /// Calls that wait for an answer, oldest first.
    calls: VecDeque<Tag>,
    stage: Stage,
    answer: Option<Duration>,
    limits: Limits,
    out: Outputs<Event>,
}

#[derive(Debug)]
enum Stage {
    /// The oldest call is due by then. `None`: no call is open, the link is not, or there is no limit.
    Asking { until: Option<Listened> },
    /// A call became a stream, behind which nothing is answered.
    Streaming { tag: Tag },
    /// The application wants no more. The link closes as soon as all is sent.
    Closing,
    /// The server said its last byte, or the link is lost.
    Over,
}

/// What a client starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The server's socket, or a stream that the embedder has.
    pub open: Open,
    /// From asking, or from the answer before, until the answer or the first frame; `None`: for ever. Streams are
    /// exempt. 120 s: galley B3.
    pub answer: Option<Duration>,
    /// Sizes. Lines of up to 32 MiB are read.
    pub limits: Limits,
    /// How long connecting and leaving may take. Connecting: 10 s (galley B3).
    pub graces: Graces,
}

impl Config {
    /// The protocol's numbers.
    #[must_use]
    pub fn new(open: Open) -> Self {
        let answer = Some(Duration::from_secs(120));
        Self { open, answer, limits: Limits::default(), graces: Graces::default() }
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
    /// Refused: `Busy`, a call of that tag is open or a stream runs, behind which a server reads nothing;
    /// `Limit`, too many calls or bytes wait; `Closed`.
    Call(Tag, Request),
    /// Closes the connection once all is sent: the way to cancel a stream. Open calls are [`Event::Lost`].
    /// Refused: `Closed`.
    Close,
}

/// What the application is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A call is answered, or a part of it: all but a [`Frame`](Answer::Frame) complete the call.
    Answered(Tag, Answer),
    /// A call will not be answered, or its stream broke off.
    Lost(Tag, Lost),
    /// The server wrote a line that answers nothing. Only news: the connection goes on.
    Unexpected {
        /// What is wrong with it.
        why: &'static str,
        /// The line as text; empty if it was too long.
        line: String,
    },
    /// The last event: how the link ended.
    Closed(Box<Obituary>),
}

/// Why no answer comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// There is no connection.
    #[error("cannot connect: {0}")]
    Unreachable(OpenError),
    /// The server took too long.
    #[error("the server does not answer")]
    TimedOut,
    /// The connection ended first.
    #[error("the connection ended before the answer was complete")]
    Ended,
    /// The application closed it.
    #[error("the connection was closed")]
    Closed,
}

impl From<Lost> for Failure {
    /// As a command line reports it: whoever cannot be heard has no database (galley B3).
    fn from(lost: Lost) -> Self {
        Self::new(ErrorTag::DbUnavailable, lost.to_string())
    }
}

impl Machine for Client {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, Config { open, answer, limits, graces }: Config) -> Self {
        let mut out = Outputs::default();
        Self {
            link: Link::open(now, LinkId::FIRST, open, &limits, &graces, &mut out),
            lines: Lines::new(limits.line),
            calls: VecDeque::new(),
            stage: Stage::Asking { until: None },
            answer,
            limits,
            out,
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if self.link.is_closed() {
            return;
        }
        match input {
            Input::Link(LinkId::FIRST, heard) => self.heard(now, heard),
            Input::Hold(full) => self.link.hold(now, full, &mut self.out),
            Input::Tick | Input::Link(..) | Input::StoreFailed(_) => {}
        }
        self.tick(now);
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Call(tag, request) => self.call(now, tag, &request)?,
            Command::Close => self.close()?,
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        let own = match self.stage {
            Stage::Asking { until: Some(until) } => self.link.when(until).map(|at| (at, "answer")),
            Stage::Asking { until: None } | Stage::Streaming { .. } | Stage::Closing | Stage::Over => None,
        };
        soonest(own, self.link.deadline())
    }
}

impl ReadLines for Client {
    fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Asking { .. } | Stage::Streaming { .. } => Takes::Now,
            Stage::Closing | Stage::Over => Takes::Never,
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        let streaming = matches!(self.stage, Stage::Streaming { .. });
        match wire::said(line, streaming, &self.limits) {
            Said::Answer(to, answer) => self.answered(now, to, answer),
            Said::Unreadable(why, line) => self.unreadable(now, why, line),
        }
    }
}

impl Client {
    /// Calls that wait for an answer, an open stream not counted.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    fn heard(&mut self, now: Now, heard: Heard<'_>) {
        let report = self.link.heard(now, heard, &mut self.out);
        self.reported(now, report);
    }

    fn reported(&mut self, now: Now, report: Report<'_>) {
        match report {
            Report::Opened(_) => self.restart(now),
            Report::Failed(error) => self.over(Lost::Unreachable(error)),
            Report::Bytes(bytes) => self.read(now, bytes),
            Report::Ended => {
                // An unterminated last line is a line.
                self.read_end(now);
                self.over(Lost::Ended);
                self.link.leave(now, &mut self.out);
            }
            Report::Quiet | Report::Stderr(_) => {}
        }
    }

    fn call(&mut self, now: Now, tag: Tag, request: &Request) -> Result<(), Refused> {
        match self.stage {
            Stage::Asking { .. } if self.link.is_writable() => {}
            Stage::Streaming { .. } => return Err(Refused::Busy),
            Stage::Asking { .. } | Stage::Closing | Stage::Over => return Err(Refused::Closed),
        }
        if self.calls.contains(&tag) {
            return Err(Refused::Busy);
        }
        if self.calls.len() >= self.limits.own_requests {
            return Err(Refused::Limit("open calls"));
        }
        if self.link.unsent() >= self.limits.unsent_soft {
            return Err(Refused::Limit("unsent bytes"));
        }
        if request.args.as_ref().is_some_and(|args| args.get().len() > self.limits.line) {
            return Err(Refused::Limit("bytes of a request"));
        }
        self.link.line(|buf| wire::call(buf, tag, request));
        self.calls.push_back(tag);
        if self.calls.len() == 1 {
            self.restart(now);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Refused> {
        match self.stage {
            Stage::Asking { .. } | Stage::Streaming { .. } => {}
            Stage::Closing | Stage::Over => return Err(Refused::Closed),
        }
        self.lose(Lost::Closed, Stage::Closing);
        Ok(())
    }

    /// The clock of the oldest call starts again.
    fn restart(&mut self, now: Now) {
        if let Stage::Asking { until } = &mut self.stage {
            let waits = self.link.is_open() && !self.calls.is_empty();
            *until = self.answer.filter(|_| waits).map(|answer| self.link.listened(now) + answer);
        }
    }

    fn answered(&mut self, now: Now, to: For, answer: Answer) {
        let streams = match self.stage {
            Stage::Asking { .. } => None,
            Stage::Streaming { tag } => Some(tag),
            Stage::Closing | Stage::Over => return,
        };
        let Some(tag) = streams.or_else(|| self.take(to)) else {
            let why = "answers no open call";
            return self.out.tell(Event::Unexpected { why, line: answer.to_string() });
        };
        let last = match answer {
            Answer::Frame(_) => {
                self.stage = Stage::Streaming { tag };
                false
            }
            Answer::Reply(_) | Answer::Fail(_) => streams.is_some(),
            Answer::End(_) => true,
        };
        self.out.tell(Event::Answered(tag, answer));
        if last {
            self.stage = Stage::Over;
            self.lose(Lost::Ended, Stage::Over);
            self.link.leave(now, &mut self.out);
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
            Stage::Asking { .. } | Stage::Streaming { .. } => self.out.tell(Event::Unexpected { why, line }),
            Stage::Closing | Stage::Over => {}
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

    fn tick(&mut self, now: Now) {
        let report = self.link.tick(now, &mut self.out);
        self.reported(now, report);
        if let Stage::Asking { until: Some(until) } = self.stage
            && until <= self.link.listened(now)
        {
            self.over(Lost::TimedOut);
            self.link.cut(&mut self.out);
        }
    }

    /// No answer will come any more.
    fn over(&mut self, why: Lost) {
        if !matches!(self.stage, Stage::Closing) {
            self.lose(why, Stage::Over);
        }
    }

    fn lose(&mut self, why: Lost, next: Stage) {
        if let Stage::Streaming { tag } = std::mem::replace(&mut self.stage, next) {
            self.out.tell(Event::Lost(tag, why));
        }
        for tag in self.calls.drain(..) {
            self.out.tell(Event::Lost(tag, why));
        }
    }

    /// The end of every step.
    fn settle(&mut self, now: Now) {
        self.link.flush(now, &mut self.out);
        if matches!(self.stage, Stage::Closing) {
            if self.link.unsent() == 0 {
                self.link.cut(&mut self.out);
            } else if self.link.is_open() {
                self.link.leave(now, &mut self.out);
            }
        }
        if self.link.is_closed() {
            self.over(Lost::Ended);
            self.out.tell(Event::Closed(Box::new(self.link.obituary())));
            self.out.end();
        }
    }
}
