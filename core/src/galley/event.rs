//! What a runner says: the events of the protocol's section 4, and those that came later.

use serde::{Deserialize, Serialize};

use crate::rpc::Json;

/// One event of a runner.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// It can take commands (4.1).
    Ready(Box<Ready>),
    /// A step of a run begins (4.2).
    TurnStart(TurnStart),
    /// More of the answer (4.7a).
    TurnProgress(TurnProgress),
    /// A tool call waits for an approval (4.3).
    ToolCallPending(Box<ToolCallPending>),
    /// A tool begins (4.4).
    ToolCallStart(Box<ToolCallStart>),
    /// What a tool says meanwhile (4.6).
    ToolCallProgress(Box<ToolCallProgress>),
    /// A tool is done (4.5).
    ToolCallEnd(Box<ToolCallEnd>),
    /// A step is over (4.7).
    TurnEnd(Box<TurnEnd>),
    /// The agent has a question for the user (4.8).
    AskUser(Box<AskUser>),
    /// A run is over (4.9).
    RunComplete(Box<RunComplete>),
    /// Something went wrong; nothing ends by it (4.10).
    Error(Box<Trouble>),
    /// A history was taken (4.11).
    HistoryLoaded(HistoryLoaded),
    /// Another model answers from here on (4.12).
    LlmChanged(Box<LlmChanged>),
    /// The tools were described to the model again (4.13).
    ToolsReinjected(ToolsReinjected),
    /// A desktop pet shows this session (4.14).
    PetAttached(PetAttached),
    /// No desktop pet shows this session any more (4.15).
    PetDetached,
    /// Words that are no step of a run: the answer to a side question, say (4.16).
    SystemMessage(Box<SystemMessage>),
    /// The agent's plan, as it was written; not in the document of version 0.1.
    PlanUpdate(Json),
    /// An event of a later version, as it was written.
    Other(Box<(String, Json)>),
}

/// The first event of a runner that started well.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// Of this protocol; [`PROTOCOL_VERSION`](super::PROTOCOL_VERSION) is spoken here.
    pub protocol_version: String,
    /// The commit of the agent's own repository, or `unknown`.
    pub ga_commit: String,
    /// When it was made, ISO 8601, or `unknown`.
    pub ga_commit_date: String,
    /// Where that repository is.
    pub ga_path: String,
    /// The model that answers.
    pub llm_name: String,
    /// The folder it works in.
    pub cwd: String,
    /// The process id of the runner.
    pub pid: u32,
    /// The models that can be chosen.
    #[serde(rename = "availableLLMs")]
    pub available_llms: Vec<Llm>,
    /// Whether prompts may hold pictures; a runner that does not say so takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_supported: Option<bool>,
}

/// A model that a runner offers.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Llm {
    /// Its place in the list, which is what `set_llm` takes.
    pub index: u32,
    /// Its name; unlike the place it lasts across restarts.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
    /// Whether it is the one that answers.
    pub is_current: bool,
}

/// A step of a run begins.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart {
    /// From 1 in each run.
    pub turn_index: u32,
    /// Whether people should see this run.
    pub visibility: Visibility,
    /// Across all runs of a session, where the message said at which it begins.
    pub absolute_turn_index: Option<u64>,
}

/// Whether a run is for people's eyes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// People see it.
    #[default]
    Visible,
    /// It serves a program.
    Internal,
}

/// A piece of the answer, the model's own tags included.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnProgress {
    /// Text to be appended to what came before.
    pub delta: String,
    /// Who asked for it: `workbench`, or `system`.
    pub source: String,
    /// Whether people should see it. The last pieces of an internal run come as visible ones.
    pub visibility: Visibility,
}

/// A tool call that waits for an approval.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallPending {
    /// Names the question; the answer repeats it.
    pub approval_id: String,
    /// The call that it is about, so that a denied end can name it; not in the document of version 0.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Of the step before it, with real runners: not to be relied on.
    pub turn_index: u32,
    /// As wrong as `turn_index`.
    pub absolute_turn_index: Option<u64>,
    /// The name of the tool.
    pub tool_name: String,
    /// The arguments of the call, whole.
    pub args: Json,
    /// The same for people, up to 200 characters.
    pub args_preview: String,
    /// How much may go wrong.
    pub risk_level: Risk,
    /// Why it has to be asked.
    pub reason: String,
}

