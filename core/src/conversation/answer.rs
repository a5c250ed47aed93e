//! The text of an answer, as much of it as is kept, and where its messages begin.

use std::sync::Arc;

/// The beginning of what was said.
#[derive(Debug)]
pub(crate) struct Answer {
    text: String,
    limit: usize,
    truncated: bool,
    /// The message that was added to last, if the agent names its messages.
    message: Option<Arc<str>>,
    /// Something else came since.
    interrupted: bool,
    /// Where messages begin, from the second on.
    starts: Vec<usize>,
}

/// An answer that is complete.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// Whether there was more.
    pub(crate) truncated: bool,
    /// Where messages begin, from the second on.
    pub(crate) starts: Vec<usize>,
}

impl Answer {
    /// Keeps so many bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            limit,
            truncated: false,
            message: None,
            interrupted: false,
            starts: Vec::new(),
        }
    }

    /// What was said so far, to be gone on with. `message` is the one that was added to last.
    pub(crate) fn from(said: Said, limit: usize, message: Option<Arc<str>>) -> Self {
        let Said { text, truncated, starts } = said;
        Self { text, truncated, message, starts, ..Self::new(limit) }
    }

    /// Adds a piece of that message. One message follows the other on a line of its own.
    pub(crate) fn add(&mut self, piece: &str, message: Option<&Arc<str>>) {
        if piece.is_empty() {
            return;
        }
        let is_another = match (&self.message, message) {
            (Some(last), Some(next)) => last != next,
            // Agents that name no messages say one between two other things.
            (None, _) | (_, None) => self.interrupted,
        };
        if is_another && !self.text.is_empty() {
            if !self.text.ends_with('\n') {
                self.keep("\n");
            }
            if self.starts.len() < MESSAGES && !self.truncated {
                self.starts.push(self.text.len());
            }
        }
        self.message = message.cloned();
        self.interrupted = false;
        self.keep(piece);
    }

    /// Something came that is no part of a message.
    pub(crate) const fn interrupt(&mut self) {
        self.interrupted = true;
    }

    fn keep(&mut self, piece: &str) {
        let room = self.limit - self.text.len();
        let fits = piece.floor_char_boundary(room.min(piece.len()));
        let (kept, lost) = piece.split_at(if self.truncated { 0 } else { fits });
        self.text.push_str(kept);
        self.truncated |= !lost.is_empty();
    }

    /// Takes what was said. What is added next is another answer.
    pub(crate) fn take(&mut self) -> Said {
        let Self { text, truncated, starts, .. } = std::mem::replace(self, Self::new(self.limit));
        Said { text, truncated, starts }
    }
}

/// Beginnings of messages that are kept.
const MESSAGES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, truncated: bool, starts: &[usize]) -> Said {
        Said { text: text.to_owned(), truncated, starts: starts.to_vec() }
    }

    #[test]
    fn the_beginning_is_kept_and_nothing_after_a_gap() {
        let mut answer = Answer::new(4);
        answer.add("a中中", None);
        answer.add("b", None);
        assert_eq!(answer.take(), said("a中", true, &[]));
        answer.add("next", None);
        assert_eq!(answer.take(), said("next", false, &[]));
    }

    #[test]
    fn c9_each_message_has_a_line_of_its_own() {
        let (one, two): (Arc<str>, Arc<str>) = ("1".into(), "2".into());
        let mut answer = Answer::new(100);
        for (piece, message) in [("Let me ", &one), ("look.", &one), ("Now I know.\n", &two), ("Bye.", &one)]
        {
            answer.add(piece, Some(message));
        }
        assert_eq!(answer.take(), said("Let me look.\nNow I know.\nBye.", false, &[13, 25]));

        // A name says more than what came between.
        answer.add("a", Some(&one));
        answer.interrupt();
        answer.add("b", Some(&one));
        assert_eq!(answer.take(), said("ab", false, &[]));

        answer.interrupt();
        answer.add("a", None);
        answer.add("b", None);
        answer.interrupt();
        answer.add("c", None);
        assert_eq!(answer.take(), said("ab\nc", false, &[3]));
    }
}
