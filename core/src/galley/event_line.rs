//! The lines of events, read and written.
//!
//! Reading is forgiving: what is missing or of the wrong type counts as its default, unless an event means
//! nothing without it. Writing says every member, also the empty ones, as the real runner does.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::event::{
    AskUser, Event, Exit, ExitReason, HistoryLoaded, LlmChanged, PetAttached, Ready, RunComplete,
    SystemMessage, ToolCall, ToolCallEnd, ToolCallPending, ToolCallProgress, ToolCallStart, ToolResult,
    ToolsReinjected, Trouble, TurnEnd, TurnProgress, TurnStart,
};
use super::members::{Members, NoObject, text_of};
use crate::rpc::{Json, append};
use crate::timestamp::Timestamp;

/// Why a line is no event.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoEvent {
    /// It is no JSON object.
    #[error("{0}")]
    NoObject(#[from] NoObject),
    /// It does not say what it is.
    #[error("no kind")]
    NoKind,
    /// It lacks what it means nothing without.
    #[error("{0}")]
    Lacks(String),
}

/// Reads a line of a runner, forgivingly. Values are nested up to `depth`.
///
/// # Errors
///
/// The line is no event.
pub fn read(line: &str, depth: usize) -> Result<Event, NoEvent> {
    let members = Members::read(line, depth)?;
    let kind: String = members.required("kind").map_err(|_| NoEvent::NoKind)?;
    let is_there = |name: &str| match members.get(name) {
        Some(_) => Ok(()),
        None => Err(NoEvent::Lacks(format!("{kind} without {name}"))),
    };
    Ok(match &*kind {
        "turn_progress" => {
            is_there("delta")?;
            Event::TurnProgress(TurnProgress {
                delta: members.text("delta"),
                source: members.text("source"),
                visibility: members.or_default("visibility"),
            })
        }
        "ready" => {
            is_there("protocolVersion")?;
            Event::Ready(Box::new(ready(&members)))
        }
        "turn_start" => Event::TurnStart(TurnStart {
            turn_index: members.or_default("turnIndex"),
            visibility: members.or_default("visibility"),
            absolute_turn_index: members.or_default("absoluteTurnIndex"),
        }),
        "tool_call_pending" => {
            is_there("approvalId")?;
            Event::ToolCallPending(Box::new(ToolCallPending {
                approval_id: members.text("approvalId"),
                tool_call_id: members.some_text("toolCallId"),
                turn_index: members.or_default("turnIndex"),
                absolute_turn_index: members.or_default("absoluteTurnIndex"),
                tool_name: members.text("toolName"),
                args: members.json("args"),
                args_preview: members.text("argsPreview"),
                risk_level: members.or_default("riskLevel"),
                reason: members.text("reason"),
            }))
        }
        "tool_call_start" => {
            is_there("toolCallId")?;
            Event::ToolCallStart(Box::new(ToolCallStart {
                tool_call_id: members.text("toolCallId"),
                turn_index: members.or_default("turnIndex"),
                absolute_turn_index: members.or_default("absoluteTurnIndex"),
                tool_name: members.text("toolName"),
                args: members.json("args"),
                args_preview: members.text("argsPreview"),
            }))
        }
        "tool_call_progress" => {
            is_there("toolCallId")?;
            let (tool_call_id, text) = (members.text("toolCallId"), members.text("text"));
            Event::ToolCallProgress(Box::new(ToolCallProgress { tool_call_id, text }))
        }
        "tool_call_end" => {
            is_there("toolCallId")?;
            Event::ToolCallEnd(Box::new(ToolCallEnd {
                tool_call_id: members.text("toolCallId"),
                status: members.or_default("status"),
                result_preview: members.text("resultPreview"),
                elapsed_ms: members.or_default("elapsedMs"),
            }))
        }
        "turn_end" => Event::TurnEnd(Box::new(turn_end(&members, depth))),
        "ask_user" => Event::AskUser(Box::new(AskUser {
            question: members.text("question"),
            candidates: texts(&members, "candidates"),
        })),
        "run_complete" => Event::RunComplete(Box::new(RunComplete {
            exit_reason: members
                .get("exitReason")
                .and_then(|reason| exit_reason(reason, depth))
                .unwrap_or_else(|| ExitReason::new(&Exit::Other(String::new()))),
            final_content: members.text("finalContent"),
            total_turns: members.or_default("totalTurns"),
            visibility: members.or_default("visibility"),
        })),
        "error" => Event::Error(Box::new(Trouble {
            message: members.text("message"),
            category: members.or_default("category"),
            severity: members.or_default("severity"),
            retryable: members.or_default("retryable"),
            hint: members.or_default("hint"),
            context: members.some_text("context"),
            traceback: members.some_text("traceback"),
            visibility: members.or_default("visibility"),
        })),
        "history_loaded" => {
            Event::HistoryLoaded(HistoryLoaded { message_count: members.or_default("messageCount") })
        }
        "llm_changed" => Event::LlmChanged(Box::new(LlmChanged {
            index: members.or_default("index"),
            name: members.text("name"),
            display_name: members.text("displayName"),
        })),
        "tools_reinjected" => {
            Event::ToolsReinjected(ToolsReinjected { blocks_added: members.or_default("blocksAdded") })
        }
        "pet_attached" => Event::PetAttached(PetAttached { port: members.or_default("port") }),
        "pet_detached" => Event::PetDetached,
        "system_message" => Event::SystemMessage(Box::new(SystemMessage {
            content: members.text("content"),
            variant: members.or_default("variant"),
        })),
        "plan_update" => Event::PlanUpdate(whole(line)),
        _ => Event::Other(Box::new((kind, whole(line)))),
    })
}

