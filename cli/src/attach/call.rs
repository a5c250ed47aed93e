//! One request to a session, on a connection of its own.

use std::io;

use crate::words::{Kind, Phase, Problem};
use agentline_blocking::Handle;
use agentline_core::Cause;
use agentline_core::attach::caller::{self, Caller};
use agentline_core::attach::client::{self, Failure};
use agentline_core::attach::{Answer, Target};
use agentline_core::trace::Tap;

use crate::output::Notes;
use crate::prompt::usage;
use crate::trace::{Record, Recorded};

pub(super) struct Call {
    driver: Recorded<Caller>,
    ask: Option<client::Command>,
}

/// What happens to a request.
pub(super) enum News {
    /// It is on its way.
    Sent,
    /// Its answer, or why there is none. Comes once.
    Answered(Result<Answer, Failure>),
    /// It cannot be made.
    Refused(Problem),
    /// What came of a cancel: told when the turn has wound down.
    Cancelled(Result<(), Failure>),
}

impl Call {
    pub(super) fn new(
        target: &Target,
        ask: client::Command,
        record: &Record,
        notes: &Notes,
    ) -> Result<Self, Problem> {
        let secrets = vec![target.secret()];
        let driver =
            Recorded::<Caller>::new(target.clone(), ("attach", "caller"), secrets, record.file()?, notes)
                .map_err(|error| internal(&error))?;
        Ok(Self { driver, ask: Some(ask) })
    }

    pub(super) fn handle(&self) -> Handle<Tap<Caller>> {
        self.driver.handle()
    }

    /// The next news. `None`: both connections are over.
    pub(super) fn next(&mut self) -> Option<News> {
        loop {
            match self.driver.next()? {
                caller::Event::Said(client::Event::Ready(_)) => {
                    let Some(ask) = self.ask.take() else { continue };
                    return Some(match self.driver.command(caller::Command::Ask(ask)) {
                        Ok(()) => News::Sent,
                        Err(refused) => News::Refused(usage(refused.to_string())),
                    });
                }
                caller::Event::Said(client::Event::Answered(answer)) => {
                    self.ask = None;
                    return Some(News::Answered(answer));
                }
                // It never came to the request.
                caller::Event::Said(client::Event::Closed(closed)) if self.ask.take().is_some() => {
                    return Some(News::Answered(Err(Failure::Closed(closed.cause))));
                }
                caller::Event::Cancelled(outcome) => return Some(News::Cancelled(outcome)),
                caller::Event::Said(client::Event::Closed(_) | client::Event::Noticed(_)) => {}
            }
        }
    }

    /// The answer to a request that cannot be cancelled.
    pub(super) fn answer(mut self) -> Result<Answer, Problem> {
        while let Some(news) = self.next() {
            match news {
                News::Answered(answer) => return answer.map_err(|failure| Problem::from(&failure)),
                News::Refused(problem) => return Err(problem),
                News::Sent | News::Cancelled(_) => {}
            }
        }
        Err(Problem::from(&Cause::Gone))
    }
}

/// Refused when it is leaving already.
pub(super) fn leave(call: &Handle<Tap<Caller>>) {
    let _ = call.command(caller::Command::Ask(client::Command::Shutdown));
}

pub(super) fn internal(error: &io::Error) -> Problem {
    Problem::new(Phase::Connect, Kind::Internal, error.to_string())
}
