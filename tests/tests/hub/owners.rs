//! Who owns a session, among three links, two processes and a hundred sessions.
//!
//! `AGENTLINE_RUNS=20000 cargo test -p agentline-tests --release --test hub owners` is the long way round.

use agentline_tests::dice::noise;
use agentline_tests::hub::{Tally, owners};

#[test]
fn no_session_has_two_owners_whatever_is_said() {
    let long = std::env::var("AGENTLINE_RUNS").ok().and_then(|runs| runs.parse().ok());
    let mut tally = Tally::default();
    for seed in 0..long.unwrap_or(100) {
        tally.add(&owners::run(&noise(seed, 1200)));
    }
    let least = if long.is_some() { 100 } else { 5 };
    assert_eq!(tally.below(owners::RULES, least), [], "rules that hardly ever decided: {tally:?}");
}
