//! The control channel: how every program talks to a hub, or to a Galley (seed 002 §2).

pub mod client;
mod connection;
pub mod server;
mod tag;
mod wire;

pub use client::Client;
pub use server::{Key, Server};
pub use tag::{Failure, Tag};
pub use wire::{Answer, REQUEST_ID, Request, SCHEMA_VERSION};
