//! What a bridge is configured with, asked for, and tells.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::classify::GATED;
use super::super::command::{HistoryMessage, Rules};
use super::super::event::{
    AskUser, ExitReason, LlmChanged, Ready, Risk, SystemMessage, Telemetry, ToolStatus, Trouble, Visibility,
};
use crate::closed::Closed;
use crate::limits::{Graces, Limits};
use crate::machine::{Open, Tag};
use crate::rpc::Json;

/// What a bridge starts from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How the desktop is reached.
    pub open: Open,
    /// The name of the session, which each event repeats.
    pub session: String,
    /// What the first event says. The version is the one that is spoken here.
    pub ready: Ready,
    /// Told before it: what does not work, and is no reason to leave.
    pub warnings: Vec<Trouble>,
    /// Tools that need an approval unless a rule allows them.
    pub gated: Vec<String>,
    /// How long an approval is waited for before it is denied. 600 s.
    pub approval: Duration,
    /// Sizes and counts that bound what the peer can make us keep.
    pub limits: Limits,
    /// The steps of leaving.
    pub graces: Graces,
}

impl Config {
    /// On the process's own stdin and stdout, with all defaults.
    #[must_use]
    pub fn on_stdio(session: impl Into<String>, ready: Ready) -> Self {
        Self {
            open: Open::Given(0),
            session: session.into(),
            ready,
            warnings: Vec::new(),
            gated: GATED.map(str::to_owned).into(),
            approval: Duration::from_secs(600),
            limits: Limits::default(),
            graces: Graces::default(),
        }
    }
}

/// Names a run, from its message on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct RunKey(pub(crate) u64);

impl RunKey {
    /// The run of that number, from 1 on: for whoever scripts a runner or reads a trace.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// Names a request of the desktop until it is answered.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct RequestKey(pub(super) u64);

/// What a bridge can be asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// More of the answer. Also between runs: an answer's last pieces may be late.
    Progress {
        /// To be appended, tags and all.
        delta: String,
    },
    /// The agent wants to call a tool. [`Event::Decided`] says whether it may: at once, where nobody is asked.
    CallTool {
        /// The key of the run that is open.
        run: RunKey,
        /// Comes back with [`Event::Decided`], and names the call.
        tag: Tag,
        /// The name of the tool.
        tool: String,
        /// The arguments of the call, whole.
        args: Json,
        /// Why it has to be asked, if it has to.
        reason: String,
    },
    /// The agent calls a tool that needs no approval here, whatever its name.
    BeginTool {
        /// The key of the run that is open.
        run: RunKey,
        /// Names the call.
        tag: Tag,
        /// The name of the tool.
        tool: String,
        /// The arguments of the call, whole.
        args: Json,
    },
    /// The agent itself asks for an approval of a call, whatever its name. [`Event::Decided`] as for a call.
    AskTool {
        /// The key of the run that is open.
        run: RunKey,
        /// Comes back with [`Event::Decided`], and names the call.
        tag: Tag,
        /// The name of the tool: rules that allow it count.
        tool: String,
        /// The arguments of the call, whole.
        args: Json,
        /// What may go wrong.
        risk: Risk,
        /// Why it has to be asked.
        reason: String,
    },
    /// Nobody waits for the approval of that call any more.
    WithdrawTool {
        /// The tag that the call was announced with.
        tag: Tag,
    },
    /// A tool says something meanwhile.
    ToolSaid {
        /// The tag that the call was announced with.
        tag: Tag,
        /// What people may see of it.
        text: String,
    },
    /// A tool is done.
    EndTool {
        /// The tag that the call was announced with.
        tag: Tag,
        /// Whether it did what it was asked to.
        status: ToolStatus,
        /// What came of it, whole.
        result: String,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
    /// A step is over, and another follows.
    EndTurn {
        /// The key of the run that is open.
        run: RunKey,
        /// What the step was.
        turn: Box<Turn>,
    },
    /// The last step is over, and the run with it.
    EndRun {
        /// The key of the run that is open.
        run: RunKey,
        /// What the step was.
        turn: Box<Turn>,
        /// How the run ended.
        end: Box<RunEnd>,
    },
    /// Something went wrong; nothing ends by it.
    Warn(Box<Trouble>),
    /// Words that are no step of a run: the answer to a side question.
    Say(Box<SystemMessage>),
    /// The agent's plan: an object, members as the agent has them.
    Plan(Json),
    /// Another model answers from here on, without having been asked for.
    LlmChanged(Box<LlmChanged>),
    /// What was asked for is done.
    Reply {
        /// The key of the request, from the event that brought it.
        request: RequestKey,
        /// What came of it.
        reply: Reply,
    },
    /// What was asked for cannot be done.
    Fail {
        /// The key of the request, from the event that brought it.
        request: RequestKey,
        /// Why, in a sentence.
        why: String,
    },
    /// Ends what is open, sends what is unsent, and leaves.
    Shutdown,
}

/// What a step was, beside its tools.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Turn {
    /// What was done, for people, in a line.
    pub summary: String,
    /// All that the model said, tags and all.
    pub content: String,
}

