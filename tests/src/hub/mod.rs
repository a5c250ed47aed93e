//! The hub against what must always hold.

pub mod city;
pub mod ledger;
pub mod owners;
pub mod siege;
pub mod tally;

pub use tally::{Tally, campaign};
