//! One shape for everything that goes wrong, as people and programs are shown it.

use std::fmt;
use std::time::Duration;

use agentline_core::problem::{AgentExit, Failed};
pub(crate) use agentline_core::problem::{Kind, Phase};
use agentline_core::trace::Masks;
use serde::Serialize;

/// Which phase, what kind, why, and what to try next.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    /// The cause, in a sentence.
    pub(crate) message: String,
    /// What to try next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// Whether the same again may go through.
    pub(crate) retryable: bool,
    /// The exit code, where the kind does not say it.
    #[serde(skip)]
    pub(crate) code: Option<u8>,
    /// Whether the words of the prompt were delivered: saying them again may do their work twice.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) prompt_sent: bool,
    /// How the agent's process ended, if that is part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_exit: Option<AgentExit>,
    /// How long the agent had run.
    #[serde(skip)]
    pub(crate) lived: Option<Duration>,
    /// The end of what the agent wrote to standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stderr_tail: Option<String>,
}

impl Problem {
    /// A problem with no more than a sentence.
    pub(crate) fn new(phase: Phase, kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            phase,
            message: message.into(),
            hint: None,
            retryable: kind.is_retryable(),
            code: None,
            prompt_sent: false,
            agent_exit: None,
            lived: None,
            stderr_tail: None,
        }
    }

    /// A failed run, in a sentence.
    pub(super) fn of(failed: &Failed, message: String) -> Self {
        Self {
            agent_exit: failed.agent_exit,
            lived: failed.lived,
            stderr_tail: failed.stderr_tail.clone(),
            retryable: failed.is_retryable(),
            ..Self::new(failed.phase, failed.kind(), message)
        }
    }

    /// Without what nobody may be shown.
    #[must_use]
    pub(crate) fn masked(mut self, masks: &Masks) -> Self {
        let texts = [Some(&mut self.message), self.hint.as_mut(), self.stderr_tail.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = masks.text(text).into_owned();
        }
        self
    }

    /// With something to try next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The words were delivered, so it is not to be tried again unseen.
    #[must_use]
    pub(crate) const fn prompt_sent(mut self) -> Self {
        self.prompt_sent = true;
        self.retryable = false;
        self
    }

    /// With that exit code.
    #[must_use]
    pub(crate) const fn code(mut self, code: u8) -> Self {
        self.code = Some(code);
        self
    }

    /// The exit code of a command that ends with it.
    pub(crate) const fn exit_code(&self) -> u8 {
        if let Some(code) = self.code {
            return code;
        }
        match (self.kind, self.phase) {
            (Kind::Usage, _) | (_, Phase::Usage) => 2,
            (Kind::Cancelled, _) => 130,
            (Kind::Timeout, _) => 124,
            (Kind::NeedsLogin, _) => 7,
            (Kind::NotFound, Phase::Discovery | Phase::Session) => 3,
            (_, Phase::Connect) => 4,
            (Kind::Refused, _) => 6,
            (_, Phase::Spawn | Phase::Initialize)
            | (Kind::Exited | Kind::Signalled | Kind::NotAcp | Kind::WrongVersion | Kind::Protocol, _) => 5,
            _ => 1,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
