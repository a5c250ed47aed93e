//! Setting a connection and its sessions up (ACP, initialization, authentication, session-setup, session-list,
//! session-modes, session-config-options).

mod capabilities;
mod login;
mod settings;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::content::{Tagged, tag_of};
use super::lenient::{items, object, or_default, or_null, some_items};
use super::{ContentBlock, Json};
use crate::machine::Refused;
use crate::secret::Secret;

pub use capabilities::{
    AgentAuth, AgentCapabilities, ClientAuth, ClientCapabilities, ClientSessions, Elicitation, FileSystem,
    McpCapabilities, OptionTypes, PromptCapabilities, SessionCapabilities, SystemPromptModes,
    SystemPromptSupport,
};
pub use login::{AuthMethod, TerminalLogin, Variable};
pub use settings::{Request, Setting, Unsettable, one_of};

/// The protocol version that is spoken here.
pub const PROTOCOL_VERSION: u16 = 1;

/// A session's id: opaque, chosen by the agent. Cheap to clone.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// The id as it stands on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<Arc<str>> for SessionId {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl Borrow<str> for SessionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name and version of a program.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Implementation {
    /// The name that programs know it by.
    pub name: String,
    /// The name for people; without it, `name` is shown.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The version, in whatever form it has.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
}

/// The parameters of `initialize`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeRequest {
    /// The latest version that the client speaks.
    pub protocol_version: u16,
    /// What the client offers.
    #[serde(default, deserialize_with = "or_default")]
    pub client_capabilities: ClientCapabilities,
    /// Who the client is.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub client_info: Option<Implementation>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The result of `initialize`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// The version to be spoken.
    pub protocol_version: u16,
    /// What the agent offers.
    #[serde(default, deserialize_with = "or_default")]
    pub agent_capabilities: AgentCapabilities,
    /// How to log in.
    #[serde(default, deserialize_with = "items")]
    pub auth_methods: Vec<AuthMethod>,
    /// Who the agent is.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub agent_info: Option<Implementation>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The parameters of `session/new`, and with an id those of `session/load` and `session/resume`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSetup {
    /// The absolute path of the workspace; relative paths of the session start there.
    pub cwd: String,
    /// MCP servers to connect to. Always written, even when empty: some agents insist.
    #[serde(default, deserialize_with = "or_null")]
    pub mcp_servers: Vec<McpServer>,
    /// Further roots, absolute; the whole list each time.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<String>,
    /// Instructions to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl SessionSetup {
    /// A session in that workspace and nothing else.
    #[must_use]
    pub fn in_directory(cwd: impl Into<String>) -> Self {
        Self { cwd: cwd.into(), ..Self::default() }
    }

    /// Whether an agent of these capabilities can be asked for it.
    pub(super) fn check(&self, offers: &AgentCapabilities) -> Result<(), Refused> {
        let sessions = &offers.session_capabilities;
        if !self.cwd.starts_with('/') {
            return Err(Refused::Invalid("the working directory must be an absolute path"));
        }
        if !self.additional_directories.is_empty() && !sessions.additional_directories {
            return Err(Refused::NotOffered("additional directories"));
        }
        if self.additional_directories.iter().any(|path| !path.starts_with('/')) {
            return Err(Refused::Invalid("additional directories must be absolute paths"));
        }
        if let Some(prompt) = &self.system_prompt {
            prompt.check(sessions.system_prompt)?;
        }
        for server in &self.mcp_servers {
            match server {
                McpServer::Http(_) if !offers.mcp_capabilities.http => {
                    return Err(Refused::NotOffered("MCP over HTTP"));
                }
                McpServer::Sse(_) if !offers.mcp_capabilities.sse => {
                    return Err(Refused::NotOffered("MCP over SSE"));
                }
                McpServer::Stdio(_) | McpServer::Http(_) | McpServer::Sse(_) => {}
            }
        }
        Ok(())
    }
}

/// Instructions to the model.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct SystemPrompt {
    /// Where it goes: `append` to the agent's own, or `override` it.
    pub mode: String,
    /// Text blocks, at least one.
    pub content: Vec<ContentBlock>,
}

impl SystemPrompt {
    fn check(&self, offered: Option<SystemPromptSupport>) -> Result<(), Refused> {
        let offered = offered.ok_or(Refused::NotOffered("a system prompt"))?;
        match &*self.mode {
            "append" => {}
            "override" if offered.mode.replace => {}
            _ => return Err(Refused::NotOffered("that mode of a system prompt")),
        }
        if self.content.is_empty() || self.content.iter().any(|block| block.as_text().is_none()) {
            return Err(Refused::Invalid("a system prompt is one or more text blocks"));
        }
        Ok(())
    }
}

