//! Clients and agents in worlds where anything goes wrong, with gateways between them: what holds for a pair holds all
//! the same.

use agentline_tests::acp::pair;
use agentline_tests::dice;

#[test]
fn each_prompt_permission_and_request_ends_once_and_nobody_is_left_behind() {
    for gateways in 1..=2 {
        let (mut stopped, mut broken, mut asked) = (0, 0, 0);
        for seed in 0..2_000 {
            let tally = pair::faulty(&dice::noise(seed, 800), gateways);
            stopped += tally.stopped;
            broken += tally.broken;
            asked += tally.asked;
        }
        // The faults must leave something to test.
        assert!(stopped > 1_200 && broken > 400 && asked > 400, "{stopped} {broken} {asked}");
    }
}

#[test]
fn everything_arrives_in_order_and_no_time_passes() {
    for gateways in 1..=3 {
        let (mut stopped, mut asked) = (0, 0);
        for seed in 0..400 {
            let tally = pair::clean(&dice::noise(seed, 400), gateways);
            assert_eq!(tally.broken, 0, "seed {seed}");
            stopped += tally.stopped;
            asked += tally.asked;
        }
        assert!(stopped > 600 && asked > 400, "{stopped} {asked}");
    }
}
