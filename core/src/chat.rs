//! A conversation in a terminal that others can speak into: one agent, one session, one line after the other.
//!
//! ```text
//!  Starting ──all is set──► Idle ◄──turn over── Running, Cancelling
//!     │                      │ └──a line waits──► │
//!     │                      │ no more to come    │
//!     └────lost, Shutdown────┴────────────────────┴──► Leaving ──child gone──► Over
//! ```
//!
//! What is typed and what comes from outside waits in one queue and is answered in the order it came. With an
//! attach config there is an [attach server](crate::attach::Server) from the moment the session is open until the
//! conversation is over; without one there is none, and no file either.
//!
//! What happens to the agent is told as in a [run](crate::subagent): each turn has one
//! [`Finished`](subagent::Event::Finished), and a connection that is lost has one more, with the reason.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::acp::client::{self, Client, Failure, Ready, TurnEnded};
use crate::acp::session::SessionSetup;
use crate::acp::{ContentBlock, Fault, PermissionOutcome, RequestKey, SessionId, Update};
use crate::attach::presence::Attachment;
use crate::attach::server::{self, Server, Why};
use crate::attach::{self, Injection, PromptId, Stop};
use crate::closed::Closed;
use crate::machine::{Deadline, Heard, Ids, Input, Machine, Now, Output, Outputs, Refused, Tag, soonest};
use crate::nest::{Nest, Told};
use crate::problem::{Failed, Phase, RootCause};
use crate::subagent::answer::Answer as Kept;
use crate::subagent::failure::{Evidence, Lost};
use crate::subagent::opening::{Opening, Step};
use crate::subagent::turn::{Ending, Turn, is_answer};
use crate::subagent::{self, Choice, Outcome, Policy, Setting};

/// What a conversation starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The agent and the clocks of the connection.
    pub client: client::Config,
    /// The workspace and what goes with it.
    pub setup: SessionSetup,
    /// A new session or an old one. With [`Choice::Nowhere`] the conversation is over when the handshake is done.
    #[serde(default)]
    pub session: Choice,
    /// What to set before the first line is said, in order. What cannot be set ends the conversation.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Who answers permission requests.
    pub policy: Policy,
    /// Lets others speak into it. The session's id is filled in.
    pub attach: Option<server::Config>,
    /// Sizes that bound the lines that wait.
    pub limits: Limits,
}

/// Sizes of a conversation.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Typed lines that wait. 100: more than a person types ahead; who reads a file waits.
    pub lines: usize,
    /// Bytes of the answer that are kept for the result of a turn.
    pub output: usize,
    /// Bytes of the last piece of the answer, for those who attach. 1 MiB: escaped, it still fits into a line
    /// of the attach channel.
    pub answer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lines: 100, output: 16 << 20, answer: 1 << 20 }
    }
}

/// What the application may ask.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A line was typed. May come before the session is open.
    Say(String),
    /// Take back the typed lines that wait: they are [told](Event::Recalled), and not said.
    Recall,
    /// Cancel the turn; lines that wait go on waiting. Refused: `NotReady`, the session is not open yet; `Busy`,
    /// the turn is being cancelled; `Unknown`, nothing runs.
    Cancel,
    /// Answer a permission request.
    Answer {
        /// The key of the question, from the event that brought it.
        request: RequestKey,
        /// An offered option, or `cancelled`.
        outcome: PermissionOutcome,
    },
    /// Nothing more will be typed: leaves when everything that was typed is answered.
    Finish,
    /// Leaves now. A running turn is aborted.
    Shutdown,
    /// The same, and the child is not waited for: SIGTERM at once, SIGKILL 0.2 s later. Also taken while we leave.
    Hasten,
}

/// What the application is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// About the agent and the turn.
    Said(subagent::Event),
    /// A turn begins. It ends with [`Finished`](subagent::Event::Finished).
    Begun(Box<Line>),
    /// The turn is being cancelled, and its end follows. Told once for each of the two who may wish it.
    Cancelling {
        /// Whoever attached wishes it, and not the keyboard.
        from_outside: bool,
    },
    /// These lines were taken back, in the order they were typed. Not told when there was none.
    Recalled(Vec<String>),
    /// Others can attach from here on.
    Listening(Box<Attachment>),
    /// Nobody can attach any more. The conversation goes on without, unless it is what ended it.
    Detached(Why),
    /// Others may not find the session: its record could not be written. Tried again.
    PresenceFailed {
        /// The system's error number.
        errno: i32,
    },
}

