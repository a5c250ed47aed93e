//! Where a link is in its life, and how far each of its sides is.

use std::time::Duration;

use crate::machine::{Exit, Open, Time};

#[derive(Debug)]
pub(super) enum Phase {
    /// `again`: the system was short of something, and is asked once more then.
    Opening {
        how: Open,
        until: Time,
        again: Option<Time>,
    },
    /// We left before the child was there: it must be seen before it can be ended.
    Abandoned {
        until: Time,
    },
    Open,
    Flushing {
        until: Time,
    },
    Leaving {
        until: Time,
    },
    /// Nobody is left to signal; only the drain grace is waited for.
    Parting,
    Closed,
}

/// What is at the other end.
#[derive(Debug)]
pub(super) enum Life {
    /// Our own stdin and stdout, or a stream of the embedder: nobody to wait for.
    Given,
    Stream,
    /// A child that is not there yet.
    Unborn,
    Running,
    Exited(Exit, Search),
}

/// Whether anybody of the child's group lives.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Search {
    Unasked,
    Asked { next: Duration },
    Again { at: Time, next: Duration },
    Gone,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Inbound {
    Open,
    Held,
    /// The child has exited and its last bytes may still come.
    Draining {
        until: Time,
    },
    Ended,
}
