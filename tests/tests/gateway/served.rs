//! An ACP agent as a session that others attach to: the real caller in front of the gateway.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::SessionSetup;
use agentline_core::attach::caller::{self, Caller};
use agentline_core::attach::client::{Command, Event};
use agentline_core::attach::presence::Record;
use agentline_core::attach::{Answer, server};
use agentline_core::conversation::{Allow, Policy};
use agentline_core::gateway::{self, AttachConfig, Config, FrontConfig, Gateway};
use agentline_core::{Machine, Now};
use agentline_tests::attach::{RECORD, config as session, target};
use agentline_tests::{Checked, Checks, Dice, Faults, Handle, Node, World};

use super::agent;

type Seen = Rc<RefCell<Vec<String>>>;

struct Scene<'d> {
    world: World<'d>,
    gateway: Handle<Gateway>,
    told: Seen,
}

impl Scene<'_> {
    fn new(policy: Policy) -> Self {
        Self::of(policy, true)
    }

    fn of(policy: Policy, has_agent: bool) -> Self {
        let mut world = World::new(Dice::new(&[]), Faults::NONE);
        if has_agent {
            agent::install(&mut world);
        }
        let server = session();
        let record = Record { session_id: None, ..server.record };
        let server = server::Config { record, ..server };
        let setup = SessionSetup::in_directory("/w");
        let front = FrontConfig::Attach(Box::new(AttachConfig { server, setup }));
        let config = Config { policy, ..Config::new(front, agent::source()) };
        let told = Seen::default();
        let events = Rc::clone(&told);
        let machine: Checked<Gateway> = Checked::new(Now::default(), (Checks::default(), config));
        let gateway = world.add(Node::new(machine, move |_, event, _: &mut Vec<gateway::Command>| {
            events.borrow_mut().push(match event {
                gateway::Event::Ruled(ruled) => format!("{} {:?}", ruled.title, ruled.option),
                gateway::Event::Unserved(why) => format!("unserved: {why}"),
                gateway::Event::Listening(_) => "listening".to_owned(),
                _ => return,
            });
        }));
        world.run_until(world.now().mono + Duration::from_secs(2));
        Self { world, gateway, told }
    }

    /// Somebody attaches and says that. What comes back, when it does.
    fn says(&mut self, text: &'static str, cancels: bool) -> Vec<String> {
        let seen = Seen::default();
        let told = Rc::clone(&seen);
        let machine: Checked<Caller> = Checked::new(Now::default(), (Checks::default(), target()));
        self.world.add(Node::new(machine, move |_, event, say| {
            let caller::Event::Said(event) = event else { return };
            match event {
                Event::Ready(_) => say.push(caller::Command::Ask(Command::Prompt {
                    session: Some("s".to_owned()),
                    text: text.to_owned(),
                })),
                Event::Answered(answer) => {
                    told.borrow_mut().push(match answer {
                        Ok(Answer::Turn(turn)) => {
                            format!("{} {}", turn.stop.as_str(), turn.answer.unwrap_or_default())
                        }
                        Ok(_) => "something else".to_owned(),
                        Err(failure) => failure.to_string(),
                    });
                    say.push(caller::Command::Ask(Command::Shutdown));
                }
                _ => {}
            }
            if cancels && told.borrow().is_empty() {
                say.push(caller::Command::Cancel);
            }
        }));
        self.world.run_until(self.world.now().mono + Duration::from_secs(20));
        std::mem::take(&mut *seen.borrow_mut())
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.borrow_mut())
    }

    fn record(&self) -> Option<Record> {
        self.world.file(Path::new(RECORD)).and_then(|bytes| Record::read(bytes).ok())
    }
}

#[test]
fn who_finds_the_session_is_answered() {
    let mut scene = Scene::new(Policy::Reject);
    assert_eq!(scene.told(), ["listening"]);
    let record = scene.record().expect("it can be found");
    assert_eq!((record.session_id.as_deref(), record.name.as_str()), (Some("s"), "proj-7f"));
    assert_eq!(scene.says("hello", false), ["end_turn to hello"]);
    assert_eq!(scene.says("refuse", false), ["refusal "]);
    assert_eq!(scene.says("fail", false), ["the turn failed: boom"]);
    let _ = scene.world.command(scene.gateway, gateway::Command::Shutdown);
    scene.world.run();
    assert!(scene.world.is_over(scene.gateway), "it stays");
    assert_eq!((scene.world.processes(), scene.record()), (0, None), "something is left behind");
}

#[test]
fn nobody_is_asked_and_the_answer_is_what_is_said_behind_the_tool() {
    let mut scene = Scene::new(Policy::Reject);
    assert_eq!(scene.says("tool", false), ["end_turn no"]);
    assert_eq!(scene.told(), ["listening", "run rm Some(\"no\")"]);
    let mut scene = Scene::new(Policy::Allow(Allow::OnceFirst));
    assert_eq!(scene.says("tool", false), ["end_turn yes"]);
}

#[test]
fn a_cancel_is_for_whatever_runs() {
    let mut scene = Scene::new(Policy::Reject);
    assert_eq!(scene.says("hang", true), ["cancelled "]);
    assert_eq!(scene.says("hello", false), ["end_turn to hello"], "the next one is served");
}

#[test]
fn an_agent_that_is_gone_takes_the_session_with_it_if_it_cannot_go_on() {
    let mut scene = Scene::new(Policy::Reject);
    assert_eq!(scene.says("leave", false), ["end_turn "]);
    // This one can go on with nothing, and then there is nothing to attach to.
    let [next] = &scene.says("hello", false)[..] else { panic!("once") };
    assert!(next.contains("open a new one"), "{next}");
    assert!(scene.world.is_over(scene.gateway), "it stays");
    assert_eq!(scene.record(), None);
}

#[test]
fn no_agent_is_no_session() {
    let scene = Scene::of(Policy::Reject, false);
    let told = scene.told();
    let [unserved] = &told[..] else { panic!("{told:?}") };
    assert!(unserved.starts_with("unserved: "), "{unserved}");
    assert!(scene.world.is_over(scene.gateway), "it stays");
    assert_eq!(scene.record(), None);
}
