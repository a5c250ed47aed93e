//! What a runner tells people about an error, a call and a result: pure functions of its text.

use serde::Serialize;

use super::event::{Category, Hint, Risk, Severity, Trouble, Visibility};
use super::members::Members;
use crate::acp::update::Diff;
use crate::rpc::Json;

/// Tools that need an approval unless a rule allows them.
pub const GATED: [&str; 4] = ["code_run", "file_write", "file_patch", "start_long_term_update"];

/// The tool that no rule for every project may allow: it changes what the agent is.
pub const NEVER_EVERYWHERE: &str = "start_long_term_update";

/// Characters of an error's message.
const MESSAGE: usize = 200;
/// Characters of a call's preview.
const ARGS: usize = 200;
/// Characters of a result's preview.
const RESULT: usize = 500;

/// What a runner cannot do, or does not understand, in answer to a command.
pub(super) fn refusal(category: Category, message: &str, context: Option<&str>) -> Trouble {
    Trouble {
        message: cut(message, MESSAGE),
        category,
        severity: Severity::Error,
        retryable: false,
        hint: None,
        context: context.map(str::to_owned),
        traceback: None,
        visibility: Visibility::Visible,
    }
}

/// An error of the model or of a tool, with what the user may do about it.
#[must_use]
pub fn runtime_error(message: &str, context: &str, traceback: Option<String>) -> Trouble {
    let hint = hint(message);
    Trouble {
        category: Category::Runtime,
        retryable: true,
        hint,
        traceback,
        ..refusal(Category::Runtime, message, Some(context))
    }
}

/// What to look at after an error of the model, from its words: the first group that has one of them counts.
#[must_use]
pub fn hint(message: &str) -> Option<Hint> {
    let message = message.to_lowercase();
    let groups: [(Hint, &[&str]); 3] = [
        (
            Hint::CheckLlmConfig,
            &["401", "403", "api_key", "api key", "apikey", "unauthorized", "authentication", "forbidden"],
        ),
        (Hint::QuotaExceeded, &["429", "quota", "rate limit", "rate_limit"]),
        (
            Hint::Network,
            &["timeout", "timed out", "dns", "refused", "reset", "unreachable", "network", "connection"],
        ),
    ];
    groups
        .into_iter()
        .find(|(_, words)| words.iter().any(|word| message.contains(word)))
        .map(|(hint, _)| hint)
}

/// What a call would change, for whoever has to approve it: a `file_patch` says so in its arguments.
#[must_use]
pub fn diff(tool: &str, args: &Json) -> Option<Diff> {
    if tool != "file_patch" {
        return None;
    }
    let members = Members::read(args.get(), 128).ok()?;
    Some(Diff {
        path: members.required("path").ok()?,
        old_text: members.optional("old_content").ok()?,
        new_text: members.required("new_content").ok()?,
        meta: None,
    })
}

/// How much may go wrong with a tool.
#[must_use]
pub fn risk(tool: &str) -> Risk {
    match tool {
        "code_run" | "start_long_term_update" => Risk::High,
        _ => Risk::Medium,
    }
}

/// A call's arguments for people: their JSON, up to 200 characters.
#[must_use]
pub fn args_preview<T: Serialize + ?Sized>(args: &T) -> String {
    cut(&crate::rpc::to_json(args), ARGS)
}

/// A result for people, up to 500 characters.
#[must_use]
pub fn result_preview(result: &str) -> String {
    cut(result, RESULT)
}

/// A text of up to `most` characters; one that is longer ends in dots.
fn cut(text: &str, most: usize) -> String {
    if text.char_indices().nth(most).is_none() {
        return text.to_owned();
    }
    let dots = "...";
    text.chars().take(most.saturating_sub(dots.len())).chain(dots.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_of_words_is_the_hint() {
        for (message, expected) in [
            ("Authentication failed: invalid api_key", Some(Hint::CheckLlmConfig)),
            ("HTTP 401 after timeout", Some(Hint::CheckLlmConfig)),
            ("HTTP 429: Quota exceeded", Some(Hint::QuotaExceeded)),
            ("Rate limit reached, connection reset", Some(Hint::QuotaExceeded)),
            ("DNS lookup failed", Some(Hint::Network)),
            ("read Timeout", Some(Hint::Network)),
            ("the model is confused", None),
        ] {
            assert_eq!(hint(message), expected, "{message}");
            assert!(runtime_error(message, "user_message", None).retryable);
        }
    }

    #[test]
    fn a_patch_is_a_diff_and_nothing_else_is() {
        let args = |json: serde_json::Value| Json::new(&json);
        let patch = args(serde_json::json!({ "path": "/a", "old_content": "x", "new_content": "y" }));
        let told = diff("file_patch", &patch).map(|diff| (diff.path, diff.old_text, diff.new_text));
        assert_eq!(told, Some(("/a".to_owned(), Some("x".to_owned()), "y".to_owned())));
        assert_eq!(diff("file_write", &patch), None);
        for broken in [serde_json::json!({ "path": "/a" }), serde_json::json!([1]), serde_json::json!(null)] {
            assert_eq!(diff("file_patch", &args(broken)), None);
        }
    }

    #[test]
    fn preview_cut_mid_char_texts_are_cut_between_characters_and_within_the_limit() {
        let long = "中🎉".repeat(300);
        for (text, most) in [
            (runtime_error(&long, "c", None).message, MESSAGE),
            (result_preview(&long), RESULT),
            (args_preview(&serde_json::json!({ "code": long })), ARGS),
        ] {
            assert_eq!(text.chars().count(), most);
            assert!(text.ends_with("..."));
        }
        assert_eq!(result_preview(&"x".repeat(500)).len(), 500);
    }
}
