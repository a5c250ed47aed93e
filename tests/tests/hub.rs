//! The hub: its book against a model, and all of it among agents and clients.

#![allow(clippy::unwrap_used)]

mod hub {
    mod book;
    mod city;
    mod dialled;
    #[cfg(target_os = "linux")]
    mod hosted;
    mod house;
    mod links;
    mod memory;
    mod owners;
    mod processes;
    mod rules;
    mod runners;
}
