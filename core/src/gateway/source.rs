//! The kinds of sources that can stand behind a gateway, as one.

use serde::{Deserialize, Serialize};

use crate::acp::agent::Initialized;
use crate::acp::client;
use crate::acp::session::{ClientAuth, ClientCapabilities};
use crate::closed::{Cause, Closed};
use crate::link::Obituary;
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};
use crate::session::{self, Attached, AttachedConfig, Told, Wish};

/// What is behind a gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An ACP agent of ours: started when it is wanted, and ended with the client. What it is offered is what the client
    /// offers; its `info` is told to it where the client has none.
    Agent(Box<client::Config>),
    /// A session in another terminal. It is not ours: when the client leaves it goes on.
    Session(Box<AttachedConfig>),
    /// Nothing: whatever is asked of it fails for that reason, which people read.
    Missing(String),
}

impl Source {
    /// An agent is offered what the client offers, but for logins that would be our command once more, and agents of the
    /// agent, whose sessions are not passed on. A session in a terminal is offered nothing.
    pub(super) fn introduce(&mut self, who: Initialized) {
        let Self::Agent(agent) = self else { return };
        agent.info = who.client_info.or(agent.info.take());
        agent.capabilities =
            ClientCapabilities { auth: ClientAuth::default(), subagents: false, ..who.capabilities };
    }
}

/// Its machine.
#[derive(Debug)]
pub(super) enum Behind {
    Agent(Box<session::Source>),
    Session(Box<Attached>),
    Missing(Outputs<Told>),
}

impl Machine for Behind {
    type Config = Source;
    type Command = (Tag, Wish);
    type Event = Told;

    fn new(now: Now, source: Source) -> Self {
        match source {
            Source::Agent(config) => Self::Agent(Box::new(session::Source::new(now, *config))),
            Source::Session(config) => Self::Session(Box::new(Attached::new(now, *config))),
            Source::Missing(why) => {
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
            Self::Agent(agent) => agent.handle(now, input),
            Self::Session(session) => session.handle(now, input),
            Self::Missing(_) => {}
        }
    }

    fn command(&mut self, now: Now, command: (Tag, Wish)) -> Result<(), Refused> {
        match self {
            Self::Agent(agent) => agent.command(now, command),
            Self::Session(session) => session.command(now, command),
            Self::Missing(_) => Err(Refused::Closed),
        }
    }

    fn poll(&mut self) -> Option<Output<Told>> {
        match self {
            Self::Agent(agent) => agent.poll(),
            Self::Session(session) => session.poll(),
            Self::Missing(out) => out.pop(),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        match self {
            Self::Agent(agent) => agent.deadline(),
            Self::Session(session) => session.deadline(),
            Self::Missing(_) => None,
        }
    }
}