/// What is said to the agent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Line {
    /// What was said, as it was typed.
    pub text: String,
    /// Whether it was typed here or came over the socket.
    pub from: Source,
    /// Whether they had to wait for a turn.
    pub waited: bool,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Whoever sits at this terminal.
    Keyboard,
    /// Whoever has attached, with that prompt.
    Outside(PromptId),
}

/// A conversation with one agent. [The module](self) draws what it goes through.
#[derive(Debug)]
pub struct Chat {
    client: Nest<(), Client>,
    server: Nest<(), Server>,
    state: State,
    keyboard: Keyboard,
    lines: VecDeque<Line>,
    turn: Turn,
    /// The text after the last tool call.
    answer: Kept,
    /// Until the session is open.
    attach: Option<server::Config>,
    max_lines: usize,
    evidence: Evidence,
    ids: Ids,
    out: Outputs<Event>,
}

#[derive(Debug)]
enum State {
    /// Up to a session that is set.
    Starting(Box<Opening>),
    Idle(SessionId),
    Running(SessionId),
    /// The keyboard has cancelled the turn.
    Cancelling(SessionId),
    /// The child's end is waited for. `Some`: it is part of why we leave.
    Leaving(Option<Lost>),
    Over,
}

#[derive(Debug, Eq, PartialEq)]
enum Keyboard {
    Open,
    Ended,
}

impl Machine for Chat {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config { client, setup, session, settings, policy, attach, limits } = config;
        let evidence = Evidence::of(&client);
        let mut chat = Self {
            client: Nest::of((), Client::new(now, client)),
            server: Nest::default(),
            state: State::Starting(Box::new(Opening::new(STEP, setup, session, settings))),
            keyboard: Keyboard::Open,
            lines: VecDeque::new(),
            turn: Turn::new(policy, limits.output),
            answer: Kept::new(limits.answer),
            attach,
            max_lines: limits.lines,
            evidence,
            ids: Ids::default(),
            out: Outputs::default(),
        };
        chat.settle(now);
        chat
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => {
                let of_agent = self.client.handle(now, link, heard);
                if let (true, Heard::Opened(peer)) = (of_agent, heard) {
                    self.evidence.started(now.mono);
                    self.say(subagent::Event::Started(peer));
                } else if !of_agent {
                    self.server.handle(now, link, heard);
                }
            }
            // Who attached is served, whether or not our own screen is read.
            Input::Hold(full) => self.client.hold_all(now, full),
            Input::StoreFailed(id, errno) => {
                self.server.store_failed(now, id, errno);
            }
            Input::Tick => {}
        }
        self.client.tick(now);
        self.server.tick(now);
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match (&self.state, &command) {
            (State::Leaving(_), Command::Hasten) => {}
            (State::Leaving(_) | State::Over, _) => return Err(Refused::Closed),
            _ => {}
        }
        match command {
            Command::Say(_) | Command::Finish if self.keyboard == Keyboard::Ended => {
                return Err(Refused::Closed);
            }
            Command::Say(text) => self.typed(text)?,
            Command::Recall => self.recall(),
            Command::Cancel => self.cancel_typed(now)?,
            Command::Answer { request, outcome } => {
                let answer = client::Command::Answer { request, outcome: outcome.clone() };
                self.client.command(now, &(), answer)?;
                let decided = self.turn.answered(request, &outcome);
                decided.into_iter().for_each(|event| self.say(event));
            }
            Command::Finish => self.keyboard = Keyboard::Ended,
            Command::Shutdown => self.leave(now, None),
            Command::Hasten => {
                if !matches!(self.state, State::Leaving(_)) {
                    self.leave(now, None);
                }
                self.client.command(now, &(), client::Command::Hasten)?;
            }
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        soonest(self.client.deadline(), self.server.deadline())
    }
}

impl Chat {
    /// Translates until nothing more follows.
    fn settle(&mut self, now: Now) {
        loop {
            self.serve(now);
            if let Some(((), told)) = self.client.next(&mut self.ids, &mut self.out) {
                match told {
                    Told::Event(event) => self.agent_told(now, event),
                    Told::Ended => self.end(),
                }
            } else if !self.go_on(now) {
                break;
            }
        }
    }

