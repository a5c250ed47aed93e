//! What a runner is told: the commands of the protocol's section 5.
//!
//! A runner takes them to the letter: an unknown member, a missing one, or one of the wrong type loses the
//! command. So nothing is written that is not in the document, and what has a default is left out.

use serde::{Deserialize, Serialize};

use super::event::Visibility;
use super::members::{Members, NoObject};
use crate::rpc::{Json, append, shown};

/// One command for a runner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// The user says something (5.1).
    UserMessage(Box<UserMessage>),
    /// An approval is decided (5.2).
    ApprovalResponse(Box<ApprovalResponse>),
    /// The user answers a question of the agent (5.3).
    AskUserResponse(Box<AskUserResponse>),
    /// The run is to end (5.4).
    Abort,
    /// The conversation so far (5.5): messages as they came.
    LoadHistory(Vec<Json>),
    /// Tools that need no approval (5.6). Both lists are replaced.
    SetApprovalRules(Rules),
    /// Whether no tool needs an approval (5.7).
    SetYoloMode(bool),
    /// Another model answers from here on, by its place in the list (5.8).
    SetLlm(i64),
    /// The runner is to leave (5.9).
    Shutdown,
    /// The tools are to be described to the model again (5.10).
    ReinjectTools,
    /// A desktop pet is to show this session (5.11).
    AttachPet(u16),
    /// No desktop pet is to show this session (5.12).
    DetachPet,
}

/// The user says something.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// The words. Those that begin with `/btw` are a question beside the conversation.
    pub text: String,
    /// Pictures, as absolute paths.
    pub images: Vec<String>,
    /// Whether people should see the run.
    #[serde(skip_serializing_if = "is_visible")]
    pub visibility: Visibility,
    /// The number of the run's first step across the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absolute_turn_index: Option<u64>,
}

/// An approval is decided.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResponse {
    /// The id of a question, from `tool_call_pending`.
    pub approval_id: String,
    /// What the person, or a rule, has decided.
    pub decision: Decision,
}

/// How an approval is decided.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This call runs; the next one is asked about again.
    AllowOnce,
    /// This call does not run; the agent is told so, and goes on.
    Deny,
    /// It runs, and so do all calls of this tool in this project.
    AlwaysAllowProject,
    /// It runs, and so do all calls of this tool everywhere.
    AlwaysAllowGlobal,
    /// A word that nobody knows: the call does not run.
    #[serde(untagged)]
    Other(String),
}

impl Decision {
    /// Whether the call runs.
    #[must_use]
    pub const fn allows(&self) -> bool {
        matches!(self, Self::AllowOnce | Self::AlwaysAllowProject | Self::AlwaysAllowGlobal)
    }
}

/// The user answers a question of the agent.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AskUserResponse {
    /// The answer to the question.
    pub text: String,
    /// The number of the run's first step across the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absolute_turn_index: Option<u64>,
}

/// Tools that need no approval, by name.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    /// Tools that need none in any project.
    #[serde(rename = "alwaysAllowGlobal")]
    pub global: Vec<String>,
    /// Tools that need none in this project.
    #[serde(rename = "alwaysAllowProject")]
    pub project: Vec<String>,
}

/// One message of a conversation that a runner is to remember.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryMessage {
    /// Whose words they are: `user` or `assistant`.
    pub role: String,
    /// A text, or blocks as the model's provider writes them.
    pub content: Json,
    /// As in a `turn_end`; the real runner does not read them.
    #[serde(default)]
    pub tool_calls: Vec<Json>,
    /// As in a `turn_end`; the real runner does not read them.
    #[serde(default)]
    pub tool_results: Vec<Json>,
    /// Pictures, as absolute paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

impl HistoryMessage {
    /// A message of plain text.
    #[must_use]
    pub fn text(role: &str, content: &str) -> Self {
        Self {
            role: role.to_owned(),
            content: Json::new(content),
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            images: Vec::new(),
        }
    }
}

impl Command {
    /// Whether the text of a message is a question beside the conversation: it begins no run, and may be asked
    /// while one goes on.
    #[must_use]
    pub fn is_aside(text: &str) -> bool {
        let rest = text.trim_start().strip_prefix("/btw");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    }

    /// Its name on the wire.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::UserMessage(_) => "user_message",
            Self::ApprovalResponse(_) => "approval_response",
            Self::AskUserResponse(_) => "ask_user_response",
            Self::Abort => "abort",
            Self::LoadHistory(_) => "load_history",
            Self::SetApprovalRules(_) => "set_approval_rules",
            Self::SetYoloMode(_) => "set_yolo_mode",
            Self::SetLlm(_) => "set_llm",
            Self::Shutdown => "shutdown",
            Self::ReinjectTools => "reinject_tools",
            Self::AttachPet(_) => "attach_pet",
            Self::DetachPet => "detach_pet",
        }
    }
}