/// How a run ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunEnd {
    /// Why it ended, in the protocol's word.
    pub reason: ExitReason,
    /// The answer, without tags.
    pub final_content: String,
    /// Time, tokens and requests, as far as they are known.
    pub telemetry: Option<Telemetry>,
    /// What the agent wants to know before it goes on.
    pub question: Option<AskUser>,
}

/// What came of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// So many messages were taken.
    HistoryLoaded(u32),
    /// Another model answers from here on.
    LlmSet,
    /// The history grew by so many entries.
    ToolsReinjected(u32),
    /// The pet is up.
    PetAttached,
    /// The pet is gone.
    PetDetached,
}

/// What a bridge tells.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The user said something. Its run has begun, and so has its first step.
    Told(Box<Prompt>),
    /// A question beside the conversation; [`Command::Say`] answers it.
    AskedAside(String),
    /// The run is over because the desktop says so; the agent stops.
    Aborted(RunKey),
    /// Whether a tool may run. One that may not has ended already.
    Decided(Tag, Verdict),
    /// The conversation so far; the agent forgets what it had.
    HistoryGiven(RequestKey, Vec<HistoryMessage>),
    /// Another model is wanted, by its place in the list.
    LlmWanted(RequestKey, u32),
    /// The tools are to be described to the model again.
    ToolsWanted(RequestKey),
    /// A desktop pet is wanted at that port.
    PetWanted(RequestKey, u16),
    /// The pet is to go. Without a request nothing is said of it: another takes its place, or all end.
    PetUnwanted(Option<RequestKey>),
    /// The rules changed: which tools need no approval, and whether none does.
    RulesSet(Rules, bool),
    /// The desktop wants us to leave: the step that goes on may finish.
    ShutdownAsked,
    /// Too much is unsent: [`Command::Progress`] is refused until [`Event::Drained`].
    Crowded,
    /// There is room again.
    Drained,
    /// A line that is no command; the desktop was told.
    Unreadable(String),
    /// The desktop is gone. The last event.
    Closed(Box<Closed<Fault>>),
}

/// What the user said.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Prompt {
    /// The run that it has begun.
    pub run: RunKey,
    /// What the user says.
    pub text: String,
    /// Pictures, as absolute paths. Opening them is the application's, and so is refusing them.
    pub images: Vec<String>,
    /// Whether people see the run.
    pub visibility: Visibility,
}

/// Whether a tool may run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may, and nobody was asked.
    Free,
    /// It may: somebody said so.
    Allowed,
    /// It may, and so may that tool from here on: somebody said so.
    AllowedAlways,
    /// It may not: somebody said so.
    Denied,
    /// Somebody said what nobody understands, which is no.
    Unclear,
    /// Nobody answered in time.
    Expired,
    /// Its run is over, or all ends.
    Withdrawn,
}

impl Verdict {
    /// Whether the tool may run.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Free | Self::Allowed | Self::AllowedAlways)
    }
}

/// What a desktop can do wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// It reads so slowly that too much is waiting for it.
    #[error("it does not read what it is sent")]
    NotReading,
}
