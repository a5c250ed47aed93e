//! Tool calls, as they are announced and as they change (ACP, tool-calls).

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::content::{Tagged, tag_of};
use super::lenient::{is_default, items, items_by, or_default, some_items};
use super::{ContentBlock, Json, Unknown};

/// A tool call as it is announced.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Unique in the session.
    pub tool_call_id: String,
    /// What it does, for people.
    pub title: String,
    /// The tool's own name.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What sort of tool.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub kind: ToolKind,
    /// How far it is.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub status: ToolStatus,
    /// What people may see of it: text, changes of files, terminals.
    #[serde(default, deserialize_with = "all_contents", skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ToolContent>,
    /// Files that it touches.
    #[serde(default, deserialize_with = "items", skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// What goes into the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Json>,
    /// What came out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// What changed about a tool call: absent is unchanged, lists replace the ones before.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallUpdate {
    /// The id of the call. One that is not known begins a call.
    pub tool_call_id: String,
    /// What it does, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool's own name.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What sort of tool.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// How far it is.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// What people may see of it: text, changes of files, terminals.
    #[serde(default, deserialize_with = "contents", skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<ToolContent>>,
    /// Files that it touches.
    #[serde(default, deserialize_with = "some_items", skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<Location>>,
    /// What goes into the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Json>,
    /// What came out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A new call as news about it.
impl From<ToolCall> for ToolCallUpdate {
    fn from(call: ToolCall) -> Self {
        Self {
            tool_call_id: call.tool_call_id,
            title: Some(call.title),
            name: call.name,
            kind: Some(call.kind),
            status: Some(call.status),
            content: Some(call.content),
            locations: Some(call.locations),
            raw_input: call.raw_input,
            raw_output: call.raw_output,
            meta: call.meta,
        }
    }
}

impl From<ToolCallUpdate> for ToolCall {
    /// What is not known is what a call has that says nothing of it.
    fn from(call: ToolCallUpdate) -> Self {
        Self {
            tool_call_id: call.tool_call_id,
            title: call.title.unwrap_or_default(),
            name: call.name,
            kind: call.kind.unwrap_or_default(),
            status: call.status.unwrap_or_default(),
            content: call.content.unwrap_or_default(),
            locations: call.locations.unwrap_or_default(),
            raw_input: call.raw_input,
            raw_output: call.raw_output,
            meta: call.meta,
        }
    }
}

/// What sort of tool it is; a hint for display.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes what a file holds.
    Edit,
    /// Removes files or data.
    Delete,
    /// Moves files, or gives them other names.
    Move,
    /// Searches files or other sources.
    Search,
    /// Runs a command or code.
    Execute,
    /// Reasons or plans; touches nothing.
    Think,
    /// Gets something from outside.
    Fetch,
    /// Changes the session's mode.
    SwitchMode,
    /// Anything else, unknown kinds included.
    #[default]
    #[serde(other)]
    Other,
}

impl ToolKind {
    /// The word that stands for it on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::SwitchMode => "switch_mode",
            Self::Other => "other",
        }
    }
}

/// How far a tool call is. An unknown status counts as absent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Not begun: its input still comes, or it waits for a permission.
    #[default]
    Pending,
    /// The tool is at work.
    InProgress,
    /// It is done, and did what it was asked to.
    Completed,
    /// It is over without success, or was not allowed to run.
    Failed,
}

impl ToolStatus {
    /// The word that stands for it on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Whether nothing more is to come.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// What a tool call shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ToolContent {
    /// A content block as in a message.
    Content(ContentBlock),
    /// A change of a file.
    Diff(Diff),
    /// A living terminal, by id.
    Terminal(String),
    /// A type that is not known, as it was written.
    Unknown(Unknown),
}

/// A change of a file.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// The absolute path of the file.
    pub path: String,
    /// What it held; absent for a new file.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// What it will hold.
    pub new_text: String,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A place in a file.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Location {
    /// The absolute path of the file.
    pub path: String,
    /// The line in that file, from 1.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ToolContent {
    /// Reads it as it was written.
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        let tag = tag_of(json, "type").ok_or_else(|| Error::missing_field("type"))?;
        match &*tag {
            "content" => serde_json::from_str(json).map(|Wrapped { content }| Self::Content(content)),
            "diff" => serde_json::from_str(json).map(Self::Diff),
            "terminal" => {
                serde_json::from_str(json).map(|TerminalLink { terminal_id }| Self::Terminal(terminal_id))
            }
            // Content without its wrapper: seen in documents, read by nobody.
            "text" | "image" | "audio" | "resource" | "resource_link" => {
                Err(Error::custom("content without its wrapper"))
            }
            _ => Ok(Self::Unknown(Unknown { tag: tag.into_owned(), raw: Json::of(json)? })),
        }
    }
}

impl<'de> Deserialize<'de> for ToolContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(<&'de RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

fn all_contents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolContent>, D::Error> {
    contents(deserializer).map(Option::unwrap_or_default)
}

fn contents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ToolContent>>, D::Error> {
    items_by(deserializer, ToolContent::read)
}

impl Serialize for ToolContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Content(content) => {
                Tagged { tag: "content", fields: &WrappedRef { content } }.serialize(serializer)
            }
            Self::Diff(fields) => Tagged { tag: "diff", fields }.serialize(serializer),
            Self::Terminal(terminal_id) => {
                let fields = &TerminalLink { terminal_id: terminal_id.clone() };
                Tagged { tag: "terminal", fields }.serialize(serializer)
            }
            Self::Unknown(unknown) => unknown.raw.serialize(serializer),
        }
    }
}

#[derive(Deserialize)]
struct Wrapped {
    content: ContentBlock,
}

#[derive(Serialize)]
struct WrappedRef<'a> {
    content: &'a ContentBlock,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TerminalLink {
    terminal_id: String,
}
