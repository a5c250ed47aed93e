//! Whether an agent can be used: start it, shake hands, and if there is a prompt, run one turn.
//! BotBus has such a command (`docs/acp-agents.md`, 自查), whose lines these are.
//!
//! A check is a [`Run`](crate::subagent::Run) with nobody to ask: its [`plan`], and its events as people and
//! programs read them. The folder belongs to the caller, who removes it after [`Event::Closed`]: before that
//! the agent may still write to it.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::acp::client::{self, Moment, Ready, Text, Timeouts, Updated};
use crate::acp::session::{AuthMethod, Implementation};
use crate::acp::update::{Speaker, ToolCall, ToolCallUpdate, Update};
use crate::acp::{ContentBlock, SessionSetup};
use crate::discovery::{Language, plain};
use crate::machine::{Open, SpawnSpec, Stderr};
use crate::problem::Problem;
use crate::subagent::{Config, Event, Finished, Outcome, Policy};

/// What a run is to do to check an agent: in this folder, it shakes hands and opens a session, since many agents want
/// a login only then; and with a prompt it runs one turn.
///
/// It is given 10 s for the handshake, 60 s for the session and 300 s for the turn; it gets no MCP servers, and
/// whatever it asks permission for is answered `cancelled`.
#[must_use]
pub fn plan(agent: SpawnSpec, folder: &Path, prompt: Option<&str>) -> Config {
    let spec = SpawnSpec { cwd: folder.to_owned(), stderr: Stderr::Pipe, ..agent };
    let client = client::Config {
        info: Some(Implementation { name: "agentline".into(), version: "check".into(), title: None }),
        timeouts: Timeouts {
            initialize: Some(Duration::from_secs(10)),
            session: Some(Duration::from_secs(60)),
            turn: Some(Duration::from_secs(300)),
            ..Timeouts::default()
        },
        ..client::Config::new(Open::spawn(spec))
    };
    let setup = SessionSetup::in_directory(folder.to_string_lossy());
    Config {
        policy: Policy::Cancel,
        ..Config::new(client, setup, prompt.map(ContentBlock::text).into_iter().collect())
    }
}

/// Whether the agent can be used. A turn that ends by any word of the agent is as good as another.
#[must_use]
pub fn passed(finished: &Finished) -> bool {
    finished.stop_reason.is_some() || finished.outcome == Outcome::Completed
}

/// The exit code of a check that came to a result. A wrong command line is 2.
#[must_use]
pub fn exit_code(finished: &Finished) -> u8 {
    u8::from(!passed(finished))
}

/// A check as objects, one a line. Between them, with a prompt, come those of a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// What the agent says of itself.
    #[serde(rename_all = "camelCase")]
    Check {
        /// Its id, if it was found by one.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        /// Program and arguments.
        command: &'a [String],
        /// The version that is spoken.
        protocol_version: u16,
        /// Whether it loads old sessions.
        load_session: bool,
        /// Whether it takes images.
        images: bool,
        /// Whether it lists its sessions.
        session_list: bool,
        /// How to log in.
        auth_methods: &'a [AuthMethod],
        /// Who it is.
        agent_info: Option<&'a Implementation>,
    },
    /// The end.
    #[serde(rename_all = "camelCase")]
    Result {
        /// Whether the agent can be used.
        ok: bool,
        /// Its own word for the end of the turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<&'a str>,
        /// Why not.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Problem>,
    },
}

impl<'a> Line<'a> {
    /// The first object.
    #[must_use]
    pub fn check(id: Option<&'a str>, command: &'a [String], ready: &'a Ready) -> Self {
        Self::Check {
            id,
            command,
            protocol_version: ready.protocol_version,
            load_session: ready.capabilities.load_session,
            images: ready.capabilities.prompt_capabilities.image,
            session_list: ready.capabilities.session_capabilities.list,
            auth_methods: &ready.auth_methods,
            agent_info: ready.agent_info.as_ref(),
        }
    }

    /// The last object.
    #[must_use]
    pub fn result(finished: &'a Finished) -> Self {
        let ok = passed(finished);
        let error = finished.error.as_ref().filter(|_| !ok);
        Self::Result { ok, stop_reason: finished.stop_reason.as_deref(), error }
    }
}

