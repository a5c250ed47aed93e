//! A hub, its agents and its clients in a world: ten of each, in virtual time, and everything that may go wrong.

mod agents;
mod clients;
mod desk;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use agentline_core::control::server;
use agentline_core::hub::api::{Reason, Who};
use agentline_core::hub::{AgentKind, AgentSpec, Caller, Command, Config, Errand, Event, Found, Hub, Stored};
use agentline_core::{Address, Machine, Secret, SpawnSpec, Stderr};

use self::agents::Minds;
use self::desk::Desk;
use super::{Tally, outside};
use crate::dice::Dice;
use crate::invariants::{Checked, Checks};
use crate::world::{Faults, Handle, Node, World};

/// Every rule that can be seen to decide from outside.
pub const RULES: &[&str] = &[
    "session.new",
    "dispatched",
    "queued",
    "opened",
    "busy",
    "runner_error",
    "needs_login",
    "slow_start",
    "invalid_args",
    "not_found",
    "not_permitted",
    "abort_sent",
    "already_stopped",
    "completed",
    "cancelled",
    "error",
    "agent_exited",
    "unconfirmed",
    "start_failed",
    "agent_disabled",
    "agent_removed",
    "agent_changed",
    "hub_stopped",
    "waited",
    "shown",
    "listed",
    "deleted",
    "archived",
    "lagged",
    "started again",
    // Of the queue.
    "the queue is full",
    "archived takes none",
    "held",
    "held: cancel_asked",
    "held: agent_exited",
    "held: interrupted",
    "held: start_failed",
    "held: needs_login",
    "held: agent_busy",
    "held: agent_disabled",
    "held: agent_removed",
    "held: agent_changed",
    "released by a prompt",
    "released by a person",
    "retried",
    "nothing to try again",
    "not sent: withdrawn",
    "not sent: closed",
    "not sent: archived",
    "not sent: deleted",
    "not sent: start_failed",
    "kept while no hub ran",
    // Of approvals.
    "asked",
    "program asked",
    "by client",
    "by policy: allowed",
    "by policy: rejected",
    "by policy: cancelled",
    "a policy is narrower",
    "a policy comes too late",
    "by withdrawn",
    "by turn_ended",
    "by cancelled",
    "by gone",
    "already_answered",
    "never asked",
    "not an option of it",
    "an agent may not answer",
];

/// Agents of a city, and clients at once.
pub const PEOPLE: usize = 10;

/// One run, decided by these bytes: how often each rule decided.
///
/// # Panics
///
/// Something that must always hold does not.
#[must_use]
pub fn run(data: &[u8], faults: Faults) -> Tally {
    let (world, moves) = data.split_at(data.len() / 2);
    let mut city = City::new(Dice::new(world), Dice::new(moves), faults);
    while !city.dice.is_empty() {
        city.step();
    }
    city.finish();
    std::mem::take(&mut city.desk.borrow_mut().tally)
}

/// A hub with all who talk to it.
pub struct City<'d> {
    world: World<'d>,
    hub: Handle<Hub>,
    desk: Rc<RefCell<Desk>>,
    clients: Vec<clients::Client>,
    office: Rc<RefCell<Office>>,
    /// What agents are given, and nobody may see.
    secrets: Vec<String>,
    dice: Dice<'d>,
}

/// What the outside of a hub knows.
struct Office {
    agents: Vec<AgentSpec>,
    /// Processes that are no agents.
    innocent: bool,
    changes: u32,
}

impl<'d> City<'d> {
    fn new(world: Dice<'d>, mut dice: Dice<'d>, faults: Faults) -> Self {
        let secrets = world.secrets();
        let mut world = World::new(world, faults);
        let minds = Rc::new(RefCell::new(Minds::new(dice.bytes(8))));
        let office = Office { agents: (0..PEOPLE).map(spec).collect(), innocent: true, changes: 0 };
        for number in 0..PEOPLE {
            agents::move_in(&mut world, &minds, &secrets, number);
        }
        let office = Rc::new(RefCell::new(office));
        let hub = open(&mut world, &office, &secrets, Stored::default());
        let desk = Rc::new(RefCell::new(Desk::default()));
        let mut city = Self { world, hub, desk, clients: Vec::new(), office, secrets, dice };
        city.pass(Duration::from_millis(1));
        city
    }

