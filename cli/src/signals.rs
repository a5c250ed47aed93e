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
    /// From here on no signal kills us. A hang-up that is ignored, as `nohup` has it, stays ignored.
    pub(crate) fn catch() -> io::Result<Self> {
        let hang_up = (!ignores_hang_up()).then_some(SIGHUP);
        Ok(Self(iterator::Signals::new([SIGINT, SIGTERM].into_iter().chain(hang_up))?))
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

/// Whether whoever started us wants us to outlive the terminal.
#[cfg(target_os = "linux")]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

/// Where the system does not say it without unsafe code, a hang-up ends us.
#[cfg(not(target_os = "linux"))]
const fn ignores_hang_up() -> bool {
    false
}
