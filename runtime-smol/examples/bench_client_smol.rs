//! A measured client on smol; see `benches/bed/README.md`.

#[path = "../../benches/common.rs"]
mod common;

use agentline_core::acp::Client;
use smol::LocalExecutor;

fn main() {
    let mut measurement = common::Measurement::new("agentline-smol", common::Options::from_args());
    let (mut events, driver) =
        agentline_smol::spawn::<Client>(measurement.config()).expect("descriptors are left");
    let executor = LocalExecutor::new();
    executor.spawn(driver).detach();
    smol::block_on(executor.run(async {
        while let Some(event) = events.next().await {
            if let Some(command) = measurement.on(event) {
                events.command(command).expect("asked at the right moment");
            }
        }
    }));
    measurement.finish();
}