/// How much may go wrong.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It looks at something.
    Low,
    /// It changes files; also where nothing is known.
    #[default]
    Medium,
    /// It runs code, or changes what the agent is.
    High,
}

/// A tool begins: allowed, or in no need of it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallStart {
    /// The id of the call, the same in all events about it.
    pub tool_call_id: String,
    /// The step that it belongs to.
    pub turn_index: u32,
    /// As in a [`TurnStart`].
    pub absolute_turn_index: Option<u64>,
    /// The name of the tool.
    pub tool_name: String,
    /// The arguments of the call, whole.
    pub args: Json,
    /// The same for people, up to 200 characters.
    pub args_preview: String,
}

/// What a tool says meanwhile.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallProgress {
    /// The id of the call, the same in all events about it.
    pub tool_call_id: String,
    /// What people may see of it.
    pub text: String,
}

/// A tool is done.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallEnd {
    /// The id of the call, the same in all events about it.
    pub tool_call_id: String,
    /// Whether it did what it was asked to.
    pub status: ToolStatus,
    /// What came of it, up to 500 characters.
    pub result_preview: String,
    /// How long it took, in milliseconds.
    pub elapsed_ms: Option<u64>,
}

/// How a tool call went.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what it was asked to; also where nothing else is known.
    #[default]
    Success,
    /// It could not do what it was asked to.
    Failed,
    /// It was not allowed to run.
    Denied,
    /// It was stopped before it was done.
    Cancelled,
}

/// A step is over. The source of all that is known of its tools: real runners send no events of single calls.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    /// From 1 in each run.
    pub turn_index: u32,
    /// What was done, in the model's words.
    pub summary: String,
    /// The calls of the step, in order. A step without any has one of the name [`NO_TOOL`].
    pub tool_calls: Vec<ToolCall>,
    /// Their results, in the same order; a call may have none.
    pub tool_results: Vec<ToolResult>,
    /// All that the model said, its own tags included.
    pub response_content: String,
    /// Set in the last step of a run.
    pub exit_reason: Option<ExitReason>,
    /// What the run took; in its last step only.
    pub telemetry: Option<Telemetry>,
    /// Whether people should see it.
    pub visibility: Visibility,
    /// As in a [`TurnStart`].
    pub absolute_turn_index: Option<u64>,
}

/// The name that stands for the absence of a tool.
pub const NO_TOOL: &str = "no_tool";

/// A call in the account of a step.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The name of the tool.
    pub tool_name: String,
    /// The arguments of the call, whole.
    pub args: Json,
}

/// A result in the account of a step.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The model's name of the call, which no other event has.
    pub tool_use_id: String,
    /// What came of it, often JSON as text.
    pub content: String,
}

/// Why a run ended.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ExitReason {
    /// In a word; [`Exit`] knows them.
    pub result: String,
    /// Whatever the agent adds.
    pub data: Json,
}

/// What a run took. Each may be unknown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Telemetry {
    /// How long the run took, in milliseconds.
    pub elapsed_ms: Option<u64>,
    /// Tokens that the model read.
    pub input_tokens: Option<u64>,
    /// Tokens that the model wrote.
    pub output_tokens: Option<u64>,
    /// Tokens that were put into the provider's cache.
    pub cache_create_tokens: Option<u64>,
    /// Tokens that came from it.
    pub cache_read_tokens: Option<u64>,
    /// Requests to the provider.
    pub request_count: Option<u64>,
    /// Characters of context in use.
    pub context_used_chars: Option<u64>,
    /// Characters of context that there is room for.
    pub context_limit_chars: Option<u64>,
}

/// A question of the agent. It ends its run; the answer begins another.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct AskUser {
    /// The question, in words for people.
    pub question: String,
    /// Answers to choose from; may be none.
    pub candidates: Vec<String>,
}

