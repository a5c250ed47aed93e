//! What stands in the lines: method names, parameters, results. Both roles.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::rpc::{Json, RpcError, code, or_default, text};

/// The version of this channel. Not ACP's, though it is written in the same place.
pub(super) const VERSION: u64 = 1;

/// No right token yet, or the wrong session.
pub(super) const NOT_ADMITTED: i64 = code::AUTH_REQUIRED;

/// The methods of the channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Method {
    Initialize,
    Load,
    Prompt,
    Cancel,
    Ping,
}

impl Method {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Load => "session/load",
            Self::Prompt => "session/prompt",
            Self::Cancel => "session/cancel",
            Self::Ping => "ping",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        const ALL: [Method; 5] =
            [Method::Initialize, Method::Load, Method::Prompt, Method::Cancel, Method::Ping];
        ALL.into_iter().find(|method| method.name() == name)
    }
}

/// Who serves, as `agentInfo` says.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// The name of the program that serves.
    pub name: String,
    /// The version of that program.
    pub version: String,
}

/// What `session/load` tells about the session.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Session {
    /// Its id, or its peer id when it has none.
    #[serde(deserialize_with = "or_default")]
    pub session_id: String,
    /// The folder that the session works in.
    #[serde(deserialize_with = "or_default")]
    pub cwd: String,
    /// Whether a turn runs.
    #[serde(deserialize_with = "or_default")]
    pub busy: bool,
}

/// How the turn of a prompt ended, unless it failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Turn {
    /// The session's word for it.
    pub stop: Stop,
    /// The last piece of the answer, if the session had one at that moment.
    pub answer: Option<String>,
}

/// How a turn ended, in the words of the wire.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stop {
    /// The turn ran to its end. Never said of one that did not.
    EndTurn,
    /// The agent will not (ACP's word).
    Refusal,
    /// The model's output limit came (ACP's word).
    MaxTokens,
    /// Too many model requests in one turn (ACP's word).
    MaxTurnRequests,
    /// A client or the keyboard cancelled it.
    Cancelled,
    /// The words were taken, and the end of the turn was not seen: the session is leaving, or the wait took
    /// longer than [`Limits::wait`](super::Limits::wait).
    Pending,
    /// A word that is not of this version.
    Other(String),
}

impl Turn {
    /// A turn that stopped by itself. An answer of blanks is none.
    #[must_use]
    pub fn ended(stop: Stop, answer: Option<String>) -> Self {
        Self { stop, answer: answer.filter(|text| !text.trim().is_empty()) }
    }

    /// A turn that somebody cancelled.
    #[must_use]
    pub const fn cancelled() -> Self {
        Self { stop: Stop::Cancelled, answer: None }
    }

    /// A turn whose end nobody sees: the words were taken.
    #[must_use]
    pub const fn unseen() -> Self {
        Self { stop: Stop::Pending, answer: None }
    }
}

impl Stop {
    /// The word that stands for it on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::Refusal => "refusal",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Cancelled => "cancelled",
            Self::Pending => "agentica_pending",
            Self::Other(word) => word,
        }
    }

    fn from_word(word: String) -> Self {
        const KNOWN: [Stop; 6] = [
            Stop::EndTurn,
            Stop::Refusal,
            Stop::MaxTokens,
            Stop::MaxTurnRequests,
            Stop::Cancelled,
            Stop::Pending,
        ];
        KNOWN.into_iter().find(|stop| stop.as_str() == word).unwrap_or(Self::Other(word))
    }
}

/// The result of `session/prompt`. Who read only `agenticaPending` before it was a stop reason still can.
#[derive(Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct TurnResult<'a> {
    #[serde(borrow)]
    stop_reason: Cow<'a, str>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    agentica_pending: bool,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    agentica_answer: Option<Cow<'a, str>>,
}

impl Serialize for Turn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let result = TurnResult {
            stop_reason: self.stop.as_str().into(),
            agentica_pending: self.stop == Stop::Pending,
            agentica_answer: self.answer.as_deref().map(Cow::from),
        };
        result.serialize(serializer)
    }
}

impl Turn {
    /// `None` when the result names no stop reason.
    fn from_result(raw: &RawValue) -> Option<Self> {
        object::<TurnResult<'_>>(raw)?.turn()
    }
}

impl TurnResult<'_> {
    fn turn(self) -> Option<Turn> {
        let stop = match self {
            TurnResult { agentica_pending: true, .. } => Stop::Pending,
            TurnResult { stop_reason, .. } if stop_reason.is_empty() => return None,
            TurnResult { stop_reason, .. } => Stop::from_word(stop_reason.into_owned()),
        };
        Some(Turn { stop, answer: self.agentica_answer.map(Cow::into_owned) })
    }
}

