//! A hub with ten agents and ten clients at once, in virtual hours, with all that may go wrong.
//!
//! `AGENTLINE_RUNS=20000 cargo test -p agentline-tests --release --test hub city` is the long way round.

use agentline_tests::dice::noise;
use agentline_tests::hub::{Tally, city};
use agentline_tests::world::Faults;

fn visit(runs: u64, faults: Faults) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..runs {
        tally.add(&city::run(&noise(seed, 4000), faults));
    }
    tally
}

#[test]
fn whatever_goes_wrong_everybody_is_told_once_and_nobody_is_left() {
    let long = std::env::var("AGENTLINE_RUNS").ok().and_then(|runs| runs.parse().ok());
    let runs = long.unwrap_or(250);
    let tally = visit(runs, Faults::ALL);
    let least = if long.is_some() { 100 } else { 5 };
    assert_eq!(tally.below(city::RULES, least), [], "rules that hardly ever decided");
}

#[test]
fn where_nothing_goes_wrong_turns_go_well() {
    let tally = visit(50, Faults::NONE);
    assert!(tally.of("completed") > 200, "{tally:?}");
}
