//! Galley's runner protocol: both roles in a faulty world, and each against a peer that says anything.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an application looks for the few events that it acts on"
)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::Json;
use agentline_core::galley::bridge::{self, Bridge, RunEnd};
use agentline_core::galley::desktop::{Command, Config, Desktop, Event, Message};
use agentline_core::galley::{Decision, Exit, ExitReason, Ready, ToolStatus};
use agentline_core::{
    Graces, Limits, Machine, Now, Open, Output, Refused, Secret, SpawnSpec, Stderr, Tag, Time,
};

use crate::dice::Dice;
use crate::invariants::{Audit, Checked, Checks};
use crate::toy::{Heard, Say, Start, Talk};
use crate::world::{Faults, Node, World};

/// A desktop and a runner, whatever goes wrong: each run ends once, each approval is decided or over, nobody is
/// left behind.
pub fn galley_pair(data: &[u8]) {
    drop(pair(data, Faults::ALL));
}

/// What the host of a pair was told.
#[derive(Debug, Default)]
pub struct PairLog {
    /// Runs that it began.
    pub begun: usize,
    /// How often each run ended.
    pub ended: BTreeMap<Tag, usize>,
    /// Requests that were answered.
    pub done: usize,
    /// When it was over.
    pub end: Duration,
    asked: BTreeSet<String>,
    over: BTreeSet<String>,
    decided: BTreeSet<String>,
    closed: usize,
}

/// Plays a pair with these faults.
///
/// # Panics
///
/// An invariant does not hold.
#[must_use]
pub fn pair(data: &[u8], faults: Faults) -> PairLog {
    let mut dice = Dice::new(data);
    let habits = Habits {
        runs: 1 + u64::from(dice.byte() % 3),
        decision: dice.below(5),
        aborts: dice.once_in(3),
        stops: dice.once_in(2),
    };
    let hangs = dice.once_in(6);
    let words = dice.secrets();
    let mut config = config();
    if let (Some(secret), Open::Spawn(spec)) = (words.first(), &mut config.open) {
        spec.env.push(("KEY".into(), Secret::new(secret.into())));
    }
    let theirs = words.clone();
    let mut world = World::new(dice, faults);
    world.program("runner", move |now, _: &SpawnSpec| {
        let config = bridge::Config::on_stdio("s-1", Ready::default());
        let machine = Checked::<Bridge>::new(now, (Checks::default(), config)).and_secrets(theirs.clone());
        Node::new(machine, agent(hangs)).on_term(|| bridge::Command::Shutdown)
    });
    let log = Rc::new(RefCell::new(PairLog::default()));
    let machine = Checked::<Desktop>::new(world.now(), (Checks::default(), config)).and_secrets(words);
    let node = world.add(Node::new(machine.and(Runs::default()), host(habits, log.clone())));
    world.command_in(DAY, node, Command::Stop);
    world.run();
    assert!(world.is_over(node), "the desktop is not done");
    assert_eq!(world.processes(), 0, "somebody is left behind");
    drop(world);
    let log = Rc::try_unwrap(log).expect("nobody else holds it").into_inner();
    assert_eq!(log.closed, 1, "{log:?}");
    assert_eq!(log.ended.len(), log.begun, "{log:?}");
    assert!(log.ended.values().all(|times| *times == 1), "{log:?}");
    // The runner may end an approval while the decision is under way.
    let is_settled = |id: &String| log.decided.contains(id) || log.over.contains(id);
    assert!(log.asked.iter().all(is_settled), "{log:?}");
    log
}

/// Whatever a runner says and a host asks for, each run that was accepted ends once, each request is answered
/// once, and the runner is gone afterwards.
pub fn galley_desktop(data: &[u8]) {
    let (script, faults) = data.split_at(data.len() / 2);
    let mut script = Dice::new(script);
    let mut world = World::new(Dice::new(faults), Faults::ALL);
    let lines = lines(&mut script, &EVENTS);
    world.program("runner", move |now, _| {
        let lines = lines.clone();
        Node::new(talk(now), move |_, heard, say| {
            if let Heard::Line(_) | Heard::Opened = heard {
                say.push(Say::Lines(lines.clone()));
            }
        })
    });
    let limits = Limits { line: *script.pick(&[2000, 100]), own_requests: 3, ..Limits::default() };
    let machine = Checked::<Desktop>::new(world.now(), (Checks::default(), Config { limits, ..config() }));
    let node = world.add(Node::new(machine.and(Runs::default()), |_, _, _| {}));
    for tag in 0..script.below(16) as u64 {
        // Too soon, too many, of nothing that is open: all are refused.
        let _ = world.command(node, command(&mut script, Tag(tag)));
        world.run_until(world.now().mono + script.pause());
    }
    world.command_in(DAY, node, Command::Stop);
    world.run();
    assert!(world.is_over(node), "the desktop goes on");
    assert_eq!(world.processes(), 0, "somebody is left behind");
}

