//! Lines that wait for the one write that may be outstanding.

use std::collections::VecDeque;

/// Whole lines, packed into writes of bounded size in the order they were queued.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    writes: VecDeque<Vec<u8>>,
    queued: usize,
}

impl Outbox {
    /// Appends one line; `fill` writes its content, the line end is added here.
    ///
    /// Lines share a write up to `limit` bytes; a longer line is a write of its own.
    pub(crate) fn line(&mut self, limit: usize, fill: impl FnOnce(&mut Vec<u8>)) {
        self.line_within(limit, usize::MAX, fill);
    }

    /// Like [`Outbox::line`], unless the line would be longer than `most`: then nothing is appended.
    pub(crate) fn line_within(&mut self, limit: usize, most: usize, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut last = self.writes.pop_back().unwrap_or_else(|| Vec::with_capacity(LINE));
        let before = last.len();
        fill(&mut last);
        if last.len() - before > most {
            last.truncate(before);
            last.shrink_to(limit);
            if before > 0 {
                self.writes.push_back(last);
            }
            return false;
        }
        last.push(b'\n');
        self.queued += last.len() - before;
        if before > 0 && last.len() > limit {
            let line = last.split_off(before);
            last.shrink_to_fit();
            self.writes.push_back(last);
            self.writes.push_back(line);
        } else {
            self.writes.push_back(last);
        }
        true
    }

    /// The bytes of the next write, if there is anything to write.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let write = self.writes.pop_front()?;
        self.queued -= write.len();
        Some(write)
    }

    /// Bytes that no write has taken yet.
    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Room for a line as most are.
const LINE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(limit: usize, lines: &[&str]) -> Vec<String> {
        let mut outbox = Outbox::default();
        for line in lines {
            outbox.line(limit, |buf| buf.extend_from_slice(line.as_bytes()));
        }
        std::iter::from_fn(|| outbox.take()).map(|write| String::from_utf8(write).unwrap()).collect()
    }

    #[test]
    fn lines_share_a_write_up_to_the_limit() {
        assert_eq!(packed(6, &["ab", "cd", "ef"]), ["ab\ncd\n", "ef\n"]);
        assert_eq!(packed(5, &["ab", "cd"]), ["ab\n", "cd\n"]);
        assert_eq!(packed(5, &["longer than that", "x", ""]), ["longer than that\n", "x\n\n"]);
    }

    #[test]
    fn a_line_that_is_too_long_leaves_nothing_behind() {
        let mut outbox = Outbox::default();
        assert!(!outbox.line_within(4, 3, |buf| buf.extend_from_slice(b"long")));
        assert_eq!(outbox.take(), None);
        outbox.line(4, |buf| buf.extend_from_slice(b"a long one"));
        assert!(!outbox.line_within(4, 3, |buf| buf.extend_from_slice(b"long")));
        assert!(outbox.line_within(4, 3, |buf| buf.extend_from_slice(b"abc")));
        assert_eq!(outbox.queued(), 15);
        assert_eq!(outbox.take().as_deref(), Some(&b"a long one\n"[..]));
        assert_eq!(outbox.take().as_deref(), Some(&b"abc\n"[..]));
        assert_eq!((outbox.take(), outbox.queued()), (None, 0));
    }

    #[test]
    fn what_is_queued_is_counted() {
        let mut outbox = Outbox::default();
        outbox.line(4, |buf| buf.extend_from_slice(b"abc"));
        outbox.line(4, |buf| buf.extend_from_slice(b"d"));
        assert_eq!(outbox.queued(), 6);
        assert_eq!(outbox.take().as_deref(), Some(&b"abc\n"[..]));
        assert_eq!(outbox.queued(), 2);
    }
}
