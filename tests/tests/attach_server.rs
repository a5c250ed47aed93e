//! The attach server, raw bytes in and raw bytes out: the protocol's tables, row by row.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentline_core::attach::presence::{Attachment, Record};
use agentline_core::attach::server::{Command, Config, Event, Why};
use agentline_core::attach::{AgentInfo, Injection, Limits, PromptId, Server};
use agentline_core::{
    Action, Address, Change, Heard, Input, LinkId, Machine, Now, Open, OpenError, Output, Peer, Refused,
    Secret, Store, StoreFailed, Time,
};
use serde_json::{Value, json};

const TOKEN: &str = "5eb1";
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"authToken":"5eb1"}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
const PONG: &str = "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"status\":\"ok\"}}\n";
const EIGHT_MIB: usize = 8 << 20;

/// A server, the operating system around it, and the host.
struct Desk {
    server: Server,
    now: Now,
    listener: LinkId,
    accepting: Option<LinkId>,
    /// What each client can read.
    written: BTreeMap<LinkId, Vec<u8>>,
    held: BTreeMap<LinkId, bool>,
    shut: Vec<LinkId>,
    closed: Vec<LinkId>,
    files: BTreeMap<PathBuf, (String, u32)>,
    events: VecDeque<Event>,
    ended: bool,
}

impl Desk {
    fn new() -> Self {
        Self::with(config())
    }

    fn with(config: Config) -> Self {
        let mut desk = Self::opening(config);
        desk.heard(desk.listener, Heard::Opened(Peer::default()));
        desk.events.pop_front();
        desk
    }

    fn opening(config: Config) -> Self {
        let now = Now { mono: Time::ZERO, unix: Duration::from_secs(1_700_000_000) };
        let mut desk = Self {
            server: Server::new(now, config),
            now,
            listener: LinkId::FIRST,
            accepting: None,
            written: BTreeMap::new(),
            held: BTreeMap::new(),
            shut: Vec::new(),
            closed: Vec::new(),
            files: BTreeMap::new(),
            events: VecDeque::new(),
            ended: false,
        };
        desk.drain();
        desk
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll() {
            assert!(!self.ended, "nothing follows the end");
            match output {
                Output::Do(link, action) => self.perform(link, action),
                Output::Store(Store { path, change: Change::Put { bytes, mode } }) => {
                    let text = String::from_utf8(bytes.expose().clone()).expect("files are text");
                    self.files.insert(path, (text, mode));
                }
                Output::Store(Store { path, change: Change::Remove }) => {
                    self.files.remove(&path);
                }
                Output::Tell(event) => self.events.push_back(event),
                Output::End => self.ended = true,
            }
        }
    }

    fn perform(&mut self, link: LinkId, action: Action) {
        assert!(!self.closed.contains(&link), "nothing follows Close");
        match action {
            Action::Open(Open::Listen(_)) => self.listener = link,
            Action::Open(Open::Accept(listener)) => {
                assert_eq!(listener, self.listener);
                assert_eq!(self.accepting.replace(link), None, "one accept at a time");
            }
            Action::Write(bytes) => {
                assert!(bytes.ends_with(b"\n"), "whole lines");
                self.written.entry(link).or_default().extend(bytes);
                self.server.handle(self.now, Input::Link(link, Heard::Written));
            }
            Action::Read(read) => {
                self.held.insert(link, !read);
            }
            Action::CloseWrite => self.shut.push(link),
            Action::Close => self.closed.push(link),
            other @ (Action::Open(_) | Action::Signal(_) | Action::Probe) => panic!("unexpected {other:?}"),
        }
    }

    fn heard(&mut self, link: LinkId, heard: Heard<'_>) {
        self.server.handle(self.now, Input::Link(link, heard));
        self.drain();
    }

    fn connect(&mut self) -> LinkId {
        let link = self.accepting.take().expect("the server accepts");
        self.heard(link, Heard::Opened(Peer::default()));
        link
    }

    /// A client that is let in.
    fn enter(&mut self) -> LinkId {
        let link = self.connect();
        self.ask(link, HELLO);
        link
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) {
        self.heard(link, Heard::Bytes(bytes));
    }

