//! A run as it is shown: one start, what happens, one result, and nothing of it twice.

use std::io;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use agentline_core::acp::ContentBlock;
use agentline_core::subagent::{Answered, Command, Event, Outcome};

use crate::ask::Asks;
use crate::failure::Advice;
use crate::output::{EXPIRED, Notes, Screen, Settled, Sink, Start, unwritten};
use crate::schema::again;
use crate::words::{Ended, Problem};

/// What is shown, and how far it is.
pub(crate) struct Show {
    screen: Box<dyn Screen>,
    advice: Rc<Advice>,
    stage: Stage,
    began: Instant,
    /// Who answers questions, if a person does.
    asker: Option<Box<dyn Asks>>,
    /// Why nobody reads any more.
    gone: Option<io::Error>,
}

enum Stage {
    Unstarted(Start),
    Running,
    /// The result was shown; its exit code.
    Over(u8),
}

impl Show {
    pub(crate) fn new(screen: Box<dyn Screen>, advice: Rc<Advice>, start: Start, began: Instant) -> Self {
        Self { screen, advice, stage: Stage::Unstarted(start), began, asker: None, gone: None }
    }

    /// From here on a person is asked.
    pub(crate) fn ask(&mut self, asker: Box<dyn Asks>) {
        self.asker = Some(asker);
    }

    /// Something of ours went wrong, and the run goes on.
    pub(crate) fn warn(&mut self, warning: Option<String>) {
        if let Some(warning) = warning {
            self.screen.warn(warning);
        }
    }

    /// What would be done.
    pub(crate) fn dry_run(&mut self) {
        if let Stage::Unstarted(start) = &self.stage {
            self.screen.dry_run(start);
            self.stage = Stage::Over(0);
        }
    }

    /// The run came to nothing before anything was started.
    pub(crate) fn failed(&mut self, problem: Problem) {
        self.ended(&Ended::nothing(Outcome::Error, Some(self.advice.improved(problem))));
    }

    pub(crate) fn told(&mut self, event: Event) {
        match (event, &self.stage) {
            (Event::Started(peer), _) => self.started(peer.pid),
            (Event::Finished(finished), _) => self.ended(&self.advice.ended(*finished)),
            // The child may have more to say while it goes, but it is no part of the answer.
            (event @ Event::Stderr(_), Stage::Over(_)) => self.screen.told(event),
            (_, Stage::Over(_)) => {}
            (event, Stage::Unstarted(_) | Stage::Running) => self.happened(event),
        }
    }

    /// What is to become of an answer.
    pub(crate) fn judge(&mut self, answered: &Answered) -> Command {
        let judged = self.advice.judge(&answered.message, answered.truncated);
        self.screen.judged(judged.as_ref().err().map(String::as_str), answered.left);
        match judged {
            Ok(_) => Command::Accept,
            Err(why) => {
                let prompt = vec![ContentBlock::text(again(&why))];
                Command::Reject { why, prompt }
            }
        }
    }

    /// Hands over what is gathered.
    pub(crate) fn flush(&mut self) {
        let error = self.screen.flush().err();
        self.gone = self.gone.take().or(error);
    }

    /// Whether it is time to flush even though there is more to come.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self.stage, Stage::Over(_)) || self.screen.is_full()
    }

    /// Waits until it is read. A signal counts for more than a reader that is gone, and that for more than the result.
    /// `until`: the end of the whole run, reading included.
    pub(crate) fn exit_code(mut self, ends: &AtomicU8, until: Option<Instant>, notes: &Notes) -> ExitCode {
        self.flush();
        let is_ended = matches!(self.stage, Stage::Over(EXPIRED | 130)) || ends.load(Ordering::Relaxed) > 0;
        if is_ended {
            Sink::ours().hurry();
        }
        if Sink::ours().settle(until.filter(|_| !is_ended)) == Settled::Expired {
            notes.last_line("✗ the output was not read before --timeout expired; the rest of it is lost");
            Sink::ours().hurry();
            return ExitCode::from(EXPIRED);
        }
        self.flush();
        match (ends.load(Ordering::Relaxed), self.gone, self.stage) {
            (signal, Some(error), _) => unwritten(&error, signal, notes),
            (signal @ 1.., None, _) => ExitCode::from(signal),
            (0, None, Stage::Over(code)) => ExitCode::from(code),
            (0, None, Stage::Unstarted(_) | Stage::Running) => ExitCode::FAILURE,
        }
    }

    fn happened(&mut self, event: Event) {
        if let Some(asker) = &mut self.asker {
            match event {
                Event::PermissionAsked(asked) => {
                    self.screen.before_question();
                    return asker.ask(*asked);
                }
                Event::QuestionAsked(asked) => {
                    self.screen.before_question();
                    return asker.ask_form(*asked);
                }
                Event::PermissionDecided(ref decision) => asker.decided(decision.request),
                Event::QuestionDecided(ref decision) => asker.decided(decision.request),
                Event::Updated(ref updated) => asker.learn(updated),
                Event::Started(_)
                | Event::Ready(_)
                | Event::SessionOpened(_)
                | Event::Listed(_)
                | Event::PageDone(_)
                | Event::FileWanted(_)
                | Event::Hosted(_)
                | Event::Retrying(_)
                | Event::Answered(_)
                | Event::Line(_)
                | Event::Text(_)
                | Event::Stderr(_)
                | Event::Noticed(_)
                | Event::Finished(_)
                | Event::Closed(_) => {}
            }
        }
        self.screen.told(event);
    }

    fn started(&mut self, pid: Option<u32>) {
        if let Stage::Unstarted(start) = std::mem::replace(&mut self.stage, Stage::Running) {
            self.screen.started(&start, pid);
        }
    }

    fn ended(&mut self, ended: &Ended) {
        // There is no result without a start.
        self.started(None);
        self.stage = Stage::Over(ended.exit_code());
        self.screen.finished(ended, self.began.elapsed());
    }
}
