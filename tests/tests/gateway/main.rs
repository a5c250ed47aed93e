//! Gateways: an ACP client and an ACP agent with one between them, line by line, and in worlds where anything goes wrong.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for the few events that it is about")]

mod agent;
mod attached;
mod cuts;
mod desktop;
mod editor;
mod filter;
mod lives;
mod passing;
mod rig;
mod runner;
mod served;
mod slow;
mod table;
mod worlds;