    fn pass(&mut self, span: Duration) {
        self.world.run_until(self.world.now().mono + span);
    }

    fn step(&mut self) {
        match self.dice.below(24) {
            0 => self.pass(Duration::from_secs(6)),
            1 => self.pass(Duration::from_secs(61)),
            2 if self.dice.once_in(4) => self.pass(Duration::from_secs(3600)),
            3 if self.dice.once_in(4) => self.manifests(),
            4 if self.dice.once_in(8) => self.start_again(),
            5 => {
                let innocent = self.dice.once_in(2);
                self.office.borrow_mut().innocent = innocent || self.dice.once_in(2);
            }
            _ => self.talk(),
        }
        let pause = self.dice.pause();
        self.pass(pause);
        self.check();
    }

    /// The folder of manifests changes.
    fn manifests(&mut self) {
        let number = self.dice.below(PEOPLE);
        let mut office = self.office.borrow_mut();
        let id = spec(number).id;
        let at = office.agents.iter().position(|agent| agent.id == id);
        match at {
            Some(at) if self.dice.once_in(2) => drop(office.agents.remove(at)),
            Some(at) => {
                office.changes += 1;
                let launch = format!("{} {}", id, office.changes);
                office.agents[at].launch = Some(launch);
            }
            None => office.agents.push(spec(number)),
        }
        let agents = office.agents.clone();
        drop(office);
        // Refused when the hub is leaving.
        let _ = self.world.command(self.hub, Command::Agents(agents));
    }

    /// The hub stops, or is killed, and another one takes up its files.
    fn start_again(&mut self) {
        let _ = self.world.command(self.hub, Command::Stop);
        // The clock may jump meanwhile, which costs no time to do things in.
        for _ in 0..100 {
            if !self.world.is_over(self.hub) {
                self.pass(Duration::from_secs(60));
            }
        }
        assert!(self.world.is_over(self.hub), "the hub does not stop");
        assert_eq!(self.world.processes(), 0, "agents are left");
        self.clients.clear();
        let stored = self.stored();
        assert_eq!(stored.problems, [], "damaged files");
        self.check_stored(&stored);
        self.hub = open(&mut self.world, &self.office, &self.secrets, stored);
        self.desk.borrow_mut().tally.count("started again");
        self.desk.borrow_mut().forget();
        self.pass(Duration::from_millis(1));
    }

    /// What is on disk is a hub in which nothing runs.
    fn check_stored(&self, stored: &Stored) {
        let mut desk = self.desk.borrow_mut();
        // A disk that is full may keep a prompt whose session it refused; the next hub tries to remove it.
        let refused = |file: String| self.world.is_unstored(&Path::new(STATE).join(file));
        let uncounted = refused("counters.json".to_owned());
        if uncounted {
            desk.uncounted();
        }
        for record in &stored.records {
            let reserved = record.session.0 <= stored.counters.sessions;
            assert!(reserved || uncounted, "a handle that was not reserved");
            if record.stand.reason == Some(Reason::HubStopped) {
                desk.tally.count("hub_stopped");
            }
        }
        let known: BTreeSet<_> = stored.records.iter().map(|record| record.session).collect();
        for (sid, turn, _) in &stored.prompts {
            let full =
                refused(format!("sessions/{sid}.json")) || refused(format!("queue/{sid}-{}.json", turn.0));
            assert!(full || known.contains(sid), "a prompt of no session");
        }
        stored.prompts.iter().for_each(|_| desk.tally.count("kept while no hub ran"));
    }

