//! Placeholder.

pub mod driver_table;
