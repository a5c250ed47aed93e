//! One delegated task, one fresh child, nothing left behind: the ACP subagent of DeepSeek Harness (PROTOCOLS.md).
//!
//! ```text
//!  Starting ──all is set──► Running ──turn over──► Told
//!     │                        │ connection lost     ▲
//!     └────────────────────────┴──► Lost ────────────┘ the child is gone
//! ```
//!
//! The result is told when the turn ends or a clock expires, before the teardown. What else fails without an answer
//! of the agent is told when the child is gone, since how it went is part of the reason. Either way it is told exactly once. A run
//! that goes [nowhere](Choice::Nowhere) has its result with the handshake.

pub(crate) mod answer;
mod api;
pub mod env;
pub(crate) mod failure;
pub(crate) mod opening;
pub mod provider;
mod run;
mod settings;
pub(crate) mod turn;

pub use crate::acp::session::Setting;
pub use api::{
    Allow, By, Choice, Command, Config, Decision, Decisions, Event, Finished, Outcome, Policy, SessionOpened,
    Verdict,
};
pub use run::Run;
