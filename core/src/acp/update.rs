//! What an agent reports about a session: `session/update` (ACP, prompt-turn, agent-plan, slash-commands).

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::content::tag_of;
use super::lenient::{explain, items, or_default};
use super::session::ConfigOption;
use super::{ContentBlock, Json, SessionId, Unknown};
use crate::rpc::RpcError;

pub use super::tool::{Diff, Location, ToolCall, ToolCallUpdate, ToolContent, ToolKind, ToolStatus};

/// One update of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A piece of a message.
    Message(Speaker, Chunk),
    /// A new tool call.
    ToolCall(ToolCall),
    /// News about a tool call. Its id may be new as well.
    ToolCallUpdate(ToolCallUpdate),
    /// The whole plan; it replaces the one before.
    Plan(Plan),
    /// The slash commands that exist; they replace the ones before.
    AvailableCommands(AvailableCommands),
    /// The mode is another one.
    CurrentMode(CurrentMode),
    /// All config options; they replace the ones before.
    ConfigOptions(ConfigOptions),
    /// Title or time of the session.
    SessionInfo(SessionInfoUpdate),
    /// How much of the context is used.
    Usage(Usage),
    /// A kind that is not read here: those that we never offer to take, and the future's.
    Other(Unknown),
}

/// Whose words they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The agent's, as its answer.
    Agent,
    /// The agent's, as the reasoning behind it.
    Thought,
    /// The user's; mostly history.
    User,
}

impl Speaker {
    /// The wire's name of an update with such words.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::Agent => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
            Self::User => "user_message_chunk",
        }
    }

    pub(super) fn from_tag(tag: &str) -> Option<Self> {
        [Self::Agent, Self::Thought, Self::User].into_iter().find(|speaker| speaker.tag() == tag)
    }
}

/// A piece of a message.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    /// The content; consecutive chunks are one message.
    pub content: ContentBlock,
    /// Chunks of one id are one message; without it, chunks of one kind are.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The plan of a turn.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Every entry that there is, also the unchanged ones.
    #[serde(default, deserialize_with = "items")]
    pub entries: Vec<PlanEntry>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// One thing to be done. An entry that cannot be read is left out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// The task, for people.
    pub content: String,
    /// How much it matters for the whole.
    pub priority: PlanPriority,
    /// How far the agent is with it.
    pub status: PlanStatus,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// How urgent a plan entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanPriority {
    /// The goal is not reached without it.
    High,
    /// It matters, and could be left out.
    Medium,
    /// It is done if nothing else is to do.
    Low,
}

/// How far a plan entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// The agent has not begun with it.
    Pending,
    /// The agent works on it.
    InProgress,
    /// It is done, and did what it was asked to.
    Completed,
}

/// The slash commands of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AvailableCommands {
    /// Every command that there is.
    #[serde(default, deserialize_with = "items")]
    pub available_commands: Vec<AvailableCommand>,
}

/// A slash command: sent as the prompt text `/name input`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct AvailableCommand {
    /// The name, without the slash in front.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// What it takes, as written: an object with a `hint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
}

/// The mode of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct CurrentMode {
    /// Its id. `modeId`, as one document calls it, is read as well.
    #[serde(rename = "currentModeId", alias = "modeId")]
    pub current_mode_id: String,
}

/// All config options of a session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigOptions {
    /// Every option that there is.
    #[serde(default, deserialize_with = "items")]
    pub config_options: Vec<ConfigOption>,
}

/// What changed about a session's description.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfoUpdate {
    /// What the session is about, for people.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    pub title: Patch,
    /// When it last changed, ISO 8601.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    pub updated_at: Patch,
}

/// A field of an update: left alone, cleared, or set.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Patch {
    /// Absent: as it was.
    #[default]
    Keep,
    /// Null: nothing any more.
    Clear,
    /// It has this value from here on.
    Set(String),
}

impl Patch {
    const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<'de> Deserialize<'de> for Patch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        Ok(match serde_json::from_str(raw.get()) {
            Ok(Some(text)) => Self::Set(text),
            Ok(None) => Self::Clear,
            Err(_) => Self::Keep,
        })
    }
}

impl Serialize for Patch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Clear => serializer.serialize_none(),
            Self::Set(text) => serializer.serialize_str(text),
        }
    }
}

/// How much of the model's context is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the context that are in use.
    pub used: u64,
    /// Tokens that fit into the context.
    pub size: u64,
    /// What it cost so far.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What a session has cost so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The sum since the session began, in the currency.
    pub amount: f64,
    /// ISO 4217, or a unit such as `credits`.
    pub currency: String,
}

