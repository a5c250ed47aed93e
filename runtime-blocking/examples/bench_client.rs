//! A measured client on the blocking runtime; see `benches/bed/README.md`.

#[path = "../../benches/common.rs"]
mod common;

use agentline_blocking::Driver;
use agentline_core::acp::Client;

fn main() -> std::io::Result<()> {
    let mut measurement = common::Measurement::new("agentline-blocking", common::Options::from_args());
    let mut driver = Driver::<Client>::new(measurement.config())?;
    while let Some(event) = driver.next() {
        if let Some(command) = measurement.on(event) {
            driver.command(command).expect("asked at the right moment");
        }
    }
    measurement.finish();
    Ok(())
}
