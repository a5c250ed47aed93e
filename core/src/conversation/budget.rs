//! How much an agent may spend, and how much it has.

use serde::{Deserialize, Serialize};

use crate::acp::client::{Moment, Updated};
use crate::acp::update::{Cost, Update};

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

/// What was spent so far.
#[derive(Debug)]
pub(super) struct Purse {
    budget: Budget,
    /// Tool calls of the turn that runs.
    tools: u32,
}

impl Purse {
    pub(super) const fn new(budget: Budget) -> Self {
        Self { budget, tools: 0 }
    }

    /// A turn begins.
    pub(super) const fn begin(&mut self) {
        self.tools = 0;
    }

    /// Takes an update; what is too much by it.
    pub(super) fn take(&mut self, updated: &Updated) -> Option<Overspent> {
        if let (Update::Usage(usage), None) = (&updated.update, &updated.of) {
            return self.costs(usage.cost.as_ref()?);
        }
        if let (Update::ToolCall(_), Moment::Turn) = (&updated.update, updated.moment) {
            self.tools += 1;
            let most = self.budget.tools.filter(|most| self.tools > *most)?;
            return Some(Overspent::Tools { most });
        }
        None
    }

    fn costs(&self, cost: &Cost) -> Option<Overspent> {
        let most = self.budget.cost?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let spent = (cost.amount * 1e6).round() as u64;
        let currency = crate::rpc::shown(&cost.currency).to_owned();
        (spent > most).then_some(Overspent::Cost { spent, most, currency })
    }
}
