//! The lines of both roles: requests one way, answers the other. Reading is total.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::failure::{ErrorTag, Failure};
use crate::limits::Limits;
use crate::lines::Line;
use crate::machine::Tag;
use crate::rpc::{After, FRAMED, Json, TOO_LONG, append, append_json, each_member, is_deeper, mend, text};

/// The version of commands and results that is spoken here (Galley, `docs/ipc-protocol.md` §2, "Schema version").
pub const SCHEMA_VERSION: u32 = 1;

/// Bytes of a `requestId`: it comes back in every frame of a stream. 1 KiB: room for any uuid or path.
pub const REQUEST_ID: usize = 1024;

/// What a client asks for. `Debug` shows no arguments: variables of an agent are among them.
#[derive(Clone, Eq, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What is wanted, as a dotted name: `session.watch`.
    pub command: String,
    /// As they came. `None`: absent or null.
    pub args: Option<Json>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.args.as_ref().map_or(0, |args| args.get().len());
        write!(f, "Request({:?} with {bytes} bytes of arguments)", self.command)
    }
}

impl Request {
    /// The arguments as a type of the application's; absent ones are null.
    ///
    /// # Errors
    ///
    /// `invalid_args`: they are not what the type takes.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let args = self.args.as_ref().map_or("null", Json::get);
        serde_json::from_str(args).map_err(|error| Failure::invalid_args(error.to_string()))
    }
}

/// One line of a server: the four shapes of the wire, the same for who writes them and who reads them.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// `{"ok":true,"result":…}`: the only line of a successful answer.
    Reply(Json),
    /// `{"ok":false,"error":…,"message":…}`: the only line of a failed one.
    Fail(Failure),
    /// `{"stream":"event","data":…}`: the answer is a stream, and goes on.
    Frame(Json),
    /// `{"stream":"end","reason":…}`: the stream is over, and with it the connection.
    End(String),
}

impl Answer {
    /// An answer that says that all went well, with its result.
    #[must_use]
    pub fn reply<T: Serialize + ?Sized>(result: &T) -> Self {
        Self::Reply(Json::new(result))
    }

    /// An answer that says what kind of failure it is, and why.
    #[must_use]
    pub fn fail(tag: ErrorTag, message: impl Into<String>) -> Self {
        Self::Fail(Failure::new(tag, message))
    }

    /// One event of a stream.
    #[must_use]
    pub fn frame<T: Serialize + ?Sized>(data: &T) -> Self {
        Self::Frame(Json::new(data))
    }

    /// Bytes of what the application put in.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Reply(result) => result.get().len(),
            Self::Fail(Failure { tag, message, beside }) => {
                tag.as_str().len() + message.len() + beside.as_ref().map_or(0, |json| json.get().len())
            }
            Self::Frame(data) => data.get().len(),
            Self::End(reason) => reason.len(),
        }
    }
}

/// The line, without a `requestId`.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buf = Vec::new();
        answer(&mut buf, None, self);
        f.write_str(&String::from_utf8_lossy(&buf))
    }
}

/// The name of a request as its client wrote it: a JSON string, echoed byte for byte.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct RequestId(Json);

/// A line of a client.
#[derive(Debug)]
pub(super) struct Asked {
    /// The `requestId`, which comes back as it was.
    pub(super) id: Option<RequestId>,
    /// What is asked, or why the line is no request.
    pub(super) request: Result<Request, Failure>,
    /// What becomes of the connection.
    pub(super) after: After,
}

/// Reads a line of a client.
pub(super) fn asked(line: Line<'_>, limits: &Limits) -> Asked {
    let refused = |after, id, why: &str| Asked { id, request: Err(Failure::invalid_args(why)), after };
    let text = match line {
        Line::Text(text) => text,
        Line::NotUtf8(_) => return refused(After::GoOn, id_at_start(line), "request is not UTF-8"),
        Line::TooLong(_) => {
            let why = format!("request line longer than {} bytes", limits.line);
            return refused(After::End, id_at_start(line), &why);
        }
        Line::Header(_) => return refused(After::End, None, FRAMED),
    };
    let mended = mend(text);
    let call = |text| object::<Call<'_>>(text, limits.depth);
    // A name is never mended: its owner wants it back as it was.
    let (Some(Call { request_id, .. }), Some(call)) = (call(text), call(mended.as_deref().unwrap_or(text)))
    else {
        return refused(After::GoOn, None, MALFORMED);
    };
    match request_id.map(RequestId::of) {
        Some(None) => refused(After::GoOn, None, MALFORMED),
        id => Asked { id: id.flatten(), request: call.request(), after: After::GoOn },
    }
}

