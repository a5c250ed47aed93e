//! The Agent Client Protocol, version 1: JSON-RPC over a child's stdio, both roles.

pub mod agent;
pub mod client;
pub mod content;
mod exposed;
mod fast;
mod lenient;
pub(crate) mod method;
mod peer;
pub mod permission;
pub mod services;
pub mod session;
mod turn;
pub mod update;

pub use crate::rpc::Json;
pub use agent::Agent;
pub use client::Client;
pub use content::{ContentBlock, Unknown};
pub use peer::{Fault, Notice, Notified, RequestKey};
pub use permission::{OptionKind, PermissionOption, PermissionOutcome, PermissionRequest};
pub use session::{SessionId, SessionSetup};
pub use turn::{StopReason, Stopped};
pub use update::Update;
