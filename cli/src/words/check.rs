//! A check as people and programs read it.

use std::sync::Arc;

use agentline_core::acp::client::{Moment, Ready, Text};
use agentline_core::acp::session::{AuthMethod, Implementation};
use agentline_core::acp::update::{Speaker, ToolCallUpdate, Update};
use agentline_core::check::passed;
use agentline_core::subagent::{Event, Finished};
use serde::Serialize;

use super::{Ended, Language, Phase, Problem, command_line};
use crate::consent::Row;
use crate::failure::Advice;
use crate::output::{EndedTool, Tools, plain, ran_unasked};

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
        /// What decides about permissions in a run, where there are rules.
        #[serde(skip_serializing_if = "<[Row]>::is_empty")]
        permissions: &'a [Row],
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
    pub(crate) fn check(
        id: Option<&'a str>,
        command: &'a [String],
        ready: &'a Ready,
        permissions: &'a [Row],
    ) -> Self {
        Self::Check {
            id,
            command,
            protocol_version: ready.protocol_version,
            load_session: ready.capabilities.load_session,
            images: ready.capabilities.prompt_capabilities.image,
            session_list: ready.capabilities.session_capabilities.list,
            auth_methods: &ready.auth_methods,
            agent_info: ready.agent_info.as_ref(),
            permissions,
        }
    }

    /// The last object.
    pub(crate) fn result(Ended { finished, problem, .. }: &'a Ended) -> Self {
        let ok = passed(finished);
        let error = problem.as_ref().filter(|_| !ok);
        Self::Result { ok, stop_reason: finished.stop_reason.as_deref(), error }
    }
}

/// A check as people read it: whole lines, but for the agent's text, which is written as it comes.
#[derive(Debug)]
pub(crate) struct Lines {
    language: Language,
    tools: Tools,
    text: At,
}

/// Where the agent's text is.
#[derive(Debug)]
enum At {
    /// Not there.
    Nowhere,
    /// In a message, and whether at the beginning of a line.
    Message { id: Option<Arc<str>>, line: bool },
}

impl Lines {
    pub(crate) fn new(language: Language) -> Self {
        Self { language, tools: Tools::default(), text: At::Nowhere }
    }

    /// What decides about permissions in a run, one after the other.
    pub(crate) fn permits(&self, rows: &[Row]) -> String {
        let words = Words::of(self.language);
        rows.iter()
            .map(|row| words.line(words.permits, &format!("{:<7} {}", row.then, row.about())))
            .collect()
    }

    /// What is printed of an event.
    pub(crate) fn told(&mut self, event: &Event) -> String {
        let words = Words::of(self.language);
        let lines = match event {
            Event::Text(piece) => return self.text(piece),
            Event::Ready(ready) => words.ready(ready),
            Event::SessionOpened(opened) => words.line(words.session, opened.session.as_str()),
            Event::Updated(updated) => self.updated(&updated.update),
            Event::PermissionDecided(decision) => {
                self.tools.decided(&decision.tool_call_id, false);
                let asked = decision.title.as_deref().unwrap_or(&decision.tool_call_id);
                words.line(words.permission, &format!("{asked} ({})", words.cancelled))
            }
            Event::Finished(_)
            | Event::Started(_)
            | Event::Line(_)
            | Event::PermissionAsked(_)
            | Event::Listed(_)
            | Event::QuestionAsked(_)
            | Event::QuestionDecided(_)
            | Event::PageDone(_)
            | Event::FileWanted(_)
            | Event::Hosted(_)
            | Event::Retrying(_)
            | Event::Answered(_)
            | Event::Stderr(_)
            | Event::Noticed(_)
            | Event::Closed(_) => String::new(),
        };
        if lines.is_empty() { lines } else { self.end_text() + &lines }
    }

    /// The last lines of a check: the agent's own word for the end of the turn, if there was one, and whether it can be
    /// used.
    pub(crate) fn ended(&mut self, finished: &Finished) -> String {
        let words = Words::of(self.language);
        let mut text = self.end_text();
        if let Some(reason) = &finished.stop_reason {
            text += &words.line(words.stopped, reason);
        }
        if let Some(verdict) = words.verdict.filter(|_| passed(finished)) {
            let unasked = self.tools.ran_unasked();
            let ran = if unasked == 0 { String::new() } else { format!("; it {}", ran_unasked(unasked)) };
            text += &words.line(verdict, &format!("usable{ran}"));
        }
        text
    }

    /// What is printed of a check that failed, to standard error: what went wrong, what came instead, and what to
    /// try next. Nothing when it passed.
    pub(crate) fn failure(&self, ended: &Ended, advice: &Advice) -> Option<String> {
        let words = Words::of(self.language);
        if passed(&ended.finished) {
            return None;
        }
        let Some(problem) = &ended.problem else {
            return Some(format!("{}{}", words.failed, words.cancelled));
        };
        let mut text = format!("{}{}", words.failed, plain(&problem.message));
        if let (Phase::Spawn | Phase::Initialize, Some(command)) = (problem.phase, &advice.start.command) {
            text += &format!("\n  {}{}", words.command, plain(&command_line(command)));
        }
        for line in problem.stderr_tail.iter().flat_map(|tail| tail.lines()) {
            text += &format!("\n  stderr: {}", plain(line));
        }
        for line in advice.withheld(problem) {
            text += &format!("\n  {line}");
        }
        if let Some(hint) = &problem.hint {
            text += &format!("\n  {}{}", words.hint, plain(hint));
        }
        Some(text)
    }

