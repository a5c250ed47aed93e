//! The rules of a client, one by one, on a link where nothing goes wrong.

mod deaf;
mod handshake;
mod holding;
mod kept;
mod lines;
mod pieces;
mod questions;
mod requests;
mod sessions;
mod subagents;
mod turns;

use std::time::Duration;

use agentline_core::acp::client::{Answer, Client, Command, Config, Event, Failure, Moment, Timeouts, Which};
use agentline_core::acp::session::{ConfigValue, McpHttp, McpServer, McpStdio, SystemPrompt};
use agentline_core::acp::{
    ContentBlock, Fault, Json, Notice, PermissionOutcome, RequestKey, SessionId, SessionSetup, StopReason,
    Update,
};
use agentline_core::rpc::{RpcError, code};
use agentline_core::{Exit, Group, Heard, Input, Limits, Machine, Open, Refused, SpawnSpec, Stderr, Tag};
use agentline_tests::acp::Rig;

pub(super) fn given() -> Config {
    Config::new(Open::Given(0))
}

pub(super) fn one_session() -> Rig<Client> {
    Rig::<Client>::with_sessions(given(), &["s"])
}

pub(super) fn prompt(tag: u64) -> Command {
    Command::Prompt { tag: Tag(tag), session: "s".into(), prompt: vec![ContentBlock::text("hello")] }
}

pub(super) fn cancel() -> Command {
    Command::Cancel { session: "s".into() }
}

pub(super) fn open(tag: u64, which: Which) -> Command {
    Command::OpenSession { tag: Tag(tag), which, setup: SessionSetup::in_directory("/w") }
}

pub(super) fn text(session: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
    )
}

pub(super) fn ask(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"c"}},"options":[{{"optionId":"y","name":"Yes","kind":"allow_once"}},{{"optionId":"n","name":"No","kind":"reject_once"}}]}}}}"#
    )
}

pub(super) fn result(id: u64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(super) fn error(id: u64, code: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m"}}}}"#)
}

/// The keys of the permissions and requests that were told.
pub(super) fn keys(events: &[Event]) -> Vec<RequestKey> {
    let key = |event: &Event| {
        if let Event::PermissionAsked(asked) = event {
            Some(asked.request)
        } else if let Event::Requested(asked) = event {
            Some(asked.request)
        } else {
            None
        }
    };
    events.iter().filter_map(key).collect()
}

pub(super) fn ends(events: &[Event]) -> Vec<(u64, Result<StopReason, Failure>)> {
    let end = |event: &Event| {
        let Event::TurnEnded(ended) = event else { return None };
        Some((ended.tag.0, ended.end.clone().map(|stopped| stopped.reason)))
    };
    events.iter().filter_map(end).collect()
}

/// One word for an event: what the vectors compare.
pub(super) fn word(event: &Event) -> String {
    use Event as E;
    match event {
        E::Ready(_) => "ready".into(),
        E::Line(_) => "line".into(),
        E::Text(text) => format!("text {}", text.text),
        E::Updated(updated) => format!("updated {}", updated.update.tag()),
        E::PermissionAsked(_) => "permission".into(),
        E::Requested(_) => "requested".into(),
        E::Withdrawn(_) => "withdrawn".into(),
        E::Notified(notified) => format!("notified {}", notified.method),
        E::Answered(tag, _) => format!("answered {}", tag.0),
        E::Failed(tag, failure) => format!("failed {} {failure:?}", tag.0),
        E::TurnEnded(ended) => match &ended.end {
            Ok(stopped) => format!("ended {} {}", ended.tag.0, stopped.reason.as_str()),
            Err(failure) => format!("ended {} {failure:?}", ended.tag.0),
        },
        E::Stderr(_) => "stderr".into(),
        E::Noticed(notice) => match &**notice {
            Notice::BadLine { why, .. } => format!("bad line: {why}"),
            Notice::BadParams { method, .. } => format!("bad params: {method}"),
            Notice::Orphan { id, .. } => format!("orphan {id}"),
            Notice::Complaint { error, .. } => format!("complaint {}", error.code),
            Notice::LateEnd { session, tag } => format!("late end of {} in {session}", tag.0),
            Notice::Forgotten(session) => format!("forgotten {session}"),
            Notice::UnknownSession(session) => format!("unknown session {session}"),
        },
        E::Closed(closed) => format!("closed {:?}", closed.fault()),
    }
}

pub(super) fn empty() -> Json {
    Json::new(&serde_json::json!({}))
}
