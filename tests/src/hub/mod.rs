//! The hub against what must always hold.

pub mod ledger;
pub mod tally;

pub use tally::Tally;
