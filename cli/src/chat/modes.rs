//! How the terminal is set: while one types, each key comes at once and nothing is echoed; whenever we are stopped or
//! gone, it is as it was.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use signal_hook::consts::{SIGCONT, SIGTSTP, SIGWINCH};
use signal_hook::iterator::{Handle, Signals};

use crate::output::{Page, Sink, Stream};
use crate::signals::{self, has_shell};

/// The settings that the terminal had, and whether it has ours.
pub(crate) struct Modes {
    before: Termios,
    page: Arc<Page>,
    ours: Mutex<bool>,
    signals: Handle,
}

impl Modes {
    /// Takes the terminal, and gives it back whenever a signal stops us.
    ///
    /// # Errors
    ///
    /// Stdin is no terminal, or there is no thread to be had.
    pub(crate) fn take(page: Arc<Page>) -> io::Result<Arc<Self>> {
        let before = tcgetattr(io::stdin())?;
        let mut signals = Signals::new([SIGTSTP, SIGCONT, SIGWINCH])?;
        let modes = Arc::new(Self { before, page, ours: Mutex::new(false), signals: signals.handle() });
        let of = Arc::clone(&modes);
        let obey = move || {
            for signal in &mut signals {
                match signal {
                    SIGTSTP => of.stop(),
                    SIGCONT => of.set(true),
                    _ => of.page.redraw(false),
                }
            }
        };
        thread::Builder::new().name("agentline-terminal".into()).spawn(obey)?;
        modes.set(true);
        Ok(modes)
    }

    /// Ctrl-Z, which is a key like others here. Whether there is a shell to go back to.
    pub(crate) fn suspend(&self) -> bool {
        has_shell() && kill_current_process_group(Signal::TSTP).is_ok()
    }

    fn stop(&self) {
        if has_shell() {
            self.set(false);
            signals::stop();
        }
    }

    /// Gives the terminal back for good.
    pub(crate) fn leave(&self) {
        self.signals.close();
        self.set(false);
    }

    /// Sets the terminal as it is to be while one types, or back.
    pub(crate) fn set(&self, on: bool) {
        let mut ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = Sink::ours();
        if on {
            // After a stop that nobody could catch, whoever had the terminal meanwhile has set it.
            let is_untouched = *ours && tcgetattr(io::stdin()).is_ok_and(|now| is_raw(&now));
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &raw(self.before.clone()));
            sink.write(Stream::Out, b"\x1b[?2004h");
            match is_untouched {
                true => self.page.redraw(false),
                false => self.page.park(false),
            }
        } else if *ours {
            self.page.park(true);
            sink.write_surely(Stream::Out, b"\x1b[?2004l");
            // A terminal that takes nothing is not waited for.
            sink.settle(Some(Instant::now() + MOMENT));
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
        *ours = on;
    }
}

fn raw(mut settings: Termios) -> Termios {
    settings.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
    settings.input_modes -= InputModes::ICRNL | InputModes::IXON | InputModes::INLCR | InputModes::IGNCR;
    settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    settings
}

fn is_raw(settings: &Termios) -> bool {
    !settings.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
}

/// For what is left to be shown before the terminal is given back.
const MOMENT: Duration = Duration::from_millis(500);
