//! One delegated task, one fresh child, nothing left behind: the ACP subagent of DeepSeek Harness (PROTOCOLS.md).
//!
//! A run is a [conversation](crate::conversation) of one turn, with a clock for the whole of it:
//!
//! ```text
//!  Starting ──all is set──► Running ──turn over──► Told ──► the child is gone
//!     │                        │ connection lost     ▲
//!     └────────────────────────┴──► Lost ────────────┘ the child is gone
//! ```
//!
//! The result is told when the turn ends or a clock expires, before the teardown. What the agent says of the session up
//! to 10 ms behind the end of the turn belongs to it. What else fails without an answer
//! of the agent is told when the child is gone, since how it went is part of the reason. Either way it is told exactly once. A run
//! that goes [nowhere](Choice::Nowhere) has its result with the handshake, and one on an [errand](Errand) when that is
//! done.
//!
//! Where the application [judges](Config::again) answers, it comes between the end of the turn and the result: what it does
//! not accept is asked for again in the same session, with its reason, until it may not be asked again. The result is then
//! of the last turn.

mod api;
pub mod env;
pub mod provider;
mod run;

pub use crate::conversation::{
    Allow, Answered, Budget, By, Choice, Decision, Decisions, Errand, Event, Finished, Outcome, Policy,
    QuestionAsked, QuestionDecided, Questions, Reply, Retrying, SessionOpened, Setting, Verdict, Wanted,
};
pub use api::{Command, Config};
pub use run::Run;
