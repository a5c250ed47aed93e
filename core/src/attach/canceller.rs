//! Cancels the turn of a session, on a connection of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::{self, Client, Event, Failure, Target};
use super::wire::{Answer, Method, Params};
use crate::closed::Cause;
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Time, soonest};
use crate::role::Role;

/// Which turn to cancel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The session whose turn is to be cancelled.
    pub target: Target,
    /// Its id, if a particular one is meant. Older servers do not look at it.
    pub session: Option<String>,
}

/// Comes too late: the turn has ended by itself, and the next one must not be hit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct GiveUp;

/// Connects, cancels, waits until the turn has wound down, leaves. Its one event says whether the session took
/// the cancel, which says nothing about whether a turn ran.
///
/// A session that still winds down takes further words into the turn that was cancelled, where nobody answers
/// them. So the session is asked until it is no longer busy, for [`Limits::wind_down`](super::Limits::wind_down)
/// at most: it may be busy with a turn of somebody else.
#[derive(Debug)]
pub struct Canceller {
    client: Client,
    stage: Stage,
    wind_down: Duration,
    out: Outputs<Result<(), Failure>>,
}

#[derive(Debug)]
enum Stage {
    /// Nothing is sent before the socket is up.
    Connecting {
        session: Option<String>,
    },
    Sent,
    /// The session took it, and is asked now and then whether it is still busy.
    Winding {
        until: Time,
        ask: Option<Time>,
    },
    /// The event was told.
    Done,
}

impl Machine for Canceller {
    type Config = Config;
    type Command = GiveUp;
    type Event = Result<(), Failure>;

    fn new(now: Now, Config { target, session }: Config) -> Self {
        let wind_down = target.limits.wind_down;
        let client = Client::new(now, target);
        let stage = Stage::Connecting { session };
        let mut this = Self { client, stage, wind_down, out: Outputs::default() };
        this.settle(now);
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.client.handle(now, input);
        self.tick(now);
        self.settle(now);
    }

    /// Refused when the cancel is on its way, or its turn winds down.
    fn command(&mut self, now: Now, _: GiveUp) -> Result<(), Refused> {
        match self.stage {
            Stage::Connecting { .. } => {
                self.leave(now);
                self.done(Err(Failure::Closed(Cause::Left)));
            }
            Stage::Sent | Stage::Winding { .. } => return Err(Refused::Busy),
            Stage::Done => return Err(Refused::Closed),
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Self::Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        let own = match self.stage {
            Stage::Winding { ask: Some(at), .. } => Some((at, "ask whether the turn is over")),
            Stage::Winding { until, .. } => Some((until, "the turn winds down")),
            Stage::Connecting { .. } | Stage::Sent | Stage::Done => None,
        };
        soonest(own, self.client.deadline())
    }
}

impl Canceller {
    /// Whether its event is still to come.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Done)
    }

    fn settle(&mut self, now: Now) {
        while let Some(output) = self.client.poll() {
            match output {
                Output::Do(link, action) => self.out.act(link, action),
                Output::Store(id, store) => self.out.push(Output::Store(id, store)),
                Output::Tell(event) => self.told(now, event),
                Output::End => self.out.end(),
            }
        }
    }

    fn told(&mut self, now: Now, event: Event) {
        match event {
            Event::Ready(_) => self.cancel(now),
            Event::Answered(answer) => self.answered(now, answer),
            Event::Closed(closed) => self.done(match self.stage {
                Stage::Winding { .. } => Ok(()),
                Stage::Connecting { .. } | Stage::Sent | Stage::Done => Err(Failure::Closed(closed.cause)),
            }),
            Event::Noticed(_) => {}
        }
    }

    fn answered(&mut self, now: Now, answer: Result<Answer, Failure>) {
        match (&mut self.stage, answer) {
            (Stage::Sent, Ok(_)) => {
                self.stage = Stage::Winding { until: now.mono + self.wind_down, ask: Some(now.mono) };
                self.tick(now);
            }
            (Stage::Winding { ask, .. }, Ok(Answer::Session(session))) if session.busy => {
                *ask = Some(now.mono + ASK_AGAIN);
            }
            // Whatever it says to the question, it took the cancel.
            (Stage::Winding { .. }, _) => self.finish(now, Ok(())),
            (_, answer) => self.finish(now, answer.map(|_| ())),
        }
    }

    fn tick(&mut self, now: Now) {
        let Stage::Winding { until, ask } = &mut self.stage else { return };
        if *until <= now.mono {
            self.finish(now, Ok(()));
        } else if ask.is_some_and(|at| at <= now.mono) {
            *ask = None;
            let load = client::Command::Load { session: None };
            if self.client.command(now, load).is_err() {
                self.finish(now, Ok(()));
            }
        }
    }

    fn finish(&mut self, now: Now, outcome: Result<(), Failure>) {
        self.done(outcome);
        self.leave(now);
    }

    fn cancel(&mut self, now: Now) {
        if let Stage::Connecting { session } = std::mem::replace(&mut self.stage, Stage::Sent) {
            let params = Params::Other { session_id: session.as_deref() };
            let asked = self.client.act(now, |client| client.request(now, Method::Cancel, &params));
            if asked.is_err() {
                self.done(Err(Failure::Closed(Cause::Left)));
            }
        }
    }

    fn leave(&mut self, now: Now) {
        // Refused when it is leaving already.
        let _ = self.client.command(now, client::Command::Shutdown);
    }

    fn done(&mut self, outcome: Result<(), Failure>) {
        if !matches!(std::mem::replace(&mut self.stage, Stage::Done), Stage::Done) {
            self.out.tell(outcome);
        }
    }
}

/// Between two questions whether the turn is over.
const ASK_AGAIN: Duration = Duration::from_millis(100);
