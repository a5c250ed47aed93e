//! Where one types: a text, or the answer to a question, and never one for the other.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use agentline_core::acp::RequestKey;

use super::editor::{Edited, Editor};
use super::history::History;
use super::keys::Key;
use crate::ask::{Answer, Asked, Entered, Questions};
use crate::output::{Foot, Notes, plain};

/// What was typed.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Typed<K = RequestKey> {
    Line(String),
    /// The answer to the question of that name.
    Answer(K, Answer),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D: nothing more will come.
    End,
    /// Ctrl-Z.
    Suspend,
    /// A line was so long that nothing more is read.
    TooLong,
    /// The terminal is gone.
    HangUp,
}

/// What the typing thread and the others share. `K`: what questions are called.
pub(crate) struct Desk<K = RequestKey> {
    notes: Notes,
    state: Mutex<State<K>>,
    changed: Condvar,
}

struct State<K> {
    editor: Editor,
    history: Option<History>,
    /// The text was begun before the question was shown: it cannot be the answer.
    old: bool,
    /// A text that was begun before a question, until that is answered.
    kept: Option<String>,
    /// Lines that wait for the end of the turn.
    waiting: VecDeque<String>,
    /// A turn runs, or the session is not open yet.
    busy: bool,
    /// The first one is shown.
    questions: Questions<K>,
    /// Whoever leaves says no to what is open.
    denies: bool,
    input: Input,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Input {
    Open,
    /// Nothing more is typed, and what is, is ignored.
    Ended,
}

impl<K: Clone + PartialEq> Desk<K> {
    pub(crate) fn new(notes: Notes, history: Option<(History, Vec<String>)>) -> Arc<Self> {
        let (history, lines) = history.map_or((None, Vec::new()), |(file, lines)| (Some(file), lines));
        let state = State {
            editor: Editor::new(lines),
            history,
            old: false,
            kept: None,
            waiting: VecDeque::new(),
            busy: true,
            questions: Questions::default(),
            denies: true,
            input: Input::Open,
        };
        let desk = Arc::new(Self { notes, state: Mutex::new(state), changed: Condvar::new() });
        desk.show(&desk.lock());
        desk
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is open when whoever types leaves stays open: others may answer it.
    pub(crate) fn leave_open(&self) {
        self.lock().denies = false;
    }

    /// A key was pressed.
    pub(crate) fn press(&self, key: Key) -> Option<Typed<K>> {
        let mut state = self.lock();
        if state.input == Input::Ended && !matches!(key, Key::Interrupt | Key::Suspend) {
            return None;
        }
        let typed = match state.editor.press(key) {
            Edited::Changed => None,
            Edited::Entered(text) => self.entered(&mut state, text),
            Edited::Other(Key::Interrupt) => Some(Typed::Interrupt),
            Edited::Other(Key::Leave) => Some(Typed::End),
            Edited::Other(Key::Suspend) => Some(Typed::Suspend),
            Edited::Other(_) => {
                if let Some(page) = self.notes.page() {
                    page.redraw(true);
                }
                None
            }
        };
        self.show(&state);
        typed
    }

    /// A whole line came, where no single keys do.
    pub(crate) fn line(&self, text: String) -> Option<Typed<K>> {
        let mut state = self.lock();
        if !state.questions.is_empty() {
            self.notes.entered(io::stdin().is_terminal());
        }
        let typed = self.entered(&mut state, text);
        if typed.is_none()
            && let Some(asked) = state.questions.first()
        {
            asked.question.put(&self.notes);
        }
        typed
    }

    fn entered(&self, state: &mut State<K>, text: String) -> Option<Typed<K>> {
        let Some(Asked { key, question }) = state.questions.first_mut() else {
            if text.trim().is_empty() {
                return None;
            }
            state.remember(&text, &self.notes);
            return Some(Typed::Line(text));
        };
        if std::mem::take(&mut state.old) {
            state.kept = Some(text);
            self.notes.line(&format!("{}; what was typed before is kept for later", question.nudge()));
            return None;
        }
        match question.enter(&text) {
            Entered::Answer(answer) => {
                let key = key.clone();
                state.questions.remove(&key);
                self.next(state);
                return Some(Typed::Answer(key, answer));
            }
            Entered::Next => {}
            Entered::ShowAll => question.show_all(&self.notes),
            Entered::Nothing => self.notes.line(&question.nudge()),
        }
        None
    }

    /// Asks, after all that was asked before.
    /// `Some`: nobody types any more, so this is the answer.
    pub(crate) fn ask(&self, asked: Asked<K>) -> Option<Answer> {
        let mut state = self.lock();
        if state.input == Input::Ended {
            return state.denies.then(|| asked.question.denial());
        }
        let is_first = state.questions.is_empty();
        state.questions.push(asked);
        if is_first {
            self.put(&mut state);
        }
        None
    }

    /// The question is decided, by whomever.
    pub(crate) fn decided(&self, key: &K) {
        let mut state = self.lock();
        let is_shown = state.questions.first().is_some_and(|first| first.key == *key);
        state.questions.remove(key);
        if is_shown {
            self.next(&mut state);
        }
        self.show(&state);
    }

    /// The first question is no longer open.
    fn next(&self, state: &mut State<K>) {
        if self.notes.page().is_none() {
            self.notes.still();
        }
        if state.questions.is_empty() {
            state.give_back();
        } else {
            self.put(state);
        }
    }

    /// Shows the first question.
    fn put(&self, state: &mut State<K>) {
        state.old = !state.editor.text().is_empty();
        if let Some(Asked { question, .. }) = state.questions.first() {
            question.show(&self.notes);
            if self.notes.page().is_none() {
                question.put(&self.notes);
            }
        }
        self.show(state);
    }

    /// A line is about to wait, or to begin at once.
    pub(crate) fn queue(&self, line: &str) {
        let mut state = self.lock();
        state.waiting.push_back(line.to_owned());
        self.show(&state);
    }

    /// The newest line does not wait: it was refused.
    pub(crate) fn refused(&self) {
        let mut state = self.lock();
        state.waiting.pop_back();
        self.show(&state);
    }

    /// A turn begins. `typed`: with the oldest line that waited.
    pub(crate) fn begun(&self, typed: bool) {
        let mut state = self.lock();
        state.busy = true;
        if typed {
            state.waiting.pop_front();
        }
        self.show(&state);
    }

    /// Nothing runs any more.
    pub(crate) fn rest(&self) {
        let mut state = self.lock();
        state.busy = false;
        self.show(&state);
    }

    /// Takes away what is being typed. Whether there was any.
    pub(crate) fn clear(&self) -> bool {
        let mut state = self.lock();
        let text = state.editor.take();
        self.show(&state);
        !text.is_empty()
    }

    /// Lines that waited are not to be said: they are back where they were typed.
    pub(crate) fn take_back(&self, mut lines: Vec<String>) {
        let mut state = self.lock();
        // Behind them there may be newer ones by now.
        let taken = lines.len().min(state.waiting.len());
        state.waiting.drain(..taken);
        if self.notes.page().is_none() {
            // What was typed there cannot be typed on.
            lines.iter().for_each(|line| self.notes.line(&format!("◦ not said: {}", plain(line))));
            return;
        }
        let text = state.editor.take();
        if !text.is_empty() {
            lines.push(text);
        }
        state.editor.set(lines.join("\n"));
        self.show(&state);
    }

    /// Nothing more is typed. What is asked is answered with no.
    pub(crate) fn end(&self) -> Vec<Typed<K>> {
        let mut state = self.lock();
        state.input = Input::Ended;
        let denied = state.questions.drain().filter(|_| state.denies);
        let answers = denied.map(|asked| Typed::Answer(asked.key, asked.question.denial())).collect();
        if self.notes.page().is_none() {
            self.notes.still();
        }
        self.show(&state);
        answers
    }

    /// Waits until the next line is wanted: nothing runs and nothing waits, or there is a question.
    pub(crate) fn wait_until_wanted(&self) {
        let is_busy =
            |state: &mut State<K>| state.questions.is_empty() && (state.busy || !state.waiting.is_empty());
        let _unlocked = self.changed.wait_while(self.lock(), is_busy);
    }

    fn show(&self, state: &State<K>) {
        self.changed.notify_all();
        let Some(page) = self.notes.page() else { return };
        let (mut question, mut input) = (Vec::new(), None);
        if let Some(first) = state.questions.first() {
            question = first.question.choices(self.notes.paint());
            question.push(format!("    type {}", first.question.call()));
        }
        if state.input == Input::Open {
            input = Some((state.editor.text().to_owned(), state.editor.cursor()));
        }
        let queued = state.waiting.iter().filter(|_| state.busy).cloned().collect();
        page.foot(Foot { queued, question, input });
    }
}

impl<K> State<K> {
    /// Keeps a line in the history.
    fn remember(&mut self, text: &str, notes: &Notes) {
        self.editor.remember(text);
        if let Some(Err(error)) = self.history.as_ref().map(|history| history.keep(text)) {
            notes.line(&format!("! what is typed is not kept for the next time: {error}"));
            self.history = None;
        }
    }

    /// Gives back what was begun before a question.
    fn give_back(&mut self) {
        self.old = false;
        if let Some(kept) = self.kept.take()
            && self.editor.text().is_empty()
        {
            self.editor.set(kept);
        }
    }
}
