//! What a prompt may hold, and how each way of taking it is waited for.

use super::*;

#[test]
fn text_in_any_form_is_delivered_once_and_trimmed() {
    for (given, text) in [
        (json!("  run the tests \n"), "run the tests"),
        (json!([{"type": "text", "text": "one"}]), "one"),
        (json!([{"type": "text", "text": "one"}, {"type": "text", "text": " two "}]), "one\n two"),
        (json!([{"type": "text", "text": 7, "annotations": {}}]), "7"),
        (json!([{"type": "text", "text": ""}, {"type": "text", "text": "x\u{2028}中"}]), "x\u{2028}中"),
    ] {
        let mut desk = serving();
        let client = desk.enter();
        assert_eq!(desk.ask(client, &prompt(2, &given)), "");
        assert_eq!(desk.received().1, text);
        assert!(desk.events.is_empty());
    }
}

#[test]
fn image_silently_dropped_any_other_block_refuses_the_whole_prompt_and_is_named() {
    let mut desk = serving();
    let client = desk.enter();
    let text = json!({"type": "text", "text": "describe this"});
    for (blocks, names) in [
        (json!([text, {"type": "image", "data": ""}]), "image"),
        (
            json!([{"type": "resource_link"}, text, {"type": "audio"}, {"type": "audio"}]),
            "audio, resource_link",
        ),
        (json!([text, {}]), "untyped"),
        (json!([text, {"type": null}]), "untyped"),
        (json!([text, null]), "null"),
        (json!([text, "x"]), "string"),
        (json!([text, 5]), "number"),
        (json!([text, ["x"]]), "array"),
        (json!([text, true]), "boolean"),
        (json!([{"type": "text"}]), "text without text"),
        (json!([{"type": "text", "text": null}]), "text without text"),
    ] {
        let answer = desk.ask(client, &prompt(2, &blocks));
        assert_eq!(failed(&answer), error("2", -32602), "{blocks}");
        assert!(answer.contains(&format!("not: {names};")), "{answer}");
    }
    assert!(desk.events.is_empty(), "nothing was delivered");
}

#[test]
fn a_prompt_without_text_is_refused() {
    let mut desk = serving();
    let client = desk.enter();
    let blank = json!([{"type": "text", "text": " "}, {"type": "text", "text": "\n"}]);
    for given in [json!(null), json!({}), json!(7), json!(""), json!(" \t"), json!([]), blank] {
        assert_eq!(failed(&desk.ask(client, &prompt(2, &given))), error("2", -32602), "{given}");
    }
    let missing = r#"{"id":2,"method":"session/prompt","params":{}}"#;
    assert_eq!(failed(&desk.ask(client, missing)), error("2", -32602));
    assert!(desk.events.is_empty());
}

