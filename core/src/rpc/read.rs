//! What a reader makes of a line, whatever the line is: the one policy of all channels that speak JSON-RPC.
//!
//! | line | frame | what becomes of the connection |
//! |---|---|---|
//! | text | as [`parse`] says | goes on |
//! | half a character in a string, as JavaScript cuts them | the same line with U+FFFD in its place | goes on |
//! | not UTF-8 | malformed, parse error | goes on |
//! | over the limit | malformed, invalid request | ends: what was lost is not known |
//! | a header before any object | malformed, parse error | ends: no line of ours will ever be read |
//!
//! A malformed line names the id where its start tells one: who asks gets an answer, and what we asked fails.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::envelope::malformed;
use super::{After, Flaw, Frame, Id, Text, code, mend, parse};
use crate::lines::Line;

/// Reads one line as a frame. `depth` bounds its nesting.
pub fn read<R>(line: Line<'_>, depth: usize, then: impl FnOnce(Frame<'_>) -> R) -> R {
    match line {
        Line::Text(text) => match mend(text) {
            None => then(parse(text, depth)),
            Some(mended) => then(with_id_of(parse(&mended, depth), text)),
        },
        Line::NotUtf8(bytes) => {
            then(Frame::Malformed(flaw_of("not UTF-8", &String::from_utf8_lossy(bytes), code::PARSE_ERROR)))
        }
        Line::TooLong(start) => {
            let flaw = flaw_of(TOO_LONG, &String::from_utf8_lossy(start), code::INVALID_REQUEST);
            then(Frame::Malformed(Flaw { after: After::End, ..flaw }))
        }
        Line::Header(_) => {
            let flaw = malformed(FRAMED, Id::null(), Some(code::PARSE_ERROR));
            then(Frame::Malformed(Flaw { after: After::End, ..flaw }))
        }
    }
}

/// An id is never mended: its owner wants it back as it was.
fn with_id_of<'a>(mended: Frame<'a>, line: &str) -> Frame<'a> {
    let mut own = None;
    each_member(line, |name, value| {
        if name == "id" {
            own = value.and_then(|token| Id::from_token(token.get()));
        }
    });
    match (mended, own) {
        (Frame::Request { method, params, .. }, Some(id)) => Frame::Request { id, method, params },
        (Frame::Response { outcome, .. }, Some(id)) => Frame::Response { id, outcome },
        (Frame::Malformed(flaw), Some(id)) if flaw.id != Id::null() => Frame::Malformed(Flaw { id, ..flaw }),
        (mended, _) => mended,
    }
}

/// A line that cannot be read whole, with what can be read of its envelope.
pub(super) fn flaw_of(why: &'static str, line: &str, code: i64) -> Flaw {
    let (mut id, mut asks, mut answers) = (None, false, false);
    each_member(line, |name, value| match name {
        "id" => id = value.and_then(|token| Id::from_token(token.get())),
        "method" | "params" => asks = true,
        "result" | "error" => answers = true,
        _ => {}
    });
    // What may be either is nobody's: an answer could be taken for one to another request.
    let id = id.filter(|_| asks || answers).unwrap_or_else(Id::null);
    malformed(why, id, (!answers).then_some(code))
}

/// Goes through the members of an object that may break off or be broken: each name, and its value unless that is
/// where it ends.
pub(crate) fn each_member(line: &str, seen: impl FnMut(&str, Option<&RawValue>)) {
    struct Members<F>(F);

    impl<'de, F: FnMut(&str, Option<&RawValue>)> Visitor<'de> for Members<F> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(Text(name)) = map.next_key()? {
                let value = map.next_value::<&RawValue>();
                self.0(&name, value.as_ref().ok().copied());
                value?;
            }
            Ok(())
        }
    }

    // What was seen before an error is what there is.
    let _ = serde_json::Deserializer::from_str(line).deserialize_map(Members(seen));
}

/// Why a line over the limit is no frame.
pub(crate) const TOO_LONG: &str = "a line over the limit";
/// Why a header is no frame.
pub(crate) const FRAMED: &str = "framed by Content-Length, not by lines";

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: Line<'_>) -> String {
        read(line, 8, |frame| match frame {
            Frame::Malformed(Flaw { why, id, answer, after }) => {
                format!("{why}; {id:?} {answer:?} {after:?}")
            }
            frame @ (Frame::Request { .. }
            | Frame::Notification { .. }
            | Frame::Response { .. }
            | Frame::Complaint(_)) => format!("{frame:?}"),
        })
    }

    #[test]
    fn a_line_that_cannot_be_read_whole_names_its_id() {
        let table: [(&[u8], &str); 8] = [
            (br#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":"aaa"#, "7 Some(-32600)"),
            (br#"{"method":"m","params":{},"id":"a","#, "\"a\" Some(-32600)"),
            (br#"{"id":7,"params":["#, "7 Some(-32600)"),
            (br#"{"id":7,"result":"aaa"#, "7 None"),
            (br#"{"id":7,"error":{}"#, "7 None"),
            // It may be either: nobody is answered by mistake.
            (br#"{"id":7,"other":"aaa"#, "null Some(-32600)"),
            (br#"{"id":[7],"method":"m","#, "null Some(-32600)"),
            (b"aaa", "null Some(-32600)"),
        ];
        for (start, expected) in table {
            assert_eq!(seen(Line::TooLong(start)), format!("{TOO_LONG}; {expected} End"));
        }
        assert_eq!(seen(Line::NotUtf8(b"{\"id\":7,\"method\":\"\xff\"}")), "not UTF-8; 7 Some(-32700) GoOn");
        assert_eq!(seen(Line::Header("Content-Length: 2")), format!("{FRAMED}; null Some(-32700) End"));
        let deep = format!(r#"{{"id":7,"method":"m","params":{}{}}}"#, "[".repeat(9), "]".repeat(9));
        assert_eq!(seen(Line::Text(&deep)), "nested too deeply; 7 Some(-32700) GoOn");
    }

    #[test]
    fn a_half_of_a_character_costs_nothing_but_itself() {
        let seen = seen(Line::Text(r#"{"method":"m","params":{"x":"\ud83c\udf89 \ud83c"}}"#));
        assert!(seen.contains(r#"{"x":"\ud83c\udf89 \ufffd"}"#), "{seen}");
        let seen = self::seen(Line::Text(r#"{"id":"\ud83c","method":"\ud83c"}"#));
        assert!(seen.contains(r#"id: "\ud83c", method: "�""#), "{seen}");
    }
}
