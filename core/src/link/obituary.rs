//! What is known of a link when it is over.

use serde::{Deserialize, Serialize};

use crate::machine::{Exit, Group};

/// How far the teardown had to go.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The peer left by itself.
    #[default]
    Own,
    /// We closed our half.
    Eof,
    /// SIGTERM to the group.
    Term,
    /// SIGKILL to the group.
    Kill,
}

/// How a link ended.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Obituary {
    /// How the child ended, if it did in time.
    pub exit: Option<Exit>,
    /// How far the teardown was when it did: what came later was for those it left behind.
    #[serde(default)]
    pub exit_rung: Rung,
    /// How far the teardown had to go.
    pub rung: Rung,
    /// Whether the child's group was seen to be gone. `None`: there was no child.
    pub group: Option<Group>,
    /// The end of what the child wrote to standard error, as text. It begins with an
    /// [ellipsis](crate::excerpt::MARK) if there was more.
    pub stderr_tail: String,
}
