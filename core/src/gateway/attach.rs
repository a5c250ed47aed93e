//! A session that others attach to, as a front: one machine around [`Server`], so its links keep their names.
//!
//! The channel has no word for opening a session, so this front opens one itself, at once; who finds it can speak to it.
//!
//! | the server's | says |
//! |---|---|
//! | `PromptReceived` | `Prompt` |
//! | `CancelReceived` | `Withdraw` of what was received and of our turn that runs; of another, `Cancel` |
//! | `Listening`, `PresenceFailed` | an event for the application |
//! | `Closed` | `Left` |
//!
//! | it is shown | to whoever attached |
//! |---|---|
//! | `Began` | its prompt is taken, and its turn has begun |
//! | a text of the agent, a question in words | kept: the answer is what was said behind the last tool |
//! | `Ended` | the answer; that it was cancelled; its error, or why there is no answer |
//! | a title | the task of the record |
//! | that the session is lost | what is open is pending, and that is the end |
//! | any other question | nothing: the next one is asked (`NotMe`) |
//! | `Down` | what is open is pending, and that is the end |
//! | anything else | nothing |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::api::Event as Ours;
use super::front::{LOST, Said, no_end, refusal};
use crate::acp::update::{Patch, Speaker};
use crate::acp::{ContentBlock, SessionSetup};
use crate::attach::presence::Record;
use crate::attach::server::{self, Command, Event, Server, Why};
use crate::attach::{Injection, PromptId, Stop, Turn};
use crate::conversation::answer::Answer;
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};
use crate::session::{
    Asked, By, Can, Done, Ended, Item, Moment, Name, News, Open, Outcome, Question, Reply, Told, TurnId, Wish,
};

/// What a session that others attach to starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Where it listens, and what it says of itself. The record gets the session's id.
    pub server: server::Config,
    /// The session that is opened.
    pub setup: SessionSetup,
}

/// A session that others attach to, as a front.
#[derive(Debug)]
pub(super) struct Attach {
    stage: Stage,
    session: Option<Name>,
    record: Record,
    /// Of turns and of tags.
    next: u64,
    /// Prompts whose turn has not begun.
    received: BTreeMap<TurnId, PromptId>,
    running: Option<By>,
    answer: Answer,
    out: Outputs<Said>,
}

#[derive(Debug)]
enum Stage {
    Opening(Box<server::Config>),
    Serving(Box<Server>),
    Over,
}

impl Machine for Attach {
    type Config = Config;
    type Command = Told;
    type Event = Said;

    fn new(_: Now, Config { server, setup }: Config) -> Self {
        let mut out = Outputs::default();
        out.tell(Said::Introduced(Box::default()));
        out.tell(Said::Wish(OPENING, Wish::Open(Open::New, Box::new(setup))));
        Self {
            record: server.record.clone(),
            stage: Stage::Opening(Box::new(server)),
            session: None,
            next: OPENING.0,
            received: BTreeMap::new(),
            running: None,
            answer: Answer::new(ANSWER),
            out,
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Stage::Serving(server) = &mut self.stage {
            server.handle(now, input);
        }
        self.settle();
    }

    fn command(&mut self, now: Now, told: Told) -> Result<(), Refused> {
        self.show(now, told);
        self.settle();
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Said>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        if let Stage::Serving(server) = &self.stage { server.deadline() } else { None }
    }
}

impl Attach {
    fn settle(&mut self) {
        while let Stage::Serving(server) = &mut self.stage
            && let Some(output) = server.poll()
        {
            if let Some(event) = self.out.pass(output) {
                self.heard(event);
            }
        }
    }

    fn heard(&mut self, event: Event) {
        match event {
            Event::Listening(attachment) => self.tell(Ours::Listening(attachment)),
            Event::PromptReceived { prompt, text } => {
                let Some(session) = self.session.clone() else { return };
                self.next += 1;
                let (turn, words) = (TurnId(self.next), vec![ContentBlock::text(text)]);
                self.received.insert(turn, prompt);
                self.out.tell(Said::Wish(Tag(turn.0), Wish::Prompt { session, turn, words }));
            }
            Event::CancelReceived => self.cancel(),
            Event::PresenceFailed { errno } => self.tell(Ours::PresenceFailed { errno }),
            Event::Closed(why) => {
                match why {
                    Why::Stopped => {}
                    Why::ListenFailed(error) => self.tell(Ours::Unserved(error.to_string())),
                    Why::TokenFailed { errno } => {
                        self.tell(Ours::Unserved(format!("the token cannot be written (error {errno})")));
                    }
                }
                self.out.tell(Said::Left);
            }
        }
    }

    fn cancel(&mut self) {
        for turn in self.received.keys() {
            self.out.tell(Said::Withdraw(*turn));
        }
        match (self.running, self.session.clone()) {
            (Some(By::Us(turn)), _) => self.out.tell(Said::Withdraw(turn)),
            (Some(By::There), Some(session)) => self.wish(Wish::Cancel { session }),
            (Some(By::There), None) | (None, _) => {}
        }
    }

    fn show(&mut self, now: Now, told: Told) {
        match told {
            Told::Done(OPENING, done) => match *done {
                Ok(Done::Opened(name, _)) => self.serve(now, name),
                Ok(Done::Listed(_) | Done::Set(_) | Done::Fine) => {}
                Err(trouble) => {
                    self.tell(Ours::Unserved(trouble.message));
                    self.leave(now);
                }
            },
            Told::News(Item { moment: Moment::Turn | Moment::Between, news, .. }) => self.news(now, news),
            Told::Wanted(ask, _) => {
                let answer = Err(refusal(Refused::NotOffered("files and terminals")));
                self.wish(Wish::Serve { ask, answer });
            }
            Told::Down(_) => self.leave(now),
            Told::Hello(_)
            | Told::Up(_)
            | Told::Done(..)
            | Told::News(_)
            | Told::File(_)
            | Told::Noted(_)
            | Told::Other(_) => {}
        }
    }

