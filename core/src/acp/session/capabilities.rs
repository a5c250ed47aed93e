//! What each side offers the other in the handshake (ACP, initialization). A capability that is absent, null or of a
//! wrong type is not offered; any object or true offers it.

use serde::{Deserialize, Serialize};

use crate::acp::lenient::{is_default, marker, offered, or_default};
use crate::acp::update::{ToolContent, Update};
use crate::acp::{ContentBlock, Json};

/// What a client offers to an agent. Nothing, unless it says so.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientCapabilities {
    /// Reading and writing files.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub fs: FileSystem,
    /// All five `terminal/*` methods.
    #[serde(deserialize_with = "offered", skip_serializing_if = "is_default")]
    pub terminal: bool,
    /// Logins that the client runs itself.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub auth: ClientAuth,
    /// What it takes of a session beyond the baseline.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub session: ClientSessions,
    /// Asking the user on the agent's behalf.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub elicitation: Elicitation,
    /// Plans by id: `plan_update` and `plan_removed`.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub plan: bool,
    /// Agents of the agent: `subagent_update`, `session_message`, and links to their sessions.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub subagents: bool,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ClientCapabilities {
    /// Whether an agent may send that update.
    pub(in crate::acp) fn take(&self, update: &Update) -> bool {
        match update {
            Update::ToolCall(call) => self.take_content(&call.content),
            Update::ToolCallUpdate(call) => {
                call.content.as_ref().is_none_or(|content| self.take_content(content))
            }
            Update::Other(unknown) => match &*unknown.tag {
                "notice" => self.session.notices,
                "compaction_update" | "compaction_summary_chunk" => self.session.compaction,
                "plan_update" | "plan_removed" => self.plan,
                "subagent_update" | "session_message" | "session_message_chunk" => self.subagents,
                _ => true,
            },
            Update::Message(..)
            | Update::Plan(_)
            | Update::AvailableCommands(_)
            | Update::CurrentMode(_)
            | Update::ConfigOptions(_)
            | Update::SessionInfo(_)
            | Update::Usage(_) => true,
        }
    }

    fn take_content(&self, content: &[ToolContent]) -> bool {
        let is_session =
            |item: &ToolContent| matches!(item, ToolContent::Unknown(item) if item.tag == "session");
        self.subagents || !content.iter().any(is_session)
    }
}

/// What a client does with files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FileSystem {
    /// Whether `fs/read_text_file` is answered.
    #[serde(deserialize_with = "offered")]
    pub read_text_file: bool,
    /// Whether `fs/write_text_file` is answered.
    #[serde(deserialize_with = "offered")]
    pub write_text_file: bool,
}

/// Which logins a client runs itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientAuth {
    /// Those of the type `terminal`: the agent's command once more, interactively.
    #[serde(deserialize_with = "offered")]
    pub terminal: bool,
}

/// What a client takes of a session beyond the baseline.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientSessions {
    /// Further types of config options.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub config_options: OptionTypes,
    /// Whether it shows `notice` updates.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub notices: bool,
    /// Whether it shows `compaction_update` and `compaction_summary_chunk`.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub compaction: bool,
}

/// Types of config options beside `select`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptionTypes {
    /// Whether it can set an option that is on or off.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub boolean: bool,
}

/// How a client can ask its user.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Elicitation {
    /// Whether it can show a form.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub form: bool,
    /// By a page to visit.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub url: bool,
}

/// What an agent offers to a client.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AgentCapabilities {
    /// Whether an old session can be loaded with its history.
    #[serde(deserialize_with = "offered")]
    pub load_session: bool,
    /// What a prompt may hold beside text and links.
    #[serde(deserialize_with = "or_default")]
    pub prompt_capabilities: PromptCapabilities,
    /// MCP transports beside stdio.
    #[serde(deserialize_with = "or_default")]
    pub mcp_capabilities: McpCapabilities,
    /// Which session methods there are beyond the baseline.
    #[serde(deserialize_with = "or_default")]
    pub session_capabilities: SessionCapabilities,
    /// What there is beside logging in.
    #[serde(deserialize_with = "or_default")]
    pub auth: AgentAuth,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// What a prompt may hold beside text and links.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PromptCapabilities {
    /// Whether a prompt may hold images.
    #[serde(deserialize_with = "offered")]
    pub image: bool,
    /// Whether a prompt may hold audio.
    #[serde(deserialize_with = "offered")]
    pub audio: bool,
    /// Whether a prompt may hold resources with their content.
    #[serde(deserialize_with = "offered")]
    pub embedded_context: bool,
}

impl PromptCapabilities {
    /// Whether a prompt may hold that block.
    pub(in crate::acp) const fn take(self, block: &ContentBlock) -> bool {
        match block {
            ContentBlock::Text(_) | ContentBlock::ResourceLink(_) => true,
            ContentBlock::Image(_) => self.image,
            ContentBlock::Audio(_) => self.audio,
            ContentBlock::Resource(_) => self.embedded_context,
            ContentBlock::Unknown(_) => false,
        }
    }
}

/// MCP transports beside stdio.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct McpCapabilities {
    /// Whether a server may be given by URL, for streamable HTTP.
    #[serde(deserialize_with = "offered")]
    pub http: bool,
    /// Whether a server may be given by URL, for server-sent events.
    #[serde(deserialize_with = "offered")]
    pub sse: bool,
}

/// The session methods of an agent beyond the baseline.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SessionCapabilities {
    /// Whether it tells which sessions it knows.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub list: bool,
    /// Whether a session can be removed from that list.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub delete: bool,
    /// Whether a new session can begin as another one stands.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub fork: bool,
    /// Whether an old session can be opened without its history.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub resume: bool,
    /// Whether a session can be ended while the connection goes on.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub close: bool,
    /// `additionalDirectories` may be given.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub additional_directories: bool,
    /// Which `systemPrompt` may be given.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPromptSupport>,
}

/// What may be done with a system prompt. It may be appended; anything more is said here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemPromptSupport {
    /// Modes beside `append`, which is always there.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub mode: SystemPromptModes,
}

/// Modes of a system prompt beside `append`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemPromptModes {
    /// `override`: it takes the place of the agent's own.
    #[serde(rename = "override", with = "marker", skip_serializing_if = "is_default")]
    pub replace: bool,
}

/// What an agent offers about logins.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentAuth {
    /// Whether `logout` is answered.
    #[serde(with = "marker", skip_serializing_if = "is_default")]
    pub logout: bool,
}
