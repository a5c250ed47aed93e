//! Galley's desktop over an ACP agent: the real desktop in front of the gateway.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::SessionSetup;
use agentline_core::galley::desktop::{Command, Config as Host, Desktop, Event, Message};
use agentline_core::galley::{Decision, HistoryMessage, Ready, bridge};
use agentline_core::gateway::{self, Config, FrontConfig, GalleyConfig, Gateway};
use agentline_core::{Machine, Now, Open, Tag};
use agentline_tests::{Checked, Checks, Dice, Faults, Node, World};

use super::agent;

/// What the person at the desktop does.
#[derive(Clone)]
struct Person {
    /// Done in turn, each when what was done before is over.
    orders: VecDeque<Order>,
    decision: Decision,
}

#[derive(Clone)]
enum Order {
    Say(&'static str),
    Llm(u32),
    History(usize),
    Pictures,
}

impl Person {
    fn does(orders: &[Order], decision: Decision) -> Self {
        Self { orders: orders.iter().cloned().collect(), decision }
    }

    fn next(&mut self, say: &mut Vec<Command>) {
        let tag = Tag(self.orders.len() as u64);
        say.push(match self.orders.pop_front() {
            Some(Order::Say(text)) => Command::Say { tag, message: Box::new(Message::text(text)) },
            Some(Order::Pictures) => {
                let message = Message { images: vec!["/p/a.png".into()], ..Message::text("look") };
                Command::Say { tag, message: Box::new(message) }
            }
            Some(Order::Llm(index)) => Command::SetLlm { tag, index },
            Some(Order::History(length)) => {
                let messages = vec![HistoryMessage::text("user", "a"); length];
                Command::LoadHistory { tag, messages }
            }
            None => Command::Close,
        });
    }
}

/// What is seen at the desktop; `agent`: whether there is one.
fn scene(mut person: Person, has_agent: bool, llm_name: Option<&str>) -> Vec<String> {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    if has_agent {
        agent::install(&mut world);
    }
    let (ours, theirs) = world.stream();
    let ready = Ready { ga_commit: "unknown".into(), llm_name: "agent".into(), ..Ready::default() };
    let front = FrontConfig::Galley(Box::new(GalleyConfig {
        bridge: bridge::Config::on_stdio("s-1", ready),
        setup: SessionSetup::in_directory("/w"),
        llm: None,
        llm_name: llm_name.map(str::to_owned),
    }));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&seen);
    let machine: Checked<Gateway> =
        Checked::new(Now::default(), (Checks::default(), Config::new(front, agent::source())));
    let gateway = world.add_with_given(
        Node::new(machine, move |_, event, _: &mut Vec<gateway::Command>| {
            if let gateway::Event::Unserved(why) = event {
                told.borrow_mut().push(format!("unserved: {why}"));
            }
        }),
        ours,
    );
    let told = Rc::clone(&seen);
    let machine: Checked<Desktop> =
        Checked::new(Now::default(), (Checks::default(), Host::new(Open::Given(0))));
    let desktop = Node::new(machine, move |_, event, say: &mut Vec<Command>| {
        let line = match event {
            Event::Ready(ready) => {
                person.next(say);
                let llms: Vec<&str> = ready.available_llms.iter().map(|llm| &*llm.display_name).collect();
                format!("ready {} of {}", ready.llm_name, llms.join(" "))
            }
            Event::TurnStarted(start) => format!("step {}", start.turn_index),
            Event::Progress(progress) => progress.delta,
            Event::ApprovalAsked(asked) => {
                if asked.args.get().contains("hang") {
                    say.push(Command::Abort);
                } else {
                    let decision = person.decision.clone();
                    say.push(Command::Decide { approval: asked.approval_id, decision });
                }
                format!("asked {} {:?} {}", asked.tool_name, asked.risk_level, asked.args.get())
            }
            Event::ToolStarted(start) => format!("started {}", start.tool_name),
            Event::ToolEnded(end) => format!("ended {:?}", end.status),
            Event::TurnEnded(end) => format!("over {} {}", end.tool_calls.len(), end.response_content),
            Event::Warned(trouble) => format!("warned: {}", trouble.message),
            Event::RunEnded(ended) => {
                person.next(say);
                format!("run {:?} {}", ended.end, ended.final_content)
            }
            Event::Done(_, done) => {
                person.next(say);
                done.map_or_else(|failure| failure.to_string(), |done| format!("{done:?}"))
            }
            Event::Closed(closed) => format!("closed {:?}", closed.closed.cause),
            _ => return,
        };
        let hangs = line == "hanging";
        told.borrow_mut().push(line);
        if hangs {
            say.push(Command::Abort);
        }
    });
    world.add_with_given(desktop, theirs);
    world.run_until(world.now().mono + Duration::from_secs(100));
    assert!(world.is_over(gateway), "it stays: {:#?}", seen.borrow());
    assert_eq!(world.processes(), 0, "the agent is left behind");
    seen.take()
}

