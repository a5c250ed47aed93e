//! Stderr for people: whole lines, and below them what is going on while nothing arrives.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::filter::styled;
use super::page::Page;
use super::paint::{In, Paint, fit, span};
use super::sink::{Sink, Stream};
use super::wrap::wrapped;

/// Writes to stderr from any thread, and waits for no reader.
#[derive(Clone)]
pub(crate) struct Notes(Arc<Shared>);

struct Shared {
    below: Mutex<Below>,
    changed: Condvar,
    paint: Paint,
    sink: Sink,
    /// Stderr is a terminal: its lines are as wide as it is.
    terminal: bool,
    /// And it can take back what is on its last line.
    erases: bool,
    /// And stdout is one too: it must be the same.
    both: bool,
    /// Instead of all that: a line is being typed.
    page: Option<Arc<Page>>,
}

/// What is below the last whole line.
struct Below {
    what: What,
    /// Whether it is on the screen: the cursor stands behind it.
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
    /// A question that waits for somebody: all of it, and its last line.
    Question(String, String),
}

impl Notes {
    pub(crate) fn new(paint: Paint) -> Self {
        Self::with(paint, None)
    }

    /// Notes above what is being typed.
    pub(crate) fn above(page: Arc<Page>, paint: Paint) -> Self {
        Self::with(paint, Some(page))
    }

    fn with(paint: Paint, page: Option<Arc<Page>>) -> Self {
        let terminal = io::stderr().is_terminal();
        let erases = terminal && page.is_none() && is_clever();
        let below = Below { what: What::Nothing, shown: false, since: Instant::now() };
        Self(Arc::new(Shared {
            below: Mutex::new(below),
            changed: Condvar::new(),
            paint,
            sink: Sink::ours().clone(),
            terminal,
            erases,
            both: terminal && io::stdout().is_terminal(),
            page,
        }))
    }

    pub(crate) fn paint(&self) -> Paint {
        self.0.paint
    }

    /// Where else than to stderr and stdout the lines go.
    pub(crate) fn page(&self) -> Option<&Arc<Page>> {
        self.0.page.as_ref()
    }

    /// Columns of a line.
    pub(crate) fn columns(&self) -> usize {
        columns(io::stderr()).unwrap_or(PIPE)
    }

    /// Whether somebody looks at it, who may be deceived.
    pub(crate) fn is_terminal(&self) -> bool {
        self.0.terminal || self.0.page.is_some()
    }

    /// Rows of the terminal, if it is one.
    pub(crate) fn rows(&self) -> Option<usize> {
        rows(io::stderr())
    }

    /// Whole lines, broken where a terminal ends.
    pub(crate) fn line(&self, text: &str) {
        self.0.lines("", text, false);
    }

    /// The same, to be said however far behind the reader is.
    pub(crate) fn last_line(&self, text: &str) {
        self.0.lines("", text, true);
    }

    /// A line in the place of what the terminal itself has put there: the echo of Ctrl-C. In a pipe there is
    /// none, and nothing is said.
    pub(crate) fn over(&self, text: &str) {
        if self.0.page.is_some() {
            return self.line(text);
        }
        match (self.0.erases, self.0.terminal) {
            (true, _) => self.0.lines("\r\x1b[K", text, false),
            (false, true) => self.0.lines("\n", text, false),
            (false, false) => {}
        }
    }

    /// Rings, where there is somebody to hear it.
    pub(crate) fn bell(&self) {
        if self.0.terminal {
            self.0.sink.write(Stream::Err, b"\x07");
        }
    }

    /// What somebody else wrote, as it is: for no terminal.
    pub(crate) fn foreign(&self, text: &str) {
        let mut below = self.0.lock();
        if !matches!(below.what, What::Foreign) {
            self.0.clear(&mut below);
        }
        self.0.sink.write(Stream::Err, text.as_bytes());
        below.since = Instant::now();
        if !matches!(below.what, What::Question(..)) {
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
            (What::Question(..), false) => {
                self.0.ask_again(&mut below);
            }
            (What::Question(..), true) => {}
            (_, true) => below.what = What::Answer,
            (_, false) => below.what = What::Nothing,
        }
    }

    /// While nothing arrives, says what is going on.
    pub(crate) fn busy(&self, label: &str) {
        if let Some(page) = &self.0.page {
            return page.doing(Some(&styled(label)));
        }
        if !self.0.erases {
            return;
        }
        let mut below = self.0.lock();
        match &below.what {
            What::Question(..) | What::Answer | What::Foreign => return,
            What::Busy(said) if said == label => return,
            What::Nothing | What::Busy(_) => {}
        }
        self.0.clear(&mut below);
        below.what = What::Busy(styled(label).into());
        self.0.changed.notify_one();
    }

    /// Nothing is going on any more.
    pub(crate) fn still(&self) {
        if let Some(page) = &self.0.page {
            return page.doing(None);
        }
        let mut below = self.0.lock();
        self.0.clear(&mut below);
        below.what = What::Nothing;
    }

    /// Shows a question below all lines until [`Notes::still`].
    pub(crate) fn question(&self, lines: &[String], call: &str) {
        let mut below = self.0.lock();
        self.0.clear(&mut below);
        let lines = lines.iter().map(|line| self.0.broken(&styled(line)) + "\n").collect::<String>();
        let call = &*styled(call);
        self.0.sink.write(Stream::Err, format!("{lines}{call}").as_bytes());
        below.what = What::Question(lines + call, call.into());
        below.shown = true;
    }

