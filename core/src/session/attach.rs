//! A session in another terminal as a source: one machine around [`Caller`], so its links keep their names.
//!
//! | the caller's | in the middle |
//! |---|---|
//! | `Ready` | nothing: the load that follows says whose session it is |
//! | `Answered`, to the first load | `Up`, `Announced`, `Busy` |
//! | `Answered`, to a load that was wished | `Done`, `Busy` |
//! | `Answered`, to a prompt | the answer as one text, `Ended` |
//! | `Cancelled` | `Done`; an end that came before is told now |
//! | `Noticed` | `Noted` |
//! | `Closed` | `Down` |
//!
//! The channel shows neither text as it comes, nor tools, nor questions, nor what is typed there. A cancel ends whatever runs,
//! so it is refused unless a prompt of ours is open. Leaving detaches: the session goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::acp::down;
use super::reverse::text;
use super::{
    Announced, By, Can, Done, Ended, Item, Moment, Name, News, Noted, Open, Outcome, Sighting, Told, Trouble,
    TurnId, Up, Wish,
};
use crate::acp::session::Implementation;
use crate::acp::update::Speaker;
use crate::acp::{Json, StopReason};
use crate::attach::caller::{self, Caller};
use crate::attach::client::{Command, Event, Failure};
use crate::attach::{AgentInfo, Answer, Session, Stop, Target, Turn};
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};
use crate::rpc::{RpcError, code};

/// Which session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// How it is reached.
    pub target: Target,
    /// What it is called here: its peer id, which outlives the session's own.
    pub name: Name,
}

/// A session in another terminal as a source: a [`Caller`], told in the words of [the vocabulary](super).
#[derive(Debug)]
pub struct Attached {
    caller: Caller,
    name: Name,
    who: Option<AgentInfo>,
    asked: Asked,
    cancel: Option<Tag>,
    /// The end of our turn, while its cancel is open: the caller takes no prompt until that is over.
    ended: Option<Ended>,
    /// When our last turn ended: a record that is older speaks of it.
    free_since: Duration,
    is_busy: bool,
    /// It is to leave when the cancel is over. Left before, the cancel would be given up.
    leaves: bool,
    out: Outputs<Told>,
}

/// The request that is open.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Nothing,
    /// Our own load, behind the handshake.
    Who,
    Load(Tag),
    Prompt(TurnId),
}

impl Machine for Attached {
    type Config = Config;
    type Command = (Tag, Wish);
    type Event = Told;

    fn new(now: Now, Config { target, name }: Config) -> Self {
        let mut this = Self {
            caller: Caller::new(now, target),
            name,
            who: None,
            asked: Asked::Nothing,
            cancel: None,
            ended: None,
            free_since: Duration::ZERO,
            is_busy: false,
            leaves: false,
            out: Outputs::default(),
        };
        this.settle(now);
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.caller.handle(now, input);
        self.settle(now);
    }

    fn command(&mut self, now: Now, (tag, wish): (Tag, Wish)) -> Result<(), Refused> {
        let done = self.wish(now, tag, wish);
        self.settle(now);
        done
    }

    fn poll(&mut self) -> Option<Output<Told>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.caller.deadline()
    }
}

