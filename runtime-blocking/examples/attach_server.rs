//! A session that answers with what it is told: `attach_server SOCKET`, then `agentline attach send SOCKET hello`.

use std::path::PathBuf;

use agentline_blocking::Driver;
use agentline_core::Secret;
use agentline_core::attach::presence::Record;
use agentline_core::attach::server::{Command, Config, Event, Why};
use agentline_core::attach::{AgentInfo, Injection, Limits, Server, Stop, Turn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket: PathBuf = std::env::args_os().nth(1).ok_or("usage: attach_server SOCKET")?.into();
    let mut driver = Driver::<Server>::new(Config {
        // Whoever can read the file beside the socket may know it. A real session draws one.
        token: Secret::new("a token for examples".to_owned()),
        record: Record { peer_id: "example".to_owned(), ..Record::default() },
        record_file: socket.with_extension("json"),
        agent: AgentInfo { name: "example".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        limits: Limits::default(),
        socket,
    })?;
    while let Some(event) = driver.next() {
        match event {
            Event::PromptReceived { prompt, text } => {
                driver.command(Command::Injected(prompt, Injection::Queued))?;
                driver.command(Command::TurnStarted)?;
                driver.command(Command::TurnEnded(Turn::ended(Stop::EndTurn, Some(text))))?;
            }
            Event::Closed(Why::ListenFailed(error)) => return Err(error.into()),
            Event::Closed(_) => break,
            Event::Listening(_) | Event::CancelReceived | Event::PresenceFailed { .. } => {}
        }
    }
    Ok(())
}
