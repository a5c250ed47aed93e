//! A loop of one's own on tokio: what an agent says of itself.
//!
//! ```sh
//! cargo run -p agentline-os --example tokio_loop -- AGENT [ARG…]
//! ```

use std::io;

use agentline_core::acp::client::{Client, Command, Config, Event};
use agentline_core::{Open, SpawnSpec};
use agentline_os::{Engine, Round};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let spec = SpawnSpec {
        program: args.next().ok_or(io::ErrorKind::InvalidInput)?,
        args: args.collect(),
        cwd: std::env::current_dir()?,
        env: std::env::vars_os().map(|(name, value)| (name, value.into())).collect(),
        ..SpawnSpec::default()
    };
    let said = introduce(Open::spawn(spec)).await?;
    io::Write::write_all(&mut io::stdout(), format!("{said:#?}\n").as_bytes())
}

/// Starts an agent, lets it introduce itself, and ends it.
pub(crate) async fn introduce(agent: Open) -> io::Result<Vec<Event>> {
    let mut engine = Engine::<Client>::new(Config::new(agent))?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe; a poller keeps its descriptor as long as it lives"
    )]
    let (poller, mut round) = (AsyncFd::new(engine.poller())?, Round::default());
    let mut said = Vec::new();
    loop {
        while let Some(event) = engine.told() {
            if let Event::Ready(_) = event {
                // Refused when it is leaving already.
                let _ = engine.command(Command::Shutdown);
            }
            said.push(event);
        }
        if engine.is_over() {
            return Ok(said);
        }
        poller.get_ref().look(&mut round)?;
        if round.is_empty() {
            let deadline = engine.deadline().map(Instant::from_std);
            let due = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ready = poller.readable() => ready?.clear_ready(),
                () = due => {}
            }
            poller.get_ref().look(&mut round)?;
        }
        engine.turn(&mut round);
    }
}
