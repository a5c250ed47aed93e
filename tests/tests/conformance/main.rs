//! The simulator and both runtimes give the same account of every scenario.

mod channels;
mod children;
mod peers;

use std::path::Path;

use agentline_core::{Machine, Open, SpawnSpec, Stderr};
use agentline_tests::puppet::{Deed, Puppet};
use agentline_tests::scenario::{Scenario, play};
use agentline_tests::scripted::{Exits, Scripted, Start};
use agentline_tests::{Checked, Checks, Node, World, habits};

#[test]
fn children_behave_the_same_everywhere() {
    all(children::SCENARIOS);
}

#[test]
fn peers_behave_the_same_everywhere() {
    all(peers::SCENARIOS);
}

#[test]
fn channels_behave_the_same_everywhere() {
    all(channels::SCENARIOS);
}

fn all(scenarios: &[Scenario]) {
    for scenario in scenarios {
        play(scenario, programs);
    }
}

/// The children. Each is one machine, which lives in a world and in a process of its own.
fn programs(world: &mut World<'_>) {
    world.rude_program(PUPPET, habits::manners, |now, spec| {
        let steps = spec.args.last().expect("steps").to_string_lossy().into_owned();
        Node::new(Checked::around(Puppet::new(now, steps), text()), |_, _, _| {})
            .exits(|deed| if let Deed::Exit(status) = deed { Some(*status) } else { None })
            .complains(|deed| if let Deed::Complain(bytes) = deed { *bytes } else { 0 })
    });
    world.rude_program(AGENT, habits::manners, |now, spec| {
        Node::new(Checked::around(Scripted::new(now, Start::of(spec)), text()), |_, _, _| {})
            .exits(|Exits(status)| Some(*status))
    });
}

/// A child that reads its behaviour from its arguments.
fn child(program: &str, dir: &Path, args: &[&str]) -> Open {
    Open::spawn(SpawnSpec {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        cwd: dir.into(),
        env: vec![("PATH".into(), std::ffi::OsString::from("/usr/bin:/bin").into())],
        stderr: Stderr::Pipe,
    })
}

/// What writes more than JSON.
fn text() -> Checks {
    Checks { json: false, ..Checks::default() }
}

const PUPPET: &str = env!("CARGO_BIN_EXE_puppet");
const AGENT: &str = env!("CARGO_BIN_EXE_scripted_agent");
