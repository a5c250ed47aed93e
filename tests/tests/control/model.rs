//! The server against a model of it.
