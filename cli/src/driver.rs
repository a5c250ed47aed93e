//! A machine and its events, on the runtime of choice. Both drive it only while somebody asks for the next event.

use std::future::pending;
use std::io;

use agentline_blocking::Given;
use agentline_core::{Machine, Refused};
use smol::future::or;

use crate::args::Runtime;

/// A machine that is driven by whoever asks it for the next event.
pub(crate) enum Driver<M: Machine> {
    Blocking(agentline_blocking::Driver<M>),
    Smol(agentline_smol::Events<M>, Box<agentline_smol::Driver<M>>),
}

/// A way to command the machine from another thread.
pub(crate) enum Handle<M: Machine> {
    Blocking(agentline_blocking::Handle<M>),
    Smol(agentline_smol::Handle<M>),
}

impl<M: Machine> Driver<M> {
    /// Starts a machine on the runtime that was asked for.
    pub(crate) fn new(runtime: Runtime, config: M::Config) -> io::Result<Self> {
        Self::with_given(runtime, config, [])
    }

    /// The same, with streams that it may open.
    pub(crate) fn with_given(
        runtime: Runtime,
        config: M::Config,
        given: impl IntoIterator<Item = Given>,
    ) -> io::Result<Self> {
        Ok(match runtime {
            Runtime::Blocking => Self::Blocking(agentline_blocking::Driver::with_given(config, given)?),
            Runtime::Smol => {
                let (events, driver) = agentline_smol::spawn_with_given(config, given)?;
                Self::Smol(events, Box::new(driver))
            }
        })
    }

    pub(crate) fn command(&self, command: M::Command) -> Result<(), Refused> {
        match self {
            Self::Blocking(driver) => driver.command(command),
            Self::Smol(events, _) => events.command(command),
        }
    }

    pub(crate) fn handle(&self) -> Handle<M> {
        match self {
            Self::Blocking(driver) => Handle::Blocking(driver.handle()),
            Self::Smol(events, _) => Handle::Smol(events.handle()),
        }
    }

    /// Whether the next event is there already.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Blocking(driver) => driver.is_ready(),
            Self::Smol(events, _) => events.is_ready(),
        }
    }
}

/// Events until the machine has ended.
impl<M: Machine> Iterator for Driver<M> {
    type Item = M::Event;

    fn next(&mut self) -> Option<M::Event> {
        match self {
            Self::Blocking(driver) => driver.next(),
            Self::Smol(events, driver) => smol::block_on(or(events.next(), async {
                driver.await;
                // The last events are still to be taken.
                pending().await
            })),
        }
    }
}

impl<M: Machine> Handle<M> {
    pub(crate) fn command(&self, command: M::Command) -> Result<(), Refused> {
        match self {
            Self::Blocking(handle) => handle.command(command),
            Self::Smol(handle) => handle.command(command),
        }
    }

    /// Whoever takes the events is full, or has room again.
    pub(crate) fn hold(&self, full: bool) {
        match self {
            Self::Blocking(handle) => handle.hold(full),
            Self::Smol(handle) => handle.hold(full),
        }
    }
}
