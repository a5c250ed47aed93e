//! The runtimes under test.

use agentline_blocking::Given;

use super::{Script, Scripted, Seen};

/// Plays a script to its end.
pub type Drive = fn(Script, Option<Given>) -> Option<Seen>;

/// Every runtime, by name.
pub const RUNTIMES: [(&str, Drive); 2] = [("blocking", blocking), ("smol", smol)];

fn blocking(script: Script, given: Option<Given>) -> Option<Seen> {
    use agentline_blocking::Driver;
    let driver = match given {
        Some(given) => Driver::<Scripted>::with_given(script, given),
        None => Driver::new(script),
    };
    driver.ok()?.next()
}

fn smol(script: Script, given: Option<Given>) -> Option<Seen> {
    use agentline_smol::{spawn, spawn_with_given};
    let (mut events, driver) = match given {
        Some(given) => spawn_with_given::<Scripted>(script, given),
        None => spawn(script),
    };
    smol::block_on(async {
        let (seen, ()) = smol::future::zip(events.next(), driver).await;
        seen
    })
}
