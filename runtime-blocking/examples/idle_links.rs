//! What idle links cost a request; see `BENCHMARKS.md`.

#[path = "../../benches/idle.rs"]
mod idle;

use agentline_blocking::Driver;
use agentline_core::control::Server;

fn main() -> std::io::Result<()> {
    let (mut bench, config) = idle::Bench::from_args();
    let mut driver = Driver::<Server>::new(config)?;
    while let Some(event) = driver.next() {
        if let Some(command) = bench.on(event) {
            // Refused when the client has just left.
            let _ = driver.command(command);
        }
    }
    Ok(())
}
