//! Why a request came to nothing, in the words of a [`Problem`].

use super::client::{Failure, Fault};
use super::wire::NOT_ADMITTED;
use crate::closed::Cause;
use crate::machine::OpenError;
use crate::problem::{Kind, Phase, Problem};

impl Failure {
    /// The failure as people and programs are shown it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            // Whoever was admitted can only have named another session.
            Self::Refused(error) if error.code == NOT_ADMITTED => {
                Problem::new(Phase::Discovery, Kind::NotFound, error.message.clone())
            }
            Self::Refused(error) => {
                let said = format!("the session answered: {} ({})", error.message, error.code);
                Problem::new(Phase::Prompt, Kind::Rpc, said)
            }
            Self::TurnFailed { error, .. } => {
                Problem::new(Phase::Prompt, Kind::Rpc, format!("the turn failed: {}", error.message))
                    .prompt_sent()
            }
            Self::Unreadable => {
                Problem::new(Phase::Prompt, Kind::Protocol, "the session's answer cannot be read")
            }
            Self::Closed(cause) => cause.problem(),
            Self::Unseen(cause) => {
                let problem = cause.problem();
                let said = format!(
                    "the words were sent, but the end of their turn was not seen: {}",
                    problem.message
                );
                Problem { message: said, phase: Phase::Prompt, hint: None, ..problem }.prompt_sent()
            }
        }
    }
}

impl Cause<Fault> {
    /// The end of a connection as people and programs are shown it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let connect = |kind, said: String| Problem::new(Phase::Connect, kind, said);
        match self {
            Self::Left => Problem::new(Phase::Prompt, Kind::Cancelled, "we left before the answer"),
            Self::Gone => connect(Kind::Unreachable, "the session closed the connection".to_owned()),
            Self::Failed(error) => {
                let problem =
                    connect(Kind::of_open(*error), format!("the session cannot be reached: {error}"));
                let nobody = matches!(error, OpenError::NotFound | OpenError::Refused);
                if nobody { problem.hint("agentline attach list") } else { problem }
            }
            Self::Fault(fault) => {
                let kind = match fault {
                    Fault::Refused(_) => Kind::Refused,
                    Fault::WrongVersion(_) => Kind::WrongVersion,
                    Fault::NotAttach | Fault::LineTooLong => Kind::Protocol,
                    Fault::TimedOut => Kind::Timeout,
                };
                let said = match fault {
                    Fault::Refused(_) => fault.to_string(),
                    Fault::WrongVersion(_) | Fault::NotAttach | Fault::TimedOut | Fault::LineTooLong => {
                        format!("whoever listens there is no session of ours: {fault}")
                    }
                };
                connect(kind, said)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RpcError;

    #[test]
    fn each_failure_has_its_exit_code() {
        let refused = |code| Failure::Refused(Box::new(RpcError::new(code, "no")));
        let fault = |fault| Failure::Closed(Cause::Fault(fault));
        for (failure, code) in [
            (refused(-32000), 3),
            (refused(-32603), 1),
            (Failure::Unreadable, 5),
            (Failure::Closed(Cause::Left), 130),
            (Failure::Closed(Cause::Gone), 4),
            (Failure::Unseen(Cause::Gone), 1),
            (Failure::Unseen(Cause::Left), 130),
            (Failure::TurnFailed { error: Box::new(RpcError::new(-32603, "no")), answer: None }, 1),
            (Failure::Closed(Cause::Failed(OpenError::NotFound)), 4),
            (Failure::Closed(Cause::Failed(OpenError::Refused)), 4),
            (fault(Fault::Refused(Box::new(RpcError::new(-32000, "no")))), 4),
            (fault(Fault::WrongVersion(2)), 4),
            (fault(Fault::TimedOut), 124),
        ] {
            assert_eq!(failure.problem().exit_code(), code, "{failure:?}");
        }
    }

    #[test]
    fn words_that_were_sent_are_not_to_be_sent_again() {
        for (failure, sent) in [
            (Failure::Unseen(Cause::Gone), true),
            (Failure::Unseen(Cause::Fault(Fault::LineTooLong)), true),
            (Failure::TurnFailed { error: Box::new(RpcError::new(-32603, "no")), answer: None }, true),
            (Failure::Closed(Cause::Gone), false),
            (Failure::Closed(Cause::Failed(OpenError::Refused)), false),
        ] {
            let problem = failure.problem();
            assert_eq!((problem.prompt_sent, problem.retryable), (sent, !sent), "{failure:?}");
            assert_eq!(problem.phase, if sent { Phase::Prompt } else { Phase::Connect });
        }
    }
}
