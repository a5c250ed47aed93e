//! A measured agent on smol: one write an update, or `--flush batch`; see `benches/bed/README.md`.

#[path = "../../benches/common.rs"]
mod common;

use agentline_core::acp::{Agent, agent};
use agentline_smol::{Given, spawn_with_given};
use smol::LocalExecutor;

fn main() {
    let batches = std::env::args().any(|arg| arg == "batch");
    let mut traffic = common::Traffic::default();
    let (mut events, driver) =
        spawn_with_given::<Agent>(agent::Config::on_stdio(), [Given::stdio()]).expect("a descriptor is left");
    let executor = LocalExecutor::new();
    executor.spawn(driver).detach();
    smol::block_on(executor.run(async {
        while let Some(event) = events.next().await {
            let done = if batches {
                events.batch(|batch| traffic.on(event, |command| batch.command(command)))
            } else {
                traffic.on(event, |command| events.command(command))
            };
            if done.is_err() {
                break;
            }
        }
    }));
}