    fn read(&mut self, link: LinkId) -> String {
        let bytes = self.written.remove(&link).unwrap_or_default();
        String::from_utf8(bytes).expect("text")
    }

    /// One line, and what is answered at once.
    fn ask(&mut self, link: LinkId, line: &str) -> String {
        self.send(link, format!("{line}\n").as_bytes());
        self.read(link)
    }

    fn prompt(&mut self, link: LinkId, id: u32, text: &str) -> String {
        self.ask(link, &prompt(id, &json!(text)))
    }

    fn command(&mut self, command: Command) -> Result<(), Refused> {
        let done = self.server.command(self.now, command);
        self.drain();
        done
    }

    fn run(&mut self, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            assert_eq!(self.command(command), Ok(()));
        }
    }

    /// The prompt that the host was handed last, and nothing else.
    fn received(&mut self) -> (PromptId, String) {
        match self.events.pop_front() {
            Some(Event::PromptReceived { prompt, text }) => (prompt, text),
            other => panic!("no prompt but {other:?}"),
        }
    }

    /// Takes a prompt as the next turn and starts it.
    fn start(&mut self) -> PromptId {
        let (prompt, _) = self.received();
        self.run([Command::Injected(prompt, Injection::Queued), Command::TurnStarted]);
        prompt
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now.mono + time;
        while let Some((at, _)) = self.server.deadline().filter(|(at, _)| *at <= until) {
            self.advance(at);
            self.server.handle(self.now, Input::Tick);
            self.drain();
            assert!(
                self.server.deadline().is_none_or(|(next, _)| next > at),
                "a tick at the deadline moves it"
            );
        }
        self.advance(until);
    }

    fn advance(&mut self, to: Time) {
        self.now = Now { mono: to, unix: self.now.unix + to.since(self.now.mono) };
    }

    fn is_closed(&self, link: LinkId) -> bool {
        self.shut.contains(&link)
    }

    fn record(&self) -> Value {
        let (text, mode) = &self.files[Path::new(RECORD)];
        assert_eq!(*mode, 0o600);
        serde_json::from_str(text).expect("the record is JSON")
    }
}

const SOCKET: &str = "/run/agentica-1000/0a1b2c3d.sock";
const TOKEN_FILE: &str = "/run/agentica-1000/0a1b2c3d.token";
const RECORD: &str = "/home/u/.agentica/cache/peers/live/0a1b2c3d.json";

fn config() -> Config {
    Config {
        socket: SOCKET.into(),
        token: Secret::new(TOKEN.to_owned()),
        record: Record {
            peer_id: "0a1b2c3d".to_owned(),
            name: "proj-7f".to_owned(),
            pid: Some(42),
            cwd: "/home/u/proj".to_owned(),
            session_id: Some("sess-1".to_owned()),
            ..Record::default()
        },
        record_file: RECORD.into(),
        agent: AgentInfo { name: "agentline".to_owned(), version: "0.1.0".to_owned() },
        limits: Limits::default(),
    }
}

fn prompt(id: u32, prompt: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": {"prompt": prompt}}).to_string()
}

fn ended(answer: &str) -> Command {
    Command::TurnEnded { answer: Some(answer.to_owned()) }
}

fn error(id: &str, code: i64) -> (String, i64) {
    (id.to_owned(), code)
}

/// The id and the error code of a line, which is an error.
fn failed(line: &str) -> (String, i64) {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("one line: {line:?}"));
    (line["id"].to_string(), line["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {line}")))
}

// Admission.

#[test]
fn initialize_with_the_token_is_welcomed() {
    let mut desk = Desk::new();
    let client = desk.connect();
    assert_eq!(
        desk.ask(client, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"authToken":"5eb1","clientCapabilities":{}}}"#),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":false,\
         \"promptCapabilities\":{},\"agenticaAttach\":true},\"agentInfo\":{\"name\":\"agentline\",\"version\":\"0.1.0\"},\
         \"agenticaAuth\":\"token\"}}\n"
    );
}

#[test]
fn wrong_tokens_are_refused_and_may_be_retried() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
    let client = desk.connect();
    for token in ["tökén", "🎉", r"\ud800"] {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"authToken":"{token}"}}}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("1", -32000), "{token}");
    }
}

