//! An ACP agent in a world, who does what the words of a prompt say.

use agentline_core::acp::agent::{self, Agent, Command, Event as E, Reply, TurnKey, Wanted};
use agentline_core::acp::client;
use agentline_core::acp::session::{ConfigKind, ConfigOption, ConfigValue, SessionState};
use agentline_core::acp::update::{Speaker, ToolCall, ToolCallUpdate, ToolKind, ToolStatus, Update};
use agentline_core::acp::{
    ContentBlock, Json, OptionKind, PermissionOption, PermissionOutcome, SessionId, StopReason,
};
use agentline_core::rpc::{RpcError, code};
use agentline_core::session::SourceConfig;
use agentline_core::{Machine, Open, SpawnSpec, Stderr, Tag};
use agentline_tests::{Checked, Checks, Node, World};

/// How a gateway starts it.
pub(crate) fn source() -> SourceConfig {
    let spec = SpawnSpec { program: "agent".into(), stderr: Stderr::Pipe, ..SpawnSpec::default() };
    SourceConfig::Acp(Box::new(client::Config::new(Open::spawn(spec))))
}

/// Makes it a program of the world.
pub(crate) fn install(world: &mut World<'_>) {
    world.program("agent", |now, _: &SpawnSpec| {
        let mut app = App { turn: None };
        let machine: Checked<Agent> = Checked::new(now, (Checks::default(), agent::Config::on_stdio()));
        Node::new(machine, move |_, event, say| app.hear(event, say)).on_term(|| Command::Shutdown)
    });
}

struct App {
    turn: Option<(TurnKey, SessionId)>,
}

impl App {
    fn hear(&mut self, event: E, say: &mut Vec<Command>) {
        match event {
            E::Requested(asked) => {
                let reply = match asked.wanted {
                    Wanted::NewSession(_) => {
                        Reply::SessionOpened { session: "s".into(), state: state("small") }
                    }
                    Wanted::SetOption(_, _, ConfigValue::Id(model)) => {
                        Reply::Options(state(&model).config_options.unwrap_or_default())
                    }
                    _ => Reply::Done,
                };
                say.push(Command::Reply { request: asked.request, reply });
            }
            E::Prompted(prompted) => {
                self.turn = Some((prompted.turn, prompted.session.clone()));
                let words = prompted.prompt.iter().map(|block| match block {
                    ContentBlock::Text(text) => text.text.clone(),
                    ContentBlock::ResourceLink(link) => link.uri.clone(),
                    _ => "?".to_owned(),
                });
                self.play(prompted.turn, &words.collect::<Vec<_>>().join(" "), say);
            }
            E::Cancelled(turn) => say.push(end(turn, StopReason::Cancelled)),
            E::PermissionAnswered(tag, outcome) => self.answered(tag, &outcome, say),
            _ => {}
        }
    }

    fn play(&self, turn: TurnKey, words: &str, say: &mut Vec<Command>) {
        match words {
            "tool" => {
                say.push(text(turn, "before"));
                let raw_input = Some(Json::new(&serde_json::json!({ "command": "rm -r x" })));
                let call = ToolCall {
                    tool_call_id: "c1".into(),
                    title: "run rm".into(),
                    kind: ToolKind::Execute,
                    status: ToolStatus::Pending,
                    raw_input,
                    ..ToolCall::default()
                };
                say.push(Command::Report { turn, update: Update::ToolCall(call.clone()) });
                let option =
                    |id: &str, kind| PermissionOption { option_id: id.into(), name: id.into(), kind };
                say.push(Command::AskPermission {
                    tag: Tag(1),
                    of: turn.into(),
                    tool_call: ToolCallUpdate {
                        tool_call_id: call.tool_call_id,
                        title: Some(call.title),
                        kind: Some(call.kind),
                        raw_input: call.raw_input,
                        ..ToolCallUpdate::default()
                    },
                    options: vec![
                        option("yes", OptionKind::AllowOnce),
                        option("always", OptionKind::AllowAlways),
                        option("no", OptionKind::RejectOnce),
                    ],
                    meta: None,
                });
            }
            "hang" => say.push(text(turn, "hanging")),
            "fail" => {
                say.push(text(turn, "half"));
                say.push(Command::FailTurn { turn, error: RpcError::new(code::INTERNAL_ERROR, "boom") });
            }
            "refuse" => say.push(end(turn, StopReason::Refusal)),
            "leave" => say.extend([end(turn, StopReason::EndTurn), Command::Shutdown]),
            words => {
                say.push(text(turn, "to "));
                say.push(text(turn, words));
                say.push(end(turn, StopReason::EndTurn));
            }
        }
    }

    fn answered(&self, _: Tag, outcome: &PermissionOutcome, say: &mut Vec<Command>) {
        let Some((turn, _)) = &self.turn else { return };
        let option = match outcome {
            PermissionOutcome::Selected { option_id } => &**option_id,
            PermissionOutcome::Cancelled => "cancelled",
        };
        let mut update = |status| {
            let update = ToolCallUpdate {
                tool_call_id: "c1".into(),
                status: Some(status),
                ..ToolCallUpdate::default()
            };
            say.push(Command::Report { turn: *turn, update: Update::ToolCallUpdate(update) });
        };
        if option == "no" || option == "cancelled" {
            update(ToolStatus::Failed);
        } else {
            update(ToolStatus::InProgress);
            update(ToolStatus::Completed);
        }
        say.push(text(*turn, option));
        say.push(end(*turn, StopReason::EndTurn));
    }
}

fn state(current: &str) -> SessionState {
    let values =
        serde_json::json!([{ "value": "small", "name": "Small" }, { "value": "large", "name": "Large" }]);
    let option = ConfigOption {
        id: "m".into(),
        name: "Model".into(),
        description: None,
        category: Some("model".into()),
        kind: ConfigKind::Select,
        current_value: ConfigValue::Id(current.into()),
        options: Some(Json::new(&values)),
    };
    SessionState { config_options: Some(vec![option]), ..SessionState::default() }
}

fn text(turn: TurnKey, text: &str) -> Command {
    Command::Say { turn, speaker: Speaker::Agent, text: text.to_owned() }
}

fn end(turn: TurnKey, reason: StopReason) -> Command {
    Command::EndTurn { turn, stopped: reason.into() }
}
