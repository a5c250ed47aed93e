//! Who is let in.

use super::*;

#[test]
fn initialize_with_the_token_is_welcomed() {
    let mut desk = serving();
    let client = desk.connect();
    assert_eq!(
        desk.ask(client, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"authToken":"5eb1","clientCapabilities":{}}}"#),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":false,\
         \"promptCapabilities\":{},\"agenticaAttach\":true},\"agentInfo\":{\"name\":\"agentline\",\"version\":\"0.1.0\"},\
         \"agenticaAuth\":\"token\"}}\n"
    );
}

#[test]
fn token_compare_and_empty_wrong_tokens_are_refused_and_may_be_retried() {
    let mut desk = serving();
    let client = desk.connect();
    for token in [
        "{}",
        "null",
        "[5]",
        r#"["5eb1"]"#,
        r#"{"authToken":null}"#,
        r#"{"authToken":5}"#,
        r#"{"authToken":["5eb1"]}"#,
        r#"{"authToken":""}"#,
        r#"{"authToken":"5eb"}"#,
        r#"{"authToken":"5eb11"}"#,
        r#"{"authToken":"5EB1"}"#,
        r#"{"authToken":"5eb1\n"}"#,
        r#"{"authToken":" 5eb1"}"#,
        r#"{"authToken":"5eb\u0000"}"#,
        r#"{"authToken":"x","authToken":"5eb1"}"#,
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{token}}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("1", -32000), "{token}");
        assert_eq!(failed(&desk.ask(client, PING)), error("9", -32000), "{token}");
    }
    assert!(desk.ask(client, HELLO).contains("result"));
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn a_token_that_is_not_ascii_is_refused_like_any_other() {
    let mut desk = serving();
    let client = desk.connect();
    for token in ["tökén", "🎉", r"\ud800"] {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"authToken":"{token}"}}}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("1", -32000), "{token}");
    }
}

#[test]
fn hello_before_anything_only_initialize_lets_in() {
    let mut desk = serving();
    let client = desk.connect();
    for method in ["ping", "session/prompt", "session/load", "session/cancel"] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"authToken":"5eb1","prompt":"x"}}}}"#
        );
        assert_eq!(failed(&desk.ask(client, &line)), error("1", -32000), "{method}");
    }
    assert!(desk.events.is_empty());
}

#[test]
fn who_is_in_stays_in_whatever_token_comes_later() {
    let mut desk = serving();
    let client = desk.enter();
    for params in ["{}", r#"{"authToken":"wrong"}"#, "null"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"initialize","params":{params}}}"#);
        assert!(desk.ask(client, &line).contains("\"protocolVersion\":1"));
    }
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn server_echoes_any_version_the_protocol_version_is_ours_whatever_was_asked() {
    let mut desk = serving();
    let client = desk.connect();
    let line = HELLO.replace(r#""authToken""#, r#""protocolVersion":7,"authToken""#);
    assert!(desk.ask(client, &line).contains("\"protocolVersion\":1"));
}

#[test]
fn nobody_learns_before_admission_which_methods_there_are() {
    let mut desk = serving();
    let client = desk.connect();
    for method in ["session/new", "authenticate", "auth/login", "nonsense", ""] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}"}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("\"a\"", -32000), "{method}");
    }
}

#[test]
fn an_unknown_method_is_not_found() {
    let mut desk = serving();
    let client = desk.enter();
    for method in ["session/new", "authenticate", "auth/login", "nonsense", "PING"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("1", -32601), "{method}");
    }
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn parameters_that_are_no_object_close_nothing() {
    let mut desk = serving();
    let (stranger, client) = (desk.connect(), desk.enter());
    for params in ["[1]", "\"x\"", "7", "true"] {
        let line = |method| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}","params":{params}}}"#);
        assert_eq!(failed(&desk.ask(stranger, &line("initialize"))), error("9", -32000));
        assert_eq!(failed(&desk.ask(stranger, &line("ping"))), error("9", -32000));
        assert_eq!(desk.ask(client, &line("ping")), PONG);
        for method in ["session/load", "session/prompt", "session/cancel"] {
            assert_eq!(failed(&desk.ask(client, &line(method))), error("9", -32602), "{method} {params}");
        }
    }
}

#[test]
fn empty_parameters_count_as_none() {
    let mut desk = serving();
    let client = desk.enter();
    for params in ["null", "[]", "\"\"", "{}"] {
        let line = |method| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}","params":{params}}}"#);
        assert!(desk.ask(client, &line("session/load")).contains("sess-1"), "{params}");
        assert_eq!(failed(&desk.ask(client, &line("session/prompt"))), error("9", -32602), "{params}");
    }
}

#[test]
fn a_server_without_a_token_lets_nobody_in() {
    let mut config = config();
    config.token = agentline_core::Secret::new(String::new());
    let mut desk = serving_with(config);
    let client = desk.connect();
    for params in ["{}", r#"{"authToken":""}"#] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("1", -32000));
    }
}

#[test]
fn g8_the_token_comes_within_ten_seconds() {
    let mut desk = serving();
    let (stranger, client) = (desk.connect(), desk.enter());
    desk.pass(Duration::from_secs(9));
    assert_eq!(failed(&desk.ask(stranger, PING)), error("9", -32000));
    desk.pass(Duration::from_secs(1));
    assert_eq!(failed(&desk.read(stranger)), error("null", -32000));
    assert!(desk.shut.contains(&stranger));
    assert_eq!(desk.ask(client, PING), PONG, "whoever is in stays in");
}

#[test]
fn g8_a_line_before_the_token_is_short() {
    const LONGEST: usize = 64 << 10;
    for (bytes, code) in [(LONGEST, -32700), (LONGEST + 1, -32600)] {
        let mut desk = serving();
        let stranger = desk.connect();
        desk.send(stranger, &vec![b'x'; bytes]);
        desk.send(stranger, b"\n");
        assert_eq!(failed(&desk.read(stranger)), error("null", code), "{bytes}");
        assert_eq!(desk.shut.contains(&stranger), code == -32600);
    }
}

#[test]
fn g8_a_long_line_right_behind_the_token_is_taken() {
    let mut desk = serving();
    let client = desk.connect();
    let words = "x".repeat(1 << 20);
    desk.send(client, format!("{HELLO}\n{}\n", prompt(2, &json!(words))).as_bytes());
    assert_eq!(desk.received().1, words);
}

#[test]
fn g8_strangers_lock_nobody_out() {
    let mut desk = serving();
    let inside = desk.enter();
    let mut strangers = Vec::new();
    for _ in 0..640 {
        strangers.push(desk.connect());
        // Who is sent away may take half a second to go.
        desk.pass(Duration::from_millis(2));
    }
    let client = desk.enter();
    for link in [inside, client] {
        assert_eq!(desk.ask(link, PING), PONG);
    }
    let gone = strangers.iter().filter(|link| desk.shut.contains(link)).count();
    assert_eq!(gone, 640 - 15, "the newest of them, and whoever came then, have seats");
    assert_eq!(failed(&desk.read(strangers[0])), error("null", -32000));
}
