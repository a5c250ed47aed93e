//! The machine of one run.

use std::time::Duration;

use super::api::{Command, Config, Event, Outcome, Policy};
use super::failure::{Evidence, Lost};
use super::opening::{Opening, Step};
use super::turn::{Ending, Turn};
use crate::acp::client::{self, Client, Failure, PermissionAsked, Ready, TurnEnded};
use crate::acp::{ContentBlock, Fault, PermissionOutcome, RequestKey, SessionId};
use crate::closed::Closed;
use crate::machine::{
    Deadline, Heard, Ids, Input, Machine, Now, Output, Outputs, Refused, Tag, Time, soonest,
};
use crate::nest::{Nest, Told};
use crate::problem::{Clock, Failed, Phase, RootCause};

/// One prompt to one fresh child.
#[derive(Debug)]
pub struct Run {
    client: Nest<(), Client>,
    ids: Ids,
    state: State,
    halt: Halt,
    prompt: Vec<ContentBlock>,
    turn: Turn,
    timeout: Option<(Time, Duration)>,
    evidence: Evidence,
    out: Outputs<Event>,
}

#[derive(Debug)]
enum State {
    /// Up to a session that is set.
    Starting(Box<Opening>),
    Running(SessionId),
    /// The connection is over or about to be; the child's end is waited for.
    Lost(Lost),
    /// The result is told.
    Told,
}

/// Whether the run was ended from our side, and why.
#[derive(Debug)]
enum Halt {
    No,
    Cancelled,
    Failed(Box<Failed>),
}

impl Machine for Run {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config { client, setup, session, settings, prompt, policy, timeout, output_limit } = config;
        let evidence = Evidence::of(&client);
        let mut run = Self {
            client: Nest::of((), Client::new(now, client)),
            ids: Ids::default(),
            state: State::Starting(Box::new(Opening::new(STEP, setup, session, settings))),
            halt: Halt::No,
            prompt,
            turn: Turn::new(policy, output_limit),
            timeout: timeout.map(|timeout| (now.mono + timeout, timeout)),
            evidence,
            out: Outputs::default(),
        };
        run.settle(now);
        run
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => {
                let ours = self.client.handle(now, link, heard);
                if let (true, Heard::Opened(peer)) = (ours, heard) {
                    self.evidence.started(now.mono);
                    self.out.tell(Event::Started(peer));
                }
            }
            Input::Hold(hold) => self.client.hold_all(now, hold),
            Input::Tick | Input::StoreFailed(..) => {}
        }
        self.client.tick(now);
        self.settle(now);
        if self.timeout.is_some_and(|(at, _)| at <= now.mono) {
            self.timed_out(now);
            self.settle(now);
        }
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
        let timeout = self.timeout.map(|(at, _)| (at, "the whole run"));
        soonest(timeout, self.client.deadline())
    }
}

impl Run {
    fn settle(&mut self, now: Now) {
        while let Some(((), told)) = self.client.next(&mut self.ids, &mut self.out) {
            match told {
                Told::Event(event) => self.event(now, event),
                Told::Ended => self.out.end(),
            }
        }
        if let (Phase::Initialize, Some(fault @ Fault::TimedOut { .. })) = (self.phase(), self.fault()) {
            let cause = self.evidence.fault(Phase::Initialize, fault);
            self.finish_late(Failed::new(Phase::Initialize, cause));
        }
    }

    /// Why the connection is being left, if the agent is to blame.
    fn fault(&self) -> Option<&Fault> {
        self.client.get(&()).and_then(Client::why_leaving)
    }

    /// A clock has expired. How the child goes is no part of the reason, so nobody waits for it.
    fn finish_late(&mut self, mut failed: Failed) {
        failed.stderr_tail = self.stderr_tail();
        self.finish(Ending::failed(failed));
    }

