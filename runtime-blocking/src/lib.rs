//! Drives a machine on the calling thread: no executor, no thread of its own.
//!
//! ```no_run
//! # use agentline_core::Machine;
//! # fn example<M: Machine>(config: M::Config, cancel: M::Command) -> std::io::Result<()> {
//! use agentline_blocking::Driver;
//!
//! let mut driver = Driver::<M>::new(config)?;
//! let handle = driver.handle(); // for other threads: what it commands is written before it returns
//! while let Some(event) = driver.next() {
//!     // … and here too: driver.command(…)
//! }
//! # Ok(()) }
//! ```

mod drive;
mod subagent;

/// The examples of the README are tested here, where they compile.
#[doc = include_str!("../../README.md")]
#[cfg(doctest)]
struct Readme;

pub use agentline_os::{Batch, Given, Providers, guardian, workspace};
pub use drive::{Driver, Handle};
pub use subagent::Subagent;
