//! What one line of a peer is about, on any channel: its name, what it says, and what it begins or ends.

use serde_json::{Map, Value};

use super::kind::Kind;
use super::span::Lasting;

/// A line of a peer, as people look at it.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) kind: Kind,
    /// The method, or the name of the message.
    pub(super) title: String,
    pub(super) text: String,
    pub(super) session: Option<String>,
    /// It tells of a failure.
    pub(super) is_bad: bool,
    pub(super) role: Role,
}

/// What a line does to what lasts.
#[derive(Debug, PartialEq)]
pub(super) enum Role {
    Nothing,
    /// Something begins that this names.
    Begins(Lasting, String),
    /// What its own sender has begun is over.
    Ends(String),
    /// What the other side has begun is over.
    Answers(String),
}

impl Said {
    /// Reads a line without its line end. Total: what is no message of a known channel is shown as it is.
    pub(super) fn new(line: &[u8]) -> Self {
        let value = match serde_json::from_slice(line) {
            Ok(Value::Object(members)) => members,
            Ok(_) | Err(_) => return Self::foreign(line),
        };
        let mut said = if let Some(method) = string(&value, "method") {
            Self::call(method, &value)
        } else if value.contains_key("id") && (value.contains_key("result") || value.contains_key("error")) {
            Self::answer(&value)
        } else if let Some(command) = string(&value, "command") {
            let key = format!("command {}", id(value.get("requestId")));
            let role = Role::Begins(Lasting::Call, key);
            Self::plain(command, value.get("args").unwrap_or(&Value::Null)).with(Kind::Message, role)
        } else if let Some(is_good) = value.get("ok").and_then(Value::as_bool) {
            Self::reply(&value, is_good)
        } else if let Some(stream) = string(&value, "stream") {
            Self::frame(stream, &value)
        } else if let Some(kind) = string(&value, "kind") {
            Self::runner(kind, &value)
        } else {
            Self::plain("message", &Value::Object(value.clone()))
        };
        said.session = session(&Value::Object(value));
        said
    }

    fn foreign(line: &[u8]) -> Self {
        let title = if line.trim_ascii().is_empty() { "blank line" } else { "no message" };
        Self { text: short(&String::from_utf8_lossy(line)), ..Self::plain(title, &Value::Null) }
    }

    fn plain(title: &str, body: &Value) -> Self {
        let (title, text) = (short(title), gist(body));
        Self { kind: Kind::Message, title, text, session: None, is_bad: false, role: Role::Nothing }
    }

    fn with(self, kind: Kind, role: Role) -> Self {
        Self { kind, role, ..self }
    }

    /// A request or a notification of JSON-RPC.
    fn call(method: &str, value: &Map<String, Value>) -> Self {
        let params = value.get("params").unwrap_or(&Value::Null);
        if let Some(update) = params.get("update").filter(|_| method == "session/update") {
            return Self::update(update);
        }
        let said = Self::plain(method, params);
        let Some(number) = value.get("id") else { return said };
        let key = format!("request {number}");
        let (kind, lasting) = match method {
            "session/prompt" => (Kind::Turn, Lasting::Turn),
            "session/request_permission" | "elicitation/create" => (Kind::Permission, Lasting::Permission),
            _ => (Kind::Message, Lasting::Call),
        };
        said.with(kind, Role::Begins(lasting, key))
    }

    fn update(update: &Value) -> Self {
        let name = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or("session/update");
        let said = Self::plain(name, update);
        match name {
            "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" => {
                said.with(Kind::Text, Role::Nothing)
            }
            "tool_call" | "tool_call_update" => {
                let status = update.get("status").and_then(Value::as_str).unwrap_or_default();
                let key = format!("tool {}", id(update.get("toolCallId")));
                let is_over = matches!(status, "completed" | "failed");
                let role = if is_over { Role::Ends(key) } else { Role::Begins(Lasting::Tool, key) };
                let title = update.get("title").and_then(Value::as_str).unwrap_or_default();
                let words = [title, status].into_iter().filter(|word| !word.is_empty());
                let text = words.collect::<Vec<_>>().join(" · ");
                let text = if text.is_empty() { said.text.clone() } else { short(&text) };
                Self { text, is_bad: status == "failed", ..said.with(Kind::Tool, role) }
            }
            _ => said,
        }
    }

