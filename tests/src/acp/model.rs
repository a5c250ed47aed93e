//! Turns as the protocol has them, written down a second time: a reference for each role, and a game that plays
//! the same random moves to the reference and to the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use agentline_core::acp::agent::{self, Agent, TurnKey};
use agentline_core::acp::client::{self, Client, Failure};
use agentline_core::acp::update::{Speaker, ToolCallUpdate};
use agentline_core::acp::{
    ContentBlock, OptionKind, PermissionOption, PermissionOutcome, RequestKey, SessionId, StopReason,
};
use agentline_core::rpc::RpcError;
use agentline_core::{Open, Tag, Time};
use serde_json::Value;

use super::rig::{CLIENT_OFFERS, Rig};
use crate::dice::Dice;

/// What one move leads to: lines for the peer, and news for the application, each in order.
#[derive(Debug, Default, Eq, PartialEq)]
struct Outcome {
    written: Vec<String>,
    told: Vec<String>,
}

impl Outcome {
    fn write(&mut self, line: String) {
        self.written.push(line);
    }

    fn tell(&mut self, event: String) {
        self.told.push(event);
    }
}

/// What the client's reference knows of a session's turn.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Idle,
    Running {
        tag: u64,
        id: u64,
    },
    Cancelling {
        tag: u64,
        id: u64,
        until: Time,
    },
    /// Given up here; the agent still works on it.
    GivenUp {
        id: u64,
    },
}

/// Turns of two sessions, as a client has them.
#[derive(Debug)]
struct ClientReference {
    turns: [Turn; 2],
    /// Open permission requests: the agent's id and the session.
    asked: Vec<(u64, usize)>,
    next_id: u64,
    out: Outcome,
}

impl ClientReference {
    fn prompt(&mut self, s: usize, tag: u64) {
        match self.turns[s] {
            Turn::Running { .. } | Turn::Cancelling { .. } => self.out.tell("refused: Busy".into()),
            Turn::Idle | Turn::GivenUp { .. } => {
                self.turns[s] = Turn::Running { tag, id: self.next_id };
                self.out.write(format!("prompt {} s{s}", self.next_id));
                self.next_id += 1;
            }
        }
    }

    fn cancel(&mut self, s: usize, until: Time) {
        match self.turns[s] {
            Turn::Idle | Turn::GivenUp { .. } => self.out.tell("refused: Unknown".into()),
            Turn::Cancelling { .. } => {}
            Turn::Running { tag, id } => {
                self.turns[s] = Turn::Cancelling { tag, id, until };
                self.out.write(format!("cancel s{s}"));
                self.withdraw_all(s);
            }
        }
    }

    /// What was asked is moot with the turn.
    fn withdraw_all(&mut self, s: usize) {
        let (gone, left) = self.asked.iter().partition(|(_, of)| *of == s);
        self.asked = left;
        for (id, _) in gone {
            self.withdraw(id);
        }
    }

    fn withdraw(&mut self, id: u64) {
        self.out.write(format!("answer {id} cancelled"));
        self.out.tell(format!("withdrawn {id}"));
    }

    fn ask(&mut self, s: usize, id: u64) {
        match self.turns[s] {
            Turn::Cancelling { .. } | Turn::GivenUp { .. } => {
                self.out.write(format!("answer {id} cancelled"))
            }
            Turn::Idle | Turn::Running { .. } => {
                self.asked.push((id, s));
                self.out.tell(format!("asked {id}"));
            }
        }
    }

    fn agent_withdraws(&mut self, id: u64) {
        if self.forget(id) {
            self.withdraw(id);
        }
    }

    fn answer(&mut self, id: u64, option: &str) {
        if !self.asked.iter().any(|(open, _)| *open == id) {
            self.out.tell("refused: Unknown".into());
        } else if option != "yes" {
            self.out.tell("refused: Invalid(\"that option was not offered\")".into());
        } else {
            self.forget(id);
            self.out.write(format!("answer {id} {option}"));
        }
    }