    /// Whoever is asked has entered something: what is shown of the question is history. `seen`: what was entered
    /// stands behind it, with the end of its line.
    pub(crate) fn entered(&self, seen: bool) {
        let mut below = self.0.lock();
        if std::mem::take(&mut below.shown) && !seen {
            self.0.sink.write(Stream::Err, b"\n");
        }
        below.what = What::Nothing;
    }

    /// From here on a thread shows what is going on.
    pub(crate) fn animate(&self) {
        if self.0.erases {
            let shared = Arc::clone(&self.0);
            let _ = thread::Builder::new().name("agentline-status".into()).spawn(move || shared.turn());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Below> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `ours` goes in front, and is obeyed.
    fn lines(&self, ours: &str, text: &str, surely: bool) {
        let text = &*styled(text);
        if let Some(page) = &self.page {
            let text = wrapped(text, self.width());
            return page.lines(&format!("{ours}{text}\n"));
        }
        let mut below = self.lock();
        self.clear(&mut below);
        let text = format!("{ours}{}\n", self.broken(text));
        match surely {
            true => self.sink.write_surely(Stream::Err, text.as_bytes()),
            false => self.sink.write(Stream::Err, text.as_bytes()),
        }
        below.since = Instant::now();
        self.ask_again(&mut below);
    }

    /// Shows an open question once more. Where nothing can be taken back, its last line is enough, and a pipe has it.
    fn ask_again(&self, below: &mut Below) {
        if let What::Question(all, last) = &below.what
            && self.terminal
        {
            self.sink.write(Stream::Err, if self.erases { all } else { last }.as_bytes());
            below.shown = true;
        }
    }

    fn broken(&self, line: &str) -> String {
        if self.terminal { wrapped(line, self.width()).into_owned() } else { line.to_owned() }
    }

    /// Columns of a line that a terminal does not break.
    fn width(&self) -> usize {
        columns(io::stderr()).unwrap_or(PIPE) - 1
    }

    /// Leaves the cursor at the beginning of a line.
    fn clear(&self, below: &mut Below) {
        match below.what {
            What::Answer => {
                below.what = What::Nothing;
                if self.both {
                    self.sink.write(Stream::Err, b"\n");
                }
            }
            What::Foreign => {
                below.what = What::Nothing;
                self.sink.write(Stream::Err, b"\n");
            }
            What::Nothing | What::Busy(_) | What::Question(..) => {
                if std::mem::take(&mut below.shown) {
                    let back = if self.erases { &*below.what.taken_back() } else { "\n" };
                    self.sink.write(Stream::Err, back.as_bytes());
                }
            }
        }
    }

    /// Draws the status line again and again while there is one, and waits for one when there is none.
    fn turn(&self) {
        let mut below = self.lock();
        loop {
            let wait = match &below.what {
                What::Busy(label) => {
                    let quiet = below.since.elapsed();
                    // A terminal that is behind gets no pictures.
                    if quiet >= QUIET && self.sink.is_idle(Stream::Err) {
                        self.draw(label, quiet);
                        below.shown = true;
                    }
                    FRAME
                }
                What::Nothing | What::Answer | What::Foreign | What::Question(..) => {
                    Duration::from_secs(3600)
                }
            };
            below = self.changed.wait_timeout(below, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn draw(&self, label: &str, quiet: Duration) {
        let for_long = if quiet >= LONG { format!("  {}", span(quiet)) } else { String::new() };
        let text = format!("{} {label}{for_long}", turning(quiet));
        let text = fit(&text, self.width());
        self.sink.write(Stream::Err, format!("\r{}\x1b[K", In(self.paint.dim, text)).as_bytes());
    }
}

impl What {
    /// What takes it off the screen again.
    fn taken_back(&self) -> String {
        match self {
            Self::Question(all, _) if all.contains('\n') => {
                format!("\r\x1b[{}A\x1b[J", all.matches('\n').count())
            }
            Self::Nothing | Self::Answer | Self::Foreign | Self::Busy(_) | Self::Question(..) => {
                "\r\x1b[K".to_owned()
            }
        }
    }
}

/// What turns, after so long.
pub(super) fn turning(age: Duration) -> char {
    let at = usize::try_from(age.as_millis() / FRAME.as_millis()).unwrap_or_default();
    FRAMES[at % FRAMES.len()]
}

/// Whether a terminal can move its cursor: what editors and shells go by.
pub(crate) fn is_clever() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Columns of a terminal.
pub(crate) fn columns(of: impl AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(of).map(|(width, _)| usize::from(width.0).max(NARROW))
}

/// Rows of a terminal.
pub(crate) fn rows(of: impl AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(of).map(|(_, height)| usize::from(height.0).max(LOW))
}

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME: Duration = Duration::from_millis(100);
/// How long nothing must have arrived.
const QUIET: Duration = Duration::from_millis(300);
/// From here on it says for how long.
pub(super) const LONG: Duration = Duration::from_secs(3);
/// Columns of a terminal that is too narrow for anything.
const NARROW: usize = 20;
/// Rows of one that is too low for anything.
const LOW: usize = 4;
/// Columns where there is no terminal.
const PIPE: usize = 80;