    fn answer(value: &Map<String, Value>) -> Self {
        let role = Role::Answers(format!("request {}", id(value.get("id"))));
        match value.get("error") {
            Some(error) => Self { text: fault(error), is_bad: true, ..Self::plain("answer", &Value::Null) },
            None => Self::plain("answer", value.get("result").unwrap_or(&Value::Null)),
        }
        .with(Kind::Message, role)
    }

    /// An answer of the control channel.
    fn reply(value: &Map<String, Value>, is_good: bool) -> Self {
        let role = Role::Answers(format!("command {}", id(value.get("requestId"))));
        let said = if is_good {
            Self::plain("answer", value.get("result").unwrap_or(&Value::Null))
        } else {
            let words = ["error", "message"].into_iter().filter_map(|key| string(value, key));
            let text = words.collect::<Vec<_>>().join(": ");
            Self { text: short(&text), is_bad: true, ..Self::plain("answer", &Value::Null) }
        };
        said.with(Kind::Message, role)
    }

    /// One frame of a stream of the control channel.
    fn frame(stream: &str, value: &Map<String, Value>) -> Self {
        let data = value.get("data").or_else(|| value.get("reason")).unwrap_or(&Value::Null);
        let name = data.get("kind").and_then(Value::as_str).unwrap_or(stream);
        let said = Self::plain(&format!("stream {name}"), data);
        match stream {
            "end" => {
                said.with(Kind::Message, Role::Answers(format!("command {}", id(value.get("requestId")))))
            }
            _ => said,
        }
    }

    /// A line of Galley's runner protocol.
    fn runner(name: &str, value: &Map<String, Value>) -> Self {
        let approval = || format!("approval {}", id(value.get("approvalId")));
        let (kind, role) = match name {
            "user_message" => (Kind::Turn, Role::Begins(Lasting::Turn, "run".into())),
            "run_complete" => (Kind::Turn, Role::Answers("run".into())),
            "turn_start" | "turn_end" => (Kind::Turn, Role::Nothing),
            "turn_progress" => (Kind::Text, Role::Nothing),
            "tool_call_pending" => (Kind::Permission, Role::Begins(Lasting::Permission, approval())),
            "approval_response" => (Kind::Permission, Role::Answers(approval())),
            "ask_user" => (Kind::Permission, Role::Begins(Lasting::Permission, "question".into())),
            "ask_user_response" => (Kind::Permission, Role::Answers("question".into())),
            _ => (Kind::Message, Role::Nothing),
        };
        let said = Self::plain(name, &Value::Object(value.clone()));
        Self { is_bad: name == "error", ..said.with(kind, role) }
    }
}

/// The name and the rest of a command, event or action, as it is written: a word, or an object of one member.
pub(super) fn tagged(value: &Value) -> (String, String) {
    match value {
        Value::String(tag) => (short(tag), String::new()),
        Value::Object(members) if members.len() == 1 => {
            let inner = members.iter().next().map(|(tag, body)| (short(tag), gist(body)));
            inner.unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            (String::new(), gist(value))
        }
    }
}

/// The session that something belongs to, if it says so near its surface.
pub(super) fn session(value: &Value) -> Option<String> {
    let mut level = vec![value];
    for _ in 0..DEPTH {
        let objects = level.iter().filter_map(|value| value.as_object());
        let named = objects.clone().find_map(|members| {
            let id = ["sessionId", "session_id", "session"].iter().find_map(|key| string(members, key));
            id.filter(|id| !id.is_empty())
        });
        if named.is_some() {
            return named.map(short);
        }
        level = objects.flat_map(Map::values).collect();
    }
    None
}

