//! One agent, one session, one turn after the other. A [run](crate::subagent) and a [chat](crate::chat) are made of it.
//!
//! ```text
//!  Starting ──all is set──► Idle ◄──turn over── Running ──failed by what passes──► Waiting
//!     │                      │ └─────Prompt────► │ ◄───────────said again──────────┘
//!     └── lost, failed, Shutdown, Hasten ────────┴──► Leaving ──the child is gone──► Over
//! ```
//!
//! Each turn ends in one [`Event::Finished`]. What ends the conversation without our wish and outside of a turn is told
//! by one as well. It is told at once where the reason is known as it stands: an answer of the agent, a clock that
//! expired, a setting that cannot be made. What is left is told when the child is gone, since how it went is part of
//! the reason.

pub(crate) mod answer;
mod api;
mod budget;
mod errand;
mod evidence;
mod hosted;
mod judge;
mod login;
mod opening;
mod questions;
mod retry;
mod settings;
pub(crate) mod turn;

pub use crate::acp::session::Setting;
pub use api::{
    Allow, Answered, By, Choice, Command, Config, Decision, Decisions, Event, Finished, Outcome, Policy,
    SessionOpened, Verdict,
};
pub use budget::{Budget, Overspent};
pub use errand::Errand;
pub use questions::{QuestionAsked, QuestionDecided, Questions, Reply, Wanted};
pub use retry::Retrying;

use std::time::Duration;

use crate::acp::client::{self, Failure, PermissionAsked, Ready, TurnEnded};
use crate::acp::elicitation;
use crate::acp::{ContentBlock, Fault, PermissionOutcome, RequestKey, SessionId};
use crate::closed::Closed;
use crate::host::{self, Hosting};
use crate::machine::{Deadline, Heard, Input, LinkId, Machine, Now, Output, Outputs, Refused, Tag, soonest};
use crate::problem::{Clock, Failed, Phase, RootCause};
pub(crate) use budget::Purse;
use evidence::{Evidence, Lost};
pub(crate) use judge::Judge;
use opening::{Opening, Step};
use questions::Open;
use retry::Retry;
use turn::{Ending, Turn};

/// A conversation with one agent. [The module](self) draws what it goes through.
#[derive(Debug)]
pub struct Conversation {
    client: Hosting,
    state: State,
    /// Once all is set in it.
    session: Option<SessionId>,
    turn: Turn,
    questions: Open,
    purse: Purse,
    retry: Retry,
    /// Whether the agent takes resources, and not only links to them.
    embeds: bool,
    /// What failed on our side during the turn: the reason of its end, whatever the agent says.
    halt: Option<Box<Failed>>,
    evidence: Evidence,
    out: Outputs<Event>,
}

#[derive(Debug)]
enum State {
    Starting(Box<Opening>),
    Idle,
    Running,
    /// A turn whose prompt is said again after a while.
    Waiting,
    /// `Some`: the child's end is part of why.
    Leaving(Option<Lost>),
    Over,
}