/// The parameters of `session/update`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionUpdate {
    /// The session that it is about.
    pub session_id: SessionId,
    /// What is new about it.
    pub update: Update,
}

/// A piece of text as the parameters of `session/update`: what is written most.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextUpdate<'a> {
    session_id: &'a SessionId,
    update: TextChunk<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TextChunk<'a> {
    session_update: &'static str,
    content: TextBlock<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

impl<'a> TextUpdate<'a> {
    pub(crate) const fn new(
        session_id: &'a SessionId,
        speaker: Speaker,
        text: &'a str,
        message_id: Option<&'a str>,
    ) -> Self {
        let content = TextBlock { kind: "text", text };
        let update = TextChunk { session_update: speaker.tag(), content, message_id };
        Self { session_id, update }
    }
}

/// An update as it was written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: &'a RawValue,
}

impl<'a> Written<'a> {
    pub(crate) fn read(self) -> Result<(Cow<'a, str>, Update, &'a RawValue), RpcError> {
        let update = Update::read(self.update.get());
        let update = update.map_err(|error| RpcError::invalid_params(explain(&error)))?;
        Ok((self.session_id, update, self.update))
    }
}

impl Update {
    /// The wire's name of the kind.
    #[must_use]
    pub fn tag(&self) -> &str {
        match self {
            Self::Message(speaker, _) => speaker.tag(),
            Self::ToolCall(_) => "tool_call",
            Self::ToolCallUpdate(_) => "tool_call_update",
            Self::Plan(_) => "plan",
            Self::AvailableCommands(_) => "available_commands_update",
            Self::CurrentMode(_) => "current_mode_update",
            Self::ConfigOptions(_) => "config_option_update",
            Self::SessionInfo(_) => "session_info_update",
            Self::Usage(_) => "usage_update",
            Self::Other(unknown) => &unknown.tag,
        }
    }

    /// The session of the subagent that it tells of.
    pub(super) fn subagent(&self) -> Option<SessionId> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Subagent {
            session_id: SessionId,
        }
        let Self::Other(unknown) = self else { return None };
        let told =
            (unknown.tag == "subagent_update").then(|| serde_json::from_str::<Subagent>(unknown.raw.get()));
        told?.ok().map(|told| told.session_id)
    }

    /// What it says of a tool call: a new one says all that is known of it.
    #[must_use]
    pub fn tool_call(&self) -> Option<ToolCallUpdate> {
        match self {
            Self::ToolCall(call) => Some(call.clone().into()),
            Self::ToolCallUpdate(news) => Some(news.clone()),
            Self::Message(..)
            | Self::Plan(_)
            | Self::AvailableCommands(_)
            | Self::CurrentMode(_)
            | Self::ConfigOptions(_)
            | Self::SessionInfo(_)
            | Self::Usage(_)
            | Self::Other(_) => None,
        }
    }
}

impl Update {
    /// Reads an update as it was written.
    pub(super) fn read(json: &str) -> Result<Self, serde_json::Error> {
        let tag = tag_of(json, "sessionUpdate").ok_or_else(|| Error::missing_field("sessionUpdate"))?;
        if let Some(speaker) = Speaker::from_tag(&tag) {
            return serde_json::from_str(json).map(|chunk| Self::Message(speaker, chunk));
        }
        match &*tag {
            "tool_call" => serde_json::from_str(json).map(Self::ToolCall),
            "tool_call_update" => serde_json::from_str(json).map(Self::ToolCallUpdate),
            "plan" => serde_json::from_str(json).map(Self::Plan),
            "available_commands_update" => serde_json::from_str(json).map(Self::AvailableCommands),
            "current_mode_update" => serde_json::from_str(json).map(Self::CurrentMode),
            "config_option_update" => serde_json::from_str(json).map(Self::ConfigOptions),
            "session_info_update" => serde_json::from_str(json).map(Self::SessionInfo),
            "usage_update" => serde_json::from_str(json).map(Self::Usage),
            _ => Ok(Self::Other(Unknown { tag: tag.into_owned(), raw: Json::of(json)? })),
        }
    }
}

impl<'de> Deserialize<'de> for Update {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(<&'de RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

impl Serialize for Update {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Kind<'a, T> {
            session_update: &'a str,
            #[serde(flatten)]
            fields: &'a T,
        }
        let session_update = self.tag();
        match self {
            Self::Message(_, fields) => Kind { session_update, fields }.serialize(serializer),
            Self::ToolCall(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::ToolCallUpdate(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::Plan(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::AvailableCommands(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::CurrentMode(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::ConfigOptions(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::SessionInfo(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::Usage(fields) => Kind { session_update, fields }.serialize(serializer),
            Self::Other(unknown) => unknown.raw.serialize(serializer),
        }
    }
}