    fn forget(&mut self, id: u64) -> bool {
        let before = self.asked.len();
        self.asked.retain(|(open, _)| *open != id);
        self.asked.len() < before
    }

    /// The agent answers that request of ours; `end` is what becomes of the turn.
    fn answered(&mut self, answered: u64, end: &str) {
        for s in 0..self.turns.len() {
            let turn = self.turns[s];
            match turn {
                Turn::Running { tag, id } | Turn::Cancelling { tag, id, .. } if id == answered => {
                    let cancelled = matches!(turn, Turn::Cancelling { .. });
                    let end = if cancelled && end == "error -32800" { "cancelled" } else { end };
                    self.turns[s] = Turn::Idle;
                    self.withdraw_all(s);
                    return self.out.tell(format!("end {tag} {end}"));
                }
                Turn::GivenUp { id } if id == answered => {
                    self.turns[s] = Turn::Idle;
                    return;
                }
                Turn::Idle | Turn::Running { .. } | Turn::Cancelling { .. } | Turn::GivenUp { .. } => {}
            }
        }
    }

    fn text(&mut self, s: usize) {
        let moment = match self.turns[s] {
            Turn::Idle | Turn::GivenUp { .. } => "Between",
            Turn::Running { .. } | Turn::Cancelling { .. } => "Turn",
        };
        self.out.tell(format!("text s{s} {moment}"));
    }

    fn tick(&mut self, now: Time) {
        for s in 0..self.turns.len() {
            if let Turn::Cancelling { tag, id, until } = self.turns[s]
                && until <= now
            {
                self.turns[s] = Turn::GivenUp { id };
                self.withdraw_all(s);
                self.out.tell(format!("end {tag} unconfirmed"));
            }
        }
    }
}

/// Plays moves to a client and to its reference.
///
/// # Panics
///
/// They differ.
pub fn client(dice: &mut Dice<'_>) {
    let mut game = ClientGame {
        rig: Rig::<Client>::with_sessions(client::Config::new(Open::Given(0)), &["s0", "s1"]),
        reference: ClientReference {
            turns: [Turn::Idle; 2],
            asked: Vec::new(),
            next_id: 3,
            out: Outcome::default(),
        },
        keys: BTreeMap::new(),
        refused: Vec::new(),
    };
    let mut moves = Vec::new();
    for n in 0..40 {
        moves.push(game.play(n, dice));
        let written = game.rig.written().iter().map(|line| client_wrote(line)).collect();
        let mut told = std::mem::take(&mut game.refused);
        told.extend(game.rig.told().iter().filter_map(|event| client_told(event, &mut game.keys)));
        assert_eq!(Outcome { written, told }, std::mem::take(&mut game.reference.out), "{moves:#?}");
    }
}

struct ClientGame {
    rig: Rig<Client>,
    reference: ClientReference,
    /// The agent's ids, which overlap with ours, and what the client calls them.
    keys: BTreeMap<u64, RequestKey>,
    refused: Vec<String>,
}

