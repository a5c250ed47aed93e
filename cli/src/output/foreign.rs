//! What the agent writes to its standard error: on a terminal marked as its own, and no more of it than can be read.

use std::rc::Rc;

use agentline_core::excerpt::MARK;
use agentline_core::trace::Masks;

use super::filter::plain;
use super::notes::Notes;
use super::paint::In;
use crate::failure::Advice;

/// Shows it beside what is ours. In a pipe it goes on as it is.
pub(crate) struct Foreign {
    notes: Notes,
    /// All of it is wanted.
    all: bool,
    masks: Rc<Masks>,
    /// A line that is not over; in a pipe what may be the start of a secret.
    line: String,
    shown: usize,
    more: usize,
}

impl Foreign {
    pub(crate) fn new(notes: Notes, advice: &Advice) -> Self {
        Self::of(notes, Rc::clone(&advice.masks), advice.verbose)
    }

    pub(crate) const fn of(notes: Notes, masks: Rc<Masks>, all: bool) -> Self {
        Self { notes, all, masks, line: String::new(), shown: 0, more: 0 }
    }

    pub(crate) fn write(&mut self, text: &str) {
        if !self.notes.is_terminal() {
            return self.pass_on(text);
        }
        for piece in text.split_inclusive('\n') {
            self.push(piece);
            if piece.ends_with('\n') {
                self.end_line();
            }
        }
    }

    fn push(&mut self, piece: &str) {
        if self.line.len() >= LONG {
            return;
        }
        let fits = piece.floor_char_boundary(LONG - self.line.len());
        self.line.push_str(&piece[..fits]);
        if fits < piece.trim_end_matches('\n').len() {
            // As long as that, nothing is added to it any more.
            self.line.push_str(MARK);
        }
    }

    fn pass_on(&mut self, text: &str) {
        self.line.push_str(text);
        let rest = self.line.split_off(self.line.len() - self.masks.unfinished(&self.line));
        let text = std::mem::replace(&mut self.line, rest);
        if !text.is_empty() {
            self.notes.foreign(&self.masks.text(&text));
        }
    }

    /// Nothing more of it belongs to what comes next.
    pub(crate) fn end(&mut self) {
        if self.line != MARK {
            self.break_off();
        }
        let more = std::mem::take(&mut self.more);
        self.shown = 0;
        if more > 0 {
            self.show(&format!("{more} more lines: -v shows them, --trace FILE keeps them"));
        }
    }

    /// Shows what there is of a line. Within a secret it has a mark on both sides: what comes later may be the rest.
    fn break_off(&mut self) {
        let mark = if self.is_within_a_secret() { MARK } else { "" };
        self.line.push_str(mark);
        if self.notes.is_terminal() {
            self.end_line();
        } else if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.notes.foreign(&self.masks.text(&line));
        }
        self.line.push_str(mark);
    }

    fn is_within_a_secret(&self) -> bool {
        let marked = self.masks.text(&format!("{}{MARK}", self.line)).into_owned();
        marked.strip_suffix(MARK) != Some(&*self.masks.text(&self.line))
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        // Of what is drawn again and again, the last is meant.
        let line = line.trim_end().rsplit('\r').next().unwrap_or_default();
        if line.is_empty() {
        } else if self.all || self.shown < MOST {
            self.shown += 1;
            self.show(&plain(&self.masks.text(line)));
        } else {
            self.more += 1;
        }
    }

    fn show(&self, line: &str) {
        self.notes.line(&In(self.notes.paint().dim, format!("  │ {line}")).to_string());
    }
}

/// Lines of one turn that are shown.
const MOST: usize = 20;
/// Bytes of a line that are shown.
const LONG: usize = 2000;

impl Drop for Foreign {
    fn drop(&mut self) {
        self.end();
    }
}
