//! Why something came to nothing, as data: the cause, what was being done, and what is known of the agent's end.
//! How that is put into words is up to whoever shows it.

pub mod passing;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::acp::client::Clock;
use crate::acp::session::{AuthMethod, Unsettable};
use crate::acp::{Fault, Notice, StopReason};
use crate::conversation::Overspent;
use crate::machine::{Exit, OpenError, Refused};
use crate::rpc::RpcError;
use passing::Passing;

/// A run or a turn that failed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// What was being done.
    pub phase: Phase,
    /// Why it failed.
    pub cause: RootCause,
    /// How the agent's process ended, unless our own signals ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_exit: Option<AgentExit>,
    /// How long the agent had run when it was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lived: Option<Duration>,
    /// The end of what the agent wrote to standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
}

/// The first fact that explains a failure.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum RootCause {
    /// The agent could not be started.
    Unopened(OpenError),
    /// The agent is gone. `None`: its output has ended, and nothing is known of an end of its own.
    Gone(Option<Exit>),
    /// The agent speaks something else.
    NotAcp(Foreign),
    /// The agent speaks another version of the protocol.
    WrongVersion(String),
    /// A clock ran out.
    TimedOut {
        /// The clock that ran out.
        clock: Clock,
        /// What it stood at.
        after: Duration,
        /// The first peculiarity of the agent: it may be what was waited for, in another form.
        saw: Option<Box<Notice>>,
    },
    /// The agent wants a login first.
    NeedsLogin {
        /// The code and the words that the agent gave.
        error: RpcError,
        /// The ways that it offers.
        methods: Vec<AuthMethod>,
    },
    /// The agent answered with an error.
    Rpc(RpcError),
    /// The agent takes no such value for a setting.
    BadValue {
        /// The code and the words that the agent gave.
        error: RpcError,
        /// The values that it offers.
        values: Vec<String>,
    },
    /// A setting has no place, or not that value.
    Unsettable(Unsettable),
    /// The agent knows no such session.
    UnknownSession(RpcError),
    /// The agent's answer makes no sense.
    Unreadable(String),
    /// The agent broke the protocol.
    Fault(Fault),
    /// The agent ended the turn by a word that stands for no success.
    Stopped(StopReason),
    /// What was asked for cannot be done.
    Impossible(Refused),
    /// The agent has no session there.
    NoSession {
        /// The absolute path of the workspace.
        cwd: String,
    },
    /// The policy ends the run with the first permission that is refused.
    Rejected {
        /// What was to be permitted.
        title: String,
    },
    /// The agent spent more than it might: it was told to stop.
    Overspent(Overspent),
    /// The answer is not what was wanted, and the agent is not asked again.
    Unwanted {
        /// What is wrong with it, in the words of whoever judged it.
        why: String,
    },
    /// We cancelled or left.
    Cancelled,
    /// Nobody drives the machine any more.
    Undriven,
}

/// What an agent speaks instead of ACP.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// Lines that are no messages; the beginning of the first.
    Wrote(String),
    /// What it is sent.
    Echo,
    /// JSON-RPC, without the method `initialize`.
    NoInitialize,
    /// Messages in other frames than lines.
    Framing(String),
}

/// How the agent's process ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentExit {
    /// It returned this exit status.
    Code(i32),
    /// It was ended by the signal of that number.
    Signal(i32),
}

/// What was being done.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Looking for an agent.
    Discovery,
    /// Starting the agent's process.
    Spawn,
    /// The handshake, `initialize`.
    Initialize,
    /// Logging in, `authenticate`.
    Authenticate,
    /// Opening or setting up a session.
    Session,
    /// A turn, from the prompt to its end.
    Prompt,
    /// Ending the agent's process and its group.
    Teardown,
    /// Finding a socket and connecting to it.
    Connect,
    /// Reading the command line.
    Usage,
}

/// What sort of failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// It spent more than it might.
    Limit,
    /// Its answer is not what was wanted.
    Unwanted,
    /// It was cancelled, by a person or a program.
    Cancelled,
    /// The caller asked for something that makes no sense.
    Usage,
    /// Anything that has no kind of its own.
    Internal,
}

