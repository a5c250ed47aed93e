//! Drives one runner: one process, one session, one run at a time.
//!
//! ```text
//!  Starting ──ready 0.1, rules told──► Ready ──Close: shutdown──► Finishing ──┐ the run is over, or 10 min
//!     │ 30 s, another version, exit      │ Stop, exit, 2 h silent              ▼
//!     └── shutdown ──────────────────────┴── abort, shutdown ──────────────► leaving: 3 s, TERM, KILL
//!
//!          a message               run_complete
//!  Idle ─────────────► Open ──────────────────────► Idle
//!   ▲                   │ 5 s after an abort
//!   └── run_complete ── Unconfirmed
//! ```

mod api;
mod heard;
mod run;

pub use api::{
    Closed, Command, Config, Done, Event, Failure, Fault, Launch, Message, Over, Progress, RunEnded,
    Timeouts, Unreadable,
};

use std::collections::VecDeque;

use super::classify::NEVER_EVERYWHERE;
use super::command::{
    self, ApprovalResponse, AskUserResponse, Command as Order, Decision, Rules, UserMessage,
};
use super::event::{Ready, Trouble};
use crate::closed::{self, Cause};
use crate::limits::Limits;
use crate::lines::Line;
use crate::link::Listened;
use crate::machine::{Deadline, Heard, Now, Refused, Tag, Time, soonest};
use crate::role::{Role, Takes, Wire};
use crate::rpc::Json;
use run::{Approvals, Halt, Open, Run, Tools};

/// The host of one runner.
#[derive(Debug)]
pub struct Desktop {
    wire: Wire<Event, Fault>,
    stage: Stage,
    run: Run,
    approvals: Approvals,
    tools: Tools,
    /// Requests that wait for their answer, oldest first: an answer names no request.
    asked: VecDeque<Asked>,
    /// Since when it is the runner's turn to say something.
    quiet_since: Listened,
    rules: Rules,
    auto_approve: bool,
    /// Whether a message was sent: a history comes before.
    has_spoken: bool,
    last_error: Option<Box<Trouble>>,
    raw: bool,
    timeouts: Timeouts,
    limits: Limits,
}

#[derive(Debug)]
enum Stage {
    /// Not ready; given up then.
    Starting {
        until: Option<Listened>,
    },
    Ready(Box<Ready>),
    /// An open run may finish until then.
    Finishing {
        until: Time,
    },
}

#[derive(Debug)]
struct Asked {
    tag: Tag,
    what: What,
    until: Option<Listened>,
}

/// What was asked for, named as errors name it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum What {
    History,
    Llm,
    Tools,
    Pet,
    NoPet,
}

impl What {
    const fn context(self) -> &'static str {
        match self {
            Self::History => "load_history",
            Self::Llm => "set_llm",
            Self::Tools => "reinject_tools",
            Self::Pet => "attach_pet",
            Self::NoPet => "detach_pet",
        }
    }
}

impl Role for Desktop {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    const DEAF: Option<Fault> = Some(Fault::NotReading);

