//! The control channel under test: an application for its server, what holds for each role, and a town of both.

mod audits;
mod desk;
mod town;

pub use audits::{Calls, Numbers, Requests};
pub use desk::Desk;
pub use town::{Fate, Town, Wish};

/// A request of that name.
#[must_use]
pub fn request(command: &str, args: &impl serde::Serialize) -> agentline_core::control::Request {
    let args = Some(agentline_core::rpc::Json::new(args));
    agentline_core::control::Request { command: command.to_owned(), args }
}
