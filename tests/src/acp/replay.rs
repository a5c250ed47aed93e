//! Captures of real agents, played to a client: what the recorded client did is done again by ours, and what
//! the agent said is fed to it.

use std::collections::{BTreeMap, VecDeque};

use agentline_core::acp::client::{Client, Command, Config, Event, Failure, Which};
use agentline_core::acp::session::ConfigValue;
use agentline_core::acp::{
    ContentBlock, Json, Notice, PermissionOutcome, RequestKey, SessionId, SessionSetup,
};
use agentline_core::{Exit, Heard, Open, Tag};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::rig::Rig;
use crate::transcripts::{Capture, Captured, Direction};

/// A run of a real agent and what our client made of it.
#[derive(Clone, Debug)]
pub struct Played {
    /// Of which capture.
    pub name: String,
    /// Every line of the agent, in order.
    pub lines: Vec<Said>,
    /// What it wrote to standard error, as our client told it.
    pub stderr: String,
    /// What was told when the agent was gone.
    pub end: Vec<Event>,
}

/// A line of an agent and what came of it.
#[derive(Clone, Debug)]
pub struct Said {
    /// The line as it was recorded.
    pub line: String,
    /// What our client told.
    pub told: Vec<Event>,
    /// What it wrote.
    pub written: Vec<String>,
}

impl Played {
    /// All events, in order.
    pub fn told(&self) -> impl Iterator<Item = &Event> {
        self.lines.iter().flat_map(|said| &said.told).chain(&self.end)
    }

    /// How often each kind of thing was said, in the terms of `scripts/count_events.py`.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for said in &self.lines {
            for kind in
                said.told.iter().flat_map(kinds).chain(said.written.iter().filter_map(|line| refused(line)))
            {
                *counts.entry(kind).or_default() += 1;
            }
        }
        counts
    }
}

/// Plays a run to a client.
#[must_use]
pub fn play(capture: &Capture) -> Played {
    let mut player = Player {
        rig: Rig::client(Config::new(Open::Given(0))),
        ids: BTreeMap::new(),
        unsent: VecDeque::from([0]),
        questions: BTreeMap::new(),
        next_tag: 0,
    };
    player.rig.written();
    let (mut lines, mut stderr) = (Vec::new(), String::new());
    for captured in &capture.lines {
        if captured.remark().is_some() {
            continue;
        }
        match captured.dir {
            Direction::In => player.client_said(&captured.line),
            Direction::Out => lines.push(player.agent_said(captured)),
            Direction::Err => {
                player.rig.link(Heard::Stderr(format!("{}\n", captured.line).as_bytes()));
                for event in player.rig.told() {
                    assert!(matches!(&event, Event::Stderr(_)), "{event:?}");
                    if let Event::Stderr(text) = event {
                        stderr += &text;
                    }
                }
            }
        }
    }
    player.rig.told();
    player.rig.link(Heard::Exited(Exit::Code(0)));
    player.rig.link(Heard::Eof);
    Played { name: capture.name.clone(), lines, stderr, end: player.rig.told() }
}

struct Player {
    rig: Rig<Client>,
    /// Ids of the recorded client's requests, and those of ours.
    ids: BTreeMap<String, u64>,
    /// Our `initialize`, until the recorded client has sent its own.
    unsent: VecDeque<u64>,
    /// Open questions of the agent, by its id.
    questions: BTreeMap<String, RequestKey>,
    next_tag: u64,
}

/// The parts of a message that say what it is.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
}

impl Player {
    /// Does what the recorded client did, as far as ours would do such a thing.
    fn client_said(&mut self, line: &str) {
        let Ok(Head { id, method }) = serde_json::from_str(line) else { return };
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let id = id.map(|id| id.get().to_owned());
        match (method.as_deref(), id) {
            (Some("initialize"), Some(id)) => {
                if let Some(ours) = self.unsent.pop_front() {
                    self.ids.insert(id, ours);
                }
            }
            (Some(method), id) => {
                self.next_tag += 1;
                let command = command(method, Tag(self.next_tag), &message["params"]);
                if command.is_some_and(|command| self.rig.command(command).is_ok())
                    && let (Some(id), Some(ours)) = (id, self.last_id())
                {
                    self.ids.insert(id, ours);
                }
            }
            (None, Some(id)) => {
                if let Some(request) = self.questions.remove(&id) {
                    let outcome = serde_json::from_value(message["result"]["outcome"].clone());
                    let outcome = outcome.unwrap_or(PermissionOutcome::Cancelled);
                    let _ = self.rig.command(Command::Answer { request, outcome });
                }
            }
            (None, None) => {}
        }
        self.rig.written();
    }

