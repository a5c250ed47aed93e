//! The loops of the examples, against a real child.

#![allow(missing_docs)]

#[allow(dead_code)]
#[path = "../examples/poll_loop.rs"]
mod poll_loop;
#[allow(dead_code)]
#[path = "../examples/tokio_loop.rs"]
mod tokio_loop;

use agentline_core::acp::client::Event;
use agentline_core::{Exit, Open, SpawnSpec};

/// A child that introduces itself and leaves at the end of its input.
fn agent() -> Open {
    let script = r#"read -r _
        echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
        while read -r _; do :; done"#;
    Open::spawn(SpawnSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        ..SpawnSpec::default()
    })
}

fn came_and_left(said: &[Event]) {
    let [Event::Ready(_), .., Event::Closed(closed)] = said else { panic!("{said:?}") };
    assert_eq!(closed.obituary.exit, Some(Exit::Code(0)));
}

#[test]
fn a_loop_over_poll_drives_an_agent_to_its_end() {
    came_and_left(&poll_loop::introduce(agent()).unwrap());
}

#[test]
fn a_loop_on_tokio_drives_an_agent_to_its_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    came_and_left(&runtime.block_on(tokio_loop::introduce(agent())).unwrap());
}
