//! The agent of a room: it does what it is told in words.

use std::collections::BTreeMap;

use agentline_core::Tag;
use agentline_core::acp::agent::{self, Reply, Requested, TurnKey, Wanted};
use agentline_core::acp::session::{
    AgentCapabilities, SessionCapabilities, SessionInfo, SessionList, SessionMode, SessionModes, SessionState,
};
use agentline_core::acp::update::{Speaker, ToolCall, ToolCallUpdate, Update};
use agentline_core::acp::{OptionKind, PermissionOption, PermissionOutcome, StopReason};
use agentline_core::rpc::{RpcError, code};

/// An agent that does what the first word of a prompt says.
#[derive(Default)]
pub(super) struct Script {
    asked: BTreeMap<Tag, TurnKey>,
    turns: u64,
    /// What was asked for before the first prompt.
    opening: Vec<String>,
    /// The turn that is not to be cancelled.
    deaf: Option<TurnKey>,
}

impl Script {
    pub(super) fn hear(&mut self, event: agent::Event, say: &mut Vec<agent::Command>) {
        match event {
            agent::Event::Requested(asked) => say.push(self.answer(*asked)),
            agent::Event::Prompted(prompted) => {
                let text = prompted.prompt.first().and_then(|block| block.as_text()).unwrap_or_default();
                self.turn(prompted.turn, text, say);
            }
            agent::Event::Cancelled(turn) if self.deaf == Some(turn) => {}
            agent::Event::Cancelled(turn) => end(turn, StopReason::Cancelled, say),
            agent::Event::PermissionAnswered(tag, outcome) => {
                if let Some(turn) = self.asked.remove(&tag) {
                    let answer = match outcome {
                        PermissionOutcome::Selected { option_id } => option_id,
                        PermissionOutcome::Cancelled => "cancelled".to_owned(),
                    };
                    say.push(text(turn, &answer));
                    end(turn, StopReason::EndTurn, say);
                }
            }
            agent::Event::Initialized(_)
            | agent::Event::TurnOver(_)
            | agent::Event::Withdrawn(_)
            | agent::Event::Served(..)
            | agent::Event::Crowded
            | agent::Event::Drained
            | agent::Event::Notified(_)
            | agent::Event::Noticed(_)
            | agent::Event::Closed(_) => {}
        }
    }

    fn answer(&mut self, Requested { request, wanted }: Requested) -> agent::Command {
        let opened = |session: &str| Reply::SessionOpened { session: session.into(), state: state() };
        let (what, reply) = match wanted {
            Wanted::NewSession(_) => ("new".to_owned(), Ok(opened("s-1"))),
            Wanted::LoadSession(session, _) => (format!("load {session}"), Ok(opened(session.as_str()))),
            Wanted::ListSessions { .. } => ("list".to_owned(), Ok(Reply::Sessions(list()))),
            Wanted::SetMode(_, mode) if mode == "code" => ("mode code".to_owned(), Ok(Reply::Done)),
            Wanted::SetMode(_, mode) => (format!("mode {mode}"), Err("no such mode")),
            Wanted::Authenticate(_)
            | Wanted::Logout
            | Wanted::ResumeSession(..)
            | Wanted::CloseSession(_)
            | Wanted::DeleteSession(_)
            | Wanted::SetOption(..)
            | Wanted::Extension(..) => ("else".to_owned(), Err("not offered")),
        };
        self.opening.push(what);
        match reply {
            Ok(reply) => agent::Command::Reply { request, reply },
            Err(why) => agent::Command::Fail { request, error: RpcError::invalid_params(why) },
        }
    }

    fn turn(&mut self, turn: TurnKey, prompt: &str, say: &mut Vec<agent::Command>) {
        let (word, rest) = prompt.split_once(' ').unwrap_or((prompt, ""));
        match word {
            "hang" => {}
            "deaf" => self.deaf = Some(turn),
            "fail" => {
                let error = RpcError::new(code::INTERNAL_ERROR, "asked to fail");
                say.push(agent::Command::FailTurn { turn, error });
            }
            "break" => {
                say.push(text(turn, rest));
                let error = RpcError::new(code::INTERNAL_ERROR, "asked to fail");
                say.push(agent::Command::FailTurn { turn, error });
            }
            "stop" => {
                say.push(text(turn, "so far"));
                let reason = StopReason::Other(rest.to_owned());
                end(turn, reason, say);
            }
            "ask" => {
                self.turns += 1;
                let tag = Tag(self.turns);
                self.asked.insert(tag, turn);
                say.push(ask(tag, turn, rest));
            }
            "tell" => {
                say.push(text(turn, &self.opening.join(", ")));
                end(turn, StopReason::EndTurn, say);
            }
            "tool" => {
                say.push(text(turn, "looking"));
                let call = ToolCall { tool_call_id: "t".into(), title: "look".into(), ..ToolCall::default() };
                say.push(agent::Command::Report { turn, update: Update::ToolCall(call) });
                say.push(text(turn, rest));
                end(turn, StopReason::EndTurn, say);
            }
            _ => {
                say.push(text(turn, rest));
                end(turn, StopReason::EndTurn, say);
            }
        }
    }
}

/// It has old sessions.
pub(super) fn agent() -> agent::Config {
    let session_capabilities = SessionCapabilities { list: true, ..SessionCapabilities::default() };
    let capabilities =
        AgentCapabilities { load_session: true, session_capabilities, ..AgentCapabilities::default() };
    agent::Config { capabilities, ..agent::Config::on_stdio() }
}

fn list() -> SessionList {
    let session = SessionInfo {
        session_id: "s-0".into(),
        cwd: "/p".to_owned(),
        additional_directories: Vec::new(),
        title: None,
        updated_at: None,
    };
    SessionList { sessions: vec![session], next_cursor: None }
}

fn state() -> SessionState {
    let mode = |id: &str| SessionMode { id: id.into(), name: id.to_owned(), description: None };
    let modes =
        SessionModes { current_mode_id: "ask".into(), available_modes: vec![mode("ask"), mode("code")] };
    SessionState { modes: Some(modes), ..SessionState::default() }
}

fn text(turn: TurnKey, text: &str) -> agent::Command {
    agent::Command::Say { turn, speaker: Speaker::Agent, text: text.to_owned() }
}

fn end(turn: TurnKey, reason: StopReason, say: &mut Vec<agent::Command>) {
    say.push(agent::Command::EndTurn { turn, stopped: reason.into() });
}

fn ask(tag: Tag, turn: TurnKey, title: &str) -> agent::Command {
    let option = |id: &str, kind| PermissionOption { option_id: id.into(), name: id.into(), kind };
    let options = vec![option("yes", OptionKind::AllowOnce), option("no", OptionKind::RejectOnce)];
    let tool_call = ToolCallUpdate {
        tool_call_id: "t".into(),
        title: Some(title.to_owned()),
        ..ToolCallUpdate::default()
    };
    agent::Command::AskPermission { tag, of: turn.into(), tool_call, options, meta: None }
}
