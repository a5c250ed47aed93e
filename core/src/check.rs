//! Whether an agent can be used: start it, shake hands, and if there is a prompt, run one turn.
//! BotBus has such a command (`docs/acp-agents.md`, 自查), whose lines the command line prints.
//!
//! A check is a [`Run`](crate::subagent::Run) with nobody to ask: its [`plan`], and whether it [`passed`]. The folder
//! belongs to the caller, who removes it after [`Event::Closed`](crate::subagent::Event::Closed): before that the
//! agent may still write to it.

use std::path::Path;
use std::time::Duration;

use crate::acp::client::{self, Timeouts};
use crate::acp::session::Implementation;
use crate::acp::{ContentBlock, SessionSetup};
use crate::conversation::{self, Finished, Outcome, Policy};
use crate::machine::{Open, SpawnSpec, Stderr};
use crate::subagent::Config;

/// What a run is to do to check an agent: in this folder, it shakes hands and opens a session, since many agents want
/// a login only then; and with a prompt it runs one turn.
///
/// It is given 10 s for the handshake, 60 s for the session and 300 s for the turn; it gets no MCP servers, and
/// whatever it asks permission for is answered `cancelled`.
#[must_use]
pub fn plan(agent: SpawnSpec, folder: &Path, prompt: Option<&str>) -> Config {
    let spec = SpawnSpec { cwd: folder.to_owned(), stderr: Stderr::Pipe, ..agent };
    let client = client::Config {
        info: Some(Implementation { name: "agentline".into(), version: "check".into(), title: None }),
        timeouts: Timeouts {
            initialize: Some(Duration::from_secs(10)),
            session: Some(Duration::from_secs(60)),
            turn: Some(Duration::from_secs(300)),
            ..Timeouts::default()
        },
        ..client::Config::new(Open::spawn(spec))
    };
    let setup = SessionSetup::in_directory(folder.to_string_lossy());
    let conversation =
        conversation::Config { policy: Policy::Cancel, ..conversation::Config::new(client, setup) };
    Config::new(conversation, prompt.map(ContentBlock::text).into_iter().collect())
}

/// Whether the agent can be used. A turn that ends by any word of the agent is as good as another.
#[must_use]
pub fn passed(finished: &Finished) -> bool {
    finished.stop_reason.is_some() || finished.outcome == Outcome::Completed
}
