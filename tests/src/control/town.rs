//! One server and its clients in a world.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::control::{Answer, Client, Fault, Request, Server, client, server};
use agentline_core::{Address, Cause, Machine, Tag};

use super::{Calls, Desk, Numbers, Requests, request};
use crate::dice::Dice;
use crate::invariants::{Checked, Checks};
use crate::world::{Faults, Handle, Node, World};

/// A server with its [`Desk`], and the clients that came so far.
pub struct Town<'d> {
    /// Where they live.
    pub world: World<'d>,
    /// The server.
    pub server: Handle<Server>,
    desk: Rc<RefCell<Desk>>,
    clients: Vec<(Handle<Client>, Rc<RefCell<Fate>>)>,
    /// Arguments that nobody may see.
    secrets: Vec<String>,
}

/// What a client asks for: it does so at once, and leaves when all is answered.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Calls, of every kind that is answered once.
    pub calls: u64,
    /// What it asks for behind them.
    pub stream: Option<&'static str>,
}

/// What became of a client.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// Calls that were answered, well or badly.
    pub answered: u64,
    /// What its stream brought.
    pub frames: Numbers,
    /// Whether its stream was ended by the server.
    pub completed: bool,
    /// Calls that were not answered, and why.
    pub lost: Vec<Cause<Fault>>,
}

impl<'d> Town<'d> {
    /// A server that is about to listen. `watch`: unsent bytes above which a watcher loses frames.
    #[must_use]
    pub fn new(dice: Dice<'d>, faults: Faults, watch: usize) -> Self {
        let secrets = dice.secrets();
        let mut world = World::new(dice, faults);
        let config = server::Config { watch, ..server::Config::new(address()) };
        let machine = Checked::<Server>::new(world.now(), (Checks::default(), config));
        let desk = Rc::new(RefCell::new(Desk::default()));
        let app = Rc::clone(&desk);
        let machine = machine.and(Requests::default()).and_secrets(secrets.clone());
        let node = Node::new(machine, move |_, event, say| {
            app.borrow_mut().on(event, say);
        });
        let server = world.add(node);
        Self { world, server, desk, clients: Vec::new(), secrets }
    }

    /// One more client.
    pub fn visit(&mut self, wish: Wish) {
        let machine = Checked::<Client>::new(self.world.now(), (Checks::default(), config()));
        let fate = Rc::new(RefCell::new(Fate::default()));
        let seen = Rc::clone(&fate);
        let machine = machine.and(Calls::default()).and_secrets(self.secrets.clone());
        let node = Node::new(machine, move |_, event, say| {
            seen.borrow_mut().on(event);
            if seen.borrow().is_over(wish) {
                say.push(client::Command::Close);
            }
        });
        let client = self.world.add(node);
        for (tag, request) in (0..).zip(wish.requests(&self.secrets)) {
            // A client that could not connect refuses; then there is nobody to wait for an answer.
            let _ = self.world.command(client, client::Command::Call(Tag(tag), request));
        }
        self.clients.push((client, fate));
    }

    /// Lets all that can happen without time passing happen.
    pub fn settle(&mut self) {
        self.pass(Duration::ZERO);
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Duration) {
        self.world.run_until(self.world.now().mono + span);
    }

    /// One more frame for every stream, and an answer for everybody who waits.
    pub fn publish(&mut self) {
        let say = self.desk.borrow_mut().publish();
        self.say(say);
    }

    /// Ends every stream.
    pub fn end_streams(&mut self) {
        let say = self.desk.borrow_mut().end_streams();
        self.say(say);
    }

    /// A client stops reading, or reads on.
    pub fn hold(&mut self, client: usize, hold: bool) {
        self.world.hold(self.clients[client].0, hold);
    }

    /// A client has had enough.
    pub fn leave(&mut self, client: usize) {
        // It may be gone already.
        let _ = self.world.command(self.clients[client].0, client::Command::Close);
    }

    /// The server stops, every client reads on, and everything comes to its end.
    ///
    /// # Panics
    ///
    /// Somebody is left behind.
    pub fn close(&mut self) {
        let _ = self.world.command(self.server, server::Command::Shutdown("closed".to_owned()));
        for client in 0..self.clients.len() {
            self.hold(client, false);
        }
        self.world.run();
        assert!(self.world.is_over(self.server), "the server goes on");
        assert!(self.desk.borrow().is_idle(), "the application waits for nobody");
        let left = self.clients.iter().filter(|(client, _)| !self.world.is_over(*client)).count();
        assert_eq!(left, 0, "clients go on");
    }

    /// What became of every client.
    #[must_use]
    pub fn fates(&self) -> Vec<Fate> {
        self.clients.iter().map(|(_, fate)| fate.borrow().clone()).collect()
    }

    fn say(&mut self, say: Vec<server::Command>) {
        for command in say {
            self.world.command(self.server, command).expect("the request is open");
        }
    }
}

impl Wish {
    fn requests(self, secrets: &[String]) -> impl Iterator<Item = Request> {
        let calls = (0..self.calls).map(move |n| match n % 8 {
            3 => request("later", &secrets),
            5 => request("fail", &secrets),
            _ => request("echo", &n),
        });
        calls.chain(self.stream.map(|command| request(command, &64)))
    }
}

impl Fate {
    fn on(&mut self, event: client::Event) {
        match event {
            client::Event::Answered(Tag(tag), Answer::Reply(result)) => {
                assert!(result.get() == "true" || result.get() == tag.to_string(), "{tag}: {result:?}");
                self.answered += 1;
            }
            client::Event::Answered(_, Answer::Fail(_)) => self.answered += 1,
            client::Event::Answered(_, Answer::Frame(data)) => self.frames.take(&data),
            client::Event::Answered(_, Answer::End(_)) => self.completed = true,
            client::Event::Lost(_, why) => self.lost.push(why),
            client::Event::Unexpected { why, line } => {
                // A client that is idle is told before it is left; a connection that breaks tears a line.
                let (idle, torn) = (line.contains("idle_timeout"), why == "not a JSON object");
                assert!(idle || torn && line.starts_with('{'), "{why}: {line}");
            }
            client::Event::Greeted(_) | client::Event::Line(_) | client::Event::Closed(_) => {}
        }
    }

    fn is_over(&self, wish: Wish) -> bool {
        wish.stream.is_none() && self.answered == wish.calls
    }
}

fn address() -> Address {
    Address("/run/control.sock".into())
}

fn config() -> client::Config {
    client::Config::connect(address())
}
