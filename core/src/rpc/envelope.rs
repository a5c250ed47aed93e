//! One line to one frame, whatever the line is.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::halves::mend;
use super::read::flaw_of;
use super::{Id, Json, RpcError, code};

/// A line, classified by which members it has.
#[derive(Debug)]
pub enum Frame<'a> {
    /// `method` and `id`: wants exactly one answer.
    Request {
        /// The id that the answer has to carry, as it was written.
        id: Id,
        /// The name of the method, whether it is known or not.
        method: Cow<'a, str>,
        /// The parameters, absent and null alike `None`.
        params: Option<&'a RawValue>,
    },
    /// `method` without `id`: never answered.
    Notification {
        /// The name of the method, whether it is known or not.
        method: Cow<'a, str>,
        /// The parameters, absent and null alike `None`.
        params: Option<&'a RawValue>,
    },
    /// `id` and one of `result` and `error`.
    Response {
        /// Which request it answers.
        id: Id,
        /// What came of it; a result of null is the token `null`.
        outcome: Result<&'a RawValue, RpcError>,
    },
    /// An error that names no request: about a line of ours that the peer could not read. Only logged.
    Complaint(RpcError),
    /// No valid envelope, and what can be said of it all the same.
    Malformed(Flaw),
}

/// Why a line is no frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Flaw {
    /// What is wrong, for people.
    pub why: &'static str,
    /// The id of the line; null where none could be read.
    pub id: Id,
    /// The error code to answer with. `None` for what may be a broken response: where both sides ask, an
    /// answer to it could be taken for one to the peer's own request of that id.
    pub answer: Option<i64>,
    /// What becomes of the connection.
    pub after: After,
}

/// What becomes of a connection after a line that is no frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum After {
    /// The next line may be sound.
    GoOn,
    /// It is closed: what was lost is not known, or nothing can ever be understood.
    End,
}

/// Classifies one line. Total: every line gives a frame.
///
/// `depth` bounds the nesting, since members that are passed on as they are get decoded by somebody else.
#[must_use]
pub fn parse(line: &str, depth: usize) -> Frame<'_> {
    if is_deeper(line.as_bytes(), depth) {
        return Frame::Malformed(flaw_of("nested too deeply", line, code::PARSE_ERROR));
    }
    let mut json = serde_json::Deserializer::from_str(line);
    let members = json.deserialize_any(Members).and_then(|members| json.end().map(|()| members));
    match members {
        Ok(Shape::Object(object)) => object.classify(),
        Ok(Shape::Batch) => no_frame("batches are not supported", Id::null(), Some(code::INVALID_REQUEST)),
        Ok(Shape::Other) => no_frame("not an object", Id::null(), Some(code::INVALID_REQUEST)),
        Err(error) if error.is_data() => {
            no_frame("a member is there twice", Id::null(), Some(code::INVALID_REQUEST))
        }
        Err(_) => no_frame("not JSON", Id::null(), Some(code::PARSE_ERROR)),
    }
}

