//! Which errors of an agent pass by themselves, and when. Agents tell that in many ways and none that is standard: by the
//! code, by a status of HTTP in the data, by a word for it, or in a sentence.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::galley::{Hint, hint};
use crate::rpc::RpcError;

/// Why an agent could not do what it will be able to do soon.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Passing {
    /// Its model has too much to do, or we ask too often.
    Overloaded,
    /// Its model cannot be reached.
    Network,
}

impl Passing {
    /// Why, if the error is one that passes. What is wrong with an account, such as a quota that is used up, is none.
    #[must_use]
    pub fn of(error: &RpcError) -> Option<Self> {
        let facts = Facts::of(error);
        if facts.lasts {
            return None;
        }
        let by_status = std::iter::once(error.code).chain(facts.status).find_map(Self::of_status);
        by_status.or_else(|| Self::of_text(&facts.text)).or_else(|| facts.passes.then_some(Self::Overloaded))
    }

    const fn of_status(status: i64) -> Option<Self> {
        match status {
            429 | 503 | 529 => Some(Self::Overloaded),
            408 | 502 | 504 => Some(Self::Network),
            _ => None,
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match hint(&text) {
            Some(Hint::CheckLlmConfig) => None,
            _ if has(&LASTING) => None,
            Some(Hint::QuotaExceeded) => Some(Self::Overloaded),
            _ if has(&OVERLOADED) => Some(Self::Overloaded),
            Some(Hint::Network) => Some(Self::Network),
            None => has(&UNREACHED).then_some(Self::Network),
        }
    }
}

/// When it may be asked again, as far as the error says: `retryAfter` in seconds, `retryAfterMs`, a header
/// `retry-after`, or `retryDelay`.
#[must_use]
pub fn retry_after(error: &RpcError) -> Option<Duration> {
    Facts::of(error).after
}

/// What an error says, wherever in it that stands.
#[derive(Default)]
struct Facts {
    text: String,
    status: Option<i64>,
    after: Option<Duration>,
    /// It says itself that it may be tried again.
    passes: bool,
    /// It says itself that it is of no use to try again.
    lasts: bool,
}

impl Facts {
    fn of(error: &RpcError) -> Self {
        let mut facts = Self::default();
        facts.add(&error.message);
        if let Some(data) = &error.data
            && let Ok(data) = serde_json::from_str(data.get())
        {
            facts.read(&data, DEPTH);
        }
        facts
    }

