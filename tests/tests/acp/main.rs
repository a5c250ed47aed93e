//! ACP, both roles, held to the specification and to what real peers do.

mod agent;
mod captures;
mod client;
mod pairs;
mod properties;
mod secrets;
mod split;
mod surprises;
mod turns;
mod weights;
