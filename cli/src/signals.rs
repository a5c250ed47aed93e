//! Signals, as calls on a thread of their own.

use std::{io, thread};

use nix::unistd::{getpgid, getpgrp, getppid, getsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator;
use signal_hook::low_level::emulate_default_handler;

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

impl Ask {
    /// What a command exits with that it ends.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::HangUp => 129,
        }
    }
}

/// Calls `on` for each signal from here on, instead of dying of it.
pub(crate) fn on_each<T: Send + 'static>(
    to: T,
    on: impl FnMut(&mut T, Ask) + Send + 'static,
) -> io::Result<()> {
    Signals::catch()?.on_each(to, on)
}

/// Calls for signals, which go on until they are ended. A signal is then nobody's: somebody else must have caught it.
pub(crate) struct Calls(iterator::Handle);

impl Calls {
    pub(crate) fn end(&self) {
        self.0.close();
    }
}

/// Signals that are kept until somebody wants them.
pub(crate) struct Signals(iterator::Signals);

impl Signals {
    /// From here on no signal kills us. A hang-up that is ignored, as `nohup` has it, stays ignored.
    pub(crate) fn catch() -> io::Result<Self> {
        let hang_up = (!ignores_hang_up()).then_some(SIGHUP);
        Ok(Self(iterator::Signals::new([SIGINT, SIGTERM].into_iter().chain(hang_up))?))
    }

    /// What ends the calls.
    pub(crate) fn calls(&self) -> Calls {
        Calls(self.0.handle())
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

/// Stops us as Ctrl-Z does, if there is a shell to go back to. It returns when we go on, which comes with a signal of its
/// own.
pub(crate) fn stop() {
    if has_shell() {
        let _ = emulate_default_handler(SIGTSTP);
    }
}

/// Whether our parent can continue us once we are stopped. If not, a stop is for ever.
///
/// In a container, a parent, a group or a session that is outside of it has the number 0.
pub(crate) fn has_shell() -> bool {
    let parent = getppid();
    if parent.as_raw() == 0 {
        return false;
    }
    let same_session = getsid(Some(parent)).is_ok_and(|session| getsid(None) == Ok(session));
    same_session && getpgid(Some(parent)).is_ok_and(|group| group != getpgrp())
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
