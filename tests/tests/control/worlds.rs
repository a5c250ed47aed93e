//! Twenty clients of one server, some of them slow, in virtual time.

use agentline_core::Cause;
use agentline_tests::control::{Fate, Town, Wish};
use agentline_tests::{Dice, Faults, cases, dice};
use quickcheck::quickcheck;

const CALLS: Wish = Wish { calls: 50, stream: None };
const WATCH: Wish = Wish { calls: 0, stream: Some("watch") };
const BOTH: Wish = Wish { calls: 6, stream: Some("watch") };
const BURST: Wish = Wish { calls: 2, stream: Some("burst") };

/// Twenty clients, five of each kind.
fn twenty() -> Town<'static> {
    let mut town = Town::new(Dice::new(&[]), Faults::NONE, 64 << 10);
    town.settle();
    for client in 0..20 {
        town.visit([CALLS, WATCH, BOTH, BURST][client % 4]);
        town.settle();
    }
    town
}

fn of_kind(fates: &[Fate], kind: usize) -> impl Iterator<Item = &Fate> {
    fates.iter().skip(kind).step_by(4)
}

#[test]
fn everybody_gets_every_answer_and_no_time_passes() {
    let mut town = twenty();
    for _ in 0..1000 {
        town.publish();
        town.settle();
    }
    town.end_streams();
    town.settle();
    let fates = town.fates();
    assert!(of_kind(&fates, 0).all(|fate| fate.answered == 50));
    assert!(of_kind(&fates, 1).all(|fate| fate.completed && fate.frames.seen == 1000));
    assert!(of_kind(&fates, 2).all(|fate| fate.answered == 6 && fate.frames.seen == 999));
    assert!(of_kind(&fates, 3).all(|fate| fate.answered == 2 && fate.frames.seen == 64));
    assert!(fates.iter().all(|fate| fate.lost.is_empty() && fate.frames.lost == 0));
    assert_eq!(town.world.machine(town.server).unwrap().connections(), 0);
    town.close();
    assert_eq!(town.world.now().mono.as_micros(), 0);
}

#[test]
fn slow_readers_lose_frames_and_know_how_many_and_slow_nobody() {
    let mut town = twenty();
    let slow = [1, 5, 9];
    for client in slow {
        town.hold(client, true);
    }
    for _ in 0..1000 {
        town.publish();
        town.settle();
    }
    for client in slow {
        assert_eq!(town.fates()[client].frames.seen, 0);
    }
    town.end_streams();
    town.settle();
    let fates = town.fates();
    assert!([13, 17].iter().all(|client| fates[*client].completed && fates[*client].frames.seen == 1000));
    assert!(of_kind(&fates, 0).all(|fate| fate.answered == 50));
    assert!(of_kind(&fates, 2).all(|fate| fate.frames.seen == 999));
    for client in slow {
        town.hold(client, false);
    }
    town.settle();
    for client in slow {
        let fate = &town.fates()[client];
        let (seen, lost) = (fate.frames.seen, fate.frames.lost);
        assert_eq!((seen + lost, fate.completed), (1000, true));
        assert!((64 << 10) / 600 < seen && seen < (200 << 10) / 500, "{seen}: a pipe, a write and the limit");
    }
    town.close();
    assert_eq!(town.world.now().mono.as_micros(), 0);
}

#[test]
fn a_watcher_that_hangs_up_is_noticed_without_a_frame() {
    let mut town = twenty();
    assert_eq!(town.world.machine(town.server).unwrap().connections(), 15, "a burst is over");
    for client in 0..20 {
        town.leave(client);
    }
    town.settle();
    assert_eq!(town.world.machine(town.server).unwrap().connections(), 0);
    assert!(of_kind(&town.fates(), 1).all(|fate| fate.lost == [Cause::Left]));
    town.close();
}

#[test]
fn a_server_that_stops_leaves_nobody_waiting() {
    let mut town = twenty();
    town.publish();
    town.close();
    let fates = town.fates();
    assert!(of_kind(&fates, 1).all(|fate| fate.completed && fate.lost.is_empty()));
    // A call that waited fails, those behind it are lost.
    assert!(of_kind(&fates, 0).all(|fate| fate.answered + fate.lost.len() as u64 == 50));
    assert_eq!(town.world.now().mono.as_micros(), 0, "nobody waited for a grace period");
}

#[test]
fn in_a_faulty_world_every_call_ends_once_and_nobody_is_left_behind() {
    for seed in 0..1000 {
        cases::control_world(&dice::noise(seed, 600));
    }
}

#[test]
fn a_server_answers_the_same_however_late_and_cut_it_is_heard() {
    for seed in 0..3000 {
        cases::control_server(&dice::noise(seed, 300));
    }
}

#[test]
fn a_client_ends_every_call_whatever_a_server_says() {
    for seed in 0..3000 {
        cases::control_client(&dice::noise(seed, 300));
    }
}

quickcheck! {
    fn any_world_comes_to_its_end(data: Vec<u8>) -> bool {
        cases::control_world(&data);
        true
    }

    fn any_lines_are_answered(data: Vec<u8>) -> bool {
        cases::control_server(&data);
        true
    }

    fn any_answers_are_read(data: Vec<u8>) -> bool {
        cases::control_client(&data);
        true
    }
}
