//! What is set before the first prompt, one after the other.

use std::collections::VecDeque;

use crate::acp::client::{Answer, Command};
use crate::acp::session::{Request, SessionState, Setting, Unsettable};
use crate::acp::{SessionId, Update};
use crate::machine::Tag;

/// Settings of a session that are still to be made. Each goes by what the agent said last: a new model may bring
/// other options.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) session: SessionId,
    state: SessionState,
    left: VecDeque<Setting>,
    asked: Option<Setting>,
}

impl Settings {
    pub(crate) fn new(session: SessionId, state: SessionState, settings: Vec<Setting>) -> Self {
        Self { session, state, left: settings.into(), asked: None }
    }

    /// The next request, or nothing when all are made.
    pub(crate) fn next(&mut self, tag: Tag) -> Option<Result<Command, Unsettable>> {
        let setting = self.left.pop_front()?;
        let request = self.state.request(&setting);
        self.asked = Some(setting);
        let session = self.session.clone();
        Some(request.map(|request| match request {
            Request::Mode(mode) => Command::SetMode { tag, session, mode },
            Request::Model(model) => Command::SetModel { tag, session, model },
            Request::Option(option, value) => Command::SetOption { tag, session, option, value },
        }))
    }

    /// The agent has made the last one.
    pub(crate) fn made(&mut self, answer: Answer) {
        if let Answer::OptionSet(options) = answer {
            self.state.config_options = Some(options);
        }
    }

    /// The agent says something about the session.
    pub(crate) fn hear(&mut self, update: &Update) {
        if let Update::ConfigOptions(list) = update {
            self.state.config_options = Some(list.config_options.clone());
        }
    }

    /// The values of the last one, as the agent lists them now.
    pub(crate) fn values(&self) -> Vec<String> {
        self.asked.as_ref().map(|setting| self.state.values(setting)).unwrap_or_default()
    }
}