/// A run is over.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunComplete {
    /// Why it ended, in a word.
    pub exit_reason: ExitReason,
    /// The answer, without the model's own tags.
    pub final_content: String,
    /// How many of its steps have ended.
    pub total_turns: u32,
    /// Whether people should see it.
    pub visibility: Visibility,
}

/// Something went wrong, and the runner goes on.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// For people, up to 200 characters.
    pub message: String,
    /// Whose fault it is.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// Whether the same message may be sent again. The runner itself never does.
    pub retryable: bool,
    /// What to look at.
    pub hint: Option<Hint>,
    /// The command, or what else was being done.
    pub context: Option<String>,
    /// Where in the runner it happened, for its developers.
    pub traceback: Option<String>,
    /// Whether people should see it.
    pub visibility: Visibility,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The runner's: a command that it does not know, say.
    #[default]
    Bridge,
    /// The model's, or a tool's.
    Runtime,
    /// The caller's: a history that cannot be restored, say.
    Business,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// What was asked for did not happen.
    #[default]
    Error,
    /// It happened, and somebody should look at it.
    Warning,
    /// Nothing is wrong; somebody may want to know.
    Info,
}

/// What to look at after an error of the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    /// The key, or the model's settings.
    CheckLlmConfig,
    /// The network: a timeout, a name, a refused connection.
    Network,
    /// The limits of the provider: quota or rate.
    QuotaExceeded,
}

/// A history was taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryLoaded {
    /// How many messages it holds.
    pub message_count: u32,
}

/// Another model answers from here on.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmChanged {
    /// Its place in the list.
    pub index: u32,
    /// Its name, which lasts across restarts.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
}

/// The tools were described to the model again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsReinjected {
    /// Entries that its history grew by.
    pub blocks_added: u32,
}

/// A desktop pet shows this session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct PetAttached {
    /// The local port that it listens at.
    pub port: u16,
}

/// Words that are no step of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct SystemMessage {
    /// The words, in Markdown.
    pub content: String,
    /// Whether they answer a question beside the conversation.
    pub variant: Variant,
}

/// What words outside a run are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// The answer to a question beside the conversation.
    SideQuestion,
    /// Any other words of the runner itself.
    #[default]
    System,
}

/// How a run ended, from the word of its [`ExitReason`].
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Exit {
    /// The agent says that it is done.
    Done,
    /// The agent stopped: it has a question, or the model failed for good.
    Exited,
    /// The limit of steps was reached.
    MaxTurns,
    /// The desktop has aborted it.
    Aborted,
    /// It was a command for the runner, not for the agent; not in the document.
    SlashCommand,
    /// A word of a later version.
    Other(String),
}

impl Exit {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Done => "CURRENT_TASK_DONE",
            Self::Exited => "EXITED",
            Self::MaxTurns => "MAX_TURNS_EXCEEDED",
            Self::Aborted => "ABORTED",
            Self::SlashCommand => "SLASH_COMMAND_COMPLETED",
            Self::Other(word) => word,
        }
    }

    /// From the word on the wire.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        let known = [Self::Done, Self::Exited, Self::MaxTurns, Self::Aborted, Self::SlashCommand];
        known.into_iter().find(|exit| exit.as_str() == word).unwrap_or_else(|| Self::Other(word.to_owned()))
    }
}

impl ExitReason {
    /// A reason with nothing added.
    #[must_use]
    pub fn new(exit: &Exit) -> Self {
        Self { result: exit.as_str().to_owned(), data: Json::new(&()) }
    }

    /// What the word says.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::from_word(&self.result)
    }
}

impl Ready {
    /// The model that answers, as its place in the list.
    #[must_use]
    pub fn current_llm(&self) -> Option<u32> {
        let marked = self.available_llms.iter().find(|llm| llm.is_current);
        let named = || self.available_llms.iter().find(|llm| llm.name == self.llm_name);
        marked.or_else(named).map(|llm| llm.index)
    }
}
