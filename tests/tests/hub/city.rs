//! A hub with ten agents and ten clients at once, in virtual hours, with all that may go wrong.
//!
//! `AGENTLINE_RUNS=20000 cargo test -p agentline-tests --release --test hub city` is the long way round; how often each
//! rule decided stands in `target/tmp/hub-city-0.txt` afterwards.

use std::path::Path;

use agentline_tests::dice::noise;
use agentline_tests::hub::{Tally, campaign, city};
use agentline_tests::world::Faults;

#[test]
fn whatever_goes_wrong_everybody_is_told_once_and_nobody_is_left() {
    let world = |seed| city::run(&noise(seed, 4000), Faults::ALL);
    campaign(Path::new(env!("CARGO_TARGET_TMPDIR")), "hub-city", 250, city::RULES, world);
}

#[test]
fn where_nothing_goes_wrong_turns_go_well() {
    let mut tally = Tally::default();
    (0..50).for_each(|seed| tally.add(&city::run(&noise(seed, 4000), Faults::NONE)));
    assert!(tally.of("completed") > 200, "{tally}");
}
