//! The real binary: what it prints, how it ends, and that nothing is left behind.

mod agents;
mod announce;
mod arguments;
mod asking;
mod attach;
mod blocked;
mod bounds;
mod chat;
mod check;
mod clients;
mod failures;
mod guarded;
mod hub_call;
mod hub_hosts;
mod hub_process;
mod inputs;
mod leaving;
mod login;
mod mistakes;
mod questions;
mod rig;
mod rules;
mod screens;
mod shown;
mod spoken;
mod terminal;