fn ready(members: &Members<'_>) -> Ready {
    Ready {
        protocol_version: members.text("protocolVersion"),
        ga_commit: members.some_text("gaCommit").unwrap_or_else(unknown),
        ga_commit_date: members.some_text("gaCommitDate").unwrap_or_else(unknown),
        ga_path: members.text("gaPath"),
        llm_name: members.text("llmName"),
        cwd: members.text("cwd"),
        pid: members.or_default("pid"),
        available_llms: items(members, "availableLLMs", |llm| serde_json::from_str(llm.get()).ok()),
        images_supported: members.or_default("imagesSupported"),
    }
}

fn exit_reason(value: &RawValue, depth: usize) -> Option<ExitReason> {
    let members = Members::read(value.get(), depth).ok()?;
    Some(ExitReason { result: members.text("result"), data: members.json("data") })
}

/// What stands for a commit that nobody knows.
fn unknown() -> String {
    "unknown".to_owned()
}

fn turn_end(members: &Members<'_>, depth: usize) -> TurnEnd {
    let call = |item: &RawValue| {
        let call = Members::read(item.get(), depth).ok()?;
        Some(ToolCall { tool_name: call.text("toolName"), args: call.json("args") })
    };
    let result = |item: &RawValue| {
        let result = Members::read(item.get(), depth).ok()?;
        Some(ToolResult { tool_use_id: result.text("toolUseId"), content: result.text("content") })
    };
    TurnEnd {
        turn_index: members.or_default("turnIndex"),
        summary: members.text("summary"),
        tool_calls: items(members, "toolCalls", call),
        tool_results: items(members, "toolResults", result),
        response_content: members.text("responseContent"),
        exit_reason: members.get("exitReason").and_then(|reason| exit_reason(reason, depth)),
        telemetry: members.or_default("telemetry"),
        visibility: members.or_default("visibility"),
        absolute_turn_index: members.or_default("absoluteTurnIndex"),
    }
}

/// The items of a list that can be read.
fn items<T>(members: &Members<'_>, name: &str, read: impl FnMut(&RawValue) -> Option<T>) -> Vec<T> {
    let list = members.get(name).map_or("[]", RawValue::get);
    let items: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
    items.into_iter().filter_map(read).collect()
}

fn texts(members: &Members<'_>, name: &str) -> Vec<String> {
    items(members, name, |item| Some(text_of(item)))
}

fn whole(line: &str) -> Json {
    serde_json::from_str(line).unwrap_or_else(|_| Json::new(&()))
}

/// Appends an event of the runner of that session.
pub fn write(buf: &mut Vec<u8>, session: &str, unix: Duration, event: &Event) {
    let mut frame = Frame { buf, session, unix };
    match event {
        Event::Ready(body) => frame.of("ready", body),
        Event::TurnStart(body) => frame.of("turn_start", body),
        Event::TurnProgress(body) => frame.of("turn_progress", body),
        Event::ToolCallPending(body) => frame.of("tool_call_pending", body),
        Event::ToolCallStart(body) => frame.of("tool_call_start", body),
        Event::ToolCallProgress(body) => frame.of("tool_call_progress", body),
        Event::ToolCallEnd(body) => frame.of("tool_call_end", body),
        Event::TurnEnd(body) => frame.of("turn_end", body),
        Event::AskUser(body) => frame.of("ask_user", body),
        Event::RunComplete(body) => frame.of("run_complete", body),
        Event::Error(body) => frame.of("error", body),
        Event::HistoryLoaded(body) => frame.of("history_loaded", body),
        Event::LlmChanged(body) => frame.of("llm_changed", body),
        Event::ToolsReinjected(body) => frame.of("tools_reinjected", body),
        Event::PetAttached(body) => frame.of("pet_attached", body),
        Event::PetDetached => frame.of("pet_detached", &Nothing {}),
        Event::SystemMessage(body) => frame.of("system_message", body),
        Event::PlanUpdate(whole) => append(frame.buf, whole),
        Event::Other(other) => append(frame.buf, &other.1),
    }
}