/// Why a line is no command, in the words that runners use.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoCommand {
    /// It is no JSON.
    #[error("Invalid JSON in command: {0}")]
    NotJson(NoObject),
    /// It is JSON of another kind, named.
    #[error("Command must be a JSON object, got {0}")]
    NoObject(&'static str),
    /// It does not say what it is.
    #[error("Command missing 'kind' field")]
    NoKind,
    /// Nobody knows a command of that kind.
    #[error("Unknown command kind: '{0}'")]
    Unknown(String),
    /// A member is missing, unknown, or of the wrong type.
    #[error("Invalid command '{kind}': {why}")]
    Invalid {
        /// The `kind` of the command.
        kind: String,
        /// Which member, and what is wrong with it.
        why: String,
    },
}

/// Reads a line for a runner, to the letter. Values are nested up to `depth`.
///
/// # Errors
///
/// The line is no command.
pub fn read(line: &str, depth: usize) -> Result<Command, NoCommand> {
    let members = Members::read(line, depth).map_err(|why| match why {
        NoObject::Other(what) => NoCommand::NoObject(what),
        NoObject::NotJson(_) | NoObject::TooDeep => NoCommand::NotJson(why),
    })?;
    let kind: String = members.required("kind").map_err(|_| NoCommand::NoKind)?;
    let command = command(&kind, &members).map_err(|why| NoCommand::Invalid { kind: kind.clone(), why })?;
    command.ok_or_else(|| NoCommand::Unknown(shown(&kind).into_owned()))
}

/// `None`: there is no such command.
fn command(kind: &str, members: &Members<'_>) -> Result<Option<Command>, String> {
    let only = |known: &[&str]| match members.stranger(&[known, &["kind"]].concat()) {
        Some(name) => Err(format!("unknown member '{}'", shown(name))),
        None => Ok(()),
    };
    let plain = |command| only(&[]).map(|()| Some(command));
    Ok(Some(match kind {
        "user_message" => {
            only(&["text", "images", "visibility", "absoluteTurnIndex"])?;
            Command::UserMessage(Box::new(UserMessage {
                text: members.required("text")?,
                images: members.optional("images")?.unwrap_or_default(),
                visibility: members.optional("visibility")?.unwrap_or_default(),
                absolute_turn_index: members.optional("absoluteTurnIndex")?,
            }))
        }
        "approval_response" => {
            only(&["approvalId", "decision"])?;
            let (approval_id, decision) = (members.required("approvalId")?, members.required("decision")?);
            Command::ApprovalResponse(Box::new(ApprovalResponse { approval_id, decision }))
        }
        "ask_user_response" => {
            only(&["text", "absoluteTurnIndex"])?;
            let absolute_turn_index = members.optional("absoluteTurnIndex")?;
            Command::AskUserResponse(Box::new(AskUserResponse {
                text: members.required("text")?,
                absolute_turn_index,
            }))
        }
        "load_history" => {
            only(&["messages"])?;
            Command::LoadHistory(members.required("messages")?)
        }
        "set_approval_rules" => {
            only(&["alwaysAllowGlobal", "alwaysAllowProject"])?;
            Command::SetApprovalRules(Rules {
                global: members.optional("alwaysAllowGlobal")?.unwrap_or_default(),
                project: members.optional("alwaysAllowProject")?.unwrap_or_default(),
            })
        }
        "set_yolo_mode" => {
            only(&["enabled"])?;
            Command::SetYoloMode(members.required("enabled")?)
        }
        "set_llm" => {
            only(&["llmIndex"])?;
            Command::SetLlm(members.required("llmIndex")?)
        }
        "attach_pet" => {
            only(&["port"])?;
            Command::AttachPet(members.optional("port")?.unwrap_or(PET_PORT))
        }
        "abort" => return plain(Command::Abort),
        "shutdown" => return plain(Command::Shutdown),
        "reinject_tools" => return plain(Command::ReinjectTools),
        "detach_pet" => return plain(Command::DetachPet),
        _ => return Ok(None),
    }))
}

/// Appends a command as one line without its end.
pub fn write(buf: &mut Vec<u8>, command: &Command) {
    let kind = command.kind();
    match command {
        Command::UserMessage(body) => append(buf, &Line { kind, body }),
        Command::ApprovalResponse(body) => append(buf, &Line { kind, body }),
        Command::AskUserResponse(body) => append(buf, &Line { kind, body }),
        Command::LoadHistory(messages) => append(buf, &Line { kind, body: &Messages { messages } }),
        Command::SetApprovalRules(body) => append(buf, &Line { kind, body }),
        Command::SetYoloMode(enabled) => append(buf, &Line { kind, body: &Enabled { enabled: *enabled } }),
        Command::SetLlm(llm_index) => append(buf, &Line { kind, body: &Index { llm_index: *llm_index } }),
        Command::AttachPet(port) => append(buf, &Line { kind, body: &Port { port: *port } }),
        Command::Abort | Command::Shutdown | Command::ReinjectTools | Command::DetachPet => {
            append(buf, &Line { kind, body: &Nothing {} });
        }
    }
}

#[derive(Serialize)]
struct Line<'a, T> {
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Messages<'a> {
    messages: &'a [Json],
}

#[derive(Serialize)]
struct Enabled {
    enabled: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    llm_index: i64,
}

