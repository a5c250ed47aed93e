//! Drives a machine as a future on the caller's executor: no task and no thread of its own.
//!
//! ```no_run
//! # use agentline_core::Machine;
//! # async fn example<M>(config: M::Config, cancel: M::Command) -> std::io::Result<()>
//! # where M: Machine + Send + 'static, M::Command: Send, M::Event: Send {
//! let (mut events, driver) = agentline_smol::spawn::<M>(config)?;
//! smol::spawn(driver).detach();
//! let handle = events.handle(); // for other tasks and threads: what it commands is written before it returns
//! while let Some(event) = events.next().await {
//!     // … and here too: events.command(…)
//! }
//! # Ok(()) }
//! ```

mod drive;
mod events;
mod subagent;
mod wakers;

pub use agentline_os::{Batch, Given, Providers, guardian, workspace};
pub use drive::{Driver, spawn, spawn_with_given};
pub use events::{Events, Handle};
pub use subagent::Subagent;