impl Attached {
    fn wish(&mut self, now: Now, tag: Tag, wish: Wish) -> Result<(), Refused> {
        match wish {
            Wish::Open(Open::Load(name) | Open::Resume(name), _) if name != self.name => {
                return Err(Refused::Unknown);
            }
            Wish::Open(Open::Resume(_), _) => {
                self.ask(now, Command::Load { session: None }, Asked::Load(tag))?;
            }
            Wish::Prompt { turn, words, .. } => {
                let text = text(&words)?;
                self.ask(now, Command::Prompt { session: None, text }, Asked::Prompt(turn))?;
                self.news(Moment::Turn, News::Began(By::Us(turn)));
            }
            Wish::Cancel { .. } => {
                self.caller.command(now, caller::Command::Cancel)?;
                self.cancel = Some(tag);
            }
            // While ours runs a record speaks of ours, and for a while afterwards.
            Wish::Seen(Sighting { busy, at }) => {
                if !matches!(self.asked, Asked::Prompt(_)) && self.ended.is_none() && at >= self.free_since {
                    self.busy(busy);
                }
            }
            Wish::Leave if self.cancel.is_some() => self.leaves = true,
            Wish::Leave => self.caller.command(now, caller::Command::Ask(Command::Shutdown))?,
            Wish::Open(Open::New | Open::Fork(_) | Open::Load(_), _)
            | Wish::Accept
            | Wish::Refuse(_)
            | Wish::List { .. }
            | Wish::Answer { .. }
            | Wish::Serve { .. }
            | Wish::FileDone { .. }
            | Wish::Set { .. }
            | Wish::Aside { .. }
            | Wish::Rules(_)
            | Wish::OfRunner(_)
            | Wish::Close { .. }
            | Wish::Delete { .. }
            | Wish::Login { .. }
            | Wish::Logout => return Err(Refused::NotOffered("that")),
        }
        Ok(())
    }

    fn ask(&mut self, now: Now, command: Command, asked: Asked) -> Result<(), Refused> {
        self.caller.command(now, caller::Command::Ask(command))?;
        self.asked = asked;
        Ok(())
    }

    fn settle(&mut self, now: Now) {
        while let Some(output) = self.caller.poll() {
            match self.out.pass(output) {
                Some(caller::Event::Said(event)) => self.said(now, event),
                Some(caller::Event::Cancelled(done)) => {
                    self.cancelled(now, done.map(|()| Done::Fine).map_err(|failure| trouble(&failure)));
                }
                None => {}
            }
        }
    }

    fn said(&mut self, now: Now, event: Event) {
        match event {
            Event::Ready(who) => {
                self.who = Some(who);
                // Nothing is open, so it is taken.
                let _ = self.ask(now, Command::Load { session: None }, Asked::Who);
            }
            Event::Answered(answer) => self.answered(now, answer),
            Event::Noticed(what) => {
                self.out.tell(Told::Noted(Box::new(Noted::Odd(Json::new(&what)))));
            }
            Event::Closed(closed) => {
                self.cancelled(now, Err(RpcError::new(code::INTERNAL_ERROR, "the connection ended")));
                self.out.tell(down(*closed));
            }
        }
    }

    fn answered(&mut self, now: Now, answer: Result<Answer, Failure>) {
        match (std::mem::replace(&mut self.asked, Asked::Nothing), answer) {
            (Asked::Who, Ok(Answer::Session(session))) => self.up(*session),
            // It cannot be asked for anything: that is its end.
            (Asked::Who, _) => drop(self.caller.command(now, caller::Command::Ask(Command::Shutdown))),
            (Asked::Load(tag), Ok(Answer::Session(session))) => {
                let opened = Done::Opened(self.name.clone(), Box::default());
                self.done(tag, Ok(opened));
                self.news(Moment::Between, News::Opened);
                // Told again: nobody had the session before.
                self.is_busy = false;
                self.busy(session.busy);
            }
            (Asked::Load(tag), answer) => {
                let failure = answer.err().unwrap_or(Failure::Unreadable);
                self.done(tag, Err(trouble(&failure)));
            }
            (Asked::Prompt(turn), Ok(Answer::Turn(ended))) => self.turn_over(now, turn, ended),
            (Asked::Prompt(turn), Ok(Answer::Session(_) | Answer::Done {})) => {
                self.over(now, turn, Outcome::Unseen, None, None);
            }
            (Asked::Prompt(turn), Err(failure)) => {
                let how = match &failure {
                    Failure::TurnFailed { .. } => Outcome::Failed,
                    Failure::Unseen(_) | Failure::Unreadable => Outcome::Unseen,
                    // Each error of the channel says that nothing was delivered.
                    Failure::Refused(_) | Failure::Closed(_) => Outcome::NotSent,
                };
                if let Failure::TurnFailed { answer: Some(text), .. } = &failure {
                    self.say(text.clone());
                }
                let trouble = (how != Outcome::Unseen).then(|| Box::new(trouble(&failure)));
                self.over(now, turn, how, None, trouble);
            }
            (Asked::Nothing, _) => {}
        }
    }

