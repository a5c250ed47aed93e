//! Both sides in one world, where everything can go wrong, and each against a peer that says anything.

use agentline_tests::cases::{DialledLog, dialled, doors, reverse_acceptor, reverse_agent, reverse_pair};
use agentline_tests::{Faults, dice};
use quickcheck::quickcheck;

#[test]
fn each_turn_and_question_ends_once_whatever_goes_wrong() {
    let mut sum = DialledLog::default();
    for seed in 0..5000 {
        let log = dialled(&dice::noise(seed, 300), Faults::ALL);
        sum.turns += log.turns;
        sum.answered += log.answered;
        sum.asked += log.asked;
        sum.terminal += log.terminal;
        sum.opened += log.opened;
    }
    let least = [sum.turns, sum.answered, sum.asked, sum.terminal, sum.opened].into_iter().min();
    assert!(least.is_some_and(|least| least > 300), "{sum:?}");
}

#[test]
fn agents_come_and_go_at_one_door() {
    let let_in: usize = (0..2000).map(|seed| doors(&dice::noise(seed, 500))).sum();
    assert!(let_in > 2000, "{let_in}");
}

#[test]
fn many_peers_say_anything() {
    for seed in 0..3000 {
        reverse_acceptor(&dice::noise(seed, 300));
        reverse_agent(&dice::noise(seed, 300));
    }
}

quickcheck! {
    fn each_turn_ends_once(data: Vec<u8>) -> bool {
        reverse_pair(&data);
        true
    }

    fn an_agent_may_say_anything(data: Vec<u8>) -> bool {
        reverse_acceptor(&data);
        true
    }

    fn a_hub_may_say_anything(data: Vec<u8>) -> bool {
        reverse_agent(&data);
        true
    }
}