    /// The id of the request that our client has just written.
    fn last_id(&mut self) -> Option<u64> {
        let line = self.rig.written().pop()?;
        let message: Value = serde_json::from_str(&line).ok()?;
        message["id"].as_u64()
    }

    fn agent_said(&mut self, captured: &Captured) -> Said {
        self.rig.hear(&self.translated(&captured.line));
        let said = Said { line: captured.line.clone(), told: self.rig.told(), written: self.rig.written() };
        for event in &said.told {
            if let Event::PermissionAsked(asked) = event
                && let Ok(Head { id: Some(id), .. }) = serde_json::from_str(&captured.line)
            {
                self.questions.insert(id.get().to_owned(), asked.request);
            }
        }
        said
    }

    /// A line of the agent with our id in place of the recorded client's; what answers nothing of ours names
    /// nothing of ours.
    fn translated(&self, line: &str) -> String {
        let Ok(Head { id: Some(id), method: None }) = serde_json::from_str::<Head<'_>>(line) else {
            return line.to_owned();
        };
        let token = id.get();
        let at = token.as_ptr().addr() - line.as_ptr().addr();
        let id = match self.ids.get(token) {
            Some(ours) => ours.to_string(),
            None if token == "null" => token.to_owned(),
            None => Json::new(&format!("not ours: {token}")).get().to_owned(),
        };
        format!("{}{id}{}", &line[..at], &line[at + token.len()..])
    }
}

/// The command of ours that sends such a request or notification.
fn command(method: &str, tag: Tag, params: &Value) -> Option<Command> {
    let text = |name: &str| params[name].as_str().map(str::to_owned);
    let session = || params["sessionId"].as_str().map(SessionId::from);
    let open = |which| Command::OpenSession { tag, which, setup: SessionSetup::in_directory("/w") };
    Some(match method {
        "authenticate" => Command::Authenticate { tag, method: text("methodId")? },
        "session/new" => open(Which::New),
        "session/load" => open(Which::Load(session()?)),
        "session/resume" => open(Which::Resume(session()?)),
        "session/list" => Command::ListSessions { tag, cwd: text("cwd"), cursor: text("cursor") },
        "session/close" => Command::CloseSession { tag, session: session()? },
        "session/set_mode" => Command::SetMode { tag, session: session()?, mode: text("modeId")? },
        "session/set_config_option" => Command::SetOption {
            tag,
            session: session()?,
            option: text("configId")?,
            value: ConfigValue::Id(text("value")?),
        },
        "session/prompt" => {
            Command::Prompt { tag, session: session()?, prompt: vec![ContentBlock::text("hello")] }
        }
        "session/cancel" => Command::Cancel { session: session()? },
        _ => return None,
    })
}

/// What an event is a sign of.
fn kinds(event: &Event) -> Vec<String> {
    let response = |more: Option<String>| std::iter::once("response".to_owned()).chain(more).collect();
    match event {
        Event::Text(text) => vec![format!("update.{}", text.speaker.tag())],
        Event::Updated(updated) => vec![format!("update.{}", updated.update.tag())],
        Event::PermissionAsked(_) => vec!["permission".to_owned()],
        Event::Notified(notified) => vec![format!("notification.{}", notified.method)],
        Event::Ready(_) | Event::Answered(..) | Event::Failed(..) => response(None),
        Event::TurnEnded(ended) => match &ended.end {
            Ok(stopped) => response(Some(format!("stop.{}", stopped.reason.as_str()))),
            Err(Failure::Rpc(_)) => response(Some("stop.error".to_owned())),
            Err(_) => vec!["turn that broke off".to_owned()],
        },
        Event::Noticed(notice) => vec![noticed(notice)],
        // An agent that refuses the handshake was answering it.
        Event::Closed(_) => response(None),
        Event::Line(_) | Event::Requested(_) | Event::Withdrawn(_) | Event::Stderr(_) => vec![],
    }
}

fn noticed(notice: &Notice) -> String {
    if let Notice::Orphan { .. } = notice {
        "response".to_owned()
    } else if let Notice::Complaint { .. } = notice {
        "complaint".to_owned()
    } else if let Notice::BadLine { .. } = notice {
        "bad_line".to_owned()
    } else if let Notice::UnknownSession(_) = notice {
        "unknown_session".to_owned()
    } else {
        format!("{notice:?}")
    }
}

/// A request that was refused at once.
fn refused(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let what = message["error"]["message"].as_str()?;
    Some(format!("request.{}", what.strip_prefix("method not found: ")?))
}
