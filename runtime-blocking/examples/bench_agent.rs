//! A measured agent on the blocking runtime; see `benches/bed/README.md`.

#[path = "../../benches/common.rs"]
mod common;

use agentline_blocking::{Driver, Given};
use agentline_core::acp::{Agent, agent};

fn main() -> std::io::Result<()> {
    let mut traffic = common::Traffic::default();
    let mut driver = Driver::<Agent>::with_given(agent::Config::on_stdio(), Given::stdio())?;
    while let Some(event) = driver.next() {
        if traffic.on(event, |command| driver.command(command)).is_err() {
            break;
        }
    }
    Ok(())
}
