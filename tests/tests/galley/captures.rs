//! 39 dialogues of the real runner. The desktop hears them at the times they were said, asks for what the host
//! asked for, and writes the same bytes; each run ends once. The bridge is told what the host said.

use std::collections::BTreeMap;

use agentline_core::galley::bridge::{self, Bridge, RunEnd, Turn};
use agentline_core::galley::desktop::{Command, Desktop, Event, Failure, Message};
use agentline_core::galley::wire::{self, Command as Order};
use agentline_core::galley::{Exit, ExitReason, ToolStatus};
use agentline_core::{Exit as Gone, Heard, LinkId, Refused, Tag, Time};
use agentline_tests::Dice;
use agentline_tests::desk::Desk;
use agentline_tests::dice::noise;
use agentline_tests::transcripts::fixture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{runner, started};

/// What a right desktop would not have sent: a message in a run, a history behind one, bad lines, late answers.
const EVENTS_ONLY: [&str; 18] = [
    "04", "07", "08", "09", "13", "18", "21", "23", "24", "25", "27", "28", "30", "31", "33", "34", "36",
    "38",
];

#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) t: u64,
    pub(super) dir: String,
    pub(super) line: String,
}

/// Each capture by its name, in order.
pub(super) fn captures() -> Vec<(String, Vec<Line>)> {
    let folder = std::fs::read_dir(fixture("galley")).expect("the captures");
    let mut paths: Vec<_> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ndjson"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("a capture");
        let mut lines: Vec<Line> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line of a capture")).collect();
        lines.sort_by_key(|line| line.t);
        (path.file_stem().expect("a name").to_string_lossy().into_owned(), lines)
    };
    paths.iter().map(read).collect()
}

/// The bytes of a captured line, without its end.
pub(super) fn bytes(line: &str) -> Vec<u8> {
    match line.strip_prefix("hex:") {
        Some(hex) => {
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
            }
            bytes
        }
        None => line.as_bytes().to_vec(),
    }
}

/// What the host asked for with a line, if a desktop can be asked for it.
fn command(order: Order, tag: Tag) -> Option<Command> {
    Some(match order {
        Order::UserMessage(message) => Command::Say {
            tag,
            message: Box::new(Message {
                text: message.text,
                images: message.images,
                visibility: message.visibility,
                absolute_turn_index: message.absolute_turn_index,
            }),
        },
        Order::ApprovalResponse(answer) => {
            Command::Decide { approval: answer.approval_id, decision: answer.decision }
        }
        Order::AskUserResponse(answer) => {
            Command::Reply { tag, text: answer.text, absolute_turn_index: answer.absolute_turn_index }
        }
        Order::Abort => Command::Abort,
        Order::LoadHistory(messages) => {
            let messages = messages.iter().map(|message| serde_json::from_str(message.get()));
            Command::LoadHistory { tag, messages: messages.collect::<Result<_, _>>().ok()? }
        }
        Order::SetApprovalRules(rules) => Command::SetRules(rules),
        Order::SetYoloMode(on) => Command::SetAutoApprove(on),
        Order::SetLlm(index) => Command::SetLlm { tag, index: index.try_into().ok()? },
        Order::Shutdown => Command::Close,
        Order::ReinjectTools => Command::ReinjectTools(tag),
        Order::AttachPet(port) => Command::AttachPet { tag, port },
        Order::DetachPet => Command::DetachPet(tag),
    })
}

/// A capture told to a desktop: the runs that it accepted, and how each ended.
#[derive(Debug, Default)]
struct Told {
    begun: Vec<Tag>,
    ended: BTreeMap<Tag, Vec<Result<Exit, Failure>>>,
    asked: usize,
    unreadable: Vec<String>,
    late: usize,
    tools: usize,
    closed: usize,
}

impl Told {
    fn take(&mut self, desk: &mut Desk<Desktop>) {
        for event in desk.events.drain(..) {
            match event {
                Event::RunEnded(run) => self.ended.entry(run.tag).or_default().push(run.end),
                Event::Asked(_) => self.asked += 1,
                Event::Unreadable(bad) => self.unreadable.push(bad.why),
                Event::Progress(progress) if !progress.in_run => self.late += 1,
                Event::ToolEnded(_) => self.tools += 1,
                Event::Closed(_) => self.closed += 1,
                _ => {}
            }
        }
    }
}

