//! What goes into a conversation and what comes out of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::errand::Errand;
use super::questions::{QuestionAsked, QuestionDecided, Questions, Reply};
use super::retry::Retrying;
use crate::acp::client::{self, PermissionAsked, Ready, Text, Updated};
use crate::acp::session::{AuthMethod, SessionList, SessionSetup, SessionState, Setting};
use crate::acp::{
    ContentBlock, Fault, Json, Notice, PermissionOption, PermissionOutcome, RequestKey, SessionId,
};
use crate::closed::Closed;
use crate::host::{self, FileError, FileWanted, Hosted};
use crate::machine::Peer;
use crate::problem::{Failed, Phase, RootCause};
use crate::rules::Rules;

/// What a conversation starts from: one child, one session.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The agent and the clocks of the connection.
    pub client: client::Config,
    /// What is hosted for the agent, and offered to it: the capabilities of [the client](Self::client) for files and
    /// terminals go by this.
    #[serde(default)]
    pub host: host::Config,
    /// The workspace and what goes with it.
    pub setup: SessionSetup,
    /// A new session or an old one.
    #[serde(default)]
    pub session: Choice,
    /// The history of an old session is to be told: it is loaded, where the agent can. Without, it is resumed, where the
    /// agent can: it goes on at once.
    #[serde(default)]
    pub transcript: bool,
    /// The id of a method to log in by, should the agent want a login before there is a session: used once, and what it
    /// refused is then asked again. Without, such a refusal is the end.
    #[serde(default)]
    pub login: Option<String>,
    /// What to set before the first prompt, in order. What cannot be set ends the conversation.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Who answers permission requests.
    #[serde(default)]
    pub policy: Policy,
    /// What decides about permissions before the policy does, and about what is [hosted](Self::host), which is allowed
    /// where no rule fits. A rule that asks asks where the policy or the
    /// [questions](Self::questions) do; elsewhere it rejects.
    #[serde(default)]
    pub rules: Rules,
    /// Who answers its other questions. They are asked only where [the client](client::Config::capabilities) offers
    /// elicitation.
    #[serde(default)]
    pub questions: Questions,
    /// What the agent may spend.
    #[serde(default)]
    pub budget: Budget,
    /// How often a request on the way to the session, and each prompt, is asked again if the agent's model is overloaded
    /// or cannot be reached. A prompt is so only as long as nothing came of it: no piece of the answer, no tool call, no
    /// question. Thoughts and plans may come twice. The waits are bounded, see [`Retrying::after`]; an agent that names
    /// more than ten minutes is not waited for.
    #[serde(default)]
    pub retries: u32,
    /// Bytes of the answer that are kept for the result of a turn; the beginning, when there is more. 16 MiB: longer
    /// ones are read as they stream.
    #[serde(default = "output")]
    pub output: usize,
}

const fn output() -> usize {
    16 << 20
}

impl Config {
    /// A new session, where whatever is asked is refused, with the default clocks.
    #[must_use]
    pub fn new(client: client::Config, setup: SessionSetup) -> Self {
        Self {
            client,
            host: host::Config::default(),
            setup,
            session: Choice::default(),
            transcript: false,
            login: None,
            settings: Vec::new(),
            policy: Policy::default(),
            rules: Rules::default(),
            questions: Questions::default(),
            budget: Budget::default(),
            retries: 0,
            output: output(),
        }
    }
}

/// Which session the prompt goes to.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// A session that begins empty.
    #[default]
    New,
    /// This one, loaded or resumed as the agent can and [the config](Config::transcript) wishes.
    Old(SessionId),
    /// The one of this workspace that changed last. An agent lists them by the folder's name as a text: these are
    /// other spellings of it, for when it has none by that of the setup.
    Last(Vec<String>),
    /// None: nothing can be said, and what is wanted is the handshake.
    Nowhere,
    /// None: something else is asked of the agent.
    Errand(Errand),
}

