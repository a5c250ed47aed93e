//! Agents that dial in at a hub: seen live, prompted, answered and stopped, and what is theirs stays theirs.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::update::{Speaker, ToolCallUpdate};
use agentline_core::acp::{OptionKind, PermissionOption, PermissionOutcome, SessionId, StopReason};
use agentline_core::control::{Client, Request, client, server};
use agentline_core::hub::api::{Reason, Status};
use agentline_core::hub::{AgentKind, AgentSpec, Command, Config, Event, Hub};
use agentline_core::reverse::Capabilities;
use agentline_core::reverse::agent::{self, Agent, Fault};
use agentline_core::{Address, Cause, Machine, Tag};
use agentline_tests::hub::outside;
use agentline_tests::world::{Faults, Handle, Node, World};
use agentline_tests::{Checked, Checks, Dice};
use serde_json::json;

/// A hub that knows `mine` and `off`, in a world where nothing goes wrong.
struct House<'d> {
    world: World<'d>,
    hub: Handle<Hub>,
}

/// An agent that dialled in, and what it was told.
struct Dialled {
    handle: Handle<Agent>,
    told: Rc<RefCell<Vec<agent::Event>>>,
}

fn spec(id: &str, enabled: bool) -> AgentSpec {
    AgentSpec {
        id: id.into(),
        name: id.to_owned(),
        origin: "manifest".to_owned(),
        enabled,
        default: false,
        launch: None,
        initialize: None,
        kind: AgentKind::Acp,
        host: Default::default(),
    }
}

impl House<'_> {
    fn new() -> Self {
        let mut world = World::new(Dice::new(&[]), Faults::NONE);
        let mut config = Config::new(server::Config::new(Address("/run/control.sock".into())));
        config.reverse = Some(Address("/run/acp.sock".into()));
        config.agents = vec![spec("mine", true), spec("off", false)];
        let machine = Checked::<Hub>::new(world.now(), (Checks::default(), config));
        let hub = world.add(Node::new(machine, |_, event, say| {
            if let Event::Errand(tag, errand) = event {
                say.push(Command::Done(tag, outside(&errand)));
            }
        }));
        let mut house = Self { world, hub };
        house.settle();
        house
    }

    fn settle(&mut self) {
        let now = self.world.now().mono;
        self.world.run_until(now);
    }

    fn dial(&mut self, id: &str) -> Dialled {
        let capabilities = Capabilities { prompt: true, cancel: true, new_session: false };
        let hub = Address("/run/acp.sock".into());
        let config = agent::Config { capabilities, ..agent::Config::connect(hub, id) };
        let told = Rc::new(RefCell::new(Vec::new()));
        let hears = Rc::clone(&told);
        let machine = Checked::<Agent>::new(self.world.now(), (Checks::default(), config));
        let handle = self.world.add(Node::new(machine, move |_, event, _| hears.borrow_mut().push(event)));
        self.settle();
        Dialled { handle, told }
    }

    /// One that was let in and shows a session.
    fn shown(&mut self, id: &str) -> Dialled {
        let dialled = self.dial(id);
        assert_eq!(*dialled.told.borrow(), [agent::Event::Accepted]);
        self.does(&dialled, [announce()]);
        dialled
    }

    fn does(&mut self, dialled: &Dialled, commands: impl IntoIterator<Item = agent::Command>) {
        for command in commands {
            assert_eq!(self.world.command(dialled.handle, command), Ok(()));
        }
        self.settle();
    }

    /// A client says one thing; what it was answered.
    fn call(&mut self, command: &str, args: serde_json::Value) -> String {
        let heard = Rc::new(RefCell::new(String::new()));
        let hears = Rc::clone(&heard);
        let config = client::Config::connect(Address("/run/control.sock".into()));
        let machine = Checked::<Client>::new(self.world.now(), (Checks::default(), config));
        let client = self.world.add(Node::new(machine, move |_, event, say| {
            if let client::Event::Answered(_, answer) = event {
                *hears.borrow_mut() = format!("{answer:?}");
                say.push(client::Command::Close);
            }
        }));
        let args = serde_json::from_value(args).expect("JSON");
        let request = Request { command: command.to_owned(), args: Some(args) };
        let _ = self.world.command(client, client::Command::Call(Tag(1), request));
        self.settle();
        heard.borrow().clone()
    }

    fn status(&self) -> (Status, Option<Reason>) {
        let hub = self.world.machine(self.hub).expect("a hub");
        let (_, session) = hub.book().sessions().next().expect("a session");
        session.status()
    }
}

