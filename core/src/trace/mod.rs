//! Record and replay: a run is its config plus the sequence of inputs and commands, so a file of those is the
//! run itself.
//!
//! A trace is NDJSON: a header, then one object per input and output of the machine, in order (spec/cli,
//! "Traces").

mod value;

pub(crate) use value::{os, os_env, os_list, wire};