/// Whatever a host says and an agent does, every line is an event, and at the end of input all is over.
pub fn galley_bridge(data: &[u8]) {
    let (script, faults) = data.split_at(data.len() / 2);
    let mut script = Dice::new(script);
    let mut world = World::new(Dice::new(faults), Faults { late: true, cut: true, ..Faults::NONE });
    let (here, there) = world.stream();
    let config = bridge::Config::on_stdio("s-1", Ready::default());
    let limits = Limits { line: *script.pick(&[2000, 100]), peer_requests: 3, ..config.limits };
    let config = bridge::Config { limits, ..config };
    let machine = Checked::<Bridge>::new(world.now(), (Checks::default(), config));
    let runner = world.add_with_given(Node::new(machine, agent(script.once_in(3))), here);
    let lines = lines(&mut script, &ORDERS);
    let host = Node::new(talk(world.now()), move |_, heard, say| {
        if heard == Heard::Opened {
            say.extend([Say::Lines(lines.clone()), Say::Leave]);
        }
    });
    world.add_with_given(host, there);
    world.run();
    assert!(world.is_over(runner), "the runner goes on");
}

/// What the host of a pair does.
#[derive(Clone, Copy, Debug)]
struct Habits {
    runs: u64,
    decision: usize,
    aborts: bool,
    stops: bool,
}

fn host(habits: Habits, log: Rc<RefCell<PairLog>>) -> impl FnMut(Now, Event, &mut Vec<Command>) {
    move |now, event, commands| {
        let mut log = log.borrow_mut();
        match event {
            Event::Ready(_) => {
                commands.extend([Command::ReinjectTools(REQUEST), message(0)]);
                log.begun += 1;
            }
            Event::ApprovalAsked(asked) => {
                assert!(log.asked.insert(asked.approval_id.clone()), "asked twice");
                if let Some(decision) = decisions().get(habits.decision) {
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
                    commands.push(message(next));
                    log.begun += 1;
                } else {
                    commands.push(if habits.stops { Command::Stop } else { Command::Close });
                }
            }
            Event::Done(..) => log.done += 1,
            Event::Closed(_) => {
                log.closed += 1;
                log.end = now.mono.since(Time::ZERO);
            }
            _ => {}
        }
    }
}

/// Two steps, each with a tool; then it is done, or says nothing ever again.
fn agent(hangs: bool) -> impl FnMut(Now, bridge::Event, &mut Vec<bridge::Command>) {
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
            bridge::Event::ToolsWanted(request) => {
                let reply = bridge::Reply::ToolsReinjected(1);
                commands.push(bridge::Command::Reply { request, reply });
            }
            _ => {}
        }
    }
}

/// Each run that was accepted ends once, and so is each request answered.
#[derive(Default)]
struct Runs {
    asked: Option<(Tag, bool)>,
    runs: BTreeSet<Tag>,
    requests: BTreeSet<Tag>,
}

impl Audit<Desktop> for Runs {
    fn command(&mut self, command: &Command) {
        self.asked = match command {
            Command::Say { tag, message } if !message.text.starts_with("/btw") => Some((*tag, true)),
            Command::Reply { tag, .. } => Some((*tag, true)),
            Command::LoadHistory { tag, .. }
            | Command::SetLlm { tag, .. }
            | Command::AttachPet { tag, .. }
            | Command::ReinjectTools(tag)
            | Command::DetachPet(tag) => Some((*tag, false)),
            Command::Say { .. }
            | Command::Decide { .. }
            | Command::Abort
            | Command::SetRules(_)
            | Command::SetAutoApprove(_)
            | Command::Close
            | Command::Stop => None,
        };
        match self.asked {
            Some((tag, true)) => drop(self.runs.insert(tag)),
            Some((tag, false)) => drop(self.requests.insert(tag)),
            None => {}
        }
    }

    fn refused(&mut self, _: Refused) {
        match self.asked.take() {
            Some((tag, true)) => drop(self.runs.remove(&tag)),
            Some((tag, false)) => drop(self.requests.remove(&tag)),
            None => {}
        }
    }

    fn output(&mut self, output: &Output<Event>) {
        match output {
            Output::Tell(Event::RunEnded(ended)) => assert!(self.runs.remove(&ended.tag), "{ended:?}"),
            Output::Tell(Event::Done(tag, done)) => assert!(self.requests.remove(tag), "{tag:?} {done:?}"),
            Output::Tell(_) | Output::Do(..) | Output::Store(..) | Output::End => {}
        }
    }

