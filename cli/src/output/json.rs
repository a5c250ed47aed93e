//! For programs: one object a line, and nothing else on stdout.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::client::{Moment, Ready, Text};
use agentline_core::acp::session::{ConfigOption, SessionInfo, SessionModes};
use agentline_core::acp::update::{Chunk, Plan, PlanEntry, Speaker, ToolCall, ToolCallUpdate, Usage};
use agentline_core::acp::{ContentBlock, Notice, SessionId, Update};
use agentline_core::attach::presence::Attachment;
use agentline_core::chat;
use agentline_core::host::Hosted;
use agentline_core::problem::passing::Passing;
use agentline_core::rpc::to_json;
use agentline_core::subagent::{Decision, Decisions, Event, Outcome, QuestionDecided, Retrying};
use agentline_core::trace::Masks;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::foreign::Foreign;
use super::notes::Notes;
use super::out::Out;
use super::{Screen, Start};
use crate::failure::Advice;
use crate::words::{Ended, Problem, notice};

/// Objects on stdout; what the agent writes to stderr goes on to ours.
pub(crate) struct Json {
    out: Out,
    notes: Notes,
    foreign: Foreign,
    masks: Rc<Masks>,
    advice: Rc<Advice>,
    quiet: bool,
    /// Part of the result.
    warnings: Vec<String>,
}

/// The first line of a command.
pub(crate) fn object<T: Serialize>(kind: &'static str, body: &T) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct First<'a, T> {
        #[serde(rename = "type")]
        kind: &'static str,
        schema_version: u32,
        #[serde(flatten)]
        body: &'a T,
    }
    to_json(&First { kind, schema_version: 1, body }) + "\n"
}

/// A line that names its own type.
pub(crate) fn line<T: Serialize>(body: &T, first: bool) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole<'a, T> {
        #[serde(flatten)]
        body: &'a T,
        #[serde(skip_serializing_if = "Option::is_none")]
        schema_version: Option<u32>,
    }
    to_json(&Whole { body, schema_version: first.then_some(1) }) + "\n"
}

impl Json {
    pub(crate) fn new(notes: Notes, quiet: bool, advice: &Rc<Advice>) -> Self {
        if let Some(steps) = advice.next_steps().filter(|_| !quiet) {
            notes.line(&format!("◦ demo agent (built in: no model, no key); try: {}", steps.join(" · ")));
        }
        Self {
            out: Out::default(),
            foreign: Foreign::new(notes.clone(), advice),
            masks: Rc::clone(&advice.masks),
            advice: Rc::clone(advice),
            quiet,
            notes,
            warnings: Vec::new(),
        }
    }

    /// A whole line of somebody else.
    pub(crate) fn write(&mut self, line: &str) {
        self.out.write(line);
    }

    fn line(&mut self, line: &Line<'_>) {
        self.out.write(&(to_json(line) + "\n"));
    }

    /// Something that nobody understood. It may come first.
    pub(crate) fn noticed(&mut self, news: &Notice, first: bool) {
        let message = notice(news);
        let notice = Line::Notice { kind: news.kind(), message: &self.masks.text(&message) };
        self.out.write(&line(&notice, first));
    }

    fn retrying(&mut self, Retrying { attempt, most, after, why, failed }: &Retrying) {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let error = &self.advice.failed(failed);
        self.line(&Line::Retry { attempt: *attempt, most: *most, after_ms, why: *why, error });
    }

    fn text(&mut self, text: Text) {
        let Text { speaker, moment, text, message, .. } = text;
        match (speaker, moment) {
            (Speaker::Agent, Moment::Turn) => {
                self.line(&Line::Text { text: &text, message_id: message.as_deref() });
            }
            (Speaker::Thought, Moment::Turn) => {
                self.line(&Line::Thought { text: &text, message_id: message.as_deref() });
            }
            // What is not of this turn is no part of the answer.
            (Speaker::Agent | Speaker::Thought | Speaker::User, _) => {
                let message_id = message.map(|id| (*id).to_owned());
                let chunk = Chunk { content: ContentBlock::text(text), message_id, meta: None };
                self.line(&Line::Update { raw: &Update::Message(speaker, chunk) });
            }
        }
    }

