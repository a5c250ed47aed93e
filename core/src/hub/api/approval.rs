//! Questions: what is asked, who may answer, and how one ended.

use serde::{Deserialize, Serialize};

use crate::acp::PermissionOption;
use crate::acp::update::{ToolCallUpdate, ToolKind};
use crate::rpc::Json;

/// What the permissions of a session are answered by.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A person.
    #[default]
    Ask,
    /// The hub allows once; where that is not offered, a person is asked.
    Allow,
    /// The hub rejects once, else always, else cancels.
    Reject,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A command is to be run.
    Command,
    /// Files are to be changed, removed or moved.
    FileChange,
    /// Anything else that needs a permission.
    #[default]
    Permission,
    /// The agent asks something of its own: words, a form, a page.
    Question,
}

impl Class {
    /// What a permission is about, by the kind of the call that wants it.
    #[must_use]
    pub const fn of(kind: Option<ToolKind>) -> Self {
        match kind {
            Some(ToolKind::Execute) => Self::Command,
            Some(ToolKind::Edit | ToolKind::Delete | ToolKind::Move) => Self::FileChange,
            Some(
                ToolKind::Read
                | ToolKind::Search
                | ToolKind::Think
                | ToolKind::Fetch
                | ToolKind::SwitchMode
                | ToolKind::Other,
            )
            | None => Self::Permission,
        }
    }
}

/// A question. It is asked once, answered once, and its id is never used again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalBrief {
    /// `a7`.
    pub approval_id: String,
    /// The session's handle; without one, a program asks, or an agent outside of its sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The agent's id, or the name of the program that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What is asked, on one line, at most 200 characters.
    pub title: String,
    /// The tool's own name, or its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// What it is about.
    #[serde(deserialize_with = "super::known")]
    pub class: Class,
    /// What goes into the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
    /// `low`, `medium` or `high`, where the source says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<String>,
    /// All that is known of the call: its text, its diffs, its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolCallUpdate>,
    /// What can be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<PermissionOption>,
    /// What can be said, where words are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The fields of a form, as the agent wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// The page to visit; not to be opened without consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// When it was asked, RFC 3339.
    pub created_at: String,
    /// When whoever asked gives it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// How it ended; without, it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Resolved>,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// Which.
    pub approval_id: String,
    /// What was chosen; absent when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// By whom, or why not.
    pub by: By,
    /// The program that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// When, RFC 3339.
    pub at: String,
}

/// How a question came to its end.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A client of the hub answered.
    Client,
    /// The session's policy did.
    Policy,
    /// Whoever asked took it back, asked again, or went on without an answer.
    Withdrawn,
    /// Its turn ended, without a word of it.
    TurnEnded,
    /// Its turn was cancelled.
    Cancelled,
    /// It was answered at the agent's own terminal.
    Terminal,
    /// Whoever asked had waited long enough.
    Expired,
    /// Whoever asked is gone.
    Gone,
}

/// A program at the other end of a connection.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Who {
    /// Its file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The terminal it was started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// The agent that started it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// Where a prompt came from.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// `cli`, or `supervisor` where the client speaks for one.
    pub via: String,
    /// For whom the client spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
    /// Why it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The program that said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
}

/// The open questions, oldest first.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalsList {
    /// Only those of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Those that are over instead: the last 1000 of 24 hours.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub answered: bool,
}

/// Follows the questions of all sessions: those that are open, `synced`, and then `asked` and `resolved`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalsWatch {
    /// A person looks: no notification is needed.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub attended: bool,
}

/// An answer: exactly one of `decision`, `optionId` and `content`. The first one counts.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespond {
    /// The question: `a7`.
    pub approval_id: String,
    /// By kind: `allow` takes `allow_once`, else `allow_always`; `deny` takes `reject_once`, else `reject_always`, and
    /// declines a form or a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Exactly that option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Words, as a string, or the object of a form. A page is agreed to with `{}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Json>,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes.
    Allow,
    /// No.
    Deny,
}

/// What an answer came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Responded {
    /// The question.
    pub approval_id: String,
    /// What was asked.
    pub title: String,
    /// The option that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Its kind: an `allow` that became `allow_always`, since no other was offered, is to be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `client`.
    pub by: By,
}

/// Asks for a program that is no source of sessions. A stream: `asked`, and `resolved` at its end. Whoever closes the
/// connection takes the question back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAsk {
    /// What is asked.
    pub title: String,
    /// The tool's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// What it is about.
    #[serde(default)]
    pub class: Class,
    /// What goes into the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
    /// All that is known of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolCallUpdate>,
    /// What can be chosen; at least one.
    pub options: Vec<PermissionOption>,
    /// The folder it is about.
    #[serde(default)]
    pub cwd: String,
    /// The name of the program that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
