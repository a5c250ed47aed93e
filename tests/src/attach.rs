//! An attach server and its clients, as the suites know them.

use agentline_core::attach::presence::Record;
use agentline_core::attach::{AgentInfo, Limits, Target, server};
use agentline_core::{Address, Secret};

/// Where the session listens.
pub const SOCKET: &str = "/run/agentica-1000/0a1b2c3d.sock";
/// What its clients have to know.
pub const TOKEN: &str = "5eb1";
/// Where they read it.
pub const TOKEN_FILE: &str = "/run/agentica-1000/0a1b2c3d.token";
/// Where the session can be found.
pub const RECORD: &str = "/home/u/.agentica/cache/peers/live/0a1b2c3d.json";

/// A session.
#[must_use]
pub fn config() -> server::Config {
    server::Config {
        socket: SOCKET.into(),
        token: Secret::new(TOKEN.to_owned()),
        record: Record {
            peer_id: "0a1b2c3d".to_owned(),
            name: "proj-7f".to_owned(),
            pid: Some(42),
            cwd: "/home/u/proj".to_owned(),
            session_id: Some("sess-1".to_owned()),
            ..Record::default()
        },
        record_file: RECORD.into(),
        agent: AgentInfo { name: "agentline".to_owned(), version: "0.1.0".to_owned() },
        limits: Limits::default(),
    }
}

/// The same session, as a client knows it.
#[must_use]
pub fn target() -> Target {
    Target { socket: Address(SOCKET.into()), token: Secret::new(TOKEN.to_owned()), limits: Limits::default() }
}
