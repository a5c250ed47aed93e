//! A desktop and its runner in one world, where everything can go wrong, and each against a peer that says
//! anything.

use std::time::Duration;

use agentline_tests::cases::{galley_bridge, galley_desktop, galley_pair, pair};
use agentline_tests::{Faults, dice};
use quickcheck::quickcheck;

#[test]
fn each_run_ends_once_whatever_goes_wrong() {
    let ended: usize = (0..3000).map(|seed| pair(&dice::noise(seed, 300), Faults::ALL).ended.len()).sum();
    assert!(ended > 1000, "{ended}");
}

#[test]
fn nobody_waits_where_nothing_goes_wrong() {
    for runs in 0..3 {
        let log = pair(&[runs, 0], Faults::NONE);
        assert_eq!(
            (log.ended.len(), log.done, log.end),
            (usize::from(runs) + 1, 1, Duration::ZERO),
            "{log:?}"
        );
    }
}

#[test]
fn many_peers_say_anything() {
    for seed in 0..2000 {
        galley_desktop(&dice::noise(seed, 200));
        galley_bridge(&dice::noise(seed, 200));
    }
}

quickcheck! {
    fn each_run_ends_once(data: Vec<u8>) -> bool {
        galley_pair(&data);
        true
    }

    fn a_runner_may_say_anything(data: Vec<u8>) -> bool {
        galley_desktop(&data);
        true
    }

    fn a_host_may_say_anything(data: Vec<u8>) -> bool {
        galley_bridge(&data);
        true
    }
}
