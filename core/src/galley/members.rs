//! The members of a line, read by name: forgiving for what a runner says, strict for what it is told.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::rpc::{Json, is_deeper, text};

/// One JSON object, its values not looked into.
#[derive(Debug)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(USUAL);
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// Borrowed from the line unless it holds an escape.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Members<'a> {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// Why it is no object.
    pub(super) fn read(line: &'a str, depth: usize) -> Result<Self, NoObject> {
        if is_deeper(line.as_bytes(), depth) {
            return Err(NoObject::TooDeep);
        }
        serde_json::from_str(line).map_err(|error| match serde_json::from_str::<&RawValue>(line) {
            Ok(value) => NoObject::Other(kind_of(value)),
            Err(_) => NoObject::NotJson(error.column()),
        })
    }

    /// A value that is there and not null. Of two with one name the later counts, as in Python.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().rev().find(|(own, _)| own == name)?;
        (value.get() != "null").then_some(*value)
    }

    /// A value where a missing or wrong one has a meaning of its own.
    pub(super) fn or_default<T: DeserializeOwned + Default>(&self, name: &str) -> T {
        self.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
    }

    /// A text; anything else is shown as it was written.
    pub(super) fn text(&self, name: &str) -> String {
        self.some_text(name).unwrap_or_default()
    }

    /// A text that may be missing; anything else is shown as it was written.
    pub(super) fn some_text(&self, name: &str) -> Option<String> {
        self.get(name).map(text_of)
    }

    /// A value as it was written; a missing one is null.
    pub(super) fn json(&self, name: &str) -> Json {
        self.get(name).unwrap_or(RawValue::NULL).into()
    }

    /// A value that has to be there and to be of that type.
    ///
    /// # Errors
    ///
    /// Names the member.
    pub(super) fn required<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        self.optional(name)?.ok_or_else(|| format!("'{name}' is missing"))
    }

    /// A value that may be missing, and has to be of that type.
    ///
    /// # Errors
    ///
    /// Names the member.
    pub(super) fn optional<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let read = |value: &RawValue| serde_json::from_str(value.get());
        self.get(name).map(read).transpose().map_err(|_| format!("'{name}' has the wrong type"))
    }

    /// The first member that is none of these.
    pub(super) fn stranger(&self, known: &[&str]) -> Option<&str> {
        self.0.iter().map(|(name, _)| &**name).find(|name| !known.contains(name))
    }
}

/// Why a line is no object.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoObject {
    /// No JSON, from that column on.
    #[error("not JSON at column {0}")]
    NotJson(usize),
    /// Nested deeper than the limit.
    #[error("nested too deep")]
    TooDeep,
    /// JSON of another kind, named.
    #[error("not an object but {0}")]
    Other(&'static str),
}

/// A JSON string's text, or any other value as it was written.
pub(super) fn text_of(value: &RawValue) -> String {
    text(value).map_or_else(|| value.get().to_owned(), Cow::into_owned)
}

fn kind_of(value: &RawValue) -> &'static str {
    match value.get().as_bytes().first() {
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) | None => "a number",
    }
}

/// Members that most lines have at most.
const USUAL: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_wrong_is_told_from_what_is_there() {
        let line = r#"{"a":1,"b":"x\n","c":null,"d":[1],"a":2}"#;
        let members = Members::read(line, 8).unwrap();
        assert_eq!(members.required::<u32>("a"), Ok(2));
        assert_eq!(members.required::<u32>("b"), Err("'b' has the wrong type".to_owned()));
        assert_eq!(members.required::<u32>("c"), Err("'c' is missing".to_owned()));
        assert_eq!(members.optional::<String>("e"), Ok(None));
        assert_eq!(
            (members.text("b"), members.text("d"), members.text("c")),
            ("x\n".into(), "[1]".into(), "".into())
        );
        assert_eq!((members.or_default::<bool>("a"), members.or_default::<u32>("a")), (false, 2));
        assert_eq!(members.stranger(&["a", "b", "c"]), Some("d"));
        assert_eq!(members.json("e").get(), "null");
    }

    #[test]
    fn a_line_that_is_no_object_says_what_it_is() {
        for (line, why) in [
            ("[1,2]", "not an object but an array"),
            ("5", "not an object but a number"),
            ("\"x\"", "not an object but a string"),
            ("nope", "not JSON at column 2"),
            (r#"{"a":1} {"b":2}"#, "not JSON at column 9"),
            (r#"{"a":[[[1]]]}"#, "nested too deep"),
        ] {
            assert_eq!(Members::read(line, 3).unwrap_err().to_string(), why, "{line}");
        }
    }
}
