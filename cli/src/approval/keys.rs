//! The terminal of whoever answers: each key as it is pressed, or whole lines where words are typed.

use std::io::{self, Read};
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::signals;

/// What comes of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Pressed {
    Key(char),
    Line(String),
    /// Ctrl-D, or the terminal is gone.
    End,
    /// Ctrl-Z.
    Suspended,
    /// We were stopped, and go on.
    Continued,
}

/// The terminal, which is as it was when this is dropped.
pub(super) struct Keys {
    before: Termios,
    single: bool,
}

impl Keys {
    /// Reads the terminal from here on. `tell` says whether somebody listens.
    ///
    /// # Errors
    ///
    /// Stdin is no terminal, or there is no thread to be had.
    pub(super) fn take(tell: impl Fn(Pressed) -> bool + Clone + Send + 'static) -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut stops = Signals::new([SIGTSTP, SIGCONT])?;
        let stopped = tell.clone();
        thread::Builder::new().name("agentline-terminal".into()).spawn(move || {
            for signal in &mut stops {
                stopped(if signal == SIGTSTP { Pressed::Suspended } else { Pressed::Continued });
            }
        })?;
        thread::Builder::new().name("agentline-keyboard".into()).spawn(move || read(&tell))?;
        let mut keys = Self { before, single: true };
        keys.again();
        Ok(keys)
    }

    /// Each key at once, and nothing is echoed. What was typed before is forgotten.
    pub(super) fn single(&mut self) {
        self.single = true;
        self.again();
    }

    /// Lines, which the terminal shows as they are typed. What was typed before is forgotten.
    pub(super) fn lines(&mut self) {
        self.single = false;
        self.again();
    }

    /// Whether each key comes at once.
    pub(super) const fn is_single(&self) -> bool {
        self.single
    }

    /// Takes the terminal again: whoever had it meanwhile has set it.
    pub(super) fn again(&mut self) {
        let mut settings = self.before.clone();
        if self.single {
            settings.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        }
        // It is gone, or it takes them.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &settings);
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }

    /// Gives the terminal back, and stops until `fg`. [`Pressed::Continued`] follows.
    pub(super) fn suspend(&mut self) {
        self.give_back();
        signals::stop();
    }

    fn give_back(&self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Whole lines end with their end; a key comes alone. What a terminal sends for one key that is no letter is passed over.
fn read(tell: &impl Fn(Pressed) -> bool) {
    let mut bytes = [0; 4096];
    loop {
        let read = match io::stdin().lock().read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => {
                tell(Pressed::End);
                return;
            }
            Ok(read) => read,
        };
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        let listens = match text.strip_suffix('\n') {
            Some(line) => tell(Pressed::Line(line.to_owned())),
            None if text == "\u{4}" => tell(Pressed::End),
            None if text.starts_with('\u{1b}') => true,
            None => text.chars().all(|key| tell(Pressed::Key(key))),
        };
        if !listens {
            return;
        }
    }
}