fn no_frame(why: &'static str, id: Id, answer: Option<i64>) -> Frame<'static> {
    Frame::Malformed(malformed(why, id, answer))
}

pub(super) const fn malformed(why: &'static str, id: Id, answer: Option<i64>) -> Flaw {
    Flaw { why, id, answer, after: After::GoOn }
}

enum Shape<'a> {
    Object(Object<'a>),
    Batch,
    Other,
}

/// The members of an envelope. `Some` is presence: a null id is not a missing one.
#[derive(Default)]
struct Object<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> Object<'a> {
    fn classify(self) -> Frame<'a> {
        let id = self.id.map(|raw| Id::from_token(raw.get()));
        let Some(method) = self.method else { return self.response(id) };
        let invalid = |why| {
            let id = id.clone().flatten().unwrap_or_else(Id::null);
            no_frame(why, id, Some(code::INVALID_REQUEST))
        };
        if self.result.is_some() || self.error.is_some() {
            return invalid("request and response at once");
        }
        if self.jsonrpc.is_some_and(|version| version.get() != "\"2.0\"") {
            return invalid("jsonrpc is not \"2.0\"");
        }
        let Some(method) = text(method) else { return invalid("method is not a string") };
        let params = self.params.filter(|raw| raw.get() != "null");
        match id {
            None => Frame::Notification { method, params },
            Some(None) => invalid("id is neither null, a number nor a string of up to 1 KiB"),
            Some(Some(id)) => Frame::Request { id, method, params },
        }
    }

    fn response(self, id: Option<Option<Id>>) -> Frame<'a> {
        let id = id.map(|id| id.unwrap_or_else(Id::null));
        let broken = |why| no_frame(why, id.clone().unwrap_or_else(Id::null), None);
        let outcome = match (self.result, self.error) {
            (Some(result), None) => Ok(result),
            // Some peers write both, one of them null.
            (Some(result), Some(error)) if error.get() == "null" => Ok(result),
            (Some(result), Some(error)) if result.get() == "null" => Err(rpc_error(error)),
            (Some(_), Some(_)) => return broken("result and error at once"),
            (None, Some(error)) => Err(rpc_error(error)),
            (None, None) if id.is_some() => return broken("neither method nor result"),
            (None, None) => {
                return no_frame("neither method nor id", Id::null(), Some(code::INVALID_REQUEST));
            }
        };
        match (id, outcome) {
            (Some(id), outcome) if id != Id::null() => Frame::Response { id, outcome },
            (_, Err(error)) => Frame::Complaint(error),
            (_, Ok(_)) => no_frame("a result for no request", Id::null(), None),
        }
    }
}

/// An error object as far as it can be read: the peer's mistakes in it do not hide that it failed.
fn rpc_error(raw: &RawValue) -> RpcError {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| RpcError {
        code: code::INTERNAL_ERROR,
        message: "the peer sent an error that cannot be read".to_owned(),
        data: Some(Json::from(raw)),
    })
}

/// The value of a JSON string; `None` for other tokens and for half a surrogate pair.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let token = raw.get();
    match token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        Some(_) => serde_json::from_str(token).ok().map(Cow::Owned),
        None => None,
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Shape<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Object::default();
        while let Some(key) = map.next_key::<Key>()? {
            let member = match key {
                Key::Jsonrpc => &mut object.jsonrpc,
                Key::Id => &mut object.id,
                Key::Method => &mut object.method,
                Key::Params => &mut object.params,
                Key::Result => &mut object.result,
                Key::Error => &mut object.error,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            // Two readers of one line must not see two different messages.
            if member.replace(map.next_value()?).is_some() {
                return Err(A::Error::custom("a member is there twice"));
            }
        }
        Ok(Shape::Object(object))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Shape::Batch)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Shape::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Shape::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Shape::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Shape::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Shape::Other)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Shape::Other)
    }
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Other,
}

/// Whether there is nothing in a line that a decoder could stumble over that takes any JSON: neither half a character nor
/// too deep a nesting.
pub(crate) fn is_plain(line: &str, depth: usize) -> bool {
    mend(line).is_none() && !is_deeper(line.as_bytes(), depth)
}