    fn stored(&self) -> Stored {
        let mut stored = Stored::default();
        for (path, bytes) in self.world.files() {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let folder = path.parent().and_then(|folder| folder.strip_prefix(STATE).ok());
            let folder = folder.and_then(Path::to_str).expect("below the hub's folder");
            assert!(!stored.read(folder, name, bytes), "{}", path.display());
        }
        stored
    }

    fn check(&mut self) {
        let Some(hub) = self.world.machine(self.hub) else { return };
        for (sid, session) in hub.book().sessions() {
            let owners = [session.turn_at(), session.driver(), session.stuck_at()];
            for owner in owners.into_iter().flatten() {
                assert!(hub.is_live(owner), "{sid}: owned by what is gone");
            }
            assert!(session.queued().len() <= 16);
        }
        self.desk.borrow_mut().look(hub.book());
    }

    fn finish(&mut self) {
        self.start_again();
        let _ = self.world.command(self.hub, Command::Stop);
        self.world.run();
        assert!(self.world.is_over(self.hub), "the hub goes on");
        assert_eq!(self.world.processes(), 0, "agents are left");
    }
}

fn spec(number: usize) -> AgentSpec {
    let id = format!("agent-{number}");
    AgentSpec {
        name: format!("Agent {number}"),
        origin: if number < 5 { "registry" } else { "manifest" }.to_owned(),
        enabled: true,
        default: false,
        launch: Some(id.clone()),
        initialize: None,
        kind: AgentKind::Acp,
        host: Default::default(),
        id: id.into(),
    }
}

fn secret(value: &Secret<String>) -> Secret<OsString> {
    Secret::new(value.expose().into())
}

/// Where a hub of a city keeps its files.
const STATE: &str = "/state";

fn open(
    world: &mut World<'_>,
    office: &Rc<RefCell<Office>>,
    secrets: &[String],
    stored: Stored,
) -> Handle<Hub> {
    let mut control = server::Config::new(address());
    control.watch = 20_000;
    let mut config = Config::new(control);
    config.state = Some(PathBuf::from(STATE));
    config.stored = stored;
    config.home = "/home".to_owned();
    config.agents.clone_from(&office.borrow().agents);
    let machine = Checked::<Hub>::new(world.now(), (Checks::default(), config)).and_secrets(secrets.to_vec());
    let office = Rc::clone(office);
    world.add(Node::new(machine, move |_, event, say| {
        if let Event::Errand(tag, errand) = event {
            let found = office.borrow_mut().found(errand);
            say.push(Command::Done(tag, found));
        }
    }))
}

fn address() -> Address {
    Address("/run/control.sock".into())
}

impl Office {
    fn found(&mut self, errand: Errand) -> Found {
        match errand {
            Errand::Folder(path) => Found::Folder(path != "/nowhere"),
            Errand::Discover => Found::Agents(self.agents.clone(), Vec::new()),
            Errand::Launch { agent, env, .. } => {
                let spec = SpawnSpec {
                    program: (*agent).into(),
                    cwd: "/home".into(),
                    stderr: Stderr::Pipe,
                    env: env.0.into_iter().map(|(name, value)| (name.into(), secret(&value))).collect(),
                    ..SpawnSpec::default()
                };
                Found::Launch(Ok(Box::new(spec)))
            }
            Errand::Enable { agent, on } => {
                let found = self.agents.iter_mut().find(|spec| *spec.id == *agent);
                let changed = found.is_some_and(|spec| std::mem::replace(&mut spec.enabled, on) != on);
                Found::Enabled(Ok(changed))
            }
            errand @ (Errand::Rules(_) | Errand::Read(_) | Errand::File { .. }) => outside(&errand),
            Errand::Who(pid) => Found::Who(Caller {
                who: Who { program: Some("agentline".to_owned()), pid: Some(pid), ..Who::default() },
                ancestors: vec![1],
                marked: !self.innocent,
            }),
        }
    }
}
