//! The runtimes under test.

use agentline_blocking::Given;

use super::{Script, Scripted, Seen};

/// Plays a script to its end.
pub type Drive = fn(Script, Option<Given>) -> Option<Seen>;

/// Every runtime, by name.
pub const RUNTIMES: [(&str, Drive); 2] = [("blocking", blocking), ("smol", smol)];

fn blocking(script: Script, given: Option<Given>) -> Option<Seen> {
    use agentline_blocking::Driver;
    Driver::<Scripted>::with_given(script, given).ok()?.next()
}

fn smol(script: Script, given: Option<Given>) -> Option<Seen> {
    let (mut events, driver) = agentline_smol::spawn_with_given::<Scripted>(script, given).ok()?;
    smol::block_on(async {
        let (seen, ()) = smol::future::zip(events.next(), driver).await;
        seen
    })
}
