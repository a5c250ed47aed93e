//! Cancels the turn of a session, on a connection of its own.

use serde::{Deserialize, Serialize};

use super::client::{self, Client, Event, Failure, Target};
use super::wire::{Method, Params};
use crate::closed::Cause;
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused};
use crate::role::Role;

/// Which turn to cancel.
#[derive(Clone, Debug)]
pub struct Config {
    /// The session.
    pub target: Target,
    /// Its id, if a particular one is meant. Older servers do not look at it.
    pub session: Option<String>,
}

/// Comes too late: the turn has ended by itself, and the next one must not be hit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct GiveUp;

/// Connects, cancels, leaves. Its one event says whether the session took the cancel, which says nothing
/// about whether a turn ran.
#[derive(Debug)]
pub struct Canceller {
    client: Client,
    stage: Stage,
    out: Outputs<Result<(), Failure>>,
}

#[derive(Debug)]
enum Stage {
    /// Not sent yet.
    Connecting {
        session: Option<String>,
    },
    Sent,
    /// The event was told.
    Done,
}

impl Machine for Canceller {
    type Config = Config;
    type Command = GiveUp;
    type Event = Result<(), Failure>;

    fn new(now: Now, Config { target, session }: Config) -> Self {
        let client = Client::new(now, target);
        let mut this = Self { client, stage: Stage::Connecting { session }, out: Outputs::default() };
        this.settle(now);
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.client.handle(now, input);
        self.settle(now);
    }

    /// Refused when the cancel is on its way.
    fn command(&mut self, now: Now, _: GiveUp) -> Result<(), Refused> {
        match self.stage {
            Stage::Connecting { .. } => {
                self.leave(now);
                self.done(Err(Failure::Closed(Cause::Left)));
            }
            Stage::Sent => return Err(Refused::Busy),
            Stage::Done => return Err(Refused::Closed),
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Self::Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.client.deadline()
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
            Event::Answered(answer) => {
                self.done(answer.map(|_| ()));
                self.leave(now);
            }
            Event::Closed(closed) => self.done(Err(Failure::Closed(closed.cause))),
            Event::Noticed(_) => {}
        }
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
