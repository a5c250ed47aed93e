//! What is asked of whoever has the files, and what an agent is told of how that went.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::acp::{Json, RequestKey, SessionId};
use crate::rpc::{RpcError, code, shown};

/// A file to be read or written for an agent, by whoever drives the machine.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileWanted {
    /// Names it in the answer.
    pub request: RequestKey,
    /// The session that it is for.
    pub session: SessionId,
    /// The folders of the workspace. What is not in them, with all links followed, is neither read nor written.
    pub roots: Vec<String>,
    /// Absolute, as the agent wrote it.
    pub path: String,
    /// What is wanted.
    pub access: Access,
    /// Bytes of the longest file that is read.
    pub limit: usize,
}

/// What is done with a file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// All of it is read.
    Read,
    /// It will hold this. A missing one is made, with its folders.
    Write(String),
}

/// Why a file was not read or written. To be read after its path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileError {
    /// There is none.
    #[error("is not there")]
    Missing,
    /// It is not in the workspace, or what it is a link to is not.
    #[error("is outside of the workspace")]
    Outside,
    /// A folder is there.
    #[error("is a folder")]
    Folder,
    /// A pipe, a socket or a device is there, or part of the path is a file.
    #[error("is no regular file")]
    Special,
    /// It has more bytes than that.
    #[error("is longer than {} MiB", .0 >> 20)]
    TooLong(usize),
    /// Its bytes are no text.
    #[error("is not UTF-8 text")]
    NotText,
    /// We may not.
    #[error("may not be used: permission denied")]
    Denied,
    /// Anything else the system says, by its error number.
    #[error("cannot be used: system error {0}")]
    System(i32),
}

impl FileError {
    /// The answer to the agent.
    pub(super) fn answer(self, path: &str) -> RpcError {
        let code = match self {
            Self::Missing => code::NOT_FOUND,
            Self::Outside | Self::Folder | Self::Special => code::INVALID_PARAMS,
            Self::TooLong(_) | Self::NotText | Self::Denied | Self::System(_) => code::INTERNAL_ERROR,
        };
        let data = (self == Self::Missing).then(|| Json::new(&json!({ "uri": shown(path) })));
        RpcError { data, ..RpcError::new(code, format!("{} {self}", shown(path))) }
    }
}

/// So many lines of a text, from that line on, counted from 1.
pub(super) fn lines(text: &str, line: Option<u32>, limit: Option<u32>) -> &str {
    let after = |text: &str, lines: Option<u32>| {
        let lines = lines.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX);
        let end = |count: usize| memchr::memchr_iter(b'\n', text.as_bytes()).nth(count);
        lines.checked_sub(1).map_or(0, |last| end(last).map_or(text.len(), |at| at + 1))
    };
    let from = after(text, Some(line.unwrap_or(1).saturating_sub(1)));
    let rest = text.get(from..).unwrap_or_default();
    rest.get(..after(rest, limit)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one_and_keep_their_ends() {
        let text = "a\nb\r\n中\nd";
        for (line, limit, part) in [
            (None, None, text),
            (Some(0), None, text),
            (Some(1), Some(1), "a\n"),
            (Some(2), Some(2), "b\r\n中\n"),
            (Some(4), Some(9), "d"),
            (Some(5), None, ""),
            (Some(u32::MAX), Some(u32::MAX), ""),
            (None, Some(0), ""),
            (None, Some(2), "a\nb\r\n"),
        ] {
            assert_eq!(lines(text, line, limit), part, "{line:?} {limit:?}");
        }
    }
}
