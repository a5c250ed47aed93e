//! The lines that come by the million: a text chunk, decoded in one pass, and the envelope of any other update.
//!
//! Anything that is not exactly of that shape is a surprise and takes the total path, which must come to the same
//! result (tested as a property).

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::lenient::{Object, object};
use super::update::Speaker;
use crate::rpc::{self, Text};

/// Made once: to make one takes as long as to look through a line.
static CHUNK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("_chunk\""));
static UPDATE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"session/update\""));

/// A text chunk, borrowed from its line as far as it holds no escapes.
pub(super) struct TextChunk<'a> {
    pub(super) session: Cow<'a, str>,
    pub(super) speaker: Speaker,
    pub(super) text: Cow<'a, str>,
    pub(super) message: Option<Cow<'a, str>>,
}

/// Decodes a line that is a text chunk and nothing more; `None` for every other line.
pub(super) fn text_chunk(line: &str) -> Option<TextChunk<'_>> {
    // Cheaper than an attempt that fails half way.
    CHUNK.find(line.as_bytes())?;
    let Line { params: Object(Params { session_id, update: Object(update) }), .. } =
        object::<Line<Params<'_, Object<Update<'_>>>>>(line).ok()?;
    let Object(content) = update.content;
    Some(TextChunk {
        session: session_id.0,
        speaker: update.session_update.0,
        text: content.text.0,
        message: update.message_id.map(|id| id.0),
    })
}

/// An update that is not decoded yet, and its session.
pub(super) fn update(line: &str, depth: usize) -> Option<(Cow<'_, str>, &RawValue)> {
    UPDATE.find(line.as_bytes())?;
    if !rpc::is_plain(line, depth) {
        return None;
    }
    let Line { params: Object(Params { session_id, update }), .. } =
        object::<Line<Params<'_, &RawValue>>>(line).ok()?;
    Some((session_id.0, update))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<U> {
    #[serde(rename = "jsonrpc")]
    _jsonrpc: Version,
    #[serde(rename = "method")]
    _method: Method,
    params: Object<U>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Params<'a, U> {
    #[serde(borrow)]
    session_id: Text<'a>,
    update: U,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Update<'a> {
    session_update: Kind,
    #[serde(borrow)]
    content: Object<Content<'a>>,
    #[serde(borrow, default)]
    message_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<'a> {
    #[serde(rename = "type")]
    _type: TypeText,
    #[serde(borrow)]
    text: Text<'a>,
}

/// A string that must be one of a few words, looked at without a copy.
fn word<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    known: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    struct Word<F>(F);

    impl<T, F: FnOnce(&str) -> Option<T>> Visitor<'_> for Word<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the usual word")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).ok_or_else(|| E::custom("another word"))
        }
    }

    deserializer.deserialize_str(Word(known))
}

struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, |text| (text == "2.0").then_some(Self))
    }
}

struct Method;

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, |text| (text == "session/update").then_some(Self))
    }
}

struct TypeText;

impl<'de> Deserialize<'de> for TypeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, |text| (text == "text").then_some(Self))
    }
}

struct Kind(Speaker);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, |text| Speaker::from_tag(text).map(Self))
    }
}