    fn start(now: Now, config: Config) -> Self {
        let Config { open, rules, auto_approve, raw, timeouts, limits, graces } = config;
        let wire = Wire::open(now, open, &limits, &graces);
        Self {
            stage: Stage::Starting { until: timeouts.ready.map(|ready| wire.link.listened(now) + ready) },
            quiet_since: wire.link.listened(now),
            wire,
            run: Run::Idle,
            approvals: Approvals::default(),
            tools: Tools::default(),
            asked: VecDeque::new(),
            rules,
            auto_approve,
            has_spoken: false,
            last_error: None,
            raw,
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

    fn takes(&self) -> Takes {
        Takes::Now
    }

    fn step(&mut self, now: Now, heard: Option<Heard<'_>>) {
        if matches!(heard, Some(Heard::Bytes(_))) || !self.approvals.is_empty() {
            self.quiet_since = self.wire.link.listened(now);
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        match line {
            Line::Text(text) => self.text(now, text),
            Line::NotUtf8(_) => self.unreadable("not UTF-8", &line.shown()),
            Line::TooLong(_) => self.unreadable("too long", &line.shown()),
            Line::Header(_) => self.unreadable("a header instead of an object", &line.shown()),
        }
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.wire.tell(Event::Stderr(String::from_utf8_lossy(bytes).into_owned()));
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Close => {
                self.close(now);
                Ok(())
            }
            Command::Stop => {
                if let Run::Open(Open { halt: Halt::No, .. }) = self.run {
                    self.send(&Order::Abort)?;
                }
                self.shut_down(now, Cause::Left);
                Ok(())
            }
            Command::Decide { approval, decision } => {
                let tool = self.approvals.decide(&approval, &decision)?;
                match decision {
                    Decision::AlwaysAllowProject => self.rules.project.push(tool),
                    Decision::AlwaysAllowGlobal => self.rules.global.push(tool),
                    Decision::AllowOnce | Decision::Deny | Decision::Other(_) => {}
                }
                let response = ApprovalResponse { approval_id: approval, decision };
                self.send(&Order::ApprovalResponse(Box::new(response)))
            }
            Command::Abort => self.abort(now),
            Command::Say { .. }
            | Command::Reply { .. }
            | Command::LoadHistory { .. }
            | Command::SetRules(_)
            | Command::SetAutoApprove(_)
            | Command::SetLlm { .. }
            | Command::ReinjectTools(_)
            | Command::AttachPet { .. }
            | Command::DetachPet(_) => self.ask(now, command),
        }
    }

    fn tick(&mut self, now: Now) {
        let listened = self.wire.link.listened(now);
        let is_over = |until: Option<Listened>| until.is_some_and(|until| until <= listened);
        match self.stage {
            Stage::Starting { until } if is_over(until) => {
                return self.shut_down(now, Cause::Fault(Fault::NotReady));
            }
            Stage::Finishing { until } if until <= now.mono => return self.part(now, Cause::Left),
            Stage::Starting { .. } | Stage::Finishing { .. } | Stage::Ready(_) => {}
        }
        while let Some(Asked { until, .. }) = self.asked.front()
            && is_over(*until)
        {
            self.answer_next(Err(Failure::TimedOut));
        }
        if let Run::Open(Open { halt: Halt::Aborted { until }, .. }) = self.run
            && is_over(until)
        {
            self.end_run(Err(Failure::Unconfirmed), Run::Unconfirmed);
        }
        if is_over(self.lost_at()) {
            // Whoever says nothing for hours does not hear either; the ladder ends it.
            let _ = self.send(&Order::Abort);
            return self.shut_down(now, Cause::Fault(Fault::Silent));
        }
        if is_over(self.silent_at())
            && let Run::Open(open) = &mut self.run
        {
            open.silence_told = true;
            self.wire.tell(Event::Silent);
        }
    }

    fn due(&self) -> Option<Deadline> {
        let link = &self.wire.link;
        let at = |until: Option<Listened>, why| until.and_then(|until| Some((link.due_at(until)?, why)));
        let stage = match self.stage {
            Stage::Starting { until } => at(until, "ready"),
            Stage::Finishing { until } => Some((until, "finish the run")),
            Stage::Ready(_) => None,
        };
        let abort = match &self.run {
            Run::Open(Open { halt: Halt::Aborted { until }, .. }) => at(*until, "confirm the abort"),
            Run::Open(_) | Run::Idle | Run::Unconfirmed => None,
        };
        let answer = self.asked.front().and_then(|asked| at(asked.until, "answer"));
        let silence = soonest(at(self.silent_at(), "silence in a run"), at(self.lost_at(), "a lost run"));
        soonest(soonest(stage, abort), soonest(answer, silence))
    }

    /// One that was told to leave left because we said so.
    fn ended(&mut self, now: Now) {
        let told = matches!(self.stage, Stage::Finishing { .. });
        self.part(now, if told { Cause::Left } else { Cause::Gone });
    }

    fn settle(&mut self, now: Now) {
        if matches!(self.stage, Stage::Finishing { .. }) && !matches!(self.run, Run::Open(_)) {
            self.part(now, Cause::Left);
        }
    }

    fn deaf(&mut self, now: Now, fault: Fault) {
        self.shut_down(now, Cause::Fault(fault));
    }

    fn parting(&mut self, _: Now, cause: &Cause<Fault>) {
        let why = match cause {
            Cause::Left => Failure::Shutdown,
            Cause::Fault(Fault::Silent) => Failure::Silent,
            Cause::Gone | Cause::Failed(_) | Cause::Fault(_) => Failure::Disconnected,
        };
        while let Some(approval) = self.approvals.pop() {
            self.wire.tell(Event::ApprovalOver(approval, Over::Gone));
        }
        self.end_run(Err(why.clone()), Run::Idle);
        while !self.asked.is_empty() {
            self.answer_next(Err(why.clone()));
        }
    }

    fn last(&mut self, closed: closed::Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(Closed { closed, last_error: self.last_error.take() })))
    }
}

