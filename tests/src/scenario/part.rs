//! One machine of a scenario and its application.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use agentline_blocking::{Driver, Given};
use agentline_core::Machine;
use agentline_smol::spawn_with_given;
use serde::Serialize;
use smol::future::zip;

use super::account::{Ledger, Noted};
use crate::invariants::{Checked, Checks};
use crate::world::{Node, Stream, World};

/// A machine and what its application says.
pub struct Role<M: Machine> {
    config: M::Config,
    checks: Checks,
    busy: bool,
    first: Vec<M::Command>,
    app: App<M>,
    farewell: Option<M::Command>,
    ledger: Ledger,
}

/// Says what it has to say at the events that it waits for, one after the other.
struct App<M: Machine>(VecDeque<(&'static str, Vec<M::Command>)>);

impl<M: Machine<Event: Serialize>> Role<M> {
    /// A machine whose application only listens.
    pub fn new(config: M::Config) -> Self {
        Self {
            config,
            checks: Checks::default(),
            busy: false,
            first: Vec::new(),
            app: App(VecDeque::new()),
            farewell: None,
            ledger: Ledger::default(),
        }
    }

    /// What the application says at once.
    #[must_use]
    pub fn first(mut self, commands: impl IntoIterator<Item = M::Command>) -> Self {
        self.first.extend(commands);
        self
    }

    /// What the application says next: at the next event whose JSON has that text in it.
    #[must_use]
    pub fn at(mut self, event: &'static str, commands: impl IntoIterator<Item = M::Command>) -> Self {
        self.app.0.push_back((event, commands.into_iter().collect()));
        self
    }

    /// What makes it leave when its guest has left.
    #[must_use]
    pub fn farewell(mut self, command: M::Command) -> Self {
        self.farewell = Some(command);
        self
    }

    /// Its application takes a moment for each event.
    #[must_use]
    pub const fn busy(mut self) -> Self {
        self.busy = true;
        self
    }

    /// What it writes is not JSON.
    #[must_use]
    pub const fn writes_text(mut self) -> Self {
        self.checks.json = false;
        self
    }
}

/// Makes a part leave.
pub type Leave = Box<dyn FnOnce() + Send>;

/// A role whose machine may be of any kind.
pub trait Part: Send {
    /// Where its account is kept.
    fn ledger(&self) -> Ledger;

    /// Plays it on the blocking runtime. `begun` is told at the first event.
    fn block(self: Box<Self>, given: Option<Given>, begun: Box<dyn FnOnce(Leave)>);

    /// Plays it on the smol runtime. `begun` is told at the first event.
    fn run(
        self: Box<Self>,
        given: Option<Given>,
        begun: Box<dyn FnOnce(Leave)>,
    ) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Puts it into a world.
    fn seat(self: Box<Self>, world: &mut World<'_>, given: Option<Stream>) -> Seated;
}

/// A part in a world.
pub struct Seated {
    /// Whether its machine has ended.
    pub is_over: Box<dyn Fn(&World<'_>) -> bool>,
    /// Makes it leave.
    pub leave: Box<dyn FnOnce(&mut World<'_>)>,
}

impl<M> Part for Role<M>
where
    M: Machine<Config: Send, Command: Send, Event: Serialize + Send> + Send + 'static,
{
    fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    fn block(self: Box<Self>, given: Option<Given>, begun: Box<dyn FnOnce(Leave)>) {
        let Self { config, busy, first, mut app, farewell, ledger, .. } = *self;
        let config = (config, ledger, busy);
        let mut driver = Driver::<Noted<M>>::with_given(config, given).expect("descriptors are left");
        let mut beginning = Some((begun, farewell));
        for command in first {
            let _ = driver.command(command);
        }
        while let Some(event) = driver.next() {
            for command in app.hear(&event) {
                let _ = driver.command(command);
            }
            if let Some((begun, farewell)) = beginning.take() {
                let handle = driver.handle();
                begun(Box::new(move || {
                    let _ = farewell.map(|command| handle.command(command));
                }));
            }
        }
    }

    fn run(
        self: Box<Self>,
        given: Option<Given>,
        begun: Box<dyn FnOnce(Leave)>,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        let Self { config, busy, first, mut app, farewell, ledger, .. } = *self;
        let config = (config, ledger, busy);
        let (mut events, driver) = spawn_with_given::<Noted<M>>(config, given).expect("descriptors are left");
        let mut beginning = Some((begun, farewell));
        for command in first {
            let _ = events.command(command);
        }
        let listen = async move {
            while let Some(event) = events.next().await {
                for command in app.hear(&event) {
                    let _ = events.command(command);
                }
                if let Some((begun, farewell)) = beginning.take() {
                    let handle = events.handle();
                    begun(Box::new(move || {
                        let _ = farewell.map(|command| handle.command(command));
                    }));
                }
            }
        };
        Box::pin(async move {
            zip(driver, listen).await;
        })
    }

    fn seat(self: Box<Self>, world: &mut World<'_>, given: Option<Stream>) -> Seated {
        let Self { config, checks, busy, first, mut app, farewell, ledger } = *self;
        let machine = Checked::new(world.now(), (checks, (config, ledger, busy)));
        let node: Node<Noted<M>> = Node::new(machine, move |_, event, say| say.extend(app.hear(&event)));
        let handle = match given {
            Some(given) => world.add_with_given(node, given),
            None => world.add(node),
        };
        for command in first {
            let _ = world.command(handle, command);
        }
        Seated {
            is_over: Box::new(move |world| world.is_over(handle)),
            leave: Box::new(move |world| {
                let _ = farewell.map(|command| world.command(handle, command));
            }),
        }
    }
}

impl<M: Machine<Event: Serialize>> App<M> {
    fn hear(&mut self, event: &M::Event) -> Vec<M::Command> {
        let Some((text, _)) = self.0.front() else { return Vec::new() };
        let json = serde_json::to_string(event).expect("events are data");
        if !json.contains(text) {
            return Vec::new();
        }
        self.0.pop_front().map(|(_, commands)| commands).unwrap_or_default()
    }
}
