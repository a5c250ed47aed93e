//! Signals, as calls on a thread of their own.

use std::{io, thread};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

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
    mut to: T,
    mut on: impl FnMut(&mut T, Ask) + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("agentline-signals".into()).spawn(move || {
        for signal in &mut signals {
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
