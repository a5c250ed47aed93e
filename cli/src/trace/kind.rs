//! What the rows of a trace are sorted into.

use clap::ValueEnum;
use serde::Serialize;

/// What a row is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A prompt, and how its turn ended
    Turn,
    /// What is said, piece by piece
    Text,
    /// Calls of tools
    Tool,
    /// Questions to the application, and its answers
    Permission,
    /// All other messages of the channel
    Message,
    /// What a child writes to standard error
    Stderr,
    /// What the application asks of the machine
    Command,
    /// What the machine tells the application
    Event,
    /// How links are opened and end
    Link,
    /// The application reads no events, or reads them again
    Hold,
    /// Files that the machine keeps
    File,
    /// How bytes are read and written, and time passes; shown only when asked for
    Flow,
    /// Lines that cannot be read
    Damage,
}

impl Kind {
    pub(super) const ALL: [Self; 13] = [
        Self::Turn,
        Self::Text,
        Self::Tool,
        Self::Permission,
        Self::Message,
        Self::Stderr,
        Self::Command,
        Self::Event,
        Self::Link,
        Self::Hold,
        Self::File,
        Self::Flow,
        Self::Damage,
    ];

    /// Whether it is shown unless something else is asked for.
    pub(super) const fn is_shown(self) -> bool {
        !matches!(self, Self::Flow)
    }
}
