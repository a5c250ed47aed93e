//! attach

pub mod caller;
pub mod canceller;
pub mod client;
mod conn;
pub mod files;
mod limits;
pub mod presence;
pub mod server;
mod turns;
mod wire;

pub use caller::Caller;
pub use canceller::Canceller;
pub use client::{Client, Ending, Failure, Fault, Target};
pub use limits::Limits;
pub use server::Server;
pub use turns::{Injection, PromptId};
pub use wire::{AgentInfo, Answer, Session, Stop, Turn};
