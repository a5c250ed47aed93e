//! Runs in faulty worlds.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::{ContentBlock, SessionSetup, client};
use agentline_core::conversation;
use agentline_core::host::{self, Files, Terminals};
use agentline_core::subagent::{Allow, Command, Config, Event, Outcome, Policy};
use agentline_core::{Open, Secret, SpawnSpec, Stderr};
use agentline_tests::{Dice, Faults, Node, World, dice};

use crate::rig::{PROGRAM, agent, file_done, puppet, watched};

const PROMPTS: [&str; 12] = [
    "say one; sleep 500; say two",
    "chunks 40",
    "perm allow_once,reject_once; say after",
    "say before; hang",
    "say bye; die 3",
    "sleep 2000",
    "fail",
    "say a; perm reject_always; perm allow_always; stop refusal",
    "run say hi & sleep 300 & exit 2; wait; output; release",
    "run --trap-term say up & hang; run --grandchild exit 0; sleep 400",
    "run hang; kill; wait; hang",
    "run sleep 100 & flood 3 & exit 0; read nothing; wait; say bye; die 3",
];

const FLAGS: [&[&str]; 5] = [&[], &["--slow-init", "700"], &["--ignore-eof"], &["--exit", "4"], &["--noise"]];

/// A run that the dice chose; it has a clock, so that it ends even if nobody cancels it.
fn config(dice: &mut Dice<'_>) -> Config {
    let policies = [Policy::Reject, Policy::Allow(Allow::InOrder), Policy::Fail, Policy::Ask];
    let args = dice.pick(&FLAGS);
    let spec = SpawnSpec {
        program: PROGRAM.into(),
        args: args.iter().map(Into::into).collect(),
        cwd: "/w".into(),
        stderr: Stderr::Pipe,
        ..SpawnSpec::default()
    };
    let prompt = vec![ContentBlock::text(*dice.pick(&PROMPTS))];
    let conversation = conversation::Config {
        policy: *dice.pick(&policies),
        host: host::Config { terminals: Some(Terminals::default()), files: Some(Files::default()) },
        ..conversation::Config::new(client::Config::new(Open::spawn(spec)), SessionSetup::in_directory("/w"))
    };
    Config { timeout: Some(Duration::from_secs(30)), ..Config::new(conversation, prompt) }
}

#[test]
fn in_a_faulty_world_every_run_settles_once_and_nobody_is_left_behind() {
    let mut outcomes = std::collections::BTreeMap::<String, u32>::new();
    for seed in 0..20_000 {
        let bytes = dice::noise(seed, 300);
        let mut dice = Dice::new(&bytes);
        let mut config = config(&mut dice);
        let secrets = (seed % 20 == 0).then(|| dice.clone().secret());
        if let (Some(secret), Open::Spawn(spec)) = (&secrets, &mut config.conversation.client.open) {
            spec.env.push(("KEY".into(), Secret::new(secret.into())));
        }
        let (cancel, dispose) =
            (dice.once_in(3).then(|| dice.pause()), dice.once_in(6).then(|| dice.pause()));
        let mut world = World::new(dice, Faults::ALL);
        world.program(PROGRAM, agent);
        world.program("puppet", puppet);
        let told = Rc::new(RefCell::new(None));
        let result = told.clone();
        let run = watched(world.now(), config).and_secrets(secrets.into_iter().collect());
        let node = Node::new(run, move |_, event, ask| {
            ask.extend(file_done(&event));
            if let Event::Finished(finished) = event {
                *result.borrow_mut() = Some(finished.outcome);
            }
        });
        let node = world.add(node);
        for (span, command) in [(cancel, Command::Cancel), (dispose, Command::Dispose)] {
            if let Some(span) = span {
                world.command_in(span, node, command);
            }
        }
        world.run();
        assert!(world.is_over(node), "seed {seed}");
        assert_eq!(world.processes(), 0, "seed {seed}");
        let outcome: Option<Outcome> = told.take();
        *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
    }
    // The faults leave something to test.
    assert!(outcomes.values().all(|count| *count > 100) && outcomes.len() == 4, "{outcomes:?}");
}
