//! ACP, both roles, held to the specification and to what real peers do.

mod client;
mod pairs;
mod turns;