impl<'de> Deserialize<'de> for Turn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        let turn = serde_json::from_str::<TurnResult<'_>>(raw.get()).ok().and_then(TurnResult::turn);
        turn.ok_or_else(|| serde::de::Error::custom("a turn has a stopReason"))
    }
}

/// What goes with the error of a turn that failed.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FailedTurn<'a> {
    /// Marks it: every other error means that nothing was delivered.
    #[serde(deserialize_with = "or_default")]
    prompt_sent: bool,
    #[serde(borrow, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    agentica_answer: Option<Cow<'a, str>>,
}

/// The answer to a prompt whose turn failed: an error with the reason. Its `data` says that the words were
/// delivered, and what had been answered before.
pub(super) fn failed(why: &str, answer: Option<&str>) -> RpcError {
    let agentica_answer = answer.filter(|text| !text.trim().is_empty()).map(Cow::from);
    let mut error = RpcError::new(code::INTERNAL_ERROR, why);
    error.data = Some(Json::new(&FailedTurn { prompt_sent: true, agentica_answer }));
    error
}

/// Whether an error is that of a turn that failed, and what had been answered before.
pub(super) fn failed_turn(error: &RpcError) -> Option<Option<String>> {
    let data: FailedTurn<'_> = serde_json::from_str(error.data.as_ref()?.get()).ok()?;
    data.prompt_sent.then(|| data.agentica_answer.map(Cow::into_owned))
}

/// The answer to a request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To a load: the session.
    Session(Box<Session>),
    /// To a prompt: how its turn ended.
    Turn(Turn),
    /// To a ping or a cancel.
    Done {},
}

impl Answer {
    /// From a result; `None` when it cannot be read.
    pub(super) fn from_result(method: Method, raw: &RawValue) -> Option<Self> {
        match method {
            Method::Load => object(raw).map(Self::Session),
            Method::Prompt => Turn::from_result(raw).map(Self::Turn),
            Method::Initialize | Method::Cancel | Method::Ping => Some(Self::Done {}),
        }
    }
}

/// The result of `ping`.
#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
}

pub(super) const HEALTHY: Health = Health { status: "ok" };

/// The result of `initialize`, as a server writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Welcome<'a> {
    protocol_version: u64,
    agent_capabilities: Capabilities,
    agent_info: &'a AgentInfo,
    agentica_auth: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    load_session: bool,
    prompt_capabilities: Empty,
    agentica_attach: bool,
}

#[derive(Serialize)]
pub(super) struct Empty {}

impl<'a> Welcome<'a> {
    pub(super) const fn new(agent_info: &'a AgentInfo) -> Self {
        let agent_capabilities =
            Capabilities { load_session: false, prompt_capabilities: Empty {}, agentica_attach: true };
        Self { protocol_version: VERSION, agent_capabilities, agent_info, agentica_auth: "token" }
    }
}

/// The result of `initialize`, as a client reads it: the version, and who serves.
pub(super) fn welcome(raw: &RawValue) -> Option<(u64, AgentInfo)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Read {
        protocol_version: u64,
        #[serde(default, deserialize_with = "or_default")]
        agent_info: Info,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Info {
        #[serde(deserialize_with = "or_default")]
        name: String,
        version: Option<Json>,
    }
    let read: Read = object(raw)?;
    let version = read.agent_info.version.map_or_else(String::new, |raw| {
        // agentica writes a number.
        serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
    });
    Some((read.protocol_version, AgentInfo { name: read.agent_info.name, version }))
}

