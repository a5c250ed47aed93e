//! The text that is being typed, and those that were typed before.

use unicode_segmentation::UnicodeSegmentation;

use super::keys::{Key, LONGEST};

/// A text and a cursor in it. Only its own keys change it.
#[derive(Debug, Default)]
pub(crate) struct Editor {
    text: String,
    /// Where in the text, in bytes, on a whole letter.
    cursor: usize,
    history: Vec<String>,
    /// What of the history is shown, and what was typed before that.
    recalled: Option<(usize, String)>,
}

/// What came of a key.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Edited {
    /// The text or the cursor may be another one.
    Changed,
    /// The text is done, and this is it.
    Entered(String),
    /// The key has nothing to do with the text.
    Other(Key),
}

impl Editor {
    pub(crate) fn new(history: Vec<String>) -> Self {
        Self { history, ..Self::default() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) const fn cursor(&self) -> usize {
        self.cursor
    }

    /// Takes the text away.
    pub(crate) fn take(&mut self) -> String {
        self.recalled = None;
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    /// Puts a text in the place of what is there.
    pub(crate) fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    /// A text that can be called back with the arrow keys.
    pub(crate) fn remember(&mut self, text: &str) {
        if self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
            let surplus = self.history.len().saturating_sub(super::history::MOST);
            self.history.drain(..surplus);
        }
    }

    pub(crate) fn press(&mut self, key: Key) -> Edited {
        match key {
            Key::Char(letter) => self.insert(letter.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.insert(&text),
            Key::NewLine => self.insert("\n"),
            Key::Enter => return Edited::Entered(self.take()),
            Key::Backspace => self.remove(self.before()..self.cursor),
            Key::Delete => self.remove(self.cursor..self.after()),
            // Ctrl-D in a text is Delete, in an empty one it leaves.
            Key::Leave if !self.text.is_empty() => self.remove(self.cursor..self.after()),
            Key::Left => self.cursor = self.before(),
            Key::Right => self.cursor = self.after(),
            Key::WordLeft => self.cursor = self.word_before(),
            Key::WordRight => self.cursor = self.word_after(),
            Key::Home => self.cursor = self.line_start(),
            Key::End => self.cursor = self.line_end(),
            Key::Up => self.up(),
            Key::Down => self.down(),
            Key::KillWord => self.remove(self.word_before()..self.cursor),
            Key::KillBefore => self.remove(self.line_start()..self.cursor),
            Key::KillAfter => self.remove(self.cursor..self.line_end()),
            Key::Leave | Key::Interrupt | Key::Suspend | Key::Clear => return Edited::Other(key),
        }
        Edited::Changed
    }

    fn insert(&mut self, text: &str) {
        if self.text.len() + text.len() <= LONGEST {
            self.text.insert_str(self.cursor, text);
            self.cursor += text.len();
        }
    }

    fn remove(&mut self, part: std::ops::Range<usize>) {
        self.cursor = part.start;
        self.text.drain(part);
    }

    fn before(&self) -> usize {
        self.cursor - self.text[..self.cursor].graphemes(true).next_back().map_or(0, str::len)
    }

    fn after(&self) -> usize {
        self.cursor + self.text[self.cursor..].graphemes(true).next().map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before
            .char_indices()
            .rfind(|(_, letter)| letter.is_whitespace())
            .map_or(0, |(at, it)| at + it.len_utf8())
    }

    fn word_after(&self) -> usize {
        let after = &self.text[self.cursor..];
        let blank = after.len() - after.trim_start().len();
        let word = after[blank..].find(char::is_whitespace).unwrap_or(after.len() - blank);
        self.cursor + blank + word
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// The line above, or the text before.
    fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let letters = self.text[start..self.cursor].chars().count();
            self.cursor = start - 1;
            self.cursor = self.in_line(letters);
            return;
        }
        let at = self.recalled.as_ref().map_or(self.history.len(), |(at, _)| *at);
        if let Some(text) = at.checked_sub(1).map(|at| self.history[at].clone()) {
            let draft = self.recalled.take().map_or_else(|| self.text.clone(), |(_, draft)| draft);
            self.set(text);
            self.recalled = Some((at - 1, draft));
        }
    }

    /// The line below, or the text after.
    fn down(&mut self) {
        let (start, end) = (self.line_start(), self.line_end());
        if end < self.text.len() {
            let letters = self.text[start..self.cursor].chars().count();
            self.cursor = end + 1;
            self.cursor = self.in_line(letters);
            return;
        }
        if let Some((at, draft)) = self.recalled.take() {
            match self.history.get(at + 1).cloned() {
                Some(text) => {
                    self.set(text);
                    self.recalled = Some((at + 1, draft));
                }
                None => self.set(draft),
            }
        }
    }

    /// So many letters into the line of the cursor, or its end.
    fn in_line(&self, letters: usize) -> usize {
        let (start, end) = (self.line_start(), self.line_end());
        self.text[start..end].char_indices().nth(letters).map_or(end, |(at, _)| start + at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::*;

    /// Types it all; a bar stands for the cursor.
    fn typed(editor: &mut Editor, keys: &str) -> String {
        Keys::default().feed(keys.as_bytes(), |key| {
            editor.press(key);
        });
        let (before, after) = editor.text().split_at(editor.cursor());
        format!("{before}|{after}")
    }

    #[test]
    fn what_is_typed_can_be_edited() {
        for (keys, text) in [
            ("abc\x1b[D\x1b[D\x7f", "|bc"),
            ("one two\x17three", "one three|"),
            ("one two\x1bb\x1bbX", "X|one two"),
            ("one two\x01\x1bf", "one| two"),
            ("one two\x01\x0b", "|"),
            ("one\x1b\rtwo\x15", "one\n|"),
            ("one\x1b\rtwo\x1b[A!", "one!|\ntwo"),
            ("long line\x1b\rx\x1b[A\x1b[B", "long line\nx|"),
            ("e\u{301}\x7f", "|"),
            ("👨‍👩‍👧x\x1b[D\x7f", "|x"),
            ("ab\x01\x04", "|b"),
            ("\x1b[200~a\nb\x1b[201~", "a\nb|"),
        ] {
            assert_eq!(typed(&mut Editor::default(), keys), text, "{keys:?}");
        }
    }

    #[test]
    fn what_was_typed_before_comes_back_and_the_draft_too() {
        let mut editor = Editor::new(vec!["first".into(), "second".into()]);
        assert_eq!(typed(&mut editor, "draft\x1b[A"), "second|");
        assert_eq!(typed(&mut editor, "\x1b[A\x1b[A"), "first|");
        assert_eq!(typed(&mut editor, "\x1b[B\x1b[B\x1b[B"), "draft|");
        editor.remember("third");
        editor.remember("third");
        assert_eq!(editor.history, ["first", "second", "third"]);
    }

    #[test]
    fn g5_a_line_is_bounded() {
        let mut editor = Editor::default();
        for _ in 0..20 {
            editor.press(Key::Paste("x".repeat(100_000)));
        }
        assert!(editor.text().len() <= LONGEST);
    }

    #[test]
    fn no_keys_break_it() {
        fn property(bytes: Vec<u8>) -> bool {
            let mut editor = Editor::new(vec!["a\nä".into()]);
            Keys::default().feed(&bytes, |key| {
                editor.press(key);
            });
            editor.text().is_char_boundary(editor.cursor())
        }
        quickcheck::quickcheck(property as fn(Vec<u8>) -> bool);
    }
}
