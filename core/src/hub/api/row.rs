//! Sessions and their messages as rows.

use serde::{Deserialize, Serialize};

use super::{Origin, Policy, is_false, is_zero};
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
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::known")]
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
    /// Why they are not sent by themselves. [`SessionSend`](super::SessionSend) and [`SessionQueue`](super::SessionQueue) release them.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::known")]
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
    /// Whether the last prompt, or the start that failed, can be tried again: it did not end well, nothing runs, and the
    /// agent can still open the session.
    #[serde(default, skip_serializing_if = "is_false")]
    pub retryable: bool,
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
    #[serde(deserialize_with = "super::known")]
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