    fn serve(&mut self, now: Now) {
        while let Some(((), told)) = self.server.next(&mut self.ids, &mut self.out) {
            match told {
                Told::Event(event) => self.attached(now, event),
                Told::Ended => self.end(),
            }
        }
    }

    /// Whether there was something to do.
    fn go_on(&mut self, now: Now) -> bool {
        let State::Idle(session) = &self.state else { return false };
        if self.keyboard == Keyboard::Ended && !self.lines.iter().any(|line| line.from == Source::Keyboard) {
            self.leave(now, None);
            return true;
        }
        let session = session.clone();
        let Some(line) = self.lines.pop_front() else { return false };
        self.begin(now, session, line);
        true
    }

    fn begin(&mut self, now: Now, session: SessionId, line: Line) {
        let prompt = vec![ContentBlock::text(&*line.text)];
        self.state = State::Running(session.clone());
        if let Source::Outside(prompt) = line.from {
            // Refused when nobody waits for it any more. It was accepted all the same.
            self.tell_server(now, server::Command::Injected(prompt, Injection::Queued));
        }
        self.tell_server(now, server::Command::TurnStarted);
        self.out.tell(Event::Begun(Box::new(line)));
        if self.client.command(now, &(), client::Command::Prompt { tag: STEP, session, prompt }).is_err() {
            // Only a connection that is leaving refuses, and it tells the reason.
            self.lose(now, Phase::Prompt, Failure::Disconnected);
        }
    }

    fn typed(&mut self, text: String) -> Result<(), Refused> {
        if text.trim().is_empty() {
            return Err(Refused::Invalid("the line holds no text"));
        }
        let typed = self.lines.iter().filter(|line| line.from == Source::Keyboard);
        if typed.count() >= self.max_lines {
            return Err(Refused::Limit("lines that wait"));
        }
        self.queue(text, Source::Keyboard);
        Ok(())
    }

    fn queue(&mut self, text: String, from: Source) {
        let waited = !matches!(self.state, State::Idle(_)) || !self.lines.is_empty();
        self.lines.push_back(Line { text, from, waited });
    }

    fn recall(&mut self) {
        let (typed, others) = self.lines.drain(..).partition(|line| line.from == Source::Keyboard);
        self.lines = others;
        let typed: VecDeque<Line> = typed;
        if !typed.is_empty() {
            self.out.tell(Event::Recalled(typed.into_iter().map(|line| line.text).collect()));
        }
    }

    fn cancel_typed(&mut self, now: Now) -> Result<(), Refused> {
        if let State::Cancelling(_) = self.state {
            return Err(Refused::Busy);
        }
        let session = self.cancel(now)?;
        self.state = State::Cancelling(session);
        self.out.tell(Event::Cancelling { from_outside: false });
        Ok(())
    }

    /// Cancels the turn that runs; harmless when it was cancelled already.
    fn cancel(&mut self, now: Now) -> Result<SessionId, Refused> {
        match &self.state {
            State::Running(session) | State::Cancelling(session) => {
                let session = session.clone();
                let cancel = client::Command::Cancel { session: session.clone() };
                self.client.command(now, &(), cancel)?;
                self.turn.cancelled();
                Ok(session)
            }
            State::Starting(_) => Err(Refused::NotReady),
            State::Idle(_) | State::Leaving(_) | State::Over => Err(Refused::Unknown),
        }
    }

    fn attached(&mut self, now: Now, event: server::Event) {
        match event {
            server::Event::Listening(attachment) => self.out.tell(Event::Listening(attachment)),
            server::Event::PromptReceived { prompt, .. }
                if matches!(self.state, State::Leaving(_) | State::Over) =>
            {
                self.turn_away(now, Source::Outside(prompt));
            }
            server::Event::PromptReceived { prompt, text } => self.queue(text, Source::Outside(prompt)),
            server::Event::CancelReceived => {
                self.lines.retain(|line| line.from == Source::Keyboard);
                let is_news = !self.turn.is_cancelled();
                // Refused when nothing runs.
                if self.cancel(now).is_ok() && is_news {
                    self.out.tell(Event::Cancelling { from_outside: true });
                }
            }
            server::Event::PresenceFailed { errno } => self.out.tell(Event::PresenceFailed { errno }),
            server::Event::Closed(why) => self.out.tell(Event::Detached(why)),
        }
    }

