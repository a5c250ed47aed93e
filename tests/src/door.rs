//! A hub's door: a listener, and a link for each agent that dials in.

use agentline_core::nest::{Serve, Served, Told};
use agentline_core::reverse::acceptor::{self, Acceptor, Config};
use agentline_core::{
    Address, Deadline, Graces, Ids, Input, Machine, Now, OpenError, Output, Outputs, Refused,
};
use serde::Serialize;

/// Listens, and tells what each link says, by its number.
#[derive(Debug)]
pub struct Door {
    serve: Serve<Acceptor>,
    ids: Ids,
    stage: Stage,
    out: Outputs<Event>,
}

#[derive(Debug, Eq, PartialEq)]
enum Stage {
    Open,
    /// Links are leaving.
    Closing(Option<OpenError>),
    Closed,
}

/// What may be asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// Of the link of that number.
    To(u32, acceptor::Command),
    /// To end all of them, and the listener.
    Close,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Agents can dial in.
    Listening,
    /// By the link of that number.
    Said(u32, acceptor::Event),
    /// There is no door any more, or there never was one.
    Closed(Option<OpenError>),
}

impl Machine for Door {
    type Config = Address;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, address: Address) -> Self {
        let (mut ids, mut out) = (Ids::default(), Outputs::default());
        let serve = Serve::new(now, address, 16, &Graces::default(), &mut ids, &mut out);
        Self { serve, ids, stage: Stage::Open, out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(link, heard) = input {
            let (ids, out) = (&mut self.ids, &mut self.out);
            let served =
                self.serve.handle(now, link, heard, ids, out, |_| Acceptor::new(now, Config::taken()));
            self.served(served);
        }
        let served = self.serve.tick(now, &mut self.ids, &mut self.out);
        self.served(served);
        self.settle();
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let done = match command {
            Command::To(link, command) => self.serve.conns.command(now, &link, command),
            Command::Close if self.stage == Stage::Open => {
                self.stage = Stage::Closing(None);
                self.serve.close(&mut self.out);
                for link in self.serve.conns.keys().copied().collect::<Vec<_>>() {
                    // One that is leaving is asked no more.
                    let _ = self.serve.conns.command(now, &link, acceptor::Command::Leave);
                }
                Ok(())
            }
            Command::Close => Err(Refused::Closed),
        };
        self.settle();
        done
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.serve.deadline()
    }
}

impl Door {
    fn served(&mut self, served: Served) {
        match served {
            Served::Listening => self.out.tell(Event::Listening),
            Served::ListenFailed(error) => self.stage = Stage::Closing(Some(error)),
            Served::NotOurs | Served::Quiet | Served::Accepted(_) => {}
        }
    }

    fn settle(&mut self) {
        while let Some((link, told)) = self.serve.next(&mut self.ids, &mut self.out) {
            if let Told::Event(event) = told {
                self.out.tell(Event::Said(link, event));
            }
        }
        if let Stage::Closing(failed) = self.stage
            && self.serve.conns.is_empty()
        {
            self.stage = Stage::Closed;
            self.out.tell(Event::Closed(failed));
            self.out.end();
        }
    }
}