impl Failed {
    /// A failure of which nothing is known but its cause.
    #[must_use]
    pub const fn new(phase: Phase, cause: RootCause) -> Self {
        Self { phase, cause, agent_exit: None, lived: None, stderr_tail: None }
    }

    /// What sort of failure.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.cause.kind()
    }

    /// Whether the same again may go through.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let passes = matches!(&self.cause, RootCause::Rpc(error) if Passing::of(error).is_some());
        passes || self.kind().is_retryable()
    }
}

/// The bare fact, for a peer or a log. What people are told is up to whoever tells it.
impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            RootCause::Rpc(error)
            | RootCause::BadValue { error, .. }
            | RootCause::UnknownSession(error)
            | RootCause::NeedsLogin { error, .. } => f.write_str(&error.message),
            RootCause::Unopened(error) => error.fmt(f),
            RootCause::Gone(Some(Exit::Code(code))) => write!(f, "the agent exited with code {code}"),
            RootCause::Gone(Some(Exit::Signal(signal))) => write!(f, "signal {signal} ended the agent"),
            RootCause::Gone(Some(Exit::Unknown) | None) => f.write_str("the agent is gone"),
            RootCause::WrongVersion(version) => write!(f, "the agent speaks version {version} of ACP"),
            RootCause::TimedOut { clock, after, .. } => {
                write!(f, "the clock {} ran out after {after:?}", clock.as_str())
            }
            RootCause::Unsettable(why) => why.fmt(f),
            RootCause::Unreadable(why) => f.write_str(why),
            RootCause::Fault(fault) => fault.fmt(f),
            RootCause::Stopped(reason) => write!(f, "the agent stopped: {}", reason.as_str()),
            RootCause::Impossible(refused) => refused.fmt(f),
            RootCause::NoSession { cwd } => write!(f, "no session in {cwd}"),
            RootCause::Rejected { title } => write!(f, "not permitted: {title}"),
            RootCause::NotAcp(_) => f.write_str("the agent does not speak ACP"),
            RootCause::Overspent(overspent) => overspent.fmt(f),
            RootCause::Unwanted { why } => write!(f, "not the answer that was wanted: {why}"),
            RootCause::Cancelled => f.write_str("cancelled"),
            RootCause::Undriven => f.write_str("nobody drives it any more"),
        }
    }
}

impl std::error::Error for Failed {}

/// An amount as people write it.
#[derive(Clone, Copy, Debug)]
pub struct Millionths(pub u64);

impl fmt::Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(all) = self;
        let (whole, rest) = (all / 1_000_000, format!("{:06}", all % 1_000_000));
        let rest = rest.trim_end_matches('0');
        write!(f, "{whole}.{rest:0<2}")
    }
}

impl RootCause {
    /// What sort of failure.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Unopened(error) => Kind::of_open(*error),
            Self::Gone(Some(Exit::Signal(_))) => Kind::Signalled,
            Self::Gone(_) => Kind::Exited,
            Self::NotAcp(_) => Kind::NotAcp,
            Self::WrongVersion(_) => Kind::WrongVersion,
            Self::TimedOut { .. } => Kind::Timeout,
            Self::NeedsLogin { .. } => Kind::NeedsLogin,
            Self::Rpc(_) | Self::BadValue { .. } | Self::Stopped(_) => Kind::Rpc,
            Self::Unreadable(_) | Self::Fault(_) => Kind::Protocol,
            Self::Impossible(Refused::NotOffered(_)) | Self::Unsettable(_) => Kind::Usage,
            Self::NoSession { .. } | Self::UnknownSession(_) => Kind::NotFound,
            Self::Rejected { .. } => Kind::Refused,
            Self::Overspent(_) => Kind::Limit,
            Self::Unwanted { .. } => Kind::Unwanted,
            Self::Cancelled => Kind::Cancelled,
            Self::Impossible(_) | Self::Undriven => Kind::Internal,
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
    /// Whether the same again may go through.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Timeout | Self::Busy | Self::Unreachable)
    }

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