impl Machine for Conversation {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config {
            client,
            host,
            setup,
            session,
            transcript,
            login,
            settings,
            policy,
            rules,
            questions,
            budget,
            retries,
            output,
        } = config;
        let asks = policy == Policy::Ask || questions == Questions::Ask;
        let judge = Judge { policy, rules, cwd: setup.cwd.clone(), asks };
        let opening = Opening::new(STEP, setup, session, settings).transcript(transcript).login(login);
        let mut this = Self {
            client: Hosting::new(now, client, host),
            state: State::Starting(Box::new(opening)),
            session: None,
            turn: Turn::new(judge, output),
            questions: Open::new(questions),
            purse: Purse::new(budget),
            retry: Retry::new(retries),
            embeds: false,
            halt: None,
            evidence: Evidence::default(),
            out: Outputs::default(),
        };
        this.settle(now);
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(LinkId::FIRST, Heard::Opened(peer)) = input
            && !matches!(self.state, State::Over)
        {
            self.evidence.started(now.mono);
            self.out.tell(Event::Started(peer));
        }
        self.client.handle(now, input);
        self.settle(now);
        if let Some(command) = self.retry.take(now.mono) {
            self.ask_again(now, command);
            self.settle(now);
        }
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let done = match command {
            Command::Prompt(words) => self.prompt(now, words),
            Command::Cancel => self.cancel(now),
            Command::Answer { request, outcome } => self.answer(now, request, outcome),
            Command::Reply { request, reply } => self.reply(now, request, reply),
            Command::FileDone { request, done } => self.client.file_done(now, request, done),
            Command::Shutdown if self.is_leaving() => Err(Refused::Closed),
            Command::Shutdown => {
                self.leave(now, None);
                Ok(())
            }
            Command::Hasten => {
                self.leave(now, None);
                match self.client.command(now, client::Command::Hasten) {
                    // The agent is gone; what was run for it is on its way already.
                    Err(Refused::Closed) if !matches!(self.state, State::Over) => Ok(()),
                    done => done,
                }
            }
        };
        self.settle(now);
        done
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        let retry = self.retry.due().map(|at| (at, "the wait before it is asked again"));
        soonest(retry, self.client.deadline())
    }
}

impl Conversation {
    /// Whether a prompt would begin a turn now, if there is a [session](Self::session).
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether a turn runs that we have told the agent to stop.
    #[must_use]
    pub const fn is_cancelling(&self) -> bool {
        matches!(self.state, State::Running) && self.turn.is_cancelled()
    }

