//! One runner and its host: the rules of the protocol, and what real runners get wrong.

use agentline_core::galley::desktop::{
    Command, Config, Desktop, Done, Event, Failure, Fault, Launch, Message, Over, RunEnded,
};
use agentline_core::galley::{Decision, Exit, HistoryMessage, NEVER_EVERYWHERE, Rules, ToolStatus};
use agentline_core::{Cause, Exit as Gone, Group, Heard, LinkId, Open, Refused, SpawnSpec, Tag};
use agentline_tests::desk::Desk;
use serde_json::json;

use super::{secs, started, started_with};

const READY: &str = r#"{"kind":"ready","sessionId":"s-1","protocolVersion":"0.1","llmName":"one","availableLLMs":[{"index":0,"name":"one"},{"index":1,"name":"two"}],"pid":7}"#;
const STEP: &str = r#"{"kind":"turn_start","sessionId":"s-1","turnIndex":1}"#;
const COMPLETE: &str = r#"{"kind":"run_complete","exitReason":{"result":"CURRENT_TASK_DONE","data":null},"finalContent":"yes","totalTurns":1}"#;
const ABORTED: &str = r#"{"kind":"run_complete","exitReason":{"result":"ABORTED","data":null},"finalContent":"","totalTurns":0}"#;

fn say(tag: u64, text: &str) -> Command {
    Command::Say { tag: Tag(tag), message: Box::new(Message::text(text)) }
}

fn ready() -> Desk<Desktop> {
    let mut desk = started();
    desk.hear(&[READY]);
    desk.events.clear();
    desk
}

/// In a run of tag 1.
fn running() -> Desk<Desktop> {
    let mut desk = ready();
    desk.run([say(1, "go")]);
    desk.hear(&[STEP]);
    desk.events.clear();
    desk.said();
    desk
}

fn pending(id: &str, tool: &str) -> String {
    json!({"kind": "tool_call_pending", "approvalId": id, "turnIndex": 0, "toolName": tool, "args": {}})
        .to_string()
}

fn run_ends(desk: &mut Desk<Desktop>) -> Vec<(Tag, Result<Exit, Failure>)> {
    let ends = desk.events.drain(..).filter_map(|event| match event {
        Event::RunEnded(ended) => Some((ended.tag, ended.end)),
        _ => None,
    });
    ends.collect()
}

fn exits(desk: &mut Desk<Desktop>, exit: Gone) {
    desk.heard(LinkId::FIRST, Heard::Eof);
    desk.heard(LinkId::FIRST, Heard::Exited(exit));
    desk.heard(LinkId::FIRST, Heard::Group(Group::Gone));
}

fn closed(desk: &mut Desk<Desktop>) -> agentline_core::galley::desktop::Closed {
    match desk.events.pop_back() {
        Some(Event::Closed(closed)) => *closed,
        other => panic!("not closed: {other:?}"),
    }
}

#[test]
fn the_project_goes_as_workspace_root_and_never_as_cwd() {
    let spawn = SpawnSpec {
        program: "python3".into(),
        args: vec!["-m".into(), "runner".into()],
        ..SpawnSpec::default()
    };
    let launch = Launch {
        spawn,
        ga_path: "/ga".into(),
        session: "s-1".to_owned(),
        workspace_root: Some("/work".into()),
        llm: Some(1),
        llm_name: Some("two".to_owned()),
        core: Some(42),
    };
    let spec = launch.spec();
    let args: Vec<_> = spec.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    assert_eq!(
        args.join(" "),
        "-m runner --ga-path /ga --session-id s-1 --workspace-root /work --llm-no 1 --llm-name two"
    );
    assert!(spec.env.iter().any(|(name, value)| name == "GALLEY_CORE_PID" && value.expose() == "42"));
}

