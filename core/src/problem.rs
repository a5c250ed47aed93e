//! One shape for everything that goes wrong: which phase, what kind, why, and what to try next. It is
//! what each channel tells its application, and what `error` is in every JSON object of the command line.

use serde::{Deserialize, Serialize};

use crate::machine::{Exit, OpenError};

/// An error as people and programs are shown it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Problem {
    /// What sort of failure.
    pub kind: Kind,
    /// What was being done.
    pub phase: Phase,
    /// The cause, in a sentence.
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether the same again may go through.
    pub retryable: bool,
    /// Whether the words of the prompt were delivered: saying them again may do their work twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompt_sent: bool,
    /// How the agent's process ended, if that is part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_exit: Option<AgentExit>,
    /// The end of what the agent wrote to standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
}

/// How the agent's process ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentExit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What was being done.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// Looking for an agent.
    Discovery,
    /// Starting its process.
    Spawn,
    /// The handshake.
    Initialize,
    /// Logging in.
    Authenticate,
    /// Opening or setting up a session.
    Session,
    /// A turn.
    Prompt,
    /// Ending the process.
    Teardown,
    /// Reaching a socket.
    Connect,
    /// Reading the command line.
    Usage,
}

/// What sort of failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Nothing of that name.
    NotFound,
    /// There, but not to be executed.
    NotExecutable,
    /// The process ended by itself.
    Exited,
    /// A signal ended the process.
    Signalled,
    /// It speaks something else.
    NotAcp,
    /// It speaks another version.
    WrongVersion,
    /// A clock ran out.
    Timeout,
    /// It wants a login first.
    NeedsLogin,
    /// It broke the protocol.
    Protocol,
    /// It answered with an error.
    Rpc,
    /// A permission was refused, or a peer refuses us.
    Refused,
    /// Something else is going on there.
    Busy,
    /// It cannot be reached.
    Unreachable,
    /// It was cancelled.
    Cancelled,
    /// The caller asked for something that makes no sense.
    Usage,
    /// Anything else.
    Internal,
}

impl Problem {
    /// A problem with no more than a sentence.
    #[must_use]
    pub fn new(phase: Phase, kind: Kind, message: impl Into<String>) -> Self {
        let retryable = matches!(kind, Kind::Timeout | Kind::Busy | Kind::Unreachable);
        Self {
            kind,
            phase,
            message: message.into(),
            hint: None,
            retryable,
            prompt_sent: false,
            agent_exit: None,
            stderr_tail: None,
        }
    }

    /// With something to try next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The words were delivered, so it is not to be tried again unseen.
    #[must_use]
    pub const fn prompt_sent(mut self) -> Self {
        self.prompt_sent = true;
        self.retryable = false;
        self
    }

    /// The exit code of a command that ends with it.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match (self.kind, self.phase) {
            (Kind::Usage, _) | (_, Phase::Usage) => 2,
            (Kind::Cancelled, _) => 130,
            (Kind::Timeout, _) => 124,
            (Kind::NeedsLogin, _) => 7,
            (Kind::NotFound, Phase::Discovery | Phase::Session) => 3,
            (_, Phase::Connect) => 4,
            (Kind::Refused, _) => 6,
            (_, Phase::Spawn | Phase::Initialize)
            | (Kind::Exited | Kind::Signalled | Kind::NotAcp | Kind::WrongVersion | Kind::Protocol, _) => 5,
            _ => 1,
        }
    }
}

impl AgentExit {
    /// From what the system says, if it says anything.
    #[must_use]
    pub const fn of(exit: Exit) -> Option<Self> {
        match exit {
            Exit::Code(code) => Some(Self::Code(code)),
            Exit::Signal(signal) => Some(Self::Signal(signal)),
            Exit::Unknown => None,
        }
    }
}

impl Kind {
    /// The kind of a link that could not be opened.
    #[must_use]
    pub const fn of_open(error: OpenError) -> Self {
        match error {
            OpenError::NotFound => Self::NotFound,
            OpenError::NotExecutable | OpenError::NotAProgram | OpenError::NoInterpreter => {
                Self::NotExecutable
            }
            OpenError::BadDirectory | OpenError::TooLong | OpenError::PathTooLong => Self::Usage,
            OpenError::Busy | OpenError::TooManyFiles | OpenError::InUse => Self::Busy,
            OpenError::Refused | OpenError::NotASocket | OpenError::NotPrivate(_) | OpenError::Denied => {
                Self::Unreachable
            }
            OpenError::TimedOut => Self::Timeout,
            OpenError::Unguarded | OpenError::Unsupported | OpenError::System(_) => Self::Internal,
        }
    }
}
