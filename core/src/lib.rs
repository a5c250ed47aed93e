//! Sans-IO state machines for the channels that coding agents speak.

pub mod acp;
pub mod attach;
pub mod limits;
pub mod lines;
pub mod link;
pub mod machine;
pub mod nest;
mod outbox;
pub mod rpc;
pub mod secret;
pub mod trace;

pub use limits::{Graces, Limits};
pub use machine::{
    Action, Address, Change, Deadline, Exit, Group, Heard, Ids, Input, LinkId, Machine, Now, Open, OpenError,
    Output, Outputs, Peer, Refused, Signal, SpawnSpec, Stderr, Store, StoreFailed, Tag, Time,
};
pub use secret::Secret;