const READY: &str = "ready small of Small Large";
const CLOSED: &str = "closed Left";

#[test]
fn a_message_is_a_run_of_one_step() {
    let seen = scene(Person::does(&[Order::Say("hello")], Decision::Deny), true, None);
    assert_eq!(seen, [READY, "step 1", "to ", "hello", "over 1 to hello", "run Ok(Done) to hello", CLOSED]);
    let seen = scene(Person::does(&[Order::Pictures], Decision::Deny), true, None);
    assert!(seen.contains(&"look file:///p/a.png".to_owned()), "{seen:#?}");
}

#[test]
fn a_permission_is_an_approval_and_each_decision_is_an_option() {
    let asked = r#"asked code_run High {"code":"rm -r x","type":"bash"}"#;
    for (decision, option) in [
        (Decision::AllowOnce, "yes"),
        (Decision::AlwaysAllowProject, "always"),
        (Decision::AlwaysAllowGlobal, "always"),
    ] {
        let seen = scene(Person::does(&[Order::Say("tool")], decision), true, None);
        let run = format!("run Ok(Done) {option}");
        let over = format!("over 1 before\n{option}");
        let expected = [
            READY,
            "step 1",
            "before",
            asked,
            "started code_run",
            "ended Success",
            option,
            &over,
            &run,
            CLOSED,
        ];
        assert_eq!(seen, expected);
    }
    let seen = scene(Person::does(&[Order::Say("tool")], Decision::Deny), true, None);
    assert!(seen.contains(&"ended Denied".to_owned()), "{seen:#?}");
    assert!(seen.contains(&"run Ok(Done) no".to_owned()), "{seen:#?}");
    let twice = [Order::Say("tool"), Order::Say("tool")];
    let seen = scene(Person::does(&twice, Decision::AlwaysAllowProject), true, None);
    assert_eq!(seen.iter().filter(|line| line.starts_with("asked")).count(), 1, "{seen:#?}");
    assert_eq!(seen.iter().filter(|line| *line == "started code_run").count(), 2, "{seen:#?}");
}

#[test]
fn an_abort_ends_the_run_and_the_next_one_begins() {
    let orders = [Order::Say("hang"), Order::Say("hello")];
    let seen = scene(Person::does(&orders, Decision::Deny), true, None);
    let expected = [
        READY,
        "step 1",
        "hanging",
        "run Ok(Aborted) ",
        "step 1",
        "to ",
        "hello",
        "over 1 to hello",
        "run Ok(Done) to hello",
        CLOSED,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn models_are_those_of_the_agent() {
    let orders = [Order::Llm(1), Order::History(0), Order::History(2)];
    let seen = scene(Person::does(&orders, Decision::Deny), true, None);
    let refused = "the agent behind this takes no history from elsewhere";
    assert_eq!(seen[..4], [READY, "LlmSet", "HistoryLoaded(0)", refused], "{seen:#?}");
    let seen = scene(Person::does(&[], Decision::Deny), true, Some("large"));
    assert_eq!(seen[0], "ready large of Small Large");
}

#[test]
fn each_failure_is_told_before_the_end() {
    let seen = scene(Person::does(&[Order::Say("fail")], Decision::Deny), true, None);
    assert_eq!(seen[2..], ["half", "warned: boom", "over 1 half", "run Ok(Exited) half", CLOSED]);
    let seen = scene(Person::does(&[Order::Say("refuse")], Decision::Deny), true, None);
    assert_eq!(seen[2..], ["over 1 ", "run Ok(Exited) ", CLOSED]);
    let orders = [Order::Say("leave"), Order::Say("more"), Order::Say("and more")];
    let seen = scene(Person::does(&orders, Decision::Deny), true, None);
    let runs: Vec<&String> = seen.iter().filter(|line| line.starts_with("run ")).collect();
    assert_eq!(runs.len(), 3, "{seen:#?}");
    assert!(seen.iter().any(|line| line.starts_with("unserved: ")), "{seen:#?}");
}

#[test]
fn no_agent_is_no_runner() {
    let seen = scene(Person::does(&[], Decision::Deny), false, None);
    assert!(seen[0].starts_with("unserved: ") && seen[1].starts_with("closed"), "{seen:#?}");
}
