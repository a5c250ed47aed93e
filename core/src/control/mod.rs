//! The control channel: how every program talks to a hub, or to a Galley (`docs/ipc-protocol.md` of Galley, §2, "Socket
//! transport").
//!
//! NDJSON over a private unix socket. The client speaks first; each request has one answer, in order, and an
//! answer may be a stream, which is then the last thing that a connection carries. What the commands are and do
//! is the application's.
//!
//! ```text
//! → {"command":"ping","requestId":"r1"}
//! ← {"ok":true,"requestId":"r1","result":{"pong":true}}
//! → {"command":"session.watch","args":{"sessionId":"s-1"},"schemaVersion":1}
//! ← {"ok":false,"error":"not_found","message":"session 's-1' is not live"}
//! → {"command":"session.watch","args":{"sessionId":"s-2"}}
//! ← {"stream":"event","data":{"kind":"turn_start","sessionId":"s-2","turnIndex":1}}
//! ← {"stream":"event","data":{"kind":"lagged","lost":12}}
//! ← {"stream":"end","reason":"subprocess_exited"}
//! ```
//!
//! # The server's side of a connection
//!
//! ```text
//!               a request            Reply, Fail
//!  Waiting ─────────────────► Answering ───────► Waiting
//!   │ │ ▲ │ no request:          │   │
//!   │ │ └─┘ refused              │   └── Frame ──► Streaming ─┐ Frame
//!   │ │                          │ End               │ End ▲──┘
//!   │ └────────────────────► Finishing ◄─────────────┘
//!   │ 90 s      its end          │ all is taken, or 90 s
//!   └────────────────────────► leaving ◄── from everywhere: the client is gone, or Shutdown
//! ```
//!
//! While a request is being answered, and while answers wait to be taken, what the client goes on to say waits
//! in the pipe. A client that has closed its half is still answered. A watcher that is too slow loses frames,
//! learns how many in their place, and slows nobody.
//!
//! ```
//! use agentline_core::control::{Answer, Failure, Server, server};
//! use agentline_core::{Action, Address, Heard, Input, LinkId, Machine, Now, Output, Peer};
//!
//! let now = Now::default();
//! let mut server = Server::new(now, server::Config::new(Address("/run/control.sock".into())));
//! let [listener, client] = [0, 1].map(LinkId::from_number);
//! for link in [listener, client] {
//!     server.handle(now, Input::Link(link, Heard::Opened(Peer::default())));
//! }
//! let line = b"{\"command\":\"ping\",\"requestId\":\"r1\"}\n";
//! server.handle(now, Input::Link(client, Heard::Bytes(line)));
//! let mut written = String::new();
//! while let Some(output) = server.poll() {
//!     match output {
//!         Output::Tell(server::Event::Requested(key, request)) => {
//!             let answer = match &*request.command {
//!                 "ping" => Answer::reply(&serde_json::json!({ "pong": true })),
//!                 other => Answer::Fail(Failure::unknown_command(other)),
//!             };
//!             server.command(now, server::Command::Answer(key, answer))?;
//!         }
//!         Output::Do(_, Action::Write(bytes)) => written += std::str::from_utf8(&bytes)?,
//!         Output::Tell(_) | Output::Do(..) | Output::Store(..) | Output::End => {}
//!     }
//! }
//! assert_eq!(written, "{\"ok\":true,\"requestId\":\"r1\",\"result\":{\"pong\":true}}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! | what | default | beyond it |
//! |---|---|---|
//! | request line | 16 MiB | `invalid_args`, the rest of the line is passed over |
//! | `requestId` | 1 KiB | `invalid_args` |
//! | nesting | 128 | `invalid_args` |
//! | connections | 512 | one that was idle for 10 s makes room; else they wait in the system's queue |
//! | unfinished lines over 64 KiB, of all | 64 MiB | the longest is turned away, `busy` |
//! | silence, or an answer not taken | 90 s | `idle_timeout`, closed; a stream is exempt |
//! | bytes said ahead of an answer | 64 KiB and one read | wait in the pipe |
//! | unsent answers | 64 KiB and one answer | the next request waits |
//! | an answer before one that was asked for already | 1 ms | is sent alone |
//! | unsent frames of a watcher | 1 MiB and one frame | dropped and counted |
//! | a watcher that takes nothing | 30 s | its stream ends as `stalled` |
//! | one answer | 31 MiB | the command is refused |
//! | client: connecting, answering | 10 s, 120 s | [`Lost`](client::Event::Lost); a stream is exempt |
//! | client: open calls | 1024 | the command is refused |
//!
//! # Where a Galley differs
//!
//! It closes the connection on a line that is not UTF-8, leaves the `requestId` out when it refuses a line that
//! is JSON but no request, bounds no line, drops frames silently, notices a watcher that is gone at the next
//! frame only, and may speak schema version 2 as well. A client of either sees the same answers.
//!
//! # Not supported, and why
//!
//! * Several requests of one connection at once: order is what pipelining rests on. Open a second connection.
//! * Cancelling a stream by a command: the wire has none. Closing is the way.
//! * Half-closing as a client: a server answers without it, and does not notice it during a stream.
//! * `app.activate` towards a server that lives: it asks for a window, which is not ours to open.
//! * Passwords: the socket's mode and the peer's user id say who may connect.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub mod client;
mod connection;
mod failure;
pub mod server;
mod wire;

pub use client::{Client, Fault};
pub use failure::{ErrorTag, Failure};
pub use server::{Key, Server};
pub use wire::{Answer, REQUEST_ID, Request, SCHEMA_VERSION};

/// Where the Galley of a user listens: `${TMPDIR:-/tmp}/galley-${UID}.sock` (`docs/ipc-protocol.md` §2).
/// An empty `TMPDIR` counts as unset; Galley itself would take the root for it.
#[must_use]
pub fn galley_socket(tmpdir: Option<&OsStr>, uid: u32) -> PathBuf {
    let folder = tmpdir.filter(|folder| !folder.is_empty()).unwrap_or(OsStr::new("/tmp"));
    // Without the slashes at its end: a socket's path has to be short.
    Path::new(folder).components().as_path().join(format!("galley-{uid}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_galley_is_found_below_tmpdir() {
        for (tmpdir, path) in [
            (None, "/tmp/galley-501.sock"),
            (Some(""), "/tmp/galley-501.sock"),
            (Some("/var/folders/x1/T/"), "/var/folders/x1/T/galley-501.sock"),
            (Some("/tmp///"), "/tmp/galley-501.sock"),
            (Some("/"), "/galley-501.sock"),
        ] {
            let found = galley_socket(tmpdir.map(OsStr::new), 501);
            assert_eq!(found.as_os_str(), path, "{tmpdir:?}");
        }
    }
}
