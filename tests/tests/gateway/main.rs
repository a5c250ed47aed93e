//! Gateways: an ACP client and an ACP agent with one between them, line by line, and in worlds where anything goes wrong.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for the few events that it is about")]

mod attached;
mod cuts;
mod filter;
mod lives;
mod passing;
mod rig;
mod slow;
mod worlds;