#[derive(Serialize)]
struct Port {
    port: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_visible(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Visible)
}

/// Where the agent's own desktop pet listens.
pub const PET_PORT: u16 = 41983;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(command: &Command) -> String {
        let mut buf = Vec::new();
        write(&mut buf, command);
        String::from_utf8(buf).unwrap()
    }

    #[test]
    fn a_command_is_written_as_the_document_shows_it() {
        let said = |text: &str| UserMessage { text: text.to_owned(), ..UserMessage::default() };
        let answer = |decision| {
            Command::ApprovalResponse(Box::new(ApprovalResponse { approval_id: "appr_1".into(), decision }))
        };
        let history = [HistoryMessage::text("user", "earlier")].iter().map(Json::new).collect();
        for (command, line) in [
            (
                Command::UserMessage(Box::new(said("hello"))),
                r#"{"kind":"user_message","text":"hello","images":[]}"#,
            ),
            (
                Command::UserMessage(Box::new(UserMessage { absolute_turn_index: Some(7), ..said("x") })),
                r#"{"kind":"user_message","text":"x","images":[],"absoluteTurnIndex":7}"#,
            ),
            (
                Command::UserMessage(Box::new(UserMessage {
                    visibility: Visibility::Internal,
                    absolute_turn_index: Some(3),
                    ..said("x")
                })),
                r#"{"kind":"user_message","text":"x","images":[],"visibility":"internal","absoluteTurnIndex":3}"#,
            ),
            (
                answer(Decision::AlwaysAllowGlobal),
                r#"{"kind":"approval_response","approvalId":"appr_1","decision":"always_allow_global"}"#,
            ),
            (
                answer(Decision::Other("ALLOW".into())),
                r#"{"kind":"approval_response","approvalId":"appr_1","decision":"ALLOW"}"#,
            ),
            (
                Command::LoadHistory(history),
                r#"{"kind":"load_history","messages":[{"role":"user","content":"earlier","toolCalls":[],"toolResults":[]}]}"#,
            ),
            (
                Command::SetApprovalRules(Rules { global: vec![], project: vec!["code_run".into()] }),
                r#"{"kind":"set_approval_rules","alwaysAllowGlobal":[],"alwaysAllowProject":["code_run"]}"#,
            ),
            (Command::SetYoloMode(true), r#"{"kind":"set_yolo_mode","enabled":true}"#),
            (Command::SetLlm(1), r#"{"kind":"set_llm","llmIndex":1}"#),
            (Command::AttachPet(PET_PORT), r#"{"kind":"attach_pet","port":41983}"#),
            (Command::Abort, r#"{"kind":"abort"}"#),
            (Command::Shutdown, r#"{"kind":"shutdown"}"#),
        ] {
            assert_eq!(written(&command), line);
            assert_eq!(read(line, 128), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_no_command_says_why() {
        for (line, why) in [
            ("not json", "Invalid JSON in command: not JSON at column 2"),
            ("[1,2]", "Command must be a JSON object, got an array"),
            (r#"{"text":"x"}"#, "Command missing 'kind' field"),
            (r#"{"kind":7}"#, "Command missing 'kind' field"),
            (r#"{"kind":"nope"}"#, "Unknown command kind: 'nope'"),
            (r#"{"kind":"user_message"}"#, "Invalid command 'user_message': 'text' is missing"),
            (
                r#"{"kind":"user_message","text":"hi","sessionId":"s1"}"#,
                "Invalid command 'user_message': unknown member 'sessionId'",
            ),
            (
                r#"{"kind":"user_message","text":5}"#,
                "Invalid command 'user_message': 'text' has the wrong type",
            ),
            (r#"{"kind":"abort","extra":1}"#, "Invalid command 'abort': unknown member 'extra'"),
            (
                r#"{"kind":"set_yolo_mode","enabled":"false"}"#,
                "Invalid command 'set_yolo_mode': 'enabled' has the wrong type",
            ),
            (r#"{"kind":"load_history"}"#, "Invalid command 'load_history': 'messages' is missing"),
        ] {
            assert_eq!(read(line, 128).unwrap_err().to_string(), why, "{line}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        assert_eq!(
            read(r#"{"kind":"set_approval_rules"}"#, 128),
            Ok(Command::SetApprovalRules(Rules::default()))
        );
        assert_eq!(read(r#"{"kind":"attach_pet"}"#, 128), Ok(Command::AttachPet(PET_PORT)));
        let plain =
            Command::UserMessage(Box::new(UserMessage { text: "a".into(), ..UserMessage::default() }));
        assert_eq!(read(r#"{"kind":"user_message","text":"a","images":null}"#, 128), Ok(plain));
    }

    #[test]
    fn a_question_beside_the_conversation_is_told_from_a_message() {
        for text in ["/btw", "/btw what", "  /btw\twhat"] {
            assert!(Command::is_aside(text), "{text}");
        }
        for text in ["/btwx", "btw", "say /btw", "/session.x=1"] {
            assert!(!Command::is_aside(text), "{text}");
        }
    }
}