impl ClientGame {
    /// Plays one move to both, and says which.
    fn play(&mut self, n: u64, dice: &mut Dice<'_>) -> String {
        let (which, s, id) = (dice.below(12), dice.below(2), number(dice, 6));
        let session = SessionId::from(if s == 0 { "s0" } else { "s1" });
        match which {
            0 | 1 => {
                self.reference.prompt(s, n);
                let prompt = vec![ContentBlock::text("hello")];
                self.command(client::Command::Prompt { tag: Tag(n), session, prompt });
                format!("prompt {n} on s{s}")
            }
            2 => {
                self.reference.cancel(s, self.rig.now().mono + Duration::from_secs(5));
                self.command(client::Command::Cancel { session });
                format!("cancel s{s}")
            }
            3 | 4 => {
                let option = if which == 3 { "yes" } else { "maybe" };
                if let Some(request) = self.keys.get(&id).copied() {
                    self.reference.answer(id, option);
                    let outcome = PermissionOutcome::selected(option);
                    self.command(client::Command::Answer { request, outcome });
                }
                format!("answer {id} with {option}")
            }
            5 | 6 if !self.reference.asked.iter().any(|(open, _)| *open == id) => {
                self.reference.ask(s, id);
                self.rig.hear(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"s{s}","toolCall":{{"toolCallId":"{id}"}},"options":[{{"optionId":"yes","name":"Yes","kind":"allow_once"}}]}}}}"#
                ));
                format!("the agent asks {id} on s{s}")
            }
            5..=7 => {
                self.reference.agent_withdraws(id);
                self.rig.hear(&format!(
                    r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
                ));
                format!("the agent withdraws {id}")
            }
            8 | 9 => {
                let id = 3 + number(dice, self.reference.next_id - 2);
                let (outcome, end) = if which == 8 {
                    (r#""result":{"stopReason":"end_turn"}"#, "end_turn")
                } else {
                    (r#""error":{"code":-32800,"message":"m"}"#, "error -32800")
                };
                self.reference.answered(id, end);
                self.rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
                format!("the agent answers {id} with {end}")
            }
            10 => {
                self.reference.text(s);
                self.rig.hear(&format!(
                    r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s{s}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"t"}}}}}}}}"#
                ));
                format!("the agent speaks on s{s}")
            }
            _ => {
                self.rig.wait(Duration::from_secs(2));
                self.reference.tick(self.rig.now().mono);
                "2 s pass".to_owned()
            }
        }
    }

    fn command(&mut self, command: client::Command) {
        if let Err(refused) = self.rig.command(command) {
            self.refused.push(format!("refused: {refused:?}"));
        }
    }
}

fn client_wrote(line: &str) -> String {
    let json: Value = serde_json::from_str(line).expect("lines are JSON");
    let session = json["params"]["sessionId"].as_str().unwrap_or_default();
    match json["method"].as_str() {
        Some("session/prompt") => format!("prompt {} {session}", json["id"]),
        Some("session/cancel") => format!("cancel {session}"),
        Some(other) => other.to_owned(),
        None => {
            let outcome = &json["result"]["outcome"];
            let chosen = outcome["optionId"].as_str().or(outcome["outcome"].as_str()).unwrap_or(line);
            format!("answer {} {chosen}", json["id"])
        }
    }
}

fn client_told(event: &client::Event, keys: &mut BTreeMap<u64, RequestKey>) -> Option<String> {
    if let client::Event::PermissionAsked(asked) = event {
        let id = asked.asked.tool_call.tool_call_id.parse().expect("a number");
        keys.insert(id, asked.request);
        Some(format!("asked {id}"))
    } else if let client::Event::Withdrawn(key) = event {
        let id = keys.iter().find(|(_, of)| *of == key).map(|(id, _)| *id);
        Some(format!("withdrawn {}", id.expect("a question")))
    } else if let client::Event::TurnEnded(ended) = event {
        let end = match &ended.end {
            Ok(stopped) => stopped.reason.as_str().to_owned(),
            Err(Failure::Rpc(RpcError { code, .. })) => format!("error {code}"),
            Err(Failure::Unconfirmed { .. }) => "unconfirmed".to_owned(),
            Err(other) => format!("{other:?}"),
        };
        Some(format!("end {} {end}", ended.tag.0))
    } else if let client::Event::Text(text) = event {
        Some(format!("text {} {:?}", text.session, text.moment))
    } else {
        // Orphans are noticed, and that is all.
        assert!(matches!(event, client::Event::Noticed(_)), "{event:?}");
        None
    }
}

/// A turn as the agent's reference has it.
#[derive(Clone, Copy, Debug)]
struct Prompted {
    /// The client's id of the prompt, also the name of the turn here.
    id: u64,
    s: usize,
    cancelled: bool,
}

/// Turns of two sessions, as an agent has them.
#[derive(Debug, Default)]
struct AgentReference {
    turns: Vec<Prompted>,
    /// Open questions: our number and the turn.
    asked: Vec<(u64, u64)>,
    next_id: u64,
    out: Outcome,
}

