//! What a client does about single lines and single commands: the vectors of the specification sheet (§13) and
//! the rules behind them.

use std::time::Duration;

use agentline_core::acp::client::{Answer, Client, Command, Config, Event, Failure, Moment, Timeouts, Which};
use agentline_core::acp::session::{ConfigValue, McpHttp, McpServer, McpStdio, SystemPrompt};
use agentline_core::acp::{
    ContentBlock, Fault, Json, Notice, PermissionOutcome, RequestKey, SessionId, SessionSetup, StopReason,
    Update,
};
use agentline_core::rpc::{RpcError, code};
use agentline_core::{Exit, Heard, Input, Limits, Open, Refused, Tag};
use agentline_tests::acp::Rig;

fn given() -> Config {
    Config::new(Open::Given)
}

fn one_session() -> Rig<Client> {
    Rig::<Client>::with_sessions(given(), &["s"])
}

fn prompt(tag: u64) -> Command {
    Command::Prompt { tag: Tag(tag), session: "s".into(), prompt: vec![ContentBlock::text("hello")] }
}

fn cancel() -> Command {
    Command::Cancel { session: "s".into() }
}

fn open(tag: u64, which: Which) -> Command {
    Command::OpenSession { tag: Tag(tag), which, setup: SessionSetup::in_directory("/w") }
}

fn text(session: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
    )
}

fn ask(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"c"}},"options":[{{"optionId":"y","name":"Yes","kind":"allow_once"}},{{"optionId":"n","name":"No","kind":"reject_once"}}]}}}}"#
    )
}

fn result(id: u64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn error(id: u64, code: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m"}}}}"#)
}

/// The keys of the permissions and requests that were told.
fn keys(events: &[Event]) -> Vec<RequestKey> {
    let key = |event: &Event| {
        if let Event::PermissionAsked(asked) = event {
            Some(asked.request)
        } else if let Event::Requested(asked) = event {
            Some(asked.request)
        } else {
            None
        }
    };
    events.iter().filter_map(key).collect()
}

fn ends(events: &[Event]) -> Vec<(u64, Result<StopReason, Failure>)> {
    let end = |event: &Event| {
        let Event::TurnEnded(ended) = event else { return None };
        Some((ended.tag.0, ended.end.clone().map(|stopped| stopped.reason)))
    };
    events.iter().filter_map(end).collect()
}

/// One word for an event: what the vectors compare.
fn word(event: &Event) -> String {
    use Event as E;
    match event {
        E::Ready(_) => "ready".into(),
        E::Line(_) => "line".into(),
        E::Text(text) => format!("text {}", text.text),
        E::Updated(updated) => format!("updated {}", updated.update.tag()),
        E::PermissionAsked(_) => "permission".into(),
        E::Requested(_) => "requested".into(),
        E::Withdrawn(_) => "withdrawn".into(),
        E::Notified(notified) => format!("notified {}", notified.method),
        E::Answered(tag, _) => format!("answered {}", tag.0),
        E::Failed(tag, failure) => format!("failed {} {failure:?}", tag.0),
        E::TurnEnded(ended) => match &ended.end {
            Ok(stopped) => format!("ended {} {}", ended.tag.0, stopped.reason.as_str()),
            Err(failure) => format!("ended {} {failure:?}", ended.tag.0),
        },
        E::Stderr(_) => "stderr".into(),
        E::Noticed(notice) => match &**notice {
            Notice::BadLine { why, .. } => format!("bad line: {why}"),
            Notice::BadParams { method, .. } => format!("bad params: {method}"),
            Notice::Orphan { id } => format!("orphan {id}"),
            Notice::Complaint(error) => format!("complaint {}", error.code),
            Notice::UnknownSession(session) => format!("unknown session {session}"),
            other => format!("{other:?}"),
        },
        E::Closed(closed) => format!("closed {:?}", closed.fault),
    }
}

/// A line of the agent, what the client writes because of it, and what it tells.
type Vector = (&'static str, &'static str, &'static [&'static str]);