impl RequestId {
    /// `None`: no string, or a long one.
    fn of(token: &RawValue) -> Option<Self> {
        let is_id = token.get().starts_with('"') && token.get().len() <= REQUEST_ID;
        is_id.then(|| Self(Json::from(token)))
    }
}

/// The name of a request that cannot be read whole, as far as its start tells.
fn id_at_start(line: Line<'_>) -> Option<RequestId> {
    let mut id = None;
    each_member(&line.shown(), |name, value| {
        if name == "requestId" {
            id = value.and_then(RequestId::of);
        }
    });
    id
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call<'a> {
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    schema_version: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
}

impl Call<'_> {
    fn request(&self) -> Result<Request, Failure> {
        let malformed = || Failure::invalid_args(MALFORMED);
        let command = self.command.and_then(text).ok_or_else(malformed)?.into_owned();
        let version: u32 = self.schema_version.map_or(Some(SCHEMA_VERSION), read).ok_or_else(malformed)?;
        if version != SCHEMA_VERSION {
            let message = format!("schema version {version} is not supported, {SCHEMA_VERSION} is");
            return Err(Failure::new(ErrorTag::SchemaMismatch, message));
        }
        Ok(Request { command, args: self.args.map(Json::from) })
    }
}

/// Appends a request. Its tag is its `requestId`.
pub(super) fn call(buf: &mut Vec<u8>, tag: Tag, request: &Request) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Line<'a> {
        command: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        args: Option<&'a Json>,
        schema_version: u32,
        request_id: String,
    }
    let Request { command, args } = request;
    let (schema_version, request_id) = (SCHEMA_VERSION, tag.0.to_string());
    append(buf, &Line { command, args: args.as_ref(), schema_version, request_id });
}

/// Appends an answer. What is absent is left out, never null.
pub(super) fn answer(buf: &mut Vec<u8>, request_id: Option<&RequestId>, answer: &Answer) {
    let shape = match answer {
        Answer::Reply(_) => r#"{"ok":true"#,
        Answer::Fail(_) => r#"{"ok":false"#,
        Answer::Frame(_) => r#"{"stream":"event""#,
        Answer::End(_) => r#"{"stream":"end""#,
    };
    buf.extend_from_slice(shape.as_bytes());
    if let Some(RequestId(id)) = request_id {
        raw_member(buf, "requestId", id);
    }
    match answer {
        Answer::Reply(result) => raw_member(buf, "result", result),
        Answer::Fail(Failure { tag, message, beside }) => {
            member(buf, "error", tag);
            member(buf, "message", message);
            for (name, value) in beside.as_deref().map(|beside| others(beside.get())).unwrap_or_default() {
                raw_member(buf, &name, &value);
            }
        }
        Answer::Frame(data) => raw_member(buf, "data", data),
        Answer::End(reason) => member(buf, "reason", reason),
    }
    buf.push(b'}');
}

fn member<T: Serialize + ?Sized>(buf: &mut Vec<u8>, name: &str, value: &T) {
    name_of_member(buf, name);
    append(buf, value);
}

fn raw_member(buf: &mut Vec<u8>, name: &str, value: &Json) {
    name_of_member(buf, name);
    append_json(buf, value);
}

fn name_of_member(buf: &mut Vec<u8>, name: &str) {
    buf.extend_from_slice(b",\"");
    buf.extend_from_slice(name.as_bytes());
    buf.extend_from_slice(b"\":");
}

/// Who a line of a server is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum For {
    /// It does not say: whoever has waited longest.
    Oldest,
    /// The call of that tag.
    Tag(Tag),
    /// A request that was never ours.
    Stranger,
}

