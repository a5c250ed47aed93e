//! A desktop and its runner in one world, where everything can go wrong: each run ends once, each approval is
//! decided or over once, and nobody is left behind.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::Json;
use agentline_core::galley::bridge::{self, Bridge, RunEnd};
use agentline_core::galley::desktop::{Command, Config, Desktop, Event, Message};
use agentline_core::galley::{Decision, Exit, ExitReason, ToolStatus};
use agentline_core::{Machine, Open, SpawnSpec, Stderr, Tag, Time};
use agentline_tests::{Checked, Checks, Dice, Faults, Node, World, dice};
use quickcheck::quickcheck;

use super::runner;

/// What the host was told.
#[derive(Debug, Default)]
struct Log {
    begun: usize,
    ended: BTreeMap<Tag, usize>,
    asked: BTreeSet<String>,
    over: BTreeSet<String>,
    decided: BTreeSet<String>,
    done: usize,
    closed: usize,
    /// When.
    end: Duration,
}

/// What the host does.
#[derive(Clone, Copy, Debug)]
struct Habits {
    runs: u64,
    decision: usize,
    aborts: bool,
    stops: bool,
}

fn host(habits: Habits, log: Rc<RefCell<Log>>) -> impl FnMut(agentline_core::Now, Event, &mut Vec<Command>) {
    let say = |tag: u64| Command::Say { tag: Tag(tag), message: Box::new(Message::text("go")) };
    move |now, event, commands| {
        let mut log = log.borrow_mut();
        match event {
            Event::Ready(_) => {
                commands.push(Command::SetLlm { tag: Tag(1000), index: 1 });
                commands.push(say(0));
                log.begun += 1;
            }
            Event::ApprovalAsked(asked) => {
                assert!(log.asked.insert(asked.approval_id.clone()), "asked twice");
                let decisions = [
                    Decision::AllowOnce,
                    Decision::Deny,
                    Decision::AlwaysAllowProject,
                    Decision::Other("?".into()),
                ];
                if let Some(decision) = decisions.get(habits.decision) {
                    log.decided.insert(asked.approval_id.clone());
                    commands
                        .push(Command::Decide { approval: asked.approval_id, decision: decision.clone() });
                }
            }
            Event::ApprovalOver(id, _) => assert!(log.over.insert(id), "over twice"),
            Event::TurnStarted(start) if habits.aborts && start.turn_index == 2 => {
                commands.push(Command::Abort)
            }
            Event::RunEnded(ended) => {
                *log.ended.entry(ended.tag).or_default() += 1;
                let next = ended.tag.0 + 1;
                if ended.end.is_ok() && next < habits.runs {
                    commands.push(say(next));
                    log.begun += 1;
                } else {
                    commands.push(if habits.stops { Command::Stop } else { Command::Close });
                }
            }
            Event::Done(Tag(1000), _) => log.done += 1,
            Event::Closed(_) => {
                log.closed += 1;
                log.end = now.mono.since(Time::ZERO);
            }
            _ => {}
        }
    }
}

/// Two steps, each with a tool; then it is done, or says nothing ever again.
fn agent(hangs: bool) -> impl FnMut(agentline_core::Now, bridge::Event, &mut Vec<bridge::Command>) {
    let mut run = None;
    let mut step = 0;
    move |_, event, commands| {
        let call = |run, step| bridge::Command::CallTool {
            run,
            tag: Tag(step),
            tool: "code_run".to_owned(),
            args: Json::new(&()),
            reason: String::new(),
        };
        match event {
            bridge::Event::Told(prompt) => {
                (run, step) = (Some(prompt.run), 1);
                commands.push(bridge::Command::Progress { delta: "hm".to_owned() });
                commands.push(call(prompt.run, 1));
            }
            bridge::Event::Decided(tag, verdict) => {
                let Some(run) = run else { return };
                if verdict.allows() {
                    let (status, result) = (ToolStatus::Success, String::new());
                    commands.push(bridge::Command::EndTool { tag, status, result, elapsed_ms: 0 });
                }
                step += 1;
                if step == 2 {
                    commands.push(bridge::Command::EndTurn { run, turn: Box::default() });
                    commands.push(call(run, 2));
                } else if !hangs {
                    let end = RunEnd {
                        reason: ExitReason::new(&Exit::Done),
                        final_content: String::new(),
                        telemetry: None,
                        question: None,
                    };
                    let (turn, end) = (Box::default(), Box::new(end));
                    commands.push(bridge::Command::EndRun { run, turn, end });
                }
            }
            bridge::Event::Aborted(_) => run = None,
            bridge::Event::LlmWanted(request, _) => {
                commands.push(bridge::Command::Reply { request, reply: bridge::Reply::LlmSet });
            }
            _ => {}
        }
    }
}

fn world(data: &[u8], faults: Faults) -> Log {
    let mut dice = Dice::new(data);
    let habits = Habits {
        runs: 1 + u64::from(dice.byte() % 3),
        decision: dice.below(5),
        aborts: dice.once_in(3),
        stops: dice.once_in(2),
    };
    let hangs = dice.once_in(6);
    let mut world = World::new(dice, faults);
    world.program("runner", move |now, _: &SpawnSpec| {
        let machine = Checked::<Bridge>::new(now, (Checks::default(), runner()));
        Node::new(machine, agent(hangs)).on_term(|| bridge::Command::Shutdown)
    });
    let spec = SpawnSpec { program: "runner".into(), stderr: Stderr::Pipe, ..SpawnSpec::default() };
    let config = Config::new(Open::spawn(spec));
    let log = Rc::new(RefCell::new(Log::default()));
    let machine = Checked::<Desktop>::new(world.now(), (Checks::default(), config));
    let node = world.add(Node::new(machine, host(habits, log.clone())));
    world.command_in(Duration::from_secs(4 * 3600), node, Command::Stop);
    world.run();
    assert!(world.is_over(node), "the desktop is not done");
    assert_eq!(world.processes(), 0, "somebody is left behind");
    drop(world);
    Rc::try_unwrap(log).expect("nobody else").into_inner()
}

fn holds(log: &Log) {
    assert_eq!(log.closed, 1, "{log:?}");
    assert_eq!(log.ended.len(), log.begun, "{log:?}");
    assert!(log.ended.values().all(|times| *times == 1), "{log:?}");
    for id in &log.asked {
        // The runner may end an approval while the decision is under way.
        assert!(log.decided.contains(id) || log.over.contains(id), "{log:?}");
    }
}

#[test]
fn each_run_ends_once_whatever_goes_wrong() {
    let mut done = 0;
    for seed in 0..3000 {
        let log = world(&dice::noise(seed, 300), Faults::ALL);
        holds(&log);
        done += log.ended.len();
    }
    assert!(done > 1000, "{done}");
}

#[test]
fn nobody_waits_where_nothing_goes_wrong() {
    for runs in 0..3 {
        let log = world(&[runs, 0], Faults::NONE);
        holds(&log);
        assert_eq!(
            (log.ended.len(), log.done, log.end),
            (usize::from(runs) + 1, 1, Duration::ZERO),
            "{log:?}"
        );
    }
}

quickcheck! {
    fn each_run_ends_once(data: Vec<u8>) -> bool {
        holds(&world(&data, Faults::ALL));
        true
    }
}
