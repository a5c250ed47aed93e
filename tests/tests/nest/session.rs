//! A small server with one lock across its connections, and a machine that holds several of them.

use std::collections::VecDeque;

use agentline_core::nest::{Nest, Serve, Served, Told};
use agentline_core::{
    Address, Deadline, Graces, Ids, Input, Limits, Machine, Now, OpenError, Output, Outputs, Refused,
};
use agentline_tests::toy::{Heard, Say, Talk};

/// Answers each line of each caller, one at a time across all of them.
#[derive(Debug)]
pub(crate) struct Session {
    serve: Serve<Talk>,
    /// Whose line is being answered; `None` once that caller is gone.
    turn: Option<Option<u32>>,
    waiting: VecDeque<(u32, String)>,
    closing: bool,
    ids: Ids,
    out: Outputs<Event>,
}

/// Where a session is served, and to how many.
#[derive(Clone, Debug)]
pub(crate) struct Place(pub(crate) &'static str, pub(crate) usize);

#[derive(Clone, Debug)]
pub(crate) enum Command {
    Answer(String),
    Close,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    Asked(String),
    ListenFailed(OpenError),
}

impl Session {
    /// What every composite does after a step.
    fn settle(&mut self, now: Now) {
        while let Some((conn, told)) = self.serve.next(&mut self.ids, &mut self.out) {
            match told {
                Told::Event(Heard::Line(Ok(line))) => self.waiting.push_back((conn, line)),
                Told::Event(
                    Heard::Opened
                    | Heard::Failed(_)
                    | Heard::Line(Err(_))
                    | Heard::Ended
                    | Heard::Deaf
                    | Heard::Closed(_),
                ) => {}
                Told::Ended => {
                    self.waiting.retain(|(whose, _)| *whose != conn);
                    if self.turn == Some(Some(conn)) {
                        self.turn = Some(None);
                    }
                }
            }
        }
        if self.turn.is_none()
            && let Some((conn, line)) = self.waiting.pop_front()
        {
            self.turn = Some(Some(conn));
            self.out.tell(Event::Asked(line));
        }
        if self.closing && self.serve.conns.is_empty() {
            self.closing = false;
            self.serve.close(&mut self.out);
            self.out.end();
        }
        debug_assert!(self.serve.deadline().is_none_or(|(at, _)| at > now.mono));
    }

    fn served(&mut self, served: Served) {
        match served {
            Served::ListenFailed(error) => self.out.tell(Event::ListenFailed(error)),
            Served::NotOurs | Served::Quiet | Served::Listening | Served::Accepted(_) => {}
        }
    }
}

impl Machine for Session {
    type Config = Place;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, Place(path, seats): Place) -> Self {
        let (mut ids, mut out) = (Ids::default(), Outputs::default());
        let serve = Serve::new(now, Address(path.into()), seats, &Graces::default(), &mut ids, &mut out);
        Self { serve, turn: None, waiting: VecDeque::new(), closing: false, ids, out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(link, heard) = input {
            let make = |_| Talk::adopt(&Limits::default(), &Graces::default());
            let served = self.serve.handle(now, link, heard, &mut self.ids, &mut self.out, make);
            self.served(served);
        }
        let served = self.serve.tick(now, &mut self.ids, &mut self.out);
        self.served(served);
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Answer(answer) => {
                let owner = self.turn.take().ok_or(Refused::Unknown)?;
                if let Some(conn) = owner {
                    // A caller that has just left is no fault of the host's.
                    let _ = self.serve.conns.command(now, &conn, Say::Line(answer));
                }
            }
            Command::Close => {
                self.closing = true;
                self.serve.close(&mut self.out);
                let conns: Vec<u32> = self.serve.conns.keys().copied().collect();
                for conn in conns {
                    let _ = self.serve.conns.command(now, &conn, Say::Leave);
                }
            }
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.serve.deadline()
    }
}

/// Several sessions in one machine: composites inside a composite.
#[derive(Debug)]
pub(crate) struct Hub {
    sessions: Nest<usize, Session>,
    ids: Ids,
    out: Outputs<(usize, Event)>,
}

impl Hub {
    fn settle(&mut self) {
        while let Some((key, told)) = self.sessions.next(&mut self.ids, &mut self.out) {
            if let Told::Event(event) = told {
                self.out.tell((key, event));
            } else if self.sessions.is_empty() {
                self.out.end();
            }
        }
    }
}

impl Machine for Hub {
    type Config = Vec<Place>;
    type Command = (usize, Command);
    type Event = (usize, Event);

    fn new(now: Now, places: Vec<Place>) -> Self {
        let mut hub = Self { sessions: Nest::default(), ids: Ids::default(), out: Outputs::default() };
        for (key, place) in places.into_iter().enumerate() {
            assert!(hub.sessions.insert(now, key, Session::new(now, place)).is_ok());
        }
        hub.settle();
        hub
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(link, heard) = input {
            self.sessions.handle(now, link, heard);
        }
        self.sessions.tick(now);
        self.settle();
    }

    fn command(&mut self, now: Now, (key, command): Self::Command) -> Result<(), Refused> {
        self.sessions.command(now, &key, command)?;
        self.settle();
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Self::Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.sessions.deadline()
    }
}