/// A line of a server.
#[derive(Debug)]
pub(super) enum Said {
    Answer(For, Answer),
    /// No JSON object, why, and what becomes of the connection.
    Unreadable(&'static str, String, After),
}

/// Reads a line of a server. Where the answer is a stream, or begins as one, JSON of no known shape is an event; else
/// it is a failure.
pub(super) fn said(line: Line<'_>, streaming: bool, limits: &Limits) -> Said {
    let text = match line {
        Line::Text(text) => text,
        Line::NotUtf8(_) => return Said::Unreadable("not UTF-8", line.shown().into_owned(), After::GoOn),
        Line::TooLong(_) => return Said::Unreadable(TOO_LONG, line.shown().into_owned(), After::End),
        Line::Header(header) => return Said::Unreadable(FRAMED, header.to_owned(), After::End),
    };
    let mended = mend(text);
    let text = mended.as_deref().unwrap_or(text);
    let Some(members) = object::<Answered<'_>>(text, limits.depth) else {
        // Any JSON is an event of a stream: Galley's own command line passes it through.
        let event = read_text(text).filter(|_| streaming && !is_deeper(text.as_bytes(), limits.depth));
        return event.map_or_else(
            || Said::Unreadable("not a JSON object", text.to_owned(), After::GoOn),
            |event| Said::Answer(For::Oldest, Answer::Frame(event)),
        );
    };
    let to = match members.request_id {
        None => For::Oldest,
        Some(id) => {
            read::<String>(id).and_then(|id| id.parse().ok()).map_or(For::Stranger, |tag| For::Tag(Tag(tag)))
        }
    };
    let known = members.answer().filter(|answer| !(streaming && matches!(answer, Answer::Reply(_))));
    let mut answer = known.unwrap_or_else(|| match streaming || members.stream.is_some() {
        true => Answer::Frame(read_text(text).unwrap_or_else(|| Json::new(&()))),
        false => Answer::Fail(members.failure()),
    });
    if let Answer::Fail(failure) = &mut answer {
        let others = others(text);
        failure.beside = (!others.is_empty()).then(|| Box::new(Json::new(&others)));
    }
    Said::Answer(to, answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answered<'a> {
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
}

impl Answered<'_> {
    fn answer(&self) -> Option<Answer> {
        match (self.ok.map(RawValue::get), self.stream.map(RawValue::get)) {
            (Some("true"), _) => Some(Answer::Reply(self.result.unwrap_or(RawValue::NULL).into())),
            (Some(_), _) => Some(Answer::Fail(self.failure())),
            (None, Some("\"event\"")) => Some(Answer::Frame(self.data.unwrap_or(RawValue::NULL).into())),
            (None, Some("\"end\"")) => {
                let reason = self.reason.and_then(read).unwrap_or_else(|| DEFAULT_REASON.to_owned());
                Some(Answer::End(reason))
            }
            (None, Some(_) | None) => None,
        }
    }

    fn failure(&self) -> Failure {
        let tag = self.error.and_then(read).unwrap_or(ErrorTag::Internal);
        let message = self.message.and_then(read).unwrap_or_else(|| "the server gives no reason".to_owned());
        Failure { tag, message, beside: None }
    }
}

/// The members of an object that no answer has anyway.
fn others(object: &str) -> BTreeMap<String, Json> {
    let mut all: BTreeMap<String, Json> = read_text(object).unwrap_or_default();
    all.retain(|name, _| !ENVELOPE.contains(&&**name));
    all
}

/// The members of an object. `None`: not JSON, something else, a known member twice, or too deep.
fn object<'a, T: Deserialize<'a>>(text: &'a str, depth: usize) -> Option<T> {
    let object = text.trim_ascii_start().starts_with('{') && !is_deeper(text.as_bytes(), depth);
    object.then(|| read_text(text)).flatten()
}

fn read<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    read_text(raw.get())
}

