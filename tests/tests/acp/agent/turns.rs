//! Turns, and what an agent asks in them.

use super::*;

#[test]
fn image_silently_dropped_a_prompt_with_content_that_is_not_taken_is_refused_as_a_whole_and_names_it() {
    let mut rig = Rig::<Agent>::with_sessions(plain(), "{}", &["s"]);
    let blocks = r#"[{"type":"text","text":"t"},{"type":"image","data":"","mimeType":"image/png"},{"type":"resource","resource":{"uri":"u","text":"t"}},{"type":"future"}]"#;
    rig.hear(&request("7", "session/prompt", &format!(r#"{{"sessionId":"s","prompt":{blocks}}}"#)));
    assert_eq!(
        rig.line(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"content that is not taken: image, resource, future"}}"#
    );
    let links = r#"[{"type":"text","text":"t"},{"type":"resource_link","uri":"u","name":"n"}]"#;
    rig.told();
    rig.hear(&request("8", "session/prompt", &format!(r#"{{"sessionId":"s","prompt":{links}}}"#)));
    assert_eq!(words(&mut rig), ["prompted s"]);
}

#[test]
fn overlapping_prompts_one_prompt_at_a_time_on_a_session_and_any_number_on_several() {
    let mut rig = Rig::<Agent>::with_sessions(generous(), "{}", &["s", "t"]);
    let turn = begin(&mut rig, "1");
    rig.hear(&prompt("2"));
    assert!(rig.line().contains(r#""id":2,"error":{"code":-32600"#));
    rig.hear(&request("3", "session/prompt", r#"{"sessionId":"t","prompt":[]}"#));
    assert_eq!(words(&mut rig), ["prompted t"]);
    rig.command(end(turn)).unwrap();
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#);
    begin(&mut rig, "4");
}

#[test]
fn nothing_of_a_turn_follows_its_answer() {
    let mut rig = one_session();
    let turn = begin(&mut rig, "1");
    rig.command(say(turn, "last words\u{2028}")).unwrap();
    rig.command(end(turn)).unwrap();
    assert_eq!(
        rig.written(),
        [
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"last words\u2028"}}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#,
        ]
    );
    let report = Command::Report { turn, update: Update::ToolCall(ToolCall::default()) };
    for late in [say(turn, "late"), report, ask(1, turn), end(turn)] {
        assert_eq!(rig.command(late), Err(Refused::Unknown));
    }
    let failure = Command::FailTurn { turn, error: RpcError::new(-32603, "m") };
    assert_eq!(rig.command(failure), Err(Refused::Unknown));
}

#[test]
fn no_cancelled_permission_reported_end_turn_and_no_cancel_kills_session() {
    for by_request in [false, true] {
        for fails in [false, true] {
            let mut rig = one_session();
            let turn = begin(&mut rig, "\"p\"");
            let cancel = if by_request {
                r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p"}}"#
            } else {
                r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#
            };
            rig.hear(cancel);
            rig.hear(cancel);
            assert_eq!(words(&mut rig), ["cancelled"]);
            // What is on its way may still be told.
            rig.command(say(turn, "so far")).unwrap();
            let error = RpcError::new(-32603, "aborted");
            rig.command(if fails { Command::FailTurn { turn, error } } else { end(turn) }).unwrap();
            assert_eq!(rig.written()[1], r#"{"jsonrpc":"2.0","id":"p","result":{"stopReason":"cancelled"}}"#);
            rig.hear(cancel);
            assert_eq!(words(&mut rig), [""; 0]);
            // And the session lives on.
            let next = begin(&mut rig, "2");
            rig.command(end(next)).unwrap();
            assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
        }
    }
}

#[test]
fn a_turn_that_was_not_cancelled_fails_as_it_says() {
    let mut rig = one_session();
    let turn = begin(&mut rig, "1");
    rig.command(Command::FailTurn { turn, error: RpcError::new(-32603, "m") }).unwrap();
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}"#);
}

#[test]
fn reject_taken_as_allow_only_an_offered_option_is_a_choice() {
    for (answer, outcome) in [
        (r#""result":{"outcome":{"outcome":"selected","optionId":"n"}}"#, PermissionOutcome::selected("n")),
        (
            r#""result":{"outcome":{"outcome":"selected","optionId":"n","_meta":{}}}"#,
            PermissionOutcome::selected("n"),
        ),
        (r#""result":{"outcome":{"outcome":"cancelled"}}"#, PermissionOutcome::Cancelled),
        (r#""result":{"outcome":{"outcome":"selected","optionId":"allow"}}"#, PermissionOutcome::Cancelled),
        (r#""result":{"outcome":"selected","optionId":"y"}"#, PermissionOutcome::Cancelled),
        (r#""result":{"outcome":{"outcome":"approved"}}"#, PermissionOutcome::Cancelled),
        (r#""result":null"#, PermissionOutcome::Cancelled),
        (r#""result":[["selected","y"]]"#, PermissionOutcome::Cancelled),
        (r#""result":[{"outcome":"selected","optionId":"y"}]"#, PermissionOutcome::Cancelled),
        (r#""result":{"outcome":["selected","y"]}"#, PermissionOutcome::Cancelled),
        (r#""error":{"code":-32800,"message":"m"}"#, PermissionOutcome::Cancelled),
        (r#""error":{"code":-32601,"message":"m"}"#, PermissionOutcome::Cancelled),
    ] {
        let mut rig = one_session();
        let turn = begin(&mut rig, "1");
        rig.command(ask(5, turn)).unwrap();
        assert_eq!(
            rig.line(),
            r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"y","name":"y","kind":"allow_once"},{"optionId":"n","name":"n","kind":"reject_once"}]}}"#
        );
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":0,{answer}}}"#));
        assert_eq!(rig.event(), Event::PermissionAnswered(Tag(5), outcome), "{answer}");
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":0,{answer}}}"#));
        assert_eq!(words(&mut rig), ["orphan 0"]);
    }
}

#[test]
fn the_end_of_a_turn_answers_its_open_questions() {
    let mut rig = one_session();
    let turn = begin(&mut rig, "1");
    rig.command(ask(5, turn)).unwrap();
    rig.command(end(turn)).unwrap();
    assert_eq!(rig.event(), Event::PermissionAnswered(Tag(5), PermissionOutcome::Cancelled));
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#);
    assert_eq!(words(&mut rig), ["orphan 0"]);
}

#[test]
fn a_question_can_be_withdrawn_and_is_answered_all_the_same() {
    let mut rig = one_session();
    let turn = begin(&mut rig, "1");
    rig.command(ask(5, turn)).unwrap();
    rig.written();
    assert_eq!(rig.command(ask(5, turn)), Err(Refused::Busy));
    rig.command(Command::Withdraw { tag: Tag(5) }).unwrap();
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#);
    assert_eq!(words(&mut rig), [""; 0]);
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32800,"message":"m"}}"#);
    assert_eq!(rig.event(), Event::PermissionAnswered(Tag(5), PermissionOutcome::Cancelled));
}

#[test]
fn what_a_client_does_not_offer_is_not_asked_of_it() {
    let session_id = || SessionId::from("s");
    let terminal = || TerminalRef { session_id: session_id(), terminal_id: "t".into() };
    let read = ReadTextFile { session_id: session_id(), path: "/f".into(), line: None, limit: None };
    let elicit = |mode: &str| Elicit {
        message: "?".into(),
        mode: mode.into(),
        session_id: Some(session_id()),
        ..Elicit::default()
    };
    let update = |tag: &str| {
        let raw = Json::new(&serde_json::json!({ "sessionUpdate": tag }));
        Command::Announce { session: session_id(), update: Update::Other(Unknown { tag: tag.into(), raw }) }
    };
    let linked = || {
        let raw = Json::new(&serde_json::json!({ "type": "session", "sessionId": "x" }));
        let content =
            vec![agentline_core::acp::update::ToolContent::Unknown(Unknown { tag: "session".into(), raw })];
        Command::Announce {
            session: session_id(),
            update: Update::ToolCall(ToolCall { content, ..ToolCall::default() }),
        }
    };
    let wanted = |wanted| Command::Request { tag: Tag(1), wanted };
    let commands = || {
        vec![
            wanted(ServiceRequest::ReadTextFile(read.clone())),
            wanted(ServiceRequest::KillTerminal(terminal())),
            wanted(ServiceRequest::Elicit(elicit("form"))),
            wanted(ServiceRequest::Elicit(elicit("url"))),
            Command::CompleteElicitation { elicitation: "e".into() },
            update("notice"),
            update("compaction_update"),
            update("compaction_summary_chunk"),
            update("plan_update"),
            update("plan_removed"),
            update("subagent_update"),
            update("session_message"),
            update("session_message_chunk"),
            linked(),
        ]
    };
    for command in commands() {
        let mut rig = Rig::<Agent>::with_sessions(generous(), "{}", &["s"]);
        assert!(matches!(rig.command(command.clone()), Err(Refused::NotOffered(_))), "{command:?}");
        let mut rig = one_session();
        assert_eq!(rig.command(command), Ok(()));
        assert_eq!(rig.written().len(), 1);
    }
    let mut rig = Rig::<Agent>::with_sessions(generous(), "{}", &["s"]);
    assert_eq!(rig.command(update("_mine")), Ok(()));
    let elicit = Elicit { session_id: None, ..elicit("form") };
    let mut rig = one_session();
    assert!(matches!(rig.command(wanted(ServiceRequest::Elicit(elicit))), Err(Refused::Invalid(_))));
}

#[test]
fn a_session_is_spoken_of_also_between_turns() {
    let mut rig = Rig::<Agent>::with_sessions(plain(), "{}", &["s"]);
    let tell = |message: Option<&str>| Command::Tell {
        session: "s".into(),
        speaker: Speaker::Agent,
        text: "t".into(),
        message: message.map(Into::into),
    };
    rig.command(tell(Some("m"))).unwrap();
    let chunk = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}"#;
    let line = |more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{chunk}{more}}}}}}}"#
        )
    };
    assert_eq!(rig.line(), line(r#","messageId":"m""#));
    rig.command(tell(None)).unwrap();
    assert_eq!(rig.line(), line(""));
    // A question of a session may come at any time, and ends with the turn that ran then.
    let question = |tag: u64| {
        let tool_call = ToolCallUpdate { tool_call_id: "c".into(), ..ToolCallUpdate::default() };
        Command::AskPermission {
            tag: Tag(tag),
            of: Of::Session("s".into()),
            tool_call,
            options: Vec::new(),
            meta: None,
        }
    };
    rig.command(question(1)).unwrap();
    rig.hear(&request("7", "session/prompt", r#"{"sessionId":"s","prompt":[],"_meta":{"trace":1}}"#));
    let Event::Prompted(prompted) = rig.event() else { panic!("no turn") };
    assert_eq!(prompted.meta.map(|meta| meta.get().to_owned()).as_deref(), Some(r#"{"trace":1}"#));
    rig.command(question(2)).unwrap();
    rig.written();
    let usage = Some(Json::new(&serde_json::json!({ "totalTokens": 3 })));
    let stopped = Stopped { usage, ..StopReason::EndTurn.into() };
    rig.command(Command::EndTurn { turn: prompted.turn, stopped }).unwrap();
    let answer = r#"{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn","usage":{"totalTokens":3}}}"#;
    assert_eq!(rig.line(), answer);
    let told = rig.told();
    assert!(
        matches!(told[..], [Event::PermissionAnswered(Tag(2), PermissionOutcome::Cancelled)]),
        "{told:?}"
    );
}

#[test]
fn a_subagent_that_was_told_speaks_and_asks_in_a_session_of_its_own_as_long_as_its_session_is_there() {
    let mut rig = one_session();
    let turn = begin(&mut rig, "1");
    let tell = |session: &str| Command::Tell {
        session: session.into(),
        speaker: Speaker::Agent,
        text: "there".into(),
        message: None,
    };
    let ask_as = |session: &str| {
        let Command::AskPermission { tag, tool_call, options, meta, .. } = ask(1, turn) else {
            unreachable!()
        };
        Command::AskPermission { tag, of: Of::Session(session.into()), tool_call, options, meta }
    };
    let subagent = |child: &str| -> Update {
        let news = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}","title":"scout"}}"#);
        serde_json::from_str(&news).expect("an update")
    };
    assert_eq!(rig.command(tell("child")), Err(Refused::Unknown));
    rig.command(Command::Report { turn, update: subagent("child") }).unwrap();
    rig.command(Command::Announce { session: "child".into(), update: subagent("grandchild") }).unwrap();
    rig.written();
    for session in ["child", "grandchild"] {
        rig.command(tell(session)).unwrap();
        assert!(rig.line().contains(&format!(r#""sessionId":"{session}","update""#)));
    }
    rig.command(ask_as("grandchild")).unwrap();
    assert!(rig.line().contains(r#""sessionId":"grandchild","toolCall""#));
    // It ends with the turn of the session that it works for.
    rig.command(end(turn)).unwrap();
    assert_eq!(words(&mut rig), ["permission 1 Cancelled"]);
    rig.command(tell("child")).unwrap();
    rig.hear(&request("2", "session/close", r#"{"sessionId":"s"}"#));
    let request = asked(&mut rig).request;
    rig.command(Command::Reply { request, reply: Reply::Done }).unwrap();
    assert_eq!(rig.command(tell("grandchild")), Err(Refused::Unknown));

    let mut rig = Rig::<Agent>::with_sessions(generous(), "{}", &["s"]);
    let turn = begin(&mut rig, "1");
    let report = Command::Report { turn, update: subagent("child") };
    assert_eq!(rig.command(report), Err(Refused::NotOffered("that kind of update")));
    assert_eq!(rig.command(tell("child")), Err(Refused::Unknown));
}
