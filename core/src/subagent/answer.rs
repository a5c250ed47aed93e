//! The text of an answer, as much of it as is kept.

/// The beginning of what was said.
#[derive(Debug)]
pub(crate) struct Answer {
    text: String,
    limit: usize,
    truncated: bool,
}

impl Answer {
    /// Keeps so many bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, truncated: false }
    }

    pub(crate) fn add(&mut self, piece: &str) {
        let room = self.limit - self.text.len();
        let fits = piece.floor_char_boundary(room.min(piece.len()));
        let (kept, lost) = piece.split_at(if self.truncated { 0 } else { fits });
        self.text.push_str(kept);
        self.truncated |= !lost.is_empty();
    }

    /// Takes the text, and says whether there was more. What is added next is another answer.
    pub(crate) fn take(&mut self) -> (String, bool) {
        (std::mem::take(&mut self.text), std::mem::take(&mut self.truncated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_kept_and_nothing_after_a_gap() {
        let mut answer = Answer::new(4);
        answer.add("a中中");
        answer.add("b");
        assert_eq!(answer.take(), ("a中".to_owned(), true));
        answer.add("next");
        assert_eq!(answer.take(), ("next".to_owned(), false));
    }
}