    fn serve(&mut self, now: Now, name: Name) {
        let Stage::Opening(config) = &mut self.stage else { return };
        config.record.session_id = Some(name.as_str().to_owned());
        self.record = config.record.clone();
        self.session = Some(name);
        self.stage = Stage::Serving(Box::new(Server::new(now, (**config).clone())));
    }

    fn leave(&mut self, now: Now) {
        match &mut self.stage {
            // Refused when it is leaving.
            Stage::Serving(server) => drop(server.command(now, Command::Shutdown)),
            Stage::Opening(_) => {
                self.stage = Stage::Over;
                self.out.tell(Said::Left);
                self.out.end();
            }
            Stage::Over => {}
        }
    }

    fn news(&mut self, now: Now, news: News) {
        match news {
            News::Began(by) => self.began(now, by),
            News::Text { speaker: Speaker::Agent, message, text } => self.answer.add(&text, message.as_ref()),
            News::Tool { is_new: true, .. } => drop(self.answer.take()),
            News::Asked(asked) => self.asked(*asked),
            News::Ended(ended) => self.ended(now, *ended),
            News::Info { title, .. } => self.titled(now, &title),
            News::Closed => {
                self.tell(Ours::Unserved(LOST.to_owned()));
                self.leave(now);
            }
            News::Opened
            | News::Announced(_)
            | News::Can(_)
            | News::Busy(_)
            | News::Step(_)
            | News::Text { .. }
            | News::Block(_)
            | News::Tool { .. }
            | News::Plan(_)
            | News::Commands(_)
            | News::Settled(..)
            | News::Mode(_)
            | News::Options(_)
            | News::Usage(_)
            | News::Warned(_)
            | News::Note(_)
            | News::Hosted(_)
            | News::Other(_) => {}
        }
    }

    /// The turn is the oldest prompt's that was taken, so that is said in one breath.
    fn began(&mut self, now: Now, by: By) {
        self.running = Some(by);
        self.answer.take();
        if let By::Us(turn) = by
            && let Some(prompt) = self.received.remove(&turn)
        {
            self.obey(now, Command::Injected(prompt, Injection::Queued));
        }
        self.obey(now, Command::TurnStarted);
    }

    fn asked(&mut self, Asked { ask, question, .. }: Asked) {
        match question {
            Question::Words { text, candidates } => {
                self.answer.interrupt();
                self.answer.add(&text, None);
                for candidate in candidates {
                    self.answer.add(&format!("\n- {candidate}"), None);
                }
            }
            Question::Permission { .. } | Question::Form { .. } | Question::Page { .. } => {
                self.wish(Wish::Answer { ask, reply: Reply::NotMe });
            }
        }
    }

    fn ended(&mut self, now: Now, Ended { turn, how, word, trouble, .. }: Ended) {
        let why =
            || trouble.as_ref().map_or_else(|| no_end(how).to_owned(), |trouble| trouble.message.clone());
        if let Some(prompt) = turn.and_then(|turn| self.received.remove(&turn)) {
            return self.obey(now, Command::Injected(prompt, Injection::Failed(why())));
        }
        if self.running.take().is_none() {
            return;
        }
        let answer = Some(self.answer.take().text);
        let stopped = |stop, answer| Command::TurnEnded(Turn::ended(stop, answer));
        let command = match (how, word) {
            (Outcome::Completed, _) => stopped(Stop::EndTurn, answer),
            (Outcome::MaxTokens, _) => stopped(Stop::MaxTokens, answer),
            (Outcome::Refused, _) => stopped(Stop::Refusal, answer),
            (Outcome::Cancelled, _) => Command::TurnEnded(Turn::cancelled()),
            (Outcome::Unseen, _) => Command::TurnEnded(Turn::unseen()),
            (Outcome::Failed, Some(word)) if trouble.is_none() => stopped(Stop::Other(word), answer),
            (Outcome::Failed | Outcome::Lost | Outcome::NotSent, _) => {
                Command::TurnFailed { why: why(), answer }
            }
        };
        self.obey(now, command);
    }

    fn titled(&mut self, now: Now, title: &Patch) {
        match title {
            Patch::Set(title) => self.record.set(TASK, title),
            Patch::Clear => drop(self.record.details.remove(TASK)),
            Patch::Keep => return,
        }
        let record = Box::new(self.record.clone());
        self.obey(now, Command::Publish(record));
    }

    /// Refused where there is nothing to say it of any more: the client is gone, or its prompt was cancelled.
    fn obey(&mut self, now: Now, command: Command) {
        if let Stage::Serving(server) = &mut self.stage {
            let _ = server.command(now, command);
        }
    }

    fn wish(&mut self, wish: Wish) {
        self.next += 1;
        self.out.tell(Said::Wish(Tag(self.next), wish));
    }

    fn tell(&mut self, event: Ours) {
        self.out.tell(Said::Event(event));
    }
}

/// The wish that opens the session.
const OPENING: Tag = Tag(1);
/// Bytes of an answer that are kept.
const ANSWER: usize = 4 << 20;
/// The member of a record that says what a session is about.
const TASK: &str = "task";

/// What whoever attaches has words for.
pub(super) fn words() -> Can {
    Can { prompt: true, cancel: true, cancel_is_wide: true, single: true, ..Can::default() }
}
