//! A loop of one's own over `poll(2)`: what an agent says of itself.
//!
//! ```sh
//! cargo run -p agentline-os --example poll_loop -- AGENT [ARG…]
//! ```

use std::io;
use std::time::Instant;

use agentline_core::acp::client::{Client, Command, Config, Event};
use agentline_core::{Open, SpawnSpec};
use agentline_os::{Engine, Round};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn main() -> io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let spec = SpawnSpec {
        program: args.next().ok_or(io::ErrorKind::InvalidInput)?,
        args: args.collect(),
        cwd: std::env::current_dir()?,
        env: std::env::vars_os().map(|(name, value)| (name, value.into())).collect(),
        ..SpawnSpec::default()
    };
    let said = introduce(Open::spawn(spec))?;
    io::Write::write_all(&mut io::stdout(), format!("{said:#?}\n").as_bytes())
}

/// Starts an agent, lets it introduce itself, and ends it.
pub(crate) fn introduce(agent: Open) -> io::Result<Vec<Event>> {
    let mut engine = Engine::<Client>::new(Config::new(agent))?;
    let (poller, mut round) = (engine.poller(), Round::default());
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
        poller.look(&mut round)?;
        if round.is_empty() {
            // Whatever else you wait for stands beside it.
            let mut waits = [PollFd::new(&poller, PollFlags::IN)];
            poll(&mut waits, engine.deadline().map(left).as_ref())
                .or_else(|error| if error == rustix::io::Errno::INTR { Ok(0) } else { Err(error) })?;
            poller.look(&mut round)?;
        }
        engine.turn(&mut round);
    }
}

fn left(until: Instant) -> Timespec {
    until.saturating_duration_since(Instant::now()).try_into().unwrap_or_default()
}
