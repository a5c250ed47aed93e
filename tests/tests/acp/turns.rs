//! Turns against a reference that was written from the specification.

use agentline_tests::acp::model;
use agentline_tests::{Dice, dice};
use quickcheck::quickcheck;

quickcheck! {
    fn a_client_keeps_its_turns_as_the_reference_does(data: Vec<u8>) -> bool {
        model::client(&mut Dice::new(&data));
        true
    }

    fn an_agent_keeps_its_turns_as_the_reference_does(data: Vec<u8>) -> bool {
        model::agent(&mut Dice::new(&data));
        true
    }
}

#[test]
fn many_games_of_a_client_and_its_reference() {
    for seed in 0..300 {
        model::client(&mut Dice::new(&dice::noise(seed, 200)));
    }
}

#[test]
fn many_games_of_an_agent_and_its_reference() {
    for seed in 0..300 {
        model::agent(&mut Dice::new(&dice::noise(seed, 200)));
    }
}
