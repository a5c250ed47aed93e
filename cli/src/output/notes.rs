//! Stderr for people: whole lines, and below them what is going on while nothing arrives.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::paint::{In, Paint, fit, span};

/// Prints whole lines above what is being typed. May wait until somebody types again.
pub(crate) type Above = Arc<dyn Fn(String) + Send + Sync>;

/// Writes to stderr from any thread.
#[derive(Clone)]
pub(crate) struct Notes(Arc<Shared>);

struct Shared {
    below: Mutex<Below>,
    changed: Condvar,
    paint: Paint,
    /// Stderr is a terminal.
    terminal: bool,
    /// And stdout is one too: it must be the same.
    both: bool,
    /// Instead of all that: a line is being typed.
    above: Option<Above>,
}

/// What is below the last whole line.
struct Below {
    what: What,
    /// Whether it is on the screen.
    shown: bool,
    /// When something arrived last.
    since: Instant,
}

enum What {
    Nothing,
    /// An answer that is not at the end of its line.
    Answer,
    /// The same of what somebody else wrote.
    Foreign,
    /// What the agent is doing.
    Busy(String),
    /// A question that waits for somebody.
    Question(String),
}

impl Notes {
    pub(crate) fn new(paint: Paint) -> Self {
        let terminal = io::stderr().is_terminal();
        Self::with(paint, terminal, None)
    }

    /// Notes above what is being typed. There is no place below it to say what is going on.
    pub(crate) fn above(paint: Paint, above: Above) -> Self {
        Self::with(paint, false, Some(above))
    }

    fn with(paint: Paint, terminal: bool, above: Option<Above>) -> Self {
        let below = Below { what: What::Nothing, shown: false, since: Instant::now() };
        Self(Arc::new(Shared {
            below: Mutex::new(below),
            changed: Condvar::new(),
            paint,
            terminal,
            both: terminal && io::stdout().is_terminal(),
            above,
        }))
    }

    pub(crate) fn paint(&self) -> Paint {
        self.0.paint
    }

    /// Where else than to stderr and stdout the lines go.
    pub(crate) fn place(&self) -> Option<&Above> {
        self.0.above.as_ref()
    }

    /// Columns of a line.
    pub(crate) fn columns(&self) -> usize {
        columns(io::stderr()).unwrap_or(PIPE)
    }

    /// Whole lines.
    pub(crate) fn line(&self, text: &str) {
        if let Some(above) = &self.0.above {
            return above(format!("{text}\n"));
        }
        let mut below = self.0.lock();
        self.0.clear(&mut below);
        // A stderr that is gone is nobody's to read.
        let _ = writeln!(io::stderr(), "{text}");
        below.since = Instant::now();
        if let What::Question(question) = &below.what {
            let _ = write!(io::stderr(), "{question}");
            below.shown = self.0.terminal;
        }
    }

    /// A line in the place of what the terminal itself has put there: the echo of Ctrl-C. In a pipe there is
    /// none, and nothing is said.
    pub(crate) fn over(&self, text: &str) {
        if self.0.terminal {
            self.line(&format!("\r\x1b[K{text}"));
        }
    }

    /// What somebody else wrote, as it is.
    pub(crate) fn foreign(&self, text: &str) {
        if self.0.above.is_some() {
            return self.line(text.strip_suffix('\n').unwrap_or(text));
        }
        let mut below = self.0.lock();
        if !matches!(below.what, What::Foreign) {
            self.0.clear(&mut below);
        }
        let _ = io::stderr().write_all(text.as_bytes());
        below.since = Instant::now();
        if !matches!(below.what, What::Question(_)) {
            below.what = if text.ends_with('\n') { What::Nothing } else { What::Foreign };
        }
    }

    /// Makes room for stdout to be written.
    pub(crate) fn before_answer(&self) {
        if self.0.both {
            let mut below = self.0.lock();
            if !matches!(below.what, What::Answer) {
                self.0.clear(&mut below);
            }
        }
    }