/// An MCP server for an agent to connect to (ACP, session-setup).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum McpServer {
    /// A child of the agent.
    Stdio(McpStdio),
    /// One at a URL that speaks streamable HTTP.
    Http(McpHttp),
    /// One at a URL that speaks server-sent events, which MCP has deprecated.
    Sse(McpHttp),
}

impl McpServer {
    /// What it is given beside its address or arguments: the variables of a child, the headers of requests.
    #[must_use]
    pub fn pairs(&self) -> &[Pair] {
        match self {
            Self::Stdio(server) => &server.env,
            Self::Http(server) | Self::Sse(server) => &server.headers,
        }
    }
}

/// An MCP server that the agent starts.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct McpStdio {
    /// The name that people and the agent know it by.
    pub name: String,
    /// The absolute path of the program.
    pub command: String,
    /// The arguments of the program, each whole.
    #[serde(default, deserialize_with = "or_null")]
    pub args: Vec<String>,
    /// Variables to lay over its environment.
    #[serde(default, deserialize_with = "or_null")]
    pub env: Vec<Pair>,
}

/// An MCP server that is reached over HTTP.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct McpHttp {
    /// The name that people and the agent know it by.
    pub name: String,
    /// The URL that the agent connects to.
    pub url: String,
    /// Headers of each request.
    #[serde(default, deserialize_with = "or_null")]
    pub headers: Vec<Pair>,
}

/// A header or a variable.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The name of the header or of the variable.
    pub name: String,
    /// Its value, a key or a token as often as not: only the peer is shown it.
    pub value: Secret<String>,
}

impl<'de> Deserialize<'de> for McpServer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        let json = raw.get();
        match tag_of(raw.get(), "type").as_deref() {
            None | Some("stdio") => object(json).map(Self::Stdio),
            Some("http") => object(json).map(Self::Http),
            Some("sse") => object(json).map(Self::Sse),
            Some(other) => {
                return Err(D::Error::unknown_variant(other, &["stdio", "http", "sse"]));
            }
        }
        .map_err(D::Error::custom)
    }
}

impl Serialize for McpServer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Stdio(server) => server.serialize(serializer),
            Self::Http(fields) => Tagged { tag: "http", fields }.serialize(serializer),
            Self::Sse(fields) => Tagged { tag: "sse", fields }.serialize(serializer),
        }
    }
}

/// What an agent says about a session that it opened.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    /// The modes that it can be put into, where the agent has them.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub modes: Option<SessionModes>,
    /// Its models, where the agent has not moved them to the config options yet.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub models: Option<SessionModels>,
    /// Its config options, the most important first.
    #[serde(default, deserialize_with = "some_items", skip_serializing_if = "Option::is_none")]
    pub config_options: Option<Vec<ConfigOption>>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The modes of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionModes {
    /// The one it is in.
    pub current_mode_id: String,
    /// Those that can be chosen.
    #[serde(default, deserialize_with = "items")]
    pub available_modes: Vec<SessionMode>,
}

/// One mode of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct SessionMode {
    /// The id that `session/set_mode` takes.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// What it is, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The models of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionModels {
    /// The one it uses.
    pub current_model_id: String,
    /// Those that can be chosen.
    #[serde(default, deserialize_with = "items")]
    pub available_models: Vec<SessionModel>,
}

/// One model of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionModel {
    /// The id that `session/set_model` takes.
    pub model_id: String,
    /// The name for people.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// What it is, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A setting of a session. One of an unknown type is left out of its list.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigOption {
    /// The id that `session/set_config_option` takes.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// What it is, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `mode`, `model`, `model_config`, `thought_level`, or any other word; for display only.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Which values it can have.
    #[serde(rename = "type")]
    pub kind: ConfigKind,
    /// What it is set to.
    pub current_value: ConfigValue,
    /// For a select: the values, flat or in groups, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Json>,
}

/// The type of a setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigKind {
    /// One of several values.
    Select,
    /// On or off, for clients that say that they can show it.
    Boolean,
}

/// What a setting is set to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConfigValue {
    /// The value of an option that is on or off.
    Bool(bool),
    /// The id of a value.
    Id(String),
}

/// One page of `session/list`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// The sessions of this page.
    #[serde(default, deserialize_with = "items")]
    pub sessions: Vec<SessionInfo>,
    /// For the next page; absent at the end.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session that an agent knows.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// The id to load or resume it by.
    pub session_id: SessionId,
    /// The absolute path of its workspace.
    pub cwd: String,
    /// Absolute paths of its further roots.
    #[serde(default, deserialize_with = "items", skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<String>,
    /// What it is about, for people, once the agent knows.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it last changed, ISO 8601.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}
