//! What went wrong, in the protocol's words, and what a command line makes of it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rpc::{Json, each_member, text};

/// The stable identifier of an error. Servers may add some: an unknown one is kept as it came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ErrorTag {
    /// Anything without a name of its own; also what a client makes of an answer that says nothing.
    Internal,
    /// The line is no request, or the arguments are not what the command takes.
    InvalidArgs,
    /// No such session, project or runner.
    NotFound,
    /// The server has no database; on the client's side: there is no server.
    DbUnavailable,
    /// The session's runner cannot be reached, or failed.
    RunnerError,
    /// No Python for the runner.
    PythonNotFound,
    /// The runner's repository is not where it should be.
    GaPathInvalid,
    /// The managed runtime is broken.
    ManagedRuntimeInvalid,
    /// The managed runtime has no model.
    ManagedModelNotConfigured,
    /// The runner's working directory cannot be entered.
    BridgeCwdInvalid,
    /// A path is not text.
    PathEncoding,
    /// The runner could not be started.
    SpawnIo,
    /// The runner has no pipe.
    PipeUnavailable,
    /// The request's schema version is not spoken here.
    SchemaMismatch,
    /// The server has no command of that name.
    UnknownCommand,
    /// The server is without its application, or stopping.
    AppUnavailable,
    /// The connection was silent for too long.
    IdleTimeout,
    /// The session cannot take it now.
    Busy,
    /// Somebody else was first.
    AlreadyAnswered,
    /// The program that asks was started by an agent, and an agent may not decide that.
    NotPermitted,
    /// The agent wants a login first.
    NeedsLogin,
    /// Reserved by the protocol; nobody sends it.
    NotImplemented,
    /// One that this version does not know.
    Unknown(String),
}

impl ErrorTag {
    /// Every tag that has a name here.
    pub const KNOWN: [Self; 22] = [
        Self::Internal,
        Self::InvalidArgs,
        Self::NotFound,
        Self::DbUnavailable,
        Self::RunnerError,
        Self::PythonNotFound,
        Self::GaPathInvalid,
        Self::ManagedRuntimeInvalid,
        Self::ManagedModelNotConfigured,
        Self::BridgeCwdInvalid,
        Self::PathEncoding,
        Self::SpawnIo,
        Self::PipeUnavailable,
        Self::SchemaMismatch,
        Self::UnknownCommand,
        Self::AppUnavailable,
        Self::IdleTimeout,
        Self::Busy,
        Self::AlreadyAnswered,
        Self::NotPermitted,
        Self::NeedsLogin,
        Self::NotImplemented,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.row().0
    }

    /// The status of a command line that ends with this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.row().1
    }

    /// The one table: word (`docs/agent-api/stability-and-versioning.md` of Galley) and exit status
    /// (`errors-and-exit-codes.md` §3).
    fn row(&self) -> (&str, u8) {
        match self {
            Self::Internal => ("internal", 1),
            Self::InvalidArgs => ("invalid_args", 2),
            Self::NotFound => ("not_found", 3),
            Self::DbUnavailable => ("db_unavailable", 4),
            Self::RunnerError => ("runner_error", 5),
            Self::PythonNotFound => ("python_not_found", 5),
            Self::GaPathInvalid => ("ga_path_invalid", 5),
            Self::ManagedRuntimeInvalid => ("managed_runtime_invalid", 5),
            Self::ManagedModelNotConfigured => ("managed_model_not_configured", 5),
            Self::BridgeCwdInvalid => ("bridge_cwd_invalid", 5),
            Self::PathEncoding => ("path_encoding", 5),
            Self::SpawnIo => ("spawn_io", 5),
            Self::PipeUnavailable => ("pipe_unavailable", 5),
            Self::SchemaMismatch => ("schema_mismatch", 1),
            Self::UnknownCommand => ("unknown_command", 1),
            Self::AppUnavailable => ("app_unavailable", 1),
            Self::IdleTimeout => ("idle_timeout", 1),
            Self::Busy => ("busy", 1),
            Self::AlreadyAnswered => ("already_answered", 1),
            Self::NotPermitted => ("not_permitted", 1),
            Self::NeedsLogin => ("needs_login", 7),
            Self::NotImplemented => ("not_implemented", 1),
            Self::Unknown(word) => (word, 1),
        }
    }
}

