//! JSON-RPC 2.0 over lines: a total parse, ids, both directions. Knows no method name.
//!
//! Every line becomes a [`Frame`]; nothing that a peer writes is an error of ours. What is no valid envelope
//! keeps the reason and, where it could be read, the id, so that a reply can name it.

mod envelope;
mod halves;
mod id;
mod json;
mod pending;
mod read;
mod write;

pub use envelope::{After, Flaw, Frame, parse};
pub(crate) use envelope::{is_deeper, is_plain, text};
pub(crate) use halves::{Halves, join, mend};
pub use id::Id;
pub use json::Json;
pub(crate) use json::{Text, or_default};
pub use pending::Pending;
pub use read::read;
pub(crate) use read::{FRAMED, TOO_LONG, each_member};
pub(crate) use write::{append, append_json};
pub use write::{notification, reply, reply_error, request, to_json};

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::excerpt;

/// The error of a JSON-RPC response.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// What kind of failure, see the constants of [`code`].
    pub code: i64,
    /// The reason, for people.
    #[serde(default, deserialize_with = "or_default")]
    pub message: String,
    /// More, as the peer wrote it. May hold secrets: not for logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The method is unknown or was not offered.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method not found: {}", shown(method)))
    }

    /// The parameters are not what the method takes. The reason is cut to 200 characters: it may repeat the
    /// peer's text.
    #[must_use]
    pub fn invalid_params(why: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, shown(&why.into()))
    }
}

/// The start of a text, as many whole characters as fit into so many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes.min(text.len()))).unwrap_or_default()
}

/// The start of a text of the peer's: an answer is not as long as what it answers.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    excerpt::start(text, SHOWN)
}

/// Characters of a peer's text that an error repeats.
const SHOWN: usize = 200;

/// The error codes of JSON-RPC 2.0 and of the Agent Client Protocol.
pub mod code {
    /// The line is no JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is no valid request, or the request came at the wrong moment.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Unknown or unsupported method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters of a known method cannot be taken.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Anything that has no code of its own.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The agent wants a login first.
    pub const AUTH_REQUIRED: i64 = -32000;
    /// No such file or session.
    pub const NOT_FOUND: i64 = -32002;
    /// The request was cancelled.
    pub const CANCELLED: i64 = -32800;
}