/// Who answers permission requests, and how.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The application, by [`Command::Answer`].
    Ask,
    /// The first option that allows, in the agent's order or once before always.
    Allow(Allow),
    /// The first that rejects once, else for good, else `cancelled`.
    #[default]
    Reject,
    /// As `Reject`, and that is the end of it.
    Fail,
    /// Nobody: always `cancelled`.
    Cancel,
}

/// Which option a permission is given by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allow {
    /// The first of either kind, as the agent lists them: what the published ACP subagent does.
    #[default]
    InOrder,
    /// The first that allows once, else the first that allows for good: what the command line does.
    OnceFirst,
}

/// What the application may ask.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Begin a turn. A resource becomes a link where the agent takes links only. Refused: `NotReady`, the session is not
    /// open yet; `Busy`, a turn runs; `Unknown`, there is no session and will be none.
    Prompt(Vec<ContentBlock>),
    /// Cancel the turn; harmless when repeated. Refused: `NotReady`, the session is not open yet; `Unknown`, nothing runs.
    Cancel,
    /// Answer a permission request.
    Answer {
        /// The key of the question, from [`Event::PermissionAsked`].
        request: RequestKey,
        /// An offered option, or `cancelled`.
        outcome: PermissionOutcome,
    },
    /// Answer any other question. What does not fit the form is refused, and the question stays open.
    Reply {
        /// The key of the question, from [`Event::QuestionAsked`].
        request: RequestKey,
        /// The answer, whose values have to fit the form.
        reply: Reply,
    },
    /// Say how a file was read or written.
    FileDone {
        /// The key, from [`Event::FileWanted`].
        request: RequestKey,
        /// What it holds, or nothing where it was written.
        done: Result<String, FileError>,
    },
    /// Leave. A turn that runs is aborted.
    Shutdown,
    /// The same, and the child is not waited for: SIGTERM at once, SIGKILL 0.2 s later. Also taken while we leave.
    Hasten,
}

/// What the application is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The child is there; nothing was said yet.
    Started(Peer),
    /// The handshake is done.
    Ready(Box<Ready>),
    /// The session is open.
    SessionOpened(Box<SessionOpened>),
    /// A page of the sessions that the agent knows.
    Listed(Box<SessionList>),
    /// A line of the agent, before what it means; only when the config asks.
    Line(String),
    /// A piece of text.
    Text(Text),
    /// Anything else about the session.
    Updated(Box<Updated>),
    /// A permission request for the application to answer.
    PermissionAsked(Box<PermissionAsked>),
    /// How a permission request was answered.
    PermissionDecided(Box<Decision>),
    /// A form or a page for the application to answer.
    QuestionAsked(Box<QuestionAsked>),
    /// How a form or a page was answered.
    QuestionDecided(Box<QuestionDecided>),
    /// What was to be done at that page is done, by the agent's name of it.
    PageDone(String),
    /// A file for the application to read or write, answered by [`Command::FileDone`]; only where files are
    /// [hosted](Config::host).
    FileWanted(Box<FileWanted>),
    /// Something was done for the agent.
    Hosted(Box<Hosted>),
    /// A request or a prompt failed by what passes, and is asked again after a wait.
    Retrying(Box<Retrying>),
    /// An answer that the application is to judge before it is the result: only of a [run](crate::subagent) whose config
    /// [says so](crate::subagent::Config::again).
    Answered(Box<Answered>),
    /// The child wrote to its standard error.
    Stderr(String),
    /// Something about the agent that is worth knowing.
    Noticed(Box<Notice>),
    /// A turn is over, or what came before the first one has failed.
    Finished(Box<Finished>),
    /// The child is gone; nothing follows.
    Closed(Box<Closed<Fault>>),
}

/// A session that is open.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SessionOpened {
    /// The id that the agent knows it by.
    pub session: SessionId,
    /// Its modes and options.
    pub state: SessionState,
}

/// An answer to be judged: [accepted](crate::subagent::Command::Accept) or [not](crate::subagent::Command::Reject). An
/// agent that goes before that leaves it as the result, unjudged.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Answered {
    /// The last message of the answer.
    pub message: String,
    /// Whether the answer was longer than what is kept, so that its last message is not this one.
    pub truncated: bool,
    /// How often the agent can be asked again.
    pub left: u32,
}

