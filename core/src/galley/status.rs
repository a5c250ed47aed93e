//! How a session is shown in a list: one word, from what is known of it.

use serde::{Deserialize, Serialize};

/// What is known of a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// What is kept about it.
    pub kept: Kept,
    /// Whether it has a runner.
    pub runner: Runner,
    /// Approvals that are open.
    pub approvals: usize,
    /// Whether a run is open.
    pub runs: bool,
}

/// What outlives the runner.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Nothing: what it was doing has ended with its runner.
    #[default]
    Idle,
    /// Its last run was completed, and somebody says so.
    Completed,
    /// Its last run was cancelled, and somebody says so.
    Cancelled,
    /// Out of the lists.
    Archived,
}

/// What a host knows of a session's runner.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Runner {
    /// None, or one that left as it was told to.
    #[default]
    Absent,
    /// Started, and not ready yet.
    Starting,
    /// It has said that it is ready.
    Ready,
    /// It could not be started, or ended by itself.
    Failed,
}

/// One word for a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No run is open, and nothing is to be told.
    Idle,
    /// Its runner is started, and not ready yet.
    Connecting,
    /// A run is open.
    Running,
    /// A run waits for an approval.
    WaitingApproval,
    /// Its runner could not be started, or ended by itself.
    Error,
    /// Its last run was completed.
    Completed,
    /// Its last run was cancelled.
    Cancelled,
    /// Out of the lists.
    Archived,
}

/// What is kept counts first, then what waits for somebody, then what goes on.
///
/// Neither an `error` event nor a step's end is among the facts: a run that goes on is running all the same.
#[must_use]
pub const fn status(facts: Facts) -> Status {
    match facts {
        Facts { kept: Kept::Archived, .. } => Status::Archived,
        Facts { kept: Kept::Completed, .. } => Status::Completed,
        Facts { kept: Kept::Cancelled, .. } => Status::Cancelled,
        Facts { approvals: 1.., .. } => Status::WaitingApproval,
        Facts { runs: true, .. } => Status::Running,
        Facts { runner: Runner::Starting, .. } => Status::Connecting,
        Facts { runner: Runner::Failed, .. } => Status::Error,
        Facts { runner: Runner::Absent | Runner::Ready, .. } => Status::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fact_that_says_something_counts() {
        let all = Facts { kept: Kept::Archived, runner: Runner::Failed, approvals: 2, runs: true };
        let rows = [
            (all, Status::Archived),
            (Facts { kept: Kept::Cancelled, ..all }, Status::Cancelled),
            (Facts { kept: Kept::Idle, ..all }, Status::WaitingApproval),
            (Facts { kept: Kept::Idle, approvals: 0, ..all }, Status::Running),
            (Facts { runner: Runner::Failed, ..Facts::default() }, Status::Error),
            (Facts { runner: Runner::Starting, ..Facts::default() }, Status::Connecting),
            (Facts { runner: Runner::Ready, ..Facts::default() }, Status::Idle),
            (Facts::default(), Status::Idle),
        ];
        for (facts, word) in rows {
            assert_eq!(status(facts), word, "{facts:?}");
        }
    }
}