    fn text(&mut self, piece: &Text) -> String {
        let Text { speaker: Speaker::Agent, moment: Moment::Turn, text, message, .. } = piece else {
            return String::new();
        };
        if text.is_empty() {
            return String::new();
        }
        let goes_on = matches!(&self.text, At::Message { id, .. } if id == message);
        let mut said = if goes_on { String::new() } else { self.end_text() + "agent: " };
        said += &by_line(text);
        self.text = At::Message { id: message.clone(), line: text.ends_with('\n') };
        said
    }

    /// Ends the line that the agent's text is in.
    fn end_text(&mut self) -> String {
        match std::mem::replace(&mut self.text, At::Nowhere) {
            At::Message { line: false, .. } => "\n".to_owned(),
            At::Message { line: true, .. } | At::Nowhere => String::new(),
        }
    }

    /// A line for a call when it is new, and one more when it failed.
    fn updated(&mut self, update: &Update) -> String {
        let words = Words::of(self.language);
        let Some(news) = update.tool_call() else { return String::new() };
        let id = news.tool_call_id.clone();
        let is_new = self.tools.learn(news);
        let title = self.tools.get(&id).map(title).unwrap_or_default();
        let failed = self.tools.ended(&id).filter(|ended| ended.failed && !ended.refused);
        let begun = if is_new { words.line(words.tool, &title) } else { String::new() };
        let why = |ended: EndedTool| {
            ended.why.map_or_else(|| words.broken.to_owned(), |why| format!("{}: {why}", words.broken))
        };
        let ended = failed.map(|ended| words.line(words.tool, &format!("{title} ({})", why(ended))));
        begun + &ended.unwrap_or_default()
    }
}

fn title(call: &ToolCallUpdate) -> String {
    let title = call.title.as_deref().filter(|title| !title.is_empty());
    title.or(call.kind.as_ref().map(|kind| kind.as_str())).unwrap_or(&call.tool_call_id).to_owned()
}

/// Text of the agent keeps its own line ends.
fn by_line(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// The words of a language; the Chinese ones are those of BotBus, byte for byte, where it has them.
struct Words {
    version: &'static str,
    images: &'static str,
    logins: &'static str,
    /// After the number of them.
    logins_unit: Option<&'static str>,
    yes: &'static str,
    no: &'static str,
    session: &'static str,
    permits: &'static str,
    tool: &'static str,
    permission: &'static str,
    cancelled: &'static str,
    stopped: &'static str,
    /// Of a tool.
    broken: &'static str,
    /// Only where there is a word for it: the lines of BotBus end with the one before.
    verdict: Option<&'static str>,
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
            self.line(self.logins, &self.login_methods(&ready.auth_methods)),
        ]
        .concat()
    }

    /// How many, and where the language leaves room for it, which.
    fn login_methods(&self, methods: &[AuthMethod]) -> String {
        let name = |method: &AuthMethod| {
            if method.name.is_empty() { method.id.clone() } else { method.name.clone() }
        };
        let names: Vec<String> = methods.iter().take(NAMED).map(name).collect();
        let more = if methods.len() > NAMED { ", …" } else { "" };
        match self.logins_unit {
            None if !names.is_empty() => format!("{} ({}{more})", methods.len(), names.join(", ")),
            unit => format!("{}{}", methods.len(), unit.unwrap_or_default()),
        }
    }

    fn line(&self, word: &str, text: &str) -> String {
        format!("{word}: {}\n", by_line(text))
    }
}

/// Login methods that are named.
const NAMED: usize = 8;

const ENGLISH: Words = Words {
    version: "protocol version",
    images: "images",
    logins: "login methods",
    logins_unit: None,
    yes: "yes",
    no: "no",
    session: "session",
    permits: "a run permits",
    tool: "tool",
    permission: "permission",
    cancelled: "cancelled",
    stopped: "stop reason",
    broken: "failed",
    verdict: Some("verdict"),
    failed: "failed: ",
    command: "command: ",
    hint: "try: ",
};

const CHINESE: Words = Words {
    version: "ACP 协议版本",
    images: "图片",
    logins: "登录方式",
    logins_unit: Some(" 种"),
    yes: "是",
    no: "否",
    session: "会话",
    permits: "运行时权限",
    tool: "工具",
    permission: "审批",
    cancelled: "cancelled",
    stopped: "结束原因",
    broken: "失败",
    verdict: None,
    failed: "失败：",
    command: "命令：",
    hint: "建议：",
};
