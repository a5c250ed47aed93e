//! What sort of failure an answer or an end is.

use super::client::{Failure, Fault};
use super::wire::NOT_ADMITTED;
use crate::closed::Cause;
use crate::problem::{Kind, Phase};

impl Failure {
    /// What sort of failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            // Whoever was admitted can only have named another session.
            Self::Refused(error) if error.code == NOT_ADMITTED => Kind::NotFound,
            Self::Refused(_) | Self::TurnFailed { .. } => Kind::Rpc,
            Self::Unreadable => Kind::Protocol,
            Self::Closed(cause) | Self::Unseen(cause) => cause.kind(),
        }
    }

    /// What was being done.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self {
            Self::Refused(error) if error.code == NOT_ADMITTED => Phase::Discovery,
            Self::Refused(_) | Self::TurnFailed { .. } | Self::Unreadable | Self::Unseen(_) => Phase::Prompt,
            Self::Closed(cause) => cause.phase(),
        }
    }

    /// Whether the words of the prompt were delivered: saying them again may do their work twice.
    #[must_use]
    pub const fn prompt_sent(&self) -> bool {
        match self {
            Self::TurnFailed { .. } | Self::Unseen(_) => true,
            Self::Refused(_) | Self::Unreadable | Self::Closed(_) => false,
        }
    }
}

impl Cause<Fault> {
    /// What sort of failure.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Left => Kind::Cancelled,
            Self::Gone => Kind::Unreachable,
            Self::Failed(error) => Kind::of_open(*error),
            Self::Fault(Fault::Refused(_)) => Kind::Refused,
            Self::Fault(Fault::WrongVersion(_)) => Kind::WrongVersion,
            Self::Fault(Fault::NotAttach | Fault::LineTooLong) => Kind::Protocol,
            Self::Fault(Fault::TimedOut) => Kind::Timeout,
        }
    }

    /// What was being done.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Left => Phase::Prompt,
            Self::Gone | Self::Failed(_) | Self::Fault(_) => Phase::Connect,
        }
    }
}
