//! Which fact explains that a run came to nothing.

use std::time::Duration;

use crate::acp::client::Failure;
use crate::acp::session::AuthMethod;
use crate::acp::{Fault, Notice};
use crate::closed::{Cause, Closed};
use crate::link::Rung;
use crate::machine::{Exit, Time};
use crate::problem::{AgentExit, Clock, Failed, Foreign, Phase, RootCause};
use crate::rpc::{Json, RpcError, code};

/// A failure that waits for the child's end.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) phase: Phase,
    pub(crate) failure: Failure,
    /// When it was seen.
    pub(crate) at: Time,
}

/// What is known of an agent that may explain how it failed.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// When the agent was up.
    started: Option<Time>,
    /// The first line that was no message.
    bad_line: Option<String>,
    /// The first peculiarity that may be an answer in another form.
    odd: Option<Box<Notice>>,
    /// How to log in to it, in its own words.
    pub(crate) logins: Vec<AuthMethod>,
    /// The values of the setting that failed.
    pub(crate) values: Vec<String>,
}

impl Evidence {
    pub(crate) const fn started(&mut self, at: Time) {
        self.started = Some(at);
    }

    pub(crate) fn noticed(&mut self, notice: &Notice) {
        if let Notice::BadLine { start, .. } = notice {
            self.bad_line.get_or_insert_with(|| start.clone());
        }
        self.odd.get_or_insert_with(|| Box::new(notice.clone()));
    }

    /// The agent says how to log in. A hint names few of many, and none that is longer than a hint may be.
    pub(crate) fn offers(&mut self, logins: &[AuthMethod]) {
        let short = logins.iter().filter(|login| Json::new(login).get().len() <= LOGIN);
        self.logins = short.take(LOGINS).cloned().collect();
    }

    /// A failure whose reason is known as it stands.
    pub(crate) fn failure(&self, phase: Phase, failure: &Failure) -> Failed {
        let cause = match failure {
            Failure::Rpc(error) => self.rpc(phase, error),
            Failure::Unreadable(why) => RootCause::Unreadable(why.clone()),
            Failure::TimedOut { clock, after } => self.timed_out(*clock, *after),
            Failure::Silent { after } => self.timed_out(Clock::Silence, *after),
            Failure::Unconfirmed { .. } | Failure::Shutdown => RootCause::Cancelled,
            Failure::Disconnected => RootCause::Gone(None),
        };
        Failed::new(phase, cause)
    }

    /// A failure that the child's end explains.
    pub(crate) fn end(&self, lost: &Lost, closed: &Closed<Fault>) -> Failed {
        let obituary = &closed.obituary;
        // An end that our own signals brought about explains nothing.
        let exit = obituary.exit.filter(|_| obituary.exit_rung < Rung::Term);
        let mut failed = match (&closed.cause, &lost.failure) {
            (Cause::Failed(error), _) => Failed::new(Phase::Spawn, RootCause::Unopened(*error)),
            (Cause::Fault(fault), _) => Failed::new(lost.phase, self.fault(lost.phase, fault)),
            (Cause::Left | Cause::Gone, Failure::Disconnected) => {
                Failed::new(lost.phase, self.gone(lost.phase, exit))
            }
            (Cause::Left | Cause::Gone, failure) => self.failure(lost.phase, failure),
        };
        let tail = obituary.stderr_tail.trim_end();
        failed.agent_exit = exit.and_then(AgentExit::of);
        failed.lived = self.started.map(|started| lost.at.since(started));
        failed.stderr_tail = (!tail.is_empty()).then(|| tail.to_owned());
        failed
    }

    /// A program that wrote something else before it went did not break down: it is no agent, or not in that mode.
    fn gone(&self, phase: Phase, exit: Option<Exit>) -> RootCause {
        match &self.bad_line {
            Some(line) if phase == Phase::Initialize => RootCause::NotAcp(Foreign::Wrote(line.clone())),
            Some(_) | None => RootCause::Gone(exit),
        }
    }

    /// A clock that ran out, and what it stood at.
    pub(crate) fn timed_out(&self, clock: Clock, after: Duration) -> RootCause {
        RootCause::TimedOut { clock, after, saw: self.odd.clone() }
    }

    fn rpc(&self, phase: Phase, error: &RpcError) -> RootCause {
        match error.code {
            code::AUTH_REQUIRED => {
                RootCause::NeedsLogin { error: error.clone(), methods: self.logins.clone() }
            }
            code::METHOD_NOT_FOUND if phase == Phase::Initialize => RootCause::NotAcp(Foreign::NoInitialize),
            code::NOT_FOUND if phase == Phase::Session => RootCause::UnknownSession(error.clone()),
            _ if !self.values.is_empty() => {
                RootCause::BadValue { error: error.clone(), values: self.values.clone() }
            }
            _ => RootCause::Rpc(error.clone()),
        }
    }

    pub(crate) fn fault(&self, phase: Phase, fault: &Fault) -> RootCause {
        match fault {
            Fault::NotAcp(why) => RootCause::NotAcp(Foreign::Framing(why.clone())),
            Fault::Echo => RootCause::NotAcp(Foreign::Echo),
            Fault::WrongVersion(version) => RootCause::WrongVersion(version.clone()),
            Fault::Refused(error) => self.rpc(phase, error),
            Fault::TimedOut { after } => self.timed_out(Clock::Initialize, *after),
            Fault::Unreadable(_) | Fault::LineTooLong | Fault::NotReading => RootCause::Fault(fault.clone()),
        }
    }
}

/// Logins that are kept for a hint.
const LOGINS: usize = 16;
/// Bytes of one, as JSON.
const LOGIN: usize = 4 << 10;
