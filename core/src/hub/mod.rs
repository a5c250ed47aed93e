//! The hub: every session of a machine in one place.

pub mod api;
pub mod book;
