//! One direction of a byte stream.

use super::PortId;

/// Bytes on their way. What is beyond the capacity is still with its writer, who waits.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    bytes: Vec<u8>,
    /// What of `bytes` was read.
    read: usize,
    /// Who waits for the word that its write is in the pipe.
    waiting: Option<PortId>,
    pub(super) reader: Option<PortId>,
    pub(super) writer: Option<PortId>,
    /// Processes that hold the writing end, and the reading end.
    pub(super) writers: u8,
    pub(super) readers: u8,
    /// Whether the end was reported.
    pub(super) ended: bool,
}

impl Pipe {
    /// What a pipe of Linux holds.
    pub(super) const CAPACITY: usize = 64 << 10;

    pub(super) fn held_by(writers: u8, readers: u8) -> Self {
        Self { writers, readers, ..Self::default() }
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.readers == 0
    }

    /// Whether a reader would learn anything now.
    pub(super) const fn is_readable(&self) -> bool {
        self.buffered() > 0 || (self.writers == 0 && !self.ended)
    }

    pub(super) const fn buffered(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// Takes a whole write; `true`: all of it is in the pipe.
    pub(super) fn write(&mut self, from: PortId, bytes: &[u8]) -> bool {
        self.append(bytes);
        let fits = self.buffered() <= Self::CAPACITY;
        if !fits {
            self.waiting = Some(from);
        }
        fits
    }

    /// Bytes whose writer nobody tells anything.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.read == self.bytes.len() {
            self.bytes.clear();
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next bytes, at most `most`.
    pub(super) fn peek(&self, most: usize) -> &[u8] {
        let end = self.bytes.len().min(self.read.saturating_add(most));
        &self.bytes[self.read..end]
    }

    /// Passes over what was peeked at. Returns whose write is in the pipe now.
    pub(super) fn advance(&mut self, taken: usize) -> Option<PortId> {
        self.read += taken;
        if self.buffered() <= Self::CAPACITY { self.waiting.take() } else { None }
    }

    /// The writer gives up what is not in the pipe, and `lost` bytes of what is.
    pub(super) fn give_up(&mut self, lost: usize) {
        self.waiting = None;
        let kept = self.buffered().min(Self::CAPACITY).saturating_sub(lost);
        self.bytes.truncate(self.read + kept);
    }

    /// Nobody reads any more: what is in the pipe is lost. Returns whose write failed.
    pub(super) fn break_off(&mut self) -> Option<PortId> {
        self.bytes = Vec::new();
        self.read = 0;
        self.waiting.take()
    }
}
