//! A measured agent on the blocking runtime: one write an update, or `--flush batch`; see `benches/bed/README.md`.

#[path = "../../benches/common.rs"]
mod common;

use agentline_blocking::{Driver, Given};
use agentline_core::acp::{Agent, agent};

fn main() -> std::io::Result<()> {
    let batches = std::env::args().any(|arg| arg == "batch");
    let mut traffic = common::Traffic::default();
    let mut driver = Driver::<Agent>::with_given(agent::Config::on_stdio(), [Given::stdio()])?;
    while let Some(event) = driver.next() {
        let done = if batches {
            driver.batch(|batch| traffic.on(event, |command| batch.command(command)))
        } else {
            traffic.on(event, |command| driver.command(command))
        };
        if done.is_err() {
            break;
        }
    }
    Ok(())
}
