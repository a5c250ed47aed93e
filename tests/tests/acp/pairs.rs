//! Clients and agents in worlds.

use agentline_tests::acp::pair;
use agentline_tests::dice;

#[test]
fn in_a_faulty_world_each_prompt_permission_and_request_ends_once_and_nobody_is_left_behind() {
    let (mut stopped, mut broken, mut asked, mut steps) = (0, 0, 0, 0);
    for seed in 0..20_000 {
        let tally = pair::faulty(&dice::noise(seed, 600), 0);
        stopped += tally.stopped;
        broken += tally.broken;
        asked += tally.asked;
        steps += tally.steps;
    }
    // The faults must leave something to test.
    assert!(stopped > 30_000 && broken > 8_000 && asked > 12_000, "{stopped} {broken} {asked}");
    assert!(steps > 500_000, "{steps}");
}

#[test]
fn in_a_clean_world_everything_arrives_in_order_and_no_time_passes() {
    let (mut stopped, mut asked) = (0, 0);
    for seed in 0..3_000 {
        let tally = pair::clean(&dice::noise(seed, 300), 0);
        assert_eq!(tally.broken, 0, "seed {seed}");
        stopped += tally.stopped;
        asked += tally.asked;
    }
    assert!(stopped > 5_000 && asked > 3_000, "{stopped} {asked}");
}