#[test]
fn lone_surrogate_half_a_character_in_a_prompt_costs_nothing_but_itself() {
    let mut desk = serving();
    let client = desk.enter();
    desk.ask(client, r#"{"id":2,"method":"session/prompt","params":{"prompt":"hi \ud800"}}"#);
    assert_eq!(desk.received().1, "hi \u{fffd}");
}

#[test]
fn a_bad_prompt_to_the_wrong_session_is_a_bad_prompt() {
    let mut desk = serving();
    let client = desk.enter();
    let line = r#"{"id":2,"method":"session/prompt","params":{"prompt":[],"sessionId":"other"}}"#;
    assert_eq!(failed(&desk.ask(client, line)), error("2", -32602));
}

#[test]
fn another_session_is_refused_and_ours_is_named() {
    let mut desk = serving();
    let client = desk.enter();
    for method in ["session/prompt", "session/load", "session/cancel"] {
        for session in ["\"other\"", "5", "\"sess-\""] {
            let line =
                format!(r#"{{"id":2,"method":"{method}","params":{{"prompt":"x","sessionId":{session}}}}}"#);
            let answer = desk.ask(client, &line);
            assert_eq!(failed(&answer), error("2", -32000), "{line}");
            assert!(answer.contains("sess-1"), "{answer}");
        }
    }
    assert!(desk.events.is_empty(), "nothing was delivered, nothing cancelled");
}

#[test]
fn no_session_or_an_empty_one_means_whichever_it_is() {
    let mut desk = serving();
    let client = desk.enter();
    for params in ["{}", r#"{"sessionId":""}"#, r#"{"sessionId":null}"#, r#"{"sessionId":"sess-1"}"#] {
        assert_eq!(
            desk.ask(client, &format!(r#"{{"id":2,"method":"session/load","params":{params}}}"#)),
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"sess-1\",\"cwd\":\"/home/u/proj\",\"busy\":false}}\n"
        );
    }
}

#[test]
fn a_session_without_an_id_is_loaded_under_its_peer_id_and_takes_any() {
    let mut config = config();
    config.record.session_id = None;
    let mut desk = serving_with(config);
    let client = desk.enter();
    let line = r#"{"id":2,"method":"session/load","params":{"sessionId":"whatever"}}"#;
    assert!(desk.ask(client, line).contains(r#""sessionId":"0a1b2c3d""#));
}

#[test]
fn always_cancelled_a_queued_prompt_waits_for_a_turn_to_start_and_to_end() {
    let mut desk = serving();
    let client = desk.enter();
    assert_eq!(desk.prompt(client, 2, "say PONG"), "");
    desk.start();
    assert_eq!(desk.read(client), "");
    desk.run([ended("PONG")]);
    assert_eq!(
        desk.read(client),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\",\"agenticaAnswer\":\"PONG\"}}\n"
    );
    assert_eq!(desk.now.mono, Time::ZERO, "nothing was waited for");
}

#[test]
fn a_queued_prompt_lets_the_turn_in_flight_end_first() {
    let mut desk = serving();
    let client = desk.enter();
    desk.run([Command::TurnStarted]);
    desk.prompt(client, 2, "next");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Queued), ended("of the keyboard")]);
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.read(client), "");
    desk.run([Command::TurnStarted, ended("mine")]);
    assert!(desk.read(client).contains("\"mine\""));
}

#[test]
fn a_steered_prompt_ends_with_the_turn_and_the_settle_window() {
    let mut desk = serving();
    let client = desk.enter();
    desk.run([Command::TurnStarted]);
    desk.prompt(client, 2, "also this");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Steered), ended("both done")]);
    desk.pass(Duration::from_millis(999));
    assert_eq!(desk.read(client), "");
    desk.pass(Duration::from_millis(1));
    assert!(desk.read(client).contains("\"both done\""));
}

#[test]
fn words_too_late_for_the_turn_are_answered_by_the_one_they_start() {
    let mut desk = serving();
    let client = desk.enter();
    desk.run([Command::TurnStarted]);
    desk.prompt(client, 2, "too late");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Steered), ended("old"), Command::TurnStarted]);
    desk.pass(Duration::from_secs(5));
    assert_eq!(desk.read(client), "");
    desk.run([ended("new")]);
    assert!(desk.read(client).contains("\"new\""));
}

#[test]
fn words_steered_into_a_turn_that_has_just_ended_settle_at_once() {
    let mut desk = serving();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Steered)]);
    desk.pass(Duration::from_secs(1));
    assert_eq!(
        desk.read(client),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n"
    );
}

#[test]
fn an_empty_answer_is_left_out() {
    for answer in [None, Some(""), Some(" \n")] {
        let mut desk = serving();
        let client = desk.enter();
        desk.prompt(client, 2, "x");
        desk.start();
        desk.run([Command::TurnEnded(Turn::ended(Stop::EndTurn, answer.map(str::to_owned)))]);
        assert_eq!(
            desk.read(client),
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n"
        );
    }
}

#[test]
fn a_turn_that_never_starts_or_never_ends_is_pending_after_ten_minutes() {
    for starts in [false, true] {
        let mut desk = serving();
        let client = desk.enter();
        desk.prompt(client, 2, "x");
        let (prompt, _) = desk.received();
        desk.run([Command::Injected(prompt, Injection::Queued)]);
        if starts {
            desk.run([Command::TurnStarted]);
        }
        desk.pass(Duration::from_secs(599));
        assert_eq!(desk.read(client), "");
        desk.pass(Duration::from_secs(1));
        assert_eq!(desk.read(client), PENDING);
        desk.prompt(client, 3, "the next one");
        assert_eq!(desk.received().1, "the next one");
    }
}

#[test]
fn a_host_that_cannot_say_what_it_did_makes_it_pending_at_once() {
    let mut desk = serving();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Unknown)]);
    assert_eq!(desk.read(client), PENDING);
}

#[test]
fn an_injection_that_fails_is_an_error_with_its_text() {
    let mut desk = serving();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Failed("the agent is broken".to_owned()))]);
    let answer = desk.read(client);
    assert_eq!(failed(&answer), error("2", -32603));
    assert!(answer.contains("the agent is broken"));
    assert_eq!(desk.ask(client, PING), PONG);
}