    fn read(&mut self, data: &Value, depth: usize) {
        match data {
            Value::String(text) => self.add(text),
            Value::Array(items) if depth > 0 => items.iter().for_each(|item| self.read(item, depth - 1)),
            Value::Object(members) if depth > 0 => self.members(members, depth - 1),
            Value::Array(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn members(&mut self, members: &Map<String, Value>, depth: usize) {
        for (name, value) in members {
            let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            match (&*name.to_ascii_lowercase(), value) {
                ("retryable" | "isretryable", Value::Bool(passes)) => {
                    self.passes |= *passes;
                    self.lasts |= !*passes;
                }
                ("retryafter" | "retryafterseconds" | "retrydelay", value) => {
                    self.after = self.after.or_else(|| span(value, 1.0));
                }
                ("retryafterms" | "retrydelayms", value) => {
                    self.after = self.after.or_else(|| span(value, 0.001));
                }
                ("status" | "statuscode" | "httpstatus" | "code", Value::Number(status)) => {
                    self.status = self.status.or_else(|| status.as_i64());
                }
                (name, value) if TELLING.contains(&name) => self.read(value, depth),
                _ => {}
            }
        }
    }

    fn add(&mut self, text: &str) {
        let room = TEXT.saturating_sub(self.text.len());
        self.text.push_str(crate::rpc::cut(text, room));
        self.text.push('\n');
    }
}

/// A number, or a text such as `30`, `30s` or `1.5s`, in such parts of a second.
fn span(value: &Value, unit: f64) -> Option<Duration> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().trim_end_matches('s').parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    Duration::try_from_secs_f64(number? * unit).ok()
}

/// Words for a model that has too much to do.
const OVERLOADED: [&str; 7] = [
    "overloaded",
    "over capacity",
    "at capacity",
    "too many requests",
    "service unavailable",
    "temporarily unavailable",
    "high demand",
];
/// Words for one that is not reached, beside those of a [hint].
const UNREACHED: [&str; 6] =
    ["fetch failed", "socket hang up", "econn", "enotfound", "eai_again", "bad gateway"];
/// Words for what no waiting helps with.
const LASTING: [&str; 6] = ["quota", "billing", "credit", "payment", "usage limit", "context length"];
/// The members of data, in lower case and letters alone, in which more is said.
const TELLING: [&str; 14] = [
    "message",
    "error",
    "errors",
    "details",
    "detail",
    "description",
    "reason",
    "cause",
    "type",
    "kind",
    "errorkind",
    "code",
    "status",
    "headers",
];
/// Objects within objects that are looked into.
const DEPTH: usize = 4;
/// Bytes of text that are looked through.
const TEXT: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rpc::Json;

    fn error(code: i64, message: &str, data: &Value) -> RpcError {
        let data = (!data.is_null()).then(|| Json::new(data));
        RpcError { data, ..RpcError::new(code, message) }
    }

    #[test]
    fn what_passes_is_known_by_code_status_word_or_sentence_and_an_account_is_none_of_it() {
        use Passing::{Network, Overloaded};
        let none = json!(null);
        for (code, message, data, expected) in [
            (429, "Rate limit exceeded. Try again later.", &none, Some(Overloaded)),
            (-32603, "Internal error", &json!({"status": 529}), Some(Overloaded)),
            (-32603, "Internal error", &json!({"error": {"code": 503}}), Some(Overloaded)),
            (-32603, "Internal error", &json!({"errorKind": "overloaded"}), Some(Overloaded)),
            (-32603, "Internal error", &json!({"error": {"type": "overloaded_error"}}), Some(Overloaded)),
            (-32603, "API Error: 429 {\"type\":\"rate_limit_error\"}", &none, Some(Overloaded)),
            (-32603, "Internal error", &json!({"details": "fetch failed"}), Some(Network)),
            (-32603, "Internal error", &json!("connect ECONNREFUSED 127.0.0.1:443"), Some(Network)),
            (-32603, "getaddrinfo ENOTFOUND api.example.org", &none, Some(Network)),
            (-32603, "Request timed out", &none, Some(Network)),
            (502, "Bad Gateway", &none, Some(Network)),
            (-32603, "something", &json!({"retryable": true}), Some(Overloaded)),
            (429, "Too many requests", &json!({"isRetryable": false}), None),
            (-32603, "You exceeded your current quota (429)", &none, None),
            (-32603, "Your credit balance is too low", &none, None),
            (-32603, "401 Unauthorized: connection refused", &none, None),
            (-32603, "Internal error", &json!({"errorKind": "unknown"}), None),
            (500, "Internal error", &none, None),
            (-32603, "", &json!([[[[[["overloaded"]]]]]]), None),
        ] {
            assert_eq!(Passing::of(&error(code, message, data)), expected, "{code} {message} {data}");
        }
    }

    #[test]
    fn when_to_ask_again_is_read_in_each_form_and_what_is_no_time_is_none() {
        for (data, millis) in [
            (json!({"retryAfter": 3}), Some(3000)),
            (json!({"retry_after": "1.5"}), Some(1500)),
            (json!({"retryAfterMs": 250}), Some(250)),
            (json!({"retry_after_ms": "40"}), Some(40)),
            (json!({"headers": {"Retry-After": "30"}}), Some(30_000)),
            (json!({"error": {"details": [{"retryDelay": "34s"}]}}), Some(34_000)),
            (json!({"retryAfter": "Wed, 21 Oct 2026 07:28:00 GMT"}), None),
            (json!({"retryAfter": -1}), None),
            (json!({"retryAfter": 1e300}), None),
            (json!({"retryAfter": null}), None),
            (json!(7), None),
        ] {
            let after = retry_after(&error(-32603, "overloaded", &data));
            assert_eq!(after, millis.map(Duration::from_millis), "{data}");
        }
    }
}
