//! The kinds of sources that are reached by opening a link, as one machine.

use serde::{Deserialize, Serialize};

use super::galley::{self, Runner};
use super::{Acp, Attached, AttachedConfig, Told, Wish};
use crate::acp::client;
use crate::closed::{Cause, Closed};
use crate::link::Obituary;
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};

/// Where sessions come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceConfig {
    /// An ACP agent of ours, with all of its sessions.
    Acp(Box<client::Config>),
    /// A Galley runner of ours, which is one session.
    Runner(Box<galley::Config>),
    /// A session in another terminal. It is not ours: it goes on when it is left.
    Attached(Box<AttachedConfig>),
    /// Nothing: whatever is asked of it fails for that reason, which people read.
    Missing(String),
}

/// A source that opens its own link; what dials in is a [`Reverse`](super::Reverse).
#[derive(Debug)]
pub enum Source {
    /// An ACP agent.
    Acp(Box<Acp>),
    /// A Galley runner.
    Runner(Box<Runner>),
    /// A session in another terminal.
    Attached(Box<Attached>),
    /// None. It is over from the start.
    Missing(Outputs<Told>),
}

impl Machine for Source {
    type Config = SourceConfig;
    type Command = (Tag, Wish);
    type Event = Told;

    fn new(now: Now, config: SourceConfig) -> Self {
        match config {
            SourceConfig::Acp(config) => Self::Acp(Box::new(Acp::new(now, *config))),
            SourceConfig::Runner(config) => Self::Runner(Box::new(Runner::new(now, *config))),
            SourceConfig::Attached(config) => Self::Attached(Box::new(Attached::new(now, *config))),
            SourceConfig::Missing(why) => {
                let mut out = Outputs::default();
                let closed = Closed { cause: Cause::Fault(why), obituary: Obituary::default() };
                out.tell(Told::Down(Box::new(closed)));
                out.end();
                Self::Missing(out)
            }
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match self {
            Self::Acp(agent) => agent.handle(now, input),
            Self::Runner(runner) => runner.handle(now, input),
            Self::Attached(session) => session.handle(now, input),
            Self::Missing(_) => {}
        }
    }

    fn command(&mut self, now: Now, command: (Tag, Wish)) -> Result<(), Refused> {
        match self {
            Self::Acp(agent) => agent.command(now, command),
            Self::Runner(runner) => runner.command(now, command),
            Self::Attached(session) => session.command(now, command),
            Self::Missing(_) => Err(Refused::Closed),
        }
    }

    fn poll(&mut self) -> Option<Output<Told>> {
        match self {
            Self::Acp(agent) => agent.poll(),
            Self::Runner(runner) => runner.poll(),
            Self::Attached(session) => session.poll(),
            Self::Missing(out) => out.pop(),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        match self {
            Self::Acp(agent) => agent.deadline(),
            Self::Runner(runner) => runner.deadline(),
            Self::Attached(session) => session.deadline(),
            Self::Missing(_) => None,
        }
    }
}
