//! The end of a connection, the same for every channel.

use serde::{Deserialize, Serialize};

use crate::link::Obituary;
use crate::machine::OpenError;

/// How a connection ended. The last thing that is told of it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Closed<F> {
    /// Why it ended. The first reason counts.
    pub cause: Cause<F>,
    /// How its process and pipes ended.
    pub obituary: Obituary,
}

/// Why a connection is over. `F` is what a peer of the channel can do wrong.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Cause<F> {
    /// We left, by a command of the application.
    #[error("we left")]
    Left,
    /// The peer left, or its process ended.
    #[error("the other side closed the connection")]
    Gone,
    /// The link could not be opened.
    #[error("cannot connect: {0}")]
    Failed(OpenError),
    /// The peer is at fault.
    #[error("{0}")]
    Fault(F),
}

impl<F> Closed<F> {
    /// What the peer did wrong, if that was the reason.
    pub const fn fault(&self) -> Option<&F> {
        match &self.cause {
            Cause::Fault(fault) => Some(fault),
            Cause::Left | Cause::Gone | Cause::Failed(_) => None,
        }
    }
}