    fn agent_told(&mut self, now: Now, event: client::Event) {
        use client::Event as Agent;
        match event {
            Agent::Ready(ready) => self.ready(now, ready),
            Agent::Line(line) => self.say(subagent::Event::Line(line)),
            Agent::Text(text) => {
                self.turn.heard(&text);
                if is_answer(&text) {
                    self.answer.add(&text.text, text.message.as_ref());
                }
                self.say(subagent::Event::Text(text));
            }
            Agent::Updated(updated) => {
                if let Update::ToolCall(_) = updated.update {
                    self.answer.take();
                }
                if let State::Starting(opening) = &mut self.state {
                    opening.hear(&updated.update);
                }
                self.turn.updated(&updated);
                self.say(subagent::Event::Updated(updated));
            }
            Agent::PermissionAsked(asked) => {
                let (event, answer) = self.turn.asked(asked);
                self.say(event);
                if let Some(answer) = answer {
                    // Refused only when the connection is leaving: then nobody waits for it.
                    let _ = self.client.command(now, &(), answer);
                }
            }
            Agent::Withdrawn(request) => {
                self.turn.withdrawn(request).into_iter().for_each(|event| self.say(event));
            }
            // Nothing is offered, so nothing is asked for.
            Agent::Requested(_) | Agent::Notified(_) => {}
            Agent::Answered(_, answer) => {
                if let State::Starting(opening) = &mut self.state {
                    let step = opening.answered(*answer);
                    self.go_to_session(now, step);
                }
            }
            Agent::Failed(_, failure) => {
                if let State::Starting(opening) = &self.state {
                    self.evidence.values = opening.values();
                }
                self.lose(now, Phase::Session, *failure);
            }
            Agent::TurnEnded(ended) => self.turn_ended(now, *ended),
            Agent::Stderr(text) => self.say(subagent::Event::Stderr(text)),
            Agent::Noticed(notice) => {
                self.evidence.noticed(&notice);
                self.say(subagent::Event::Noticed(notice));
            }
            Agent::Closed(closed) => self.closed(now, closed),
        }
    }

    fn ready(&mut self, now: Now, ready: Box<Ready>) {
        self.evidence.offers(&ready.auth_methods);
        let offers = ready.capabilities.clone();
        self.say(subagent::Event::Ready(ready));
        if let State::Starting(opening) = &mut self.state {
            let step = opening.ready(&offers);
            self.go_to_session(now, step);
        }
    }

    fn go_to_session(&mut self, now: Now, step: Option<Step>) {
        let mut next = step;
        while let Some(step) = next.take() {
            match step {
                Step::Ask(command) => match self.client.command(now, &(), command) {
                    // Only a connection that is leaving refuses so, and it tells the reason.
                    Ok(()) | Err(Refused::Closed) => {}
                    Err(refused) => self.fail(now, RootCause::Impossible(refused)),
                },
                Step::Opened(opened) => {
                    self.say(subagent::Event::SessionOpened(opened));
                    if let State::Starting(opening) = &mut self.state {
                        next = opening.go_on();
                    }
                }
                Step::Set(session) => self.listen(now, session),
                Step::Nowhere => self.leave(now, None),
                Step::Failed(cause) => self.fail(now, cause),
            }
        }
    }

    /// The session is as it was wanted: lines can be said in it, and from outside as well.
    fn listen(&mut self, now: Now, session: SessionId) {
        if let Some(mut config) = self.attach.take() {
            config.record.session_id = Some(session.to_string());
            // The config is taken once, so its seat is free.
            let _ = self.server.insert(now, (), Server::new(now, config));
        }
        self.state = State::Idle(session);
    }

    /// There is no such session for us, and nothing to wait for.
    fn fail(&mut self, now: Now, cause: RootCause) {
        self.end_turn(Ending::failed(Failed::new(Phase::Session, cause)));
        self.leave(now, None);
    }

