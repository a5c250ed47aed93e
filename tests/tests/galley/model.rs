//! Both sides against models of a page each: what is said and refused at every moment.

use agentline_core::acp::Json;
use agentline_core::galley::bridge::{self, Bridge, RunEnd, RunKey};
use agentline_core::galley::desktop::{Command, Desktop, Event, Failure, Message};
use agentline_core::galley::{Decision, Exit, ExitReason, ToolStatus};
use agentline_core::{Heard, LinkId, Peer, Refused, Tag};
use agentline_tests::desk::Desk;
use agentline_tests::{Dice, dice};
use quickcheck::quickcheck;
use serde_json::Value;

use super::{runner, secs, started};

/// A runner as the protocol's document has it.
#[derive(Debug, Default)]
struct Runner {
    runs: u64,
    running: bool,
    calls: Vec<(u64, bool)>,
    next: u64,
    yolo: bool,
    always: bool,
}

impl Runner {
    /// What is said at one of the calls that wait, or at all of them.
    fn settle(&mut self, allowed: bool, all: bool) -> Vec<&'static str> {
        let mut said = Vec::new();
        while let Some(at) = self.calls.iter().position(|(_, runs)| !runs) {
            if allowed {
                self.calls[at].1 = true;
            } else {
                self.calls.remove(at);
            }
            said.push(if allowed { "tool_call_start" } else { "tool_call_end" });
            if !all {
                break;
            }
        }
        said
    }
}

fn kinds(desk: &mut Desk<Bridge>) -> Vec<String> {
    let kind = |line: &String| -> String {
        let event: Value = serde_json::from_str(line).expect("JSON");
        event["kind"].as_str().expect("a kind").to_owned()
    };
    desk.said().iter().map(kind).collect()
}

