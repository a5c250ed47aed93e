//! attach

mod conn;
pub mod files;
mod limits;
pub mod presence;
pub mod server;
mod turns;
mod wire;

pub use limits::Limits;
pub use server::Server;
pub use turns::{Injection, PromptId};
pub use wire::{AgentInfo, Session, Stop, Turn};