struct Frame<'a> {
    buf: &'a mut Vec<u8>,
    session: &'a str,
    unix: Duration,
}

#[derive(Serialize)]
struct Nothing {}

impl Frame<'_> {
    fn of<T: Serialize>(&mut self, kind: &str, body: &T) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Line<'a, T> {
            kind: &'a str,
            session_id: &'a str,
            #[serde(flatten)]
            body: &'a T,
            timestamp: String,
        }
        let timestamp = Timestamp(self.unix).to_string();
        append(self.buf, &Line { kind, session_id: self.session, body, timestamp });
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Hint, Risk, Telemetry, ToolStatus, Visibility};
    use super::*;

    fn written(event: &Event) -> String {
        let mut buf = Vec::new();
        write(&mut buf, "s-1", Duration::from_secs(1_778_161_860), event);
        String::from_utf8(buf).unwrap()
    }

    #[test]
    fn an_event_is_written_whole_and_read_back() {
        let reason = ExitReason::new(&Exit::Done);
        let args = Json::new(&serde_json::json!({ "code": "print(1)" }));
        let events = [
            Event::Ready(Box::new(Ready {
                protocol_version: "0.1".into(),
                ga_commit: "c".into(),
                ..Ready::default()
            })),
            Event::TurnStart(TurnStart { turn_index: 1, ..TurnStart::default() }),
            Event::TurnProgress(TurnProgress { delta: "a\u{2028}b\n".into(), ..TurnProgress::default() }),
            Event::ToolCallPending(Box::new(ToolCallPending {
                approval_id: "a".into(),
                tool_call_id: None,
                turn_index: 1,
                absolute_turn_index: Some(7),
                tool_name: "code_run".into(),
                args: args.clone(),
                args_preview: String::new(),
                risk_level: Risk::High,
                reason: String::new(),
            })),
            Event::ToolCallEnd(Box::new(ToolCallEnd {
                status: ToolStatus::Denied,
                ..ToolCallEnd::default()
            })),
            Event::TurnEnd(Box::new(TurnEnd {
                tool_calls: vec![ToolCall { tool_name: "code_run".into(), args }],
                exit_reason: Some(reason.clone()),
                telemetry: Some(Telemetry { elapsed_ms: Some(3), ..Telemetry::default() }),
                ..TurnEnd::default()
            })),
            Event::RunComplete(Box::new(RunComplete {
                exit_reason: reason,
                final_content: "yes".into(),
                total_turns: 1,
                visibility: Visibility::Internal,
            })),
            Event::Error(Box::new(Trouble { hint: Some(Hint::Network), ..Trouble::default() })),
            Event::PetDetached,
        ];
        for event in events {
            let line = written(&event);
            assert!(!line.contains('\n') && !line.contains('\u{2028}'), "{line}");
            assert_eq!(read(&line, 128), Ok(event), "{line}");
        }
    }

    #[test]
    fn what_is_empty_is_said_and_in_this_order() {
        assert_eq!(
            written(&Event::TurnStart(TurnStart { turn_index: 2, ..TurnStart::default() })),
            r#"{"kind":"turn_start","sessionId":"s-1","turnIndex":2,"visibility":"visible","absoluteTurnIndex":null,"timestamp":"2026-05-07T13:51:00+00:00"}"#
        );
        assert_eq!(
            written(&Event::PetDetached),
            r#"{"kind":"pet_detached","sessionId":"s-1","timestamp":"2026-05-07T13:51:00+00:00"}"#
        );
    }

    #[test]
    fn a_wrong_member_costs_no_event() {
        let line = r#"{"kind":"turn_end","turnIndex":"two","toolCalls":[5,{"toolName":"x"}],"toolResults":{},"telemetry":[],"exitReason":"?"}"#;
        let Ok(Event::TurnEnd(end)) = read(line, 128) else { panic!("{line}") };
        assert_eq!((end.turn_index, end.tool_calls.len(), end.exit_reason), (0, 1, None));
    }

    #[test]
    fn what_is_no_event_says_why() {
        for (line, why) in [
            (r#"{"kind":5}"#, "no kind"),
            (r#"{"delta":"x"}"#, "no kind"),
            (r#"{"kind":"turn_progress"}"#, "turn_progress without delta"),
            (r#"{"kind":"tool_call_pending","toolName":"x"}"#, "tool_call_pending without approvalId"),
            ("Traceback", "not JSON at column 1"),
        ] {
            assert_eq!(read(line, 128).unwrap_err().to_string(), why, "{line}");
        }
    }

    #[test]
    fn what_is_unknown_is_kept_as_it_was() {
        let line = r#"{"kind":"title_generated","title":"x"}"#;
        let Ok(event @ Event::Other(_)) = read(line, 128) else { panic!("{line}") };
        assert_eq!(written(&event), line);
    }
}