impl Dialled {
    fn prompt(&self) -> agent::Command {
        let told = self.told.borrow();
        let turn = told.iter().rev().find_map(|event| {
            if let agent::Event::Prompted(prompted) = event { Some(prompted.turn) } else { None }
        });
        let turn = turn.expect("a prompt");
        agent::Command::EndPrompt { turn, stopped: Box::new(StopReason::EndTurn.into()) }
    }

    fn end(&self) -> Option<Cause<Fault>> {
        match self.told.borrow().last() {
            Some(agent::Event::Closed(closed)) => Some(closed.cause.clone()),
            _ => None,
        }
    }
}

fn announce() -> agent::Command {
    agent::Command::Announce { session: "s".into(), cwd: "/w".to_owned(), title: Some("the page".to_owned()) }
}

fn start() -> agent::Command {
    agent::Command::StartTurn { session: "s".into() }
}

fn ask() -> agent::Command {
    let option = PermissionOption { option_id: "y".into(), name: "yes".into(), kind: OptionKind::AllowOnce };
    let tool_call = Box::new(ToolCallUpdate { tool_call_id: "c".into(), ..ToolCallUpdate::default() });
    agent::Command::AskPermission { tag: Tag(1), session: "s".into(), tool_call, options: vec![option] }
}

#[test]
fn a_session_is_seen_live() {
    let mut house = House::new();
    let mine = house.shown("mine");
    let hub = house.world.machine(house.hub).expect("a hub");
    let (_, session) = hub.book().sessions().next().expect("a session");
    assert_eq!((&*session.home.agent, &*session.home.cwd), ("mine", "/w"));
    assert_eq!(session.story.title(), Some("the page"));
    house.does(&mine, [start()]);
    assert_eq!(house.status().0, Status::Running);
    house.does(&mine, [agent::Command::EndTurn { session: "s".into(), reason: StopReason::EndTurn }]);
    assert_eq!(house.status().0, Status::Completed);
    assert!(house.call("health", json!({})).contains(r#""links":1"#));
}

/// A hundred transcripts of one agent are kept.
#[test]
fn the_transcript_of_a_session_at_work_is_kept_and_the_oldest_quiet_one_is_not() {
    let mut house = House::new();
    let links: Vec<_> = (0..3).map(|_| house.dial("mine")).collect();
    let name = |number: usize| SessionId::from(&*format!("s-{number}"));
    for number in 0..102 {
        let session = name(number);
        let (cwd, title) = ("/w".to_owned(), None);
        let mut commands = vec![
            agent::Command::Announce { session: session.clone(), cwd, title },
            agent::Command::StartTurn { session: session.clone() },
            agent::Command::Say {
                session: session.clone(),
                speaker: Speaker::Agent,
                text: "word".to_owned(),
                message: None,
            },
        ];
        if number > 0 {
            commands.push(agent::Command::EndTurn { session, reason: StopReason::EndTurn });
        }
        house.does(&links[number / 50], commands);
        let later = house.world.now().mono + Duration::from_secs(1);
        house.world.run_until(later);
    }
    let hub = house.world.machine(house.hub).expect("a hub");
    let is_empty = |number| {
        let of = hub.book().find("mine", &name(number)).and_then(|sid| hub.book().get(sid));
        of.expect("a session").story.transcript.entries().next().is_none()
    };
    let emptied: Vec<usize> = (0..102).filter(|number| is_empty(*number)).collect();
    assert_eq!(emptied, [1, 2], "the first one is at work");
}

#[test]
fn a_client_speaks_answers_and_stops() {
    let mut house = House::new();
    let mine = house.shown("mine");
    house.call("session.send", json!({"sessionId": "s1", "content": "go on"}));
    house.does(&mine, [ask()]);
    assert_eq!(house.status().0, Status::WaitingApproval);
    house.call("approval.respond", json!({"approvalId": "a1", "decision": "allow"}));
    let yes = agent::Event::PermissionAnswered(Tag(1), PermissionOutcome::selected("y"));
    assert_eq!(mine.told.borrow().last(), Some(&yes));
    house.does(&mine, [mine.prompt()]);
    assert_eq!(house.status().0, Status::Completed);
    house.does(&mine, [start()]);
    house.call("session.stop", json!({"sessionId": "s1"}));
    assert_eq!(mine.told.borrow().last(), Some(&agent::Event::Cancelled("s".into())));
}

#[test]
fn who_is_not_known_or_switched_off_is_told_the_line_that_helps() {
    let mut house = House::new();
    for (id, line) in [("nope", "agentline agent add nope"), ("off", "agentline agent enable off")] {
        let dialled = house.dial(id);
        let Some(Cause::Fault(Fault::Refused(why))) = dialled.end() else { panic!("{:?}", dialled.end()) };
        assert!(why.contains(line), "{why}");
    }
    house.shown("agentline-chat");
}

#[test]
fn a_session_of_another_link_is_not_taken() {
    let mut house = House::new();
    let mine = house.shown("mine");
    let other = house.shown("mine");
    house.does(&other, [start(), ask()]);
    assert_eq!(other.told.borrow().last(), Some(&agent::Event::Unanswered(Tag(1))));
    assert_ne!(house.status().0, Status::Running);
    house.does(&mine, [start()]);
    assert_eq!(house.status().0, Status::Running);
    // It may have it when the first one is gone.
    house.does(&mine, [agent::Command::Leave]);
    assert_eq!(house.status(), (Status::Cancelled, Some(Reason::LinkLost)));
    house.does(&other, [announce(), ask()]);
    assert_eq!(house.status().0, Status::WaitingApproval);
}

#[test]
fn a_turn_that_runs_already_runs_for_whoever_gets_to_see_its_session() {
    let mut house = House::new();
    let mine = house.shown("mine");
    let other = house.shown("mine");
    house.does(&other, [start()]);
    house.does(&mine, [agent::Command::Leave]);
    house.does(&other, [announce()]);
    assert_eq!(house.status().0, Status::Running);
    house.call("session.send", json!({"sessionId": "s1", "content": "and then"}));
    house.does(&other, [agent::Command::EndTurn { session: "s".into(), reason: StopReason::EndTurn }]);
    assert!(matches!(other.told.borrow().last(), Some(agent::Event::Prompted(_))));
}

#[test]
fn what_a_link_offered_ends_with_it() {
    let mut house = House::new();
    let mine = house.shown("mine");
    let offered = |house: &House<'_>| {
        let hub = house.world.machine(house.hub).expect("a hub");
        hub.book().sessions().next().expect("a session").1.can
    };
    assert!(offered(&house).is_some_and(|can| can.prompt));
    house.does(&mine, [agent::Command::Leave]);
    assert_eq!(offered(&house), None);
}

#[test]
fn an_agent_that_is_switched_off_or_gone_is_left() {
    for (agents, reason) in
        [(vec![spec("mine", false)], Reason::AgentDisabled), (Vec::new(), Reason::AgentRemoved)]
    {
        let mut house = House::new();
        let mine = house.shown("mine");
        house.does(&mine, [start()]);
        assert_eq!(house.world.command(house.hub, Command::Agents(agents)), Ok(()));
        house.settle();
        assert_eq!((house.status(), mine.end()), ((Status::Cancelled, Some(reason)), Some(Cause::Gone)));
    }
}

#[test]
fn a_hub_that_stops_leaves_everybody() {
    let mut house = House::new();
    let mine = house.shown("mine");
    house.does(&mine, [start()]);
    assert_eq!(house.world.command(house.hub, Command::Stop), Ok(()));
    house.world.run();
    assert!(house.world.is_over(house.hub));
    assert_eq!(mine.end(), Some(Cause::Gone));
}
