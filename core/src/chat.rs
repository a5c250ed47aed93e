//! A conversation in a terminal that others can speak into: one agent, one session, one line after the other.
//!
//! ```text
//!              Idle ──a line waits──► Running
//!               │ ▲                     │
//!  no more to come └─────turn over──────┘
//!               ▼
//!            Leaving ◄──lost, Shutdown── anywhere
//! ```
//!
//! It is a [`Conversation`] with a queue: what is typed and what comes from outside waits in it and is answered in the
//! order it came. With an attach config there is an [attach server](crate::attach::Server) from the moment the session
//! is open until the conversation is over; without one there is none, and no file either.
//!
//! What happens to the agent is told as by any [`conversation`].

mod hub;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::acp::agent::TurnKey;
use crate::acp::{ContentBlock, PermissionOutcome, RequestKey, SessionId, StopReason, Update};
use crate::attach::presence::Attachment;
use crate::attach::server::{self, Server, Why};
use crate::attach::{self, Injection, PromptId, Stop};
use crate::closed::Closed;
use crate::conversation::answer::Answer;
use crate::conversation::turn::is_answer;
use crate::conversation::{self, Conversation, Finished, Outcome, Reply};
use crate::host::FileError;
use crate::machine::{Deadline, Ids, Input, Machine, Now, Output, Outputs, Refused, soonest};
use crate::nest::{Nest, Told};
use crate::reverse;
use hub::{Hub, Says};

/// What a conversation starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The agent, the session, and who decides. What cannot be set before the first line is said ends the conversation;
    /// with [`conversation::Choice::Nowhere`] it is over when the handshake is done.
    pub conversation: conversation::Config,
    /// Lets others speak into it. The session's id is filled in.
    pub attach: Option<server::Config>,
    /// Shows it to a hub that is there when the session is open. Without one it goes on as it is.
    #[serde(default)]
    pub announce: Option<reverse::agent::Config>,
    /// Sizes that bound the lines that wait.
    pub limits: Limits,
}

/// Sizes of a conversation.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Typed lines that wait. 100: more than a person types ahead; who reads a file waits.
    pub lines: usize,
    /// Bytes of the last piece of the answer, for those who attach. 1 MiB: escaped, it still fits into a line
    /// of the attach channel.
    pub answer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lines: 100, answer: 1 << 20 }
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
    /// Answer any other question. What does not fit the form is refused, and the question stays open.
    Reply {
        /// The key of the question, from the event that brought it.
        request: RequestKey,
        /// The answer, whose values have to fit the form.
        reply: Reply,
    },
    /// Show the conversation to that hub from here on. Refused: `Busy`, one shows it or is being asked already.
    Announce(Box<reverse::agent::Config>),
    /// Say how a file was read or written.
    FileDone {
        /// The key, from the event that wanted it.
        request: RequestKey,
        /// What it holds, or nothing where it was written.
        done: Result<String, FileError>,
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
    Said(conversation::Event),
    /// A turn begins. It ends with [`Finished`](conversation::Event::Finished).
    Begun(Box<Line>),
    /// The turn is being cancelled, and its end follows. Told once for each of the two who may wish it.
    Cancelling {
        /// Whoever attached or the hub wishes it, and not the keyboard.
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
    /// A hub shows the conversation from here on.
    Shown,
    /// No hub shows it, or none does any more. The conversation goes on without.
    Hidden(Box<Closed<reverse::agent::Fault>>),
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
    /// The hub, with a prompt of its own.
    Hub(TurnKey),
}

/// A conversation that others can attach to. [The module](self) draws what it goes through.
#[derive(Debug)]
pub struct Chat {
    conversation: Nest<(), Conversation>,
    server: Nest<(), Server>,
    hub: Hub,
    keyboard: Keyboard,
    lines: VecDeque<Line>,
    /// The keyboard has cancelled the turn.
    cancelled: bool,
    /// The text after the last tool call.
    answer: Answer,
    /// Until the session is open.
    attach: Option<server::Config>,
    max_lines: usize,
    ids: Ids,
    out: Outputs<Event>,
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
        let Config { conversation, attach, announce, limits } = config;
        let hub = Hub::new(announce, conversation.setup.cwd.clone());
        let mut chat = Self {
            conversation: Nest::of((), Conversation::new(now, conversation)),
            server: Nest::default(),
            hub,
            keyboard: Keyboard::Open,
            lines: VecDeque::new(),
            cancelled: false,
            answer: Answer::new(limits.answer),
            attach,
            max_lines: limits.lines,
            ids: Ids::default(),
            out: Outputs::default(),
        };
        chat.settle(now);
        chat
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => {
                let is_theirs =
                    self.conversation.handle(now, link, heard) || self.server.handle(now, link, heard);
                if !is_theirs {
                    self.hub.handle(now, link, heard);
                }
            }
            // Who attached is served, whether or not our own screen is read.
            Input::Hold(full) => self.conversation.hold_all(now, full),
            Input::StoreFailed(id, errno) => {
                self.server.store_failed(now, id, errno);
            }
            Input::Tick => {}
        }
        self.conversation.tick(now);
        self.server.tick(now);
        self.hub.tick(now);
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
        soonest(soonest(self.conversation.deadline(), self.server.deadline()), self.hub.deadline())
    }
}