    fn turn_ended(&mut self, now: Now, ended: TurnEnded) {
        let ending = match ended.end {
            Ok(stopped) => Ending::of_stop(stopped),
            Err(Failure::Unconfirmed { .. } | Failure::Shutdown) => Ending::plain(Outcome::Aborted),
            // How the child ended is part of the reason.
            Err(Failure::Disconnected) => return self.lose(now, Phase::Prompt, Failure::Disconnected),
            Err(failure) => Ending::failed(self.evidence.failure(Phase::Prompt, &failure)),
        };
        let answer = self.answer.take().text;
        self.tell_server(now, outside(&ending, answer));
        self.end_turn(ending);
        if let State::Running(session) | State::Cancelling(session) = &self.state {
            self.state = State::Idle(session.clone());
        }
    }

    /// The connection is over without our doing. The result waits for the child's end.
    fn lose(&mut self, now: Now, phase: Phase, failure: Failure) {
        if !matches!(self.state, State::Leaving(_) | State::Over) {
            self.leave(now, Some(Lost { phase, failure, at: now.mono }));
        }
    }

    /// Who waits outside is told at once, the agent then; but why a turn failed is known when the child is gone.
    fn leave(&mut self, now: Now, lost: Option<Lost>) {
        self.attach = None;
        for line in std::mem::take(&mut self.lines) {
            self.turn_away(now, line.from);
        }
        if lost.is_none() {
            self.tell_server(now, server::Command::Shutdown);
        }
        self.state = State::Leaving(lost);
        // Refused when it is leaving already.
        let _ = self.client.command(now, &(), client::Command::Shutdown);
    }

    fn closed(&mut self, now: Now, closed: Box<Closed<Fault>>) {
        let lose = |phase| Some(Lost { phase, failure: Failure::Disconnected, at: now.mono });
        let lost = match std::mem::replace(&mut self.state, State::Over) {
            State::Leaving(lost) => lost,
            State::Starting(opening) => lose(opening.phase()),
            State::Idle(_) | State::Running(_) | State::Cancelling(_) | State::Over => lose(Phase::Prompt),
        };
        if let Some(lost) = lost {
            let ending = Ending::failed(self.evidence.end(&lost, &closed));
            let answer = self.answer.take().text;
            self.tell_server(now, outside(&ending, answer));
            self.end_turn(ending);
        }
        self.tell_server(now, server::Command::Shutdown);
        self.serve(now);
        self.say(subagent::Event::Closed(closed));
    }

    /// Words that the agent will never hear.
    fn turn_away(&mut self, now: Now, from: Source) {
        if let Source::Outside(prompt) = from {
            let why = "the session is leaving; nothing was delivered".to_owned();
            self.tell_server(now, server::Command::Injected(prompt, Injection::Failed(why)));
        }
    }

    fn end_turn(&mut self, ending: Ending) {
        self.turn.end(ending).into_iter().for_each(|event| self.say(event));
    }

    /// Refused when there is no server, or when it does not care.
    fn tell_server(&mut self, now: Now, command: server::Command) {
        let _ = self.server.command(now, &(), command);
    }

    fn say(&mut self, event: subagent::Event) {
        self.out.tell(Event::Said(event));
    }

    fn end(&mut self) {
        if self.client.is_empty() && self.server.is_empty() {
            self.out.end();
        }
    }
}

/// How a turn ended, for those who attached.
fn outside(ending: &Ending, answer: String) -> server::Command {
    let stop = match (ending.outcome, ending.stop_reason.as_deref()) {
        (Outcome::Aborted | Outcome::Rejected, _) => {
            return server::Command::TurnEnded(attach::Turn::cancelled());
        }
        (Outcome::Completed, _) => Stop::EndTurn,
        (Outcome::Refusal, _) => Stop::Refusal,
        (Outcome::MaxTokens, _) => Stop::MaxTokens,
        (Outcome::Error, Some("max_turn_requests")) => Stop::MaxTurnRequests,
        (Outcome::Error, _) => {
            let why = ending.error.as_ref().map_or_else(|| "the turn failed".to_owned(), ToString::to_string);
            return server::Command::TurnFailed { why, answer: Some(answer) };
        }
    };
    server::Command::TurnEnded(attach::Turn::ended(stop, Some(answer)))
}

/// One request of ours is open at a time.
const STEP: Tag = Tag(0);
