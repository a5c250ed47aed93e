//! The end of what a child wrote to standard error.

use crate::excerpt::MARK;

/// The last bytes of a stream.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    most: usize,
    /// There was more.
    cut: bool,
}

impl Tail {
    /// Keeps so many bytes.
    pub(super) const fn of(most: usize) -> Self {
        Self { bytes: Vec::new(), most, cut: false }
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.cut |= over > 0;
        let bytes = bytes.get(bytes.len().saturating_sub(self.most)..).unwrap_or_default();
        self.bytes.drain(..over.min(self.bytes.len()));
        // Exactly: thousands of children keep a tail each.
        self.bytes.reserve_exact(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// As text; marked where it was cut.
    pub(super) fn text(&self) -> String {
        if !self.cut {
            return String::from_utf8_lossy(&self.bytes).into_owned();
        }
        // Text must not begin inside a character.
        let inside = self.bytes.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
        let text = String::from_utf8_lossy(self.bytes.get(inside..).unwrap_or_default());
        format!("{MARK}{text}")
    }
}
