//! The properties of ACP.

use agentline_core::acp::Notice;
use agentline_core::acp::agent::Agent;
use agentline_core::acp::client::{self, Client};
use agentline_core::{Machine, Now, Open};

use crate::acp::play::{AGENT, CLIENT, agent_config, client_config, play, stream};
use crate::acp::rig::Rig;
use crate::acp::{AgentAudit, ClientAudit, model, pair};
use crate::dice::Dice;
use crate::invariants::{Checked, Checks};

/// A client keeps its invariants, whatever its agent, its runtime and its application do.
pub fn acp_client(data: &[u8]) {
    let mut dice = Dice::new(data);
    let manner = Manner::roll(&mut dice);
    if manner == Manner::Model {
        return model::client(&mut dice);
    }
    let config = client_config(&mut dice);
    let audit = ClientAudit::within(&config.limits);
    let client = Checked::around(Client::new(Now::default(), config), CHECKS).and_refusals().and(audit);
    match manner {
        Manner::Stream => stream(&mut { client }, dice.rest(), &CLIENT, &mut |_| {}),
        Manner::Play | Manner::Model => play(&mut { client }, &mut dice, &CLIENT, &mut |_| {}),
    }
}

/// An agent keeps its invariants, whatever its client, its runtime and its application do.
pub fn acp_agent(data: &[u8]) {
    let mut dice = Dice::new(data);
    let manner = Manner::roll(&mut dice);
    if manner == Manner::Model {
        return model::agent(&mut dice);
    }
    let config = agent_config(&mut dice);
    let audit = AgentAudit::within(&config.limits);
    let agent = Checked::around(Agent::new(Now::default(), config), CHECKS).and_refusals().and(audit);
    match manner {
        Manner::Stream => stream(&mut { agent }, dice.rest(), &AGENT, &mut |_| {}),
        Manner::Play | Manner::Model => play(&mut { agent }, &mut dice, &AGENT, &mut |_| {}),
    }
}

/// What is made of the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Manner {
    /// Moves of everybody.
    Play,
    /// What the peer writes.
    Stream,
    /// Moves in a game against the reference.
    Model,
}

impl Manner {
    fn roll(dice: &mut Dice<'_>) -> Self {
        *dice.pick(&[Self::Play, Self::Play, Self::Stream, Self::Model])
    }
}

/// A client and an agent in a faulty world keep theirs, and nobody is left behind.
pub fn acp_pair(data: &[u8]) {
    pair::faulty(data, data.len() % 3);
}

/// A line means the same whether it is read in one pass or by way of its envelope: with one member more, which
/// means nothing, no line is read in one pass.
pub fn one_pass(data: &[u8]) {
    let mut dice = Dice::new(data);
    let line = if dice.once_in(6) {
        String::from_utf8_lossy(dice.rest()).replace('\n', " ")
    } else {
        text_chunk(&mut dice)
    };
    let seen = |line: &str| -> Vec<String> {
        let mut rig = Rig::<Client>::with_sessions(client::Config::new(Open::Given(0)), &["s", "é"]);
        rig.hear(line);
        let written = rig.written();
        rig.told().into_iter().map(|event| format!("{:?}", without_start(event))).chain(written).collect()
    };
    let once = seen(&line);
    // What JSON takes for space; a form feed is none.
    let trimmed = |text: &'_ str| text.trim_start_matches([' ', '\t', '\r']).to_owned();
    let content = trimmed(line.strip_prefix('\u{feff}').unwrap_or(&line));
    match content.strip_prefix('{').map(trimmed) {
        Some(rest) if rest.starts_with('}') => assert_eq!(once, seen(&format!("{{\"_\":0{rest}")), "{line}"),
        Some(rest) => assert_eq!(once, seen(&format!("{{\"_\":0,{rest}")), "{line}"),
        None => assert!(!once.iter().any(|told| told.starts_with("Text")), "{line}: {once:?}"),
    }
}

/// An event without the excerpt of a bad line, which shows the member that was added.
fn without_start(event: client::Event) -> client::Event {
    if let client::Event::Noticed(notice) = &event
        && let Notice::BadLine { why, .. } = **notice
    {
        return client::Event::Noticed(Box::new(Notice::BadLine { why, start: String::new() }));
    }
    event
}

/// A text chunk as agents write it by the million, now and then with something odd about it.
fn text_chunk(dice: &mut Dice<'_>) -> String {
    let session = string(dice, &["s", "é", "other", "s"]);
    let said = text(dice);
    let content = object(dice, vec![("type", "\"text\"".into()), ("text", said)]);
    let kinds = ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "future"];
    let mut update = vec![("sessionUpdate", string(dice, &kinds)), ("content", content)];
    if dice.once_in(2) {
        let ids = ["\"m-1\"", "null", "5", "\"\\u006d-1\""];
        update.push(("messageId", (*dice.pick(&ids)).to_owned()));
    }
    let update = object(dice, update);
    let params = object(dice, vec![("sessionId", session), ("update", update)]);
    let method = string(dice, &["session/update", "session/update", "session/cancel"]);
    object(dice, vec![("jsonrpc", "\"2.0\"".into()), ("method", method), ("params", params)])
}

/// An object of these members; sometimes in another order, with one missing, twice or more, or as an array.
fn object(dice: &mut Dice<'_>, mut members: Vec<(&str, String)>) -> String {
    if dice.once_in(5) {
        let by = dice.below(members.len());
        members.rotate_left(by);
    }
    if dice.once_in(16) {
        members.remove(dice.below(members.len()));
    }
    if dice.once_in(16) {
        members.push(dice.pick(&members).clone());
    }
    if dice.once_in(16) {
        let more =
            [("_meta", "{}"), ("id", "1"), ("annotations", "null"), ("result", "1"), ("x", "\"\\ud800\"")];
        let (name, value) = *dice.pick(&more);
        members.push((name, value.to_owned()));
    }
    if dice.once_in(24) {
        let values: Vec<&str> = members.iter().map(|(_, value)| &**value).collect();
        return format!("[{}]", values.join(","));
    }
    let space = if dice.once_in(5) { " " } else { "" };
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| {
            let name = if dice.once_in(24) { name.replace('e', "\\u0065") } else { (*name).to_owned() };
            format!("{space}\"{name}\":{space}{value}{space}")
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

fn string(dice: &mut Dice<'_>, of: &[&str]) -> String {
    let text = *dice.pick(of);
    match dice.below(24) {
        23 => "null".to_owned(),
        22 => "7".to_owned(),
        21 => format!("\"{}\"", text.replace('s', "\\u0073")),
        _ => format!("\"{text}\""),
    }
}

fn text(dice: &mut Dice<'_>) -> String {
    match dice.below(12) {
        11 => "\"\\ud83c\\udf89 \\n\\u2028\"".to_owned(),
        10 => "\"\\ud800\"".to_owned(),
        9 => "5".to_owned(),
        _ => serde_json::to_string(&dice.text(12)).unwrap_or_default(),
    }
}

const CHECKS: Checks = Checks { json: true, line: 10_000, write: 500 };