    /// Whether it is over, or about to be.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving(_) | State::Over)
    }

    /// The session, once all is set in it. [`Choice::Nowhere`] has none.
    #[must_use]
    pub const fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// A clock of the owner's has expired, which stood at so much. How the child goes is no part of the reason, so
    /// nobody waits for it.
    pub(crate) fn expired(&mut self, now: Now, clock: Clock, after: Duration) {
        let cause = self.evidence.timed_out(clock, after);
        self.halt(now, Failed { stderr_tail: self.stderr_tail(), ..Failed::new(self.phase(), cause) });
        self.settle(now);
    }

    /// What is kept of the turn, with an end that is the owner's to know.
    pub(crate) fn conclude(&mut self, outcome: Outcome) -> Vec<Event> {
        self.turn.end(Ending::plain(outcome))
    }

    fn settle(&mut self, now: Now) {
        while let Some(output) = self.client.poll(now) {
            match self.out.pass(output) {
                Some(host::Told::Client(event)) => self.told(now, event),
                Some(host::Told::Asked(asked)) => self.hosting_asked(now, asked),
                Some(host::Told::File(wanted)) => {
                    self.retry.bears();
                    self.out.tell(Event::FileWanted(wanted));
                }
                Some(host::Told::Hosted(hosted)) => {
                    self.retry.bears();
                    self.out.tell(Event::Hosted(hosted));
                }
                None => {}
            }
        }
        if let (State::Starting(_), Some(fault @ Fault::TimedOut { .. })) =
            (&self.state, self.client.client().why_leaving())
        {
            let cause = self.evidence.fault(Phase::Initialize, fault);
            let failed = Failed::new(Phase::Initialize, cause);
            self.halt(now, Failed { stderr_tail: self.stderr_tail(), ..failed });
        }
    }

    fn stderr_tail(&self) -> Option<String> {
        Some(self.client.client().stderr_tail().trim_end().to_owned()).filter(|tail| !tail.is_empty())
    }

    const fn phase(&self) -> Phase {
        match &self.state {
            State::Starting(opening) => opening.phase(),
            State::Idle | State::Running | State::Waiting => Phase::Prompt,
            State::Leaving(_) | State::Over => Phase::Teardown,
        }
    }

    fn prompt(&mut self, now: Now, mut words: Vec<ContentBlock>) -> Result<(), Refused> {
        match self.state {
            State::Idle => {}
            State::Starting(_) => return Err(Refused::NotReady),
            State::Running | State::Waiting => return Err(Refused::Busy),
            State::Leaving(_) | State::Over => return Err(Refused::Closed),
        }
        let session = self.session.clone().ok_or(Refused::Unknown)?;
        if !self.embeds {
            words = words.into_iter().map(ContentBlock::linked).collect();
        }
        self.purse.begin();
        let prompt = client::Command::Prompt { tag: STEP, session, prompt: words };
        self.retry.asks(&prompt);
        self.say(now, prompt);
        Ok(())
    }

    fn say(&mut self, now: Now, prompt: client::Command) {
        self.state = State::Running;
        match self.client.command(now, prompt) {
            Ok(()) => {}
            // The agent has gone meanwhile.
            Err(Refused::Closed) => self.lose(now, Phase::Prompt, Failure::Disconnected),
            Err(refused) => {
                // There is no turn that would end.
                self.state = State::Idle;
                self.halt(now, Failed::new(Phase::Prompt, RootCause::Impossible(refused)));
            }
        }
    }

    /// What failed before is asked as it was.
    fn ask_again(&mut self, now: Now, command: client::Command) {
        match self.state {
            State::Waiting => self.say(now, command),
            State::Starting(_) => self.ask(now, command),
            State::Idle | State::Running | State::Leaving(_) | State::Over => {}
        }
    }

    fn cancel(&mut self, now: Now) -> Result<(), Refused> {
        match (&self.state, self.session.clone()) {
            (State::Running, Some(session)) => {
                self.client.command(now, client::Command::Cancel { session })?;
                self.turn.cancelled();
                self.give_up_hosting(now);
                Ok(())
            }
            (State::Waiting, _) => {
                self.retry.give_up();
                self.state = State::Idle;
                self.end_turn(Ending::plain(Outcome::Aborted));
                Ok(())
            }
            (State::Starting(_), _) => Err(Refused::NotReady),
            (State::Idle | State::Running, _) => Err(Refused::Unknown),
            (State::Leaving(_) | State::Over, _) => Err(Refused::Closed),
        }
    }

    /// The turn is to stop, and that is why. What it says about that counts for less.
    fn overspent(&mut self, now: Now, what: Overspent) {
        if let (State::Running, Some(session), None) = (&self.state, self.session.clone(), &self.halt)
            && !self.turn.is_cancelled()
            && self.client.command(now, client::Command::Cancel { session }).is_ok()
        {
            self.halt = Some(Box::new(Failed::new(Phase::Prompt, RootCause::Overspent(what))));
        }
    }

    fn answer(&mut self, now: Now, request: RequestKey, outcome: PermissionOutcome) -> Result<(), Refused> {
        if self.client.is_undecided(request) {
            return self.answer_hosting(now, request, &outcome);
        }
        self.client.command(now, client::Command::Answer { request, outcome: outcome.clone() })?;
        self.out.tell_all(self.turn.answered(request, &outcome));
        Ok(())
    }

    fn reply(&mut self, now: Now, request: RequestKey, reply: Reply) -> Result<(), Refused> {
        let answer = self.questions.answer(request, &reply)?;
        self.client.command(now, answer)?;
        self.out.tell_all(self.questions.answered(request, reply));
        Ok(())
    }

    fn told(&mut self, now: Now, event: client::Event) {
        use client::Event as Agent;
        match event {
            Agent::Ready(ready) => self.ready(now, ready),
            Agent::Line(line) => self.out.tell(Event::Line(line)),
            Agent::Text(text) => {
                if turn::is_answer(&text) {
                    self.retry.bears();
                }
                self.turn.heard(&text);
                self.out.tell(Event::Text(text));
            }
            Agent::Updated(updated) => {
                let is_own = updated.of.is_none();
                if let State::Starting(opening) = &mut self.state
                    && is_own
                {
                    opening.hear(&updated.update);
                }
                if turn::bears(&updated) {
                    self.retry.bears();
                }
                if is_own {
                    self.turn.updated(&updated);
                }
                let too_much = self.purse.take(&updated);
                self.out.tell(Event::Updated(updated));
                if let Some(what) = too_much {
                    self.overspent(now, what);
                }
            }
            Agent::PermissionAsked(asked) => self.permission_asked(now, asked),
            Agent::Withdrawn(request) => {
                let withdrawn = self.turn.withdrawn(request);
                self.out.tell_all(withdrawn.or_else(|| self.questions.withdrawn(request)));
            }
            Agent::Requested(requested) => {
                self.retry.bears();
                let (event, answer) = self.questions.asked(*requested);
                self.out.tell_all(event);
                // Refused only when the connection is leaving: then nobody waits for it.
                let _ = answer.map(|answer| self.client.command(now, answer));
            }
            Agent::Notified(notified) => {
                let page = elicitation::page_done(&notified.method, notified.params.as_ref());
                self.out.tell_all(page.map(Event::PageDone));
            }
            Agent::Answered(_, answer) => {
                if let State::Starting(opening) = &mut self.state {
                    let step = opening.answered(*answer);
                    self.go_on(now, step);
                }
            }
            Agent::Failed(_, failure) => self.refused(now, *failure),
            Agent::TurnEnded(ended) => self.turn_ended(now, *ended),
            Agent::Stderr(text) => self.out.tell(Event::Stderr(text)),
            Agent::Noticed(notice) => {
                self.evidence.noticed(&notice);
                self.out.tell(Event::Noticed(notice));
            }
            Agent::Closed(closed) => self.closed(now, closed),
        }
    }

    fn ready(&mut self, now: Now, ready: Box<Ready>) {
        self.embeds = ready.capabilities.prompt_capabilities.embedded_context;
        self.evidence.offers(&ready.auth_methods);
        let offers = ready.capabilities.clone();
        self.out.tell(Event::Ready(ready));
        if let State::Starting(opening) = &mut self.state {
            let step = opening.ready(&offers);
            self.go_on(now, step);
        }
    }

    /// A request was refused on the way to a session.
    fn refused(&mut self, now: Now, failure: Failure) {
        if let State::Starting(opening) = &mut self.state {
            if let Some(login) = opening.refused(&failure) {
                return self.go_on(now, Some(login));
            }
            let values = opening.values();
            if self.is_retried(now, &failure) {
                return;
            }
            self.evidence.values = values;
        }
        self.lose(now, self.phase(), failure);
    }

    /// On the way to a session.
    fn go_on(&mut self, now: Now, step: Option<Step>) {
        let mut next = step;
        while let Some(step) = next.take() {
            match step {
                Step::Ask(command) => {
                    self.retry.asks(&command);
                    self.ask(now, command);
                }
                Step::Opened(opened) => {
                    self.out.tell(Event::SessionOpened(opened));
                    if let State::Starting(opening) = &mut self.state {
                        next = opening.go_on();
                    }
                }
                Step::Listed(list) => {
                    self.out.tell(Event::Listed(list));
                    if let State::Starting(opening) = &mut self.state {
                        next = opening.go_on();
                    }
                }
                Step::Set(session) => {
                    self.session = Some(session);
                    self.state = State::Idle;
                }
                Step::Nowhere => self.state = State::Idle,
                Step::Failed(cause) => self.fail(now, cause),
            }
        }
    }

    fn ask(&mut self, now: Now, command: client::Command) {
        match self.client.command(now, command) {
            // Only a connection that is leaving refuses so, and it tells the reason.
            Ok(()) | Err(Refused::Closed) => {}
            Err(refused) => self.fail(now, RootCause::Impossible(refused)),
        }
    }

    /// Whether what failed is asked again.
    fn is_retried(&mut self, now: Now, failure: &Failure) -> bool {
        if self.turn.is_cancelled() || self.halt.is_some() {
            return false;
        }
        let failed = self.evidence.failure(self.phase(), failure);
        let Some(retrying) = self.retry.failed(now.mono, failure, failed) else { return false };
        self.out.tell(Event::Retrying(Box::new(retrying)));
        true
    }

    fn permission_asked(&mut self, now: Now, asked: Box<PermissionAsked>) {
        self.retry.bears();
        let call = &asked.asked.tool_call;
        let title = call.title.clone().unwrap_or_else(|| call.tool_call_id.clone());
        let (event, answer) = self.turn.asked(asked);
        let is_by_policy = matches!(&event, Event::PermissionDecided(decision) if decision.by == By::Policy);
        self.out.tell(event);
        if let Some(answer) = answer {
            // Refused only when the connection is leaving: then nobody waits for it.
            let _ = self.client.command(now, answer);
            if is_by_policy && self.turn.ends_by_refusal() {
                self.fail(now, RootCause::Rejected { title });
            }
        }
    }

    fn turn_ended(&mut self, now: Now, ended: TurnEnded) {
        let (lost, ending) = match ended.end {
            Ok(stopped) => (None, Ending::of_stop(stopped)),
            Err(Failure::Unconfirmed { .. } | Failure::Shutdown) => (None, Ending::plain(Outcome::Aborted)),
            // It was to end, and has. Why the agent went is another matter.
            Err(failure @ Failure::Disconnected) if self.turn.is_cancelled() || self.halt.is_some() => {
                (Some(failure), Ending::plain(Outcome::Aborted))
            }
            // How the child ended is part of the reason.
            Err(Failure::Disconnected) => return self.lose(now, Phase::Prompt, Failure::Disconnected),
            Err(failure) if self.is_retried(now, &failure) => {
                self.state = State::Waiting;
                return;
            }
            Err(failure) => (None, Ending::failed(self.evidence.failure(Phase::Prompt, &failure))),
        };
        self.give_up_hosting(now);
        let halted = self.halt.take().map(|failed| Ending::failed(*failed));
        self.end_turn(halted.unwrap_or(ending));
        if let State::Running = self.state {
            self.state = State::Idle;
        }
        if let Some(failure) = lost {
            self.lose(now, Phase::Prompt, failure);
        }
    }

    fn fail(&mut self, now: Now, cause: RootCause) {
        self.halt(now, Failed::new(self.phase(), cause));
    }

    /// Ends it from our side, for a reason that is known as it stands. A turn that runs ends by that.
    fn halt(&mut self, now: Now, failed: Failed) {
        match self.state {
            State::Running => self.halt = Some(Box::new(failed)),
            State::Starting(_) | State::Idle => self.end_turn(Ending::failed(failed)),
            State::Waiting => {
                self.state = State::Idle;
                self.end_turn(Ending::failed(failed));
            }
            State::Leaving(_) | State::Over => {}
        }
        self.leave(now, None);
    }

    /// The agent has failed outside of a turn, or is gone.
    fn lose(&mut self, now: Now, phase: Phase, failure: Failure) {
        if let Failure::TimedOut { .. } = failure {
            let failed = self.evidence.failure(phase, &failure);
            return self.halt(now, Failed { stderr_tail: self.stderr_tail(), ..failed });
        }
        self.leave(now, Some(Lost { phase, failure, at: now.mono }));
    }

    fn leave(&mut self, now: Now, lost: Option<Lost>) {
        if !self.is_leaving() {
            self.retry.give_up();
            if matches!((&self.state, &lost), (State::Waiting, None)) {
                self.end_turn(Ending::plain(Outcome::Aborted));
            }
            self.state = State::Leaving(lost);
            // Refused when it is leaving already.
            let _ = self.client.command(now, client::Command::Shutdown);
        }
    }

    fn closed(&mut self, now: Now, closed: Box<Closed<Fault>>) {
        self.retry.give_up();
        let phase = self.phase();
        let lost = match std::mem::replace(&mut self.state, State::Over) {
            State::Leaving(lost) => lost,
            // Nothing was open that could have failed.
            State::Starting(_) | State::Idle | State::Running | State::Waiting | State::Over => {
                Some(Lost { phase, failure: Failure::Disconnected, at: now.mono })
            }
        };
        if let Some(lost) = lost {
            self.end_turn(Ending::failed(self.evidence.end(&lost, &closed)));
        }
        self.out.tell(Event::Closed(closed));
    }

    fn end_turn(&mut self, ending: Ending) {
        self.out.tell_all(self.turn.end(ending));
    }
}

/// One request of ours is open at a time.
const STEP: Tag = Tag(0);