/// The parameters that clients write.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Params<'a> {
    #[serde(rename_all = "camelCase")]
    Initialize { auth_token: &'a str, client_capabilities: Empty },
    #[serde(rename_all = "camelCase")]
    Prompt {
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<&'a str>,
        prompt: [TextBlock<'a>; 1],
    },
    #[serde(rename_all = "camelCase")]
    Other {
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<&'a str>,
    },
}

#[derive(Serialize)]
pub(super) struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> Params<'a> {
    pub(super) const fn initialize(auth_token: &'a str) -> Self {
        Self::Initialize { auth_token, client_capabilities: Empty {} }
    }

    pub(super) const fn prompt(session_id: Option<&'a str>, text: &'a str) -> Self {
        Self::Prompt { session_id, prompt: [TextBlock { r#type: "text", text }] }
    }
}

/// The token of an `initialize`, if its parameters hold one that is a string. An empty one lets nobody in.
pub(super) fn token(params: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Read<'a> {
        #[serde(borrow, rename = "authToken")]
        token: &'a RawValue,
    }
    let read: Read = object(params?)?;
    text(read.token).filter(|token| !token.is_empty())
}

/// The session that a request names; `None` when it names none.
///
/// # Errors
///
/// The parameters are no object.
pub(super) fn session(params: Option<&RawValue>) -> Result<Option<String>, RpcError> {
    #[derive(Default, Deserialize)]
    struct Read<'a> {
        #[serde(borrow, default, rename = "sessionId")]
        session: Option<&'a RawValue>,
    }
    let Some(params) = given(params) else { return Ok(None) };
    let read: Read = object(params).ok_or_else(not_an_object)?;
    Ok(named(read.session))
}

/// The session and the words of a `session/prompt`.
///
/// # Errors
///
/// The prompt holds anything but text, or no text at all.
pub(super) fn prompt(params: Option<&RawValue>) -> Result<(Option<String>, String), RpcError> {
    #[derive(Deserialize)]
    struct Read<'a> {
        #[serde(borrow, default, rename = "sessionId")]
        session: Option<&'a RawValue>,
        #[serde(borrow, default)]
        prompt: Option<&'a RawValue>,
    }
    let missing = || RpcError::invalid_params("prompt must be a string or a list of text blocks");
    let params = given(params).ok_or_else(missing)?;
    let read: Read = object(params).ok_or_else(not_an_object)?;
    let raw = read.prompt.ok_or_else(missing)?;
    let words = match raw.get().as_bytes().first() {
        Some(b'"') => text(raw).ok_or_else(missing)?.trim().to_owned(),
        Some(b'[') => join(&serde_json::from_str::<Vec<&RawValue>>(raw.get()).map_err(|_| missing())?)?,
        _ => return Err(missing()),
    };
    if words.is_empty() {
        return Err(RpcError::invalid_params("the prompt holds no text"));
    }
    Ok((named(read.session), words))
}

/// The texts of all blocks, a line each. A block that cannot be delivered refuses the whole prompt: without
/// its image, "describe this image" is another question.
fn join(blocks: &[&RawValue]) -> Result<String, RpcError> {
    let mut texts = Vec::new();
    let mut others = BTreeSet::new();
    for raw in blocks {
        match Block::from_raw(raw) {
            Block::Text(text) => texts.push(text),
            Block::Other(kind) => {
                others.insert(kind);
            }
        }
    }
    if others.is_empty() {
        return Ok(texts.join("\n").trim().to_owned());
    }
    let others: Vec<_> = others.into_iter().collect();
    Err(RpcError::invalid_params(format!(
        "only text blocks can be delivered, not: {}; nothing was delivered",
        others.join(", ")
    )))
}

enum Block<'a> {
    Text(Cow<'a, str>),
    /// What to call it in the refusal.
    Other(Cow<'a, str>),
}

impl<'a> Block<'a> {
    fn from_raw(raw: &'a RawValue) -> Self {
        #[derive(Deserialize)]
        struct Read<'a> {
            #[serde(borrow, default)]
            r#type: Option<&'a RawValue>,
            #[serde(borrow, default)]
            text: Option<&'a RawValue>,
        }
        let kind = match raw.get().as_bytes().first() {
            Some(b'{') => None,
            Some(b'[') => Some("array"),
            Some(b'"') => Some("string"),
            Some(b't' | b'f') => Some("boolean"),
            Some(b'n') => Some("null"),
            _ => Some("number"),
        };
        if let Some(kind) = kind {
            return Self::Other(kind.into());
        }
        let Some(read) = object::<Read>(raw) else {
            return Self::Other("unreadable".into());
        };
        match (read.r#type.and_then(text), read.text) {
            (None, _) => Self::Other("untyped".into()),
            (Some(kind), Some(raw)) if kind == "text" => {
                text_or_number(raw).map_or(Self::Other("text without text".into()), Self::Text)
            }
            (Some(kind), None) if kind == "text" => Self::Other("text without text".into()),
            (Some(kind), _) => Self::Other(kind),
        }
    }
}

/// Reads an object: for serde, a list of the members' values would do as well.
fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

/// Absent, null and the empty values that Python takes for nothing count as no parameters.
fn given(params: Option<&RawValue>) -> Option<&RawValue> {
    params.filter(|raw| !matches!(raw.get(), "[]" | "\"\""))
}

fn not_an_object() -> RpcError {
    RpcError::invalid_params("params must be an object without a member twice")
}

/// An absent, null or empty session id names no session; a number names one that does not exist.
fn named(session: Option<&RawValue>) -> Option<String> {
    let raw = session?;
    let name = text(raw).unwrap_or_else(|| raw.get().into());
    (!name.is_empty()).then(|| name.into_owned())
}

fn text_or_number(raw: &RawValue) -> Option<Cow<'_, str>> {
    let number = raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if number { Some(raw.get().into()) } else { text(raw) }
}
