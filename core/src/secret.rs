//! Values that must not be seen in a log, an error or a trace.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands for a secret wherever one would be shown.
pub const PLACEHOLDER: &str = "‹secret›";

/// A value that shows itself to nobody who does not ask by name.
///
/// `Debug` and `Serialize` give a placeholder; comparison takes the same time wherever two values differ.
#[derive(Clone, Default)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// A value that is shown nowhere from here on.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. Never log it.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Bytes> Secret<T> {
    /// Whether the value is exactly these bytes, in time that depends on the length of `offered` only.
    #[must_use]
    pub fn matches(&self, offered: &[u8]) -> bool {
        let held = self.0.bytes();
        let mut differ = u8::from(held.len() != offered.len());
        for (at, byte) in offered.iter().enumerate() {
            differ |= byte ^ held.get(at).copied().unwrap_or(!byte);
        }
        std::hint::black_box(differ) == 0
    }
}

/// What a secret can be made of.
pub trait Bytes {
    /// The bytes that a trace has to look for.
    fn bytes(&self) -> &[u8];
}

impl Bytes for String {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Bytes for OsString {
    fn bytes(&self) -> &[u8] {
        self.as_encoded_bytes()
    }
}

impl Bytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl<T: Bytes> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.0.bytes())
    }
}

impl<T: Bytes> Eq for Secret<T> {}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PLACEHOLDER)
    }
}

impl<T> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(PLACEHOLDER)
    }
}

/// From text; from a trace it is the placeholder.
impl<'de, T: From<String>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "‹secret› Some(‹secret›)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"‹secret›\"");
    }

    #[test]
    fn it_matches_itself_only() {
        let secret = Secret::new("token".to_owned());
        assert!(secret.matches(b"token"));
        for wrong in ["", "t", "toke", "tokem", "tokens", "Token"] {
            assert!(!secret.matches(wrong.as_bytes()), "{wrong}");
        }
        assert!(Secret::new(String::new()).matches(b""));
    }
}
