//! The attach channel: speak into a session that already runs in another terminal. JSON-RPC over the
//! session's own unix socket, behind a token.
//!
//! What comes in counts as typed by the user. A session has one socket, so whoever connects has named it; the
//! socket's path is read from the session's [record](presence::Record) or from a
//! [notify event](presence::Transport), and the token lies in a file beside it. The client speaks first, with
//! the token; nothing else is answered before it.
//!
//! | who | machine | what it does |
//! |---|---|---|
//! | the session | [`Server`] | listens, admits, hands prompts to the host one at a time, waits for their turns |
//! | the caller | [`Caller`] | a [`Client`], and at need a [`Canceller`] |
//! | | [`Client`] | one connection, one request at a time |
//! | | [`Canceller`] | one cancel, on a connection of its own |
//!
//! `session/prompt` is answered when its turn has ended, and a connection is answered in order: a cancel on
//! the prompt's own connection would wait for what it should cancel. So [`client::Command`] has none.
//!
//! ```text
//!  a connection, as the server sees it
//!
//!  Stranger ──initialize, right token──► Admitted ──load, prompt, cancel──► Asked
//!     │                                     ▲ │                               │
//!     │                                     └─┼────────── answered ───────────┘
//!     └── end of input, 10 s, line too long ──► Leaving ──closed──► Over
//!
//!  a connection, as its client sees it
//!
//!  Opening ──────Opened───────────► Greeting ──result, version 1──► Idle ◄──answered── Asking
//!     │                                │                             │ └────request─────► │
//!     └── failed ──────────────────────┴── lost, fault, Shutdown ────┴──► Leaving ◄───────┘
//!                                                                            └──closed──► Over
//! ```
//!
//! How a prompt waits for its turn is drawn at [`server::Command`].
//!
//! ```text
//! → {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"authToken":"…","clientCapabilities":{}}}
//! ← {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,…,"agentInfo":{"name":"agentline","version":"0.1.0"},…}}
//! → {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"say PONG"}]}}
//!       the host: PromptReceived; Injected(Queued), TurnStarted, TurnEnded
//! ← {"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn","agenticaAnswer":"PONG"}}
//! ```
//!
//! # Errors
//!
//! | code | when | the connection |
//! |---|---|---|
//! | -32700 | not JSON, not UTF-8, nested too deeply | stays |
//! | -32600 | no request; an id that is neither null, an integer nor a string of up to 1 KiB; a member twice | stays |
//! | -32600 | a line over 8 MiB | ends |
//! | -32000 | no right token yet, whatever was asked; a session that is not the one served | stays |
//! | -32601 | unknown method | stays |
//! | -32602 | parameters; a prompt with anything but text, of which nothing is delivered | stays |
//! | -32603 | the host could not take the prompt, or is leaving | stays |
//!
//! Notifications are obeyed and never answered.
//!
//! # Limits
//!
//! | what | value | when it is passed |
//! |---|---|---|
//! | a line with its line end | 8 MiB | -32600 and the end; [`Refused::Limit`](crate::Refused::Limit) at the client |
//! | connections | 512 | the next one waits in the backlog |
//! | before the token | 10 s, lines of 64 KiB | -32000 or -32600, and the end |
//! | connections without the token | 16, seats of their own | the one that came first goes |
//! | bytes behind an open request | 64 KiB | the rest stays in the pipe |
//! | answers that a client does not read | 64 KiB | it is not read either |
//! | the wait for a turn | 600 s | `agentica_pending` |
//! | settling after a steered turn | 1 s | `end_turn` |
//! | between two records | 30 s | dead after [150 s](presence::STALE) |
//! | an answer to anything but a prompt | 10 s | [`Fault::TimedOut`] |
//!
//! # Not supported, and why
//!
//! * Starting a session (`session/new`): the session is there, it owns the socket.
//! * Images and other blocks: the session's input is a line of text. A prompt that loses its image is another
//!   prompt.
//! * Updates while a turn runs, permissions: the terminal shows them, the channel has no words for them.
//! * Cancelling one prompt among several: a cancel is for the turn that runs, whoever asked for it.
//! * Notify events: nothing of ours is posted to a consumer. A session is found by its record, which names its
//!   socket as well.
//! * Mail (`peers/mailbox/<peer_id>`): a record cannot say that nobody reads it, so it is said here.
//! * Batches: no client of the channel writes any.

pub mod caller;
pub mod canceller;
pub mod client;
mod conn;
mod failure;
pub mod files;
mod limits;
pub mod presence;
pub mod server;
mod turns;
mod wire;

pub use caller::Caller;
pub use canceller::Canceller;
pub use client::{Client, Failure, Fault, Target};
pub use limits::Limits;
pub use server::Server;
pub use turns::{Injection, PromptId};
pub use wire::{AgentInfo, Answer, Session, Stop, Turn};
