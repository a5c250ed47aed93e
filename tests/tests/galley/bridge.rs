//! One runner as its host sees it.

use agentline_core::acp::Json;
use agentline_core::galley::bridge::{Bridge, Command, Event, Reply, RunEnd, RunKey, Turn, Verdict};
use agentline_core::galley::{
    AskUser, Category, Exit, ExitReason, SystemMessage, ToolStatus, Trouble, Variant,
};
use agentline_core::{Heard, LinkId, Peer, Refused, Tag};
use agentline_tests::desk::Desk;
use serde_json::{Value, json};

use super::{runner, secs};

const SAY: &str = r#"{"kind":"user_message","text":"go"}"#;

fn serving() -> Desk<Bridge> {
    let mut desk = Desk::new(runner());
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    desk.said();
    desk
}

/// In a run, which it names.
fn running() -> (Desk<Bridge>, RunKey) {
    let mut desk = serving();
    desk.hear(&[SAY]);
    let run = begun(&mut desk);
    desk.said();
    (desk, run)
}

fn begun(desk: &mut Desk<Bridge>) -> RunKey {
    match desk.events.pop_front() {
        Some(Event::Told(prompt)) => prompt.run,
        other => panic!("no message but {other:?}"),
    }
}

/// What it said, as kinds.
fn kinds(desk: &mut Desk<Bridge>) -> Vec<String> {
    let kind = |line: &String| -> String {
        let event: Value = serde_json::from_str(line).expect("JSON");
        event["kind"].as_str().expect("a kind").to_owned()
    };
    desk.said().iter().map(kind).collect()
}

fn last(desk: &mut Desk<Bridge>) -> Value {
    serde_json::from_str(desk.said().last().expect("a line")).expect("JSON")
}

fn call(run: RunKey, tag: u64, tool: &str) -> Command {
    let args = Json::new(&json!({ "code": "6*7" }));
    Command::CallTool { run, tag: Tag(tag), tool: tool.to_owned(), args, reason: "it runs code".to_owned() }
}

fn decide(id: &str, decision: &str) -> String {
    json!({ "kind": "approval_response", "approvalId": id, "decision": decision }).to_string()
}

fn ended(tag: u64) -> Command {
    Command::EndTool { tag: Tag(tag), status: ToolStatus::Success, result: "42".to_owned(), elapsed_ms: 5 }
}

fn end(exit: &Exit) -> Box<RunEnd> {
    Box::new(RunEnd {
        reason: ExitReason::new(exit),
        final_content: "done".to_owned(),
        telemetry: None,
        question: None,
    })
}