fn read_text<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// The members of an answer.
const ENVELOPE: [&str; 8] = ["ok", "requestId", "result", "error", "message", "stream", "data", "reason"];
/// What Galley itself says then: its clients may know the words.
const MALFORMED: &str = "malformed request JSON";
/// What an end without a reason means, to Galley's own command line as well.
const DEFAULT_REASON: &str = "subprocess_exited";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::rpc::to_json;

    use super::*;

    fn read(line: &str) -> String {
        match asked(Line::Text(line), &Limits::default()) {
            Asked { id, request: Ok(Request { command, args }), .. } => {
                format!("{command} {} {}", to_json(&args), to_json(&id))
            }
            Asked { id, request: Err(failure), .. } => format!("{} {}", failure.tag, to_json(&id)),
        }
    }

    #[test]
    fn every_line_of_a_client_is_a_request_or_a_refusal() {
        let table = [
            (r#"{"command":"ping"}"#, "ping null null"),
            (r#" {"requestId":"r1","args":{"a":[1]},"x":{},"command":"a.b"} "#, r#"a.b {"a":[1]} "r1""#),
            (r#"{"command":"ping","args":null,"requestId":null,"schemaVersion":1}"#, "ping null null"),
            (r#"{"command":"ping","args":7,"requestId":""}"#, r#"ping 7 """#),
            (r#"{"command":"p\u0069ng","requestId":"\u00e9\ud800"}"#, r#"ping null "\u00e9\ud800""#),
            (r#"{"command":"ping","args":{"\ud800":"\udc00"}}"#, r#"ping {"\ufffd":"\ufffd"} null"#),
            (r#"{"command":"no","schemaVersion":99,"requestId":"r4"}"#, r#"schema_mismatch "r4""#),
            (r#"{"command":"no","schemaVersion":0}"#, "schema_mismatch null"),
            (r#"{"command":"no","schemaVersion":"1","requestId":"r5"}"#, r#"invalid_args "r5""#),
            (r#"{"requestId":"r3"}"#, r#"invalid_args "r3""#),
            (r#"{"command":7,"requestId":"r3"}"#, r#"invalid_args "r3""#),
            (r#"{"command":"\ud800"}"#, "� null null"),
            (r#"{"command":"ping","requestId":1}"#, "invalid_args null"),
            (r#"{"command":"ping","command":"stop","requestId":"r"}"#, "invalid_args null"),
            (r#"{"command":"ping"} x"#, "invalid_args null"),
            (r#"["ping",null,1,"r"]"#, "invalid_args null"),
            ("[]", "invalid_args null"),
            ("{}", "invalid_args null"),
            ("\"ping\"", "invalid_args null"),
            ("ping", "invalid_args null"),
            ("\0\0\0", "invalid_args null"),
        ];
        for (line, expected) in table {
            assert_eq!(read(line), expected, "{line}");
        }
        let deep = |n: usize| format!(r#"{{"command":"a","args":{}{}}}"#, "[".repeat(n), "]".repeat(n));
        assert!(read(&deep(127)).starts_with("a "));
        assert_eq!(read(&deep(128)), "invalid_args null");
        assert_eq!(read(&deep(100_000)), "invalid_args null");
        let long = |n: usize| format!(r#"{{"command":"a","requestId":"{}"}}"#, "x".repeat(n));
        assert!(read(&long(REQUEST_ID - 2)).starts_with("a "));
        assert_eq!(read(&long(REQUEST_ID - 1)), "invalid_args null");
    }

    fn written(id: Option<&str>, shape: &Answer) -> String {
        let id = id.map(|id| RequestId(Json::new(id)));
        let mut buf = Vec::new();
        answer(&mut buf, id.as_ref(), shape);
        String::from_utf8(buf).unwrap()
    }

    #[test]
    fn the_bytes_of_every_answer() {
        let shapes = [
            (
                Answer::reply(&json!({"pong": true})),
                r#"{"ok":true,"result":{"pong":true}}"#,
                r#"{"ok":true,"requestId":"r1","result":{"pong":true}}"#,
            ),
            (
                Answer::reply(&()),
                r#"{"ok":true,"result":null}"#,
                r#"{"ok":true,"requestId":"r1","result":null}"#,
            ),
            (
                Answer::fail(ErrorTag::NotFound, "session 'xyz' does not exist"),
                r#"{"ok":false,"error":"not_found","message":"session 'xyz' does not exist"}"#,
                r#"{"ok":false,"requestId":"r1","error":"not_found","message":"session 'xyz' does not exist"}"#,
            ),
            (
                Answer::Fail(
                    Failure::new(ErrorTag::AlreadyAnswered, "late")
                        .beside(&json!({"ok": 7, "by": "client\n"})),
                ),
                r#"{"ok":false,"error":"already_answered","message":"late","by":"client\n"}"#,
                r#"{"ok":false,"requestId":"r1","error":"already_answered","message":"late","by":"client\n"}"#,
            ),
            (
                Answer::frame(&json!({"kind": "turn_start"})),
                r#"{"stream":"event","data":{"kind":"turn_start"}}"#,
                r#"{"stream":"event","requestId":"r1","data":{"kind":"turn_start"}}"#,
            ),
            (
                Answer::End("subprocess_exited".to_owned()),
                r#"{"stream":"end","reason":"subprocess_exited"}"#,
                r#"{"stream":"end","requestId":"r1","reason":"subprocess_exited"}"#,
            ),
        ];
        for (shape, without, with) in shapes {
            assert_eq!(written(None, &shape), without);
            assert_eq!(written(Some("r1"), &shape), with);
        }
        let pretty = Answer::Reply(serde_json::from_str("{\n  \"a\": \"\u{2028}\"\n}").unwrap());
        assert_eq!(written(None, &pretty), r#"{"ok":true,"result":{   "a": "\u2028" }}"#);
    }

    #[test]
    fn the_bytes_of_a_request() {
        let line = |request: &Request| {
            let mut buf = Vec::new();
            call(&mut buf, Tag(7), request);
            String::from_utf8(buf).unwrap()
        };
        let request = Request { command: "sessions.list".to_owned(), args: Some(Json::new(&json!({}))) };
        assert_eq!(
            line(&request),
            r#"{"command":"sessions.list","args":{},"schemaVersion":1,"requestId":"7"}"#
        );
        let request = Request { command: "ping".to_owned(), args: None };
        assert_eq!(line(&request), r#"{"command":"ping","schemaVersion":1,"requestId":"7"}"#);
    }

    fn heard(line: &str, streaming: bool) -> String {
        match said(Line::Text(line), streaming, &Limits::default()) {
            Said::Answer(to, answer) => format!("{to:?} {answer}"),
            Said::Unreadable(why, line, _) => format!("{why}: {line}"),
        }
    }

    #[test]
    fn every_line_of_a_server_is_an_answer_or_unreadable() {
        let table = [
            (
                r#"{"ok":true,"requestId":"7","result":{"a":1},"x":2}"#,
                r#"Tag(Tag(7)) {"ok":true,"result":{"a":1}}"#,
            ),
            (r#"{"ok":true}"#, r#"Oldest {"ok":true,"result":null}"#),
            (r#"{"ok":true,"requestId":"uuid"}"#, r#"Stranger {"ok":true,"result":null}"#),
            (r#"{"ok":true,"requestId":7}"#, r#"Stranger {"ok":true,"result":null}"#),
            (
                r#"{"ok":false,"error":"new_tag","message":"m"}"#,
                r#"Oldest {"ok":false,"error":"new_tag","message":"m"}"#,
            ),
            (
                r#"{"by":"client","ok":false,"error":"already_answered","message":"m","optionId":"o"}"#,
                r#"Oldest {"ok":false,"error":"already_answered","message":"m","by":"client","optionId":"o"}"#,
            ),
            (
                r#"{"ok":1,"result":{}}"#,
                r#"Oldest {"ok":false,"error":"internal","message":"the server gives no reason"}"#,
            ),
            (
                r#"{"error":"not_found","message":"m"}"#,
                r#"Oldest {"ok":false,"error":"not_found","message":"m"}"#,
            ),
            (
                r#"{"error":{"code":1},"message":"m"}"#,
                r#"Oldest {"ok":false,"error":"internal","message":"m"}"#,
            ),
            (r#"{"stream":"event","data":{"kind":"x"}}"#, r#"Oldest {"stream":"event","data":{"kind":"x"}}"#),
            (
                r#"{"stream":"snapshot","data":1}"#,
                r#"Oldest {"stream":"event","data":{"stream":"snapshot","data":1}}"#,
            ),
            (r#"{"stream":"event"}"#, r#"Oldest {"stream":"event","data":null}"#),
            (r#"{"stream":"end"}"#, r#"Oldest {"stream":"end","reason":"subprocess_exited"}"#),
            (r#"{"stream":"end","reason":"closed"}"#, r#"Oldest {"stream":"end","reason":"closed"}"#),
            ("[1]", "not a JSON object: [1]"),
            ("oops", "not a JSON object: oops"),
        ];
        for (line, expected) in table {
            assert_eq!(heard(line, false), expected, "{line}");
        }
        assert_eq!(
            heard(r#"{"ok":true,"result":2}"#, true),
            r#"Oldest {"stream":"event","data":{"ok":true,"result":2}}"#
        );
        assert_eq!(heard("[2]", true), r#"Oldest {"stream":"event","data":[2]}"#);
        assert_eq!(
            heard(r#"{"kind":"future"}"#, true),
            r#"Oldest {"stream":"event","data":{"kind":"future"}}"#
        );
    }
}
