//! The life of the agent: it does not come up, dies, hangs, is started again, and leaves with its client.

use agentline_core::gateway::{Command, Event};
use agentline_core::{Heard, OpenError, Refused};
use serde_json::json;

use super::rig::{ALL, Rig, config, text};

const NEW: &str = r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;

#[test]
fn a_client_is_answered_even_if_no_agent_comes_up_and_the_next_request_tries_again() {
    let mut rig = Rig::silent(config());
    rig.says(r#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":1}}"#);
    let agent = rig.desk.connecting.pop_front().expect("it is started");
    rig.desk.heard(agent, Heard::OpenFailed(OpenError::NotFound));
    assert_eq!(rig.line()["result"]["protocolVersion"], 1);
    rig.says(NEW);
    let agent = rig.desk.connecting.pop_front().expect("it is started again");
    rig.desk.heard(agent, Heard::OpenFailed(OpenError::NotFound));
    let seen = rig.line();
    assert_eq!(seen["error"]["message"], "the agent cannot be started: not found");
    rig.says(&NEW.replace(":1,", ":2,"));
    rig.starts("{}");
    rig.agent_read();
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#);
    assert_eq!(rig.line()["result"]["sessionId"], "s");
}

#[test]
fn an_agent_that_dies_ends_its_prompt_once_and_the_next_one_resumes_the_session() {
    let mut rig = Rig::running(config());
    rig.dies();
    let seen = rig.line();
    assert_eq!((&seen["id"], &seen["error"]["code"]), (&json!("p"), &json!(-32603)));
    let why = "the agent exited with code 3; it said: oh no".to_owned();
    assert!(rig.events().contains(&Event::Ended(Some(why))));
    assert!(rig.desk.connecting.is_empty(), "nobody wants it");

    rig.prompts("q");
    rig.starts(ALL);
    let said = rig.agent_read();
    assert!(said[1].contains("session/resume") && said[1].contains(r#""cwd":"/w""#), "{said:#?}");
    rig.agent_says(&text("old words are not told twice"));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert!(rig.agent_line()["method"] == "session/prompt");
    rig.read();
    rig.agent_says(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(rig.line()["result"]["stopReason"], "end_turn");
}

#[test]
fn a_history_that_is_loaded_only_to_go_on_is_not_told_again() {
    let mut rig = Rig::running(config());
    rig.dies();
    rig.prompts("q");
    rig.starts(r#"{"loadSession":true}"#);
    assert!(rig.agent_read()[1].contains("session/load"));
    rig.read();
    rig.agent_says(&text("history"));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(rig.read(), [""; 0]);
    rig.agent_says(&text("news"));
    assert_eq!(rig.read(), [text("news")]);
}

#[test]
fn a_session_is_opened_once_and_again_when_its_agent_is_gone() {
    let load = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/load","params":{{"sessionId":"s","cwd":"/w","mcpServers":[]}}}}"#
        )
    };
    let mut rig = Rig::open(config());
    rig.says(&load(5));
    assert_eq!(rig.line()["error"]["message"], "that session is open already");
    rig.prompts("q");
    assert_eq!(rig.agent_line()["method"], "session/prompt");
    rig.dies();
    rig.forget();
    rig.says(&load(6));
    rig.starts(ALL);
    assert!(rig.agent_read()[1].contains("session/load"));
    rig.agent_says(&text("history"));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let seen = rig.read();
    assert_eq!(seen[0], text("history"));
    assert!(seen[1].contains(r#""id":6,"result""#), "{seen:#?}");
}

#[test]
fn a_session_that_cannot_be_gone_on_with_says_so() {
    let mut rig = Rig::running(config());
    rig.dies();
    rig.forget();
    rig.prompts("q");
    rig.starts("{}");
    let seen = rig.line();
    assert_eq!(seen["id"], "q");
    assert!(seen["error"]["message"].as_str().is_some_and(|why| why.contains("open a new one")), "{seen}");
    rig.says(&NEW.replace(":1,", ":3,"));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"t"}}"#);
    assert_eq!(rig.line()["result"]["sessionId"], "t");
}

#[test]
fn a_cancel_that_is_not_confirmed_ends_after_5_s_and_the_agent_is_replaced() {
    let mut rig = Rig::running(config());
    rig.cancels();
    rig.pass(4);
    assert_eq!(rig.read(), [""; 0]);
    rig.pass(1);
    assert_eq!(rig.line()["result"]["stopReason"], "cancelled");
    // It is told to leave, and nothing is said to it any more.
    assert_eq!(rig.desk.shut, [rig.agent]);
    rig.prompts("q");
    assert_eq!((rig.read(), rig.desk.connecting.len()), (Vec::new(), 0), "the next prompt waits for the end");
    rig.dies();
    rig.starts(ALL);
    let said = rig.agent_read();
    assert!(said.last().is_some_and(|line| line.contains("session/resume")), "{said:#?}");
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(rig.agent_line()["method"], "session/prompt");
}

#[test]
fn a_prompt_that_waits_is_taken_back_by_its_cancel() {
    let mut rig = Rig::running(config());
    rig.dies();
    rig.forget();
    rig.prompts("q");
    rig.cancels();
    let seen = rig.line();
    assert_eq!((&seen["id"], &seen["result"]["stopReason"]), (&json!("q"), &json!("cancelled")));
    rig.starts(ALL);
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert!(!rig.agent_read().iter().any(|line| line.contains("session/prompt")));
}

#[test]
fn an_agent_goes_down_its_ladder_when_its_client_leaves() {
    let mut rig = Rig::running(config());
    rig.desk.heard(rig.client, Heard::Eof);
    assert!(rig.desk.shut.contains(&rig.agent));
    assert!(!rig.desk.ended);
    rig.dies();
    assert!(rig.desk.ended);
    assert_eq!(rig.events().back(), Some(&Event::Closed));
    assert_eq!(rig.desk.command(Command::Shutdown), Err(Refused::Closed));
}

#[test]
fn whoever_is_told_to_leave_answers_what_is_open() {
    let mut rig = Rig::running(config());
    rig.desk.run([Command::Shutdown]);
    let seen = rig.line();
    assert_eq!((&seen["id"], &seen["error"]["message"]), (&json!("p"), &json!("we stopped it")));
    assert_eq!(rig.desk.command(Command::Shutdown), Err(Refused::Closed));
    rig.desk.heard(rig.client, Heard::Eof);
    rig.dies();
    assert!(rig.desk.ended);
}
