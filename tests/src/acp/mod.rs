//! ACP in the harness: machines that are spoken to in lines, what holds for both roles, a reference for turns,
//! pairs in faulty worlds, and captures played to a client.

use agentline_core::Secret;
use agentline_core::acp::SessionSetup;
use agentline_core::acp::session::{McpServer, McpStdio, Pair};

pub mod audit;
pub mod model;
pub mod pair;
pub mod play;
pub mod replay;
pub mod rig;

pub use audit::{AgentAudit, ClientAudit};
pub use rig::Rig;

/// What a session in that folder is opened with: one MCP server, which is given this key, if there is one.
#[must_use]
pub fn with_key(cwd: &str, secret: Option<&str>) -> SessionSetup {
    let server = |secret: &str| {
        let env = vec![Pair { name: "KEY".to_owned(), value: Secret::new(secret.to_owned()) }];
        McpServer::Stdio(McpStdio { name: "m".to_owned(), command: "/m".into(), args: Vec::new(), env })
    };
    SessionSetup { mcp_servers: secret.into_iter().map(server).collect(), ..SessionSetup::in_directory(cwd) }
}
