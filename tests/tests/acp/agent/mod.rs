//! The rules of an agent, one by one, on a link where nothing goes wrong.

mod handshake;
mod leaving;
mod lines;
mod requests;
mod turns;

use std::time::Duration;

use agentline_core::acp::agent::{
    Agent, Command, Config, Event, Greeting, Of, Reply, Requested, TurnKey, Wanted,
};
use agentline_core::acp::services::{Elicit, ReadTextFile, ServiceRequest, TerminalRef};
use agentline_core::acp::session::{
    AgentCapabilities, ConfigKind, ConfigOption, ConfigValue, Implementation, SessionList, SessionState,
};
use agentline_core::acp::update::{ConfigOptions, Speaker, ToolCall, ToolCallUpdate, Update};
use agentline_core::acp::{
    Json, Notice, OptionKind, PermissionOption, PermissionOutcome, RequestKey, SessionId, StopReason,
    Stopped, Unknown,
};
use agentline_core::rpc::RpcError;
use agentline_core::{Heard, Limits, Refused, Tag};
use agentline_tests::acp::Rig;
use agentline_tests::acp::rig::{CLIENT_OFFERS, OFFERS};

/// An agent that offers everything.
pub(super) fn generous() -> Config {
    Config {
        capabilities: serde_json::from_str(OFFERS).expect("capabilities"),
        auth_methods: serde_json::from_str(
            r#"[{"id":"login","name":"Login"},{"id":"tty","name":"TTY","type":"terminal"}]"#,
        )
        .expect("logins"),
        extensions: vec!["_x/known".into()],
        ..Config::on_stdio()
    }
}

/// One that offers the baseline.
pub(super) fn plain() -> Config {
    Config::on_stdio()
}

pub(super) fn one_session() -> Rig<Agent> {
    Rig::<Agent>::with_sessions(generous(), CLIENT_OFFERS, &["s"])
}

pub(super) fn prompt(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"hello"}}]}}}}"#
    )
}

pub(super) fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Prompts, and returns the turn.
pub(super) fn begin(rig: &mut Rig<Agent>, id: &str) -> TurnKey {
    rig.hear(&prompt(id));
    let Event::Prompted(prompted) = rig.event() else { panic!("no turn") };
    prompted.turn
}

pub(super) fn asked(rig: &mut Rig<Agent>) -> Requested {
    let event = rig.event();
    let Event::Requested(asked) = event else { panic!("{event:?}") };
    *asked
}

pub(super) fn say(turn: TurnKey, text: &str) -> Command {
    Command::Say { turn, speaker: Speaker::Agent, text: text.into() }
}

pub(super) fn end(turn: TurnKey) -> Command {
    Command::EndTurn { turn, stopped: StopReason::EndTurn.into() }
}

pub(super) fn ask(tag: u64, turn: TurnKey) -> Command {
    let option = |id: &str, kind| PermissionOption { option_id: id.into(), name: id.into(), kind };
    Command::AskPermission {
        tag: Tag(tag),
        of: turn.into(),
        tool_call: ToolCallUpdate { tool_call_id: "c".into(), ..ToolCallUpdate::default() },
        options: vec![option("y", OptionKind::AllowOnce), option("n", OptionKind::RejectOnce)],
        meta: None,
    }
}

pub(super) fn word(event: &Event) -> String {
    use Event as E;
    match event {
        E::Initialized(client) => format!("initialized {}", client.protocol_version),
        E::Requested(asked) => match &asked.wanted {
            Wanted::Authenticate(method) => format!("authenticate {method}"),
            Wanted::Logout => "logout".into(),
            Wanted::NewSession(setup) => format!("new {}", setup.cwd),
            Wanted::LoadSession(session, _) => format!("load {session}"),
            Wanted::ResumeSession(session, _) => format!("resume {session}"),
            Wanted::ListSessions { .. } => "list".into(),
            Wanted::CloseSession(session) => format!("close {session}"),
            Wanted::DeleteSession(session) => format!("delete {session}"),
            Wanted::SetMode(session, mode) => format!("mode {session} {mode}"),
            Wanted::SetOption(session, option, value) => format!("option {session} {option} {value:?}"),
            Wanted::Extension(method, _) => format!("extension {method}"),
        },
        E::Prompted(prompted) => format!("prompted {}", prompted.session),
        E::Cancelled(_) => "cancelled".into(),
        E::TurnOver(_) => "turn over".into(),
        E::Withdrawn(_) => "withdrawn".into(),
        E::PermissionAnswered(tag, outcome) => format!("permission {} {outcome:?}", tag.0),
        E::Served(tag, answer) => format!("served {} {answer:?}", tag.0),
        E::Crowded => "crowded".into(),
        E::Drained => "drained".into(),
        E::Notified(notified) => format!("notified {}", notified.method),
        E::Noticed(notice) => {
            if let Notice::BadLine { why, .. } = &**notice {
                format!("bad line: {why}")
            } else if let Notice::BadParams { method, .. } = &**notice {
                format!("bad params: {method}")
            } else if let Notice::Orphan { id, .. } = &**notice {
                format!("orphan {id}")
            } else if let Notice::Complaint { error, .. } = &**notice {
                format!("complaint {}", error.code)
            } else {
                format!("{notice:?}")
            }
        }
        E::Closed(closed) => format!("closed {:?}", closed.fault()),
    }
}

pub(super) fn words(rig: &mut Rig<Agent>) -> Vec<String> {
    rig.told().iter().map(word).collect()
}

pub(super) fn empty() -> Json {
    Json::new(&serde_json::json!({}))
}
