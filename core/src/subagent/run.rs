//! The machine of one run.

use std::time::Duration;

use super::{Command, Config};
use crate::acp::ContentBlock;
use crate::conversation::{self, Conversation, Event, Finished, Outcome};
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Time, soonest};
use crate::problem::Clock;

/// One prompt to one fresh child.
#[derive(Debug)]
pub struct Run {
    conversation: Conversation,
    prompt: Vec<ContentBlock>,
    /// When the clock of the whole run expires, and what it stood at. Once the agent is lost, the graces of the teardown
    /// count.
    timeout: Option<(Time, Duration)>,
    cancelled: bool,
    /// The result is told.
    told: bool,
    out: Outputs<Event>,
}

impl Machine for Run {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config {
            client,
            setup,
            session,
            login,
            settings,
            prompt,
            policy,
            rules,
            questions,
            budget,
            timeout,
            output_limit: output,
        } = config;
        let config = conversation::Config {
            client,
            setup,
            session,
            login,
            settings,
            policy,
            rules,
            questions,
            budget,
            output,
        };
        let mut run = Self {
            conversation: Conversation::new(now, config),
            prompt,
            timeout: timeout.map(|timeout| (now.mono + timeout, timeout)),
            cancelled: false,
            told: false,
            out: Outputs::default(),
        };
        run.settle(now);
        run
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.conversation.handle(now, input);
        self.settle(now);
        if let Some((_, after)) = self.timeout.take_if(|(at, _)| *at <= now.mono) {
            if self.cancelled {
                self.leave(now);
            } else {
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
        let timeout = self.timeout.map(|(at, _)| (at, "the whole run"));
        soonest(timeout, self.conversation.deadline())
    }
}

impl Run {
    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Cancel if self.told => Err(Refused::Closed),
            Command::Cancel => {
                let again = std::mem::replace(&mut self.cancelled, true);
                // Without a turn, and a second time, the agent's word is not waited for.
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
            Command::Dispose => {
                self.cancelled |= !self.told;
                self.leave(now);
                Ok(())
            }
            Command::Hasten => {
                self.cancelled |= !self.told;
                self.conversation.command(now, conversation::Command::Hasten)
            }
        }
    }

    fn settle(&mut self, now: Now) {
        loop {
            while let Some(output) = self.conversation.poll() {
                if let Some(event) = self.out.pass(output) {
                    self.heard(now, event);
                }
            }
            if !self.conversation.is_idle() {
                break;
            }
            self.begin(now);
        }
        if self.conversation.is_leaving() {
            self.timeout = None;
        }
    }

    /// The conversation can be spoken to, for the first and only time.
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
        if let Event::Finished(finished) = event {
            self.finished(finished);
            return self.leave(now);
        }
        if let Event::Closed(_) = event
            && !self.told
        {
            // It was to end before there was a turn.
            self.conclude(Outcome::Aborted);
        }
        self.out.tell(event);
    }

    fn conclude(&mut self, outcome: Outcome) {
        for event in self.conversation.conclude(outcome) {
            if let Event::Finished(finished) = event {
                self.finished(finished);
            } else {
                self.out.tell(event);
            }
        }
    }

    /// Tells the result, once. That it was cancelled counts for more than what came of it.
    fn finished(&mut self, mut finished: Box<Finished>) {
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
