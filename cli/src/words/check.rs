//! A check as people and programs read it.

use agentline_core::acp::client::{Moment, Ready, Text, Updated};
use agentline_core::acp::session::{AuthMethod, Implementation};
use agentline_core::acp::update::{Speaker, ToolCall, ToolCallUpdate, Update};
use agentline_core::check::passed;
use agentline_core::subagent::{Event, Finished};
use serde::Serialize;

use super::{Ended, Language, Phase, Problem, command_line};
use crate::output::plain;

/// A check as objects, one a line. Between them, with a prompt, come those of a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line<'a> {
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
    pub(crate) fn check(id: Option<&'a str>, command: &'a [String], ready: &'a Ready) -> Self {
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
    pub(crate) fn result(Ended { finished, problem, .. }: &'a Ended) -> Self {
        let ok = passed(finished);
        let error = problem.as_ref().filter(|_| !ok);
        Self::Result { ok, stop_reason: finished.stop_reason.as_deref(), error }
    }
}

/// What is printed of an event: whole lines, or nothing.
pub(crate) fn text(event: &Event, language: Language) -> String {
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
        Event::Finished(_)
        | Event::Started(_)
        | Event::Line(_)
        | Event::Text(_)
        | Event::PermissionAsked(_)
        | Event::Stderr(_)
        | Event::Noticed(_)
        | Event::Closed(_) => String::new(),
    }
}

/// The last line of a check: the agent's own word for the end of the turn, if there was one.
pub(crate) fn ended(finished: &Finished, language: Language) -> String {
    let words = Words::of(language);
    finished.stop_reason.as_ref().map_or_else(String::new, |reason| words.line(words.stopped, reason))
}

/// What is printed of a check that failed, to standard error: what went wrong, what came instead, and what to
/// try next. Nothing when it passed.
pub(crate) fn failure(ended: &Ended, command: &[String], language: Language) -> Option<String> {
    let words = Words::of(language);
    if passed(&ended.finished) {
        return None;
    }
    let Some(problem) = &ended.problem else { return Some(format!("{}{}", words.failed, words.cancelled)) };
    let mut text = format!("{}{}", words.failed, plain(&problem.message));
    if matches!(problem.phase, Phase::Spawn | Phase::Initialize) && !command.is_empty() {
        text += &format!("\n  {}{}", words.command, plain(&command_line(command)));
    }
    for line in problem.stderr_tail.iter().flat_map(|tail| tail.lines()) {
        text += &format!("\n  stderr: {}", plain(line));
    }
    if let Some(hint) = &problem.hint {
        text += &format!("\n  {}{}", words.hint, plain(hint));
    }
    Some(text)
}

/// The words of a language; the Chinese ones are those of BotBus, byte for byte, where it has them.
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
    command: &'static str,
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
        let text: Vec<_> = text.split('\n').map(plain).collect();
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
    command: "command: ",
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
    command: "命令：",
    hint: "建议：",
};
