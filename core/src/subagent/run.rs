//! The machine of one run.

use std::sync::Arc;
use std::time::Duration;

use super::{Command, Config};
use crate::acp::ContentBlock;
use crate::acp::client::{Moment, Text};
use crate::conversation::answer::{Answer, Said};
use crate::conversation::turn::is_answer;
use crate::conversation::{self, Answered, Conversation, Event, Finished, Outcome};
use crate::machine::{Deadline, Heard, Input, Machine, Now, Output, Outputs, Refused, Time, soonest};
use crate::problem::{Clock, Failed, Phase, RootCause};

/// One prompt to one fresh child.
#[derive(Debug)]
pub struct Run {
    conversation: Conversation,
    prompt: Vec<ContentBlock>,
    /// When the clock of the whole run expires, and what it stood at. Once the agent is lost, the graces of the teardown
    /// count.
    timeout: Option<(Time, Duration)>,
    cancelled: bool,
    /// The message of the answer that was added to last, if the agent names its messages.
    message: Option<Arc<str>>,
    output_limit: usize,
    /// The result, while the agent may still say what belongs to it.
    late: Option<Late>,
    /// How often the agent may be asked again, where the application judges its answers.
    again: Option<u32>,
    /// The result, while the application judges it.
    judged: Option<Box<Finished>>,
    /// The result is told.
    told: bool,
    out: Outputs<Event>,
}

/// A result that is not told yet. Some agents end the turn before the last of their words, and those are its too.
#[derive(Debug)]
struct Late {
    finished: Box<Finished>,
    answer: Answer,
    until: Time,
}

impl Machine for Run {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config { conversation, prompt, timeout, again } = config;
        let output_limit = conversation.output;
        let mut run = Self {
            conversation: Conversation::new(now, conversation),
            prompt,
            timeout: timeout.map(|timeout| (now.mono + timeout, timeout)),
            cancelled: false,
            message: None,
            output_limit,
            late: None,
            again,
            judged: None,
            told: false,
            out: Outputs::default(),
        };
        run.settle(now);
        run
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.conversation.handle(now, input);
        self.settle(now);
        let has_ended = matches!(input, Input::Link(_, Heard::Eof));
        if self.late.as_ref().is_some_and(|late| has_ended || late.until <= now.mono) {
            self.tell(now);
            self.settle(now);
        }
        let is_late = self.late.is_some();
        if let Some((_, after)) = self.timeout.take_if(|(at, _)| !is_late && *at <= now.mono) {
            if self.cancelled {
                self.leave(now);
            } else {
                self.judged = None;
                self.conversation.expired(now, Clock::Run, after);
            }
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
        let timeout = self.timeout.filter(|_| self.late.is_none()).map(|(at, _)| (at, "the whole run"));
        let late = self.late.as_ref().map(|late| (late.until, "the last words of a turn"));
        soonest(soonest(timeout, late), self.conversation.deadline())
    }
}