impl Desktop {
    /// Whether a run is open, or one that has ended here goes on over there.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.run, Run::Idle)
    }

    /// The rules as they are: decisions that always allow a tool are among them.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    fn abort(&mut self, now: Now) -> Result<(), Refused> {
        let until = self.timeouts.abort.map(|abort| self.wire.link.listened(now) + abort);
        match &mut self.run {
            Run::Open(open) if open.halt == Halt::No => open.halt = Halt::Aborted { until },
            Run::Open(_) | Run::Unconfirmed => return Err(Refused::Busy),
            Run::Idle => return Err(Refused::Unknown),
        }
        self.send(&Order::Abort)
    }

    /// What only a runner that is ready can be asked for.
    fn ask(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let Stage::Ready(ready) = &self.stage else {
            let starts = matches!(self.stage, Stage::Starting { .. });
            return Err(if starts { Refused::NotReady } else { Refused::Closed });
        };
        match command {
            Command::Say { tag, message } => {
                check_images(ready, &message.images)?;
                let is_aside = Order::is_aside(&message.text);
                let Message { text, images, visibility, absolute_turn_index } = *message;
                let message = UserMessage { text, images, visibility, absolute_turn_index };
                let line = Order::UserMessage(Box::new(message));
                if is_aside { self.send_text(&line) } else { self.begin(now, tag, &line) }
            }
            Command::Reply { tag, text, absolute_turn_index } => {
                let response = AskUserResponse { text, absolute_turn_index };
                self.begin(now, tag, &Order::AskUserResponse(Box::new(response)))
            }
            Command::LoadHistory { tag, messages } => {
                if self.has_spoken {
                    return Err(Refused::Invalid("a history is loaded before the first message"));
                }
                let messages = messages.iter().map(Json::new).collect();
                self.request(now, tag, What::History, &Order::LoadHistory(messages))
            }
            Command::SetRules(rules) => {
                if rules.global.iter().any(|tool| tool == NEVER_EVERYWHERE) {
                    return Err(Refused::Invalid("start_long_term_update may not be allowed everywhere"));
                }
                self.send(&Order::SetApprovalRules(rules.clone()))?;
                self.rules = rules;
                Ok(())
            }
            Command::SetAutoApprove(on) => {
                self.send(&Order::SetYoloMode(on))?;
                self.auto_approve = on;
                Ok(())
            }
            Command::SetLlm { tag, index } => {
                if self.is_busy() {
                    return Err(Refused::Busy);
                }
                if !ready.available_llms.is_empty()
                    && ready.available_llms.iter().all(|llm| llm.index != index)
                {
                    return Err(Refused::Invalid("no model has that place in the list"));
                }
                self.request(now, tag, What::Llm, &Order::SetLlm(index.into()))
            }
            Command::ReinjectTools(tag) => self.request(now, tag, What::Tools, &Order::ReinjectTools),
            Command::AttachPet { tag, port } => self.request(now, tag, What::Pet, &Order::AttachPet(port)),
            Command::DetachPet(tag) => self.request(now, tag, What::NoPet, &Order::DetachPet),
            Command::Decide { .. } | Command::Abort | Command::Close | Command::Stop => Ok(()),
        }
    }

    fn begin(&mut self, now: Now, tag: Tag, line: &Order) -> Result<(), Refused> {
        if self.is_busy() {
            return Err(Refused::Busy);
        }
        self.send_text(line)?;
        self.has_spoken = true;
        self.run = Run::Open(Open::new(tag));
        self.quiet_since = self.wire.link.listened(now);
        Ok(())
    }

    fn request(&mut self, now: Now, tag: Tag, what: What, line: &Order) -> Result<(), Refused> {
        if self.asked.len() >= self.limits.own_requests {
            return Err(Refused::Limit("requests that wait for an answer"));
        }
        self.send_text(line)?;
        let until = self.timeouts.answer.map(|answer| self.wire.link.listened(now) + answer);
        self.asked.push_back(Asked { tag, what, until });
        Ok(())
    }

    fn send(&mut self, line: &Order) -> Result<(), Refused> {
        self.wire.link.line_within(self.limits.line, |buf| command::write(buf, line))
    }

    /// Sends what people choose the size of.
    fn send_text(&mut self, line: &Order) -> Result<(), Refused> {
        self.wire.send(self.limits.line, |buf| command::write(buf, line))
    }

    /// Nothing new begins. What goes on may finish, as the document says; real runners leave at once.
    fn close(&mut self, now: Now) {
        if matches!(self.stage, Stage::Finishing { .. }) {
            return;
        }
        // Refused only when the link cannot take a line: then it ends by itself.
        let _ = self.send(&Order::Shutdown);
        self.stage = Stage::Finishing { until: now.mono + self.timeouts.finish };
    }

    fn shut_down(&mut self, now: Now, cause: Cause<Fault>) {
        if !matches!(self.stage, Stage::Finishing { .. }) {
            // One that was never ready reads it when it is.
            let _ = self.send(&Order::Shutdown);
        }
        self.part(now, cause);
    }

    fn silent_at(&self) -> Option<Listened> {
        match &self.run {
            Run::Open(open) if !open.silence_told => self.quiet_at(self.timeouts.silent),
            Run::Open(_) | Run::Idle | Run::Unconfirmed => None,
        }
    }

    fn lost_at(&self) -> Option<Listened> {
        match &self.run {
            Run::Open(_) => self.quiet_at(self.timeouts.lost),
            Run::Idle | Run::Unconfirmed => None,
        }
    }

    /// Its silence is our own doing while it waits for a decision.
    fn quiet_at(&self, span: Option<std::time::Duration>) -> Option<Listened> {
        span.filter(|_| self.approvals.is_empty()).map(|span| self.quiet_since + span)
    }
}

fn check_images(ready: &Ready, images: &[String]) -> Result<(), Refused> {
    if images.is_empty() {
        Ok(())
    } else if ready.images_supported == Some(false) {
        Err(Refused::NotOffered("pictures"))
    } else if images.iter().any(|path| !path.starts_with('/')) {
        Err(Refused::Invalid("pictures are absolute paths"))
    } else {
        Ok(())
    }
}