impl AgentReference {
    fn prompted(&mut self, s: usize, id: u64) {
        if self.turns.iter().any(|turn| turn.s == s) {
            self.out.write(format!("error {id} -32600"));
        } else {
            self.turns.push(Prompted { id, s, cancelled: false });
            self.out.tell(format!("prompted {id}"));
        }
    }

    fn cancel(&mut self, which: impl Fn(&Prompted) -> bool) {
        if let Some(turn) = self.turns.iter_mut().find(|turn| which(turn) && !turn.cancelled) {
            turn.cancelled = true;
            self.out.tell(format!("cancelled {}", turn.id));
        }
    }

    fn say(&mut self, id: u64) {
        match self.turns.iter().find(|turn| turn.id == id) {
            Some(turn) => self.out.write(format!("text s{}", turn.s)),
            None => self.out.tell("refused: Unknown".into()),
        }
    }

    fn ask(&mut self, id: u64) {
        match self.turns.iter().find(|turn| turn.id == id) {
            Some(turn) => {
                self.asked.push((self.next_id, id));
                self.out.write(format!("ask {} s{}", self.next_id, turn.s));
                self.next_id += 1;
            }
            None => self.out.tell("refused: Unknown".into()),
        }
    }

    fn answered(&mut self, number: u64, outcome: &str) {
        let before = self.asked.len();
        self.asked.retain(|(open, _)| *open != number);
        if self.asked.len() < before {
            self.out.tell(format!("answered {number} {outcome}"));
        }
    }

    fn end(&mut self, id: u64, end: &str) {
        let Some(at) = self.turns.iter().position(|turn| turn.id == id) else {
            return self.out.tell("refused: Unknown".into());
        };
        let turn = self.turns.remove(at);
        let asked: Vec<u64> = self.asked.iter().filter(|(_, of)| *of == id).map(|(n, _)| *n).collect();
        for number in asked {
            self.answered(number, "cancelled");
        }
        let end = if turn.cancelled { "cancelled" } else { end };
        self.out.write(format!("end {id} {end}"));
    }
}

/// Plays moves to an agent and to its reference.
///
/// # Panics
///
/// They differ.
pub fn agent(dice: &mut Dice<'_>) {
    let mut game = AgentGame {
        rig: Rig::<Agent>::with_sessions(agent::Config::on_stdio(), CLIENT_OFFERS, &["s0", "s1"]),
        reference: AgentReference::default(),
        keys: BTreeMap::new(),
        refused: Vec::new(),
    };
    let mut moves = Vec::new();
    for n in 0..40 {
        moves.push(game.play(n, dice));
        let written = game.rig.written().iter().map(|line| agent_wrote(line)).collect();
        let mut told = std::mem::take(&mut game.refused);
        told.extend(game.rig.told().iter().filter_map(|event| agent_told(event, &mut game.keys)));
        assert_eq!(Outcome { written, told }, std::mem::take(&mut game.reference.out), "{moves:#?}");
    }
}

struct AgentGame {
    rig: Rig<Agent>,
    reference: AgentReference,
    keys: BTreeMap<u64, TurnKey>,
    refused: Vec<String>,
}

