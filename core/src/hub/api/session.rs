//! Sessions: what is asked of them, and what comes of it.

use serde::{Deserialize, Serialize};

use super::{MessageBrief, Policy, Reason, SessionBrief, Status, Variables, is_false, is_zero};

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
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::known")]
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