#[test]
fn only_initialize_lets_in() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
    let client = desk.enter();
    for params in ["{}", r#"{"authToken":"wrong"}"#, "null"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"initialize","params":{params}}}"#);
        assert!(desk.ask(client, &line).contains("\"protocolVersion\":1"));
    }
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn the_protocol_version_is_ours_whatever_was_asked() {
    let mut desk = Desk::new();
    let client = desk.connect();
    let line = HELLO.replace(r#""authToken""#, r#""protocolVersion":7,"authToken""#);
    assert!(desk.ask(client, &line).contains("\"protocolVersion\":1"));
}

#[test]
fn nobody_learns_before_admission_which_methods_there_are() {
    let mut desk = Desk::new();
    let client = desk.connect();
    for method in ["session/new", "authenticate", "auth/login", "nonsense", ""] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}"}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("\"a\"", -32000), "{method}");
    }
}

#[test]
fn an_unknown_method_is_not_found() {
    let mut desk = Desk::new();
    let client = desk.enter();
    for method in ["session/new", "authenticate", "auth/login", "nonsense", "PING"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("1", -32601), "{method}");
    }
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn parameters_that_are_no_object_close_nothing() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
    let client = desk.enter();
    for params in ["null", "[]", "\"\"", "{}"] {
        let line = |method| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}","params":{params}}}"#);
        assert!(desk.ask(client, &line("session/load")).contains("sess-1"), "{params}");
        assert_eq!(failed(&desk.ask(client, &line("session/prompt"))), error("9", -32602), "{params}");
    }
}

// Lines and envelopes.

#[test]
fn a_line_that_is_not_json_is_answered_without_an_id() {
    let mut desk = Desk::new();
    for client in [desk.connect(), desk.enter()] {
        for line in [
            &b"junk"[..],
            b"{\"id\":1,\"method\":\"ping\"} x",
            b"{\"id\":1,\"method\":\"ping\"}{\"id\":2,\"method\":\"ping\"}",
            b"{\"id\":1,\"method\":\"pi\xff\"}",
            b"{\"id\":NaN,\"method\":\"ping\"}",
            b"{\"id\":1",
            b"\xfe",
        ] {
            desk.send(client, &[line, b"\n"].concat());
            assert_eq!(failed(&desk.read(client)), error("null", -32700), "{line:?}");
        }
        desk.send(client, b"{\"id\":1,\"method\":\"pi\nng\"}\n");
        assert_eq!(desk.read(client).matches("-32700").count(), 2, "a raw line end cuts the object");
        assert!(desk.ask(client, HELLO).contains("result"));
    }
}

