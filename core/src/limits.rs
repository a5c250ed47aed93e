//! Every number that bounds a machine, with its reason.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Sizes and counts. The defaults are the specs' values; tests use tiny ones.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Bytes of one line of either side, without its line end. 32 MiB: what the TypeScript SDK takes.
    pub line: usize,
    /// Bytes of one write, unless a single line is longer. 64 KiB: a pipe's capacity on Linux.
    pub write: usize,
    /// Unsent bytes above which a writer that can wait should wait. 64 KiB: one more pipe full.
    pub unsent_soft: usize,
    /// Unsent bytes above which a peer that cannot be made to wait is called deaf, if it takes nothing within
    /// [`Graces::read`], or is answered twice as much. Room for one longest line and the answers around it. The
    /// application is refused as `Crowded` before, and one answer of its own later.
    pub unsent_hard: usize,
    /// Bytes of a child's standard error that are kept, the last ones. Enough for a stack trace.
    pub stderr_tail: usize,
    /// Nesting of JSON that is taken. 128: what `serde_json` decodes.
    pub depth: usize,
    /// Requests of the peer that may be open at once.
    pub peer_requests: usize,
    /// Requests of ours that may be open at once.
    pub own_requests: usize,
    /// Sessions known on one connection.
    pub sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line: 32 << 20,
            write: 64 << 10,
            unsent_soft: 64 << 10,
            unsent_hard: 40 << 20,
            stderr_tail: 4096,
            depth: 128,
            peer_requests: 1024,
            own_requests: 1024,
            sessions: 1024,
        }
    }
}

/// How long each step of a link's life may take. The measured agents are the reason for each: an idle one
/// leaves within 2.2 s of EOF, a busy one within 1.2 s of SIGTERM, some ignore either.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Graces {
    /// From opening until the link is up.
    pub open: Duration,
    /// For taking some of what is sent, once more than [`Limits::unsent_hard`] is unsent. 10 s: the longest line,
    /// for a peer that reads 3 MB a second.
    pub read: Duration,
    /// For what is still unsent when we leave.
    pub flush: Duration,
    /// From the end of its stdin until SIGTERM.
    pub eof: Duration,
    /// From SIGTERM until SIGKILL.
    pub term: Duration,
    /// From SIGKILL until we stop waiting.
    pub reap: Duration,
    /// From a child's exit until its last bytes count as lost: a grandchild may hold the pipe.
    pub drain: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(10),
            read: Duration::from_secs(10),
            flush: Duration::from_secs(1),
            eof: Duration::from_millis(2500),
            term: Duration::from_secs(2),
            reap: Duration::from_secs(5),
            drain: Duration::from_secs(1),
        }
    }
}