    fn stderr_tail(&self) -> Option<String> {
        let tail = self.client.get(&()).map(Client::stderr_tail)?;
        Some(tail.trim_end().to_owned()).filter(|tail| !tail.is_empty())
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Cancel => self.cancel(now),
            Command::Answer { request, outcome } => self.answer(now, request, outcome),
            Command::Dispose => {
                self.dispose(now);
                Ok(())
            }
            Command::Hasten => {
                self.dispose(now);
                self.client.command(now, &(), client::Command::Hasten)
            }
        }
    }

    fn cancel(&mut self, now: Now) -> Result<(), Refused> {
        match &self.state {
            State::Told => Err(Refused::Closed),
            State::Running(session) if matches!(self.halt, Halt::No) => {
                let cancel = client::Command::Cancel { session: session.clone() };
                self.halt = Halt::Cancelled;
                self.turn.cancelled();
                // Refused when the agent is going already: that ends the turn as well.
                let _ = self.client.command(now, &(), cancel);
                Ok(())
            }
            State::Starting(_) | State::Running(_) | State::Lost(_) => {
                self.halt(now, Halt::Cancelled);
                Ok(())
            }
        }
    }

    fn dispose(&mut self, now: Now) {
        if !matches!(self.state, State::Told) {
            self.halt(now, Halt::Cancelled);
        }
        self.shut_down(now);
    }

    /// Ends the run from our side; the first reason counts.
    fn halt(&mut self, now: Now, why: Halt) {
        if matches!(self.halt, Halt::No) {
            self.halt = why;
        }
        self.shut_down(now);
        // A turn that runs ends by that, and the end of a cancelled start is the child's: no result is told while
        // it may still be there. What failed on our side is known as it stands.
        if matches!(self.halt, Halt::Failed(_)) && !matches!(self.state, State::Running(_) | State::Told) {
            self.finish(Ending::plain(Outcome::Error));
        }
    }

    fn fail(&mut self, now: Now, cause: RootCause) {
        self.halt(now, Halt::Failed(Box::new(Failed::new(self.phase(), cause))));
    }

    fn shut_down(&mut self, now: Now) {
        // Refused when the connection is leaving already.
        let _ = self.client.command(now, &(), client::Command::Shutdown);
    }

    fn timed_out(&mut self, now: Now) {
        let Some((_, timeout)) = self.timeout.take() else { return };
        if !matches!(self.state, State::Told) {
            let cause = self.evidence.expired(Clock::Run, Some(timeout));
            let mut failed = Failed::new(self.phase(), cause);
            failed.stderr_tail = self.stderr_tail();
            self.halt(now, Halt::Failed(Box::new(failed)));
        }
    }

    const fn phase(&self) -> Phase {
        match &self.state {
            State::Starting(opening) => opening.phase(),
            State::Running(_) => Phase::Prompt,
            State::Lost(lost) => lost.phase,
            State::Told => Phase::Teardown,
        }
    }

    fn event(&mut self, now: Now, event: client::Event) {
        use client::Event as From;
        match event {
            From::Ready(ready) => self.ready(now, ready),
            From::Line(line) => self.out.tell(Event::Line(line)),
            From::Text(text) => {
                self.turn.heard(&text);
                self.out.tell(Event::Text(text));
            }
            From::Updated(updated) => {
                if let State::Starting(opening) = &mut self.state {
                    opening.hear(&updated.update);
                }
                self.turn.updated(&updated);
                self.out.tell(Event::Updated(updated));
            }
            From::PermissionAsked(asked) => self.permission_asked(now, asked),
            From::Withdrawn(request) => {
                self.turn.withdrawn(request).into_iter().for_each(|event| self.out.tell(event));
            }
            // Nothing is offered, so nothing is asked for.
            From::Requested(_) | From::Notified(_) => {}
            From::Answered(_, answer) => {
                if let State::Starting(opening) = &mut self.state {
                    let step = opening.answered(*answer);
                    self.go_on(now, step);
                }
            }
            From::Failed(_, failure) => {
                if let State::Starting(opening) = &self.state {
                    self.evidence.values = opening.values();
                }
                self.lose(now, self.phase(), *failure);
            }
            From::TurnEnded(ended) => self.turn_ended(now, *ended),
            From::Stderr(text) => self.out.tell(Event::Stderr(text)),
            From::Noticed(notice) => {
                self.evidence.noticed(&notice);
                self.out.tell(Event::Noticed(notice));
            }
            From::Closed(closed) => self.closed(now, *closed),
        }
    }

    fn ask(&mut self, now: Now, command: client::Command) {
        if let Err(refused) = self.client.command(now, &(), command) {
            self.refused(now, refused);
        }
    }

    /// The agent cannot do what the run needs, or is leaving already.
    fn refused(&mut self, now: Now, refused: Refused) {
        if refused == Refused::Closed {
            return;
        }
        self.fail(now, RootCause::Impossible(refused));
    }

    fn ready(&mut self, now: Now, ready: Box<Ready>) {
        if !ready.capabilities.prompt_capabilities.embedded_context {
            self.prompt = std::mem::take(&mut self.prompt).into_iter().map(ContentBlock::linked).collect();
        }
        self.evidence.offers(&ready.auth_methods);
        let offers = ready.capabilities.clone();
        self.out.tell(Event::Ready(ready));
        if let State::Starting(opening) = &mut self.state {
            let step = opening.ready(&offers);
            self.go_on(now, step);
        }
    }

    /// On the way to a session, and then to the turn.
    fn go_on(&mut self, now: Now, step: Option<Step>) {
        let mut next = step;
        while let Some(step) = next.take() {
            match step {
                Step::Ask(command) => self.ask(now, command),
                Step::Opened(opened) => {
                    self.out.tell(Event::SessionOpened(opened));
                    if let State::Starting(opening) = &mut self.state {
                        next = opening.go_on();
                    }
                }
                Step::Set(session) if !self.prompt.is_empty() => {
                    self.state = State::Running(session.clone());
                    let prompt = std::mem::take(&mut self.prompt);
                    self.ask(now, client::Command::Prompt { tag: STEP, session, prompt });
                }
                Step::Set(_) | Step::Nowhere => {
                    self.finish(Ending::plain(Outcome::Completed));
                    self.shut_down(now);
                }
                Step::Failed(cause) => self.fail(now, cause),
            }
        }
    }

    fn turn_ended(&mut self, now: Now, ended: TurnEnded) {
        match ended.end {
            Ok(stopped) => self.finish(Ending::of_stop(stopped)),
            // How the child ended is part of the reason, unless the end was our wish.
            Err(Failure::Disconnected) if matches!(self.halt, Halt::No) => {
                self.lose(now, Phase::Prompt, Failure::Disconnected);
            }
            Err(failure) => self.finish(Ending::failed(self.evidence.failure(Phase::Prompt, &failure))),
        }
        self.shut_down(now);
    }

    /// Without an answer; the result waits for the child's end, unless a clock has expired.
    fn lose(&mut self, now: Now, phase: Phase, failure: Failure) {
        if matches!(failure, Failure::TimedOut { .. }) && !matches!(self.state, State::Told | State::Lost(_))
        {
            self.finish_late(self.evidence.failure(phase, &failure));
        }
        if !matches!(self.state, State::Told | State::Lost(_)) {
            self.state = State::Lost(Lost { phase, failure, at: now.mono });
            // From here on the graces of the teardown count.
            self.timeout = None;
        }
        self.shut_down(now);
    }

    fn closed(&mut self, now: Now, closed: Closed<Fault>) {
        if !matches!(self.state, State::Told) {
            let phase = self.phase();
            let lost = match std::mem::replace(&mut self.state, State::Told) {
                State::Lost(lost) => lost,
                State::Starting(_) | State::Running(_) | State::Told => {
                    Lost { phase, failure: Failure::Disconnected, at: now.mono }
                }
            };
            self.finish(Ending::failed(self.evidence.end(&lost, &closed)));
        }
        self.out.tell(Event::Closed(Box::new(closed)));
    }

    /// Tells the result. What we wanted counts for more than what came of it.
    fn finish(&mut self, mut ending: Ending) {
        (ending.outcome, ending.error) = match std::mem::replace(&mut self.halt, Halt::No) {
            Halt::No => (ending.outcome, ending.error),
            Halt::Cancelled => {
                self.turn.cancelled();
                (Outcome::Aborted, None)
            }
            Halt::Failed(failed) => (Outcome::Error, Some(*failed)),
        };
        self.state = State::Told;
        self.timeout = None;
        self.turn.end(ending).into_iter().for_each(|event| self.out.tell(event));
    }

    fn permission_asked(&mut self, now: Now, asked: Box<PermissionAsked>) {
        let title = asked.asked.tool_call.title.clone();
        let title = title.unwrap_or_else(|| asked.asked.tool_call.tool_call_id.clone());
        let (event, answer) = self.turn.asked(asked);
        self.out.tell(event);
        if let Some(answer) = answer {
            // Refused only when the connection is leaving: then nobody waits for it.
            let _ = self.client.command(now, &(), answer);
            if self.turn.policy() == Policy::Fail {
                self.fail(now, RootCause::Rejected { title });
            }
        }
    }

    fn answer(&mut self, now: Now, request: RequestKey, outcome: PermissionOutcome) -> Result<(), Refused> {
        self.client.command(now, &(), client::Command::Answer { request, outcome: outcome.clone() })?;
        let decided = self.turn.answered(request, &outcome);
        decided.into_iter().for_each(|event| self.out.tell(event));
        Ok(())
    }
}

/// One request of the run is open at a time.
const STEP: Tag = Tag(0);
