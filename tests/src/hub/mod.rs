//! The hub against what must always hold.

pub mod city;
pub mod ledger;
pub mod outside;
pub mod owners;
pub mod siege;
pub mod tally;

pub use outside::outside;
pub use tally::{Tally, campaign};