/// With session `s` open and prompt 2 (tag 7) running.
const VECTORS: [Vector; 39] = [
    ("", "", &[]),
    ("   \t ", "", &[]),
    ("\r", "", &[]),
    ("\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"_x\"}\r", "", &["notified _x"]),
    ("[]", "", &["bad line: batches are not supported"]),
    (r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, "", &["bad line: batches are not supported"]),
    ("42", "", &["bad line: not an object"]),
    ("npm warn deprecated", "", &["bad line: not JSON"]),
    (
        r#"{"jsonrpc":"2.0","id":null,"method":"a/b"}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found: a/b"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":"1","method":"_x/y"}"#,
        r#"{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"method not found: _x/y"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"_x"}"#,
        r#"{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32601,"message":"method not found: _x"}}"#,
        &[],
    ),
    // What was not offered is not there.
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/f"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: fs/read_text_file"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{"sessionId":"s","command":"ls"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: terminal/create"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","message":"?"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: elicitation/create"}}"#,
        &[],
    ),
    // A direction is a direction.
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: initialize"}}"#,
        &[],
    ),
    // Ids that are none.
    (
        r#"{"jsonrpc":"2.0","id":1.5,"method":"_x"}"#,
        "",
        &["bad line: id is neither null, an integer nor a string"],
    ),
    (r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#, "", &["bad line: a result for no request"]),
    // Notifications are never answered.
    (r#"{"jsonrpc":"2.0","method":"_x/note","params":{"a":1}}"#, "", &["notified _x/note"]),
    (
        r#"{"jsonrpc":"2.0","method":"qwen/notify/session/mode-update"}"#,
        "",
        &["notified qwen/notify/session/mode-update"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e"}}"#,
        "",
        &["notified elicitation/complete"],
    ),
    (r#"{"jsonrpc":"2.0","method":"$/anything","params":[1]}"#, "", &["notified $/anything"]),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"future_update","x":1}}}"#,
        "",
        &["updated future_update"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"video","url":"u"}}}}"#,
        "",
        &["updated agent_message_chunk"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#,
        "",
        &["bad params: session/update"],
    ),
    (r#"{"jsonrpc":"2.0","method":"session/update"}"#, "", &["bad params: session/update"]),
    // Parameters by position: no such thing here, though the decoder could read them.
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":["s",{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}}]}"#,
        "",
        &["bad params: session/update"],
    ),
    (
        r#"["2.0","session/update",["s",["agent_message_chunk",["text","t"]]]]"#,
        "",
        &["bad line: batches are not supported"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":["agent_message_chunk",{"type":"text","text":"t"}]}}"#,
        "",
        &["bad params: session/update"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":4,"method":"session/request_permission","params":["s",["c"],[]]}"#,
        r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"invalid type: sequence, expected an object at line 1 column 0"}}"#,
        &["bad params: session/request_permission"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"plan","entries":[]}}}"#,
        "",
        &["unknown session other"],
    ),
    // Answers to nothing.
    (r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, "", &["orphan 99"]),
    (r#"{"jsonrpc":"2.0","id":"2","result":{"stopReason":"end_turn"}}"#, "", &["orphan \"2\""]),
    (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#, "", &["complaint -32700"]),
    (r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"}}"#, "", &["complaint -32601"]),
    (r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":77}}"#, "", &[]),
    // The end of the turn.
    (r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"paused"}}"#, "", &["ended 7 paused"]),
    (
        r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"},"error":null}"#,
        "",
        &["ended 7 end_turn"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":2,"result":null}"#,
        "",
        &[r#"ended 7 Unreadable("invalid type: null, expected an object at line 1 column 4")"#],
    ),
    (
        r#"{"jsonrpc":"2.0","id":2}"#,
        "",
        &[r#"ended 7 Unreadable("neither method nor result")"#, "bad line: neither method nor result"],
    ),
];

#[test]
fn each_line_of_an_agent_has_its_answer_and_its_event() {
    for (line, written, told) in VECTORS {
        let mut rig = one_session();
        rig.command(prompt(7)).unwrap();
        rig.written();
        rig.hear(line);
        let expected: Vec<&str> = if written.is_empty() { vec![] } else { vec![written] };
        assert_eq!(rig.written(), expected, "{line}");
        assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), told, "{line}");
        // Whatever it was, the next line is read as ever.
        rig.hear(&text("s", "next"));
        assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["text next"], "{line}");
    }
}

#[test]
fn initialize_is_written_in_full() {
    let mut rig = Rig::<Client>::client(given());
    assert_eq!(
        rig.line(),
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#
    );
}

#[test]
fn what_an_agent_answers_to_initialize_decides() {
    let table: [(&str, Option<&str>); 12] = [
        (r#""result":{"protocolVersion":1}"#, None),
        (r#""result":{"protocolVersion":"1"}"#, None),
        (r#""result":{"protocolVersion":1,"agentCapabilities":7,"authMethods":"x","agentInfo":[]}"#, None),
        (r#""result":{"protocolVersion":0}"#, Some("WrongVersion(0)")),
        (r#""result":{"protocolVersion":2}"#, Some("WrongVersion(2)")),
        (r#""result":{"protocolVersion":"2025-01-01"}"#, Some("Unreadable")),
        (r#""result":{"protocolVersion":1.5}"#, Some("Unreadable")),
        (r#""result":{}"#, Some("Unreadable")),
        (r#""result":[1]"#, Some("Unreadable")),
        (r#""result":null"#, Some("Unreadable")),
        (r#""error":{"code":-32602,"message":"m"}"#, Some("Refused")),
        (r#""result":{"protocolVersion":1},"error":{"code":1,"message":"m"}"#, Some("Unreadable")),
    ];
    for (outcome, fault) in table {
        let mut rig = Rig::<Client>::client(given());
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":0,{outcome}}}"#));
        let told = rig.told();
        match fault {
            None => assert!(matches!(&told[..], [Event::Ready(_)]), "{outcome}: {told:?}"),
            Some(fault) => {
                let Some(Event::Closed(closed)) = told.last() else { panic!("{outcome}: {told:?}") };
                assert!(format!("{:?}", closed.fault).contains(fault), "{outcome}: {closed:?}");
            }
        }
    }
}

#[test]
fn an_agent_that_never_answers_initialize_times_out() {
    let mut rig = Rig::<Client>::client(given());
    rig.wait(Duration::from_secs(59));
    assert_eq!(rig.told(), []);
    rig.wait(Duration::from_secs(1));
    assert!(matches!(rig.event(), Event::Closed(closed) if closed.fault == Some(Fault::TimedOut)));
}

#[test]
fn before_the_handshake_an_agent_can_ask_nothing() {
    let mut rig = Rig::<Client>::client(given());
    rig.written();
    rig.hear(&ask("1"));
    assert!(rig.line().contains(r#""id":1,"error":{"code":-32600"#));
    assert_eq!(rig.told(), []);
}

#[test]
fn before_the_handshake_nothing_can_be_asked_of_the_agent() {
    let mut rig = Rig::<Client>::client(given());
    assert_eq!(rig.command(open(1, Which::New)), Err(Refused::NotReady));
    assert_eq!(rig.command(Command::Notify { method: "_x".into(), params: empty() }), Err(Refused::NotReady));
    assert_eq!(rig.command(Command::Shutdown), Ok(()));
    assert_eq!(rig.command(Command::Shutdown), Err(Refused::Closed));
}

fn empty() -> Json {
    Json::new(&serde_json::json!({}))
}

#[test]
fn header_framing_is_another_protocol() {
    let mut rig = Rig::<Client>::client(given());
    rig.hear("Content-Length: 52\r");
    assert!(matches!(rig.event(), Event::Closed(closed) if matches!(closed.fault, Some(Fault::NotAcp(_)))));
}

#[test]
fn a_line_over_the_limit_ends_the_connection() {
    let limits = Limits { line: 1000, ..Limits::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { limits, ..given() }, &[]);
    rig.hear(&format!("{{\"x\":\"{}\"}}", "y".repeat(1000)));
    assert!(matches!(rig.event(), Event::Closed(closed) if closed.fault == Some(Fault::LineTooLong)));
}

#[test]
fn bytes_that_are_no_text_are_one_bad_line() {
    let mut rig = one_session();
    rig.link(Heard::Bytes(b"{\"a\":\"\xff\"}\n"));
    assert_eq!(word(&rig.event()), "bad line: not UTF-8");
    assert_eq!(rig.written(), [""; 0]);
}

#[test]
fn a_turn_ends_with_the_last_line_though_it_has_no_end() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.link(Heard::Bytes(result(2, r#"{"stopReason":"end_turn"}"#).as_bytes()));
    assert_eq!(rig.told(), []);
    rig.link(Heard::Eof);
    assert_eq!(ends(&rig.told()), [(7, Ok(StopReason::EndTurn))]);
}

#[test]
fn a_stream_that_breaks_off_within_a_line_ends_the_turn_as_disconnected() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.link(Heard::Bytes(br#"{"jsonrpc":"2.0","id":2,"resu"#));
    rig.link(Heard::Eof);
    let told = rig.told();
    assert_eq!(word(&told[0]), "bad line: not JSON");
    assert_eq!(ends(&told), [(7, Err(Failure::Disconnected))]);
}

#[test]
fn text_and_answer_in_one_read_come_out_in_order() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    let both = format!("{}\n{}\n", text("s", "done"), result(2, r#"{"stopReason":"end_turn"}"#));
    rig.link(Heard::Bytes(both.as_bytes()));
    assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["text done", "ended 7 end_turn"]);
}

#[test]
fn a_prompt_can_follow_at_once_on_the_end_of_a_turn() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(rig.command(prompt(7)), Ok(()));
}

#[test]
fn a_new_session_may_speak_before_its_id_is_told() {
    let mut rig = Rig::<Client>::ready();
    rig.hear(&text("s", "too early"));
    assert_eq!(word(&rig.event()), "unknown session s");
    rig.command(open(1, Which::New)).unwrap();
    rig.hear(&text("s", "early"));
    rig.hear(&result(1, r#"{"sessionId":"s"}"#));
    rig.hear(&text("s", "late"));
    rig.hear(&text("other", "lost"));
    let told = rig.told();
    let words: Vec<String> = told.iter().map(word).collect();
    assert_eq!(words, ["text early", "answered 1", "text late", "unknown session other"]);
    for event in &told {
        assert!(!matches!(event, Event::Text(text) if text.moment != Moment::Between));
    }
}

#[test]
fn sessions_that_are_opened_at_once_are_told_apart_by_request() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::New)).unwrap();
    rig.command(open(2, Which::New)).unwrap();
    rig.hear(&result(2, r#"{"sessionId":"b"}"#));
    rig.hear(&result(1, r#"{"sessionId":"a"}"#));
    rig.hear(&text("a", "of a"));
    rig.hear(&text("b", "of b"));
    let told = rig.told();
    let opened: Vec<(u64, &str)> = told
        .iter()
        .filter_map(|event| {
            let Event::Answered(tag, answer) = event else { return None };
            let Answer::SessionOpened { session, .. } = &**answer else { return None };
            Some((tag.0, session.as_str()))
        })
        .collect();
    assert_eq!(opened, [(2, "b"), (1, "a")]);
    assert_eq!(told.iter().map(word).collect::<Vec<_>>()[2..], ["text of a", "text of b"]);
}

#[test]
fn history_is_told_from_news_and_its_window_closes_on_every_outcome() {
    for (answer, opened) in [(result(1, "null"), true), (error(1, -32002), false)] {
        let mut rig = Rig::<Client>::ready();
        rig.command(open(1, Which::Load("s".into()))).unwrap();
        assert_eq!(rig.command(prompt(2)), Err(Refused::NotReady));
        rig.hear(&text("s", "old"));
        rig.hear(&answer);
        rig.hear(&text("s", "new"));
        let told = rig.told();
        assert!(matches!(&told[0], Event::Text(text) if text.moment == Moment::Replay));
        if opened {
            assert!(matches!(&told[2], Event::Text(text) if text.moment == Moment::Between), "{told:?}");
        } else {
            assert_eq!(word(&told[2]), "unknown session s");
        }
    }
}

#[test]
fn a_resumed_session_has_no_history() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::Resume("s".into()))).unwrap();
    rig.hear(&text("s", "news"));
    assert!(matches!(rig.event(), Event::Text(text) if text.moment == Moment::Between));
}

#[test]
fn a_session_that_could_not_be_loaded_again_is_still_the_one_that_is_open() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::Load("s".into()))).unwrap();
    rig.command(open(2, Which::New)).unwrap();
    // An agent that gives an id twice.
    rig.hear(&result(2, r#"{"sessionId":"s"}"#));
    rig.command(prompt(3)).unwrap();
    rig.hear(&error(1, -32603));
    rig.told();
    assert_eq!(rig.command(cancel()), Ok(()));
}

#[test]
fn a_session_id_that_is_in_use_opens_nothing() {
    let mut rig = one_session();
    rig.command(open(1, Which::New)).unwrap();
    rig.hear(&result(2, r#"{"sessionId":"s"}"#));
    assert!(matches!(rig.event(), Event::Failed(Tag(1), why) if matches!(*why, Failure::Unreadable(_))));
    assert_eq!(rig.command(open(2, Which::Load("s".into()))), Err(Refused::Busy));
}

#[test]
fn a_session_that_is_being_opened_cannot_be_closed() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::Load("s".into()))).unwrap();
    assert_eq!(
        rig.command(Command::CloseSession { tag: Tag(2), session: "s".into() }),
        Err(Refused::NotReady)
    );
}

#[test]
fn a_cancel_tells_the_agent_first_and_then_gives_up_its_questions() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.hear(&ask("\"u-1\""));
    let asked = keys(&rig.told());
    rig.written();
    rig.command(cancel()).unwrap();
    assert_eq!(
        rig.written(),
        [
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#,
            r#"{"jsonrpc":"2.0","id":"u-1","result":{"outcome":{"outcome":"cancelled"}}}"#,
        ]
    );
    assert_eq!(rig.told(), asked.iter().map(|key| Event::Withdrawn(*key)).collect::<Vec<_>>());
    let outcome = PermissionOutcome::selected("y");
    assert_eq!(rig.command(Command::Answer { request: asked[0], outcome }), Err(Refused::Unknown));
    // A question that was on its way gets the same answer, and nobody is asked.
    rig.hear(&ask("5"));
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    assert_eq!(rig.told(), []);
    // Once per turn: a second cancel could hit the turn after this one.
    assert_eq!(rig.command(cancel()), Ok(()));
    assert_eq!(rig.written(), [""; 0]);
    // The agent was faster: its own end counts.
    rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(ends(&rig.told()), [(7, Ok(StopReason::EndTurn))]);
    rig.command(prompt(8)).unwrap();
    rig.hear(&ask("6"));
    assert_eq!(keys(&rig.told()).len(), 1);
}

#[test]
fn a_cancelled_prompt_may_be_answered_as_a_cancelled_request() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(cancel()).unwrap();
    rig.hear(&error(2, code::CANCELLED));
    assert_eq!(ends(&rig.told()), [(7, Ok(StopReason::Cancelled))]);
    // Of its own accord it is a failure like any other.
    rig.command(prompt(8)).unwrap();
    rig.hear(&error(3, code::CANCELLED));
    assert!(matches!(&ends(&rig.told())[..], [(8, Err(Failure::Rpc(_)))]));
}

#[test]
fn a_turn_that_was_given_up_asks_nobody_any_more() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(cancel()).unwrap();
    rig.wait(Duration::from_secs(5));
    assert_eq!(ends(&rig.told()), [(7, Err(Failure::Unconfirmed))]);
    rig.written();
    rig.hear(&ask("5"));
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    // The late answer is nobody's, and ends it.
    rig.hear(&result(2, r#"{"stopReason":"cancelled"}"#));
    assert_eq!(word(&rig.event()), "orphan 2");
    rig.hear(&ask("6"));
    assert_eq!(keys(&rig.told()).len(), 1);
}

#[test]
fn silence_during_a_turn_is_counted_from_the_last_word_of_either_side() {
    let timeouts = Timeouts { silence: Some(Duration::from_secs(10)), ..Timeouts::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { timeouts, ..given() }, &["s"]);
    rig.wait(Duration::from_secs(60));
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    // The user thinks about it for an hour.
    rig.wait(Duration::from_secs(3600));
    let request = keys(&rig.told())[0];
    rig.command(Command::Answer { request, outcome: PermissionOutcome::selected("y") }).unwrap();
    rig.wait(Duration::from_secs(9));
    assert_eq!(rig.told(), []);
    // The reader of our events is full for an hour.
    rig.input(Input::Hold(true));
    rig.wait(Duration::from_secs(3600));
    rig.input(Input::Hold(false));
    rig.wait(Duration::from_secs(9));
    assert_eq!(rig.told(), []);
    rig.written();
    rig.wait(Duration::from_secs(1));
    assert_eq!(ends(&rig.told()), [(7, Err(Failure::Silent))]);
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
}

#[test]
fn a_permission_has_no_clock() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.told();
    rig.wait(Duration::from_secs(24 * 3600));
    assert_eq!(rig.told(), []);
}

#[test]
fn only_an_offered_option_answers_a_permission_and_only_once() {
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
fn a_question_that_the_agent_withdraws_is_answered_once() {
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
fn what_an_agent_does_not_offer_is_not_asked() {
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
fn what_cannot_be_said_is_refused() {
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
fn each_request_is_written_as_the_protocol_has_it() {
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
fn what_is_not_there_is_closed_and_deleted() {
    for command in [
        Command::CloseSession { tag: Tag(1), session: "s".into() },
        Command::DeleteSession { tag: Tag(1), session: "s".into() },
    ] {
        for (code, fine) in [(code::NOT_FOUND, true), (code::INTERNAL_ERROR, false)] {
            let mut rig = one_session();
            rig.command(command.clone()).unwrap();
            rig.hear(&error(2, code));
            assert_eq!(matches!(rig.event(), Event::Answered(..)), fine, "{command:?} {code}");
        }
    }
}

#[test]
fn a_session_that_is_closed_during_its_turn_ends_the_turn_first() {
    let close = || Command::CloseSession { tag: Tag(1), session: "s".into() };
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.told();
    rig.command(close()).unwrap();
    rig.hear(&result(2, r#"{"stopReason":"cancelled"}"#));
    rig.hear(&result(3, "{}"));
    let words: Vec<String> = rig.told().iter().map(word).collect();
    assert_eq!(words, ["ended 7 cancelled", "withdrawn", "answered 1"]);
    assert_eq!(rig.command(prompt(8)), Err(Refused::Unknown));
    // An agent that forgets about the prompt.
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(close()).unwrap();
    rig.hear(&result(3, "{}"));
    let told = rig.told();
    assert_eq!(ends(&told), [(7, Err(Failure::Disconnected))]);
    assert!(matches!(told.last(), Some(Event::Answered(Tag(1), _))));
}

#[test]
fn errors_of_the_agent_are_passed_on_whole() {
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
fn to_withdraw_a_prompt_is_to_cancel_its_turn() {
    let mut rig = one_session();
    rig.command(prompt(1)).unwrap();
    rig.written();
    rig.command(Command::Withdraw { tag: Tag(1) }).unwrap();
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    rig.hear(&result(2, r#"{"stopReason":"cancelled"}"#));
    assert_eq!(ends(&rig.told()), [(1, Ok(StopReason::Cancelled))]);
}

#[test]
fn a_request_that_takes_too_long_is_withdrawn_and_its_late_answer_is_nobodys() {
    let mut rig = one_session();
    rig.command(open(1, Which::New)).unwrap();
    rig.written();
    rig.wait(Duration::from_secs(60));
    assert!(matches!(rig.event(), Event::Failed(Tag(1), why) if *why == Failure::TimedOut));
    assert!(rig.line().contains("$/cancel_request"));
    rig.hear(&result(2, r#"{"sessionId":"t"}"#));
    assert_eq!(word(&rig.event()), "orphan 2");
    assert_eq!(rig.command(prompt(1)), Ok(()));
}

#[test]
fn who_leaves_answers_what_is_open_and_fails_what_waits() {
    let mut config = given();
    config.capabilities.fs.read_text_file = true;
    let mut rig = Rig::<Client>::with_sessions(config, &["s", "t"]);
    rig.command(prompt(7)).unwrap();
    rig.command(Command::ListSessions { tag: Tag(8), cwd: None, cursor: None }).unwrap();
    rig.hear(&ask("0"));
    rig.hear(
        r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/f"}}"#,
    );
    rig.told();
    rig.written();
    rig.command(Command::Shutdown).unwrap();
    assert_eq!(
        rig.written(),
        [
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"request cancelled"}}"#,
        ]
    );
    let words: Vec<String> = rig.told().iter().map(word).collect();
    assert_eq!(words, ["withdrawn", "withdrawn", "ended 7 Shutdown", "failed 8 Shutdown", "closed None"]);
}

#[test]
fn an_agent_that_ends_by_itself_fails_everything_once() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.told();
    rig.link(Heard::Exited(Exit::Code(3)));
    rig.link(Heard::Eof);
    let words: Vec<String> = rig.told().iter().map(word).collect();
    assert_eq!(words, ["withdrawn", "ended 7 Disconnected", "closed None"]);
}

#[test]
fn what_an_agent_cannot_hear_is_refused() {
    let mut rig = one_session();
    rig.link(Heard::WriteFailed);
    assert_eq!(rig.command(prompt(7)), Err(Refused::Closed));
}

#[test]
fn lists_are_read_as_far_as_they_can_be() {
    let mut rig = one_session();
    let update = |update: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        )
    };
    let mut seen = |line: &str| {
        rig.hear(&update(line));
        let event = rig.event();
        let Event::Updated(updated) = event else { panic!("{line}: {event:?}") };
        updated.update
    };
    let plan = seen(
        r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"},{"content":"b","priority":"urgent","status":"pending"},5]}"#,
    );
    assert!(matches!(plan, Update::Plan(plan) if plan.entries.len() == 1));
    let call = seen(
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"dream","status":"napping","content":[{"type":"text","text":"bare"},{"type":"content","content":{"type":"text","text":"t"}},{"type":"diff","path":"/f","newText":"","oldText":null},{"type":"session","sessionId":"x"}],"locations":[{"path":"/f","line":null},{"path":5},{"path":"/g","line":-1}],"rawInput":null,"_meta":{}}"#,
    );
    let Update::ToolCall(call) = call else { panic!("{call:?}") };
    assert_eq!((call.content.len(), call.locations.len()), (3, 2));
    assert_eq!((call.kind.as_str(), call.status.as_str()), ("other", "pending"));
    let patch = seen(
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","kind":null,"status":"napping","content":null,"locations":"x"}"#,
    );
    let Update::ToolCallUpdate(patch) = patch else { panic!("{patch:?}") };
    assert_eq!((patch.kind, patch.status, patch.content, patch.locations), (None, None, None, None));
    let commands = seen(
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","description":"d","input":null},{"name":"b"}]}"#,
    );
    assert!(matches!(commands, Update::AvailableCommands(list) if list.available_commands.len() == 1));
    let options = seen(
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"a","name":"A","type":"select","currentValue":"x","category":"_mine","options":[]},{"id":"b","name":"B","type":"slider","currentValue":3}]}"#,
    );
    assert!(matches!(options, Update::ConfigOptions(list) if list.config_options.len() == 1));
    let mode = seen(r#"{"sessionUpdate":"current_mode_update","modeId":"m"}"#);
    assert!(matches!(mode, Update::CurrentMode(mode) if mode.current_mode_id == "m"));
    let usage = seen(r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":"free"}"#);
    assert!(matches!(usage, Update::Usage(usage) if usage.cost.is_none()));
    for (line, title) in [
        ("", "Keep"),
        (r#","title":null"#, "Clear"),
        (r#","title":"T""#, r#"Set("T")"#),
        (r#","title":5"#, "Keep"),
    ] {
        let info = seen(&format!(r#"{{"sessionUpdate":"session_info_update"{line}}}"#));
        let Update::SessionInfo(info) = info else { panic!("{info:?}") };
        assert_eq!(format!("{:?}", info.title), title);
    }
}

#[test]
fn one_odd_part_of_the_handshake_does_not_cost_the_rest() {
    let mut rig = Rig::<Client>::client(given());
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":"yes","promptCapabilities":{"image":true,"audio":{}},"mcpCapabilities":null,"sessionCapabilities":{"list":{},"resume":null,"close":true,"delete":{"x":1}},"nes":{}},"authMethods":[{"id":"a","name":"A"},{"type":"env_var"},{"id":"b","name":"B","type":"env_var","vars":[]}],"agentInfo":{"name":"n"}}}"#);
    let Event::Ready(ready) = rig.event() else { panic!("not ready") };
    let may = ready.capabilities;
    assert!(!may.load_session && may.prompt_capabilities.image && !may.prompt_capabilities.audio);
    let sessions = may.session_capabilities;
    assert_eq!((sessions.list, sessions.resume, sessions.close, sessions.delete), (true, false, false, true));
    assert_eq!(ready.auth_methods.iter().map(|method| &*method.id).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(ready.agent_info.map(|info| info.name).as_deref(), Some("n"));
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