#[test]
fn warnings_then_ready_are_the_first_words() {
    let warning = Trouble { message: "no btw".to_owned(), ..Trouble::default() };
    let mut desk: Desk<Bridge> =
        Desk::new(agentline_core::galley::bridge::Config { warnings: vec![warning], ..runner() });
    assert_eq!(desk.command(Command::Progress { delta: "x".into() }), Err(Refused::NotReady));
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    let said = desk.said();
    assert!(said[0].contains(r#""severity":"warning""#), "{}", said[0]);
    let ready: Value = serde_json::from_str(&said[1]).expect("JSON");
    assert_eq!((&ready["protocolVersion"], &ready["gaCommit"]), (&json!("0.1"), &json!("unknown")));
    assert_eq!(ready["availableLLMs"][1]["displayName"], "two");
    assert_eq!(ready["timestamp"], "2023-11-14T22:13:20+00:00");
}

/// A tool that needs an approval: the whole flow, allowed once.
#[test]
fn a_gated_tool_waits_for_its_approval() {
    let (mut desk, run) = running();
    desk.run([call(run, 1, "code_run")]);
    let asked = last(&mut desk);
    assert_eq!((&asked["kind"], &asked["riskLevel"]), (&json!("tool_call_pending"), &json!("high")));
    assert_eq!(asked["argsPreview"], r#"{"code":"6*7"}"#);
    assert_eq!(desk.command(ended(1)), Err(Refused::NotReady));
    assert_eq!(desk.command(Command::EndTurn { run, turn: Box::default() }), Err(Refused::Busy));
    desk.hear(&[&decide(asked["approvalId"].as_str().expect("an id"), "allow_once")]);
    assert_eq!(desk.events.pop_front(), Some(Event::Decided(Tag(1), Verdict::Allowed)));
    desk.run([ended(1), Command::EndTurn { run, turn: Box::default() }]);
    assert_eq!(kinds(&mut desk), ["tool_call_start", "tool_call_end", "turn_end", "turn_start"]);
    desk.run([Command::EndRun { run, turn: Box::default(), end: end(&Exit::Done) }]);
    assert_eq!(kinds(&mut desk), ["turn_end", "run_complete"]);
}

#[test]
fn a_denied_call_has_an_end_and_no_start() {
    for (word, verdict) in [("deny", Verdict::Denied), ("ALLOW", Verdict::Unclear)] {
        let (mut desk, run) = running();
        desk.run([call(run, 1, "file_write")]);
        let asked = last(&mut desk);
        desk.hear(&[&decide(asked["approvalId"].as_str().expect("an id"), word)]);
        assert_eq!(desk.events.pop_front(), Some(Event::Decided(Tag(1), verdict)));
        let said = last(&mut desk);
        assert_eq!((&said["kind"], &said["status"]), (&json!("tool_call_end"), &json!("denied")));
        assert_eq!(said["toolCallId"], asked["toolCallId"]);
        desk.run([Command::EndTurn {
            run,
            turn: Box::new(Turn { summary: "s".into(), content: "c".into() }),
        }]);
        let account: Value = serde_json::from_str(&desk.said()[0]).expect("JSON");
        assert!(
            account["toolResults"][0]["content"].as_str().expect("text").contains(r#""status":"denied""#)
        );
    }
}

#[test]
fn the_rules_are_looked_at_in_their_order() {
    let free = |rules: &[&str], tool: &str| {
        let (mut desk, run) = running();
        desk.hear(rules);
        desk.events.clear();
        desk.run([call(run, 1, tool)]);
        desk.events.pop_front() == Some(Event::Decided(Tag(1), Verdict::Free))
    };
    let yolo = r#"{"kind":"set_yolo_mode","enabled":true}"#;
    let global = r#"{"kind":"set_approval_rules","alwaysAllowGlobal":["code_run"]}"#;
    let project = r#"{"kind":"set_approval_rules","alwaysAllowProject":["code_run"]}"#;
    assert!(free(&[yolo], "start_long_term_update"));
    assert!(free(&[], "file_read"));
    assert!(free(&[global], "code_run") && free(&[project], "code_run"));
    assert!(!free(&[], "code_run") && !free(&[global], "file_patch"));
    // Both lists are replaced, and yolo forgets neither.
    assert!(!free(&[global, r#"{"kind":"set_approval_rules"}"#], "code_run"));
    assert!(free(&[global, yolo, r#"{"kind":"set_yolo_mode","enabled":false}"#], "code_run"));
}

/// New rules are for the next call.
#[test]
fn yolo_releases_nothing_that_waits() {
    let (mut desk, run) = running();
    desk.run([call(run, 1, "code_run")]);
    desk.hear(&[r#"{"kind":"set_yolo_mode","enabled":true}"#]);
    assert!(matches!(desk.events.pop_front(), Some(Event::RulesSet(_, true))));
    assert_eq!(desk.events.len(), 0);
}

#[test]
fn always_skips_the_next_question() {
    let (mut desk, run) = running();
    desk.run([call(run, 1, "code_run")]);
    let asked = last(&mut desk);
    desk.hear(&[&decide(asked["approvalId"].as_str().expect("an id"), "always_allow_global")]);
    desk.events.clear();
    desk.run([call(run, 2, "code_run")]);
    assert_eq!(desk.events.pop_front(), Some(Event::Decided(Tag(2), Verdict::Free)));
}

#[test]
fn an_approval_that_nobody_decides_is_denied_in_ten_minutes() {
    let (mut desk, run) = running();
    desk.run([call(run, 1, "code_run")]);
    let asked = last(&mut desk);
    desk.pass(secs(600));
    assert_eq!(desk.events.pop_front(), Some(Event::Decided(Tag(1), Verdict::Expired)));
    let said = desk.said();
    assert!(said[0].contains(r#""context":"approval_timeout""#), "{}", said[0]);
    desk.hear(&[&decide(asked["approvalId"].as_str().expect("an id"), "allow_once")]);
    assert_eq!(last(&mut desk)["context"], "approval_response");
    assert_eq!(desk.events.len(), 0);
}

#[test]
fn an_abort_ends_the_run_and_what_waits_in_it() {
    let (mut desk, run) = running();
    desk.run([call(run, 1, "code_run")]);
    desk.said();
    desk.hear(&[r#"{"kind":"abort"}"#]);
    let events: Vec<_> = desk.events.drain(..).collect();
    assert_eq!(events, [Event::Decided(Tag(1), Verdict::Withdrawn), Event::Aborted(run)]);
    let complete = last(&mut desk);
    assert_eq!((&complete["exitReason"]["result"], &complete["totalTurns"]), (&json!("ABORTED"), &json!(0)));
    // The agent's own end comes too late, and an abort between runs says nothing.
    assert_eq!(
        desk.command(Command::EndRun { run, turn: Box::default(), end: end(&Exit::Done) }),
        Err(Refused::Unknown)
    );
    desk.hear(&[r#"{"kind":"abort"}"#]);
    assert_eq!(desk.said(), Vec::<String>::new());
}

#[test]
fn what_has_to_wait_for_the_end_of_a_run_is_refused_by_name() {
    let (mut desk, _) = running();
    for (line, context) in [
        (SAY, "user_message"),
        (r#"{"kind":"ask_user_response","text":"B"}"#, "ask_user_response"),
        (r#"{"kind":"load_history","messages":[]}"#, "load_history"),
        (r#"{"kind":"set_llm","llmIndex":1}"#, "set_llm"),
    ] {
        desk.hear(&[line]);
        let said = last(&mut desk);
        assert_eq!((&said["category"], &said["context"]), (&json!("business"), &json!(context)), "{line}");
    }
    assert_eq!(desk.events.len(), 0);
}

#[test]
fn a_question_ends_the_run_and_its_answer_begins_another() {
    let (mut desk, run) = running();
    let question = AskUser { question: "A or B?".to_owned(), candidates: vec!["A".into(), "B".into()] };
    let mut end = end(&Exit::Exited);
    end.question = Some(question);
    desk.run([Command::EndRun { run, turn: Box::default(), end }]);
    assert_eq!(kinds(&mut desk), ["turn_end", "ask_user", "run_complete"]);
    desk.hear(&[r#"{"kind":"ask_user_response","text":"B"}"#]);
    assert_ne!(begun(&mut desk), run);
    assert_eq!(last(&mut desk)["turnIndex"], 1);
}

#[test]
fn steps_are_counted_in_the_run_and_across_the_session() {
    let mut desk = serving();
    desk.hear(&[r#"{"kind":"user_message","text":"x","absoluteTurnIndex":7,"visibility":"internal"}"#]);
    let run = begun(&mut desk);
    desk.run([Command::EndTurn { run, turn: Box::default() }]);
    let step = last(&mut desk);
    assert_eq!((&step["turnIndex"], &step["absoluteTurnIndex"]), (&json!(2), &json!(8)));
    assert_eq!(step["visibility"], "internal");
}

#[test]
fn a_question_beside_the_conversation_is_answered_in_a_run_too() {
    let (mut desk, _) = running();
    desk.hear(&[r#"{"kind":"user_message","text":"/btw how far?"}"#]);
    assert_eq!(desk.events.pop_front(), Some(Event::AskedAside("/btw how far?".into())));
    let answer = SystemMessage { content: "half".into(), variant: Variant::SideQuestion };
    desk.run([Command::Say(Box::new(answer))]);
    assert_eq!(last(&mut desk)["variant"], "side_question");
}

#[test]
fn a_history_of_the_wrong_shape_is_a_warning() {
    let mut desk = serving();
    desk.hear(&[r#"{"kind":"load_history","messages":[{"role":"user","content":"a"},1]}"#]);
    let said = last(&mut desk);
    assert_eq!((&said["severity"], &said["context"]), (&json!("warning"), &json!("load_history")));
    desk.hear(&[r#"{"kind":"load_history","messages":[{"role":"user","content":"a"}]}"#]);
    let Some(Event::HistoryGiven(request, messages)) = desk.events.pop_front() else { panic!("no history") };
    assert_eq!(messages.len(), 1);
    assert!(matches!(
        desk.command(Command::Reply { request, reply: Reply::LlmSet }),
        Err(Refused::Invalid(_))
    ));
    desk.run([Command::Reply { request, reply: Reply::HistoryLoaded(1) }]);
    assert_eq!(last(&mut desk)["messageCount"], 1);
}

#[test]
fn a_model_is_set_within_the_list() {
    let mut desk = serving();
    for index in [-1, 2, 9] {
        desk.hear(&[&format!(r#"{{"kind":"set_llm","llmIndex":{index}}}"#)]);
        assert_eq!(last(&mut desk)["context"], "set_llm");
    }
    desk.hear(&[r#"{"kind":"set_llm","llmIndex":1}"#]);
    let Some(Event::LlmWanted(request, 1)) = desk.events.pop_front() else { panic!("no model") };
    desk.run([Command::Reply { request, reply: Reply::LlmSet }]);
    assert_eq!(last(&mut desk)["displayName"], "two");
}

#[test]
fn there_is_one_pet_and_it_never_outlives_the_runner() {
    let mut desk = serving();
    // Without a pet there is nothing to do, which is no mistake.
    desk.hear(&[r#"{"kind":"detach_pet"}"#]);
    assert_eq!(kinds(&mut desk), ["pet_detached"]);
    desk.hear(&[r#"{"kind":"attach_pet"}"#]);
    let Some(Event::PetWanted(request, 41983)) = desk.events.pop_front() else { panic!("no pet") };
    desk.run([Command::Reply { request, reply: Reply::PetAttached }]);
    assert_eq!(kinds(&mut desk), ["pet_attached"]);
    // The old one goes without a word.
    desk.hear(&[r#"{"kind":"attach_pet","port":5}"#]);
    assert_eq!(desk.events.pop_front(), Some(Event::PetUnwanted(None)));
    let Some(Event::PetWanted(request, 5)) = desk.events.pop_front() else { panic!("no pet") };
    desk.run([Command::Fail { request, why: "no script".into() }]);
    assert_eq!(last(&mut desk)["context"], "attach_pet");
    desk.hear(&[r#"{"kind":"attach_pet","port":5}"#]);
    desk.events.clear();
    desk.hear(&[r#"{"kind":"shutdown"}"#]);
    assert_eq!(desk.events.pop_front(), Some(Event::PetUnwanted(None)));
}

#[test]
fn a_shutdown_lets_the_step_finish_and_nothing_more() {
    let (mut desk, run) = running();
    desk.run([call(run, 1, "code_run")]);
    desk.said();
    desk.hear(&[r#"{"kind":"shutdown"}"#, SAY, r#"{"kind":"abort"}"#]);
    let events: Vec<_> = desk.events.drain(..).collect();
    assert_eq!(events, [Event::Decided(Tag(1), Verdict::Withdrawn), Event::ShutdownAsked]);
    assert_eq!(kinds(&mut desk), ["tool_call_end"]);
    desk.run([call(run, 2, "code_run")]);
    assert_eq!(desk.events.pop_front(), Some(Event::Decided(Tag(2), Verdict::Withdrawn)));
    desk.run([Command::EndTurn { run, turn: Box::default() }]);
    assert_eq!(kinds(&mut desk), ["tool_call_end", "turn_end", "run_complete"]);
    assert!(desk.ended);
}

#[test]
fn an_idle_runner_leaves_when_it_is_told_to_and_at_the_end_of_its_input() {
    let mut desk = serving();
    desk.hear(&[r#"{"kind":"shutdown"}"#]);
    assert!(desk.ended);
    let (mut desk, run) = running();
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert!(desk.events.contains(&Event::Aborted(run)));
    assert!(desk.ended);
}

#[test]
fn a_bad_line_is_answered_and_passed_over() {
    let mut desk = serving();
    desk.hear(&["not json", "", "[1]", r#"{"kind":"nope"}"#, r#"{"kind":"abort","extra":1}"#]);
    desk.send(LinkId::FIRST, b"\xff\n");
    let said: Vec<Value> = desk.said().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(said.len(), 5);
    for line in said {
        assert_eq!((&line["kind"], &line["category"]), (&json!("error"), &json!("bridge")));
        assert_eq!(line["context"], Value::Null);
    }
    desk.events.clear();
    desk.hear(&[SAY]);
    begun(&mut desk);
}

#[test]
fn a_host_that_does_not_read_makes_the_agent_wait() {
    let (mut desk, _) = running();
    desk.deaf.insert(LinkId::FIRST);
    let mut said = 0;
    while desk.command(Command::Progress { delta: "x".repeat(1000) }).is_ok() {
        said += 1;
        assert!(said < 200, "it never waits");
    }
    assert_eq!(desk.events.pop_back(), Some(Event::Crowded));
    desk.run([Command::Warn(Box::new(Trouble { category: Category::Runtime, ..Trouble::default() }))]);
}