    fn update(&mut self, moment: Moment, update: &Update) {
        self.line(&match (update, moment) {
            (Update::ToolCall(call), Moment::Turn) => Line::Tool(call),
            (Update::ToolCallUpdate(news), Moment::Turn) => Line::ToolNews(news),
            (Update::Plan(Plan { entries, .. }), Moment::Turn) => Line::Plan { entries },
            (Update::Usage(usage), _) => Line::Usage(usage),
            (
                Update::ToolCall(_)
                | Update::ToolCallUpdate(_)
                | Update::Plan(_)
                | Update::Message(..)
                | Update::AvailableCommands(_)
                | Update::CurrentMode(_)
                | Update::ConfigOptions(_)
                | Update::SessionInfo(_)
                | Update::Other(_),
                _,
            ) => Line::Update { raw: update },
        });
    }
}

impl Screen for Json {
    fn started(&mut self, start: &Start, pid: Option<u32>) {
        #[derive(Serialize)]
        struct Started<'a> {
            #[serde(flatten)]
            start: &'a Start,
            pid: Option<u32>,
        }
        self.out.write(&object("start", &Started { start, pid }));
    }

    fn dry_run(&mut self, start: &Start) {
        self.started(start, None);
        self.line(&Line::Nothing { outcome: "dry-run" });
    }

    fn warn(&mut self, warning: String) {
        self.notes.line(&format!("! {warning}"));
        self.warnings.push(warning);
    }

    fn before_question(&mut self) {}

    fn told(&mut self, event: Event) {
        match event {
            Event::Ready(ready) => self.line(&Line::Ready(&Said::of(&ready))),
            Event::SessionOpened(opened) => self.line(&Line::Session {
                session_id: &opened.session,
                modes: opened.state.modes.as_ref(),
                config_options: opened.state.config_options.as_deref(),
            }),
            Event::Text(text) => self.text(text),
            Event::Updated(updated) => match &updated.of {
                Some(of) => {
                    let (session_id, raw) = (&updated.session, &updated.update);
                    self.line(&Line::Subagent { session_id, of, raw });
                }
                None => self.update(updated.moment, &updated.update),
            },
            Event::PermissionDecided(decision) => self.line(&Line::Permission(&decision)),
            Event::QuestionDecided(decision) => self.line(&Line::Question(&decision)),
            Event::Hosted(hosted) => self.line(&Line::Hosted(&hosted)),
            Event::Retrying(retrying) => self.retrying(&retrying),
            Event::PageDone(id) => self.line(&Line::PageDone { id: &id }),
            Event::Listed(list) => list.sessions.iter().for_each(|session| self.line(&Line::Listed(session))),
            Event::Noticed(news) => self.noticed(&news, false),
            Event::Stderr(text) if !self.quiet => self.foreign.write(&text),
            Event::Started(_)
            | Event::Line(_)
            | Event::FileWanted(_)
            | Event::PermissionAsked(_)
            | Event::QuestionAsked(_)
            | Event::Answered(_)
            | Event::Stderr(_)
            | Event::Finished(_)
            | Event::Closed(_) => {}
        }
    }

    fn judged(&mut self, why: Option<&str>, left: u32) {
        let reason = why.map(|why| self.masks.text(why));
        self.line(&Line::Judged { fits: why.is_none(), reason: reason.as_deref(), left });
    }

    fn begun(&mut self, line: &chat::Line) {
        let from = match line.from {
            chat::Source::Keyboard => "keyboard",
            chat::Source::Outside(_) => "outside",
            chat::Source::Hub(_) => "hub",
        };
        self.line(&Line::Prompt { from, text: &line.text });
    }

    fn listening(&mut self, at: &Attachment) {
        self.line(&Line::Listening { socket: &at.attach_socket, peer_id: &at.peer_id });
    }

    fn finished(&mut self, Ended { finished, problem, json, .. }: &Ended, took: Duration) {
        self.foreign.end();
        let warnings = std::mem::take(&mut self.warnings);
        // It stays one line: between its parts a line end is a blank, and within a text there is none.
        let json = json.as_ref().map(|json| json.replace(['\n', '\r'], " "));
        self.line(&Line::Result {
            outcome: finished.outcome,
            stop_reason: finished.stop_reason.as_deref(),
            output: &finished.output,
            output_truncated: finished.output_truncated,
            messages: finished.messages().collect(),
            json: json.as_deref().and_then(|json| serde_json::from_str(json).ok()),
            permissions: &finished.permissions,
            permission_counts: finished.decisions,
            usage: finished.usage.as_ref(),
            error: problem.as_ref(),
            elapsed_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            warnings,
        });
        // An error comes again with the next flush.
        let _ = self.out.flush_surely();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn is_full(&self) -> bool {
        self.out.is_large()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Line<'a> {
    Ready(&'a Said<'a>),
    Session {
        session_id: &'a SessionId,
        modes: Option<&'a SessionModes>,
        config_options: Option<&'a [ConfigOption]>,
    },
    /// A turn of a conversation begins.
    Prompt {
        from: &'static str,
        text: &'a str,
    },
    /// Others can speak into the conversation.
    Listening {
        socket: &'a str,
        peer_id: &'a str,
    },
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<&'a str>,
    },
    Thought {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<&'a str>,
    },
    Tool(&'a ToolCall),
    #[serde(rename = "tool")]
    ToolNews(&'a ToolCallUpdate),
    Plan {
        entries: &'a [PlanEntry],
    },
    Permission(&'a Decision),
    /// Something was done for the agent.
    Hosted(&'a Hosted),
    /// A form or a page was answered.
    Question(&'a QuestionDecided),
    /// What was to be done at a page is done.
    PageDone {
        id: &'a str,
    },
    /// A session that the agent knows.
    #[serde(rename = "listed")]
    Listed(&'a SessionInfo),
    /// What failed is asked again.
    Retry {
        attempt: u32,
        most: u32,
        after_ms: u64,
        why: Passing,
        error: &'a Problem,
    },
    /// An answer was held to its schema.
    #[serde(rename = "answer")]
    Judged {
        fits: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        /// How often the agent can be asked again.
        left: u32,
    },
    /// Something that nobody understood.
    Notice {
        kind: &'static str,
        message: &'a str,
    },
    Usage(&'a Usage),
    Update {
        raw: &'a Update,
    },
    /// What an agent of the agent says or does, in a session of its own.
    Subagent {
        session_id: &'a SessionId,
        /// The session that it works for.
        of: &'a SessionId,
        raw: &'a Update,
    },
    /// The result of a run that was not to happen.
    #[serde(rename = "result")]
    Nothing {
        outcome: &'static str,
    },
    Result {
        outcome: Outcome,
        stop_reason: Option<&'a str>,
        output: &'a str,
        output_truncated: bool,
        messages: Vec<&'a str>,
        /// The last of them, as the JSON that was wanted.
        #[serde(skip_serializing_if = "Option::is_none")]
        json: Option<&'a RawValue>,
        permissions: &'a [Decision],
        permission_counts: Decisions,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<&'a agentline_core::acp::Json>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Problem>,
        elapsed_ms: u64,
        /// What of ours went wrong meanwhile.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
}

/// What the agent said of itself, in its own words.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Said<'a> {
    protocol_version: u16,
    agent_info: Option<&'a RawValue>,
    capabilities: Option<&'a RawValue>,
    auth_methods: Option<&'a RawValue>,
}

impl<'a> Said<'a> {
    fn of(ready: &'a Ready) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer<'a> {
            #[serde(borrow)]
            agent_info: Option<&'a RawValue>,
            #[serde(borrow)]
            agent_capabilities: Option<&'a RawValue>,
            #[serde(borrow)]
            auth_methods: Option<&'a RawValue>,
        }
        let answer: Answer<'_> = serde_json::from_str(ready.raw.get()).unwrap_or_default();
        Self {
            protocol_version: ready.protocol_version,
            agent_info: answer.agent_info,
            capabilities: answer.agent_capabilities,
            auth_methods: answer.auth_methods,
        }
    }
}
