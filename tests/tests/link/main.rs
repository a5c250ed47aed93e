//! The life of one link, rule by rule, through the smallest machine that has one.

mod exit;
mod holding;
mod leaving;
mod opening;
mod orders;
mod rig;
mod worlds;
mod writing;

/// Milliseconds that a laptop sleeps.
const HOUR: u64 = 3_600_000;
