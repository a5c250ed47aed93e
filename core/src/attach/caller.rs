//! What people use to speak into a session: a connection for requests, and at need a second one to cancel.

use serde::{Deserialize, Serialize};

use super::canceller::{self, Canceller, GiveUp};
use super::client::{self, Client, Failure, Target};
use super::wire::Answer;
use crate::machine::{Deadline, Ids, Input, Machine, Now, Output, Outputs, Refused, soonest};
use crate::nest::{Nest, Told};

/// What may be asked.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A request on the first connection. A prompt has to wait until a cancel is over, which could hit it, and
    /// until the turn that it ended has wound down.
    Ask(client::Command),
    /// Cancels the session's turn while a prompt of ours is open. Who cancels a turn of somebody else uses a
    /// [`Canceller`].
    Cancel,
}

/// What the caller is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// About the first connection.
    Said(client::Event),
    /// Whether the session took the cancel, told when its turn has wound down; one for each that was not
    /// refused. The prompt itself ends with an answer of its own, and before. May come after the first
    /// connection closed.
    Cancelled(Result<(), Failure>),
}

/// A caller of a session: a [`Client`], and a [`Canceller`] as soon as one is needed.
#[derive(Debug)]
pub struct Caller {
    target: Target,
    /// The session id of the open prompt, if it named one.
    session: Option<String>,
    client: Nest<(), Client>,
    cancellers: Nest<u32, Canceller>,
    /// The number of the last canceller. Those before it are only leaving.
    last: u32,
    ids: Ids,
    out: Outputs<Event>,
}

impl Machine for Caller {
    type Config = Target;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, target: Target) -> Self {
        let mut this = Self {
            client: Nest::of((), Client::new(now, target.clone())),
            target,
            session: None,
            cancellers: Nest::default(),
            last: 0,
            ids: Ids::default(),
            out: Outputs::default(),
        };
        this.settle(now);
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => {
                let _ = self.client.handle(now, link, heard) || self.cancellers.handle(now, link, heard);
            }
            Input::Hold(full) => {
                self.client.hold_all(now, full);
                self.cancellers.hold_all(now, full);
            }
            Input::Tick | Input::StoreFailed(..) => {}
        }
        self.client.tick(now);
        self.cancellers.tick(now);
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if self.client.is_empty() {
            return Err(Refused::Closed);
        }
        match command {
            Command::Ask(client::Command::Prompt { .. }) | Command::Cancel if self.is_cancelling() => {
                return Err(Refused::Busy);
            }
            Command::Ask(ask) => {
                let session = match &ask {
                    client::Command::Prompt { session, .. } => session.clone(),
                    client::Command::Load { .. } | client::Command::Ping | client::Command::Shutdown => None,
                };
                self.client.command(now, &(), ask)?;
                self.session = session;
            }
            Command::Cancel if !self.is_prompting() => return Err(Refused::Unknown),
            Command::Cancel => {
                let config = canceller::Config { target: self.target.clone(), session: self.session.clone() };
                self.last += 1;
                // The number is new.
                let _ = self.cancellers.insert(now, self.last, Canceller::new(now, config));
            }
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        soonest(self.client.deadline(), self.cancellers.deadline())
    }
}

impl Caller {
    fn settle(&mut self, now: Now) {
        while let Some(((), told)) = self.client.next(&mut self.ids, &mut self.out) {
            match told {
                Told::Event(event) => self.said(now, event),
                Told::Ended if self.cancellers.is_empty() => self.out.end(),
                Told::Ended => {}
            }
        }
        while let Some((_, told)) = self.cancellers.next(&mut self.ids, &mut self.out) {
            match told {
                Told::Event(outcome) => self.out.tell(Event::Cancelled(outcome)),
                Told::Ended if self.client.is_empty() && self.cancellers.is_empty() => self.out.end(),
                Told::Ended => {}
            }
        }
    }

    /// A cancel that was not sent yet would hit the next turn.
    fn said(&mut self, now: Now, event: client::Event) {
        if let client::Event::Answered(Ok(Answer::Turn(_)) | Err(_)) = event {
            // Refused when it is on its way: then its answer is waited for.
            let _ = self.cancellers.command(now, &self.last, GiveUp);
        }
        self.out.tell(Event::Said(event));
    }

    fn is_cancelling(&self) -> bool {
        self.cancellers.get(&self.last).is_some_and(Canceller::is_open)
    }

    fn is_prompting(&self) -> bool {
        self.client.get(&()).is_some_and(Client::is_prompting)
    }
}
