//! ACP in the harness: machines that are spoken to in lines, what holds for both roles, a reference for turns,
//! pairs in faulty worlds, and captures played to a client.

pub mod audit;
pub mod model;
pub mod pair;
pub mod play;
pub mod replay;
pub mod rig;

pub use audit::{AgentAudit, ClientAudit};
pub use rig::Rig;
