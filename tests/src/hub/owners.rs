//! A hub with three links, two agents' processes and a hundred sessions, against the rules of who owns a session: whatever
//! is said in whatever order, no session has two owners, and what is a link's is never asked of a process.

mod peers;

use std::collections::BTreeSet;
use std::time::Duration;

use agentline_core::control::server;
use agentline_core::hub::api::{Reason, Status};
use agentline_core::hub::book::Session;
use agentline_core::hub::{AgentKind, AgentSpec, Command, Config, Event, Hub};
use agentline_core::{Address, Heard, LinkId, Peer};
use serde_json::json;

use self::peers::{Child, Link};
use super::{Tally, outside};
use crate::desk::Desk;
use crate::dice::Dice;

/// Every rule of ownership, and what an owner alone may do.
pub const RULES: &[&str] = &[
    "a free session is taken",
    "an idle process gives it up",
    "a prompt on its way goes by the link",
    "a turn of a process is not robbed",
    "a session of another link is not taken",
    "announced again",
    "fifty sessions a link",
    "a turn of the owner",
    "a turn of another link is nothing",
    "an update of the owner",
    "an update of another link is nothing",
    "a question of the owner",
    "a question of another link is left to its terminal",
    "over in its terminal",
    "over before it was asked",
    "over by a turn",
    "a newer one takes its place",
    "answered by a client",
    "cancelled",
    "lost with its link",
    "prompted at the link",
    "a link that takes no prompts",
    "prompted at a process",
    "a link goes",
    "a link goes in a turn",
    "comes back",
    "goes on in a process",
    "switched off",
    "removed",
    "refused while it is off",
    "the hub stops",
    "a new session of a link",
    "the link that came last",
    "announced before it is answered",
    "a new session that is somebody's",
    "lost while it opens",
];

/// One run, decided by these bytes: how often each rule decided.
///
/// # Panics
///
/// A rule is broken.
#[must_use]
pub fn run(data: &[u8]) -> Tally {
    let mut port = Port::new(Dice::new(data));
    while !port.dice.is_empty() {
        port.step();
        port.check();
    }
    port.stop();
    port.tally
}

const AGENTS: [&str; 2] = ["one", "two"];
/// Sessions of each agent: more than one link may have, and the rest of a hundred.
const NAMES: [usize; 2] = [60, 40];

struct Port<'d> {
    dice: Dice<'d>,
    hub: Desk<Hub>,
    control: LinkId,
    reverse: LinkId,
    /// In the order in which they came.
    links: Vec<Link>,
    children: Vec<Child>,
    /// Whether each agent is there and on.
    on: [bool; 2],
    /// Sessions that lost their link, and have no other yet.
    lost: BTreeSet<(usize, String)>,
    tally: Tally,
}

impl<'d> Port<'d> {
    fn new(dice: Dice<'d>) -> Self {
        let mut config = Config::new(server::Config::new(Address("/run/control.sock".into())));
        config.reverse = Some(Address("/run/acp.sock".into()));
        config.agents = AGENTS.iter().map(|id| spec(id, true)).collect();
        let mut hub = Desk::<Hub>::new(config);
        let at = |name: &str| {
            let mut all = hub.listening.iter();
            all.find(|(_, address)| address.0.ends_with(name)).map(|(link, _)| *link).expect("it listens")
        };
        let [control, reverse] = ["control.sock", "acp.sock"].map(at);
        for link in [control, reverse] {
            hub.heard(link, Heard::Opened(Peer::default()));
        }
        let (links, children, lost) = (Vec::new(), Vec::new(), BTreeSet::new());
        let (on, tally) = ([true; 2], Tally::default());
        let mut port = Self { dice, hub, control, reverse, links, children, on, lost, tally };
        (0..3).for_each(|_| port.dial());
        port
    }

    fn step(&mut self) {
        match self.dice.below(32) {
            0 if self.dice.once_in(30) => self.announce_all(),
            0..=8 => self.announce(),
            9..=11 => self.turn(),
            12 | 13 => self.update(),
            14 | 15 => self.ask(),
            16..=19 => self.send(),
            20 | 21 => self.new_session(),
            22..=24 => self.answer_child(),
            25..=27 => self.answer_link(),
            28 if self.dice.once_in(3) => {
                if let Some(at) = self.some_link() {
                    self.hang_up(at);
                }
            }
            29 if self.dice.once_in(8) => self.crash(),
            30 if self.dice.once_in(12) => self.switch(),
            31 if self.dice.once_in(6) => self.pass(),
            _ if self.links.len() < 3 => self.dial(),
            _ => self.announce(),
        }
    }

    /// What the hub wants is done, and what it wrote is read.
    fn settle(&mut self) {
        loop {
            let told: Vec<Event> = self.hub.events.drain(..).collect();
            for event in told {
                if let Event::Errand(tag, errand) = event {
                    // Refused when nobody waits for it any more.
                    let _ = self.hub.command(Command::Done(tag, outside(&errand)));
                }
            }
            while let Some(link) = self.hub.connecting.pop_front() {
                self.start(link);
            }
            self.bury();
            let said = self.read();
            if !said && self.hub.events.is_empty() && self.hub.connecting.is_empty() {
                break;
            }
        }
    }

    /// A client asks something, and does not wait for the answer.
    fn client(&mut self, command: &str, args: &serde_json::Value) {
        let link = self.hub.accept_at(self.control).expect("clients are let in");
        self.hub.heard(link, Heard::Opened(Peer::default()));
        let line = json!({ "command": command, "args": args });
        self.hub.send(link, format!("{line}\n").as_bytes());
        self.settle();
        for heard in [Heard::Eof, Heard::WriteFailed] {
            self.hub.heard(link, heard);
        }
        self.settle();
    }

