//! What a peer said, within a sentence of ours.

use agentline_core::excerpt;
use agentline_core::rpc::{Json, RpcError};
use serde_json::Value;

/// The peer's words on one line, cut, and without what URLs carry beside their place: query strings and user names
/// hold keys.
pub(crate) fn quote(said: &str) -> String {
    let words: Vec<String> = said.split_whitespace().map(bare).collect();
    excerpt::start(&words.join(" "), MOST).into_owned()
}

/// An error in the peer's words: its message, and what its data adds to it.
pub(crate) fn quote_error(error: &RpcError) -> String {
    let data = error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok());
    let details = data.and_then(|data| details(&data, DEPTH)).filter(|details| *details != error.message);
    match details {
        Some(details) => quote(&format!("{}: {details}", error.message)),
        None => quote(&error.message),
    }
}

/// What a value says that should explain a failure, if it says anything.
pub(crate) fn quote_details(data: &Json) -> Option<String> {
    let data = serde_json::from_str(data.get()).ok()?;
    details(&data, DEPTH).map(|text| quote(&text))
}

/// What some peers put into an error's data because its message says nothing.
fn details(data: &Value, depth: usize) -> Option<String> {
    match data {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(_) | Value::Null => None,
        Value::Array(items) => joined(items.iter().filter_map(|item| details(item, depth)), ", "),
        Value::Object(_) if depth == 0 => None,
        Value::Object(members) => joined(
            TELLING.iter().filter_map(|name| {
                let text = details(members.get(*name)?, depth - 1)?;
                Some(if *name == "supported" { format!("supported: {text}") } else { text })
            }),
            "; ",
        ),
    }
}

fn joined(parts: impl Iterator<Item = String>, between: &str) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(between))
}

/// A word without the query, the fragment and the user of the URL in it.
fn bare(word: &str) -> String {
    let Some(scheme) = word.find("://") else { return word.into() };
    let (before, rest) = word.split_at(scheme + 3);
    let place_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(place_ends);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
    // What stands behind the URL belongs to the sentence, and to no query.
    let after = query.find(['"', '\'', '<', '>', '`', ')', ']', '}', ',']).map_or("", |end| &query[end..]);
    let after = if after.contains("://") { bare(after) } else { after.to_owned() };
    format!("{before}{host}{path}{after}")
}

/// Characters of a peer that are worth repeating.
const MOST: usize = 500;
/// Objects within objects that are looked into.
const DEPTH: usize = 3;
/// The members of an error's data that were seen to say something.
const TELLING: [&str; 8] =
    ["message", "error", "details", "detail", "reason", "description", "errors", "supported"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_lose_what_may_be_a_key() {
        for (said, shown) in [
            ("see https://a.example/x?key=1#f now", "see https://a.example/x now"),
            ("https://me:pw@a.example:80/x", "https://a.example:80/x"),
            ("(https://a.example?key=1)", "(https://a.example)"),
            (
                r#"{"u":"https://a.example/?k=1","v":"https://b@c/"}"#,
                r#"{"u":"https://a.example/","v":"https://c/"}"#,
            ),
            ("a line\n  and another", "a line and another"),
            ("what? #1 a@b", "what? #1 a@b"),
        ] {
            assert_eq!(quote(said), shown);
        }
        assert_eq!(quote(&"é".repeat(9000)).chars().count(), 501);
    }

    #[test]
    fn an_error_says_what_its_data_adds() {
        let error = |data: Value| {
            let data = serde_json::value::to_raw_value(&data).unwrap();
            quote_error(&RpcError { data: Some(Json::from(&*data)), ..RpcError::new(-32000, "no") })
        };
        for (data, shown) in [
            (json!("boom"), "no: boom"),
            (json!({"details": "boom"}), "no: boom"),
            (json!({"reason": "quota", "supported": ["a", 2]}), "no: quota; supported: a, 2"),
            (json!({"errors": [{"message": "x"}, "y"]}), "no: x, y"),
            (json!({"error": {"message": "deep"}}), "no: deep"),
            (json!({"message": "no"}), "no"),
            (json!({"code": 7, "other": "unknown"}), "no"),
            (json!(null), "no"),
        ] {
            assert_eq!(error(data), shown);
        }
    }
}
