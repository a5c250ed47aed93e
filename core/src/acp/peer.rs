//! What both roles say about the peer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::lenient::{explain, object};
use super::{Json, SessionId};
use crate::lines::Line;
use crate::machine::{Refused, Tag};
use crate::rpc::{After, Flaw, Id, RpcError, TOO_LONG, shown};

/// Names a request of the peer until it is answered or withdrawn.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestKey(pub(crate) u64);

/// A notification that is passed on as it is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Notified {
    /// The name of the method, as the peer wrote it.
    pub method: String,
    /// Its parameters, as written.
    pub params: Option<Json>,
}

/// A peculiarity of the peer: worth knowing, needs no reaction.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// A line is no message.
    BadLine {
        /// What is wrong with it.
        why: &'static str,
        /// Its first characters, fit to be shown.
        start: String,
    },
    /// A message of a known kind has parameters that cannot be read.
    BadParams {
        /// The name of the method, as the peer wrote it.
        method: String,
        /// What is wrong with them.
        why: String,
    },
    /// An answer to nothing that is open: late, made up, or with an id of another type.
    Orphan {
        /// The id as written, at most 200 characters.
        id: String,
        /// Requests of ours that wait for an answer, the oldest four: what the id could have been.
        open: Vec<u64>,
    },
    /// An error that names no request: the peer could not read a line of ours, or says so.
    Complaint {
        /// What the peer complains of.
        error: RpcError,
        /// Requests of ours that wait for an answer, the oldest four: one of them may be meant.
        open: Vec<u64>,
    },
    /// A turn that was given up has ended after all.
    LateEnd {
        /// The session whose turn it was.
        session: SessionId,
        /// The tag that its prompt had.
        tag: Tag,
    },
    /// A session that nobody used made room for another. It can be opened again.
    Forgotten(SessionId),
    /// An update of a session that nobody opened.
    UnknownSession(SessionId),
}

/// What a peer did that ends the connection.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// It speaks another protocol.
    #[error("it does not speak ACP over lines: {0}")]
    NotAcp(String),
    /// It sends back what it is sent.
    #[error("it sends back what it is sent")]
    Echo,
    /// It wants another version. The JSON as written, at most 200 characters: the string `"1"` is not the number 1.
    #[error("it speaks version {0} of the protocol, not {PROTOCOL}", PROTOCOL = super::session::PROTOCOL_VERSION)]
    WrongVersion(String),
    /// It refused the handshake.
    #[error("it refused the handshake: {0}")]
    Refused(RpcError),
    /// Its answer to the handshake makes no sense.
    #[error("its answer to the handshake cannot be read: {0}")]
    Unreadable(String),
    /// It did not answer the handshake in time.
    #[error("it did not answer the handshake within {after:?}")]
    TimedOut {
        /// What the clock of the handshake stood at.
        after: Duration,
    },
    /// It wrote a line over the limit.
    #[error("it wrote a line over the limit")]
    LineTooLong,
    /// It reads so slowly that too much is waiting for it.
    #[error("it does not read what it is sent")]
    NotReading,
}

impl Notice {
    /// Which one, in a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::BadLine { .. } => "bad_line",
            Self::BadParams { .. } => "bad_params",
            Self::Orphan { .. } => "orphan",
            Self::LateEnd { .. } => "late_end",
            Self::Forgotten(_) => "forgotten",
            Self::Complaint { .. } => "complaint",
            Self::UnknownSession(_) => "unknown_session",
        }
    }

    pub(crate) fn orphan(id: &Id, open: Vec<u64>) -> Self {
        Self::Orphan { id: shown(id.token()).into_owned(), open }
    }

    pub(crate) fn bad_line(why: &'static str, line: Line<'_>) -> Self {
        Self::BadLine { why, start: shown(&line.shown()).into_owned() }
    }
}

impl Fault {
    /// Whether a line that is no frame ends the connection.
    pub(super) fn of_flaw(flaw: &Flaw) -> Option<Self> {
        match flaw.after {
            After::GoOn => None,
            After::End if flaw.why == TOO_LONG => Some(Self::LineTooLong),
            After::End => Some(Self::NotAcp(flaw.why.to_owned())),
        }
    }
}

/// Bytes of an id of the peer's that is kept: a session, a message, a login. The longest that was seen has 4 KiB.
pub(super) const LONGEST_ID: usize = 8 << 10;

/// Absent parameters are empty ones.
pub(crate) fn decode<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, RpcError> {
    object(params.map_or("{}", RawValue::get)).map_err(|error| RpcError::invalid_params(explain(&error)))
}

/// Whether a method and its parameters may be sent beside the protocol.
pub(super) fn is_extension(method: &str, params: &Json) -> Result<(), Refused> {
    if !method.starts_with('_') {
        return Err(Refused::Invalid("a method of an extension begins with _"));
    }
    if !params.is_object() {
        return Err(Refused::Invalid("parameters are an object"));
    }
    Ok(())
}
