//! The end of what a command wrote, as text.

use std::collections::VecDeque;

/// Text of which the last bytes are kept, cut between two characters. What is no UTF-8 becomes U+FFFD.
#[derive(Debug)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
    /// A character of which only the first bytes have come.
    partial: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Tail {
    pub(super) const fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), partial: Vec::new(), limit, truncated: false }
    }

    /// Adds what was written next, however it was cut.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            joined = [&std::mem::take(&mut self.partial), bytes].concat();
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.add(chunk.valid());
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_beginning(invalid) {
                self.partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.add("\u{FFFD}");
            }
        }
    }

    /// Nothing is added any more.
    pub(super) fn end(&mut self) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.add("\u{FFFD}");
        }
    }

    /// What is kept, and whether there was more before it.
    pub(super) fn text(&self) -> (String, bool) {
        let (front, back) = self.kept.as_slices();
        let text = String::from_utf8([front, back].concat()).unwrap_or_default();
        (text, self.truncated)
    }

    fn add(&mut self, text: &str) {
        // What does not fit in any case never goes in.
        let skipped = text.ceil_char_boundary(text.len().saturating_sub(self.limit));
        if skipped > 0 {
            self.kept.clear();
        }
        self.kept.extend(&text.as_bytes()[skipped..]);
        let over = self.kept.len().saturating_sub(self.limit);
        self.kept.drain(..over);
        let inside = self.kept.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
        self.kept.drain(..inside);
        self.truncated |= skipped + over + inside > 0;
    }
}

/// Whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same of the whole at once.
    fn reference(bytes: &[u8], limit: usize) -> (String, bool) {
        let whole = String::from_utf8_lossy(bytes);
        let from = whole.ceil_char_boundary(whole.len().saturating_sub(limit));
        (whole[from..].to_owned(), from > 0)
    }

    #[test]
    fn however_it_is_cut_the_last_whole_characters_are_kept() {
        let pieces: [&[u8]; 8] =
            [b"a", "ä".as_bytes(), "中".as_bytes(), "🎈".as_bytes(), b"\n", &[0xFF], &[0xE4, 0xB8], &[0x80]];
        let mut seed = 1_u32;
        let mut dice = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        for _ in 0..2000 {
            let bytes: Vec<u8> =
                (0..dice(24)).flat_map(|_| pieces[dice(pieces.len())].iter().copied()).collect();
            let limit = dice(20);
            let mut tail = Tail::new(limit);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (chunk, left) = rest.split_at(1 + dice(rest.len()));
                tail.write(chunk);
                assert!(tail.kept.len() <= limit && tail.partial.len() < 4);
                rest = left;
            }
            tail.end();
            assert_eq!(tail.text(), reference(&bytes, limit), "{bytes:?} within {limit}");
        }
    }
}
