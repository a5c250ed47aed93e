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
            Self::Unreadable => {
                Problem::new(Phase::Prompt, Kind::Protocol, "the session's answer cannot be read")
            }
            Self::Closed(cause) => cause.problem(),
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
                    Fault::Impostor(_) => Kind::Unreachable,
                    Fault::Refused(_) => Kind::Refused,
                    Fault::WrongVersion(_) => Kind::WrongVersion,
                    Fault::NotAttach | Fault::LineTooLong => Kind::Protocol,
                    Fault::TimedOut => Kind::Timeout,
                };
                let said = match fault {
                    Fault::Impostor(_) | Fault::Refused(_) => fault.to_string(),
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
    use crate::machine::Peer;
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
            (Failure::Closed(Cause::Failed(OpenError::NotFound)), 4),
            (Failure::Closed(Cause::Failed(OpenError::Refused)), 4),
            (fault(Fault::Impostor(Peer::default())), 4),
            (fault(Fault::Refused(Box::new(RpcError::new(-32000, "no")))), 4),
            (fault(Fault::WrongVersion(2)), 4),
            (fault(Fault::TimedOut), 124),
        ] {
            assert_eq!(failure.problem().exit_code(), code, "{failure:?}");
        }
    }
}
