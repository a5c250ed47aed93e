//! What the application asks.

use super::*;

#[test]
fn no_image_silently_dropped_and_stdio_mcp_needs_no_capability_what_is_not_offered_is_not_asked() {
    let nothing = "{}";
    let setup = |setup: SessionSetup| Command::OpenSession { tag: Tag(1), which: Which::New, setup };
    let base = || SessionSetup::in_directory("/w");
    let http = McpHttp { name: "m".into(), url: "http://x".into(), headers: vec![] };
    let blocks = |json: &str| Command::Prompt {
        tag: Tag(1),
        session: "s".into(),
        prompt: serde_json::from_str(json).unwrap(),
    };
    let prompt_of =
        |mode: &str| SystemPrompt { mode: mode.into(), content: vec![ContentBlock::text("be kind")] };
    let commands = [
        Command::Logout { tag: Tag(1) },
        Command::Authenticate { tag: Tag(1), method: "no such".into() },
        Command::Authenticate { tag: Tag(1), method: "tty".into() },
        Command::ListSessions { tag: Tag(1), cwd: None, cursor: None },
        Command::DeleteSession { tag: Tag(1), session: "s".into() },
        Command::CloseSession { tag: Tag(1), session: "s".into() },
        open(1, Which::Load("t".into())),
        open(1, Which::Resume("t".into())),
        setup(SessionSetup { additional_directories: vec!["/x".into()], ..base() }),
        setup(SessionSetup { system_prompt: Some(prompt_of("append")), ..base() }),
        setup(SessionSetup { mcp_servers: vec![McpServer::Http(http.clone())], ..base() }),
        setup(SessionSetup { mcp_servers: vec![McpServer::Sse(http)], ..base() }),
        Command::SetMode { tag: Tag(1), session: "s".into(), mode: "m".into() },
        Command::SetOption {
            tag: Tag(1),
            session: "s".into(),
            option: "o".into(),
            value: ConfigValue::Bool(true),
        },
        blocks(r#"[{"type":"text","text":"t"},{"type":"image","data":"","mimeType":"image/png"}]"#),
        blocks(r#"[{"type":"audio","data":"","mimeType":"audio/wav"}]"#),
        blocks(r#"[{"type":"resource","resource":{"uri":"u","text":"t"}}]"#),
    ];
    for command in commands {
        let mut rig = Rig::<Client>::ready_with(given(), nothing);
        rig.command(open(9, Which::New)).unwrap();
        rig.hear(&result(1, r#"{"sessionId":"s"}"#));
        rig.written();
        let refused = rig.command(command.clone());
        assert!(matches!(refused, Err(Refused::NotOffered(_))), "{command:?}: {refused:?}");
        assert_eq!(rig.written(), [""; 0]);
    }
    // Baseline: every agent takes these.
    let stdio =
        McpServer::Stdio(McpStdio { name: "m".into(), command: "/bin/m".into(), ..Default::default() });
    for command in [
        setup(SessionSetup { mcp_servers: vec![stdio], ..base() }),
        blocks(r#"[{"type":"text","text":"t"},{"type":"resource_link","uri":"u","name":"n"}]"#),
        Command::Authenticate { tag: Tag(1), method: "login".into() },
    ] {
        let mut rig = Rig::<Client>::ready_with(given(), nothing);
        rig.command(open(9, Which::New)).unwrap();
        rig.hear(&result(1, r#"{"sessionId":"s"}"#));
        assert_eq!(rig.command(command), Ok(()));
    }
}

#[test]
fn relative_or_foreign_cwd_what_cannot_be_said_is_refused() {
    let content = |content| SystemPrompt { mode: "append".into(), content };
    let image = serde_json::from_str(r#"{"type":"image","data":"","mimeType":"image/png"}"#).unwrap();
    let system = |system_prompt| {
        let setup = SessionSetup { system_prompt: Some(system_prompt), ..SessionSetup::in_directory("/w") };
        Command::OpenSession { tag: Tag(1), which: Which::New, setup }
    };
    let cwd = |cwd: &str| Command::OpenSession {
        tag: Tag(1),
        which: Which::New,
        setup: SessionSetup::in_directory(cwd),
    };
    let roots = SessionSetup { additional_directories: vec!["x".into()], ..SessionSetup::in_directory("/w") };
    let unknown = serde_json::from_str(r#"[{"type":"future"}]"#).unwrap();
    let scalar = || Json::new(&5);
    let commands = [
        cwd("./x"),
        cwd(""),
        cwd("C:\\Users\\a"),
        Command::OpenSession { tag: Tag(1), which: Which::New, setup: roots },
        system(content(vec![])),
        system(content(vec![image])),
        Command::Prompt { tag: Tag(1), session: "s".into(), prompt: unknown },
        Command::Call { tag: Tag(1), method: "session/fork".into(), params: empty() },
        Command::Call { tag: Tag(1), method: "_x".into(), params: scalar() },
        Command::Notify { method: "x".into(), params: empty() },
        Command::Notify { method: "_x".into(), params: scalar() },
    ];
    for command in commands {
        let mut rig = one_session();
        let refused = rig.command(command.clone());
        assert!(matches!(refused, Err(Refused::Invalid(_))), "{command:?}: {refused:?}");
    }
    let mut rig = Rig::<Client>::ready_with(given(), r#"{"sessionCapabilities":{"systemPrompt":{}}}"#);
    let instead = SystemPrompt { mode: "override".into(), content: vec![ContentBlock::text("be kind")] };
    assert!(matches!(rig.command(system(instead)), Err(Refused::NotOffered(_))));
    assert_eq!(rig.command(system(content(vec![ContentBlock::text("be kind")]))), Ok(()));
}

#[test]
fn a_line_that_no_agent_would_take_is_refused() {
    let limits = Limits { line: 1000, ..Limits::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { limits, ..given() }, &["s"]);
    let long = Command::Prompt {
        tag: Tag(1),
        session: "s".into(),
        prompt: vec![ContentBlock::text("x".repeat(1000))],
    };
    assert_eq!(rig.command(long), Err(Refused::Limit("bytes of one line")));
    assert_eq!(rig.command(prompt(1)), Ok(()));
    assert!(rig.line().starts_with(r#"{"jsonrpc":"2.0","id":2,"#));
}

#[test]
fn mcpservers_omitted_each_request_is_written_as_the_protocol_has_it() {
    let session = || SessionId::from("s");
    let table = [
        (
            Command::Authenticate { tag: Tag(1), method: "login".into() },
            r#""authenticate","params":{"methodId":"login"}"#,
        ),
        (Command::Logout { tag: Tag(1) }, r#""logout","params":{}"#),
        (open(1, Which::New), r#""session/new","params":{"cwd":"/w","mcpServers":[]}"#),
        (
            open(1, Which::Load("t".into())),
            r#""session/load","params":{"sessionId":"t","cwd":"/w","mcpServers":[]}"#,
        ),
        (
            open(1, Which::Resume("t".into())),
            r#""session/resume","params":{"sessionId":"t","cwd":"/w","mcpServers":[]}"#,
        ),
        (
            Command::ListSessions { tag: Tag(1), cwd: Some("/w".into()), cursor: None },
            r#""session/list","params":{"cwd":"/w"}"#,
        ),
        (
            Command::CloseSession { tag: Tag(1), session: session() },
            r#""session/close","params":{"sessionId":"s"}"#,
        ),
        (
            Command::DeleteSession { tag: Tag(1), session: session() },
            r#""session/delete","params":{"sessionId":"s"}"#,
        ),
        (
            Command::SetMode { tag: Tag(1), session: session(), mode: "ask".into() },
            r#""session/set_mode","params":{"sessionId":"s","modeId":"ask"}"#,
        ),
        (
            Command::SetOption {
                tag: Tag(1),
                session: session(),
                option: "m".into(),
                value: ConfigValue::Id("a".into()),
            },
            r#""session/set_config_option","params":{"sessionId":"s","configId":"m","value":"a"}"#,
        ),
        (
            Command::SetOption {
                tag: Tag(1),
                session: session(),
                option: "b".into(),
                value: ConfigValue::Bool(true),
            },
            r#""session/set_config_option","params":{"sessionId":"s","configId":"b","type":"boolean","value":true}"#,
        ),
        (
            prompt(1),
            r#""session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hello"}]}"#,
        ),
        (Command::Call { tag: Tag(1), method: "_x".into(), params: empty() }, r#""_x","params":{}"#),
    ];
    for (command, written) in table {
        let mut rig = one_session();
        rig.command(command).unwrap();
        assert_eq!(rig.line(), format!(r#"{{"jsonrpc":"2.0","id":2,"method":{written}}}"#));
    }
}

#[test]
fn null_is_as_good_as_an_empty_result_where_nothing_is_to_be_said() {
    let session = || SessionId::from("s");
    let table = [
        (Command::Authenticate { tag: Tag(1), method: "login".into() }, true),
        (Command::Logout { tag: Tag(1) }, true),
        (open(1, Which::Load("t".into())), true),
        (open(1, Which::Resume("t".into())), true),
        (Command::CloseSession { tag: Tag(1), session: session() }, true),
        (Command::DeleteSession { tag: Tag(1), session: session() }, true),
        (Command::SetMode { tag: Tag(1), session: session(), mode: "ask".into() }, true),
        (open(1, Which::New), false),
        (Command::ListSessions { tag: Tag(1), cwd: None, cursor: None }, false),
        (
            Command::SetOption {
                tag: Tag(1),
                session: session(),
                option: "m".into(),
                value: ConfigValue::Id("a".into()),
            },
            false,
        ),
    ];
    for (command, fine) in table {
        let mut rig = one_session();
        rig.command(command.clone()).unwrap();
        rig.hear(&result(2, "null"));
        assert_eq!(matches!(rig.event(), Event::Answered(..)), fine, "{command:?}");
    }
}

#[test]
fn load_error_mislabelled_errors_of_the_agent_are_passed_on_whole() {
    let mut rig = one_session();
    rig.command(open(1, Which::Load("t".into()))).unwrap();
    rig.hear(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"model X not available","data":{"a":[1]}}}"#);
    let Event::Failed(Tag(1), failure) = rig.event() else { panic!("no failure") };
    let data = Some(Json::new(&serde_json::json!({ "a": [1] })));
    let expected = RpcError { code: -32602, message: "model X not available".into(), data };
    assert_eq!(*failure, Failure::Rpc(expected));
}

#[test]
fn a_tag_names_one_request_at_a_time() {
    let mut rig = one_session();
    rig.command(open(1, Which::New)).unwrap();
    assert_eq!(rig.command(prompt(1)), Err(Refused::Busy));
    rig.hear(&error(2, -32000));
    rig.told();
    assert_eq!(rig.command(prompt(1)), Ok(()));
    assert_eq!(rig.command(prompt(2)), Err(Refused::Busy));
}

#[test]
fn a_request_can_be_withdrawn_and_is_answered_all_the_same() {
    let mut rig = one_session();
    rig.command(open(1, Which::New)).unwrap();
    rig.written();
    rig.command(Command::Withdraw { tag: Tag(1) }).unwrap();
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#);
    rig.hear(&error(2, code::CANCELLED));
    assert!(matches!(rig.event(), Event::Failed(Tag(1), why) if matches!(*why, Failure::Rpc(_))));
    assert_eq!(rig.command(Command::Withdraw { tag: Tag(1) }), Err(Refused::Unknown));
}

#[test]
fn a_request_that_takes_too_long_is_withdrawn_and_its_late_answer_is_nobodys() {
    let mut rig = one_session();
    rig.command(open(1, Which::New)).unwrap();
    rig.written();
    rig.wait(Duration::from_secs(60));
    assert!(matches!(rig.event(), Event::Failed(Tag(1), why) if matches!(*why, Failure::TimedOut { .. })));
    assert!(rig.line().contains("$/cancel_request"));
    rig.hear(&result(2, r#"{"sessionId":"t"}"#));
    assert_eq!(word(&rig.event()), "orphan 2");
    assert_eq!(rig.command(prompt(1)), Ok(()));
}
