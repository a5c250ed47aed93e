//! What an agent tells beside the older parts of the protocol: notices, compaction, and plans by id.

use agentline_core::acp::Unknown;
use agentline_core::acp::update::{Plan, PlanEntry};
use serde::Deserialize;

/// As it is shown.
#[derive(Debug, PartialEq)]
pub(super) enum Beside {
    Plan(Plan),
    Note { bad: bool, text: String },
}

/// What is understood of such an update.
pub(super) fn read(unknown: &Unknown) -> Option<Beside> {
    let raw = unknown.raw.get();
    match &*unknown.tag {
        "notice" => {
            let Notice { severity, title, description } = serde_json::from_str(raw).ok()?;
            let text = description.map_or_else(|| title.clone(), |more| format!("{title}: {more}"));
            Some(Beside::Note { bad: matches!(&*severity, "warning" | "error"), text })
        }
        "compaction_update" => {
            let Compaction { status } = serde_json::from_str(raw).ok()?;
            let (bad, text) = match &*status {
                "in_progress" => (false, "making room in the context"),
                "completed" => (false, "there is room in the context again"),
                "failed" => (true, "no room could be made in the context"),
                "cancelled" => (false, "making room in the context was cancelled"),
                _ => return None,
            };
            Some(Beside::Note { bad, text: text.to_owned() })
        }
        "plan_update" => match serde_json::from_str::<PlanUpdate>(raw).ok()?.plan {
            ById::Items { entries } => Some(Beside::Plan(Plan { entries, meta: None })),
            ById::Markdown { content } => Some(Beside::Note { bad: false, text: format!("plan: {content}") }),
        },
        _ => None,
    }
}

#[derive(Deserialize)]
struct Notice {
    severity: String,
    title: String,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Deserialize)]
struct Compaction {
    status: String,
}

#[derive(Deserialize)]
struct PlanUpdate {
    plan: ById,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ById {
    Items { entries: Vec<PlanEntry> },
    Markdown { content: String },
}

#[cfg(test)]
mod tests {
    use agentline_core::acp::Update;
    use serde_json::json;

    use super::*;

    fn shown(update: &serde_json::Value) -> String {
        let update: Update = serde_json::from_str(&update.to_string()).expect("an update");
        let Update::Other(unknown) = update else { panic!("{update:?}") };
        match read(&unknown) {
            Some(Beside::Plan(plan)) => {
                plan.entries.iter().map(|entry| format!("[{}]", entry.content)).collect()
            }
            Some(Beside::Note { bad, text }) => format!("{} {text}", if bad { "!" } else { "-" }),
            None => String::new(),
        }
    }

    #[test]
    fn what_is_offered_is_shown() {
        for (update, said) in [
            (json!({"sessionUpdate": "notice", "severity": "info", "title": "A"}), "- A"),
            (
                json!({"sessionUpdate": "notice", "severity": "error", "title": "A", "description": "b"}),
                "! A: b",
            ),
            (json!({"sessionUpdate": "notice", "title": "A"}), ""),
            (
                json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}),
                "- making room in the context",
            ),
            (json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "later"}), ""),
            (
                json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [{"content": "one", "priority": "low", "status": "pending"}]}}),
                "[one]",
            ),
            (
                json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "# x"}}),
                "- plan: # x",
            ),
            (json!({"sessionUpdate": "plan_removed", "planId": "p"}), ""),
        ] {
            assert_eq!(shown(&update), said, "{update}");
        }
    }
}
