//! What a desktop is configured with, asked for, and tells.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::command::{Decision, HistoryMessage, Rules};
use super::super::event::{
    AskUser, Exit, ExitReason, LlmChanged, Ready, SystemMessage, Telemetry, ToolCallEnd, ToolCallPending,
    ToolCallProgress, ToolCallStart, Trouble, TurnEnd, TurnStart, Visibility,
};
use crate::closed;
use crate::limits::{Graces, Limits};
use crate::machine::{Open, SpawnSpec, Tag};
use crate::rpc::Json;

/// What a desktop starts from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How to reach the runner; [`Launch`] knows its arguments.
    pub open: Open,
    /// Tools that need no approval. Told to the runner before anything else.
    pub rules: Rules,
    /// Whether no tool needs an approval.
    pub auto_approve: bool,
    /// Whether each line is told as it came, before what it means.
    pub raw: bool,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Sizes and counts that bound what the peer can make us keep.
    pub limits: Limits,
    /// The steps of leaving.
    pub graces: Graces,
}

impl Config {
    /// With no rules, and the timeouts, limits and graces of the defaults.
    #[must_use]
    pub fn new(open: Open) -> Self {
        Self {
            open,
            rules: Rules::default(),
            auto_approve: false,
            raw: false,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            // The protocol's hosts give a runner 3 s from its shutdown on.
            graces: Graces { eof: Duration::from_secs(3), ..Graces::default() },
        }
    }
}

/// How long a runner may take; `None` is for ever. The clocks of its words stand still while nobody reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Timeouts {
    /// From its start until it is ready. 30 s: it loads a model's libraries.
    pub ready: Option<Duration>,
    /// From a request that has an answer until it comes. 30 s.
    pub answer: Option<Duration>,
    /// From an abort until the run counts as over. 5 s: a model that says nothing can keep a runner from
    /// confirming for 20 s and more.
    pub abort: Option<Duration>,
    /// Of silence in a run until that is told. 10 min: a long tool says nothing either.
    pub silent: Option<Duration>,
    /// Of silence in a run until the run and the runner are ended. 2 h. Runners can forget to end a run: at
    /// their limit of steps, or when their agent failed.
    pub lost: Option<Duration>,
    /// From [`Command::Close`] until an open run is ended. 10 min.
    pub finish: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            ready: Some(Duration::from_secs(30)),
            answer: Some(Duration::from_secs(30)),
            abort: Some(Duration::from_secs(5)),
            silent: Some(Duration::from_secs(600)),
            lost: Some(Duration::from_secs(7200)),
            finish: Duration::from_secs(600),
        }
    }
}

/// How a runner is started: the arguments of the protocol's section 3.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Launch {
    /// The program and whatever stands before the runner's own arguments: `python -m runner.workbench_bridge`.
    pub spawn: SpawnSpec,
    /// The agent's repository, an absolute path.
    pub ga_path: PathBuf,
    /// The name of the session, which each event repeats.
    pub session: String,
    /// The project's folder. It is never the runner's working directory.
    pub workspace_root: Option<PathBuf>,
    /// The model to begin with, by its place in the list.
    pub llm: Option<u32>,
    /// The model to begin with, by name; counts for more than its place.
    pub llm_name: Option<String>,
    /// The process without which the runner leaves.
    pub core: Option<u32>,
}

impl Launch {
    /// The child to start.
    #[must_use]
    pub fn spec(self) -> SpawnSpec {
        let Self { mut spawn, ga_path, session, workspace_root, llm, llm_name, core } = self;
        let mut arg = |name: &str, value: OsString| spawn.args.extend([name.into(), value]);
        arg("--ga-path", ga_path.into());
        arg("--session-id", session.into());
        if let Some(root) = workspace_root {
            arg("--workspace-root", root.into());
        }
        if let Some(llm) = llm {
            arg("--llm-no", llm.to_string().into());
        }
        if let Some(name) = llm_name {
            arg("--llm-name", name.into());
        }
        if let Some(core) = core {
            spawn.env.push(("GALLEY_CORE_PID".into(), OsString::from(core.to_string()).into()));
        }
        spawn
    }
}