#[test]
fn nesting_without_end_is_not_json_and_the_connection_stays() {
    let mut desk = Desk::new();
    let client = desk.enter();
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(failed(&desk.ask(client, &format!("{open}{close}"))), error("null", -32700));
    let line = format!(r#"{{"id":9,"method":"ping","params":{open}{close}}}"#);
    assert_eq!(failed(&desk.ask(client, &line)), error("null", -32700));
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn json_that_is_no_object_is_no_request() {
    let mut desk = Desk::new();
    for client in [desk.connect(), desk.enter()] {
        for line in ["[]", "5", "\"x\"", "null", "true", &format!("[{PING},{PING}]")] {
            assert_eq!(failed(&desk.ask(client, line)), error("null", -32600), "{line}");
        }
    }
}

#[test]
fn an_object_without_a_method_is_refused_under_its_id() {
    let mut desk = Desk::new();
    let client = desk.enter();
    for (line, id) in [
        (r#"{"jsonrpc":"2.0","id":3}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":7}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":"x","method":null}"#, "\"x\""),
        (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"x"}}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"result":1,"error":{}}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","result":1}"#, "3"),
        (r#"{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":null,"result":1}"#, "null"),
        ("{}", "null"),
    ] {
        assert_eq!(failed(&desk.ask(client, line)), error(id, -32600), "{line}");
    }
}

#[test]
fn the_version_of_the_envelope_may_be_missing_but_not_wrong() {
    let mut desk = Desk::new();
    let client = desk.enter();
    assert_eq!(desk.ask(client, r#"{"id":9,"method":"ping"}"#), PONG);
    assert_eq!(failed(&desk.ask(client, r#"{"jsonrpc":"1.0","id":9,"method":"ping"}"#)), error("9", -32600));
}

#[test]
fn a_member_that_is_there_twice_is_refused() {
    let mut desk = Desk::new();
    let client = desk.enter();
    let line = r#"{"id":9,"method":"ping","method":"session/cancel"}"#;
    assert_eq!(failed(&desk.ask(client, line)), error("null", -32600));
    let line = r#"{"id":9,"method":"session/prompt","params":{"prompt":"a","prompt":"b"}}"#;
    assert_eq!(failed(&desk.ask(client, line)), error("9", -32602));
    assert!(desk.events.is_empty());
}

#[test]
fn notifications_are_obeyed_and_never_answered() {
    let mut desk = Desk::new();
    let client = desk.connect();
    for line in [
        r#"{"method":"ping"}"#,
        r#"{"method":"initialize","params":{"authToken":"wrong"}}"#,
        r#"{"method":"initialize","params":{"authToken":"5eb1"}}"#,
        r#"{"method":"ping"}"#,
        r#"{"method":"nonsense"}"#,
        r#"{"method":"session/load"}"#,
        r#"{"method":"session/prompt"}"#,
        r#"{"method":"session/cancel"}"#,
    ] {
        assert_eq!(desk.ask(client, line), "", "{line}");
    }
    assert_eq!(desk.events.pop_front(), Some(Event::CancelReceived));
    assert_eq!(desk.ask(client, PING), PONG, "it was let in");
}

#[test]
fn ids_come_back_as_they_were_written() {
    let mut desk = Desk::new();
    let client = desk.enter();
    let digits = "7".repeat(41);
    let many = "1".repeat(5000);
    for id in [
        "null",
        "\"\"",
        "\"x\"",
        "-1",
        "0",
        "9007199254740993",
        &digits,
        &many,
        r#""\u0000""#,
        "\"🎉é\"",
        r#""\u00e9""#,
        r#""\ud800""#,
    ] {
        let answer = desk.ask(client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!(answer, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"status\":\"ok\"}}}}\n"));
    }
}

#[test]
fn other_ids_are_refused_with_an_answer_that_is_json() {
    let mut desk = Desk::new();
    let client = desk.enter();
    for id in ["1.5", "1.0", "1e400", "true", "{}", "[1]"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("null", -32600), "{id}");
    }
}

#[test]
fn blank_lines_carriage_returns_and_a_byte_order_mark_are_passed_over() {
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.send(client, format!("\n  \n\t\n\r\n\u{feff}{PING}\r\n\n").as_bytes());
    assert_eq!(desk.read(client), PONG);
}

#[test]
fn two_requests_in_one_write_are_answered_in_order() {
    let mut desk = Desk::new();
    let client = desk.connect();
    let load = r#"{"id":8,"method":"session/load"}"#;
    desk.send(client, format!("{HELLO}\n{load}\n{PING}\n{load}\n").as_bytes());
    let answers = desk.read(client);
    let ids: Vec<_> = answers.lines().map(|line| line.split(',').nth(1).unwrap_or_default()).collect();
    assert_eq!(ids, ["\"id\":0", "\"id\":8", "\"id\":9", "\"id\":8"]);
}

#[test]
fn bytes_may_come_one_by_one() {
    let mut desk = Desk::new();
    let client = desk.connect();
    for byte in format!("{HELLO}\n{PING}\n").bytes() {
        desk.send(client, &[byte]);
    }
    assert!(desk.read(client).ends_with(PONG));
}

#[test]
fn a_line_without_its_end_waits() {
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.send(client, PING.as_bytes());
    desk.pass(Duration::from_secs(86_400));
    assert_eq!(desk.read(client), "");
    desk.send(client, b"\n");
    assert_eq!(desk.read(client), PONG);
}

/// A ping whose line, with its line end, has that length.
fn long_ping(length: usize) -> Vec<u8> {
    let mut line = PING.trim_end_matches('}').as_bytes().to_vec();
    line.extend_from_slice(b",\"params\":\"");
    line.resize(length - 3, b'x');
    line.extend_from_slice(b"\"}\n");
    assert_eq!(line.len(), length);
    line
}

/// limit-is-per-line-not-buffer
#[test]
fn a_line_of_eight_mib_is_taken_whatever_follows_it() {
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.send(client, &long_ping(EIGHT_MIB));
    assert_eq!(desk.read(client), PONG);
    let burst = [long_ping(EIGHT_MIB), format!("{PING}\n").repeat(1000).into_bytes()].concat();
    for chunk in burst.chunks(64 << 10) {
        desk.send(client, chunk);
    }
    assert_eq!(desk.read(client), PONG.repeat(1001));
}

#[test]
fn a_longer_line_is_refused_and_ends_the_connection() {
    for admitted in [false, true] {
        for length in [EIGHT_MIB + 1, EIGHT_MIB + (1 << 20)] {
            let mut desk = Desk::new();
            let client = if admitted { desk.enter() } else { desk.connect() };
            let burst = [long_ping(length), format!("{PING}\n").into_bytes()].concat();
            for chunk in burst.chunks(64 << 10) {
                desk.send(client, chunk);
            }
            let answer = desk.read(client);
            assert_eq!(failed(&answer), error("null", -32600));
            assert!(answer.contains("message too large"));
            assert!(desk.is_closed(client));
            desk.heard(client, Heard::Eof);
            assert!(desk.closed.contains(&client));
            assert!(desk.accepting.is_some(), "others can come");
        }
    }
}

// Prompts.

#[test]
fn text_in_any_form_is_delivered_once_and_trimmed() {
    for (given, text) in [
        (json!("  run the tests \n"), "run the tests"),
        (json!([{"type": "text", "text": "one"}]), "one"),
        (json!([{"type": "text", "text": "one"}, {"type": "text", "text": " two "}]), "one\n two"),
        (json!([{"type": "text", "text": 7, "annotations": {}}]), "7"),
        (json!([{"type": "text", "text": ""}, {"type": "text", "text": "x\u{2028}中"}]), "x\u{2028}中"),
    ] {
        let mut desk = Desk::new();
        let client = desk.enter();
        assert_eq!(desk.ask(client, &prompt(2, &given)), "");
        assert_eq!(desk.received().1, text);
        assert!(desk.events.is_empty());
    }
}

/// image-silently-dropped
#[test]
fn any_other_block_refuses_the_whole_prompt_and_is_named() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
    let client = desk.enter();
    let blank = json!([{"type": "text", "text": " "}, {"type": "text", "text": "\n"}]);
    for given in [json!(null), json!({}), json!(7), json!(""), json!(" \t"), json!([]), blank] {
        assert_eq!(failed(&desk.ask(client, &prompt(2, &given))), error("2", -32602), "{given}");
    }
    let missing = r#"{"id":2,"method":"session/prompt","params":{}}"#;
    assert_eq!(failed(&desk.ask(client, missing)), error("2", -32602));
    let half = r#"{"id":2,"method":"session/prompt","params":{"prompt":"\ud800"}}"#;
    assert_eq!(failed(&desk.ask(client, half)), error("2", -32602));
    assert!(desk.events.is_empty());
}

#[test]
fn a_bad_prompt_to_the_wrong_session_is_a_bad_prompt() {
    let mut desk = Desk::new();
    let client = desk.enter();
    let line = r#"{"id":2,"method":"session/prompt","params":{"prompt":[],"sessionId":"other"}}"#;
    assert_eq!(failed(&desk.ask(client, line)), error("2", -32602));
}

#[test]
fn another_session_is_refused_and_ours_is_named() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
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
    let mut desk = Desk::with(config);
    let client = desk.enter();
    let line = r#"{"id":2,"method":"session/load","params":{"sessionId":"whatever"}}"#;
    assert!(desk.ask(client, line).contains(r#""sessionId":"0a1b2c3d""#));
}

#[test]
fn a_queued_prompt_waits_for_a_turn_to_start_and_to_end() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
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
        let mut desk = Desk::new();
        let client = desk.enter();
        desk.prompt(client, 2, "x");
        desk.start();
        desk.run([Command::TurnEnded { answer: answer.map(str::to_owned) }]);
        assert_eq!(
            desk.read(client),
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n"
        );
    }
}

const PENDING: &str = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"agentica_pending\",\"agenticaPending\":true}}\n";

#[test]
fn a_turn_that_never_starts_or_never_ends_is_pending_after_ten_minutes() {
    for starts in [false, true] {
        let mut desk = Desk::new();
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
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Unknown)]);
    assert_eq!(desk.read(client), PENDING);
}

#[test]
fn an_injection_that_fails_is_an_error_with_its_text() {
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    let (prompt, _) = desk.received();
    desk.run([Command::Injected(prompt, Injection::Failed("the agent is broken".to_owned()))]);
    let answer = desk.read(client);
    assert_eq!(failed(&answer), error("2", -32603));
    assert!(answer.contains("the agent is broken"));
    assert_eq!(desk.ask(client, PING), PONG);
}

// Several at once.

#[test]
fn what_follows_a_prompt_on_its_connection_is_answered_after_it() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
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
fn a_cancel_on_another_connection_ends_the_prompt_at_once() {
    let mut desk = Desk::new();
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
    desk.run([Command::TurnCancelled]);
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
        let mut desk = Desk::new();
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
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    desk.start();
    desk.run([Command::TurnCancelled]);
    assert!(desk.read(client).contains("cancelled"));
}

#[test]
fn a_cancel_of_nothing_is_told_and_leaves_no_trace() {
    let mut desk = Desk::new();
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
    let mut desk = Desk::new();
    let (client, other) = (desk.enter(), desk.enter());
    desk.prompt(client, 2, "x");
    desk.start();
    assert_eq!(desk.ask(other, PING), PONG);
    assert!(desk.ask(other, r#"{"id":3,"method":"session/load"}"#).contains("\"busy\":true"));
}

#[test]
fn prompts_of_several_clients_are_handed_over_one_by_one_in_order() {
    let mut desk = Desk::new();
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
fn a_cancel_lets_the_next_prompt_take_its_turn() {
    let mut desk = Desk::new();
    let (first, second, third) = (desk.enter(), desk.enter(), desk.enter());
    desk.prompt(first, 1, "one");
    desk.prompt(second, 2, "two");
    desk.start();
    desk.ask(third, r#"{"id":3,"method":"session/cancel"}"#);
    assert_eq!(desk.events.pop_front(), Some(Event::CancelReceived));
    desk.run([Command::TurnCancelled]);
    desk.start();
    desk.run([ended("two done")]);
    assert!(desk.read(first).contains("cancelled"));
    assert!(desk.read(second).contains("two done"));
}

// Clients that go.

#[test]
fn a_client_that_vanishes_blocks_nobody() {
    let mut desk = Desk::new();
    let (gone, next) = (desk.enter(), desk.enter());
    desk.prompt(gone, 1, "one");
    desk.start();
    desk.prompt(next, 2, "two");
    assert!(desk.events.is_empty());
    desk.heard(gone, Heard::Eof);
    let (prompt, text) = desk.received();
    assert_eq!(text, "two", "the turn of the first goes on, and nobody waits for it");
    desk.run([Command::Injected(prompt, Injection::Queued), ended("one done"), Command::TurnStarted]);
    desk.heard(gone, Heard::WriteFailed);
    desk.run([ended("two done")]);
    assert!(desk.read(next).contains("two done"));
    desk.pass(Duration::from_secs(5));
    assert!(desk.closed.contains(&gone));
}

#[test]
fn a_client_that_only_stops_sending_still_gets_its_answer() {
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    desk.heard(client, Heard::Eof);
    desk.start();
    desk.run([ended("done")]);
    assert!(desk.read(client).contains("done"));
    assert!(desk.closed.contains(&client), "and then the end");
    assert_eq!(desk.now.mono, Time::ZERO);
}

#[test]
fn a_client_that_says_everything_at_once_and_stops_is_served() {
    let mut desk = Desk::new();
    let client = desk.connect();
    desk.send(client, format!("{HELLO}\n{}\n{PING}", prompt(2, &json!("x"))).as_bytes());
    desk.heard(client, Heard::Eof);
    desk.start();
    desk.run([ended("done")]);
    let answers = desk.read(client);
    assert!(answers.contains("done") && answers.ends_with(PONG), "{answers}");
    assert!(desk.closed.contains(&client));
}

#[test]
fn a_client_that_stuffs_its_connection_behind_a_prompt_is_left_in_the_pipe_and_blocks_nobody() {
    let mut desk = Desk::new();
    let (client, next) = (desk.enter(), desk.enter());
    desk.prompt(client, 1, "one");
    desk.start();
    desk.prompt(next, 2, "two");
    let pings = format!("{PING}\n").repeat(2000);
    desk.send(client, pings.as_bytes());
    assert!(desk.held[&client], "no more is read");
    assert_eq!(desk.received().1, "two");
    desk.run([ended("done")]);
    assert!(!desk.held[&client]);
    assert!(desk.read(client).ends_with(&PONG.repeat(2000)));
}

#[test]
fn a_client_that_does_not_read_is_not_read() {
    let mut desk = Desk::new();
    let client = desk.enter();
    // No ack: the desk is bypassed.
    let pings = format!("{PING}\n").repeat(2000);
    desk.server.handle(desk.now, Input::Link(client, Heard::Bytes(pings.as_bytes())));
    let mut outputs = std::iter::from_fn(|| desk.server.poll());
    assert!(matches!(outputs.next(), Some(Output::Do(_, Action::Read(false)))));
    assert!(matches!(outputs.next(), Some(Output::Do(_, Action::Write(_)))));
    assert_eq!(outputs.count(), 0);
    desk.heard(client, Heard::Written);
    assert!(!desk.held[&client]);
}

#[test]
fn a_waiting_prompt_whose_connection_broke_is_not_delivered() {
    let mut desk = Desk::new();
    let (first, second) = (desk.enter(), desk.enter());
    desk.prompt(first, 1, "one");
    desk.prompt(second, 2, "two");
    desk.start();
    desk.heard(second, Heard::WriteFailed);
    desk.heard(second, Heard::Eof);
    desk.run([ended("done")]);
    assert!(desk.events.is_empty());
}

#[test]
fn no_more_clients_than_seats_are_accepted() {
    let mut config = config();
    config.limits.connections = 2;
    let mut desk = Desk::with(config);
    let first = desk.enter();
    desk.enter();
    assert_eq!(desk.accepting, None);
    desk.heard(first, Heard::Eof);
    assert!(desk.accepting.is_some());
}

#[test]
fn a_full_host_is_handed_nothing_more() {
    let mut desk = Desk::new();
    let client = desk.enter();
    desk.server.handle(desk.now, Input::Hold(true));
    desk.drain();
    assert!(desk.held[&client]);
    desk.server.handle(desk.now, Input::Hold(false));
    desk.drain();
    assert!(!desk.held[&client]);
}

// The session's own life.

#[test]
fn a_session_that_leaves_answers_what_it_took_and_refuses_the_rest() {
    let mut desk = Desk::new();
    let (first, second, idle) = (desk.enter(), desk.enter(), desk.connect());
    desk.prompt(first, 2, "one");
    desk.prompt(second, 3, "two");
    desk.start();
    desk.run([Command::Shutdown]);
    assert_eq!(desk.read(first), PENDING);
    assert_eq!(failed(&desk.read(second)), error("3", -32603));
    assert!(desk.files.is_empty(), "record and token are gone");
    assert!(desk.closed.contains(&desk.listener));
    assert_eq!(desk.events.pop_front(), Some(Event::Closed(Why::Stopped)));
    for client in [first, second, idle] {
        assert!(desk.is_closed(client));
        assert!(!desk.ended);
        desk.heard(client, Heard::Eof);
    }
    assert!(desk.ended);
    assert_eq!(desk.command(Command::TurnStarted), Err(Refused::Closed));
}

#[test]
fn clients_that_do_not_follow_hold_nobody_up() {
    let mut desk = Desk::new();
    desk.enter();
    desk.run([Command::Shutdown]);
    desk.pass(Duration::from_secs(1));
    assert!(desk.ended);
}

#[test]
fn token_and_record_are_there_from_listening_to_stop_only() {
    let mut desk = Desk::opening(config());
    assert!(desk.files.is_empty());
    desk.heard(desk.listener, Heard::Opened(Peer::default()));
    assert_eq!(desk.files[Path::new(TOKEN_FILE)], ("5eb1\n".to_owned(), 0o600));
    let listening = Attachment { attach_socket: SOCKET.to_owned(), peer_id: "0a1b2c3d".to_owned() };
    assert_eq!(desk.events.pop_front(), Some(Event::Listening(Box::new(listening))));
    let record = desk.record();
    assert_eq!(record.as_object().map(serde_json::Map::len), Some(28));
    assert_eq!(record["attach_socket"], SOCKET);
    assert_eq!(record["updated_at"], 1_700_000_000.0);
    assert_eq!(record["busy"], false);
    desk.run([Command::Shutdown]);
    assert!(desk.files.is_empty());
}

#[test]
fn the_record_is_renewed_every_thirty_seconds_and_with_every_turn() {
    let mut desk = Desk::new();
    desk.pass(Duration::from_secs(30));
    assert_eq!(desk.record()["updated_at"], 1_700_000_030.0);
    desk.pass(Duration::from_secs(7));
    desk.run([Command::TurnStarted]);
    assert_eq!(desk.record()["busy"], true);
    assert_eq!(desk.record()["updated_at"], 1_700_000_037.0);
    desk.run([ended("")]);
    assert_eq!(desk.record()["busy"], false);
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let mut desk = Desk::opening(config());
    desk.heard(desk.listener, Heard::OpenFailed(OpenError::PathTooLong));
    assert_eq!(desk.events.pop_front(), Some(Event::Closed(Why::ListenFailed(OpenError::PathTooLong))));
    assert!(desk.files.is_empty());
    assert!(desk.ended);
}

#[test]
fn a_session_that_leaves_while_it_starts_leaves_nothing_behind() {
    let mut desk = Desk::opening(config());
    desk.run([Command::Shutdown]);
    assert!(desk.ended && desk.files.is_empty());
    desk.heard(desk.listener, Heard::Opened(Peer::default()));
}

#[test]
fn without_its_token_file_nobody_is_served() {
    let mut desk = Desk::new();
    let failed = StoreFailed { path: Path::new(TOKEN_FILE), errno: 30 };
    desk.server.handle(desk.now, Input::StoreFailed(failed));
    desk.drain();
    assert_eq!(desk.events.pop_front(), Some(Event::Closed(Why::TokenFailed { errno: 30 })));
    assert!(desk.ended && desk.files.is_empty());
}

#[test]
fn without_its_record_a_session_is_still_served() {
    let mut desk = Desk::new();
    let failed = StoreFailed { path: Path::new(RECORD), errno: 28 };
    desk.server.handle(desk.now, Input::StoreFailed(failed));
    desk.drain();
    assert_eq!(desk.events.pop_front(), Some(Event::PresenceFailed { errno: 28 }));
    let client = desk.enter();
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn a_host_that_miscounts_its_turns_is_told_so() {
    let mut desk = Desk::new();
    assert_eq!(desk.command(ended("")), Err(Refused::Unknown));
    assert_eq!(desk.command(Command::TurnCancelled), Err(Refused::Unknown));
    desk.run([Command::TurnStarted]);
    assert_eq!(desk.command(Command::TurnStarted), Err(Refused::Busy));
    assert_eq!(desk.command(Command::Injected(PromptId(7), Injection::Queued)), Err(Refused::Unknown));
}

#[test]
fn the_token_is_shown_nowhere() {
    let mut desk = Desk::opening(config());
    let shown = format!("{:?}", desk.server);
    assert!(!shown.contains(TOKEN), "{shown}");
    desk.server.handle(desk.now, Input::Link(desk.listener, Heard::Opened(Peer::default())));
    while let Some(output) = desk.server.poll() {
        assert!(!format!("{output:?}").contains(TOKEN));
    }
    assert_eq!(Address(SOCKET.into()).0, PathBuf::from(SOCKET));
}
