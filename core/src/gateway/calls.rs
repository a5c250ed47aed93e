//! Tool calls of an agent in the words of Galley's runners, and its decisions in those of an agent.
//!
//! | the kind | the tool | its arguments | the risk |
//! |---|---|---|---|
//! | execute | `code_run` | `type`, `code` | high |
//! | edit, with a diff | `file_patch` | `path`, `old_content`, `new_content` | medium |
//! | edit without, delete, move, other | `file_write` | as the agent gives them | medium |
//! | read | `file_read` | as the agent gives them | low |
//! | any other | the kind itself | as the agent gives them | low |

use serde_json::json;

use crate::acp::content::ContentBlock;
use crate::acp::update::{ToolCallUpdate, ToolContent, ToolKind};
use crate::acp::{Json, OptionKind, PermissionOption};
use crate::galley::Risk;
use crate::galley::bridge::Verdict;
use crate::session::Reply;

/// A call as a runner would make it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) args: Json,
    pub(super) risk: Risk,
}

impl Call {
    pub(super) fn of(call: &ToolCallUpdate) -> Self {
        let kind = call.kind.unwrap_or_default();
        let raw = || given(call);
        let (tool, args, risk) = match kind {
            ToolKind::Execute => ("code_run", code(call), Risk::High),
            ToolKind::Edit => match patch(call) {
                Some(patch) => ("file_patch", patch, Risk::Medium),
                None => ("file_write", raw(), Risk::Medium),
            },
            ToolKind::Delete | ToolKind::Move | ToolKind::Other => ("file_write", raw(), Risk::Medium),
            ToolKind::Read => ("file_read", raw(), Risk::Low),
            ToolKind::Search | ToolKind::Think | ToolKind::Fetch | ToolKind::SwitchMode => {
                (kind.as_str(), raw(), Risk::Low)
            }
        };
        Self { tool: tool.to_owned(), args, risk }
    }
}

/// What the agent gives its tool, as an object; else what is known of the call.
fn given(call: &ToolCallUpdate) -> Json {
    let raw = call.raw_input.as_ref().filter(|raw| raw.get().trim_start().starts_with('{'));
    let title = call.title.as_deref().unwrap_or_default();
    let path = call.locations.iter().flatten().next().map(|location| &location.path);
    raw.cloned().unwrap_or_else(|| match path {
        Some(path) => Json::new(&json!({ "title": title, "path": path })),
        None => Json::new(&json!({ "title": title })),
    })
}

/// The command, as a text or in words; of an agent that gives neither, the title.
fn code(call: &ToolCallUpdate) -> Json {
    let raw: Option<serde_json::Value> =
        call.raw_input.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let command = raw.as_ref().and_then(|raw| raw.get("command"));
    let words = command.and_then(serde_json::Value::as_array).map(|words| {
        let words = words.iter().map(|word| word.as_str().unwrap_or_default());
        words.collect::<Vec<_>>().join(" ")
    });
    let command = command.and_then(serde_json::Value::as_str).map(str::to_owned).or(words);
    let code = command.or_else(|| call.title.clone()).unwrap_or_default();
    Json::new(&json!({ "type": "bash", "code": code }))
}

fn patch(call: &ToolCallUpdate) -> Option<Json> {
    let diff = call.content.iter().flatten().find_map(|content| match content {
        ToolContent::Diff(diff) => Some(diff),
        ToolContent::Content(_) | ToolContent::Terminal(_) | ToolContent::Unknown(_) => None,
    })?;
    Some(Json::new(&json!({
        "path": diff.path,
        "old_content": diff.old_text.as_deref().unwrap_or_default(),
        "new_content": diff.new_text,
    })))
}

/// What came of a call, for the model and for people.
pub(super) fn result(call: &ToolCallUpdate) -> String {
    let texts = call.content.iter().flatten().map(|content| match content {
        ToolContent::Content(ContentBlock::Text(text)) => text.text.clone(),
        ToolContent::Diff(diff) => format!("changed {}", diff.path),
        ToolContent::Content(_) | ToolContent::Terminal(_) | ToolContent::Unknown(_) => String::new(),
    });
    let text = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    match (&call.raw_output, text.is_empty()) {
        (Some(raw), true) => raw.get().to_owned(),
        (Some(_) | None, _) => text,
    }
}

/// What is added to what is known of a call.
pub(super) fn merge(known: &mut ToolCallUpdate, news: ToolCallUpdate) {
    fn take<T>(known: &mut Option<T>, news: Option<T>) {
        if news.is_some() {
            *known = news;
        }
    }
    take(&mut known.title, news.title);
    take(&mut known.kind, news.kind);
    take(&mut known.status, news.status);
    take(&mut known.content, news.content);
    take(&mut known.locations, news.locations);
    take(&mut known.raw_input, news.raw_input);
    take(&mut known.raw_output, news.raw_output);
}

/// The option that a decision is. For good only where the agent offers that: else the rule is the desktop's, and kept by
/// the name of the tool.
pub(super) fn reply(verdict: Verdict, options: &[PermissionOption]) -> Reply {
    let kinds: &[OptionKind] = match verdict {
        Verdict::Free | Verdict::Allowed => &[OptionKind::AllowOnce, OptionKind::AllowAlways],
        Verdict::AllowedAlways => &[OptionKind::AllowAlways, OptionKind::AllowOnce],
        Verdict::Denied | Verdict::Unclear => &[OptionKind::RejectOnce, OptionKind::RejectAlways],
        Verdict::Expired | Verdict::Withdrawn => &[],
    };
    let option = kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    option.map_or(Reply::Cancel, |option| Reply::Choose(option.option_id.clone()))
}
