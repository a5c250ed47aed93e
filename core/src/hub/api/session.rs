//! Sessions: what is asked of them, and how they are shown.

use serde::{Deserialize, Serialize};

use super::{Origin, Policy, Variables, is_false, is_zero};
use crate::acp::update::Cost;

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It never ran here, was listed only, or its last turn is older than a day.
    #[default]
    Idle,
    /// Its agent is starting, shaking hands or opening it.
    Connecting,
    /// A turn runs, and its owner lives.
    Running,
    /// At least one question of it is open.
    WaitingApproval,
    /// The last turn, or the start, went wrong: [`Reason`] says how.
    Error,
    /// The agent finished the last turn.
    Completed,
    /// The last turn was cancelled or cut short.
    Cancelled,
    /// It is out of the lists until it is restored.
    Archived,
}

/// Why a session stands there.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A permission is asked for.
    Permission,
    /// The agent asks for words, a form or a page.
    Question,
    /// Its turn was told to stop, and its owner has not said that it did.
    CancelAsked,
    /// How it ended was not confirmed: a cancel within 5 s, or the words were taken and the end not seen.
    Unconfirmed,
    /// The hub died meanwhile. Whether the agent got the prompt is not known.
    Interrupted,
    /// The hub was stopped meanwhile.
    HubStopped,
    /// The agent's own program went away.
    LinkLost,
    /// The agent's process ended.
    AgentExited,
    /// The agent runs on with a turn that was given up, and other sessions of it are at work: prompts are held.
    AgentBusy,
    /// The agent was switched off.
    AgentDisabled,
    /// The agent is not there any more.
    AgentRemoved,
    /// The agent is started otherwise from here on.
    AgentChanged,
    /// The agent says nothing for a long time.
    Silent,
    /// The agent will not.
    Refusal,
    /// The model's output limit came.
    MaxTokens,
    /// Too many model requests in one turn.
    MaxTurns,
    /// The agent ended by a word that nobody knows.
    UnknownStop,
    /// The agent wants a login first.
    NeedsLogin,
    /// The agent could not be started, or could not open the session.
    StartFailed,
    /// The agent answered the prompt with an error.
    PromptError,
    /// The prompt never was the agent's.
    NotSent,
}

/// Why a turn ended badly.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct LastError {
    /// The kind of failure, as `run` names it: `exited`, `timeout`, `rpc`, `needs_login` and the like.
    pub kind: String,
    /// For people.
    pub message: String,
}

/// What a session used. Absent where the agent says nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageBrief {
    /// Tokens of the context in use, as told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Tokens that fit into the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The cost so far, as the agent counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Tokens into the model, added up over the turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens out of the model, added up over the turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens of both, added up over the turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Since when the sums count: the hub's start, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// A session as a row. The first members are Galley's; the rest is ours. Times are RFC 3339, with `+00:00`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBrief {
    /// The handle: `s12`.
    pub id: String,
    /// What it is about: the agent's title, else the start of the first prompt, else the folder's name.
    #[serde(default)]
    pub title: String,
    /// Where it stands.
    #[serde(default)]
    pub status: Status,
    /// The newest of prompt, word and end.
    #[serde(default)]
    pub last_activity_at: String,
    /// When it came into the book.
    #[serde(default)]
    pub created_at: String,
    /// When its row changed last.
    #[serde(default)]
    pub updated_at: String,
    /// Turns that began here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turn_count: usize,
    /// `external`.
    #[serde(default)]
    pub runtime_kind: String,
    /// `external`.
    #[serde(default)]
    pub ga_runtime_kind: String,
    /// The agent's name, for people.
    #[serde(default)]
    pub runtime_label: String,
    /// Why it stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<Reason>,
    /// How the last turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The user's name of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The agent's id.
    #[serde(default)]
    pub agent: String,
    /// `acp`, `galley` or `attach`.
    #[serde(default)]
    pub channel: String,
    /// The workspace, absolute.
    #[serde(default)]
    pub cwd: String,
    /// The agent's own id of it, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    /// The id under which others can attach to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_id: Option<String>,
    /// What its permissions are answered by.
    #[serde(default)]
    pub policy: Policy,
    /// The start of the agent's last answer, at most 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
    /// Prompts that wait.
    #[serde(default)]
    pub queued: usize,
    /// Why they are not sent by themselves. [`SessionSend`] and [`SessionQueue`] release them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Reason>,
    /// Questions that are open.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub questions: usize,
    /// The turn that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_turn: Option<u64>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageBrief>,
    /// Whether prompts can be sent to it from here, after a start of its agent if need be.
    #[serde(default)]
    pub controllable: bool,
    /// Whether an agent has it open now.
    #[serde(default)]
    pub live: bool,
    /// What can be done with it: `prompt`, `images`, `cancel`, `load`, `set` and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub can: Vec<String>,
    /// The machine, where a client shows those of several. A hub never says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// A message of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageBrief {
    /// `<turn>-<part>`, or `tool-<id>`; the same when the session is read again.
    pub id: String,
    /// The session's handle.
    pub session_id: String,
    /// Whose it is.
    pub role: Role,
    /// The text; of a tool, its title.
    pub content: String,
    /// When its first piece came.
    pub created_at: String,
    /// The prompt it belongs to, counted in this session, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_index: Option<u32>,
    /// Pictures and the like beside the text.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attachments: usize,
    /// Who said it, of a prompt that came through the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// `pending`, `in_progress`, `completed` or `failed`, of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_status: Option<String>,
}