/// What a value says, in a line: its words where it has some, else itself.
fn gist(value: &Value) -> String {
    let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
    match words(value, DEPTH) {
        Some(words) => short(&words),
        None if is_empty => String::new(),
        None => short(&value.to_string()),
    }
}

fn words(value: &Value, depth: usize) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Array(items) => {
            let said =
                items.iter().take(MANY).filter(|_| depth > 0).filter_map(|item| words(item, depth - 1));
            Some(said.collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
        }
        Value::Object(members) => {
            WORDS.iter().find_map(|key| words(members.get(*key)?, depth.checked_sub(1)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn fault(error: &Value) -> String {
    let code = error.get("code").map(ToString::to_string).unwrap_or_default();
    short(&format!("error {code}: {}", gist(error)))
}

fn string<'a>(members: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    members.get(key)?.as_str()
}

fn id(value: Option<&Value>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// As much as a line shows, on one line.
pub(super) fn short(text: &str) -> String {
    let mut shown = String::new();
    let mut letters = text.trim().chars();
    for letter in letters.by_ref().take(LONG) {
        match letter {
            '\n' | '\r' | '\t' | ' ' if shown.ends_with(' ') => {}
            '\n' | '\r' | '\t' => shown.push(' '),
            letter => shown.push(letter),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Where words stand that tell what a message is about, the better ones first.
const WORDS: [&str; 26] = [
    "update",
    "text",
    "delta",
    "title",
    "question",
    "content",
    "prompt",
    "toolCall",
    "message",
    "stopReason",
    "finalContent",
    "output",
    "optionId",
    "outcome",
    "decision",
    "error",
    "summary",
    "toolName",
    "spawn",
    "program",
    "clientInfo",
    "agentInfo",
    "name",
    "path",
    "cwd",
    "status",
];
/// How deep a session or words are looked for.
const DEPTH: usize = 4;
/// Items of a list that are shown.
const MANY: usize = 8;
/// Characters of a text that are shown.
const LONG: usize = 240;

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    fn said(line: &str) -> Said {
        Said::new(line.as_bytes())
    }

    #[test]
    fn a_line_says_what_it_is_about() {
        for (line, kind, title, text) in [
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"fix\nit"}]}}"#,
                Kind::Turn,
                "session/prompt",
                "fix it",
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#,
                Kind::Message,
                "answer",
                "end_turn",
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"no key"}}"#,
                Kind::Message,
                "answer",
                "error -32000: no key",
            ),
            (
                r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","status":"pending"}}}"#,
                Kind::Tool,
                "tool_call",
                "ls · pending",
            ),
            (
                r#"{"kind":"turn_progress","sessionId":"s1","delta":"hel"}"#,
                Kind::Text,
                "turn_progress",
                "hel",
            ),
            (r#"{"command":"ping","requestId":"r1"}"#, Kind::Message, "ping", ""),
            (
                r#"{"ok":false,"error":"not_found","message":"no such session"}"#,
                Kind::Message,
                "answer",
                "not_found: no such session",
            ),
            ("npm warn", Kind::Message, "no message", "npm warn"),
            ("", Kind::Message, "blank line", ""),
        ] {
            let said = said(line);
            assert_eq!((said.kind, &*said.title, &*said.text), (kind, title, text), "{line}");
        }
    }

    #[test]
    fn a_session_is_found_near_the_surface() {
        let of = |text: &str| session(&serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"{"params":{"sessionId":"one"}}"#), Some("one".into()));
        assert_eq!(of(r#"{"updated":{"session":"two"}}"#), Some("two".into()));
        assert_eq!(of(r#"{"a":{"b":{"c":{"d":{"sessionId":"deep"}}}}}"#), None);
    }

    quickcheck! {
        fn c3_any_line_is_read_and_no_text_is_long(line: Vec<u8>, text: String) -> bool {
            let whole = serde_json::json!({ "method": text, "params": { "update": { "title": text } } }).to_string();
            [&*line, whole.as_bytes()].iter().all(|line| {
                let said = Said::new(line);
                said.title.chars().count() <= LONG + 1 && said.text.chars().count() <= LONG + 1
            })
        }
    }
}