impl Run {
    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let ends = matches!(command, Command::Cancel | Command::Dispose | Command::Hasten);
        if self.late.is_some() && ends {
            self.cancelled = true;
            self.tell(now);
            if command != Command::Hasten {
                return Ok(());
            }
        }
        match command {
            Command::Cancel if self.told => Err(Refused::Closed),
            Command::Cancel => {
                let again = std::mem::replace(&mut self.cancelled, true);
                // Without a turn, and a second time, the agent's word is not waited for.
                self.stop();
                if again || self.conversation.command(now, conversation::Command::Cancel).is_err() {
                    self.leave(now);
                }
                Ok(())
            }
            Command::Answer { request, outcome } => {
                self.conversation.command(now, conversation::Command::Answer { request, outcome })
            }
            Command::Reply { request, reply } => {
                self.conversation.command(now, conversation::Command::Reply { request, reply })
            }
            Command::FileDone { request, done } => {
                self.conversation.command(now, conversation::Command::FileDone { request, done })
            }
            Command::Accept => {
                let finished = self.judged.take().ok_or(Refused::Unknown)?;
                self.result(finished);
                self.leave(now);
                Ok(())
            }
            Command::Reject { why, prompt } => {
                let finished = self.judged.take().ok_or(Refused::Unknown)?;
                self.reject(now, finished, why, prompt);
                Ok(())
            }
            Command::Dispose => {
                self.stop();
                self.leave(now);
                Ok(())
            }
            Command::Hasten => {
                self.stop();
                self.conversation.command(now, conversation::Command::Hasten)
            }
        }
    }

    /// It is to end. An answer that nobody has judged is told, and that it was cancelled.
    fn stop(&mut self) {
        self.cancelled |= !self.told;
        if let Some(finished) = self.judged.take() {
            self.result(finished);
        }
    }

    fn settle(&mut self, now: Now) {
        loop {
            while let Some(output) = self.conversation.poll() {
                if let Some(event) = self.out.pass(output) {
                    self.heard(now, event);
                }
            }
            if !self.conversation.is_idle() || self.late.is_some() || self.judged.is_some() {
                break;
            }
            self.begin(now);
        }
        if self.conversation.is_leaving() {
            self.timeout = None;
        }
    }

    /// The conversation can be spoken to.
    fn begin(&mut self, now: Now) {
        let prompt = std::mem::take(&mut self.prompt);
        if prompt.is_empty() || self.conversation.session().is_none() {
            self.conclude(Outcome::Completed);
            self.leave(now);
        } else {
            // Idle, so it is taken; what comes of it is told.
            let _ = self.conversation.command(now, conversation::Command::Prompt(prompt));
        }
    }

    fn heard(&mut self, now: Now, event: Event) {
        match event {
            Event::Finished(finished) => return self.finished(now, finished),
            Event::Text(mut text) => {
                self.text(&mut text);
                return self.out.tell(Event::Text(text));
            }
            Event::Updated(mut updated) => {
                if self.late.is_some() && updated.moment == Moment::Between {
                    updated.moment = Moment::Turn;
                }
                return self.out.tell(Event::Updated(updated));
            }
            Event::Closed(_) => {
                self.tell(now);
                if !self.told {
                    // It was to end before there was a turn.
                    self.conclude(Outcome::Aborted);
                }
            }
            Event::Started(_)
            | Event::Ready(_)
            | Event::SessionOpened(_)
            | Event::Listed(_)
            | Event::Line(_)
            | Event::PermissionAsked(_)
            | Event::PermissionDecided(_)
            | Event::QuestionAsked(_)
            | Event::QuestionDecided(_)
            | Event::PageDone(_)
            | Event::FileWanted(_)
            | Event::Hosted(_)
            | Event::Retrying(_)
            | Event::Answered(_)
            | Event::Stderr(_)
            | Event::Noticed(_) => {}
        }
        self.out.tell(event);
    }

    /// A piece of text: of the turn, also when it comes behind its end.
    fn text(&mut self, text: &mut Text) {
        if let Some(late) = self.late.as_mut().filter(|_| text.moment == Moment::Between) {
            text.moment = Moment::Turn;
            if is_answer(text) {
                late.answer.add(&text.text, text.message.as_ref());
            }
        } else if is_answer(text) {
            self.message.clone_from(&text.message);
        }
    }

    fn conclude(&mut self, outcome: Outcome) {
        for event in self.conversation.conclude(outcome) {
            if let Event::Finished(finished) = event {
                self.result(finished);
            } else {
                self.out.tell(event);
            }
        }
    }

    /// The turn is over. After an end that was the agent's own wish there may be words that it has overtaken.
    fn finished(&mut self, now: Now, mut finished: Box<Finished>) {
        if let Some(answer) = self.judged.take() {
            // The agent has gone before the judgement. Its answer was complete.
            self.result(answer);
        }
        if self.cancelled || finished.stop_reason.is_none() || self.told || self.late.is_some() {
            self.tell(now);
            self.result(finished);
            return self.leave(now);
        }
        let said = Said {
            text: std::mem::take(&mut finished.output),
            truncated: finished.output_truncated,
            starts: std::mem::take(&mut finished.starts),
        };
        let answer = Answer::from(said, self.output_limit, self.message.take());
        self.late = Some(Late { finished, answer, until: now.mono + DRAIN });
    }

    /// Nothing more is waited for.
    fn tell(&mut self, now: Now) {
        if let Some(Late { mut finished, mut answer, .. }) = self.late.take() {
            let Said { text, truncated, starts } = answer.take();
            (finished.output, finished.output_truncated, finished.starts) = (text, truncated, starts);
            let is_judged = finished.outcome == Outcome::Completed && !self.cancelled;
            if let Some(left) = self.again.filter(|_| is_judged && self.conversation.is_idle()) {
                let message = finished.messages().last().unwrap_or_default().to_owned();
                let truncated = finished.output_truncated;
                self.judged = Some(finished);
                return self.out.tell(Event::Answered(Box::new(Answered { message, truncated, left })));
            }
            self.result(finished);
            self.leave(now);
        }
    }

    /// The answer is not what was wanted: the agent is asked again, or that is the end.
    fn reject(&mut self, now: Now, mut finished: Box<Finished>, why: String, prompt: Vec<ContentBlock>) {
        if let Some(left) = self.again.filter(|left| *left > 0 && !prompt.is_empty()) {
            self.again = Some(left - 1);
            self.prompt = prompt;
        } else {
            finished.outcome = Outcome::Error;
            finished.error = Some(Failed::new(Phase::Prompt, RootCause::Unwanted { why }));
            self.result(finished);
            self.leave(now);
        }
    }

    /// Tells the result, once. That it was cancelled counts for more than what came of it.
    fn result(&mut self, mut finished: Box<Finished>) {
        if !std::mem::replace(&mut self.told, true) {
            if self.cancelled {
                (finished.outcome, finished.error) = (Outcome::Aborted, None);
            }
            self.timeout = None;
            self.out.tell(Event::Finished(finished));
        }
    }

    fn leave(&mut self, now: Now) {
        // Refused when it is leaving already.
        let _ = self.conversation.command(now, conversation::Command::Shutdown);
    }
}

/// For words that the end of the turn has overtaken: an agent that writes them next has written them by then.
const DRAIN: Duration = Duration::from_millis(10);
