//! What a client asks, and how it is answered.

use super::*;

#[test]
fn each_request_is_asked_of_the_application_and_answered_in_its_form() {
    let session = || SessionId::from("s");
    let opened =
        |session: &str| Reply::SessionOpened { session: session.into(), state: SessionState::default() };
    let table: Vec<(&str, &str, &str, Reply, &str)> = vec![
        ("authenticate", r#"{"methodId":"login"}"#, "authenticate login", Reply::Done, "{}"),
        ("logout", "null", "logout", Reply::Done, "{}"),
        (
            "session/new",
            r#"{"cwd":"/n","mcpServers":null,"additionalDirectories":null}"#,
            "new /n",
            opened("t"),
            r#"{"sessionId":"t"}"#,
        ),
        ("session/new", r#"{"cwd":"/n"}"#, "new /n", opened("t"), r#"{"sessionId":"t"}"#),
        (
            "session/new",
            r#"{"cwd":"/n","mcpServers":[{"type":"stdio","name":"m","command":"/m"},{"type":"http","name":"h","url":"u","headers":[]}],"systemPrompt":{"mode":"override","content":[{"type":"text","text":"t"}]}}"#,
            "new /n",
            opened("t"),
            r#"{"sessionId":"t"}"#,
        ),
        (
            "session/load",
            r#"{"sessionId":"old","cwd":"/n","mcpServers":[]}"#,
            "load old",
            opened("old"),
            "{}",
        ),
        ("session/resume", r#"{"sessionId":"old","cwd":"/n"}"#, "resume old", opened("old"), "{}"),
        ("session/list", "{}", "list", Reply::Sessions(SessionList::default()), r#"{"sessions":[]}"#),
        ("session/close", r#"{"sessionId":"s"}"#, "close s", Reply::Done, "{}"),
        ("session/delete", r#"{"sessionId":"never"}"#, "delete never", Reply::Done, "{}"),
        ("session/set_mode", r#"{"sessionId":"s","modeId":"ask"}"#, "mode s ask", Reply::Done, "{}"),
        (
            "session/set_config_option",
            r#"{"sessionId":"s","configId":"m","value":"a"}"#,
            "option s m Id(\"a\")",
            Reply::Options(vec![]),
            r#"{"configOptions":[]}"#,
        ),
        (
            "session/set_config_option",
            r#"{"sessionId":"s","configId":"b","type":"boolean","value":true}"#,
            "option s b Bool(true)",
            Reply::Options(vec![]),
            r#"{"configOptions":[]}"#,
        ),
        (
            "session/set_config_option",
            r#"{"sessionId":"s","configId":"b","type":"slider","value":"a"}"#,
            "option s b Id(\"a\")",
            Reply::Options(vec![]),
            r#"{"configOptions":[]}"#,
        ),
        ("_x/known", "[1]", "extension _x/known", Reply::Called(Json::new(&5)), "5"),
    ];
    for (method, params, told, reply, result) in table {
        let mut rig = one_session();
        rig.hear(&request("7", method, params));
        let asked = asked(&mut rig);
        assert_eq!(word(&Event::Requested(Box::new(asked.clone()))), told);
        let command = |reply| Command::Reply { request: asked.request, reply };
        let wrong = if matches!(reply, Reply::Done) { Reply::Options(vec![]) } else { Reply::Done };
        assert!(matches!(rig.command(command(wrong)), Err(Refused::Invalid(_))), "{method}");
        assert_eq!(rig.command(command(reply.clone())), Ok(()), "{method}");
        assert_eq!(rig.line(), format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#));
        assert_eq!(rig.command(command(reply)), Err(Refused::Unknown), "{method}");
    }
    let mut rig = one_session();
    rig.hear(&request("7", "session/new", r#"{"cwd":"/n","mcpServers":[]}"#));
    let request = asked(&mut rig).request;
    let reply = Reply::SessionOpened { session: session(), state: SessionState::default() };
    assert!(matches!(rig.command(Command::Reply { request, reply }), Err(Refused::Invalid(_))));
    assert_eq!(rig.command(Command::Fail { request, error: RpcError::new(-32000, "log in") }), Ok(()));
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"log in"}}"#);
}

#[test]
fn what_is_not_offered_is_not_there() {
    for (method, params) in [
        ("logout", "{}"),
        ("session/load", r#"{"sessionId":"t","cwd":"/w","mcpServers":[]}"#),
        ("session/resume", r#"{"sessionId":"t","cwd":"/w"}"#),
        ("session/list", "{}"),
        ("session/close", r#"{"sessionId":"s"}"#),
        ("session/delete", r#"{"sessionId":"s"}"#),
        ("_x/known", "{}"),
    ] {
        let mut rig = Rig::<Agent>::with_sessions(plain(), "{}", &["s"]);
        rig.hear(&request("7", method, params));
        assert!(rig.line().contains("-32601"), "{method}");
    }
    for setup in [
        r#""additionalDirectories":["/x"]"#,
        r#""systemPrompt":{"mode":"append","content":[{"type":"text","text":"t"}]}"#,
        r#""mcpServers":[{"type":"http","name":"m","url":"u","headers":[]}]"#,
        r#""mcpServers":[{"type":"sse","name":"m","url":"u","headers":[]}]"#,
    ] {
        let mut rig = Rig::<Agent>::with_sessions(plain(), "{}", &["s"]);
        rig.hear(&request("7", "session/new", &format!(r#"{{"cwd":"/w",{setup}}}"#)));
        assert!(rig.line().contains("-32602"), "{setup}");
    }
    for setup in [
        r#""additionalDirectories":["x"]"#,
        r#""systemPrompt":{"mode":"replace","content":[{"type":"text","text":"t"}]}"#,
        r#""systemPrompt":{"mode":"append","content":[]}"#,
        r#""systemPrompt":{"mode":"append","content":[{"type":"image","data":"","mimeType":"image/png"}]}"#,
    ] {
        let mut rig = one_session();
        rig.hear(&request("7", "session/new", &format!(r#"{{"cwd":"/w","mcpServers":[],{setup}}}"#)));
        assert!(rig.line().contains("-32602"), "{setup}");
    }
}

#[test]
fn an_unknown_session_is_named_in_the_error() {
    let mut rig = one_session();
    rig.hear(&request("7", "session/set_mode", r#"{"sessionId":"nope","modeId":"m"}"#));
    assert!(rig.line().contains(
        r#""error":{"code":-32002,"message":"no such session: nope","data":{"sessionId":"nope"}}"#
    ));
}

#[test]
fn an_id_that_is_open_cannot_be_used_again() {
    let mut rig = one_session();
    begin(&mut rig, "\"a\"");
    rig.hear(&request("\"a\"", "session/list", "{}"));
    assert!(rig.line().contains("-32600"));
    rig.hear(&request("7", "session/list", "{}"));
    rig.told();
    rig.hear(&prompt("7"));
    assert!(rig.line().contains("-32600"));
}

#[test]
fn a_request_that_the_client_gives_up_is_over() {
    let mut rig = one_session();
    rig.hear(&request("7", "session/list", "{}"));
    let request = asked(&mut rig).request;
    for _ in 0..2 {
        rig.hear(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#);
    }
    assert_eq!(
        rig.line(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32800,"message":"request cancelled"}}"#
    );
    assert_eq!(rig.event(), Event::Withdrawn(request));
    let reply = Reply::Sessions(SessionList::default());
    assert_eq!(rig.command(Command::Reply { request, reply }), Err(Refused::Unknown));
}

#[test]
fn options_that_a_client_cannot_show_are_left_out() {
    let options = || {
        let option = |id: &str, kind, current_value| ConfigOption {
            id: id.into(),
            name: id.into(),
            description: None,
            category: None,
            kind,
            current_value,
            options: None,
        };
        vec![
            option("m", ConfigKind::Select, ConfigValue::Id("a".into())),
            option("b", ConfigKind::Boolean, ConfigValue::Bool(true)),
        ]
    };
    for (offers, shown) in [("{}", false), (CLIENT_OFFERS, true)] {
        let mut rig = Rig::<Agent>::with_sessions(generous(), offers, &["s"]);
        rig.hear(&request("7", "session/new", r#"{"cwd":"/w","mcpServers":[]}"#));
        let new = asked(&mut rig).request;
        let state = SessionState { config_options: Some(options()), ..SessionState::default() };
        let reply = Reply::SessionOpened { session: "t".into(), state };
        rig.command(Command::Reply { request: new, reply }).unwrap();
        let update = Update::ConfigOptions(ConfigOptions { config_options: options() });
        rig.command(Command::Announce { session: "s".into(), update }).unwrap();
        rig.hear(&request(
            "8",
            "session/set_config_option",
            r#"{"sessionId":"s","configId":"m","value":"a"}"#,
        ));
        let set = asked(&mut rig).request;
        rig.command(Command::Reply { request: set, reply: Reply::Options(options()) }).unwrap();
        for line in rig.written() {
            assert!(line.contains(r#""id":"m""#), "{line}");
            assert_eq!(line.contains(r#""id":"b""#), shown, "{line}");
        }
    }
}

#[test]
fn a_session_is_loaded_with_its_history_before_the_answer() {
    let mut rig = one_session();
    rig.hear(&request("7", "session/load", r#"{"sessionId":"old","cwd":"/w","mcpServers":[]}"#));
    let load = asked(&mut rig).request;
    rig.hear(&request("8", "session/prompt", r#"{"sessionId":"old","prompt":[]}"#));
    assert!(rig.line().contains("-32600"));
    let announce = |session: &str| Command::Announce {
        session: session.into(),
        update: Update::Message(
            Speaker::User,
            serde_json::from_str(r#"{"content":{"type":"text","text":"t"}}"#).unwrap(),
        ),
    };
    assert_eq!(rig.command(announce("other")), Err(Refused::Unknown));
    assert_eq!(rig.command(announce("old")), Ok(()));
    let reply =
        |session: &str| Reply::SessionOpened { session: session.into(), state: SessionState::default() };
    assert!(matches!(
        rig.command(Command::Reply { request: load, reply: reply("new") }),
        Err(Refused::Invalid(_))
    ));
    rig.command(Command::Reply { request: load, reply: reply("old") }).unwrap();
    let written = rig.written();
    assert!(
        written[0].contains("user_message_chunk") && written[1].contains(r#""result":{}"#),
        "{written:?}"
    );
}

#[test]
fn cancel_after_load_a_session_that_could_not_be_loaded_is_as_it_was() {
    let load = |session: &str| {
        request("7", "session/load", &format!(r#"{{"sessionId":"{session}","cwd":"/w","mcpServers":[]}}"#))
    };
    for (session, there) in [("s", true), ("old", false)] {
        let mut rig = one_session();
        rig.hear(&load(session));
        let key: RequestKey = asked(&mut rig).request;
        rig.command(Command::Fail { request: key, error: RpcError::new(-32603, "disk") }).unwrap();
        rig.hear(&request("8", "session/prompt", &format!(r#"{{"sessionId":"{session}","prompt":[]}}"#)));
        assert_eq!(words(&mut rig) == ["prompted s"], there);
    }
    // Not while it is at work.
    let mut rig = one_session();
    begin(&mut rig, "1");
    rig.hear(&load("s"));
    assert!(rig.line().contains("-32600"));
    rig.hear(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    assert_eq!(words(&mut rig), ["cancelled"]);
}

#[test]
fn a_session_that_is_closed_during_its_turn_answers_the_prompt_first() {
    let mut rig = one_session();
    begin(&mut rig, "1");
    rig.hear(&request("2", "session/close", r#"{"sessionId":"s"}"#));
    let told = rig.told();
    assert!(matches!(&told[..], [Event::Cancelled(_), Event::Requested(_)]), "{told:?}");
    let Event::Requested(close) = &told[1] else { panic!("{told:?}") };
    rig.command(Command::Reply { request: close.request, reply: Reply::Done }).unwrap();
    assert_eq!(
        rig.written(),
        [
            r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{}}"#
        ]
    );
    assert_eq!(words(&mut rig), ["turn over"]);
    rig.hear(&prompt("3"));
    assert!(rig.line().contains("-32002"));
}
