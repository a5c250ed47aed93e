//! What an agent may ask of a client beside permissions (ACP, file-system, terminals, elicitation).

use serde::{Deserialize, Serialize};

use super::lenient::{or_default, or_null};
use super::session::Pair;
use super::{Json, SessionId};
use crate::rpc::Id;

/// A request of the agent that the client offered to serve.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceRequest {
    /// Read a text file. Answer `{content}`, or [`code::NOT_FOUND`](crate::rpc::code::NOT_FOUND).
    ReadTextFile(ReadTextFile),
    /// Write a text file, creating it when it is missing. Answer `{}`.
    WriteTextFile(WriteTextFile),
    /// Start a command. Answer `{terminalId}` at once.
    CreateTerminal(CreateTerminal),
    /// What a command wrote so far. Answer `{output, truncated, exitStatus?}`.
    TerminalOutput(TerminalRef),
    /// Answer `{exitCode?, signal?}` when the command has ended.
    WaitForTerminal(TerminalRef),
    /// End a command; its id stays good. Answer `{}`.
    KillTerminal(TerminalRef),
    /// Forget a command, ending it if need be. Answer `{}`.
    ReleaseTerminal(TerminalRef),
    /// Ask the user. Answer `{action, content?}`.
    Elicit(Elicit),
    /// A method of an extension that the config names.
    Extension {
        /// The name of the method, beginning with `_`.
        method: String,
        /// Its parameters, as written.
        params: Option<Json>,
    },
}

/// The parameters of `fs/read_text_file`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadTextFile {
    /// The session that it is for; its folders bound it.
    pub session_id: SessionId,
    /// The absolute path of the file.
    pub path: String,
    /// The first line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// How many lines at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The parameters of `fs/write_text_file`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteTextFile {
    /// The session that it is for; its folders bound it.
    pub session_id: SessionId,
    /// The absolute path of the file.
    pub path: String,
    /// What it will hold.
    pub content: String,
}

/// The parameters of `terminal/create`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTerminal {
    /// The session that it is for; its folders bound it.
    pub session_id: SessionId,
    /// The program; no shell is involved.
    pub command: String,
    /// The arguments of the program, each whole.
    #[serde(default, deserialize_with = "or_null")]
    pub args: Vec<String>,
    /// Variables to lay over its environment.
    #[serde(default, deserialize_with = "or_null")]
    pub env: Vec<Pair>,
    /// Its working directory; the session's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Bytes of output to keep, the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_byte_limit: Option<u64>,
}

/// The parameters of the other terminal methods.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalRef {
    /// The session that it is for; its folders bound it.
    pub session_id: SessionId,
    /// The id that `terminal/create` was answered with.
    pub terminal_id: String,
}

/// The parameters of `elicitation/create`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Elicit {
    /// The question, for people.
    pub message: String,
    /// How it is asked: `form` or `url`, each by its own capability.
    pub mode: String,
    /// The session it is about; either this or a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The tool call that it is about.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The request of the client that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Id>,
    /// For a form: its fields, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Json>,
    /// For a page: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// For a page: its address, not to be opened without consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl ServiceRequest {
    /// The session it is about, if it says so.
    #[must_use]
    pub const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::ReadTextFile(params) => Some(&params.session_id),
            Self::WriteTextFile(params) => Some(&params.session_id),
            Self::CreateTerminal(params) => Some(&params.session_id),
            Self::TerminalOutput(params)
            | Self::WaitForTerminal(params)
            | Self::KillTerminal(params)
            | Self::ReleaseTerminal(params) => Some(&params.session_id),
            Self::Elicit(params) => params.session_id.as_ref(),
            Self::Extension { .. } => None,
        }
    }
}
