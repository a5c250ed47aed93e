//! What the suites share: decisions from bytes, worlds in virtual time with faults, and the invariants that
//! hold after every step of every machine.
//!
//! Nothing here sleeps or draws a random number: a run is decided by the bytes it is given, so that a property
//! test, a fuzzer and a committed corpus run the same code.

pub mod acp;
pub mod attach;
pub mod cases;
pub mod control;
pub mod desk;
pub mod desktop;
pub mod dice;
pub mod door;
pub mod driver_table;
pub mod habits;
pub mod hub;
pub mod interop;
pub mod invariants;
pub mod program;
pub mod puppet;
pub mod room;
pub mod runtimes;
pub mod scenario;
pub mod scripted;
pub mod source;
pub mod split;
pub mod toy;
pub mod transcripts;
pub mod weigh;
pub mod world;

pub use dice::Dice;
pub use invariants::{Audit, Checked, Checks};
pub use weigh::weigh;
pub use world::{Faults, Handle, Node, World};
