//! What an agent asks.

use super::*;

#[test]
fn hidden_permission_timeout_a_permission_has_no_clock() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.told();
    rig.wait(Duration::from_secs(24 * 3600));
    assert_eq!(rig.told(), []);
}

#[test]
fn what_is_asked_in_a_turn_ends_with_it_and_does_not_stop_the_clocks_of_the_next() {
    let timeouts = Timeouts { silence: Some(Duration::from_secs(10)), ..Timeouts::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { timeouts, ..given() }, &["s"]);
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    let request = keys(&rig.told())[0];
    rig.written();
    rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    let told = rig.told();
    assert!(matches!(&*told, [Event::Withdrawn(key), Event::TurnEnded(_)] if *key == request), "{told:?}");
    rig.command(prompt(8)).unwrap();
    rig.wait(Duration::from_secs(10));
    let told = rig.told();
    assert!(
        matches!(&*told, [Event::TurnEnded(ended)] if matches!(ended.end, Err(Failure::Silent { .. }))),
        "{told:?}"
    );
}

#[test]
fn a_question_that_would_be_much_to_keep_is_refused() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.written();
    for (length, taken) in [(4096, true), (100_000, false)] {
        let option = "x".repeat(length);
        rig.hear(&format!(
            r#"{{"jsonrpc":"2.0","id":{length},"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"c"}},"options":[{{"optionId":"{option}","name":"Yes","kind":"allow_once"}}]}}}}"#
        ));
        assert_eq!(keys(&rig.told()).len(), usize::from(taken));
        assert_eq!(rig.written().iter().any(|line| line.contains("-32602")), !taken);
    }
}

#[test]
fn lossy_option_id_only_an_offered_option_answers_a_permission_and_only_once() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("\"a\\u00e9\""));
    let request = keys(&rig.told())[0];
    rig.written();
    let answer = |option: &str| Command::Answer { request, outcome: PermissionOutcome::selected(option) };
    assert!(matches!(rig.command(answer("Yes")), Err(Refused::Invalid(_))));
    assert_eq!(rig.command(Command::Reply { request, result: empty() }), Err(Refused::Unknown));
    assert_eq!(rig.command(answer("n")), Ok(()));
    // The id comes back byte for byte.
    assert_eq!(
        rig.line(),
        r#"{"jsonrpc":"2.0","id":"a\u00e9","result":{"outcome":{"outcome":"selected","optionId":"n"}}}"#
    );
    assert_eq!(rig.command(answer("y")), Err(Refused::Unknown));
}

#[test]
fn cancel_while_policy_thinks_a_question_that_the_agent_withdraws_is_answered_once() {
    let mut config = given();
    config.capabilities.fs.read_text_file = true;
    let mut rig = Rig::<Client>::with_sessions(config, &["s"]);
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.hear(
        r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/f"}}"#,
    );
    let asked = keys(&rig.told());
    rig.written();
    for id in [0, 1, 1, 0] {
        rig.hear(&format!(
            r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
        ));
    }
    assert_eq!(
        rig.written(),
        [
            r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"request cancelled"}}"#,
        ]
    );
    assert_eq!(rig.told(), [Event::Withdrawn(asked[0]), Event::Withdrawn(asked[1])]);
    let late = Command::Answer { request: asked[0], outcome: PermissionOutcome::selected("y") };
    assert_eq!(rig.command(late), Err(Refused::Unknown));
}

#[test]
fn an_id_that_is_open_cannot_be_used_again_but_ids_of_both_directions_do_not_meet() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.written();
    // Our prompt has id 2 as well.
    rig.hear(&ask("2"));
    assert_eq!(keys(&rig.told()).len(), 1);
    rig.hear(&ask("2"));
    assert!(rig.line().contains("-32600"));
    assert_eq!(rig.told(), []);
    rig.hear(&ask("\"2\""));
    assert_eq!(keys(&rig.told()).len(), 1);
}

