//! Delegates one task to one fresh child, and leaves nothing of it behind.
//!
//! ```no_run
//! # use agentline_core::subagent::provider::{Provider, Task};
//! # async fn example(provider: Provider, task: Task) -> Result<(), Box<dyn std::error::Error>> {
//! use agentline_smol::{Providers, Subagent};
//!
//! let mut providers = Providers::new(&std::env::current_dir()?);
//! providers.add(provider)?;
//! let (mut subagent, driver) = Subagent::start(providers.plan("acp", task)?)?;
//! smol::spawn(driver).detach();
//! println!("{}", subagent.result().await.output);
//! subagent.dispose().await;
//! # Ok(()) }
//! ```

use std::io;

use agentline_core::Closed;
use agentline_core::acp::Fault;
use agentline_core::subagent::{Command, Config, Event, Finished, Run};
use agentline_os::workspace;

use crate::drive::{Driver, spawn};
use crate::events::{Events, Handle};

/// A task that was given to a child. Dropped, it is disposed of by its driver.
///
/// For what happens meanwhile, and to answer permission requests, drive the [`Run`] yourself.
pub struct Subagent {
    events: Events<Run>,
    result: Option<Finished>,
    closed: Option<Closed<Fault>>,
}

impl Subagent {
    /// Starts the child. What goes wrong from here on is a result.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub fn start(config: Config) -> io::Result<(Self, Driver<Run>)> {
        let (events, driver) = spawn(config)?;
        Ok((Self { events: events.farewell(Command::Dispose), result: None, closed: None }, driver))
    }

    /// The result, waited for. It is there before the child is gone.
    pub async fn result(&mut self) -> &Finished {
        while self.result.is_none() && self.advance().await {}
        self.result.get_or_insert_with(Finished::undriven)
    }

    /// Cancels the task. Harmless when it is over.
    pub fn cancel(&self) {
        let _ = self.events.command(Command::Cancel);
    }

    /// A way to cancel it from another task or thread.
    #[must_use]
    pub fn handle(&self) -> Handle<Run> {
        self.events.handle()
    }

    /// Ends the child and all that it started, politely, then less so, and says how that went. A task that is
    /// not over is cancelled. The second time there is nothing left to do.
    pub async fn dispose(&mut self) -> Option<&Closed<Fault>> {
        let _ = self.events.command(Command::Dispose);
        while self.advance().await {}
        self.closed.as_ref()
    }

    /// Waits for the next event; `false`: the run has ended.
    async fn advance(&mut self) -> bool {
        match self.events.next().await {
            Some(Event::Finished(finished)) => self.result = Some(*finished),
            Some(Event::Closed(closed)) => self.closed = Some(*closed),
            Some(Event::FileWanted(wanted)) => {
                let (request, done) = (wanted.request, workspace::carry_out(&wanted));
                // Refused when nobody waits for it any more.
                let _ = self.events.command(Command::FileDone { request, done });
            }
            Some(_) => {}
            None => return false,
        }
        true
    }
}