    fn up(&mut self, session: Session) {
        let who = self.who.take().map(|AgentInfo { name, version }| Implementation {
            name,
            version,
            ..Implementation::default()
        });
        let can = Can {
            resume: true,
            prompt: true,
            cancel: true,
            cancel_is_wide: true,
            single: true,
            ..Can::default()
        };
        self.out.tell(Told::Up(Box::new(Up { who, can, ..Up::default() })));
        let announced = Announced { cwd: session.cwd, title: None };
        self.news(Moment::Between, News::Announced(Box::new(announced)));
        self.busy(session.busy);
    }

    fn turn_over(&mut self, now: Now, turn: TurnId, ended: Turn) {
        let (how, word) = match ended.stop {
            Stop::EndTurn => (Outcome::Completed, None),
            Stop::Cancelled => (Outcome::Cancelled, None),
            Stop::Pending => (Outcome::Unseen, None),
            Stop::Refusal => (Outcome::Refused, None),
            Stop::MaxTokens => (Outcome::MaxTokens, None),
            Stop::MaxTurnRequests => (Outcome::Failed, Some(StopReason::MaxTurnRequests.as_str().to_owned())),
            Stop::Other(word) => (Outcome::Failed, Some(word)),
        };
        if let Some(text) = ended.answer {
            self.say(text);
        }
        self.over(now, turn, how, word, None);
    }

    fn say(&mut self, text: String) {
        self.news(Moment::Turn, News::Text { speaker: Speaker::Agent, message: None, text });
    }

    /// It is told when the next prompt would be taken: one that is sent before is refused.
    fn over(
        &mut self,
        now: Now,
        turn: TurnId,
        how: Outcome,
        word: Option<String>,
        trouble: Option<Box<Trouble>>,
    ) {
        self.ended = Some(Ended { turn: Some(turn), how, word, trouble, spent: None, meta: None });
        if self.cancel.is_none() {
            self.free(now);
        }
    }

    fn cancelled(&mut self, now: Now, done: Result<Done, Trouble>) {
        if let Some(tag) = self.cancel.take() {
            self.done(tag, done);
        }
        self.free(now);
        if std::mem::take(&mut self.leaves) {
            // Refused when it is over already.
            let _ = self.caller.command(now, caller::Command::Ask(Command::Shutdown));
        }
    }

    fn free(&mut self, now: Now) {
        if let Some(ended) = self.ended.take() {
            (self.free_since, self.is_busy) = (now.unix, false);
            self.news(Moment::Turn, News::Ended(Box::new(ended)));
        }
    }

    fn busy(&mut self, busy: bool) {
        if std::mem::replace(&mut self.is_busy, busy) != busy {
            self.news(Moment::Between, News::Busy(busy));
        }
    }

    fn done(&mut self, tag: Tag, done: Result<Done, Trouble>) {
        self.out.tell(Told::Done(tag, Box::new(done)));
    }

    fn news(&mut self, moment: Moment, news: News) {
        self.out.tell(Told::News(Item { session: self.name.clone(), moment, news, raw: None }));
    }
}

fn trouble(failure: &Failure) -> Trouble {
    match failure {
        Failure::Refused(error) | Failure::TurnFailed { error, .. } => (**error).clone(),
        Failure::Unreadable | Failure::Closed(_) | Failure::Unseen(_) => {
            RpcError::new(code::INTERNAL_ERROR, failure.to_string())
        }
    }
}
