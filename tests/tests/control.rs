//! The control channel's two machines: dialogues, split invariance and a model, each alone; then both in a world.

#![allow(clippy::unwrap_used)]

mod control {
    mod bench;
    mod client;
    mod model;
    mod server;
    mod worlds;
}
