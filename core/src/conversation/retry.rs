//! Requests that are asked again, since what was wrong with them passes by itself.

use std::time::Duration;

use serde::Serialize;

use crate::acp::client::{Command, Failure};
use crate::machine::Time;
use crate::problem::Failed;
use crate::problem::passing::{Passing, retry_after};

/// What failed will be asked again.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retrying {
    /// How often it was asked again, this time included.
    pub attempt: u32,
    /// How often it may be.
    pub most: u32,
    /// How long is waited: as the agent says, else 1 s, and twice as long each time, up to 60 s.
    pub after: Duration,
    /// What sort of error it was.
    pub why: Passing,
    /// The failure that would have been the end.
    pub failed: Failed,
}

/// The request that is open, as long as it can be asked again, and how often it was.
#[derive(Debug)]
pub(super) struct Retry {
    most: u32,
    made: u32,
    /// Nothing once something came of it that would come twice.
    request: Option<Command>,
    due: Option<Time>,
}

impl Retry {
    pub(super) const fn new(most: u32) -> Self {
        Self { most, made: 0, request: None, due: None }
    }

    /// Something is asked for the first time.
    pub(super) fn asks(&mut self, command: &Command) {
        let request = (self.most > 0).then(|| command.clone());
        *self = Self { request, ..Self::new(self.most) };
    }

    /// Something came of it.
    pub(super) fn bears(&mut self) {
        self.request = None;
    }

    /// It failed: how long to wait, if it is to be asked again.
    pub(super) fn failed(&mut self, now: Time, failure: &Failure, failed: Failed) -> Option<Retrying> {
        let Failure::Rpc(error) = failure else { return None };
        if self.request.is_none() || self.made >= self.most {
            return None;
        }
        let why = Passing::of(error)?;
        let after = retry_after(error).unwrap_or_else(|| backoff(self.made));
        if after > PATIENCE {
            return None;
        }
        self.made += 1;
        self.due = Some(now + after);
        Some(Retrying { attempt: self.made, most: self.most, after, why, failed })
    }

    /// When it is asked again.
    pub(super) const fn due(&self) -> Option<Time> {
        self.due
    }

    /// The request, if it is time to ask again.
    pub(super) fn take(&mut self, now: Time) -> Option<Command> {
        self.due.take_if(|due| *due <= now)?;
        self.request.clone()
    }

    /// Nothing is asked again.
    pub(super) fn give_up(&mut self) {
        (self.request, self.due) = (None, None);
    }
}

const fn backoff(made: u32) -> Duration {
    let factor = 1 << if made < 6 { made } else { 6 };
    let wait = FIRST.saturating_mul(factor);
    if wait.as_nanos() > LONGEST.as_nanos() { LONGEST } else { wait }
}

/// The first wait, where the agent names none: overloads of a moment are over by then.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait, where the agent names none.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest wait that an agent may name: nobody sits by for longer, and what comes later is a failure of now.
const PATIENCE: Duration = Duration::from_secs(600);