#[test]
fn nothing_is_said_before_the_runner_is_ready_and_rules_come_first() {
    let rules = Rules { global: vec!["file_patch".into()], project: vec!["code_run".into()] };
    let config = Config { rules, auto_approve: true, ..Config::new(Open::spawn(SpawnSpec::default())) };
    let mut desk = started_with(config);
    assert_eq!(desk.command(say(1, "early")), Err(Refused::NotReady));
    desk.hear(&[r#"{"kind":"error","severity":"warning","message":"no btw"}"#]);
    assert!(matches!(desk.events.pop_front(), Some(Event::Warned(_))));
    assert_eq!(desk.said(), Vec::<String>::new());
    desk.hear(&[READY]);
    assert_eq!(
        desk.said(),
        [
            r#"{"kind":"set_approval_rules","alwaysAllowGlobal":["file_patch"],"alwaysAllowProject":["code_run"]}"#,
            r#"{"kind":"set_yolo_mode","enabled":true}"#,
        ]
    );
}

#[test]
fn another_version_is_told_to_leave() {
    let mut desk = started();
    desk.hear(&[r#"{"kind":"ready","protocolVersion":"0.2"}"#]);
    assert_eq!(desk.said(), [r#"{"kind":"shutdown"}"#]);
    exits(&mut desk, Gone::Code(0));
    assert_eq!(closed(&mut desk).closed.cause, Cause::Fault(Fault::WrongVersion("0.2".into())));
}

#[test]
fn a_runner_that_is_never_ready_is_ended() {
    let mut desk = started();
    desk.pass(secs(30));
    assert_eq!(desk.said(), [r#"{"kind":"shutdown"}"#]);
    exits(&mut desk, Gone::Code(0));
    assert_eq!(closed(&mut desk).closed.cause, Cause::Fault(Fault::NotReady));
}

#[test]
fn one_that_cannot_start_has_said_why_or_left_it_to_its_standard_error() {
    for (line, last) in [(Some(r#"{"kind":"error","message":"no module ga"}"#), true), (None, false)] {
        let mut desk = started();
        line.into_iter().for_each(|line| desk.hear(&[line]));
        let stderr: String = (1..=12).map(|n| format!("line {n}\n")).collect();
        desk.heard(LinkId::FIRST, Heard::Stderr(stderr.as_bytes()));
        exits(&mut desk, Gone::Code(1));
        let closed = closed(&mut desk);
        assert_eq!(closed.closed.cause, Cause::Gone);
        assert_eq!(closed.closed.obituary.exit, Some(Gone::Code(1)));
        assert_eq!(closed.last_error.is_some(), last);
        let lines = closed.stderr_lines();
        assert_eq!((lines.len(), lines[0], lines[7]), (8, "line 5", "line 12"));
    }
}

#[test]
fn a_second_message_waits_and_a_question_beside_it_does_not() {
    let mut desk = running();
    assert_eq!(desk.command(say(2, "more")), Err(Refused::Busy));
    desk.run([say(3, "/btw how far?")]);
    assert_eq!(desk.said(), [r#"{"kind":"user_message","text":"/btw how far?","images":[]}"#]);
    desk.hear(&[r#"{"kind":"system_message","content":"half","variant":"side_question"}"#, COMPLETE]);
    assert!(matches!(desk.events.pop_front(), Some(Event::Message(_))));
    assert_eq!(run_ends(&mut desk), [(Tag(1), Ok(Exit::Done))]);
    desk.run([say(2, "more")]);
}

/// Runners say a step once when they expect it and once when it comes.
#[test]
fn a_step_that_is_said_twice_is_one() {
    let mut desk = running();
    desk.hear(&[STEP, r#"{"kind":"turn_start","turnIndex":2}"#, r#"{"kind":"turn_start","turnIndex":2}"#]);
    let steps: Vec<u32> = desk
        .events
        .drain(..)
        .map(|event| match event {
            Event::TurnStarted(start) => start.turn_index,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(steps, [2]);
}

#[test]
fn what_comes_late_opens_no_run_again() {
    let mut desk = running();
    desk.hear(&[COMPLETE, r#"{"kind":"turn_progress","delta":"tail"}"#]);
    desk.events.pop_front();
    assert!(matches!(desk.events.pop_front(), Some(Event::Progress(progress)) if !progress.in_run));
    desk.hear(&[STEP, COMPLETE]);
    assert_eq!(run_ends(&mut desk), []);
    desk.run([say(2, "more")]);
}

#[test]
fn a_runner_that_exits_in_a_run_has_ended_it_once_whatever_its_code() {
    for exit in [Gone::Code(0), Gone::Code(1), Gone::Signal(9)] {
        let mut desk = running();
        desk.hear(&[&pending("a", "code_run")]);
        exits(&mut desk, exit);
        assert!(desk.events.iter().any(|event| *event == Event::ApprovalOver("a".into(), Over::Gone)));
        assert_eq!(closed(&mut desk).closed.obituary.exit, Some(exit));
        assert_eq!(run_ends(&mut desk), [(Tag(1), Err(Failure::Disconnected))]);
    }
}

#[test]
fn an_abort_that_nobody_confirms_ends_the_run_and_keeps_the_next_one_waiting() {
    let mut desk = running();
    desk.run([Command::Abort]);
    assert_eq!(desk.command(Command::Abort), Err(Refused::Busy));
    desk.pass(secs(5));
    assert_eq!(run_ends(&mut desk), [(Tag(1), Err(Failure::Unconfirmed))]);
    assert_eq!(desk.command(say(2, "more")), Err(Refused::Busy));
    // It belongs to the run that is over.
    desk.hear(&[r#"{"kind":"turn_progress","delta":"x"}"#, STEP, ABORTED]);
    assert_eq!(desk.events.drain(..).collect::<Vec<_>>(), [Event::Freed]);
    desk.run([say(2, "more")]);
}

#[test]
fn an_idle_abort_is_the_callers_mistake() {
    assert_eq!(ready().command(Command::Abort), Err(Refused::Unknown));
}

/// At its limit of steps, or when its agent fails, a runner says nothing ever again.
#[test]
fn a_run_that_is_forgotten_is_told_and_ended() {
    let mut desk = running();
    desk.pass(secs(600));
    assert_eq!(desk.events.drain(..).collect::<Vec<_>>(), [Event::Silent]);
    desk.pass(secs(6600));
    assert_eq!(desk.said(), [r#"{"kind":"abort"}"#, r#"{"kind":"shutdown"}"#]);
    assert_eq!(run_ends(&mut desk), [(Tag(1), Err(Failure::Silent))]);
    exits(&mut desk, Gone::Code(0));
    assert_eq!(closed(&mut desk).closed.cause, Cause::Fault(Fault::Silent));
}

#[test]
fn its_silence_is_ours_while_it_waits_for_a_decision() {
    let mut desk = running();
    desk.hear(&[&pending("a", "code_run")]);
    desk.events.clear();
    desk.pass(secs(7200));
    assert_eq!(desk.events.len(), 0);
    desk.run([Command::Decide { approval: "a".into(), decision: Decision::AllowOnce }]);
    desk.pass(secs(599));
    assert_eq!(desk.events.len(), 0);
    desk.pass(secs(1));
    assert_eq!(desk.events.pop_front(), Some(Event::Silent));
}

#[test]
fn an_approval_is_decided_once_and_a_rule_is_kept() {
    let mut desk = running();
    desk.hear(&[&pending("a", "code_run"), &pending("b", NEVER_EVERYWHERE)]);
    let decide = |approval: &str, decision| Command::Decide { approval: approval.to_owned(), decision };
    assert_eq!(desk.command(decide("c", Decision::Deny)), Err(Refused::Unknown));
    let everywhere = desk.command(decide("b", Decision::AlwaysAllowGlobal));
    assert!(matches!(everywhere, Err(Refused::Invalid(_))), "{everywhere:?}");
    desk.run([decide("a", Decision::AlwaysAllowProject)]);
    assert_eq!(desk.command(decide("a", Decision::Deny)), Err(Refused::Unknown));
    assert_eq!(
        desk.said(),
        [r#"{"kind":"approval_response","approvalId":"a","decision":"always_allow_project"}"#]
    );
    assert_eq!(desk.machine.machine().rules().project, ["code_run"]);
    desk.events.clear();
    desk.hear(&[COMPLETE]);
    assert_eq!(desk.events.pop_front(), Some(Event::ApprovalOver("b".into(), Over::Withdrawn)));
}

#[test]
fn the_runners_own_clock_ends_an_approval() {
    let mut desk = running();
    desk.hear(&[&pending("a", "code_run")]);
    desk.events.clear();
    desk.hear(&[r#"{"kind":"error","category":"business","severity":"warning","context":"approval_timeout","message":"late"}"#]);
    assert_eq!(desk.events.pop_front(), Some(Event::ApprovalOver("a".into(), Over::Expired)));
    let late = Command::Decide { approval: "a".into(), decision: Decision::AllowOnce };
    assert_eq!(desk.command(late), Err(Refused::Unknown));
}

#[test]
fn an_error_ends_nothing() {
    let mut desk = running();
    desk.hear(&[
        r#"{"kind":"error","message":"429","category":"runtime","retryable":true,"hint":"quota_exceeded"}"#,
    ]);
    assert!(matches!(desk.events.pop_front(), Some(Event::Warned(trouble)) if trouble.retryable));
    assert!(desk.machine.machine().is_busy());
}

/// Whether the runner tells each call or only what it did in a step.
#[test]
fn tools_are_told_alike() {
    let told = |lines: &[&str]| -> Vec<(String, Option<ToolStatus>)> {
        let mut desk = running();
        desk.hear(lines);
        let tools = desk.events.drain(..).filter_map(|event| match event {
            Event::ToolStarted(start) => Some((start.tool_name, None)),
            Event::ToolEnded(end) => Some((String::new(), Some(end.status))),
            _ => None,
        });
        tools.collect()
    };
    let account = r#"{"kind":"turn_end","turnIndex":1,"toolCalls":[{"toolName":"code_run","args":{}}],"toolResults":[{"toolUseId":"t","content":"42"}]}"#;
    let by_step = told(&[account]);
    let by_call = told(&[
        r#"{"kind":"tool_call_start","toolCallId":"tc","turnIndex":1,"toolName":"code_run","args":{}}"#,
        r#"{"kind":"tool_call_end","toolCallId":"tc","status":"success","resultPreview":"42"}"#,
        account,
    ]);
    assert_eq!(by_step, [("code_run".to_owned(), None), (String::new(), Some(ToolStatus::Success))]);
    assert_eq!(by_step, by_call);
}

#[test]
fn a_denied_end_closes_its_approval() {
    let mut desk = running();
    desk.hear(&[
        r#"{"kind":"tool_call_pending","approvalId":"a","toolCallId":"tc","toolName":"code_run"}"#,
        r#"{"kind":"tool_call_end","toolCallId":"tc","status":"denied"}"#,
    ]);
    assert!(desk.events.contains(&Event::ApprovalOver("a".into(), Over::Withdrawn)));
}

#[test]
fn a_call_that_runs_when_its_run_ends_is_cancelled() {
    let mut desk = running();
    desk.hear(&[r#"{"kind":"tool_call_start","toolCallId":"tc","toolName":"code_run"}"#, ABORTED]);
    let ended = desk.events.iter().find_map(|event| match event {
        Event::ToolEnded(end) => Some(end.status),
        _ => None,
    });
    assert_eq!(ended, Some(ToolStatus::Cancelled));
}

#[test]
fn a_history_comes_before_the_first_message() {
    let history =
        |tag| Command::LoadHistory { tag: Tag(tag), messages: vec![HistoryMessage::text("user", "before")] };
    let mut desk = ready();
    desk.run([history(5)]);
    desk.hear(&[r#"{"kind":"history_loaded","messageCount":1}"#]);
    assert_eq!(desk.events.pop_front(), Some(Event::Done(Tag(5), Box::new(Ok(Done::HistoryLoaded(1))))));
    desk.run([say(1, "go")]);
    assert!(matches!(desk.command(history(6)), Err(Refused::Invalid(_))));
}

#[test]
fn an_error_of_a_request_is_its_answer() {
    let mut desk = ready();
    desk.run([Command::SetLlm { tag: Tag(8), index: 1 }, Command::ReinjectTools(Tag(9))]);
    desk.hear(&[
        r#"{"kind":"error","category":"business","message":"no assets","context":"reinject_tools"}"#,
        r#"{"kind":"llm_changed","index":1,"name":"two","displayName":"two"}"#,
    ]);
    assert!(
        matches!(&desk.events[0], Event::Done(Tag(9), done) if matches!(**done, Err(Failure::Refused(_))))
    );
    assert!(desk.events.contains(&Event::Done(Tag(8), Box::new(Ok(Done::LlmSet)))));
    assert!(matches!(desk.command(Command::SetLlm { tag: Tag(1), index: 9 }), Err(Refused::Invalid(_))));
    desk.events.clear();
    desk.run([Command::AttachPet { tag: Tag(10), port: 41983 }]);
    desk.pass(secs(30));
    assert_eq!(desk.events.pop_front(), Some(Event::Done(Tag(10), Box::new(Err(Failure::TimedOut)))));
}

#[test]
fn a_model_is_changed_between_runs_only() {
    assert_eq!(running().command(Command::SetLlm { tag: Tag(2), index: 1 }), Err(Refused::Busy));
}

#[test]
fn pictures_are_passed_on_unless_the_runner_takes_none() {
    let pictures = |path: &str| {
        let images = vec![path.to_owned()];
        Command::Say { tag: Tag(1), message: Box::new(Message { images, ..Message::text("look") }) }
    };
    assert!(matches!(ready().command(pictures("relative.png")), Err(Refused::Invalid(_))));
    ready().run([pictures("/a.png")]);
    let mut desk = started();
    desk.hear(&[r#"{"kind":"ready","protocolVersion":"0.1","imagesSupported":false}"#]);
    assert_eq!(desk.command(pictures("/a.png")), Err(Refused::NotOffered("pictures")));
}

#[test]
fn closing_lets_a_run_finish_and_waits_no_longer_than_it_may() {
    let mut desk = running();
    desk.run([Command::Close]);
    assert_eq!(desk.said(), [r#"{"kind":"shutdown"}"#]);
    assert_eq!(desk.command(say(2, "more")), Err(Refused::Closed));
    assert_eq!(desk.shut, []);
    desk.hear(&[COMPLETE]);
    assert_eq!(run_ends(&mut desk), [(Tag(1), Ok(Exit::Done))]);
    assert_eq!(desk.shut, [LinkId::FIRST]);
    exits(&mut desk, Gone::Code(0));
    assert_eq!(closed(&mut desk).closed.cause, Cause::Left);

    let mut desk = running();
    desk.run([Command::Close]);
    desk.pass(secs(600));
    assert_eq!(run_ends(&mut desk), [(Tag(1), Err(Failure::Shutdown))]);
    assert_eq!(desk.shut, [LinkId::FIRST]);
}

/// As real runners do.
#[test]
fn one_that_leaves_in_the_middle_because_it_was_told_to_left_because_of_us() {
    let mut desk = running();
    desk.run([Command::Close]);
    exits(&mut desk, Gone::Code(0));
    assert_eq!(closed(&mut desk).closed.cause, Cause::Left);
    assert_eq!(run_ends(&mut desk), [(Tag(1), Err(Failure::Shutdown))]);
}

#[test]
fn stopping_waits_for_nothing() {
    let mut desk = running();
    desk.run([Command::Stop]);
    assert_eq!(desk.said(), [r#"{"kind":"abort"}"#, r#"{"kind":"shutdown"}"#]);
    assert_eq!(run_ends(&mut desk), [(Tag(1), Err(Failure::Shutdown))]);
    assert_eq!(desk.shut, [LinkId::FIRST]);
}

#[test]
fn what_is_no_event_is_told_and_ends_nothing() {
    let mut desk = running();
    desk.hear(&[
        "Traceback (most recent call last):",
        "[1]",
        r#"{"kind":"turn_progress"}"#,
        r#"{"kind":"new","x":1}"#,
    ]);
    desk.send(LinkId::FIRST, b"\xff\xfe\n");
    let told: Vec<String> = desk
        .events
        .drain(..)
        .map(|event| match event {
            Event::Unreadable(bad) => bad.why,
            Event::Other(other) => other.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "not JSON at column 1",
            "not an object but an array",
            "turn_progress without delta",
            "new",
            "not UTF-8"
        ]
    );
    desk.hear(&[COMPLETE]);
    let complete = RunEnded {
        tag: Tag(1),
        end: Ok(Exit::Done),
        reason: None,
        final_content: "yes".into(),
        total_turns: 1,
        telemetry: None,
    };
    match desk.events.pop_front() {
        Some(Event::RunEnded(ended)) => assert_eq!(RunEnded { reason: None, ..*ended }, complete),
        other => panic!("{other:?}"),
    }
}
