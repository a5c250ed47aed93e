//! Properties that the fuzz targets share.

use agentline_tests::{cases, dice};
use quickcheck::quickcheck;

quickcheck! {
    fn a_client_keeps_its_invariants(data: Vec<u8>) -> bool {
        cases::acp_client(&data);
        true
    }

    fn an_agent_keeps_its_invariants(data: Vec<u8>) -> bool {
        cases::acp_agent(&data);
        true
    }

    fn a_line_means_the_same_in_one_pass(data: Vec<u8>) -> bool {
        cases::one_pass(&data);
        true
    }

    fn a_recorded_run_replays(data: Vec<u8>) -> bool {
        cases::trace(&data);
        true
    }
}

#[test]
fn whatever_happens_to_a_client_it_keeps_its_invariants() {
    for seed in 0..2_000 {
        cases::acp_client(&dice::noise(seed, 400));
    }
}

#[test]
fn whatever_happens_to_an_agent_it_keeps_its_invariants() {
    for seed in 0..2_000 {
        cases::acp_agent(&dice::noise(seed, 400));
    }
}

#[test]
fn text_in_one_pass_is_text_by_way_of_the_envelope() {
    for seed in 0..5_000 {
        cases::one_pass(&dice::noise(seed, 60));
    }
}

#[test]
fn whatever_was_recorded_replays_without_a_difference() {
    for seed in 0..400 {
        cases::trace(&dice::noise(seed, 399 + seed as usize % 2));
    }
}
