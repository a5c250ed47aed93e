//! The demo agent: scripted, and able to misbehave.

mod door;
mod fault;
mod guest;
mod kept;
mod player;
pub(crate) mod runner;
mod script;
mod settings;

pub(crate) use fault::Fault;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::words::{Kind, Phase, Problem};
use agentline_blocking::{Driver, Given, Handle};
use agentline_core::Tag;
use agentline_core::acp::agent::{Command, Config, Event, Prompted, Reply, Requested, TurnKey, Wanted};
use agentline_core::acp::session::{
    AgentAuth, AgentCapabilities, Implementation, PromptCapabilities, SessionCapabilities, SessionSetup,
    SystemPromptSupport,
};
use agentline_core::acp::update::Speaker;
use agentline_core::acp::{Agent, ContentBlock, Json, SessionId};
use agentline_core::rpc::{RpcError, code};
use serde_json::json;

use crate::args::DemoAgent;
use crate::schema::is_again;
use door::Door;
use kept::Kept;
use player::{Note, Player};
use script::{Script, Step};
use settings::{Chosen, MODES};

/// Serves one client on stdin and stdout.
pub(crate) fn serve(args: &DemoAgent) -> Result<ExitCode, Problem> {
    if let Some(fault) = args.fault {
        return Ok(fault.play());
    }
    let script = args.script.as_deref().map(read).transpose()?.unwrap_or_default();
    let internal = |error: std::io::Error| Problem::new(Phase::Initialize, Kind::Internal, error.to_string());
    if let (true, Some(door)) = (args.log_in, &args.login) {
        return door::log_in(door);
    }
    let door = args.login.clone().map(Door::new);
    let kept = args.keep.as_deref().map(Kept::new).transpose().map_err(internal)?;
    let config = config(door.as_ref(), args.stored, kept.is_some());
    let mut driver = Driver::<Agent>::with_given(config, [Given::stdio()]).map_err(internal)?;
    crate::signals::on_each(driver.handle(), |agent, _| {
        let _ = agent.command(Command::Shutdown);
    })
    .map_err(internal)?;
    let agent = driver.handle();
    let sessions = kept.as_ref().map_or(0, Kept::newest);
    let (turns, setup, chosen, played, overloads) = (BTreeMap::new(), None, Chosen::default(), 0, 0);
    let mut demo = Demo { agent, script, door, kept, sessions, setup, turns, chosen, played, overloads };
    for event in driver.by_ref() {
        demo.on(event);
    }
    Ok(ExitCode::SUCCESS)
}

struct Demo {
    agent: Handle<Agent>,
    script: Script,
    /// The login that it wants.
    door: Option<Door>,
    /// Where its sessions outlive it.
    kept: Option<Kept>,
    sessions: u32,
    /// What the newest session came with.
    setup: Option<SessionSetup>,
    turns: BTreeMap<TurnKey, (Tag, Sender<Note>)>,
    /// What is chosen of what can be set.
    chosen: Chosen,
    played: u64,
    /// How often it was too busy.
    overloads: u32,
}

impl Demo {
    fn on(&mut self, event: Event) {
        match event {
            Event::Requested(asked) => self.answer(*asked),
            Event::Prompted(prompted) => self.begin(*prompted),
            // A turn that has ended takes no more notes.
            Event::Cancelled(turn) => {
                if let Some((_, notes)) = self.turns.get(&turn) {
                    let _ = notes.send(Note::Cancelled);
                }
            }
            Event::TurnOver(turn) => drop(self.turns.remove(&turn)),
            Event::PermissionAnswered(tag, outcome) => {
                if let Some((_, notes)) = self.turns.values().find(|(of, _)| *of == tag) {
                    let _ = notes.send(Note::Answered(outcome));
                }
            }
            Event::Served(tag, answer) => {
                if let Some((_, notes)) = self.turns.values().find(|(of, _)| *of == tag) {
                    let _ = notes.send(Note::Served(answer));
                }
            }
            Event::Drained => self.go_on(),
            Event::Initialized(_)
            | Event::Withdrawn(_)
            | Event::Crowded
            | Event::Notified(_)
            | Event::Noticed(_)
            | Event::Closed(_) => {}
        }
    }

