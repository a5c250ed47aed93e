//! The Agent Client Protocol, version 1: JSON-RPC over a child's stdio, both roles.
//!
//! A client starts an agent, or reaches one over a stream, and speaks first. It opens sessions and prompts them; the
//! agent reports what it does, asks for permission, and ends each turn with one answer. The protocol is described at
//! <https://agentclientprotocol.com>; what is here holds to its version 1 and reads what real peers write.
//!
//! | who | machine | what it does |
//! |---|---|---|
//! | the client | [`Client`] | starts an agent, opens sessions, runs turns, answers questions |
//! | the agent | [`Agent`] | serves one client, with any number of sessions |
//!
//! ```text
//!  a connection, as the client sees it
//!
//!  Opening ──Opened──► Initializing ──result, version 1──► Ready ──Shutdown, end, fault──► leaving, closed
//!
//!  a turn, as the client sees it
//!
//!  Idle ──prompt──► Running ──cancel──► Cancelling ──grace──► given up
//!   ▲                  └──── answer ─────────┴─────── late answer ─┘
//!   └──────────────────────────┘
//! ```
//!
//! ```text
//! → {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}
//! ← {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}
//! → {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}
//! ← {"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}
//! → {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}
//! ← {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",…}}}
//! ← {"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":…,"options":…}}
//! → {"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}
//! ← {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}
//! ```
//!
//! # How a peer is read
//!
//! * Any number, string or null is the id of a request, and comes back as it was written.
//! * Any object, or true, offers a capability. The version is the number 1 and nothing else.
//! * An optional part that cannot be read counts as absent; a required one costs its message, which is told as a
//!   [`Notice`] and, if it was a request, answered.
//! * A permission request may name its tool call by id alone: title, kind and input are those that were announced.
//! * An option without a name is called by its id; one without a kind is shown, and chosen by no policy.
//! * A character that JavaScript cut in two arrives whole; half of one alone is U+FFFD.
//! * A line over the limit and framing by `Content-Length` end the connection; see [`rpc::read`](crate::rpc::read).
//!
//! # Limits
//!
//! | what | value | when it is passed |
//! |---|---|---|
//! | a line | 32 MiB | [`Fault::LineTooLong`], answered where its id is known |
//! | nesting | 128 | the line is refused |
//! | open requests, each way | 1024 | -32603; [`Refused::Limit`](crate::Refused::Limit) at ours |
//! | what is kept of the agent's open questions | 1 MiB, 64 KiB each | -32603, -32602 |
//! | what is kept of tool calls, for permissions | 256 calls, 256 KiB | the oldest are forgotten |
//! | the title and name of such a call, its input, its paths | 4 KiB, 64 KiB | cut, left out |
//! | sessions | 1024, ids of 8 KiB | refused |
//! | unsent bytes of a peer that takes nothing for 10 s | 40 MiB | [`Fault::NotReading`]; at 80 MiB of answers at once; our own requests are refused before |
//!
//! # Clocks
//!
//! The protocol has none; those of the client are [`client::Timeouts`]. Each stands still while nobody reads. That of
//! opening a session starts anew with each word of the agent.
//!
//! # Not supported, and why
//!
//! * Batches: the protocol has none.
//! * Plans by id, agents of agents, notices and compaction as types: they are not stable, and are passed on as they
//!   were written ([`Update::Other`]).

pub mod agent;
pub mod client;
pub mod content;
pub mod elicitation;
pub(crate) mod exposed;
mod fast;
pub mod form;
pub(crate) mod lenient;
pub(crate) mod method;
pub(crate) mod peer;
pub mod permission;
pub mod services;
pub mod session;
mod tool;
mod turn;
pub mod update;

pub use crate::rpc::Json;
pub use agent::Agent;
pub use client::Client;
pub use content::{ContentBlock, Unknown};
pub use form::Form;
pub use peer::{Fault, Notice, Notified, RequestKey};
pub use permission::{OptionKind, PermissionOption, PermissionOutcome, PermissionRequest};
pub use session::{SessionId, SessionSetup};
pub use turn::{StopReason, Stopped};
pub use update::Update;