fn bridge_is_its_model(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut desk: Desk<Bridge> = Desk::new(runner());
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    desk.said();
    let mut model = Runner::default();
    for _ in 0..40 {
        let run = RunKey::from_number(model.runs);
        let (done, expected): (Result<(), Refused>, Vec<&str>) = match dice.below(9) {
            0 => {
                desk.hear(&[r#"{"kind":"user_message","text":"go"}"#]);
                let starts = !std::mem::replace(&mut model.running, true);
                model.runs += u64::from(starts);
                (Ok(()), vec![if starts { "turn_start" } else { "error" }])
            }
            1 => {
                let tag = Tag(model.next);
                let (tool, args) = ("code_run".to_owned(), Json::new(&()));
                let call = bridge::Command::CallTool { run, tag, tool, args, reason: String::new() };
                let free = model.yolo || model.always;
                if model.running {
                    model.calls.push((model.next, free));
                }
                model.next += 1;
                let said = if free { "tool_call_start" } else { "tool_call_pending" };
                assert_eq!(desk.command(call), if model.running { Ok(()) } else { Err(Refused::Unknown) });
                (Ok(()), if model.running { vec![said] } else { vec![] })
            }
            choice @ 2..=4 => {
                let decision = ["allow_once", "deny", "always_allow_project"][choice - 2];
                let id = desk.machine.machine().approval().unwrap_or("appr_none").to_owned();
                desk.hear(&[&format!(
                    r#"{{"kind":"approval_response","approvalId":"{id}","decision":"{decision}"}}"#
                )]);
                let said = model.settle(choice != 3, false);
                model.always |= choice == 4 && !said.is_empty();
                (Ok(()), if said.is_empty() { vec!["error"] } else { said })
            }
            5 => {
                let running = model.calls.iter().position(|(_, runs)| *runs);
                let tag = Tag(running.map_or(u64::MAX, |at| model.calls.remove(at).0));
                let (status, result) = (ToolStatus::Success, String::new());
                let end = bridge::Command::EndTool { tag, status, result, elapsed_ms: 0 };
                let done = desk.command(end);
                assert_eq!(done.is_ok(), running.is_some(), "{done:?}");
                (Ok(()), if running.is_some() { vec!["tool_call_end"] } else { vec![] })
            }
            choice @ 6..=7 => {
                let last = choice == 7;
                let turn = Box::default();
                let end = if last {
                    let reason = ExitReason::new(&Exit::Done);
                    let (final_content, telemetry, question) = (String::new(), None, None);
                    let end = Box::new(RunEnd { reason, final_content, telemetry, question });
                    bridge::Command::EndRun { run, turn, end }
                } else {
                    bridge::Command::EndTurn { run, turn }
                };
                let expected = match (model.running, model.calls.is_empty()) {
                    (false, _) => Err(Refused::Unknown),
                    (true, false) => Err(Refused::Busy),
                    (true, true) => Ok(()),
                };
                let done = desk.command(end);
                assert_eq!(done, expected);
                model.running &= !(last && done.is_ok());
                let said = ["turn_end", if last { "run_complete" } else { "turn_start" }];
                (Ok(()), if done.is_ok() { said.to_vec() } else { vec![] })
            }
            _ if dice.once_in(2) => {
                desk.hear(&[r#"{"kind":"abort"}"#]);
                let mut said = model.settle(false, true);
                said.extend(std::mem::take(&mut model.running).then_some("run_complete"));
                model.calls.clear();
                (Ok(()), said)
            }
            _ => {
                model.yolo = !model.yolo;
                desk.hear(&[&format!(r#"{{"kind":"set_yolo_mode","enabled":{}}}"#, model.yolo)]);
                (Ok(()), vec![])
            }
        };
        assert_eq!(
            (done, kinds(&mut desk)),
            (Ok(()), expected.iter().map(|kind| (*kind).to_owned()).collect())
        );
    }
}

/// A host as its module's diagram has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Host {
    Idle,
    Open { tag: u64, aborted: bool },
    Unconfirmed,
}

fn desktop_is_its_model(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut desk: Desk<Desktop> = started();
    desk.hear(&[r#"{"kind":"ready","protocolVersion":"0.1"}"#]);
    desk.events.clear();
    let (mut model, mut spoken) = (Host::Idle, false);
    for step in 0..60_u64 {
        let before = model;
        let mut ends = None;
        let mut freed = false;
        match dice.below(8) {
            0 | 1 => {
                let message = Box::new(Message::text("go"));
                let done = desk.command(Command::Say { tag: Tag(step), message });
                let idle = model == Host::Idle;
                assert_eq!(done, if idle { Ok(()) } else { Err(Refused::Busy) }, "{model:?}");
                if idle {
                    (model, spoken) = (Host::Open { tag: step, aborted: false }, true);
                }
            }
            2 => {
                let done = desk.command(Command::Abort);
                let expected = match model {
                    Host::Idle => Err(Refused::Unknown),
                    Host::Open { tag, aborted: false } => {
                        model = Host::Open { tag, aborted: true };
                        Ok(())
                    }
                    Host::Open { .. } | Host::Unconfirmed => Err(Refused::Busy),
                };
                assert_eq!(done, expected, "{before:?}");
            }
            3 => {
                desk.hear(&[r#"{"kind":"run_complete","exitReason":{"result":"CURRENT_TASK_DONE"}}"#]);
                match model {
                    Host::Open { tag, .. } => ends = Some((Tag(tag), Ok(Exit::Done))),
                    Host::Unconfirmed => freed = true,
                    Host::Idle => {}
                }
                model = Host::Idle;
            }
            4 if matches!(model, Host::Open { .. }) => {
                desk.hear(&[&format!(
                    r#"{{"kind":"tool_call_pending","approvalId":"a{step}","toolName":"x"}}"#
                )]);
            }
            5 => {
                let id = desk.events.iter().rev().find_map(|event| match event {
                    Event::ApprovalAsked(asked) => Some(asked.approval_id.clone()),
                    _ => None,
                });
                let decide = Command::Decide { approval: id.unwrap_or_default(), decision: Decision::Deny };
                // Between runs none is open.
                let done = desk.command(decide);
                assert!(done.is_err() || matches!(model, Host::Open { .. }), "{model:?}");
            }
            6 => {
                let history = Command::LoadHistory { tag: Tag(10_000 + step), messages: vec![] };
                assert_eq!(desk.command(history).is_ok(), !spoken);
            }
            _ => {
                desk.pass(secs(5));
                if let Host::Open { tag, aborted: true } = model {
                    ends = Some((Tag(tag), Err(Failure::Unconfirmed)));
                    model = Host::Unconfirmed;
                }
            }
        }
        let mut told = desk.events.iter().filter_map(|event| match event {
            Event::RunEnded(ended) => Some((ended.tag, ended.end.clone())),
            _ => None,
        });
        assert_eq!(told.next(), ends, "{before:?} to {model:?}");
        assert_eq!(desk.events.contains(&Event::Freed), freed, "{before:?} to {model:?}");
        assert_eq!(desk.machine.machine().is_busy(), model != Host::Idle);
        desk.events.retain(|event| matches!(event, Event::ApprovalAsked(_)));
    }
}

#[test]
fn both_are_their_models() {
    for seed in 0..3000 {
        bridge_is_its_model(&dice::noise(seed, 120));
        desktop_is_its_model(&dice::noise(seed, 160));
    }
}

quickcheck! {
    fn a_bridge_is_its_model(data: Vec<u8>) -> bool {
        bridge_is_its_model(&data);
        true
    }

    fn a_desktop_is_its_model(data: Vec<u8>) -> bool {
        desktop_is_its_model(&data);
        true
    }
}