/// Whose message it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person's, or whoever speaks for one.
    User,
    /// The agent's.
    #[default]
    Agent,
    /// A tool call of the agent's.
    Tool,
    /// The hub's.
    System,
}

/// A picture that goes with a prompt. The client reads the file.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Such as `image/png`.
    pub mime_type: String,
    /// The bytes, in base64.
    pub data: String,
    /// The absolute path of the file, where the hub's machine has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Opens a session, and gives it its first prompt if there is one.
///
/// Answered when the agent has the session, or refused it, or after 100 s (`warning: slow_start`), never later because
/// of a turn. A start that fails leaves a row that [`SessionRetry`](super::SessionRetry) tries again.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionNew {
    /// The first prompt; not empty. Without one, and without images, the session is only opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Pictures of the first prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The agent's id. Without: the default agent, else the only one that is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The workspace, absolute. Without: the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What the user calls it; unique among open sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Without: the one of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The model, as [`SessionSet`] takes it.
    #[serde(default, alias = "llmName", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Variables for the agent's next start; kept in memory only.
    #[serde(default, skip_serializing_if = "Variables::is_empty")]
    pub env: Variables,
    /// For whom the client speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
    /// Why it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Opens a session of an agent's that the hub may not know: its id and its folder.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionLoad {
    /// A session of the hub's, or with `agent` the agent's own id.
    pub session_id: String,
    /// The agent's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its workspace, where the hub does not know it. Without: the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables for the agent's next start; kept in memory only.
    #[serde(default, skip_serializing_if = "Variables::is_empty")]
    pub env: Variables,
}

/// A prompt. It is sent at once or waits in the queue; where words are asked for it is their answer.
///
/// Answered when the agent has the session, or refused it, or after 100 s; behind other prompts, at once.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSend {
    /// The session.
    pub session_id: String,
    /// The text; not empty, unless there are images.
    pub content: String,
    /// Pictures, after the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Variables for the agent's next start; kept in memory only.
    #[serde(default, skip_serializing_if = "Variables::is_empty")]
    pub env: Variables,
    /// For whom the client speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
    /// Why it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of a prompt.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatched {
    /// There was no prompt: the session is open.
    #[default]
    Opened,
    /// The agent has it, or will as soon as it has the session.
    Dispatched,
    /// It waits behind others.
    Queued,
    /// It answers the question in words that was open.
    Answered,
    /// It waits behind a cancel that nobody has confirmed.
    Held,
}

/// What [`SessionNew`], [`SessionSend`] and [`SessionRetry`](super::SessionRetry) come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// The session as it is now.
    pub session: SessionBrief,
    /// The prompt, as a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageBrief>,
    /// What became of it.
    pub dispatch: Dispatched,
    /// The prompt's own number, which its turn will have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Its place among those that wait, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// `slow_start`, `env_later`, `not_stored`: it works, but not as one might think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A session, after something was done to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// As it is now.
    pub session: SessionBrief,
    /// What to know of it beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The prompts that wait; and what is to become of them.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionQueue {
    /// The session.
    pub session_id: String,
    /// Take prompts back: one, or all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<Drop>,
    /// Send them again, oldest first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub release: bool,
}

