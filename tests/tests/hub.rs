//! The hub: its book against a model.

#![allow(clippy::unwrap_used)]

mod hub {
    mod book;
}
