//! Request ids: whatever the peer chose comes back exactly as it was written.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The id of a request: null, a number, or a string. `1` and `"1"` differ; `1.0` is the number 1.
///
/// The JSON token is kept, so that big numbers and escapes are echoed digit by digit.
#[derive(Clone)]
pub struct Id(Box<str>);

impl Id {
    /// The id of a request that came with `"id":null`, and of errors about lines without a readable id.
    #[must_use]
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Bytes of a token. 1 KiB: room for any uuid or path, and little enough to keep a thousand of them.
    pub const LONGEST: usize = 1024;

    /// From the JSON token of an id; `None` for booleans, arrays, objects, what is longer than
    /// [`LONGEST`](Id::LONGEST), and what is no JSON.
    ///
    /// JSON-RPC advises against fractions and forbids none: a number of any kind is echoed as it was written.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Self> {
        let is_number = token.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let is_id = token == "null" || token.starts_with('"') || is_number;
        let fits = is_id && token.len() <= Self::LONGEST;
        let json: Option<&RawValue> = serde_json::from_str(token).ok().filter(|_| fits);
        json.filter(|json| json.get() == token).map(|json| Self(json.get().into()))
    }

    /// The JSON token, as it was written: `1`, `"1"` and `null` are three ids.
    #[must_use]
    pub const fn token(&self) -> &str {
        &self.0
    }

    /// The number, if it is one of ours: a non-negative integer that fits.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        whole(&self.0).parse().ok()
    }

    /// The token without the freedom of escapes and of `.0`: equal for equal ids.
    fn canonical(&self) -> Cow<'_, str> {
        if self.0.starts_with('"') && self.0.contains('\\') {
            let text: Option<String> = serde_json::from_str(&self.0).ok();
            text.map_or(Cow::Borrowed(&*self.0), |text| Cow::Owned(format!("\"{text}\"")))
        } else {
            Cow::Borrowed(whole(&self.0))
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        Self(number.to_string().into())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Id {}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Self) -> Ordering {
        self.canonical().cmp(&other.canonical())
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_token(raw.get())
            .ok_or_else(|| serde::de::Error::custom("an id is null, a number or a string of up to 1 KiB"))
    }
}

/// A number without a fraction of zeros: languages that know one kind of number write `7.0` for 7.
fn whole(token: &str) -> &str {
    match token.split_once('.') {
        Some((whole, fraction)) if !token.starts_with('"') && fraction.bytes().all(|digit| digit == b'0') => {
            whole
        }
        Some(_) | None => token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(token: &str) -> Id {
        Id::from_token(token).unwrap()
    }

    #[test]
    fn ids_are_echoed_as_they_came() {
        for token in
            ["0", "-1", "9007199254740993", "1.5", "1.0", "1e2", "\"1\"", "\"\"", r#""\u00e9""#, "null"]
        {
            assert_eq!(serde_json::to_string(&id(token)).unwrap(), token);
        }
    }

    #[test]
    fn number_and_string_differ_and_escapes_do_not() {
        assert_ne!(id("1"), id("\"1\""));
        assert_eq!(id(r#""\u00e9""#), id("\"é\""));
        assert_ne!(id("9007199254740993"), id("9007199254740992"));
        assert_eq!((id("7.0"), id("7.0").number()), (id("7"), Some(7)));
        assert_ne!(id("7.5"), id("7"));
        assert_ne!(id("\"7.0\""), id("\"7\""));
    }

    #[test]
    fn other_tokens_are_no_ids() {
        for token in ["01", "1.", "--1", "true", "[]", "{}", "-", ""] {
            assert_eq!(Id::from_token(token), None, "{token}");
        }
    }

    #[test]
    fn an_id_is_short_enough_to_be_kept() {
        let token = |n: usize| format!("\"{}\"", "x".repeat(n));
        assert!(Id::from_token(&token(Id::LONGEST - 2)).is_some());
        assert!(Id::from_token(&token(Id::LONGEST - 1)).is_none());
        assert!(Id::from_token(&"1".repeat(Id::LONGEST + 1)).is_none());
    }
}
