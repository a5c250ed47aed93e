//! A login that an agent wants only when it is asked for something, in each new process.

use crate::acp::client::{Answer, Command, Failure};
use crate::machine::Tag;
use crate::rpc::code;

/// The method to log in by, and the request that waits for it. It is used once, and never unasked.
#[derive(Debug)]
pub(super) struct Login {
    method: Option<String>,
    /// The latest request, as long as it may have to be asked again.
    request: Option<Command>,
    runs: bool,
}

impl Login {
    pub(super) const fn by(method: Option<String>) -> Self {
        Self { method, request: None, runs: false }
    }

    /// Whether the agent is logging in.
    pub(super) const fn runs(&self) -> bool {
        self.runs
    }

    /// Something was asked of the agent.
    pub(super) fn asked(&mut self, command: &Command) {
        if self.method.is_some() {
            self.request = Some(command.clone());
        }
    }

    /// A request was refused: how to log in, if that is why.
    pub(super) fn wanted(&mut self, failure: &Failure, tag: Tag) -> Option<Command> {
        if !matches!(failure, Failure::Rpc(error) if error.code == code::AUTH_REQUIRED) {
            return None;
        }
        let method = self.method.take()?;
        self.runs = true;
        Some(Command::Authenticate { tag, method })
    }

    /// The agent has logged in: what was refused before.
    pub(super) fn done(&mut self, answer: &Answer) -> Option<Command> {
        if !self.runs || !matches!(answer, Answer::Authenticated) {
            return None;
        }
        self.runs = false;
        self.request.take()
    }
}
