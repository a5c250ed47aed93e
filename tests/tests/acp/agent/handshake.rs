//! From the first line to `initialize`.

use super::*;

#[test]
fn before_initialize_nothing_else_is_served() {
    let mut rig = Rig::<Agent>::agent(generous());
    rig.hear(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    rig.hear(r#"{"jsonrpc":"2.0","method":"_x"}"#);
    assert_eq!((rig.written(), words(&mut rig)), (vec![], vec![]));
    for method in ["session/new", "session/prompt", "no/such", "authenticate"] {
        rig.hear(&request("7", method, r#"{"cwd":"/w","mcpServers":[]}"#));
        assert!(rig.line().starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600"#), "{method}");
    }
    assert_eq!(words(&mut rig), [""; 0]);
    assert_eq!(rig.command(Command::Notify { method: "_x".into(), params: empty() }), Err(Refused::NotReady));
}

#[test]
fn version_not_number_is_refused_and_no_server_echoes_any_version() {
    for (version, fine) in [
        ("1", true),
        ("2", true),
        ("0", true),
        ("99", true),
        ("65535", true),
        ("65536", false),
        ("-1", false),
        ("1.5", false),
        ("\"1\"", false),
        ("\"2025-01-01\"", false),
        ("null", false),
    ] {
        let mut rig = Rig::<Agent>::agent(plain());
        rig.hear(&request("0", "initialize", &format!(r#"{{"protocolVersion":{version}}}"#)));
        let line = rig.line();
        if fine {
            assert!(line.contains(r#""result":{"protocolVersion":1"#), "{version}: {line}");
            assert_eq!(words(&mut rig), [format!("initialized {version}")]);
        } else {
            assert!(line.contains(r#""error":{"code":-32602"#), "{version}: {line}");
            // It may try again.
            rig.told();
            rig.hear(&request("1", "initialize", r#"{"protocolVersion":1}"#));
            assert_eq!(words(&mut rig), ["initialized 1"]);
        }
    }
}

#[test]
fn initialize_comes_once_more_at_most_before_anything_else() {
    let mut rig = Rig::<Agent>::agent(plain());
    rig.hear(&request("0", "initialize", r#"{"protocolVersion":1}"#));
    rig.hear(&request("1", "initialize", r#"{"protocolVersion":2,"clientCapabilities":{"terminal":true}}"#));
    assert_eq!(words(&mut rig), ["initialized 1", "initialized 2"]);
    rig.written();
    // The latest wins.
    let wanted =
        ServiceRequest::KillTerminal(TerminalRef { session_id: "s".into(), terminal_id: "t".into() });
    assert_eq!(rig.command(Command::Request { tag: Tag(1), wanted }), Ok(()));
    rig.written();
    rig.hear(&request("2", "no/such", "{}"));
    rig.written();
    rig.hear(&request("3", "initialize", r#"{"protocolVersion":1}"#));
    assert!(rig.line().contains("-32600"));
}

#[test]
fn a_client_that_says_little_or_odd_things_of_itself_is_served() {
    for params in [
        r#"{"protocolVersion":1}"#,
        r#"{"protocolVersion":1,"clientCapabilities":null,"clientInfo":null}"#,
        r#"{"protocolVersion":1,"clientCapabilities":"x","clientInfo":{"version":"1"},"_meta":{}}"#,
        r#"{"protocolVersion":7,"clientCapabilities":{"fs":true,"terminal":7,"elicitation":[]},"capabilities":{}}"#,
    ] {
        let mut rig = Rig::<Agent>::agent(plain());
        rig.hear(&request("0", "initialize", params));
        let Event::Initialized(client) = rig.event() else { panic!("{params}") };
        assert_eq!((client.capabilities, client.client_info), (Default::default(), None), "{params}");
    }
}

#[test]
fn the_answer_to_initialize_is_the_config() {
    let info = Implementation { name: "demo".into(), title: None, version: "1".into() };
    let mut rig = Rig::<Agent>::agent(Config { info: Some(info), ..generous() });
    rig.hear(&request("\"a\"", "initialize", r#"{"protocolVersion":1}"#));
    assert_eq!(
        rig.line(),
        r#"{"jsonrpc":"2.0","id":"a","result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"list":{},"delete":{},"resume":{},"close":{},"additionalDirectories":{},"systemPrompt":{"mode":{"override":{}}}},"auth":{"logout":{}}},"authMethods":[{"id":"login","name":"Login"}],"agentInfo":{"name":"demo","version":"1"}}}"#
    );
    // A login in a terminal is only for clients that can run it.
    let mut rig = Rig::<Agent>::agent(generous());
    rig.hear(&request(
        "0",
        "initialize",
        r#"{"protocolVersion":1,"clientCapabilities":{"auth":{"terminal":true}}}"#,
    ));
    assert!(rig.line().contains(r#"{"id":"tty","name":"TTY","type":"terminal"}"#));
}

#[test]
fn who_greets_late_is_asked_nothing_before() {
    let mut rig = Rig::<Agent>::agent(Config { greets_late: true, ..plain() });
    rig.hear(&request("0", "initialize", r#"{"protocolVersion":1}"#));
    assert_eq!((rig.written(), words(&mut rig)), (vec![], vec!["initialized 1".to_owned()]));
    for method in ["initialize", "session/new"] {
        rig.hear(&request("1", method, r#"{"protocolVersion":1,"cwd":"/w","mcpServers":[]}"#));
        assert!(rig.line().starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600"#), "{method}");
    }
    assert_eq!(rig.command(Command::Notify { method: "_x".into(), params: empty() }), Err(Refused::NotReady));
    let capabilities = AgentCapabilities { load_session: true, ..AgentCapabilities::default() };
    let greet = Command::Greet(Box::new(Greeting { capabilities, ..Greeting::default() }));
    assert_eq!(rig.command(greet.clone()), Ok(()));
    assert!(rig.line().contains(r#""loadSession":true"#));
    assert_eq!(rig.command(greet), Err(Refused::Invalid("initialize is answered already")));
    rig.hear(&request("2", "session/load", r#"{"sessionId":"s","cwd":"/w","mcpServers":[]}"#));
    assert_eq!(words(&mut rig).len(), 1);
}