/// Whether brackets nest deeper than `limit` anywhere outside of strings.
pub(crate) fn is_deeper(line: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    // Each level is a byte, and most lines have fewer than the limit.
    let mut rest = if line.len() > limit { line.iter() } else { [].iter() };
    while let Some(byte) = rest.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = rest.next() {
                    match byte {
                        b'\\' => {
                            rest.next();
                        }
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> String {
        match parse(line, 128) {
            Frame::Request { id, method, params } => format!("request {id:?} {method} {}", shown(params)),
            Frame::Notification { method, params } => format!("notification {method} {}", shown(params)),
            Frame::Response { id, outcome: Ok(result) } => format!("result {id:?} {result}"),
            Frame::Response { id, outcome: Err(error) } => format!("error {id:?} {error}"),
            Frame::Complaint(error) => format!("complaint {error}"),
            Frame::Malformed(Flaw { why, id, answer, .. }) => format!("malformed: {why}; {id:?} {answer:?}"),
        }
    }

    fn shown(params: Option<&RawValue>) -> &str {
        params.map_or("-", RawValue::get)
    }

    #[test]
    fn every_line_is_a_frame() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#, "request 1 m {}"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "request null m -"),
            (r#"{"jsonrpc":"2.0","id":"1","method":"m","params":null}"#, "request \"1\" m -"),
            (r#"{"method":"m","x":[1]}"#, "notification m -"),
            ("{\"\\u006dethod\":\"a\\u002fb\"}", "notification a/b -"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "result 1 null"),
            (r#"{"id":1,"result":{},"error":null}"#, "result 1 {}"),
            (r#"{"id":1,"result":null,"error":{"code":-1,"message":"x"}}"#, "error 1 x (-1)"),
            (r#"{"id":1,"error":{"code":-32601,"message":"x"}}"#, "error 1 x (-32601)"),
            (r#"{"id":1,"error":"x"}"#, "error 1 the peer sent an error that cannot be read (-32603)"),
            (r#"{"id":null,"error":{"code":-32700,"message":"x"}}"#, "complaint x (-32700)"),
            (r#"{"error":{"code":-32700,"message":"x"}}"#, "complaint x (-32700)"),
            (r#"{"id":null,"result":{}}"#, "malformed: a result for no request; null None"),
            (r#"{"id":1}"#, "malformed: neither method nor result; 1 None"),
            (r#"{"id":1,"result":1,"error":{}}"#, "malformed: result and error at once; 1 None"),
            ("{}", "malformed: neither method nor id; null Some(-32600)"),
            ("[]", "malformed: batches are not supported; null Some(-32600)"),
            (r#"[{"id":1,"method":"m"}]"#, "malformed: batches are not supported; null Some(-32600)"),
            ("42", "malformed: not an object; null Some(-32600)"),
            ("\"x\"", "malformed: not an object; null Some(-32600)"),
            ("null", "malformed: not an object; null Some(-32600)"),
            ("junk", "malformed: not JSON; null Some(-32700)"),
            (r#"{"method":"m"} x"#, "malformed: not JSON; null Some(-32700)"),
            (r#"{"method":"m","id":1,"id":2}"#, "malformed: a member is there twice; null Some(-32600)"),
            (
                r#"{"method":"m","id":true}"#,
                "malformed: id is neither null, a number nor a string of up to 1 KiB; null Some(-32600)",
            ),
            (r#"{"method":"m","id":1.5}"#, "request 1.5 m -"),
            (r#"{"method":7,"id":3}"#, "malformed: method is not a string; 3 Some(-32600)"),
            (r#"{"jsonrpc":"1.0","method":"m","id":3}"#, "malformed: jsonrpc is not \"2.0\"; 3 Some(-32600)"),
            (
                r#"{"method":"m","id":3,"result":1}"#,
                "malformed: request and response at once; 3 Some(-32600)",
            ),
        ];
        for (line, expected) in table {
            assert_eq!(seen(line), expected, "{line}");
        }
    }

    #[test]
    fn nesting_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| format!(r#"{{"method":"m","params":{}{}}}"#, "[".repeat(n), "]".repeat(n));
        assert!(seen(&nested(127)).starts_with("notification"));
        assert!(seen(&nested(128)).starts_with("malformed: nested too deeply"));
        assert!(seen(&nested(100_000)).starts_with("malformed: nested too deeply"));
        assert!(
            seen(&format!(r#"{{"method":"m","params":["{}\"["]}}"#, "[".repeat(500))).starts_with("notif")
        );
    }
}
