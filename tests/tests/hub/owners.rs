//! Who owns a session, among three links, two processes and a hundred sessions.
//!
//! `AGENTLINE_RUNS=20000 cargo test -p agentline-tests --release --test hub owners` is the long way round; how often each
//! rule decided stands in `target/tmp/hub-owners-0.txt` afterwards.

use std::path::Path;

use agentline_tests::dice::noise;
use agentline_tests::hub::{campaign, owners};

#[test]
fn no_session_has_two_owners_whatever_is_said() {
    let world = |seed| owners::run(&noise(seed, 1200));
    campaign(Path::new(env!("CARGO_TARGET_TMPDIR")), "hub-owners", 100, owners::RULES, world);
}