/// Which prompts to take back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Drop {
    /// `"all"`
    All,
    /// The one of that number.
    Turn(u64),
}

impl Serialize for Drop {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Turn(turn) => serializer.serialize_u64(*turn),
        }
    }
}

impl<'de> Deserialize<'de> for Drop {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Read {
            Turn(u64),
            Word(String),
        }
        match Read::deserialize(deserializer)? {
            Read::Turn(turn) => Ok(Self::Turn(turn)),
            Read::Word(word) if word == "all" => Ok(Self::All),
            Read::Word(word) => word
                .parse()
                .map(Self::Turn)
                .map_err(|_| serde::de::Error::custom("drop takes the number of a prompt, or \"all\"")),
        }
    }
}

/// What waits.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct QueueView {
    /// The prompts, oldest first.
    pub queued: Vec<Waiting>,
    /// Why they are not sent by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Reason>,
}

/// A prompt that waits.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its number, which it keeps while others leave.
    pub turn: u64,
    /// Its text.
    pub text: String,
    /// When it was said.
    pub at: String,
}

/// Which sessions, newest first. Archived ones only where asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionsList {
    /// Only those that stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// True: only archived ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// Archived ones and those older than 7 days as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
    /// Only those of that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only those of that workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Those behind that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Follows one session: its present state, `synced`, and then what happens.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionWatch {
    /// The session.
    pub session_id: String,
    /// So many of the last messages first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tail: usize,
    /// The agent's thoughts as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub thoughts: bool,
    /// With each event the agent's own words of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub raw: bool,
    /// A person looks: no notification is needed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attended: bool,
}

/// Follows all sessions.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionsWatch {
    /// The agents' thoughts as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub thoughts: bool,
    /// With each event the agent's own words of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub raw: bool,
    /// A person looks: no notification is needed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attended: bool,
}

/// The messages of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionShow {
    /// The session.
    pub session_id: String,
    /// Only so many of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// False: only what is in memory. Else an agent that can is asked for what is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<bool>,
}

/// Waits until nothing runs and nothing is about to.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionWait {
    /// The session.
    pub session_id: String,
    /// Milliseconds. Without: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Go on waiting while a question is open.
    #[serde(default, skip_serializing_if = "is_false")]
    pub through_questions: bool,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitedFor {
    /// The agent finished.
    Completed,
    /// The turn was cancelled.
    Cancelled,
    /// The turn, or the start, went wrong.
    Error,
    /// A question is open.
    WaitingApproval,
    /// Only prompts that are held wait.
    Held,
    /// It never ran.
    Idle,
    /// The time is over.
    Timeout,
}

/// What a wait came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// The session as it is now.
    pub session: SessionBrief,
    /// The agent's last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageBrief>,
    /// Why it is over.
    pub reason: WaitedFor,
}

/// Gives a session another name.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRename {
    /// The session.
    pub session_id: String,
    /// The name; unique among open sessions, nothing that looks like a handle, not `last`, `all` or `local`, no `@`.
    pub name: String,
}

/// Chooses a model, a mode or an option of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSet {
    /// The session.
    pub session_id: String,
    /// The model, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Any other option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<OptionValue>,
}

/// An option and its value, in words: `{"id":"effort","value":"high"}`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct OptionValue {
    /// Which option.
    pub id: String,
    /// The id of the value, or `true` and `false`.
    pub value: String,
}

/// Galley's word for a [`SessionSet`] of the model.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmSet {
    /// The session.
    pub session_id: String,
    /// The model, by id.
    pub llm_name: String,
}

/// Says what answers the permissions of a session from here on. What is open stays open.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSetPolicy {
    /// The session.
    pub session_id: String,
    /// By whom.
    pub policy: Policy,
}

/// What [`SessionStop`](super::SessionStop) did.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// `abort_sent` or `already_stopped`.
    pub dispatch: String,
    /// Prompts that are held now.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held: usize,
}

/// A session is gone.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Deleted {
    /// Whether it is.
    pub deleted: bool,
}
