//! What the runtimes share: every system call that does not wait.
//!
//! ```text
//!   Machine ◄──► Engine ──► Io ──► process · socket · given · stream     this crate: never waits
//!                             └──► Watch: tell me when it is ready       a runtime: does nothing else
//! ```
//!
//! A runtime brings a [`Watch`], calls [`Engine::ready`] when a descriptor is ready and [`Engine::tick`] when
//! the deadline has come. Nothing here decides: whatever the system says becomes an input of the machine.

mod birth;
mod engine;
mod errno;
pub mod file;
mod given;
pub mod guardian;
mod hangup;
mod io;
pub mod look;
pub mod process;
mod providers;
pub mod socket;
pub mod store;
mod stream;
pub mod trust;
mod watch;

pub use engine::{Batch, Engine};
pub use given::Given;
pub use providers::Providers;
pub use watch::{End, Source, Token, Watch, Way};
