//! How much an agent may spend, and how much it has.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::acp::client::{Moment, Updated};
use crate::acp::update::{Update, Usage};
use crate::problem::Millionths;

/// What an agent may spend. The turn in which it spends more is cancelled, and fails.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Budget {
    /// Millionths of whatever unit the agent counts the cost of its session in. An agent that tells no cost spends
    /// nothing.
    pub cost: Option<u64>,
    /// Tool calls of one turn, those of its subagents included.
    pub tools: Option<u32>,
}

/// What was more than it might be.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Overspent {
    /// The session costs more.
    Cost {
        /// Millionths of the unit.
        spent: u64,
        /// The most that it might cost, in the same.
        most: u64,
        /// The unit, as the agent calls it.
        currency: String,
    },
    /// The turn called more tools.
    Tools {
        /// The most that it might call.
        most: u32,
    },
}

impl fmt::Display for Overspent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost { spent, most, currency } => {
                write!(f, "it cost {} {currency}, and might {}", Millionths(*spent), Millionths(*most))
            }
            Self::Tools { most } => write!(f, "it called more than {most} tools"),
        }
    }
}

/// What was spent so far.
#[derive(Debug)]
pub(crate) struct Purse {
    budget: Budget,
    /// Tool calls of the turn that runs.
    tools: u32,
}

impl Purse {
    pub(crate) const fn new(budget: Budget) -> Self {
        Self { budget, tools: 0 }
    }

    /// A turn begins.
    pub(crate) const fn begin(&mut self) {
        self.tools = 0;
    }

    /// Takes an update; what is too much by it.
    pub(super) fn take(&mut self, updated: &Updated) -> Option<Overspent> {
        if let (Update::Usage(usage), None) = (&updated.update, &updated.of) {
            return self.usage(usage);
        }
        if let (Update::ToolCall(_), Moment::Turn) = (&updated.update, updated.moment) {
            return self.tool();
        }
        None
    }

    /// A tool is called in a turn.
    pub(crate) fn tool(&mut self) -> Option<Overspent> {
        self.tools += 1;
        let most = self.budget.tools.filter(|most| self.tools > *most)?;
        Some(Overspent::Tools { most })
    }

    /// The session has cost so much.
    pub(crate) fn usage(&self, usage: &Usage) -> Option<Overspent> {
        let (most, cost) = (self.budget.cost?, usage.cost.as_ref()?);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let spent = (cost.amount * 1e6).round() as u64;
        let currency = crate::rpc::shown(&cost.currency).into_owned();
        (spent > most).then_some(Overspent::Cost { spent, most, currency })
    }
}