impl From<&str> for ErrorTag {
    fn from(word: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|tag| tag.as_str() == word);
        known.unwrap_or_else(|| Self::Unknown(word.to_owned()))
    }
}

impl fmt::Display for ErrorTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorTag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorTag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Self::from(&*word))
    }
}

/// A refusal in the protocol's words: a server gives it, a client gets it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({tag})")]
pub struct Failure {
    /// What kind of failure. Branch on this.
    #[serde(rename = "error")]
    pub tag: ErrorTag,
    /// The reason for people. Its words may change.
    pub message: String,
    /// Members beside these two, as an object: what more there is to say to a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Box<Json>>,
}

impl Failure {
    /// A failure of that kind, with a reason for people.
    #[must_use]
    pub fn new(tag: ErrorTag, message: impl Into<String>) -> Self {
        Self { tag, message: message.into(), beside: None }
    }

    /// The same with members beside the tag: an object. Those that every answer has are left out.
    #[must_use]
    pub fn beside<T: Serialize + ?Sized>(mut self, members: &T) -> Self {
        self.beside = Some(Box::new(Json::new(members)));
        self
    }

    /// A member beside the tag, if there is one and it is text.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<String> {
        let mut found = None;
        each_member(self.beside.as_ref()?.get(), |member, value| {
            if member == name {
                found = value.and_then(text).map(Cow::into_owned);
            }
        });
        found
    }

    /// The request or its arguments cannot be taken.
    #[must_use]
    pub fn invalid_args(why: impl Into<String>) -> Self {
        Self::new(ErrorTag::InvalidArgs, why)
    }

    /// The server has no such command.
    #[must_use]
    pub fn unknown_command(command: &str) -> Self {
        Self::new(ErrorTag::UnknownCommand, format!("unknown command '{command}'"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_word_and_its_tag_are_one_to_one() {
        let words: BTreeSet<_> = ErrorTag::KNOWN.iter().map(ErrorTag::as_str).collect();
        assert_eq!(words.len(), ErrorTag::KNOWN.len());
        for tag in ErrorTag::KNOWN {
            assert_eq!(ErrorTag::from(tag.as_str()), tag);
            assert_eq!(serde_json::from_str::<ErrorTag>(&format!("\"{tag}\"")).unwrap(), tag);
        }
    }

    #[test]
    fn an_unknown_tag_is_kept_and_exits_with_1() {
        let tag = ErrorTag::from("goal_conflict");
        assert_eq!(tag, ErrorTag::Unknown("goal_conflict".to_owned()));
        assert_eq!((tag.as_str(), tag.exit_code()), ("goal_conflict", 1));
        assert_eq!(serde_json::to_string(&tag).unwrap(), "\"goal_conflict\"");
    }

    #[test]
    fn the_exit_codes_are_the_protocols() {
        let protocol = "internal 1, invalid_args 2, not_found 3, db_unavailable 4, runner_error 5, \
            python_not_found 5, ga_path_invalid 5, managed_runtime_invalid 5, managed_model_not_configured 5, \
            bridge_cwd_invalid 5, path_encoding 5, spawn_io 5, pipe_unavailable 5, schema_mismatch 1, \
            unknown_command 1, app_unavailable 1, idle_timeout 1, busy 1, already_answered 1, not_permitted 1, \
            needs_login 7, not_implemented 1";
        let ours = ErrorTag::KNOWN.map(|tag| format!("{tag} {}", tag.exit_code()));
        assert_eq!(ours.join(", "), protocol);
    }
}
