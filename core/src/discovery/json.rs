//! JSON files that people edit.

use serde::Deserialize;

/// Where a file stopped making sense. What stands there is not repeated: it may be a secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}")]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1; 0 is the end of the line before.
    pub column: usize,
}

impl From<&serde_json::Error> for Position {
    fn from(error: &serde_json::Error) -> Self {
        Self { line: error.line(), column: error.column() }
    }
}

/// Reads a file that is one JSON object. The byte order mark that some editors put in front is no error.
pub(super) fn object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Position> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    // Serde would take an array for an object whose fields come in order.
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(Position { line: 1, column: 1 });
    }
    serde_json::from_slice(text).map_err(|error| Position::from(&error))
}