/// What a desktop can be asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// Says something to the agent, which begins a run; [`Event::RunEnded`] brings the tag back. A message that
    /// begins with `/btw` is a question beside the conversation: no run, at any time.
    Say {
        /// Comes back in [`Event::RunEnded`].
        tag: Tag,
        /// The words and pictures of the user.
        message: Box<Message>,
    },
    /// Answers the agent's [`Event::Asked`], which begins a run as well.
    Reply {
        /// Comes back in [`Event::RunEnded`].
        tag: Tag,
        /// What the user says.
        text: String,
        /// As in a [`Message`].
        absolute_turn_index: Option<u64>,
    },
    /// Answers an [`Event::ApprovalAsked`]; the runner waits for it.
    Decide {
        /// The `approval_id` of an [`Event::ApprovalAsked`].
        approval: String,
        /// What the person, or a rule, has decided.
        decision: Decision,
    },
    /// Ends the run that goes on.
    Abort,
    /// Gives the runner the conversation so far. Before the first message only.
    LoadHistory {
        /// Comes back with [`Event::Done`].
        tag: Tag,
        /// The whole conversation, the oldest message first.
        messages: Vec<HistoryMessage>,
    },
    /// Replaces the rules, from the next tool call on.
    SetRules(Rules),
    /// Whether no tool needs an approval, from the next tool call on.
    SetAutoApprove(bool),
    /// Lets another model answer. Between runs only.
    SetLlm {
        /// Comes back with [`Event::Done`].
        tag: Tag,
        /// Its place in the list.
        index: u32,
    },
    /// Describes the tools to the model again.
    ReinjectTools(Tag),
    /// Shows this session as a desktop pet.
    AttachPet {
        /// Comes back with [`Event::Done`].
        tag: Tag,
        /// The local port that the pet listens at.
        port: u16,
    },
    /// Shows no desktop pet any more.
    DetachPet(Tag),
    /// Ends the runner politely: shutdown, the end of an open run, 3 s, SIGTERM, SIGKILL. Real runners do not let
    /// the run finish.
    Close,
    /// Ends the runner: abort, shutdown, 3 s, SIGTERM, SIGKILL.
    Stop,
}

/// What a user says to the agent.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// What the user says.
    pub text: String,
    /// Pictures, as absolute paths.
    pub images: Vec<String>,
    /// Whether people should see the run.
    pub visibility: Visibility,
    /// The number of the run's first step across the session.
    pub absolute_turn_index: Option<u64>,
}

impl Message {
    /// Words alone, for people to see.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// What a desktop tells.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The runner can be spoken to. Warnings may have come before it.
    Ready(Box<Ready>),
    /// A line as it came; only when the config asks for it.
    Line(String),
    /// A step of the run begins.
    TurnStarted(TurnStart),
    /// More of the answer.
    Progress(Progress),
    /// A tool call waits for a decision.
    ApprovalAsked(Box<ToolCallPending>),
    /// Nobody waits for that decision any more.
    ApprovalOver(String, Over),
    /// A tool begins. Told when its step ends, of a runner that does not say so itself.
    ToolStarted(Box<ToolCallStart>),
    /// What a tool says meanwhile.
    ToolSaid(Box<ToolCallProgress>),
    /// A tool is done. Told when its step ends, of a runner that does not say so itself.
    ToolEnded(Box<ToolCallEnd>),
    /// A step is over.
    TurnEnded(Box<TurnEnd>),
    /// The agent has a question. Its run ends, and [`Command::Reply`] begins the next.
    Asked(Box<AskUser>),
    /// The run of that tag is over. Told once for each.
    RunEnded(Box<RunEnded>),
    /// The runner is done with a run that had ended here before; the next one may begin.
    Freed,
    /// Nothing was heard in this run for a long time.
    Silent,
    /// Something went wrong; nothing ends by it.
    Warned(Box<Trouble>),
    /// What was asked for with that tag was done, or not.
    Done(Tag, Box<Result<Done, Failure>>),
    /// Another model answers from here on.
    LlmChanged(Box<LlmChanged>),
    /// Words that are no step of a run.
    Message(Box<SystemMessage>),
    /// The agent's plan, as it was written.
    Plan(Json),
    /// An event of a later version, by its kind, as it was written.
    Other(Box<(String, Json)>),
    /// A line that is no event.
    Unreadable(Box<Unreadable>),
    /// The runner wrote to its standard error.
    Stderr(String),
    /// The runner is gone. The last event.
    Closed(Box<Closed>),
}