/// How a permission request was answered.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The key of the question.
    #[serde(skip)]
    pub request: RequestKey,
    /// The call that it was about.
    pub tool_call_id: String,
    /// Its title, if the agent gave one.
    pub title: Option<String>,
    /// The options that the agent offered.
    pub options: Vec<PermissionOption>,
    /// What it was answered with.
    pub decision: Verdict,
    /// The option that was chosen.
    pub option_id: Option<String>,
    /// Who has decided.
    pub by: By,
    /// The rule that has decided, or had a person asked: where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
}

/// What was decided about a permission.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The tool may run.
    Allowed,
    /// The tool may not run.
    Rejected,
    /// No option was chosen.
    Cancelled,
}

/// Who decided about a permission.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The [`Policy`] that is set.
    Policy,
    /// One of the [rules](Config::rules).
    Rule,
    /// A person, by way of the application.
    User,
    /// Nobody: the turn was cancelled, or the agent gave the question up.
    Cancel,
}

/// The result of a turn.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    /// How it went, in a word.
    pub outcome: Outcome,
    /// The agent's own word for the end of the turn.
    pub stop_reason: Option<String>,
    /// The agent's answer: the text of its messages during the turn, and nothing else.
    pub output: String,
    /// Whether the answer was longer than what is kept.
    pub output_truncated: bool,
    /// Where its messages begin, in bytes, from the second on; see [`Finished::messages`].
    #[serde(skip)]
    pub starts: Vec<usize>,
    /// How each permission request was answered: the first of them, as far as 256 KiB go. Titles are cut at 4 KiB.
    pub permissions: Vec<Decision>,
    /// How many more were answered. Each was told when it was.
    #[serde(skip_serializing_if = "is_zero")]
    pub permissions_dropped: usize,
    /// How many were answered in which way.
    #[serde(rename = "permissionCounts")]
    pub decisions: Decisions,
    /// What the turn cost, as the agent wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Json>,
    /// Why, if it went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failed>,
}

/// How many permission requests were answered in which way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Decisions {
    /// The tool could run.
    pub allowed: u64,
    /// The tool could not run: an option that rejects was chosen.
    pub rejected: u64,
    /// No option was chosen.
    pub cancelled: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How a turn went.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The agent is done.
    Completed,
    /// The model's output limit came.
    MaxTokens,
    /// The agent will not.
    Refusal,
    /// It was cancelled, by the application or the agent.
    Aborted,
    /// The agent stopped since something was not permitted; nobody had cancelled it.
    Rejected,
    /// Anything else; the problem says what.
    Error,
}

impl Decisions {
    pub(crate) const fn add(&mut self, verdict: Verdict) {
        let count = match verdict {
            Verdict::Allowed => &mut self.allowed,
            Verdict::Rejected => &mut self.rejected,
            Verdict::Cancelled => &mut self.cancelled,
        };
        *count += 1;
    }
}

impl Finished {
    /// The ways to log in, if that is what was missing and the agent lists some.
    #[must_use]
    pub fn logins(&self) -> &[AuthMethod] {
        match &self.error {
            Some(Failed { cause: RootCause::NeedsLogin { methods, .. }, .. }) => methods,
            Some(_) | None => &[],
        }
    }

    /// The messages of the answer, each without the line end that sets it off from the next one.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.starts.iter().copied());
        let ends = self.starts.iter().copied().chain([self.output.len()]);
        let messages = starts.zip(ends).filter_map(|(start, end)| self.output.get(start..end));
        messages
            .map(|message| message.strip_suffix('\n').unwrap_or(message))
            .filter(|message| !message.is_empty())
    }

    /// The result of a turn whose driver is gone.
    #[must_use]
    pub fn undriven() -> Self {
        Self {
            outcome: Outcome::Error,
            stop_reason: None,
            output: String::new(),
            output_truncated: false,
            starts: Vec::new(),
            permissions: Vec::new(),
            decisions: Decisions::default(),
            permissions_dropped: 0,
            usage: None,
            error: Some(Failed::new(Phase::Prompt, RootCause::Undriven)),
        }
    }
}
