//! A terminal where one line is typed while others are printed above it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use agentline_core::acp::client::PermissionAsked;
use agentline_core::acp::{PermissionOutcome, RequestKey, Update};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, Config, Context, Editor, ExternalPrinter, Helper};

use crate::ask::Question;
use crate::output::{Above, In, Notes, Paint, Tools};

/// What was typed.
pub(crate) enum Typed {
    Line(String),
    /// The answer to a permission request.
    Answer(RequestKey, PermissionOutcome),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D: nothing more will come.
    End,
    /// The terminal is gone.
    HangUp,
}

/// Whoever types, as the conversation sees them. Dropped, the terminal is as it was.
pub(crate) struct Keyboard {
    desk: Arc<Desk>,
    /// What the agent said of its calls so far.
    known: Tools,
    notes: Notes,
    before: Option<Termios>,
}

/// What the typing thread and the others share.
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    paint: Paint,
}

struct State {
    typing: Typing,
    line: Line,
    /// The first one is shown.
    questions: VecDeque<Question>,
}

/// Whether lines can be printed above what is typed.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Typing {
    /// A line was entered. The next one will be typed at once.
    Paused,
    On,
    /// Nothing more is typed, and what is, is ignored.
    Ended,
    /// There is no terminal any more.
    Gone,
}

/// The line that is being typed.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Line {
    Empty,
    Begun,
    /// It was begun before the question was shown: it cannot be the answer.
    Old,
}

impl Keyboard {
    /// A keyboard that nobody reads yet, and the notes to be printed above it.
    pub(crate) fn new(paint: Paint) -> io::Result<(Self, Reader)> {
        let before = tcgetattr(io::stdin()).ok();
        let state = State { typing: Typing::Paused, line: Line::Empty, questions: VecDeque::new() };
        let desk = Arc::new(Desk { state: Mutex::new(state), changed: Condvar::new(), paint });
        let config = Config::builder().color_mode(ColorMode::Forced).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(io::Error::other)?;
        editor.set_helper(Some(Eye(Arc::clone(&desk))));
        let printer = Mutex::new(editor.create_external_printer().map_err(io::Error::other)?);
        let place = Arc::clone(&desk);
        let above: Above = Arc::new(move |lines| {
            place.wait_for_typing();
            let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
            // A terminal that is gone shows nothing.
            let _ = printer.print(lines);
        });
        let notes = Notes::above(paint, above);
        let reader = Reader { editor, desk: Arc::clone(&desk) };
        Ok((Self { desk, known: Tools::default(), notes, before }, reader))
    }

    /// What is said above the line that is typed.
    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Takes news about a call.
    pub(crate) fn learn(&mut self, update: &Update) {
        self.known.hear(update);
    }

    /// Asks, after all that was asked before. `Some`: nobody types any more, so this is the answer.
    pub(crate) fn ask(&mut self, asked: PermissionAsked) -> Option<(RequestKey, PermissionOutcome)> {
        let question = Question::new(asked, &self.known);
        let mut state = self.desk.lock();
        if matches!(state.typing, Typing::Ended | Typing::Gone) {
            return Some((question.request, question.denial()));
        }
        state.questions.push_back(question.clone());
        if state.questions.len() == 1 {
            self.show(state, &question);
        }
        None
    }

    /// The question is decided, by whomever.
    pub(crate) fn decided(&mut self, request: RequestKey) {
        let mut state = self.desk.lock();
        let shown = state.questions.front().map(|question| question.request);
        state.questions.retain(|question| question.request != request);
        if let Some(next) = state.questions.front().filter(|next| Some(next.request) != shown).cloned() {
            self.show(state, &next);
        }
    }

    fn show(&self, mut state: MutexGuard<'_, State>, question: &Question) {
        // Before it can be seen, or a quick end of that line could be taken for the answer.
        if state.line == Line::Begun {
            state.line = Line::Old;
        }
        drop(state);
        question.show(&self.notes);
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
        }
        // What the reader left: an open line, and a terminal that marks what is pasted.
        let _ = io::stdout().write_all(b"\r\x1b[K\x1b[?2004l");
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is printed while no line is typed could overtake what was printed before.
    fn wait_for_typing(&self) {
        let paused = |state: &mut State| state.typing == Typing::Paused;
        let _unlocked = self.changed.wait_while(self.lock(), paused);
    }

    fn set(&self, typing: Typing) {
        let mut state = self.lock();
        if !matches!(state.typing, Typing::Ended | Typing::Gone) || typing == Typing::Gone {
            state.typing = typing;
        }
        self.changed.notify_all();
    }
}

/// The thread that reads what is typed.
pub(crate) struct Reader {
    editor: Editor<Eye, MemHistory>,
    desk: Arc<Desk>,
}

impl Reader {
    /// Reads on a thread of its own. `below`: for what is said while no line is typed.
    pub(crate) fn start(mut self, mut on: impl FnMut(Typed) + Send + 'static) -> io::Result<()> {
        let read = move || {
            loop {
                let read = self.editor.readline(PROMPT);
                self.desk.set(Typing::Paused);
                match read {
                    Ok(line) => {
                        if !line.trim().is_empty() {
                            let _ = self.editor.add_history_entry(&*line);
                            on(self.meant(line));
                        }
                    }
                    Err(ReadlineError::Interrupted) => on(Typed::Interrupt),
                    Err(ReadlineError::Eof) => {
                        for answer in self.end() {
                            on(answer);
                        }
                        on(Typed::End);
                    }
                    Err(_) => {
                        self.desk.set(Typing::Gone);
                        return on(Typed::HangUp);
                    }
                }
            }
        };
        thread::Builder::new().name("agentline-keyboard".into()).spawn(read).map(drop)
    }

    fn meant(&self, line: String) -> Typed {
        let mut state = self.desk.lock();
        let old = std::mem::replace(&mut state.line, Line::Empty) == Line::Old;
        let chosen = state.questions.front().filter(|_| !old).and_then(|question| {
            let option = question.choice(&line)?;
            Some((question.request, PermissionOutcome::selected(&*option.option_id)))
        });
        match chosen {
            Some((request, outcome)) => Typed::Answer(request, outcome),
            None => Typed::Line(line),
        }
    }

    /// An input that has ended says no.
    fn end(&self) -> Vec<Typed> {
        self.desk.set(Typing::Ended);
        let mut state = self.desk.lock();
        state.questions.drain(..).map(|question| Typed::Answer(question.request, question.denial())).collect()
    }
}

/// Sees what is being typed.
struct Eye(Arc<Desk>);

impl Helper for Eye {}

impl Completer for Eye {
    type Candidate = String;
}

impl Hinter for Eye {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        let mut state = self.0.lock();
        state.line = match state.line {
            _ if line.is_empty() => Line::Empty,
            Line::Empty => Line::Begun,
            begun @ (Line::Begun | Line::Old) => begun,
        };
        None
    }
}

impl Highlighter for Eye {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, _: &'p str, _: bool) -> Cow<'b, str> {
        // The line is there to be typed: from here on something can be printed above it.
        self.0.set(Typing::On);
        let paint = self.0.paint;
        let asked = !self.0.lock().questions.is_empty();
        let (style, mark) = if asked { (paint.ask, "?") } else { (paint.strong, "›") };
        format!("{} ", In(style, mark)).into()
    }
}

impl Validator for Eye {
    fn validate(&self, _: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        self.0.set(Typing::Paused);
        Ok(ValidationResult::Valid(None))
    }
}

/// As wide as what is shown in its place.
const PROMPT: &str = "› ";