    fn answer(&mut self, Requested { request, wanted }: Requested) {
        let wrong = |why: String| RpcError::invalid_params(why);
        let reply = match wanted {
            Wanted::NewSession(_) if self.door.as_ref().is_some_and(Door::is_shut) => {
                Err(RpcError::new(code::AUTH_REQUIRED, "log in first"))
            }
            Wanted::NewSession(setup) => {
                self.setup = Some(setup);
                self.sessions += 1;
                let session = SessionId::from(&*format!("demo-{}", self.sessions));
                self.kept.iter().for_each(|kept| kept.begin(&session));
                Ok(Reply::SessionOpened { session, state: self.chosen.state() })
            }
            Wanted::LoadSession(session, setup) => self.load(session, setup),
            Wanted::SetMode(_, mode) if MODES.contains(&&*mode) => Ok(Reply::Done),
            Wanted::SetMode(_, mode) => Err(wrong(format!("no mode {mode}"))),
            Wanted::SetOption(_, option, value) => match self.chosen.set(&option, value) {
                true => Ok(Reply::Options(self.chosen.options())),
                false => Err(wrong(format!("no such value of {option}"))),
            },
            Wanted::Authenticate(method) => match &mut self.door {
                Some(door) => door.open(&method).map(|()| Reply::Done),
                None => Err(wrong(format!("no login {method}"))),
            },
            Wanted::Logout => match &mut self.door {
                Some(door) => door.close().map(|()| Reply::Done),
                None => Err(wrong("no login".into())),
            },
            Wanted::ListSessions { cursor, .. } => Ok(Reply::Sessions(
                serde_json::from_str(STORED[usize::from(cursor.is_some())]).unwrap_or_default(),
            )),
            Wanted::DeleteSession(_) => Ok(Reply::Done),
            Wanted::ResumeSession(..) | Wanted::CloseSession(_) | Wanted::Extension(..) => {
                Err(wrong("the demo agent does not do that".into()))
            }
        };
        let command = match reply {
            Ok(reply) => Command::Reply { request, reply },
            Err(error) => Command::Fail { request, error },
        };
        // Refused only when the client is gone.
        let _ = self.agent.command(command);
    }

    /// Tells what was said in a session before.
    fn load(&mut self, session: SessionId, setup: SessionSetup) -> Result<Reply, RpcError> {
        let said = self.kept.as_ref().and_then(|kept| kept.read(&session));
        let said = said.ok_or_else(|| RpcError::new(code::NOT_FOUND, format!("no session {session}")))?;
        self.setup = Some(setup);
        for (speaker, text) in said {
            let session = session.clone();
            // Refused only when the client is gone.
            let _ = self.agent.command(Command::Tell { session, speaker, text, message: None });
        }
        Ok(Reply::SessionOpened { session, state: self.chosen.state() })
    }

    /// Wakes whoever waits for room, and forgets the turns that are over: nobody takes their notes.
    fn go_on(&mut self) {
        self.turns.retain(|_, (_, notes)| notes.send(Note::Drained).is_ok());
    }

    fn begin(&mut self, Prompted { turn, session, prompt, .. }: Prompted) {
        self.go_on();
        self.played += 1;
        let tag = Tag(self.played);
        let said = text(&prompt);
        let steps = match (&*said, &self.setup) {
            ("where", Some(setup)) => vec![Step::Say(about(setup))],
            ("settings", _) => vec![Step::Say(self.chosen.to_string())],
            (prompt, _) if is_again(prompt) && self.script.is_empty() => vec![Step::Say(JSON.into())],
            (prompt, _) => self.overload(prompt).unwrap_or_else(|| self.script.steps(prompt)),
        };
        let kept = self.kept.clone();
        kept.iter().for_each(|kept| kept.add(&session, Speaker::User, &said));
        let (notes, inbox) = channel();
        let cwd = self.setup.as_ref().map(|setup| setup.cwd.clone()).unwrap_or_default();
        let player = Player {
            agent: self.agent.clone(),
            turn,
            session,
            delegate: None,
            cwd,
            tag,
            notes: inbox,
            tools: 0,
            kept,
        };
        self.turns.insert(turn, (tag, notes));
        thread::spawn(move || player.play(&steps));
    }

