//! What a runtime adds to the system calls: being told when a descriptor is ready.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use agentline_core::LinkId;

/// A way to wait for descriptors.
pub trait Watch {
    /// A descriptor that can be waited for.
    type Source: Source;

    /// Takes a descriptor in. It never blocks, or is only read or written when it is ready.
    ///
    /// # Errors
    ///
    /// The system is short of something.
    fn watch(&self, fd: OwnedFd, token: Token) -> io::Result<Self::Source>;
}

/// A descriptor in a runtime's care. Dropping it ends the watch, then closes it.
pub trait Source: AsFd {
    /// Asks to be told, by [`Engine::ready`](crate::Engine::ready), when it can be read or written; or not
    /// to be told any more. What was asked for is asked again after each report.
    ///
    /// # Errors
    ///
    /// The system is short of something.
    fn want(&mut self, read: bool, write: bool) -> io::Result<()>;
}

/// Names a descriptor: which end of which link.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Token {
    pub(crate) link: LinkId,
    pub(crate) end: End,
}

/// One of the descriptors of a link.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum End {
    /// Where the peer's bytes come from; a socket's bytes go out there too.
    Main,
    /// The child's stdin.
    Out,
    /// The child's stderr.
    Stderr,
    /// Readable when the child has ended, or the peer of a socket has gone.
    Exit,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// Bytes, EOF or a connection can be had.
    Read,
    /// Bytes can be written, or the peer is gone.
    Write,
}

impl Token {
    /// As a number, for pollers that carry one.
    #[must_use]
    pub const fn key(self) -> usize {
        (self.link.number() as usize) << 2 | self.end as usize
    }

    /// The token of that number.
    #[must_use]
    pub const fn from_key(key: usize) -> Self {
        let end = match key & 3 {
            0 => End::Main,
            1 => End::Out,
            2 => End::Stderr,
            _ => End::Exit,
        };
        #[expect(clippy::cast_possible_truncation, reason = "a key was made from a u32")]
        Self { link: LinkId::from_number((key >> 2) as u32), end }
    }
}