/// What is printed of an event: whole lines, or nothing.
#[must_use]
pub fn text(event: &Event, language: Language) -> String {
    let words = Words::of(language);
    match event {
        Event::Ready(ready) => words.ready(ready),
        Event::SessionOpened(opened) => words.line(words.session, opened.session.as_str()),
        Event::Text(Text { speaker: Speaker::Agent, moment: Moment::Turn, text, .. }) if !text.is_empty() => {
            words.line("agent", text)
        }
        Event::Updated(updated) => words.updated(updated),
        Event::PermissionDecided(decision) => {
            let asked = decision.title.as_deref().unwrap_or(&decision.tool_call_id);
            words.line(words.permission, &format!("{asked} ({})", words.cancelled))
        }
        Event::Finished(finished) => {
            finished.stop_reason.as_ref().map_or_else(String::new, |reason| words.line(words.stopped, reason))
        }
        Event::Started(_)
        | Event::Line(_)
        | Event::Text(_)
        | Event::PermissionAsked(_)
        | Event::Stderr(_)
        | Event::Noticed(_)
        | Event::Closed(_) => String::new(),
    }
}

/// What is printed of a check that failed, to standard error: what went wrong, what came instead, and what to
/// try next. Nothing when it passed.
#[must_use]
pub fn failure(finished: &Finished, language: Language) -> String {
    let words = Words::of(language);
    if passed(finished) {
        return String::new();
    }
    let Some(problem) = &finished.error else { return format!("{}{}\n", words.failed, words.cancelled) };
    let mut text = format!("{}{}\n", words.failed, plain(&problem.message));
    for line in problem.stderr_tail.iter().flat_map(|tail| tail.lines()) {
        text += &format!("  stderr: {}\n", plain(line));
    }
    if let Some(hint) = &problem.hint {
        text += &format!("  {}{}\n", words.hint, plain(hint));
    }
    text
}

/// The words of a language; the Chinese ones are those that BotBus prints, byte for byte, where it has them.
struct Words {
    version: &'static str,
    images: &'static str,
    logins: &'static str,
    /// After the number of them.
    logins_unit: &'static str,
    yes: &'static str,
    no: &'static str,
    session: &'static str,
    tool: &'static str,
    permission: &'static str,
    cancelled: &'static str,
    stopped: &'static str,
    failed: &'static str,
    hint: &'static str,
}

impl Words {
    const fn of(language: Language) -> &'static Self {
        match language {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }

    fn ready(&self, ready: &Ready) -> String {
        let offers = &ready.capabilities;
        let yes_no = |yes| if yes { self.yes } else { self.no };
        [
            self.line(self.version, &ready.protocol_version.to_string()),
            self.line("loadSession", yes_no(offers.load_session)),
            self.line(self.images, yes_no(offers.prompt_capabilities.image)),
            self.line("session/list", yes_no(offers.session_capabilities.list)),
            self.line(self.logins, &format!("{}{}", ready.auth_methods.len(), self.logins_unit)),
        ]
        .concat()
    }

    fn updated(&self, updated: &Updated) -> String {
        let (title, kind, id) = match &updated.update {
            Update::ToolCall(ToolCall { title, kind, tool_call_id, .. }) => {
                (Some(title), Some(kind), tool_call_id)
            }
            Update::ToolCallUpdate(ToolCallUpdate { title, kind, tool_call_id, .. }) => {
                (title.as_ref(), kind.as_ref(), tool_call_id)
            }
            Update::Message(..)
            | Update::Plan(_)
            | Update::AvailableCommands(_)
            | Update::CurrentMode(_)
            | Update::ConfigOptions(_)
            | Update::SessionInfo(_)
            | Update::Usage(_)
            | Update::Other(_) => return String::new(),
        };
        let title = title.map(String::as_str).filter(|title| !title.is_empty());
        self.line(self.tool, title.or(kind.map(|kind| kind.as_str())).unwrap_or(id))
    }

    /// Text of the agent keeps its own line ends.
    fn line(&self, word: &str, text: &str) -> String {
        let text: Vec<String> = text.split('\n').map(plain).collect();
        format!("{word}: {}\n", text.join("\n"))
    }
}

const ENGLISH: Words = Words {
    version: "protocol version",
    images: "images",
    logins: "login methods",
    logins_unit: "",
    yes: "yes",
    no: "no",
    session: "session",
    tool: "tool",
    permission: "permission",
    cancelled: "cancelled",
    stopped: "stop reason",
    failed: "failed: ",
    hint: "try: ",
};

const CHINESE: Words = Words {
    version: "ACP 协议版本",
    images: "图片",
    logins: "登录方式",
    logins_unit: " 种",
    yes: "是",
    no: "否",
    session: "会话",
    tool: "工具",
    permission: "审批",
    cancelled: "cancelled",
    stopped: "结束原因",
    failed: "失败：",
    hint: "建议：",
};