fn tell(name: &str, lines: &[Line]) -> Told {
    let compares = !EVENTS_ONLY.iter().any(|number| name.starts_with(number));
    let (mut desk, mut told) = (started(), Told::default());
    let (mut expected, mut asked) = (Vec::new(), 0);
    for line in lines {
        let until = Time::from_micros(line.t * 1000);
        desk.pass(until.since(desk.now.mono));
        match &*line.dir {
            "out" => desk.send(LinkId::FIRST, &[bytes(&line.line), b"\n".to_vec()].concat()),
            "in" => {
                let text = String::from_utf8_lossy(&bytes(&line.line)).into_owned();
                let Ok(order) = wire::read_command(&text, 128) else { continue };
                asked += 1;
                let is_run = match &order {
                    Order::UserMessage(message) => !Order::is_aside(&message.text),
                    Order::AskUserResponse(_) => true,
                    _ => false,
                };
                let Some(command) = command(order, Tag(asked)) else { continue };
                let is_abort = command == Command::Abort;
                let done = desk.command(command);
                if is_abort && done == Err(Refused::Unknown) {
                    // Between runs the runner would not answer it.
                    continue;
                }
                assert!(done.is_ok() || !compares, "{name}: {text}: {done:?}");
                if done.is_ok() && is_run {
                    told.begun.push(Tag(asked));
                }
                expected.push(text);
            }
            _ => {
                if let Some(code) = line.line.strip_prefix("exit code ") {
                    let code: i32 = code.parse().expect("a number");
                    let exit = if code < 0 { Gone::Signal(-code) } else { Gone::Code(code) };
                    desk.heard(LinkId::FIRST, Heard::Eof);
                    desk.heard(LinkId::FIRST, Heard::Exited(exit));
                }
            }
        }
        told.take(&mut desk);
    }
    desk.heard(LinkId::FIRST, Heard::Group(agentline_core::Group::Gone));
    told.take(&mut desk);
    if compares {
        for (ours, theirs) in desk.said().iter().zip(&expected) {
            // One host left out lists that are empty.
            let same = ours == theirs || wire::read_command(ours, 128) == wire::read_command(theirs, 128);
            assert!(same, "{name}: {ours} instead of {theirs}");
        }
    }
    told
}

#[test]
fn each_run_of_the_real_runner_ends_once() {
    let captures = captures();
    assert_eq!(captures.len(), 39);
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut late, mut tools) = (0, 0);
    for (name, lines) in &captures {
        let told = tell(name, lines);
        assert_eq!(told.closed, 1, "{name}");
        for tag in &told.begun {
            assert_eq!(told.ended.get(tag).map(Vec::len), Some(1), "{name}: {told:?}");
        }
        assert_eq!(told.ended.len(), told.begun.len(), "{name}");
        for end in told.ended.values().flatten() {
            let word = match end {
                Ok(Exit::Done | Exit::SlashCommand) => "completed",
                Ok(Exit::Exited) if told.asked > 0 => "completed",
                Ok(Exit::Exited) => "failed",
                Ok(Exit::Aborted) | Err(Failure::Unconfirmed) => "cancelled",
                Ok(_) => "other",
                Err(_) => "lost",
            };
            *ends.entry(word).or_default() += 1;
        }
        // What a desktop would not have asked for begins runs that it knows nothing of.
        let strange = EVENTS_ONLY.iter().any(|number| name.starts_with(number));
        assert!(strange || told.unreadable.is_empty(), "{name}: {:?}", told.unreadable);
        if !strange {
            (late, tools) = (late + told.late, tools + told.tools);
        }
    }
    assert_eq!((late, tools), (20, 11));
    let expected = [("cancelled", 7), ("completed", 29), ("failed", 1), ("lost", 6)];
    assert_eq!(ends, BTreeMap::from(expected));
}

/// The order of what a runner says, checked line by line.
#[derive(Default)]
struct Rules {
    ready: bool,
    running: bool,
    turn: u64,
    turn_open: bool,
    exiting: bool,
    pending: Vec<String>,
    open_calls: Vec<String>,
    runs: usize,
}

impl Rules {
    fn hear(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).expect("an event");
        assert_eq!(event["sessionId"], "s-1", "{line}");
        let kind = event["kind"].as_str().expect("a kind");
        if !self.ready {
            assert!(kind == "ready" || kind == "error" && event["severity"] == "warning", "{line}");
        }
        match kind {
            "ready" => assert!(!std::mem::replace(&mut self.ready, true), "ready once"),
            "turn_start" => {
                assert!(!self.turn_open, "{line}");
                self.turn = if self.running { self.turn + 1 } else { 1 };
                assert_eq!(event["turnIndex"], self.turn, "{line}");
                (self.running, self.turn_open) = (true, true);
            }
            "tool_call_pending" => {
                assert!(self.turn_open, "{line}");
                assert_eq!(event["turnIndex"], self.turn, "{line}");
                self.pending.push(event["toolCallId"].to_string());
            }
            "tool_call_start" => {
                assert!(self.turn_open, "{line}");
                let id = event["toolCallId"].to_string();
                self.pending.retain(|pending| *pending != id);
                self.open_calls.push(id);
            }
            "tool_call_end" => {
                let id = event["toolCallId"].to_string();
                let at = self.open_calls.iter().position(|call| *call == id);
                let denied = self.pending.iter().position(|call| *call == id);
                match (at, denied) {
                    (Some(at), _) => drop(self.open_calls.remove(at)),
                    (None, Some(at)) => {
                        assert_eq!(event["status"], "denied", "{line}");
                        self.pending.remove(at);
                    }
                    (None, None) => panic!("{line}"),
                }
            }
            "turn_end" => {
                assert!(self.turn_open && self.pending.is_empty() && self.open_calls.is_empty(), "{line}");
                assert_eq!(event["turnIndex"], self.turn, "{line}");
                self.turn_open = false;
                self.exiting = !event["exitReason"].is_null();
            }
            "run_complete" => {
                assert!(self.running && self.pending.is_empty(), "{line}");
                let aborted = event["exitReason"]["result"] == "ABORTED";
                assert!(aborted || self.exiting, "{line}");
                (self.running, self.turn_open, self.exiting) = (false, false, false);
                self.open_calls.clear();
                self.runs += 1;
            }
            _ => {}
        }
    }
}

