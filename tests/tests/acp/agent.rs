//! What an agent does about single lines and single commands: the vectors of the specification sheet (§13) and
//! the rules behind them.

use std::time::Duration;

use agentline_core::acp::agent::{Agent, Command, Config, Event, Reply, Requested, TurnKey, Wanted};
use agentline_core::acp::services::{Elicit, ReadTextFile, ServiceRequest, TerminalRef};
use agentline_core::acp::session::{
    ConfigKind, ConfigOption, ConfigValue, Implementation, SessionList, SessionState,
};
use agentline_core::acp::update::{ConfigOptions, Speaker, ToolCall, ToolCallUpdate, Update};
use agentline_core::acp::{
    Fault, Json, Notice, OptionKind, PermissionOption, PermissionOutcome, RequestKey, SessionId, StopReason,
    Unknown,
};
use agentline_core::rpc::RpcError;
use agentline_core::{Action, Heard, Input, Limits, LinkId, Machine, Output, Refused, Tag, Time};
use agentline_tests::Checked;
use agentline_tests::acp::Rig;
use agentline_tests::acp::rig::{CLIENT_OFFERS, OFFERS};

/// An agent that offers everything.
fn generous() -> Config {
    Config {
        capabilities: serde_json::from_str(OFFERS).unwrap(),
        auth_methods: serde_json::from_str(
            r#"[{"id":"login","name":"Login"},{"id":"tty","name":"TTY","type":"terminal"}]"#,
        )
        .unwrap(),
        extensions: vec!["_x/known".into()],
        ..Config::on_stdio()
    }
}

/// One that offers the baseline.
fn plain() -> Config {
    Config::on_stdio()
}

fn one_session() -> Rig<Agent> {
    Rig::<Agent>::with_sessions(generous(), CLIENT_OFFERS, &["s"])
}

fn prompt(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"hello"}}]}}}}"#
    )
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Prompts, and returns the turn.
fn begin(rig: &mut Rig<Agent>, id: &str) -> TurnKey {
    rig.hear(&prompt(id));
    let Event::Prompted(prompted) = rig.event() else { panic!("no turn") };
    prompted.turn
}

fn asked(rig: &mut Rig<Agent>) -> Requested {
    let event = rig.event();
    let Event::Requested(asked) = event else { panic!("{event:?}") };
    *asked
}

fn say(turn: TurnKey, text: &str) -> Command {
    Command::Say { turn, speaker: Speaker::Agent, text: text.into() }
}

fn end(turn: TurnKey) -> Command {
    Command::EndTurn { turn, reason: StopReason::EndTurn }
}

fn ask(tag: u64, turn: TurnKey) -> Command {
    let option = |id: &str, kind| PermissionOption { option_id: id.into(), name: id.into(), kind };
    Command::AskPermission {
        tag: Tag(tag),
        turn,
        tool_call: ToolCallUpdate { tool_call_id: "c".into(), ..ToolCallUpdate::default() },
        options: vec![option("y", OptionKind::AllowOnce), option("n", OptionKind::RejectOnce)],
    }
}