    /// `overload N`: it is too busy the first N times that it is asked, and then it answers.
    fn overload(&mut self, prompt: &str) -> Option<Vec<Step>> {
        let times = prompt.strip_prefix("overload ")?.trim().parse().ok()?;
        if self.overloads >= times {
            return Some(vec![Step::Say(format!("Now I have time, after {times} times.\n"))]);
        }
        self.overloads += 1;
        let data = Some(Json::new(&json!({ "retryAfterMs": 100 })));
        Some(vec![Step::Error(RpcError { data, ..RpcError::new(529, "Overloaded") })])
    }
}

fn config(door: Option<&Door>, stored: bool, loads: bool) -> Config {
    let prompt_capabilities = PromptCapabilities { image: true, audio: false, embedded_context: true };
    Config {
        info: Some(Implementation {
            name: "agentline-demo".into(),
            title: Some("demo agent".into()),
            version: env!("CARGO_PKG_VERSION").into(),
        }),
        capabilities: AgentCapabilities {
            load_session: loads,
            prompt_capabilities,
            session_capabilities: SessionCapabilities {
                list: stored,
                delete: stored,
                additional_directories: true,
                system_prompt: Some(SystemPromptSupport::default()),
                ..SessionCapabilities::default()
            },
            auth: AgentAuth { logout: door.is_some() },
            ..AgentCapabilities::default()
        },
        auth_methods: door.map(Door::methods).unwrap_or_default(),
        ..Config::on_stdio()
    }
}

/// What is said where a first answer did not fit.
const JSON: &str = r#"{"name": "agentline", "channels": 5}"#;

/// Sessions from before, a page each.
const STORED: [&str; 2] = [
    r#"{"sessions":[{"sessionId":"old-1","cwd":"/w","title":"Fix the login","updatedAt":"2026-11-30T10:00:00Z"}],"nextCursor":"2"}"#,
    r#"{"sessions":[{"sessionId":"old-2","cwd":"/w","updatedAt":"2026-11-29T10:00:00Z"}]}"#,
];

/// What a session came with beside its workspace.
fn about(setup: &SessionSetup) -> String {
    let system = setup.system_prompt.iter().flat_map(|prompt| &prompt.content);
    let system: Vec<&str> = system.filter_map(ContentBlock::as_text).collect();
    let folders = setup.additional_directories.join(" ");
    format!("folders: {folders}\ninstructions: {}\n", system.join(" "))
}

/// The prompt in words; what is no text is named.
fn text(prompt: &[ContentBlock]) -> String {
    let words = prompt.iter().map(|block| match block {
        ContentBlock::Text(content) => content.text.clone(),
        ContentBlock::Image(image) => format!("[{}, {} bytes of base64]", image.mime_type, image.data.len()),
        ContentBlock::ResourceLink(link) => format!("[link to {}]", link.name),
        ContentBlock::Audio(_) | ContentBlock::Resource(_) | ContentBlock::Unknown(_) => {
            format!("[{}]", block.tag())
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn read(path: &Path) -> Result<Script, Problem> {
    let usage = |why: String| Problem::new(Phase::Usage, Kind::Usage, format!("{}: {why}", path.display()));
    let bytes = crate::prompt::read("--script", path, crate::prompt::TEXT)?;
    serde_json::from_slice(&bytes).map_err(|error| usage(error.to_string()))
}
