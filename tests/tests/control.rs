//! The control channel's two machines, each alone: dialogues, split invariance, and a model of the server.

#![allow(clippy::unwrap_used)]

mod control {
    mod bench;
    mod client;
    mod model;
    mod server;
}
