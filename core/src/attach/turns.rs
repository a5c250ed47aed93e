//! Who speaks next, and how long each prompt waits for its turn to end. The stages are drawn at
//! [`Command`](super::server::Command).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::wire::{Answer, Stop, Turn};
use crate::machine::{Deadline, Now, Refused, Time};
use crate::rpc::{RpcError, code};

/// A prompt that was handed to the host. Numbers rise and are never used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PromptId(pub u32);

/// What became of words that were handed to the host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Injection {
    /// The turn that runs took them.
    Steered,
    /// They become the next turn.
    Queued,
    /// The host cannot say. The prompt ends as pending at once.
    Unknown,
    /// They were not taken, for this reason. It is shown to the client.
    Failed(String),
}

/// The prompts of all connections, in the order they came.
#[derive(Debug)]
pub(super) struct Turns {
    /// Not yet handed over.
    line: VecDeque<(u32, String)>,
    waits: BTreeMap<PromptId, Wait>,
    next: u32,
    running: bool,
    over: VecDeque<Over>,
    settle: Duration,
    wait: Duration,
    most: usize,
}

/// How a turn ended: by a word, or as an error.
pub(super) type End = Result<Turn, RpcError>;

/// The connection whose prompt is over, and the answer to it.
pub(super) type Over = (u32, Result<Answer, RpcError>);

#[derive(Debug)]
struct Wait {
    conn: u32,
    until: Time,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The host has not said what it did with the words.
    Received,
    Steered,
    /// The turn that took the words has ended; words that came too late for it start another one at once.
    Settling {
        until: Time,
        end: End,
    },
    Queued,
    Running,
}

impl Turns {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            line: VecDeque::new(),
            waits: BTreeMap::new(),
            next: 0,
            running: false,
            over: VecDeque::new(),
            settle: limits.settle,
            wait: limits.wait,
            most: limits.connections,
        }
    }

    /// Whether the host runs a turn, whoever asked for it.
    pub(super) const fn is_running(&self) -> bool {
        self.running
    }

    pub(super) fn enqueue(&mut self, conn: u32, text: String) {
        self.line.push_back((conn, text));
    }

    /// The next prompt to hand over. One is waited for at a time, unless its client may be gone.
    pub(super) fn begin(&mut self, now: Now, is_watched: impl Fn(u32) -> bool) -> Option<(PromptId, String)> {
        let awaited = self.waits.values().any(|wait| is_watched(wait.conn));
        if self.line.is_empty() || awaited || self.waits.len() >= self.most {
            return None;
        }
        let (conn, text) = self.line.pop_front()?;
        let id = PromptId(self.next);
        self.next += 1;
        self.waits.insert(id, Wait { conn, until: now.mono + self.wait, stage: Stage::Received });
        Some((id, text))
    }

    /// The host says what it did with the words.
    pub(super) fn injected(&mut self, now: Now, id: PromptId, how: Injection) -> Result<(), Refused> {
        let wait = self.waits.get_mut(&id).ok_or(Refused::Unknown)?;
        if !matches!(wait.stage, Stage::Received) {
            return Err(Refused::Busy);
        }
        match how {
            Injection::Steered if self.running => wait.stage = Stage::Steered,
            Injection::Steered => {
                let end = Ok(Turn::ended(Stop::EndTurn, None));
                wait.stage = Stage::Settling { until: now.mono + self.settle, end };
            }
            Injection::Queued => wait.stage = Stage::Queued,
            Injection::Unknown => self.finish(id, Ok(Answer::Turn(Turn::unseen()))),
            Injection::Failed(why) => self.finish(id, Err(RpcError::new(code::INTERNAL_ERROR, why))),
        }
        Ok(())
    }

    /// A turn began. It is that of the oldest queued prompt.
    pub(super) fn started(&mut self) -> Result<(), Refused> {
        if std::mem::replace(&mut self.running, true) {
            return Err(Refused::Busy);
        }
        let mut claimed = false;
        for wait in self.waits.values_mut() {
            match wait.stage {
                Stage::Settling { .. } => wait.stage = Stage::Running,
                Stage::Queued if !claimed => {
                    claimed = true;
                    wait.stage = Stage::Running;
                }
                Stage::Queued | Stage::Received | Stage::Steered | Stage::Running => {}
            }
        }
        Ok(())
    }

    /// The turn is over. Words that it was steered with may come too late for it, unless it was broken off.
    pub(super) fn ended(&mut self, now: Now, end: &End) -> Result<(), Refused> {
        if !std::mem::take(&mut self.running) {
            return Err(Refused::Unknown);
        }
        let until = now.mono + self.settle;
        let settles = !matches!(end, Ok(Turn { stop: Stop::Cancelled | Stop::Pending, .. }));
        self.sift(|wait| match wait.stage {
            Stage::Steered if settles => {
                wait.stage = Stage::Settling { until, end: end.clone() };
                None
            }
            Stage::Running | Stage::Steered => Some(end.clone()),
            Stage::Received | Stage::Settling { .. } | Stage::Queued => None,
        });
        Ok(())
    }

    /// Every prompt that was handed over ends as cancelled. Those still in line take their turn.
    pub(super) fn cancel(&mut self) {
        self.sift(|_| Some(Ok(Turn::cancelled())));
    }

    /// The session is leaving: what was handed over is pending, what was not is refused.
    pub(super) fn stop(&mut self) {
        self.sift(|_| Some(Ok(Turn::unseen())));
        let leaving = RpcError::new(code::INTERNAL_ERROR, "the session is leaving; nothing was delivered");
        self.over.extend(self.line.drain(..).map(|(conn, _)| (conn, Err(leaving.clone()))));
    }

    /// A client is gone for good. What it handed over keeps its place: the turn for it comes all the same.
    pub(super) fn forget(&mut self, conn: u32) {
        self.line.retain(|(other, _)| *other != conn);
    }

    pub(super) fn tick(&mut self, now: Now) {
        self.sift(|wait| match &mut wait.stage {
            Stage::Settling { until, end } if *until <= now.mono => Some(end.clone()),
            Stage::Settling { .. } | Stage::Received | Stage::Steered | Stage::Queued | Stage::Running => {
                (wait.until <= now.mono).then(|| Ok(Turn::unseen()))
            }
        });
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let due = |wait: &Wait| match wait.stage {
            Stage::Settling { until, .. } if until < wait.until => (until, "settle after a steered turn"),
            Stage::Settling { .. } | Stage::Received | Stage::Steered | Stage::Queued | Stage::Running => {
                (wait.until, "wait for the turn")
            }
        };
        self.waits.values().map(due).min()
    }

    /// The next prompt that is over.
    pub(super) fn pop(&mut self) -> Option<Over> {
        self.over.pop_front()
    }

    /// Ends the waits that `end` gives an end to, oldest first.
    fn sift(&mut self, mut end: impl FnMut(&mut Wait) -> Option<End>) {
        let over = &mut self.over;
        self.waits.retain(|_, wait| match end(wait) {
            Some(end) => {
                over.push_back((wait.conn, end.map(Answer::Turn)));
                false
            }
            None => true,
        });
    }

    fn finish(&mut self, id: PromptId, outcome: Result<Answer, RpcError>) {
        if let Some(wait) = self.waits.remove(&id) {
            self.over.push_back((wait.conn, outcome));
        }
    }
}
