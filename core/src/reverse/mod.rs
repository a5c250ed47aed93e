//! BotBus's reverse extension, version 1: an agent that runs already dials in, and its sessions appear live at a hub.
//!
//! The direction of the connection is turned round, the roles are not: who dials is still the agent of ACP, and the hub
//! its client. There is no `initialize`; the agent says hello, and the hub accepts it or not.
//!
//! ```text
//! → {"jsonrpc":"2.0","id":0,"method":"_botbus/hello","params":{"id":"my-agent","version":1,"capabilities":{"prompt":true}}}
//! ← {"jsonrpc":"2.0","id":0,"result":{"accepted":true}}
//! → {"jsonrpc":"2.0","method":"_botbus/session","params":{"sessionId":"s","cwd":"/w","title":"the login page"}}
//! → {"jsonrpc":"2.0","method":"_botbus/turn","params":{"sessionId":"s","state":"started"}}
//! → {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",…}}}
//! → {"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":…,"options":…}}
//! ← {"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}
//! → {"jsonrpc":"2.0","method":"_botbus/turn","params":{"sessionId":"s","state":"ended","stopReason":"end_turn"}}
//! ← {"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go on"}]}}
//! → {"jsonrpc":"2.0","id":0,"result":{"stopReason":"end_turn"}}
//! ```
//!
//! | who | machine | what it does |
//! |---|---|---|
//! | the hub | [`Acceptor`] | one link: hears who is there, follows its sessions, prompts and answers where that is offered |
//! | the agent | [`Agent`] | says hello, shows its sessions and turns, asks beside its terminal, takes prompts |
//!
//! # Turns
//!
//! A turn begins at the agent's own end (`started`) or by a prompt of the hub. A prompt's turn has two signs of its end, its
//! answer and `ended`: the first counts, the other is nothing. Neither carries the name of a turn, so:
//!
//! * `started` while a turn runs is nothing.
//! * An answer ends the turn of its own prompt and no other.
//! * Where the agent said `started` in a turn that its answer ended, an `ended` is due: the next one is that, whatever runs
//!   by then. Where it said no `started`, an `ended` that comes in the next prompt's turn before any `started` is.
//! * A turn at the agent's end whose `started` crosses a prompt cannot be told from the prompt's. [`Agent`] refuses a prompt
//!   while a turn runs at its own end, and says `ended` and `started` behind it, so that both sides agree again.
//!
//! # Questions
//!
//! A permission is asked in the terminal and here at once, and the first answer wins. "No answer" is an error, -32001, and
//! means that the terminal goes on asking; a decision `cancelled` ends the question. One is open in a session: a newer one,
//! the end of a turn and the beginning of one leave it to the terminal. `_botbus/permission_resolved` says that the terminal
//! was first, also before the question itself is read; it holds for one question of that tool call, in that turn.
//!
//! # Limits
//!
//! | what | value | beyond it |
//! |---|---|---|
//! | a line, either way | 16 MiB | passed over up to its end and told; refused as a command |
//! | from the connection to a hello | 10 s | [`acceptor::Fault::NoHello`]; [`agent::Fault::TimedOut`] |
//! | notifications before it | 100, of 16 MiB in all | dropped |
//! | sessions of one link, a session's id | 50, 1 KiB | the announcement is nothing; refused |
//! | ids of one question | 64 KiB | -32602 |
//! | what is kept of tool calls, for questions | 256 calls, 256 KiB | the oldest are forgotten |
//! | a new session's answer | 60 s | told as failed |
//! | unsent, of a peer that takes nothing for 10 s | 40 MiB | it counts as deaf, and the link ends |
//!
//! # Where this differs from BotBus, and why
//!
//! * A line over the limit is dropped up to its end: BotBus reads on in its middle. A request that cannot be read is
//!   answered where its id is known: who asks need not wait for ever.
//! * What comes behind a hello waits until it is decided, so two of them never race.
//! * A stop reason that nobody knows is told as it is. A missing one is an ordinary end, as there.
//! * A decision of the terminal's that came before its question is forgotten when the turn ends: agents count their calls
//!   anew in each.
//! * A hub that leaves has no answer. BotBus answers `cancelled`, and its agents see the end of the link only: a question
//!   that stands in a terminal is not a hub's to cancel because the hub ends. Who wants it cancelled says so before.
//! * Announced names have an end, and so have unsent bytes.
//!
//! # Not supported, and why
//!
//! * Pictures: the extension has prompts of one text.
//! * To connect again within a session: the agent tries anew when its next one begins.

pub mod acceptor;
pub mod agent;
mod wire;

pub use acceptor::Acceptor;
pub use agent::Agent;
pub use wire::{Capabilities, Hello};

use crate::limits::Limits;

/// The version of the extension that is spoken here.
pub const VERSION: i64 = 1;

/// The code of "no answer": the terminal goes on asking.
pub const NO_ANSWER: i64 = -32001;

/// The sizes of a link.
fn limits() -> Limits {
    Limits { line: 16 << 20, sessions: 50, ..Limits::default() }
}