fn word(event: &Event) -> String {
    use Event as E;
    match event {
        E::Initialized(client) => format!("initialized {}", client.protocol_version),
        E::Requested(asked) => match &asked.wanted {
            Wanted::Authenticate(method) => format!("authenticate {method}"),
            Wanted::Logout => "logout".into(),
            Wanted::NewSession(setup) => format!("new {}", setup.cwd),
            Wanted::LoadSession(session, _) => format!("load {session}"),
            Wanted::ResumeSession(session, _) => format!("resume {session}"),
            Wanted::ListSessions { .. } => "list".into(),
            Wanted::CloseSession(session) => format!("close {session}"),
            Wanted::DeleteSession(session) => format!("delete {session}"),
            Wanted::SetMode(session, mode) => format!("mode {session} {mode}"),
            Wanted::SetOption(session, option, value) => format!("option {session} {option} {value:?}"),
            Wanted::Extension(method, _) => format!("extension {method}"),
        },
        E::Prompted(prompted) => format!("prompted {}", prompted.session),
        E::Cancelled(_) => "cancelled".into(),
        E::TurnOver(_) => "turn over".into(),
        E::Withdrawn(_) => "withdrawn".into(),
        E::PermissionAnswered(tag, outcome) => format!("permission {} {outcome:?}", tag.0),
        E::Served(tag, answer) => format!("served {} {answer:?}", tag.0),
        E::Crowded => "crowded".into(),
        E::Drained => "drained".into(),
        E::Notified(notified) => format!("notified {}", notified.method),
        E::Noticed(notice) => {
            if let Notice::BadLine { why, .. } = &**notice {
                format!("bad line: {why}")
            } else if let Notice::BadParams { method, .. } = &**notice {
                format!("bad params: {method}")
            } else if let Notice::Orphan { id } = &**notice {
                format!("orphan {id}")
            } else if let Notice::Complaint(error) = &**notice {
                format!("complaint {}", error.code)
            } else {
                format!("{notice:?}")
            }
        }
        E::Closed(closed) => format!("closed {:?}", closed.fault),
    }
}

fn words(rig: &mut Rig<Agent>) -> Vec<String> {
    rig.told().iter().map(word).collect()
}

/// A line of the client, the error code and id that it is answered with, and what is told.
type Vector = (&'static str, Option<(i64, &'static str)>, &'static [&'static str]);

const NULL_PARSE: Option<(i64, &str)> = Some((-32700, "null"));
const NULL_INVALID: Option<(i64, &str)> = Some((-32600, "null"));

