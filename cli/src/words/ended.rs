//! The end of a turn or a run, with what is said about it.

use agentline_core::subagent::{Decisions, Finished, Outcome};

use super::{Kind, Problem};

/// A result, and in words why it is no better.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) finished: Finished,
    pub(crate) problem: Option<Problem>,
    /// Something was refused since there was nobody to ask.
    pub(crate) unasked: bool,
    /// The last message as the JSON that was wanted.
    pub(crate) json: Option<String>,
}

impl Ended {
    /// Of a run in which nothing happened.
    pub(crate) fn nothing(outcome: Outcome, problem: Option<Problem>) -> Self {
        let finished = Finished {
            outcome,
            stop_reason: None,
            output: String::new(),
            output_truncated: false,
            starts: Vec::new(),
            permissions: Vec::new(),
            permissions_dropped: 0,
            decisions: Decisions::default(),
            usage: None,
            error: None,
        };
        Self { finished, problem, unasked: false, json: None }
    }

    /// The exit code of a command that ends with it.
    pub(crate) fn exit_code(&self) -> u8 {
        match (self.finished.outcome, &self.problem) {
            (Outcome::Completed, _) => 0,
            (Outcome::Aborted, _) => 130,
            (Outcome::Rejected, _) => REFUSED,
            (Outcome::Refusal, _) if self.unasked => REFUSED,
            // The agent's own end, which it may owe to that.
            (Outcome::Error, Some(Problem { kind: Kind::Rpc, .. })) if self.unasked => REFUSED,
            (_, Some(problem)) => problem.exit_code(),
            (Outcome::MaxTokens | Outcome::Refusal | Outcome::Error, None) => 1,
        }
    }
}

/// The exit code of what was not permitted.
const REFUSED: u8 = 6;

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::*;

    #[test]
    fn c14_what_nobody_decided_and_changed_the_end_is_a_refusal() {
        let failed = |kind| Some(Problem::new(Phase::Prompt, kind, "it failed"));
        for (outcome, problem, unasked, code) in [
            (Outcome::Completed, None, true, 0),
            (Outcome::Aborted, None, true, 130),
            (Outcome::Rejected, None, false, 6),
            (Outcome::Refusal, None, true, 6),
            (Outcome::Refusal, None, false, 1),
            (Outcome::Error, failed(Kind::Rpc), true, 6),
            (Outcome::Error, failed(Kind::Rpc), false, 1),
            (Outcome::Error, failed(Kind::Timeout), true, 124),
            (Outcome::Error, failed(Kind::Exited), true, 5),
            (Outcome::MaxTokens, None, true, 1),
        ] {
            let ended = Ended { unasked, ..Ended::nothing(outcome, problem) };
            assert_eq!(ended.exit_code(), code, "{ended:?}");
        }
    }
}