impl AgentGame {
    /// Plays one move to both, and says which.
    fn play(&mut self, n: u64, dice: &mut Dice<'_>) -> String {
        let (which, s) = (dice.below(12), dice.below(2));
        let id = number(dice, n + 1);
        let turn = self.keys.get(&id).copied();
        match (which, turn) {
            (0 | 1, _) => {
                self.reference.prompted(s, n);
                self.rig.hear(&format!(
                    r#"{{"jsonrpc":"2.0","id":{n},"method":"session/prompt","params":{{"sessionId":"s{s}","prompt":[{{"type":"text","text":"{n}"}}]}}}}"#
                ));
                format!("prompt {n} on s{s}")
            }
            (2, _) => {
                self.reference.cancel(|turn| turn.s == s);
                self.rig.hear(&format!(
                    r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"s{s}"}}}}"#
                ));
                format!("cancel s{s}")
            }
            (3, _) => {
                self.reference.cancel(|turn| turn.id == id);
                self.rig.hear(&format!(
                    r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
                ));
                format!("withdraw {id}")
            }
            (4 | 5, _) => {
                let number = number(dice, self.reference.next_id + 1);
                let (outcome, word) = if which == 4 {
                    (r#""result":{"outcome":{"outcome":"selected","optionId":"yes"}}"#, "yes")
                } else {
                    (r#""error":{"code":-32800,"message":"m"}"#, "cancelled")
                };
                self.reference.answered(number, word);
                self.rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":{number},{outcome}}}"#));
                format!("the client answers {number} with {word}")
            }
            (6 | 7, Some(turn)) => {
                self.reference.say(id);
                self.command(agent::Command::Say { turn, speaker: Speaker::Agent, text: "t".into() });
                format!("say in {id}")
            }
            (8 | 9, Some(turn)) => {
                let tag = Tag(self.reference.next_id);
                self.reference.ask(id);
                let tool_call = ToolCallUpdate { tool_call_id: "c".into(), ..ToolCallUpdate::default() };
                let kind = OptionKind::AllowOnce;
                let options = vec![PermissionOption { option_id: "yes".into(), name: "Yes".into(), kind }];
                self.command(agent::Command::AskPermission {
                    tag,
                    of: turn.into(),
                    tool_call,
                    options,
                    meta: None,
                });
                format!("ask in {id}")
            }
            (10, Some(turn)) => {
                self.reference.end(id, "end_turn");
                self.command(agent::Command::EndTurn { turn, stopped: StopReason::EndTurn.into() });
                format!("end {id}")
            }
            (11, Some(turn)) => {
                self.reference.end(id, "-32603");
                self.command(agent::Command::FailTurn { turn, error: RpcError::new(-32603, "m") });
                format!("fail {id}")
            }
            (_, _) => "nothing".to_owned(),
        }
    }

    fn command(&mut self, command: agent::Command) {
        if let Err(refused) = self.rig.command(command) {
            self.refused.push(format!("refused: {refused:?}"));
        }
    }
}

fn agent_wrote(line: &str) -> String {
    let json: Value = serde_json::from_str(line).expect("lines are JSON");
    let session = json["params"]["sessionId"].as_str().unwrap_or_default();
    let id = &json["id"];
    match json["method"].as_str() {
        Some("session/update") => format!("text {session}"),
        Some("session/request_permission") => format!("ask {id} {session}"),
        Some(other) => other.to_owned(),
        None => match (json["result"]["stopReason"].as_str(), json["error"]["code"].as_i64()) {
            (Some(reason), _) => format!("end {id} {reason}"),
            // A prompt that is refused was no turn.
            (None, Some(-32600)) => format!("error {id} -32600"),
            (None, code) => format!("end {id} {}", code.unwrap_or_default()),
        },
    }
}

fn agent_told(event: &agent::Event, keys: &mut BTreeMap<u64, TurnKey>) -> Option<String> {
    let name = |turn: &TurnKey, keys: &BTreeMap<u64, TurnKey>| {
        keys.iter().find(|(_, of)| *of == turn).map(|(id, _)| *id).expect("a turn")
    };
    if let agent::Event::Prompted(prompted) = event {
        let id = prompted.prompt.first().and_then(ContentBlock::as_text).and_then(|text| text.parse().ok());
        let id = id.expect("a number");
        keys.insert(id, prompted.turn);
        Some(format!("prompted {id}"))
    } else if let agent::Event::Cancelled(turn) = event {
        Some(format!("cancelled {}", name(turn, keys)))
    } else if let agent::Event::PermissionAnswered(tag, outcome) = event {
        let word = match outcome {
            PermissionOutcome::Cancelled => "cancelled",
            PermissionOutcome::Selected { option_id } => option_id,
        };
        Some(format!("answered {} {word}", tag.0))
    } else {
        assert!(matches!(event, agent::Event::Noticed(_)), "{event:?}");
        None
    }
}

fn number(dice: &mut Dice<'_>, below: u64) -> u64 {
    u64::try_from(dice.below(usize::try_from(below).unwrap_or(1))).unwrap_or(0)
}