    /// Stdout was written: whether its last line is still open.
    pub(crate) fn after_answer(&self, open: bool) {
        let mut below = self.0.lock();
        below.since = Instant::now();
        if !self.0.both {
            return;
        }
        match (&below.what, open) {
            (What::Question(question), false) => {
                let _ = write!(io::stderr(), "{question}");
                below.shown = true;
            }
            (What::Question(_), true) => {}
            (_, true) => below.what = What::Answer,
            (_, false) => below.what = What::Nothing,
        }
    }

    /// While nothing arrives, says what is going on.
    pub(crate) fn busy(&self, label: &str) {
        if !self.0.terminal {
            return;
        }
        let mut below = self.0.lock();
        match &below.what {
            What::Question(_) | What::Answer | What::Foreign => return,
            What::Busy(said) if said == label => return,
            What::Nothing | What::Busy(_) => {}
        }
        self.0.clear(&mut below);
        below.what = What::Busy(label.into());
        self.0.changed.notify_one();
    }

    /// Nothing is going on any more.
    pub(crate) fn still(&self) {
        let mut below = self.0.lock();
        self.0.clear(&mut below);
        below.what = What::Nothing;
    }

    /// Shows a question below all lines until [`Notes::still`].
    pub(crate) fn question(&self, question: &str) {
        if self.0.above.is_some() {
            return self.line(question.trim_end());
        }
        let mut below = self.0.lock();
        self.0.clear(&mut below);
        below.what = What::Question(question.into());
        below.shown = self.0.terminal;
        let _ = write!(io::stderr(), "{question}");
    }

    /// From here on a thread shows what is going on.
    pub(crate) fn animate(&self) {
        if self.0.terminal {
            let shared = Arc::clone(&self.0);
            let _ = thread::Builder::new().name("agentline-status".into()).spawn(move || shared.turn());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Below> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the cursor at the beginning of a line.
    fn clear(&self, below: &mut Below) {
        match below.what {
            What::Answer => {
                below.what = What::Nothing;
                if self.both {
                    let _ = io::stderr().write_all(b"\n");
                }
            }
            What::Foreign => {
                below.what = What::Nothing;
                let _ = io::stderr().write_all(b"\n");
            }
            What::Nothing | What::Busy(_) | What::Question(_) => {
                if std::mem::take(&mut below.shown) {
                    let _ = io::stderr().write_all(b"\r\x1b[K");
                }
            }
        }
    }

    /// Draws the status line again and again while there is one, and waits for one when there is none.
    fn turn(&self) {
        let began = Instant::now();
        let mut below = self.lock();
        loop {
            let wait = match &below.what {
                What::Busy(label) => {
                    let quiet = below.since.elapsed();
                    if quiet >= QUIET {
                        self.draw(label, began.elapsed(), quiet);
                        below.shown = true;
                    }
                    FRAME
                }
                What::Nothing | What::Answer | What::Foreign | What::Question(_) => Duration::from_secs(3600),
            };
            below = self.changed.wait_timeout(below, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn draw(&self, label: &str, age: Duration, quiet: Duration) {
        let at = usize::try_from(age.as_millis() / FRAME.as_millis()).unwrap_or_default();
        let turning = FRAMES[at % FRAMES.len()];
        let for_long = if quiet >= LONG { format!("  {}", span(quiet)) } else { String::new() };
        let text = format!("{turning} {label}{for_long}");
        let text = fit(&text, columns(io::stderr()).unwrap_or(PIPE) - 1);
        let _ = write!(io::stderr(), "\r{}\x1b[K", In(self.paint.dim, text));
    }
}

/// Columns of a terminal.
pub(crate) fn columns(of: impl AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(of).map(|(width, _)| usize::from(width.0).max(NARROW))
}

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME: Duration = Duration::from_millis(100);
/// How long nothing must have arrived.
const QUIET: Duration = Duration::from_millis(300);
/// From here on it says for how long.
const LONG: Duration = Duration::from_secs(3);
/// Columns of a terminal that is too narrow for anything.
const NARROW: usize = 20;
/// Columns where there is no terminal.
const PIPE: usize = 80;
