//! Why a request to a session came to nothing.

use agentline_core::attach::client::{Failure, Fault};
use agentline_core::problem::Kind;
use agentline_core::{Cause, OpenError};

use super::Problem;
use super::quote::quote_error;

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Self {
        let said = match failure {
            Failure::Closed(cause) => return cause.into(),
            Failure::Refused(error) if failure.kind() == Kind::NotFound => quote_error(error),
            Failure::Refused(error) => {
                format!("the session answered: {} ({})", quote_error(error), error.code)
            }
            Failure::TurnFailed { error, .. } => format!("the turn failed: {}", quote_error(error)),
            Failure::Unreadable => "the session's answer cannot be read".to_owned(),
            Failure::Unseen(cause) => {
                let why = Self::from(cause).message;
                format!("the words were sent, but the end of their turn was not seen: {why}")
            }
        };
        let problem = Self::new(failure.phase(), failure.kind(), said);
        if failure.prompt_sent() { problem.prompt_sent() } else { problem }
    }
}

impl From<&Cause<Fault>> for Problem {
    fn from(cause: &Cause<Fault>) -> Self {
        let said = match cause {
            Cause::Left => "we left before the answer".to_owned(),
            Cause::Gone => "the session closed the connection".to_owned(),
            Cause::Failed(error) => format!("the session cannot be reached: {error}"),
            Cause::Fault(fault @ Fault::Refused(_)) => fault.to_string(),
            Cause::Fault(fault) => format!("whoever listens there is no session of ours: {fault}"),
        };
        let problem = Self::new(cause.phase(), cause.kind(), said);
        match cause {
            Cause::Failed(OpenError::NotFound | OpenError::Refused) => problem.hint("agentline attach list"),
            Cause::Left | Cause::Gone | Cause::Failed(_) | Cause::Fault(_) => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use agentline_core::problem::Phase;
    use agentline_core::rpc::RpcError;

    use super::*;

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
            assert_eq!(Problem::from(&failure).exit_code(), code, "{failure:?}");
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
            let problem = Problem::from(&failure);
            assert_eq!((problem.prompt_sent, problem.retryable), (sent, !sent), "{failure:?}");
            assert_eq!(problem.phase, if sent { Phase::Prompt } else { Phase::Connect });
        }
    }
}
