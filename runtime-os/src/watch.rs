//! What a descriptor is called, and what it is ready for.

use agentline_core::LinkId;

/// Names a descriptor: which end of which link.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Token {
    pub(crate) link: LinkId,
    pub(crate) end: End,
}

/// One of the descriptors of a link.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum End {
    /// Where the peer's bytes come from; a socket's bytes go out there too.
    Main,
    /// Where our bytes go, if not to the same descriptor: a child's stdin.
    Out,
    /// What a child says on its standard error.
    Stderr,
    /// Readable when the child has ended, or the peer of a socket has gone.
    Exit,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// Bytes, EOF or a connection can be had.
    Read,
    /// Bytes can be written, or the peer is gone.
    Write,
}

impl Token {
    /// As the number that a poller carries.
    pub(crate) const fn key(self) -> usize {
        (self.link.number() as usize) << 2 | self.end as usize
    }

    /// The token of that number.
    pub(crate) const fn from_key(key: usize) -> Self {
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
