//! A desktop on both runtimes drives the real `agentline demo-runner`.
#![expect(clippy::wildcard_enum_match_arm, reason = "a flow is about few of the events")]

use std::process::Command as Kill;

use agentline_core::galley::desktop::{Command, Config, Event, Launch};
use agentline_core::galley::{Decision, Exit, HistoryMessage, Rules, ToolStatus};
use agentline_core::{Cause, Open, SpawnSpec, Stderr, Tag};
use agentline_tests::desktop::{approvals, play, say};
use agentline_tests::program::agentline;
use agentline_tests::runtimes::{Blocking, Runtime, Smol};

fn config() -> Config {
    let spawn = SpawnSpec {
        program: agentline().into(),
        args: vec!["demo-runner".into()],
        cwd: "/".into(),
        env: vec![("PATH".into(), std::ffi::OsString::from("/usr/bin:/bin").into())],
        stderr: Stderr::Pipe,
    };
    let launch = Launch {
        spawn,
        ga_path: "/ga".into(),
        session: "s-1".to_owned(),
        workspace_root: Some("/work".into()),
        llm_name: Some("demo/large".to_owned()),
        ..Launch::default()
    };
    Config::new(Open::spawn(launch.spec()))
}

const LAST: [&str; 4] = ["step 2", "step over 2", "run 1 Ok(Done)", "closed Left Some(Code(0))"];

fn with_last(first: &[&str]) -> Vec<String> {
    first.iter().chain(&LAST).map(|line| (*line).to_owned()).collect()
}

#[test]
fn an_approval_is_asked_for_and_given() {
    let expected = with_last(&[
        "ready demo/large",
        "step 1",
        "asked code_run High",
        "started code_run",
        "[Action] code_run",
        "ended Success",
        "step over 1",
    ]);
    assert_eq!(approvals::<Blocking>(config(), "code", &Decision::AllowOnce), expected);
    assert_eq!(approvals::<Smol>(config(), "code", &Decision::AllowOnce), expected);
}

#[test]
fn an_approval_is_denied_and_the_agent_goes_on() {
    let expected = with_last(&[
        "ready demo/large",
        "step 1",
        "asked code_run High",
        &format!("ended {:?}", ToolStatus::Denied),
        "step over 1",
    ]);
    assert_eq!(approvals::<Blocking>(config(), "code", &Decision::Deny), expected);
    assert_eq!(approvals::<Smol>(config(), "code", &Decision::Deny), expected);
}

/// The resume flow of the protocol's document: rules, history, message; then a question and its answer.
fn resume<R: Runtime>() -> Vec<String> {
    let rules = Rules { project: vec!["code_run".to_owned()], ..Rules::default() };
    let mut runs = vec![say(3, "ask"), say(2, "code"), say(1, "history")];
    play::<R>(Config { rules, ..config() }, move |event| match event {
        Event::Ready(_) => {
            let messages = vec![HistoryMessage::text("user", "a"), HistoryMessage::text("assistant", "b")];
            vec![Command::LoadHistory { tag: Tag(9), messages }]
        }
        Event::Done(..) => runs.pop().into_iter().collect(),
        Event::TurnEnded(end) if end.response_content.contains("remember") => {
            assert_eq!(end.response_content, "I remember 2 messages.");
            vec![]
        }
        Event::RunEnded(ended) => match (runs.pop(), &ended.end) {
            (Some(next), _) => vec![next],
            (None, Ok(Exit::Exited)) => {
                vec![Command::Reply {
                    tag: Tag(4),
                    text: "only the caches".to_owned(),
                    absolute_turn_index: None,
                }]
            }
            (None, _) => vec![Command::Close],
        },
        _ => vec![],
    })
}

#[test]
fn a_session_is_resumed_with_its_rules_and_its_history() {
    let told = resume::<Blocking>();
    let runs: Vec<&String> = told.iter().filter(|line| line.starts_with("run ")).collect();
    assert_eq!(runs, ["run 1 Ok(Done)", "run 2 Ok(Done)", "run 3 Ok(Exited)", "run 4 Ok(Done)"]);
    assert!(!told.iter().any(|line| line.starts_with("asked")), "{told:?}");
    assert!(told.contains(&"question What shall I delete?".to_owned()));
    assert_eq!(told, resume::<Smol>());
}

/// Wherever it dies, its run ends once.
fn killed<R: Runtime>(at: &'static str) {
    let mut pid = 0;
    let told = play::<R>(config(), |event| {
        if let Event::Ready(ready) = event {
            pid = ready.pid;
        }
        let name = serde_json::to_value(event).expect("an event");
        let name = name.as_object().and_then(|object| object.keys().next().cloned()).unwrap_or_default();
        let mut say_first = if name == "ready" { vec![say(1, "code")] } else { vec![] };
        if name == at {
            let kill = Kill::new("kill").args(["-9", &pid.to_string()]).status().expect("kill");
            assert!(kill.success());
        } else if let Event::ApprovalAsked(asked) = event {
            let decision = Decision::AllowOnce;
            say_first.push(Command::Decide { approval: asked.approval_id.clone(), decision });
        } else if let Event::RunEnded(_) = event {
            say_first.push(Command::Close);
        }
        say_first
    });
    let runs = told.iter().filter(|line| line.starts_with("run 1 ")).count();
    assert_eq!(runs, 1, "{at}: {told:?}");
    let gone = format!("closed {:?}", Cause::<()>::Gone);
    assert!(
        told.last().is_some_and(|last| last.starts_with(&gone) || last.starts_with("closed Left")),
        "{told:?}"
    );
}

#[test]
fn a_runner_that_is_killed_at_any_moment_has_ended_its_run_once() {
    for at in ["turn_started", "progress", "approval_asked", "tool_started", "tool_ended", "turn_ended"] {
        killed::<Blocking>(at);
        killed::<Smol>(at);
    }
}
