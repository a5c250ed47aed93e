//! The index of deadlines against a scan.

use std::time::Duration;

use agentline_core::nest::{Nest, Told};
use agentline_core::{Deadline, Ids, Input, Machine, Now, Output, Outputs, Refused, Time};
use agentline_tests::{Dice, dice};
use quickcheck::quickcheck;

/// A machine that is nothing but a timer.
#[derive(Debug)]
struct Timer {
    due: Option<Time>,
    /// Set again so long after it fired.
    period: Duration,
    out: Outputs<Fired>,
}

#[derive(Debug)]
struct Fired;

#[derive(Clone, Copy, Debug)]
enum Set {
    At(Time),
    Off,
    End,
}

impl Machine for Timer {
    type Config = Duration;
    type Command = Set;
    type Event = Fired;

    fn new(_: Now, period: Duration) -> Self {
        Self { due: None, period, out: Outputs::default() }
    }

    fn handle(&mut self, now: Now, _: Input<'_>) {
        if self.due.is_some_and(|due| due <= now.mono) {
            self.due = (!self.period.is_zero()).then(|| now.mono + self.period);
            self.out.tell(Fired);
        }
    }

    fn command(&mut self, _: Now, set: Set) -> Result<(), Refused> {
        match set {
            Set::At(at) => self.due = Some(at),
            Set::Off => self.due = None,
            Set::End => self.out.end(),
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Fired>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.due.map(|due| (due, "timer"))
    }
}

/// Random timers in a nest: the index gives what a scan gives, and a tick fires exactly those that are due,
/// each once, however late it is.
fn agrees_with_a_scan(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut nest: Nest<usize, Timer> = Nest::default();
    let (mut ids, mut out) = (Ids::default(), Outputs::<()>::default());
    let mut now = Now::default();
    while !dice.is_empty() {
        let key = dice.below(8);
        let at = now.mono + Duration::from_millis(dice.below(50) as u64);
        let set = match dice.below(8) {
            0 if nest.get(&key).is_none() => {
                let timer = Timer::new(now, Duration::from_millis(10 * dice.below(3) as u64));
                assert!(nest.insert(now, key, timer).is_ok());
                continue;
            }
            0..=2 => Set::At(at),
            3 => Set::Off,
            4 => Set::End,
            _ => {
                now.mono = at;
                let due: Vec<usize> =
                    (0..8).filter(|key| scan(&nest, *key).is_some_and(|due| due <= at)).collect();
                nest.tick(now);
                assert_eq!(settle(&mut nest, &mut ids, &mut out), due, "fired at {at:?}");
                check(&nest);
                continue;
            }
        };
        let known = nest.get(&key).is_some();
        assert_eq!(nest.command(now, &key, set).is_ok(), known);
        assert!(settle(&mut nest, &mut ids, &mut out).is_empty());
        check(&nest);
    }
}

fn settle(nest: &mut Nest<usize, Timer>, ids: &mut Ids, out: &mut Outputs<()>) -> Vec<usize> {
    let mut fired = Vec::new();
    while let Some((key, told)) = nest.next(ids, out) {
        if let Told::Event(Fired) = told {
            fired.push(key);
        }
    }
    fired.sort_unstable();
    fired
}

fn check(nest: &Nest<usize, Timer>) {
    let scanned = (0..8).filter_map(|key| scan(nest, key)).min();
    assert_eq!(nest.deadline().map(|(at, _)| at), scanned);
}

fn scan(nest: &Nest<usize, Timer>, key: usize) -> Option<Time> {
    Some(nest.get(&key)?.deadline()?.0)
}

#[test]
fn a_child_hears_of_a_hold_once() {
    let mut nest: Nest<usize, Timer> = Nest::default();
    let (mut ids, mut out) = (Ids::default(), Outputs::<()>::default());
    let now = Now::default();
    assert!(nest.insert(now, 0, Timer::new(now, Duration::ZERO)).is_ok());
    let mut heard = Vec::new();
    for hold in [true, true, false, false] {
        assert_eq!(nest.command(now, &0, Set::At(now.mono)), Ok(()));
        nest.hold(now, &0, hold);
        heard.push(settle(&mut nest, &mut ids, &mut out).len());
    }
    assert_eq!(heard, [1, 0, 1, 0]);
}

quickcheck! {
    fn the_index_of_deadlines_agrees_with_a_scan(data: Vec<u8>) -> bool {
        agrees_with_a_scan(&data);
        true
    }
}

#[test]
fn the_index_of_deadlines_agrees_with_a_scan_over_long_runs() {
    for seed in 0..2_000 {
        agrees_with_a_scan(&dice::noise(seed, 300));
    }
}
