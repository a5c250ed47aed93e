//! A machine and the application that listens to it.

use std::any::Any;

use agentline_core::{Action, Input, LinkId, Machine, Now, Output, Refused, Store, StoreId, Time};

use crate::invariants::Checked;

/// Hears an event and may ask for something in return.
type App<M> = dyn FnMut(Now, <M as Machine>::Event, &mut Vec<<M as Machine>::Command>);

/// A machine with its application, ready to live in a world.
pub struct Node<M: Machine> {
    machine: Checked<M>,
    app: Box<App<M>>,
    term: Option<Box<dyn FnMut() -> M::Command>>,
    exits: fn(&M::Event) -> Option<i32>,
    complains: fn(&M::Event) -> usize,
    status: i32,
    asked: Vec<M::Command>,
}

impl<M: Machine> Node<M> {
    /// A machine whose events go to `app`, which pushes the commands it answers with. What is refused is lost.
    pub fn new(machine: Checked<M>, app: impl FnMut(Now, M::Event, &mut Vec<M::Command>) + 'static) -> Self {
        Self {
            machine,
            app: Box::new(app),
            term: None,
            exits: |_| None,
            complains: |_| 0,
            status: 0,
            asked: Vec::new(),
        }
    }

    /// Turns SIGTERM into a command. Without this it ends the process at once.
    #[must_use]
    pub fn on_term(mut self, command: impl FnMut() -> M::Command + 'static) -> Self {
        self.term = Some(Box::new(command));
        self
    }

    /// Reads from an event with which status the process will exit. Without this it is 0.
    #[must_use]
    pub fn exits(mut self, status: fn(&M::Event) -> Option<i32>) -> Self {
        self.exits = status;
        self
    }

    /// Reads from an event how many bytes the process writes to its standard error.
    #[must_use]
    pub fn complains(mut self, bytes: fn(&M::Event) -> usize) -> Self {
        self.complains = bytes;
        self
    }
}

/// What a node wants of the world.
pub(super) enum Wish {
    Do(LinkId, Action),
    Store(StoreId, Store),
    /// To write this to standard error.
    Complain(Vec<u8>),
    End,
}

/// A node of any kind.
pub(super) trait Actor {
    fn handle(&mut self, now: Now, input: Input<'_>);
    /// Gives a command of the machine's own type.
    fn command(&mut self, now: Now, command: Box<dyn Any>) -> Result<(), Refused>;
    /// The next wish; events before it have been heard.
    fn next(&mut self, now: Now) -> Option<Wish>;
    fn deadline(&self) -> Option<Time>;
    /// Whether SIGTERM was taken as a command.
    fn term(&mut self, now: Now) -> bool;
    /// The status of the process, when the machine has ended.
    fn status(&self) -> i32;
    fn machine(&self) -> &dyn Any;
}

impl<M: Machine<Command: 'static> + 'static> Actor for Node<M> {
    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.machine.handle(now, input);
    }

    fn command(&mut self, now: Now, command: Box<dyn Any>) -> Result<(), Refused> {
        let command = command.downcast().expect("a command of this machine");
        self.machine.command(now, *command)
    }

    fn next(&mut self, now: Now) -> Option<Wish> {
        loop {
            match self.machine.poll()? {
                Output::Do(link, action) => return Some(Wish::Do(link, action)),
                Output::Store(id, store) => return Some(Wish::Store(id, *store)),
                Output::End => return Some(Wish::End),
                Output::Tell(event) => {
                    self.status = (self.exits)(&event).unwrap_or(self.status);
                    let complaint = (self.complains)(&event);
                    (self.app)(now, event, &mut self.asked);
                    for command in self.asked.drain(..) {
                        let _ = self.machine.command(now, command);
                    }
                    if complaint > 0 {
                        return Some(Wish::Complain(vec![b'e'; complaint]));
                    }
                }
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.machine.deadline().map(|(at, _)| at)
    }

    fn term(&mut self, now: Now) -> bool {
        self.term.as_mut().is_some_and(|command| self.machine.command(now, command()).is_ok())
    }

    fn status(&self) -> i32 {
        self.status
    }

    fn machine(&self) -> &dyn Any {
        self.machine.machine()
    }
}