impl Chat {
    /// Translates until nothing more follows.
    fn settle(&mut self, now: Now) {
        loop {
            self.serve(now);
            if let Some(((), told)) = self.conversation.next(&mut self.ids, &mut self.out) {
                match told {
                    Told::Event(event) => self.said(now, event),
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
        while let Some(says) = self.hub.next(now, &mut self.ids, &mut self.out) {
            self.hub_said(now, says);
        }
    }

    /// Whether there was something to do.
    fn go_on(&mut self, now: Now) -> bool {
        if self.is_leaving() {
            return self.turn_away(now);
        }
        let conversation = self.conversation.get(&()).filter(|conversation| conversation.is_idle());
        let Some(conversation) = conversation else { return false };
        let Some(session) = conversation.session().cloned() else {
            self.leave(now);
            return true;
        };
        if let Some(config) = self.attach.take() {
            self.listen(now, config, &session);
            return true;
        }
        if self.hub.dial(now, &session) {
            return true;
        }
        if self.keyboard == Keyboard::Ended && !self.lines.iter().any(|line| line.from == Source::Keyboard) {
            self.leave(now);
            return true;
        }
        let Some(line) = self.lines.pop_front() else { return false };
        self.begin(now, line);
        true
    }

    /// The session is as it was wanted: others can speak in it from here on.
    fn listen(&mut self, now: Now, mut config: server::Config, session: &SessionId) {
        config.record.session_id = Some(session.to_string());
        // The config is taken once, so its seat is free.
        let _ = self.server.insert(now, (), Server::new(now, config));
    }

    fn begin(&mut self, now: Now, line: Line) {
        let prompt = vec![ContentBlock::text(&*line.text)];
        if let Source::Outside(prompt) = line.from {
            // Refused when nobody waits for it any more. It was accepted all the same.
            self.tell_server(now, server::Command::Injected(prompt, Injection::Queued));
        }
        match line.from {
            Source::Hub(turn) => self.hub.begun_by_hub(turn),
            Source::Keyboard | Source::Outside(_) => self.hub.begun(now, &line.text),
        }
        self.tell_server(now, server::Command::TurnStarted);
        self.out.tell(Event::Begun(Box::new(line)));
        // Idle, so it is taken; what comes of it is told.
        let _ = self.conversation.command(now, &(), conversation::Command::Prompt(prompt));
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if self.is_leaving() && command != Command::Hasten {
            return Err(Refused::Closed);
        }
        match command {
            Command::Say(_) | Command::Finish if self.keyboard == Keyboard::Ended => Err(Refused::Closed),
            Command::Say(text) => self.typed(text),
            Command::Announce(_) if !self.hub.is_free() => Err(Refused::Busy),
            Command::Announce(config) => {
                self.hub.look_for(*config);
                Ok(())
            }
            Command::Recall => {
                self.recall();
                Ok(())
            }
            // Once is not asking twice, whoever has cancelled before.
            Command::Cancel if self.cancelled => Err(Refused::Busy),
            Command::Cancel => {
                self.ask(now, conversation::Command::Cancel)?;
                self.cancelled = true;
                self.out.tell(Event::Cancelling { from_outside: false });
                Ok(())
            }
            Command::Answer { request, outcome } => {
                self.ask(now, conversation::Command::Answer { request, outcome })
            }
            Command::Reply { request, reply } => {
                self.ask(now, conversation::Command::Reply { request, reply })
            }
            Command::FileDone { request, done } => {
                self.ask(now, conversation::Command::FileDone { request, done })
            }
            Command::Finish => {
                self.keyboard = Keyboard::Ended;
                Ok(())
            }
            Command::Shutdown => {
                self.leave(now);
                Ok(())
            }
            Command::Hasten => {
                if !self.is_leaving() {
                    self.leave(now);
                }
                self.ask(now, conversation::Command::Hasten)
            }
        }
    }

    fn is(&self, what: impl FnOnce(&Conversation) -> bool) -> bool {
        self.conversation.get(&()).is_some_and(what)
    }

    fn is_leaving(&self) -> bool {
        self.conversation.is_empty() || self.is(Conversation::is_leaving)
    }

    fn ask(&mut self, now: Now, command: conversation::Command) -> Result<(), Refused> {
        let done = self.conversation.command(now, &(), command);
        // A conversation that is gone from its nest is over.
        if self.conversation.is_empty() { Err(Refused::Closed) } else { done }
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
        let waited = !self.is(Conversation::is_idle) || !self.lines.is_empty();
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

    fn attached(&mut self, now: Now, event: server::Event) {
        match event {
            server::Event::Listening(attachment) => self.out.tell(Event::Listening(attachment)),
            server::Event::PromptReceived { prompt, text } => self.queue(text, Source::Outside(prompt)),
            server::Event::CancelReceived => {
                self.lines.retain(|line| !matches!(line.from, Source::Outside(_)));
                self.cancel_from_outside(now);
            }
            server::Event::PresenceFailed { errno } => self.out.tell(Event::PresenceFailed { errno }),
            server::Event::Closed(why) => self.out.tell(Event::Detached(why)),
        }
    }

    fn cancel_from_outside(&mut self, now: Now) {
        let is_news = !self.is(Conversation::is_cancelling);
        // Refused when nothing runs.
        if self.ask(now, conversation::Command::Cancel).is_ok() && is_news {
            self.out.tell(Event::Cancelling { from_outside: true });
        }
    }

    /// What the hub wished to say is not said: its cancel may come in one breath with its prompt.
    fn call_off(&mut self, now: Now) {
        self.lines.retain(|line| {
            if let Source::Hub(turn) = line.from {
                self.hub.called_off(now, turn);
            }
            !matches!(line.from, Source::Hub(_))
        });
    }

    fn hub_said(&mut self, now: Now, says: Says) {
        match says {
            Says::Prompt(turn, _) if self.is_leaving() => self.hub.turn_away(now, turn),
            Says::Prompt(turn, text) => self.queue(text, Source::Hub(turn)),
            Says::Cancel => {
                self.call_off(now);
                self.cancel_from_outside(now);
            }
            Says::Answer(request, outcome) => {
                // Refused when the terminal was first, or the question is moot.
                let _ = self.ask(now, conversation::Command::Answer { request, outcome });
            }
            Says::Shown => self.out.tell(Event::Shown),
            Says::Closed(closed) => self.out.tell(Event::Hidden(closed)),
            Says::Over => self.end(),
        }
    }

    fn said(&mut self, now: Now, event: conversation::Event) {
        self.hub.said(now, &event);
        if let conversation::Event::Text(text) = &event {
            if is_answer(text) {
                self.answer.add(&text.text, text.message.as_ref());
            }
        } else if let conversation::Event::Updated(updated) = &event {
            if let (Update::ToolCall(_), None) = (&updated.update, &updated.of) {
                self.answer.take();
            }
        } else if let conversation::Event::Finished(finished) = &event {
            let answer = self.answer.take().text;
            self.cancelled = false;
            self.tell_server(now, outside(finished, answer));
        } else if let conversation::Event::Closed(_) = &event {
            self.tell_server(now, server::Command::Shutdown);
            self.hub.leave(now);
            self.serve(now);
        }
        self.out.tell(Event::Said(event));
    }

    /// Who waits outside is told at once, the agent then. But why a turn failed is known when the child is gone: a
    /// conversation that leaves by itself lets them wait for that.
    fn leave(&mut self, now: Now) {
        self.turn_away(now);
        self.tell_server(now, server::Command::Shutdown);
        // Refused when it is leaving already.
        let _ = self.ask(now, conversation::Command::Shutdown);
    }

    /// Lines that the agent will never hear. Whether there were any.
    fn turn_away(&mut self, now: Now) -> bool {
        let lines = std::mem::take(&mut self.lines);
        let were_any = !lines.is_empty();
        for line in lines {
            match line.from {
                Source::Outside(prompt) => {
                    let why = "the session is leaving; nothing was delivered".to_owned();
                    self.tell_server(now, server::Command::Injected(prompt, Injection::Failed(why)));
                }
                Source::Hub(turn) => self.hub.turn_away(now, turn),
                Source::Keyboard => {}
            }
        }
        were_any
    }

    /// Refused when there is no server, or when it does not care.
    fn tell_server(&mut self, now: Now, command: server::Command) {
        let _ = self.server.command(now, &(), command);
    }

    fn end(&mut self) {
        if self.conversation.is_empty() && self.server.is_empty() && self.hub.is_empty() {
            self.out.end();
        }
    }
}

/// How a turn ended, for those who attached.
fn outside(finished: &Finished, answer: String) -> server::Command {
    let stop = match stop(finished) {
        Ok(StopReason::Cancelled) => return server::Command::TurnEnded(attach::Turn::cancelled()),
        Ok(StopReason::Refusal) => Stop::Refusal,
        Ok(StopReason::MaxTokens) => Stop::MaxTokens,
        Ok(StopReason::MaxTurnRequests) => Stop::MaxTurnRequests,
        Ok(StopReason::EndTurn | StopReason::Other(_)) => Stop::EndTurn,
        Err(why) => return server::Command::TurnFailed { why, answer: Some(answer) },
    };
    server::Command::TurnEnded(attach::Turn::ended(stop, Some(answer)))
}

/// How a turn ended, for others than the one who sits here; or why it failed.
fn stop(finished: &Finished) -> Result<StopReason, String> {
    match (finished.outcome, finished.stop_reason.as_deref()) {
        (Outcome::Aborted | Outcome::Rejected, _) => Ok(StopReason::Cancelled),
        (Outcome::Completed, _) => Ok(StopReason::EndTurn),
        (Outcome::Refusal, _) => Ok(StopReason::Refusal),
        (Outcome::MaxTokens, _) => Ok(StopReason::MaxTokens),
        (Outcome::Error, Some("max_turn_requests")) => Ok(StopReason::MaxTurnRequests),
        (Outcome::Error, _) => {
            let why = finished.error.as_ref();
            Err(why.map_or_else(|| "the turn failed".to_owned(), ToString::to_string))
        }
    }
}