/// With session `s` open and idle.
const VECTORS: [Vector; 62] = [
    ("", None, &[]),
    (" \t", None, &[]),
    ("\r", None, &[]),
    ("hello", NULL_PARSE, &["bad line: not JSON"]),
    (r#"{"jsonrpc":"2.0","id":6,"method":"#, NULL_PARSE, &["bad line: not JSON"]),
    ("{\"a\":\u{0}}", NULL_PARSE, &["bad line: not JSON"]),
    ("[]", NULL_INVALID, &["bad line: batches are not supported"]),
    (
        r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#,
        NULL_INVALID,
        &["bad line: batches are not supported"],
    ),
    ("42", NULL_INVALID, &["bad line: not an object"]),
    ("null", NULL_INVALID, &["bad line: not an object"]),
    ("{}", NULL_INVALID, &["bad line: neither method nor id"]),
    // Never answered: what may be a broken response.
    (r#"{"id":5}"#, None, &["bad line: neither method nor result"]),
    (
        r#"{"jsonrpc":"2.0","id":5,"result":1,"error":{"code":1,"message":"m"}}"#,
        None,
        &["bad line: result and error at once"],
    ),
    (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#, None, &["complaint -32700"]),
    (r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"}}"#, None, &["complaint -32601"]),
    (r#"{"jsonrpc":"2.0","id":999,"result":{}}"#, None, &["orphan 999"]),
    // Ids of all forms, and what is none.
    (r#"{"jsonrpc":"2.0","id":null,"method":"no/such"}"#, Some((-32601, "null")), &[]),
    (r#"{"jsonrpc":"2.0","id":"1","method":"no/such"}"#, Some((-32601, "\"1\"")), &[]),
    (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, Some((-32601, "1")), &[]),
    (r#"{"jsonrpc":"2.0","id":-1,"method":"no/such"}"#, Some((-32601, "-1")), &[]),
    (r#"{"jsonrpc":"2.0","id":"","method":"no/such"}"#, Some((-32601, "\"\"")), &[]),
    (r#"{"jsonrpc":"2.0","id":"\u00e9","method":"no/such"}"#, Some((-32601, r#""\u00e9""#)), &[]),
    (
        r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"no/such"}"#,
        Some((-32601, "9007199254740993")),
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"no/such"}"#,
        Some((-32601, "18446744073709551615")),
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1.0,"method":"no/such"}"#,
        NULL_INVALID,
        &["bad line: id is neither null, an integer nor a string"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1.5,"method":"no/such"}"#,
        NULL_INVALID,
        &["bad line: id is neither null, an integer nor a string"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":true,"method":"no/such"}"#,
        NULL_INVALID,
        &["bad line: id is neither null, an integer nor a string"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":[1],"method":"no/such"}"#,
        NULL_INVALID,
        &["bad line: id is neither null, an integer nor a string"],
    ),
    // Envelopes.
    (
        r#"{"jsonrpc":"1.0","id":1,"method":"no/such"}"#,
        Some((-32600, "1")),
        &["bad line: jsonrpc is not \"2.0\""],
    ),
    (r#"{"id":1,"method":"no/such"}"#, Some((-32601, "1")), &[]),
    (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, Some((-32600, "1")), &["bad line: method is not a string"]),
    (
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"session/prompt"}"#,
        NULL_INVALID,
        &["bad line: a member is there twice"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/cancel","\u006dethod":"session/new"}"#,
        NULL_INVALID,
        &["bad line: a member is there twice"],
    ),
    ("  \t{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}\r", Some((-32601, "1")), &[]),
    // Unknown and unstable methods; a direction is a direction.
    (r#"{"jsonrpc":"2.0","id":1,"method":"_x/unknown","params":{}}"#, Some((-32601, "1")), &[]),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/fork","params":{"sessionId":"s"}}"#,
        Some((-32601, "1")),
        &[],
    ),
    (r#"{"jsonrpc":"2.0","id":1,"method":"session/set_model","params":{}}"#, Some((-32601, "1")), &[]),
    (r#"{"jsonrpc":"2.0","id":1,"method":"session/update","params":{}}"#, Some((-32601, "1")), &[]),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/cancel","params":{"sessionId":"s"}}"#,
        Some((-32601, "1")),
        &[],
    ),
    // Notifications are never answered.
    (r#"{"jsonrpc":"2.0","method":"_x/note","params":{}}"#, None, &["notified _x/note"]),
    (r#"{"jsonrpc":"2.0","method":"foo/note"}"#, None, &["notified foo/note"]),
    (r#"{"jsonrpc":"2.0","method":"session/prompt","params":{}}"#, None, &["notified session/prompt"]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nope"}}"#, None, &[]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#, None, &[]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel","params":["s"]}"#, None, &["bad params: session/cancel"]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel"}"#, None, &["bad params: session/cancel"]),
    (r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":4242}}"#, None, &[]),
    (r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"open 1"}}"#, None, &[]),
    (
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1.5}}"#,
        None,
        &["bad params: $/cancel_request"],
    ),
    // Parameters.
    (r#"{"jsonrpc":"2.0","id":1,"method":"session/new"}"#, Some((-32602, "1")), &["bad params: session/new"]),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":["/w",[]]}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"rel/dir","mcpServers":[]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":5,"mcpServers":[]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"type":"carrier pigeon","name":"n"}]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[["n","/c"]]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"nope","prompt":[]}}"#,
        Some((-32002, "1")),
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#,
        Some((-32602, "1")),
        &["bad params: session/prompt"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"future"}]}}"#,
        Some((-32602, "1")),
        &["bad params: session/prompt"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"\udc00"}]}}"#,
        Some((-32602, "1")),
        &["bad params: session/prompt"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"cursor":5}}"#,
        Some((-32602, "1")),
        &["bad params: session/list"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"no such"}}"#,
        Some((-32602, "1")),
        &["bad params: authenticate"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"tty"}}"#,
        Some((-32602, "1")),
        &["bad params: authenticate"],
    ),
];

#[test]
fn each_line_of_a_client_has_its_answer_and_its_event() {
    for (line, answer, told) in VECTORS {
        let mut rig = one_session();
        rig.hear(line);
        let written = rig.written();
        match answer {
            None => assert_eq!(written, [""; 0], "{line}"),
            Some((code, id)) => {
                let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"#);
                assert!(matches!(&written[..], [one] if one.starts_with(&start)), "{line}: {written:?}");
            }
        }
        assert_eq!(words(&mut rig), told, "{line}");
        // Whatever it was, the next line is read as ever.
        rig.hear(r#"{"jsonrpc":"2.0","method":"_x/alive"}"#);
        assert_eq!(words(&mut rig), ["notified _x/alive"], "{line}");
    }
}

#[test]
fn bytes_that_are_no_text_are_one_parse_error() {
    let mut rig = one_session();
    rig.link(Heard::Bytes(b"{\"a\":\"\xff\"}\n"));
    assert!(rig.line().starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700"#));
    assert_eq!(words(&mut rig), ["bad line: not UTF-8"]);
}

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

fn empty() -> Json {
    Json::new(&serde_json::json!({}))
}

#[test]
fn every_version_is_answered_with_ours_and_what_is_no_version_is_refused() {
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
        r#"{"protocolVersion":7,"clientCapabilities":{"fs":true,"terminal":{},"elicitation":[]},"capabilities":{}}"#,
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
fn a_prompt_with_content_that_is_not_taken_is_refused_as_a_whole_and_names_it() {
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
fn an_unknown_session_is_named_in_the_error() {
    let mut rig = one_session();
    rig.hear(&request("7", "session/set_mode", r#"{"sessionId":"nope","modeId":"m"}"#));
    assert!(rig.line().contains(
        r#""error":{"code":-32002,"message":"no such session: nope","data":{"sessionId":"nope"}}"#
    ));
}

#[test]
fn one_prompt_at_a_time_on_a_session_and_any_number_on_several() {
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
fn a_turn_that_was_cancelled_ends_as_cancelled_whatever_is_said() {
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
fn only_an_offered_option_is_a_choice() {
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
fn a_session_that_could_not_be_loaded_is_as_it_was() {
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

#[test]
fn at_the_end_of_its_input_an_agent_ends_what_is_open_and_is_gone_at_once() {
    for by_signal in [false, true] {
        let mut rig = one_session();
        let turn = begin(&mut rig, "1");
        rig.command(ask(5, turn)).unwrap();
        rig.hear(&request("2", "session/list", "{}"));
        rig.told();
        rig.written();
        if by_signal {
            rig.command(Command::Shutdown).unwrap();
        } else {
            rig.link(Heard::Eof);
        }
        assert_eq!(
            rig.written(),
            [
                r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#,
                r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"the agent is leaving"}}"#,
            ]
        );
        assert_eq!(words(&mut rig), ["permission 5 Cancelled", "turn over", "withdrawn", "closed None"]);
        assert_eq!(rig.done().last().map(String::as_str), Some("End"));
        assert_eq!(rig.command(say(turn, "late")), Err(Refused::Closed));
    }
}

#[test]
fn an_agent_that_leaves_waits_for_a_deaf_client_no_longer_than_its_flush() {
    let machine = Checked::new(Default::default(), (Default::default(), plain()));
    let mut rig = Deaf::around(machine);
    rig.hear(Heard::Bytes(
        format!("{}\n", request("0", "initialize", r#"{"protocolVersion":1}"#)).as_bytes(),
    ));
    rig.hear(Heard::Eof);
    assert_eq!(rig.deadline(), Some((Duration::from_millis(100), "flush before leaving")));
}

/// A machine whose writes are never done.
struct Deaf(Checked<Agent>);

impl Deaf {
    fn around(machine: Checked<Agent>) -> Self {
        let mut deaf = Self(machine);
        deaf.hear(Heard::Opened(Default::default()));
        deaf
    }

    fn hear(&mut self, heard: Heard<'_>) {
        self.0.handle(Default::default(), Input::Link(LinkId::FIRST, heard));
        while self.0.poll().is_some() {}
    }

    fn deadline(&self) -> Option<(Duration, &'static str)> {
        self.0.deadline().map(|(at, why)| (at.since(Time::ZERO), why))
    }
}

#[test]
fn who_talks_faster_than_the_client_reads_is_told_to_wait() {
    let limits = Limits { unsent_soft: 1000, ..Limits::default() };
    let mut agent = Agent::new(Default::default(), Config { limits, ..plain() });
    let mut told = Vec::new();
    let hear = |agent: &mut Agent, heard: Heard<'_>| {
        agent.handle(Default::default(), Input::Link(LinkId::FIRST, heard))
    };
    hear(&mut agent, Heard::Opened(Default::default()));
    for line in [
        request("0", "initialize", r#"{"protocolVersion":1}"#),
        request("1", "session/new", r#"{"cwd":"/w"}"#),
    ] {
        hear(&mut agent, Heard::Bytes(format!("{line}\n").as_bytes()));
    }
    let mut drain = |agent: &mut Agent| {
        let mut writes = 0;
        while let Some(output) = agent.poll() {
            match output {
                Output::Tell(event) => told.push(event),
                Output::Do(_, action) => writes += usize::from(matches!(action, Action::Write(_))),
                Output::Store(_) | Output::End => {}
            }
        }
        (writes, std::mem::take(&mut told))
    };
    let (_, events) = drain(&mut agent);
    let request = events
        .iter()
        .find_map(|event| if let Event::Requested(asked) = event { Some(asked.request) } else { None });
    let reply = Reply::SessionOpened { session: "s".into(), state: SessionState::default() };
    agent.command(Default::default(), Command::Reply { request: request.unwrap(), reply }).unwrap();
    hear(&mut agent, Heard::Bytes(format!("{}\n", prompt("2")).as_bytes()));
    let (_, events) = drain(&mut agent);
    let turn = events
        .iter()
        .find_map(|event| if let Event::Prompted(prompted) = event { Some(prompted.turn) } else { None });
    let turn = turn.unwrap();
    let mut said = 0;
    let refused = loop {
        match agent.command(Default::default(), say(turn, "0123456789")) {
            Ok(()) => said += 1,
            Err(refused) => break refused,
        }
        assert!(said < 100);
    };
    assert!(matches!(refused, Refused::Limit(_)) && said > 3, "{said} {refused}");
    assert_eq!(drain(&mut agent).1, [Event::Crowded]);
    // The end of the turn needs no room.
    hear(&mut agent, Heard::Written);
    hear(&mut agent, Heard::Written);
    assert_eq!(drain(&mut agent).1, [Event::Drained]);
    assert_eq!(agent.command(Default::default(), say(turn, "more")), Ok(()));
    assert_eq!(agent.command(Default::default(), end(turn)), Ok(()));
}

#[test]
fn a_client_that_is_gone_hears_nothing_more() {
    let mut rig = one_session();
    let turn = begin(&mut rig, "1");
    rig.link(Heard::WriteFailed);
    assert_eq!(rig.command(say(turn, "hello?")), Err(Refused::Closed));
    rig.link(Heard::Eof);
    assert_eq!(words(&mut rig), ["turn over", "closed None"]);
}

#[test]
fn a_line_over_the_limit_ends_the_connection() {
    let limits = Limits { line: 1000, ..Limits::default() };
    let mut rig = Rig::<Agent>::agent(Config { limits, ..plain() });
    rig.hear(&"x".repeat(1001));
    assert!(matches!(rig.event(), Event::Closed(closed) if closed.fault == Some(Fault::LineTooLong)));
}

#[test]
fn a_line_that_no_client_would_take_is_refused() {
    let limits = Limits { line: 500, ..Limits::default() };
    let mut rig = Rig::<Agent>::with_sessions(Config { limits, ..plain() }, "{}", &["s"]);
    let turn = begin(&mut rig, "1");
    assert_eq!(rig.command(say(turn, &"x".repeat(500))), Err(Refused::Limit("bytes of one line")));
    assert_eq!(rig.command(say(turn, "short")), Ok(()));
}
