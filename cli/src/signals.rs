//! Signals, as calls on a thread of their own.

use std::{io, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;

/// What asks us to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ask {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

/// Calls `on` for each signal from here on, instead of dying of it.
pub(crate) fn on_each<T: Send + 'static>(
    to: T,
    on: impl FnMut(&mut T, Ask) + Send + 'static,
) -> io::Result<()> {
    Signals::catch()?.on_each(to, on)
}

/// Signals that are kept until somebody wants them.
pub(crate) struct Signals(iterator::Signals);

impl Signals {
    /// From here on no signal kills us.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self(iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?))
    }

    /// Calls `on` for each, also for those that came already.
    pub(crate) fn on_each<T: Send + 'static>(
        mut self,
        mut to: T,
        mut on: impl FnMut(&mut T, Ask) + Send + 'static,
    ) -> io::Result<()> {
        thread::Builder::new().name("agentline-signals".into()).spawn(move || {
            for signal in &mut self.0 {
                let ask = match signal {
                    SIGTERM => Ask::Terminate,
                    SIGHUP => Ask::HangUp,
                    _ => Ask::Interrupt,
                };
                on(&mut to, ask);
            }
        })?;
        Ok(())
    }
}
