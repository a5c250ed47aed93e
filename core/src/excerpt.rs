//! What is shown of a text that is too long. Wherever something was cut off stands a mark, and beside a mark
//! [`Masks`](crate::trace::Masks) look for what was left of a secret: a text may be cut before it is known who reads it.

use std::borrow::Cow;

/// Stands where a text was cut.
pub const MARK: &str = "…";

/// The start of a text, up to so many characters; marked if there is more.
#[must_use]
pub fn start(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)) {
        Some(start) => Cow::Owned(format!("{start}{MARK}")),
        None => Cow::Borrowed(text),
    }
}

/// The same of a text that is put on one line: whatever parts its words is one blank.
#[must_use]
pub fn line(text: &str, most: usize) -> String {
    // A word has a letter: one word more than there is room for is enough to tell that something was cut.
    let words: Vec<&str> = text.split_whitespace().take(most.saturating_add(1)).collect();
    let line = words.join(" ");
    match start(&line, most) {
        Cow::Borrowed(_) => line,
        Cow::Owned(start) => start,
    }
}

/// The end of a text, in no more bytes than that and the mark; marked if there is more.
pub fn keep_end(text: &mut String, most: usize) {
    if text.len() > most {
        let from = text.ceil_char_boundary(text.len() - most);
        text.replace_range(..from, MARK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_marked_and_only_that() {
        assert_eq!((start("äöü", 3), start("äöü", 2), start("", 0)), ("äöü".into(), "äö…".into(), "".into()));
        assert_eq!(
            (line(" a \n b ", 3), line("a\tb c", 3), line("abcd", 2)),
            ("a b".into(), "a b…".into(), "ab…".into())
        );
        let mut text = "aäb".to_owned();
        for (most, left) in [(4, "aäb"), (3, "…äb"), (1, "…b"), (0, "…")] {
            keep_end(&mut text, most);
            assert_eq!(text, left);
        }
    }
}
