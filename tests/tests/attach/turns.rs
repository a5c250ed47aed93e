//! Several clients, cancels, order.

use super::*;

#[test]
fn what_follows_a_prompt_on_its_connection_is_answered_after_it() {
    let mut desk = serving();
    let client = desk.enter();
    desk.send(client, format!("{}\n{PING}\n", prompt(2, &json!("x"))).as_bytes());
    desk.start();
    assert_eq!(desk.read(client), "");
    desk.run([ended("done")]);
    let answers = desk.read(client);
    assert!(answers.contains("\"done\"") && answers.ends_with(PONG), "{answers}");
}

#[test]
fn a_cancel_behind_its_own_prompt_comes_too_late() {
    let mut desk = serving();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    desk.start();
    assert_eq!(desk.ask(client, r#"{"id":3,"method":"session/cancel"}"#), "");
    assert!(desk.events.is_empty());
    desk.run([ended("done")]);
    let answers = desk.read(client);
    assert!(answers.contains("end_turn") && answers.ends_with("\"id\":3,\"result\":{}}\n"), "{answers}");
    assert_eq!(desk.events.pop_front(), Some(Event::CancelReceived));
}

#[test]
fn cancel_wedges_session_a_cancel_on_another_connection_ends_the_prompt_at_once() {
    let mut desk = serving();
    let (client, other) = (desk.enter(), desk.enter());
    desk.prompt(client, 2, "x");
    desk.start();
    assert_eq!(
        desk.ask(
            other,
            r#"{"jsonrpc":"2.0","id":3,"method":"session/cancel","params":{"sessionId":"sess-1"}}"#
        ),
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n"
    );
    assert_eq!(
        desk.read(client),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"cancelled\"}}\n"
    );
    assert_eq!(desk.events.pop_front(), Some(Event::CancelReceived));
    desk.run([Command::TurnEnded(Turn::cancelled())]);
    assert_eq!(desk.read(client), "");
}

#[test]
fn a_cancel_reaches_a_prompt_at_every_stage() {
    let stages: [&[Command]; 4] = [
        &[],
        &[Command::Injected(PromptId(0), Injection::Queued)],
        &[Command::Injected(PromptId(0), Injection::Steered)],
        &[Command::Injected(PromptId(0), Injection::Queued), Command::TurnStarted],
    ];
    for stage in stages {
        let mut desk = serving();
        let (client, other) = (desk.enter(), desk.enter());
        desk.prompt(client, 2, "x");
        desk.run(stage.iter().cloned());
        desk.ask(other, r#"{"id":3,"method":"session/cancel"}"#);
        assert!(desk.read(client).contains("cancelled"), "{stage:?}");
        assert_eq!(desk.command(Command::Injected(PromptId(0), Injection::Queued)), Err(Refused::Unknown));
    }
}

#[test]
fn a_turn_cancelled_at_the_keyboard_ends_its_prompt_as_cancelled() {
    let mut desk = serving();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    desk.start();
    desk.run([Command::TurnEnded(Turn::cancelled())]);
    assert!(desk.read(client).contains("cancelled"));
}

#[test]
fn a_cancel_of_nothing_is_told_and_leaves_no_trace() {
    let mut desk = serving();
    let client = desk.enter();
    assert!(desk.ask(client, r#"{"id":3,"method":"session/cancel"}"#).contains("\"result\":{}"));
    assert_eq!(desk.events.pop_front(), Some(Event::CancelReceived));
    desk.prompt(client, 2, "x");
    desk.start();
    desk.run([ended("done")]);
    assert!(desk.read(client).contains("end_turn"));
}

#[test]
fn others_are_answered_at_once_while_a_turn_runs() {
    let mut desk = serving();
    let (client, other) = (desk.enter(), desk.enter());
    desk.prompt(client, 2, "x");
    desk.start();
    assert_eq!(desk.ask(other, PING), PONG);
    assert!(desk.ask(other, r#"{"id":3,"method":"session/load"}"#).contains("\"busy\":true"));
}

#[test]
fn overlapping_prompts_prompts_of_several_clients_are_handed_over_one_by_one_in_order() {
    let mut desk = serving();
    let clients = [desk.enter(), desk.enter(), desk.enter()];
    for (n, client) in (0..).zip(clients) {
        desk.prompt(client, n, &format!("from {n}"));
    }
    for (n, client) in clients.into_iter().enumerate() {
        let (prompt, text) = desk.received();
        assert_eq!(text, format!("from {n}"));
        assert!(desk.events.is_empty(), "one at a time");
        desk.run([
            Command::Injected(prompt, Injection::Queued),
            Command::TurnStarted,
            ended(&format!("to {n}")),
        ]);
        assert!(desk.read(client).contains(&format!("to {n}")));
    }
}

#[test]
fn completion_before_state_reset_a_cancel_lets_the_next_prompt_take_its_turn() {
    let mut desk = serving();
    let (first, second, third) = (desk.enter(), desk.enter(), desk.enter());
    desk.prompt(first, 1, "one");
    desk.prompt(second, 2, "two");
    desk.start();
    desk.ask(third, r#"{"id":3,"method":"session/cancel"}"#);
    assert_eq!(desk.events.pop_front(), Some(Event::CancelReceived));
    desk.run([Command::TurnEnded(Turn::cancelled())]);
    desk.start();
    desk.run([ended("two done")]);
    assert!(desk.read(first).contains("cancelled"));
    assert!(desk.read(second).contains("two done"));
}

#[test]
fn c12_a_turn_that_did_not_end_well_is_never_an_end_turn() {
    for (stop, word) in [
        (Stop::Refusal, "refusal"),
        (Stop::MaxTokens, "max_tokens"),
        (Stop::MaxTurnRequests, "max_turn_requests"),
        (Stop::Other("out_of_coffee".to_owned()), "out_of_coffee"),
    ] {
        let mut desk = serving();
        let client = desk.enter();
        desk.prompt(client, 2, "x");
        desk.start();
        desk.run([Command::TurnEnded(Turn::ended(stop, Some("so far".to_owned())))]);
        let answer: Value = serde_json::from_str(&desk.read(client)).expect("a line");
        assert_eq!(answer["result"], json!({"stopReason": word, "agenticaAnswer": "so far"}));
    }
}

#[test]
fn c12_a_turn_that_failed_is_an_error_that_says_the_words_were_delivered() {
    for (answer, data) in [
        (Some("so far"), json!({"promptSent": true, "agenticaAnswer": "so far"})),
        (Some(" "), json!({"promptSent": true})),
        (None, json!({"promptSent": true})),
    ] {
        let mut desk = serving();
        let client = desk.enter();
        desk.prompt(client, 2, "x");
        desk.start();
        let answer = answer.map(str::to_owned);
        desk.run([Command::TurnFailed { why: "the model is gone".to_owned(), answer }]);
        let told: Value = serde_json::from_str(&desk.read(client)).expect("a line");
        let error = json!({"code": -32603, "message": "the model is gone", "data": data});
        assert_eq!((&told["id"], &told["error"]), (&json!(2), &error));
        assert_eq!(desk.record()["busy"], false);
        assert_eq!(desk.ask(client, PING), PONG, "the connection goes on");
    }
}

#[test]
fn c12_words_steered_into_a_turn_that_fails_wait_for_a_turn_of_their_own_first() {
    for follows in [false, true] {
        let mut desk = serving();
        let client = desk.enter();
        desk.run([Command::TurnStarted]);
        desk.prompt(client, 2, "x");
        let (prompt, _) = desk.received();
        desk.run([
            Command::Injected(prompt, Injection::Steered),
            Command::TurnFailed { why: "no model".to_owned(), answer: None },
        ]);
        assert_eq!(desk.read(client), "");
        if follows {
            desk.run([Command::TurnStarted, ended("late words")]);
            assert!(desk.read(client).contains("late words"));
        } else {
            desk.pass(Duration::from_secs(1));
            assert_eq!(failed(&desk.read(client)), error("2", -32603));
        }
    }
}

#[test]
fn c12_a_turn_whose_end_nobody_saw_is_pending() {
    let mut desk = serving();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    desk.start();
    desk.run([Command::TurnEnded(Turn::unseen())]);
    assert_eq!(desk.read(client), PENDING);
}