#[test]
fn too_many_questions_at_once_are_refused_one_by_one() {
    let limits = Limits { peer_requests: 2, ..Limits::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { limits, ..given() }, &["s"]);
    for id in 0..3 {
        rig.hear(&ask(&id.to_string()));
    }
    assert!(rig.line().contains(r#""id":2,"error":{"code":-32603"#));
    assert_eq!(keys(&rig.told()).len(), 2);
}

#[test]
fn what_was_offered_is_asked_of_the_application() {
    let mut config = given();
    config.capabilities.fs.read_text_file = true;
    config.capabilities.fs.write_text_file = true;
    config.capabilities.terminal = true;
    config.capabilities.elicitation.form = true;
    config.extensions = vec!["craft/drainMidTurnQueue".into()];
    let mut rig = Rig::<Client>::with_sessions(config, &["s"]);
    let wanted = [
        r#""fs/read_text_file","params":{"sessionId":"s","path":"/f","line":null,"limit":3}"#,
        r#""fs/write_text_file","params":{"sessionId":"s","path":"/f","content":""}"#,
        r#""terminal/create","params":{"sessionId":"s","command":"ls","args":null,"env":[{"name":"A","value":"1"}]}"#,
        r#""terminal/output","params":{"sessionId":"s","terminalId":"t"}"#,
        r#""terminal/wait_for_exit","params":{"sessionId":"s","terminalId":"t"}"#,
        r#""terminal/kill","params":{"sessionId":"s","terminalId":"t"}"#,
        r#""terminal/release","params":{"sessionId":"s","terminalId":"t"}"#,
        r#""elicitation/create","params":{"sessionId":"s","mode":"form","message":"?","requestedSchema":{"type":"object"}}"#,
        r#""craft/drainMidTurnQueue""#,
    ];
    for (id, wanted) in wanted.iter().enumerate() {
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{wanted}}}"#));
        let asked = keys(&rig.told());
        let [request] = asked[..] else { panic!("{wanted}: {:?}", rig.written()) };
        rig.command(Command::Reply { request, result: empty() }).unwrap();
        assert_eq!(rig.line(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    let refused = [
        r#""fs/read_text_file","params":{"sessionId":"s","path":"/f","line":-1}"#,
        r#""fs/read_text_file","params":{"sessionId":"s"}"#,
        r#""fs/write_text_file","params":{"sessionId":"s","path":"/f"}"#,
        r#""terminal/create","params":{"sessionId":"s","command":"ls","cwd":5}"#,
        r#""terminal/create","params":{"sessionId":"s","command":"ls","args":[1]}"#,
        r#""elicitation/create","params":{"sessionId":"s","mode":"url","message":"?"}"#,
    ];
    for wanted in refused {
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":{wanted}}}"#));
        assert!(rig.line().contains("-32602"), "{wanted}");
        assert_eq!(keys(&rig.told()).len(), 0, "{wanted}");
    }
}

#[test]
fn an_option_of_an_unknown_kind_can_be_chosen_and_is_never_taken_for_a_yes() {
    let mut rig = one_session();
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":" ","name":"N","kind":"allow_for_day"}]}}"#);
    let Event::PermissionAsked(asked) = rig.event() else { panic!("not asked") };
    assert!(!asked.asked.options[0].kind.allows());
    let outcome = PermissionOutcome::selected(" ");
    assert_eq!(rig.command(Command::Answer { request: asked.request, outcome }), Ok(()));
}

#[test]
fn permission_wait_stops_reading_updates_are_read_while_a_question_is_open() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    let request = keys(&rig.told())[0];
    rig.written();
    for n in 0..1000 {
        rig.hear(&text("s", &n.to_string()));
    }
    assert_eq!(rig.told().len(), 1000);
    rig.command(Command::Answer { request, outcome: PermissionOutcome::selected("y") }).unwrap();
    assert!(rig.line().contains(r#""optionId":"y""#));
}

fn ask_of(id: &str, session: &str) -> String {
    ask(id).replace(r#""sessionId":"s""#, &format!(r#""sessionId":"{session}""#))
}

/// C11: a subagent asks by a session id of its own, which nobody was told.
#[test]
fn c11_what_a_session_of_the_agents_own_asks_is_answered_when_the_turn_is_cancelled_or_over() {
    let cancelled = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#)
    };
    for by_us in [true, false] {
        let mut rig = one_session();
        rig.command(prompt(7)).unwrap();
        rig.hear(&ask_of("0", "child"));
        let request = keys(&rig.told())[0];
        rig.written();
        if by_us {
            rig.command(cancel()).unwrap();
        } else {
            rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
        }
        assert!(rig.written().contains(&cancelled("0")));
        assert!(matches!(&rig.told()[..], [Event::Withdrawn(key), ..] if *key == request));
        // What it asks from here on, too.
        if by_us {
            rig.hear(&ask_of("1", "child"));
            assert_eq!((rig.line(), rig.told()), (cancelled("1"), vec![]));
        }
    }
}

#[test]
fn c11_what_a_session_of_the_agents_own_asks_waits_for_the_last_turn() {
    let mut rig = Rig::<Client>::with_sessions(given(), &["s", "t"]);
    rig.command(prompt(7)).unwrap();
    let other = Command::Prompt { tag: Tag(8), session: "t".into(), prompt: vec![ContentBlock::text("x")] };
    rig.command(other).unwrap();
    rig.hear(&ask_of("0", "child"));
    rig.told();
    rig.hear(&result(3, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["ended 7 end_turn"]);
    rig.hear(&result(4, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["withdrawn", "ended 8 end_turn"]);
}

/// C11: forms and pages are questions to a person as well.
#[test]
fn c11_an_elicitation_of_a_turn_is_cancelled_with_it() {
    let mut config = given();
    config.capabilities.elicitation.form = true;
    let mut rig = Rig::<Client>::with_sessions(config, &["s"]);
    rig.command(prompt(7)).unwrap();
    rig.hear(
        r#"{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"which?","requestedSchema":{}}}"#,
    );
    rig.written();
    rig.command(cancel()).unwrap();
    assert!(rig.written().contains(&r#"{"jsonrpc":"2.0","id":9,"result":{"action":"cancel"}}"#.to_owned()));
}