/// An agent of few words: it calls `code_run` where it is told to code, and asks where it is told to ask.
fn act(desk: &mut Desk<Bridge>) {
    while let Some(event) = desk.events.pop_front() {
        match event {
            bridge::Event::Told(prompt) => {
                let (run, text) = (prompt.run, prompt.text);
                let _ = desk.command(bridge::Command::Progress { delta: format!("about {text}") });
                if text.contains("slow") || text.contains("hang") {
                    continue;
                }
                if text.contains("code") || text == "two" || text == "three" {
                    let args = agentline_core::acp::Json::new(&json!({ "code": "6*7" }));
                    let (tool, reason) = ("code_run".to_owned(), "it runs code".to_owned());
                    desk.run([bridge::Command::CallTool { run, tag: Tag(1), tool, args, reason }]);
                } else {
                    finish(desk, run, &text);
                }
            }
            bridge::Event::Decided(tag, verdict) => {
                if verdict.allows() {
                    let (status, result) = (ToolStatus::Success, "42".to_owned());
                    desk.run([bridge::Command::EndTool { tag, status, result, elapsed_ms: 1 }]);
                }
                // Refused when the run is over by now.
                if let Some(run) = last_run(desk) {
                    let turn = Box::new(Turn::default());
                    if desk.command(bridge::Command::EndTurn { run, turn }) == Ok(()) {
                        finish(desk, run, "");
                    }
                }
            }
            bridge::Event::HistoryGiven(request, messages) => {
                let reply = bridge::Reply::HistoryLoaded(messages.len().try_into().expect("few"));
                desk.run([bridge::Command::Reply { request, reply }]);
            }
            bridge::Event::LlmWanted(request, _) => {
                desk.run([bridge::Command::Reply { request, reply: bridge::Reply::LlmSet }]);
            }
            bridge::Event::ToolsWanted(request) => {
                desk.run([bridge::Command::Fail { request, why: "no assets".to_owned() }]);
            }
            _ => {}
        }
    }
}

fn last_run(desk: &Desk<Bridge>) -> Option<bridge::RunKey> {
    desk.machine.machine().run()
}

fn finish(desk: &mut Desk<Bridge>, run: bridge::RunKey, answer: &str) {
    let end = RunEnd {
        reason: ExitReason::new(&Exit::Done),
        final_content: answer.to_owned(),
        telemetry: None,
        question: None,
    };
    // Refused when it was told to leave meanwhile, and the last step was the end.
    let _ = desk.command(bridge::Command::EndRun { run, turn: Box::default(), end: Box::new(end) });
}

#[test]
fn a_bridge_keeps_the_order_whatever_hosts_send() {
    for (name, lines) in captures() {
        let mut desk: Desk<Bridge> = Desk::new(runner());
        desk.heard(LinkId::FIRST, Heard::Opened(agentline_core::Peer::default()));
        let mut order = Rules::default();
        for line in lines.iter().filter(|line| line.dir == "in") {
            desk.send(LinkId::FIRST, &[bytes(&line.line), b"\n".to_vec()].concat());
            act(&mut desk);
            // Real approvals have names that ours have not: the next one is decided in their place.
            if let Ok(Order::ApprovalResponse(answer)) = wire::read_command(&line.line, 128) {
                let decision = serde_json::to_string(&answer.decision).expect("a word");
                if let Some(id) = desk.machine.machine().approval() {
                    let line = format!(
                        r#"{{"kind":"approval_response","approvalId":"{id}","decision":{decision}}}"#
                    );
                    desk.hear(&[&line]);
                    act(&mut desk);
                }
            }
        }
        desk.heard(LinkId::FIRST, Heard::Eof);
        act(&mut desk);
        desk.said().iter().for_each(|line| order.hear(line));
        assert!(order.ready, "{name}");
        assert!(desk.ended, "{name}");
    }
}

#[test]
fn how_the_bytes_are_cut_changes_nothing() {
    for (name, lines) in captures() {
        let said: Vec<u8> = lines
            .iter()
            .filter(|line| line.dir == "out")
            .flat_map(|line| [bytes(&line.line), b"\n".to_vec()].concat())
            .collect();
        let noise = noise(7, 64);
        let mut dice = Dice::new(&noise);
        let cuts = dice.cuts(said.len(), 16);
        let hear = |cuts: &[usize]| {
            let mut desk = started();
            let mut from = 0;
            for to in cuts.iter().copied().chain([said.len()]) {
                desk.send(LinkId::FIRST, &said[from..to]);
                from = to;
            }
            let events: Vec<String> = desk.events.iter().map(|event| format!("{event:?}")).collect();
            (events, desk.said())
        };
        assert_eq!(hear(&cuts), hear(&[]), "{name}");
    }
}