    fn name(&mut self) -> (usize, String) {
        let agent = self.dice.below(2);
        (agent, self.name_of(agent))
    }

    fn name_of(&mut self, agent: usize) -> String {
        format!("{}-{}", AGENTS[agent], self.dice.below(NAMES[agent]))
    }

    fn session(&self, agent: usize, name: &str) -> Option<&Session> {
        let book = self.hub.machine.machine().book();
        book.find(AGENTS[agent], &name.into()).and_then(|sid| book.get(sid))
    }

    fn status(&self, agent: usize, name: &str) -> Option<(Status, Option<Reason>)> {
        self.session(agent, name).map(Session::status)
    }

    fn runs(&self, agent: usize, name: &str) -> bool {
        self.session(agent, name).is_some_and(|session| session.running().is_some())
    }

    fn owner(&self, agent: usize, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.agent == agent && link.owns.contains(name))
    }

    /// No session has two owners, and each is where the model has it.
    fn check(&mut self) {
        let book = self.hub.machine.machine().book();
        for (sid, session) in book.sessions() {
            assert!(session.link().is_none() || session.child().is_none(), "{sid} has two owners");
            let turn = session.turn_at();
            assert!(turn.is_none() || turn == session.driver(), "{sid}: a turn of nobody's");
            let agent = AGENTS.iter().position(|id| **id == *session.home.agent).expect("an agent");
            let name = session.name.as_ref().map(ToString::to_string).unwrap_or_default();
            let owner = self.links.iter_mut().find(|link| link.agent == agent && link.owns.contains(&name));
            match (owner, session.link()) {
                (Some(link), Some(source)) => {
                    assert_eq!(*link.source.get_or_insert(source), source, "{sid} is another link's");
                }
                (owner, link) => {
                    assert!(owner.is_none() && link.is_none(), "{sid} {name}: {} {link:?}", owner.is_some());
                }
            }
        }
        for link in &self.links {
            let known = |name: &String| book.find(AGENTS[link.agent], &(**name).into()).is_some();
            assert!(link.owns.iter().all(known), "a session is lost");
        }
    }

    /// Some time without a word. Nobody is asked for a new session meanwhile: that has a clock of its own.
    fn pass(&mut self) {
        while let Some(at) = self.links.iter().position(Link::is_opening) {
            self.answer_new(at, true);
        }
        let minutes = if self.dice.once_in(3) { 11 } else { 1 };
        self.hub.pass(Duration::from_secs(60 * minutes));
        self.settle();
    }

    /// An agent is switched off, or its manifest goes; or it is there again.
    fn switch(&mut self) {
        let agent = self.dice.below(2);
        let removed = self.dice.once_in(2);
        self.on[agent] = !self.on[agent];
        let all = AGENTS.iter().enumerate().filter(|(at, _)| self.on[*at] || *at != agent || !removed);
        let all = all.map(|(at, id)| spec(id, self.on[at])).collect();
        let running = self.running(|link| link.agent == agent);
        assert_eq!(self.hub.command(Command::Agents(all)), Ok(()));
        if self.on[agent] {
            return self.settle();
        }
        let (rule, reason) =
            if removed { ("removed", Reason::AgentRemoved) } else { ("switched off", Reason::AgentDisabled) };
        self.left(rule, reason, running, |link| link.agent == agent);
    }

    fn running(&self, which: impl Fn(&Link) -> bool) -> Vec<(usize, String)> {
        let all = self.links.iter().filter(|link| which(link));
        let owned = all.flat_map(|link| link.owns.iter().map(|name| (link.agent, name.clone())));
        owned.filter(|(agent, name)| self.runs(*agent, name)).collect()
    }

    /// These links are left, and their sessions stood for that reason before they were.
    fn left(
        &mut self,
        rule: &'static str,
        reason: Reason,
        running: Vec<(usize, String)>,
        which: impl Fn(&Link) -> bool,
    ) {
        for (agent, name) in running {
            assert_eq!(self.status(agent, &name), Some((Status::Cancelled, Some(reason))), "{rule}: {name}");
            self.tally.count(rule);
        }
        let (gone, stay) = std::mem::take(&mut self.links).into_iter().partition(|link| which(link));
        self.links = stay;
        for link in gone {
            assert!(self.is_left(link.at), "{rule}: the link is kept");
            self.hub.heard(link.at, Heard::Eof);
            self.lost.extend(link.owns.into_iter().map(|name| (link.agent, name)));
        }
        self.settle();
    }

    fn is_left(&self, link: LinkId) -> bool {
        self.hub.closed.contains(&link) || self.hub.shut.contains(&link)
    }

    fn stop(&mut self) {
        let running = self.running(|_| true);
        assert_eq!(self.hub.command(Command::Stop), Ok(()));
        self.left("the hub stops", Reason::HubStopped, running, |_| true);
        for _ in 0..10 {
            self.hub.pass(Duration::from_secs(5));
            self.settle();
        }
        assert!(self.hub.ended, "it does not end");
    }
}

fn spec(id: &str, enabled: bool) -> AgentSpec {
    AgentSpec {
        id: id.into(),
        name: id.to_uppercase(),
        origin: "manifest".to_owned(),
        enabled,
        default: false,
        launch: Some(id.to_owned()),
        initialize: None,
        kind: AgentKind::Acp,
        host: Default::default(),
    }
}
