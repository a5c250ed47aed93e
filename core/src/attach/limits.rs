use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::{Graces, Limits as LinkLimits};

/// Every number of the channel. The defaults are those of the protocol's description, where it has one.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Sizes of one connection. A line: 8 MiB with its line end.
    pub link: LinkLimits,
    /// How long the steps of a connection's life may take.
    pub graces: Graces,
    /// Clients at once, and prompts of clients that are gone. 512: a process stays below the usual 1024
    /// descriptors.
    pub connections: usize,
    /// Seats of their own for connections without the token. When they are taken and one more comes, the one that
    /// has had its seat longest leaves. 16.
    pub strangers: usize,
    /// From connecting until the token. 10 s.
    pub admission: Duration,
    /// Bytes of a line before the token. 64 KiB: an `initialize` has a hundred.
    pub stranger_line: usize,
    /// From handing a prompt to the host until its answer is pending. 600 s.
    pub wait: Duration,
    /// After a steered turn, until it is clear that its late words start no turn of their own. 1 s.
    pub settle: Duration,
    /// For a cancelled turn to wind down, before whoever cancelled it may speak again. 5 s.
    pub wind_down: Duration,
    /// Between two writes of the presence record. 30 s.
    pub heartbeat: Duration,
    /// For an answer to anything but a prompt. 10 s: all of them are immediate.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            link: LinkLimits { line: (8 << 20) - 1, ..LinkLimits::default() },
            // Both ends follow an end of input at once, unless a turn keeps them.
            graces: Graces { eof: Duration::from_millis(500), ..Graces::default() },
            connections: 512,
            strangers: 16,
            admission: Duration::from_secs(10),
            stranger_line: 64 << 10,
            wait: Duration::from_secs(600),
            settle: Duration::from_secs(1),
            wind_down: Duration::from_secs(5),
            heartbeat: Duration::from_secs(30),
            answer: Duration::from_secs(10),
        }
    }
}
