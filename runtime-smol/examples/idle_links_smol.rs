//! What idle links cost a request; see `BENCHMARKS.md`.

#[path = "../../benches/idle.rs"]
mod idle;

use agentline_core::control::Server;
use smol::future::zip;

fn main() -> std::io::Result<()> {
    let (mut bench, config) = idle::Bench::from_args();
    let (mut events, driver) = agentline_smol::spawn::<Server>(config)?;
    let application = async {
        while let Some(event) = events.next().await {
            if let Some(command) = bench.on(event) {
                // Refused when the client has just left.
                let _ = events.command(command);
            }
        }
    };
    smol::block_on(zip(application, driver));
    Ok(())
}
