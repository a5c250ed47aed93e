//! Envelopes as bytes: compact JSON that stays on one line for every reader.

use std::io::{self, Write};

use memchr::{memchr_iter, memchr2};
use serde::Serialize;
use serde_json::ser::Formatter;

use super::{Id, Json, RpcError};

/// Appends a request as one line without its end.
pub fn request<P: Serialize + ?Sized>(buf: &mut Vec<u8>, number: u64, method: &str, params: &P) {
    append(buf, &Request { jsonrpc: VERSION, id: number, method, params });
}

/// Appends a notification as one line without its end.
pub fn notification<P: Serialize + ?Sized>(buf: &mut Vec<u8>, method: &str, params: &P) {
    append(buf, &Notification { jsonrpc: VERSION, method, params });
}

/// Appends a successful response.
pub fn reply<R: Serialize + ?Sized>(buf: &mut Vec<u8>, id: &Id, result: &R) {
    append(buf, &Success { jsonrpc: VERSION, id, result });
}

/// Appends an error response.
pub fn reply_error(buf: &mut Vec<u8>, id: &Id, error: &RpcError) {
    append(buf, &Failure { jsonrpc: VERSION, id, error });
}

/// A value as JSON on one line, with U+2028 and U+2029 escaped.
#[must_use]
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut buf = Vec::new();
    append(&mut buf, value);
    String::from_utf8(buf).unwrap_or_default()
}

const VERSION: &str = "2.0";

#[derive(Serialize)]
struct Request<'a, P: ?Sized> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Notification<'a, P: ?Sized> {
    jsonrpc: &'static str,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Success<'a, R: ?Sized> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: &'a R,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    error: &'a RpcError,
}

/// Appends a value; one that cannot be JSON leaves nothing behind but `null`, so that the line stays a line.
pub(crate) fn append<T: Serialize + ?Sized>(buf: &mut Vec<u8>, value: &T) {
    let start = buf.len();
    if value.serialize(&mut serde_json::Serializer::with_formatter(&mut *buf, OneLine)).is_err() {
        buf.truncate(start);
        buf.extend_from_slice(b"null");
    }
    escape_separators(buf, start);
}

/// Appends what is JSON already.
pub(crate) fn append_json(buf: &mut Vec<u8>, json: &Json) {
    let start = buf.len();
    // A buffer takes everything.
    let _ = on_one_line(buf, json.get());
    escape_separators(buf, start);
}

struct OneLine;

impl Formatter for OneLine {
    fn write_raw_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        on_one_line(writer, fragment)
    }
}

/// Raw JSON of an application may be laid out over several lines; inside strings there can be no line end.
fn on_one_line<W: Write + ?Sized>(writer: &mut W, json: &str) -> io::Result<()> {
    let mut rest = json.as_bytes();
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        let (before, end) = rest.split_at(at);
        writer.write_all(before)?;
        writer.write_all(b" ")?;
        rest = end.get(1..).unwrap_or_default();
    }
    writer.write_all(rest)
}

/// Some readers take U+2028 and U+2029 for line ends. In JSON they can only be inside a string.
fn escape_separators(buf: &mut Vec<u8>, start: usize) {
    let Some((at, _)) = separator(buf.get(start..).unwrap_or_default()) else { return };
    let tail = buf.split_off(start + at);
    let mut rest = tail.as_slice();
    while let Some((at, escape)) = separator(rest) {
        let (before, found) = rest.split_at(at);
        buf.extend_from_slice(before);
        buf.extend_from_slice(escape);
        rest = found.get(3..).unwrap_or_default();
    }
    buf.extend_from_slice(rest);
}

/// The first of them, and what is written instead of it.
fn separator(text: &[u8]) -> Option<(usize, &'static [u8])> {
    memchr_iter(0xE2, text).find_map(|at| match text.get(at + 1..)? {
        [0x80, 0xA8, ..] => Some((at, b"\\u2028".as_slice())),
        [0x80, 0xA9, ..] => Some((at, b"\\u2029".as_slice())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[test]
    fn a_line_stays_one_line() {
        for text in ["a\nb\r", "\u{2028}x\u{2029}", "中\u{2028}", "—“”\u{2027}\u{202a}", "\u{85}\u{7f}\0", ""]
        {
            let json = to_json(text);
            assert!(!json.contains(['\n', '\r', '\u{2028}', '\u{2029}']), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
        let raw = RawValue::from_string("{\n \"a\":\r\n \"\u{2028}\"}".into()).unwrap();
        assert_eq!(to_json(&raw), "{  \"a\":   \"\\u2028\"}");
        let mut buf = Vec::new();
        append_json(&mut buf, &Json::from(&*raw));
        assert_eq!(buf, to_json(&raw).into_bytes());
    }

    #[test]
    fn envelopes() {
        let mut buf = Vec::new();
        request(&mut buf, 7, "a/b", &serde_json::json!({}));
        assert_eq!(buf, br#"{"jsonrpc":"2.0","id":7,"method":"a/b","params":{}}"#);
        buf.clear();
        reply_error(&mut buf, &Id::null(), &RpcError::new(-32600, "no"));
        assert_eq!(buf, br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#);
        buf.clear();
        notification(&mut buf, "n", &[1]);
        reply(&mut buf, &Id::from(1), &());
        assert_eq!(
            buf,
            br#"{"jsonrpc":"2.0","method":"n","params":[1]}{"jsonrpc":"2.0","id":1,"result":null}"#
        );
    }
}
