//! The book in any order of things.

use agentline_tests::dice::noise;
use agentline_tests::hub::{Tally, ledger};

#[test]
fn whatever_happens_each_prompt_ends_once_and_each_question_is_settled_once() {
    let mut tally = Tally::default();
    for seed in 0..4000 {
        tally.add(&ledger::run(&noise(seed, 700)));
    }
    assert_eq!(tally.below(ledger::RULES, 100), [], "rules that hardly ever decided");
}