/// A piece of the answer, the model's own tags included.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Progress {
    /// Text to be appended to what came before.
    pub delta: String,
    /// Whether it came while a run was open. The last pieces of an answer often come behind its end.
    pub in_run: bool,
    /// Whether people should see it.
    pub visibility: Visibility,
}

/// Why nobody waits for a decision any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Its run is over, or its call was given up.
    Withdrawn,
    /// The runner has waited long enough, 600 s usually, and denied it.
    Expired,
    /// The runner is gone.
    Gone,
}

/// How a run ended.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RunEnded {
    /// Of the command that began it.
    pub tag: Tag,
    /// What the runner says, or why it says nothing.
    pub end: Result<Exit, Failure>,
    /// In the runner's words.
    pub reason: Option<ExitReason>,
    /// The answer, without the model's own tags.
    pub final_content: String,
    /// How many of its steps have ended.
    pub total_turns: u32,
    /// Time, tokens and requests, as far as they are known.
    pub telemetry: Option<Telemetry>,
}

/// Why there is no answer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// The runner says so.
    #[error("{}", .0.message)]
    Refused(Box<Trouble>),
    /// An abort was not confirmed in time. The runner may still be at it.
    #[error("the runner did not confirm the abort")]
    Unconfirmed,
    /// Nothing was heard for too long.
    #[error("the runner was silent for too long")]
    Silent,
    /// No answer came in time.
    #[error("the runner did not answer in time")]
    TimedOut,
    /// The runner is gone.
    #[error("the runner is gone")]
    Disconnected,
    /// It was ended by [`Command::Close`] or [`Command::Stop`].
    #[error("the runner was ended")]
    Shutdown,
}

/// What came of a command that has an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// That many messages were taken.
    HistoryLoaded(u32),
    /// Another model answers from here on.
    LlmSet,
    /// The history grew by that many entries.
    ToolsReinjected(u32),
    /// A pet listens at that port.
    PetAttached(u16),
    /// There is no pet any more.
    PetDetached,
}

/// A line that is no event.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Unreadable {
    /// What is wrong with it.
    pub why: String,
    /// Its beginning, up to 200 characters.
    pub start: String,
}

/// How it ended with a runner.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Closed {
    /// Why, and how its process ended.
    pub closed: closed::Closed<Fault>,
    /// The last error that it told: one that cannot start says why, and leaves with 1. Or it says nothing, and
    /// standard error has the reason.
    pub last_error: Option<Box<Trouble>>,
}

impl Closed {
    /// The last lines of its standard error, up to 8: what people are shown of a runner that crashed.
    #[must_use]
    pub fn stderr_lines(&self) -> Vec<&str> {
        let lines = self.closed.obituary.stderr_tail.lines().rev().filter(|line| !line.trim().is_empty());
        let mut last: Vec<&str> = lines.take(8).collect();
        last.reverse();
        last
    }
}

/// What a runner can do wrong.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// It speaks another version.
    #[error("it speaks version {0} of the protocol, not {PROTOCOL}", PROTOCOL = super::super::PROTOCOL_VERSION)]
    WrongVersion(String),
    /// It was not ready in time.
    #[error("it was not ready in time")]
    NotReady,
    /// Nothing was heard in a run for too long.
    #[error("nothing was heard in a run for too long")]
    Silent,
    /// It reads so slowly that too much is waiting for it.
    #[error("it does not read what it is sent")]
    NotReading,
}