    fn ended(&mut self) {
        assert!(self.runs.is_empty() && self.requests.is_empty(), "{:?} {:?}", self.runs, self.requests);
    }
}

fn config() -> Config {
    let spec = SpawnSpec { program: "runner".into(), stderr: Stderr::Pipe, ..SpawnSpec::default() };
    Config::new(Open::spawn(spec))
}

pub(super) fn talk(now: Now) -> Checked<Talk> {
    let start = Start { how: Some(Open::Given(0)), limits: Limits::default(), graces: Graces::default() };
    Checked::new(now, (Checks { json: false, ..Checks::default() }, start))
}

fn message(tag: u64) -> Command {
    Command::Say { tag: Tag(tag), message: Box::new(Message::text("go")) }
}

fn decisions() -> [Decision; 4] {
    [Decision::AllowOnce, Decision::Deny, Decision::AlwaysAllowProject, Decision::Other("?".into())]
}

fn command(dice: &mut Dice<'_>, tag: Tag) -> Command {
    match dice.below(10) {
        0..=2 => message(tag.0),
        3 => Command::Reply { tag, text: "yes".to_owned(), absolute_turn_index: None },
        4 => Command::Decide { approval: "a".to_owned(), decision: dice.pick(&decisions()).clone() },
        5 => Command::Abort,
        6 => Command::LoadHistory { tag, messages: vec![] },
        7 => Command::SetLlm { tag, index: 1 },
        8 => Command::ReinjectTools(tag),
        _ => Command::Close,
    }
}

/// Lines of a peer: most of them good, some torn, some noise.
pub(super) fn lines(dice: &mut Dice<'_>, good: &[&str]) -> Vec<String> {
    let line = |dice: &mut Dice<'_>| match dice.below(8) {
        6 => dice.pick(good).chars().skip(dice.below(9)).collect(),
        7 => dice.text(30).replace('\n', " "),
        _ => (*dice.pick(good)).to_owned(),
    };
    (0..dice.below(24)).map(|_| line(dice)).collect()
}

const EVENTS: [&str; 14] = [
    r#"{"kind":"ready","protocolVersion":"0.1","availableLLMs":[{"index":0},{"index":1}]}"#,
    r#"{"kind":"turn_start","turnIndex":1}"#,
    r#"{"kind":"turn_progress","delta":"x"}"#,
    r#"{"kind":"run_complete","exitReason":{"result":"CURRENT_TASK_DONE"}}"#,
    r#"{"kind":"turn_end","turnIndex":1,"toolCalls":[{"toolName":"code_run","args":{}}],"toolResults":[]}"#,
    r#"{"kind":"tool_call_pending","approvalId":"a","toolCallId":"t","toolName":"code_run","args":{}}"#,
    r#"{"kind":"tool_call_start","toolCallId":"t","toolName":"code_run"}"#,
    r#"{"kind":"tool_call_end","toolCallId":"t","status":"denied"}"#,
    r#"{"kind":"error","message":"m","context":"set_llm"}"#,
    r#"{"kind":"error","message":"m","context":"approval_timeout","severity":"warning"}"#,
    r#"{"kind":"llm_changed","index":1}"#,
    r#"{"kind":"history_loaded","messageCount":1}"#,
    r#"{"kind":"tools_reinjected","blocksAdded":1}"#,
    r#"{"kind":"ready","protocolVersion":"9"}"#,
];

const ORDERS: [&str; 14] = [
    r#"{"kind":"user_message","text":"go"}"#,
    r#"{"kind":"ask_user_response","text":"yes"}"#,
    r#"{"kind":"approval_response","approvalId":"appr_000000000001","decision":"allow_once"}"#,
    r#"{"kind":"approval_response","approvalId":"appr_000000000002","decision":"deny"}"#,
    r#"{"kind":"abort"}"#,
    r#"{"kind":"load_history","messages":[]}"#,
    r#"{"kind":"set_yolo_mode","enabled":true}"#,
    r#"{"kind":"set_approval_rules","alwaysAllowGlobal":["code_run"]}"#,
    r#"{"kind":"set_llm","llmIndex":0}"#,
    r#"{"kind":"reinject_tools"}"#,
    r#"{"kind":"attach_pet"}"#,
    r#"{"kind":"detach_pet"}"#,
    r#"{"kind":"user_message","text":"/btw how far?"}"#,
    r#"{"kind":"shutdown"}"#,
];

const REQUEST: Tag = Tag(1000);
/// Longer than a desktop waits for anything.
const DAY: Duration = Duration::from_secs(4 * 3600);
