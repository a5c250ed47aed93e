//! Split invariance: how a stream is cut changes nothing.

use std::fmt::Debug;

use agentline_core::{Action, Heard, Input, LinkId, Machine, Now, Output};

use crate::dice::Dice;
use crate::invariants::{Checked, Checks};

/// What came of a stream, in two projections. How they interleave may differ, because a pending
/// acknowledgement delays the next write.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// All bytes written.
    pub written: Vec<u8>,
    /// Events, and actions other than writes, as they show themselves.
    pub told: Vec<String>,
}

/// Feeds `wire` to the first link of a machine, in pieces that end at `cuts`, then its end. Writes are
/// acknowledged at once; `answer` says what the application does about an event.
pub fn feed<M: Machine<Event: Debug>>(
    machine: Checked<M>,
    wire: &[u8],
    cuts: &[usize],
    answer: impl Fn(&M::Event) -> Vec<M::Command>,
) -> Seen {
    let mut run = Run { machine, answer, seen: Seen::default() };
    run.drain();
    let mut from = 0;
    for to in cuts.iter().copied().chain([wire.len()]) {
        let to = to.clamp(from, wire.len());
        run.hear(Heard::Bytes(&wire[from..to]));
        from = to;
    }
    run.hear(Heard::Eof);
    run.seen
}

/// Cuts a short stream at every pair of positions, and into single bytes.
///
/// # Panics
///
/// The machine that `make` makes behaves differently for some cut.
pub fn every_cut<M: Machine<Event: Debug>>(
    wire: &[u8],
    checks: &Checks,
    make: impl Fn() -> M,
    answer: impl Fn(&M::Event) -> Vec<M::Command> + Copy,
) {
    let seen = |cuts: &[usize]| feed(Checked::around(make(), checks.clone()), wire, cuts, answer);
    let whole = seen(&[]);
    for first in 0..=wire.len() {
        for second in first..=wire.len() {
            assert_eq!(seen(&[first, second]), whole, "cut at {first} and {second}");
        }
    }
    let bytes: Vec<usize> = (1..wire.len()).collect();
    assert_eq!(seen(&bytes), whole, "cut into bytes");
}

/// Cuts a stream where the dice say.
///
/// # Panics
///
/// The machine that `make` makes behaves differently.
pub fn some_cuts<M: Machine<Event: Debug>>(
    wire: &[u8],
    dice: &mut Dice<'_>,
    checks: &Checks,
    make: impl Fn() -> M,
    answer: impl Fn(&M::Event) -> Vec<M::Command> + Copy,
) {
    let cuts = dice.cuts(wire.len(), 16);
    let seen = |cuts: &[usize]| feed(Checked::around(make(), checks.clone()), wire, cuts, answer);
    assert_eq!(seen(&cuts), seen(&[]), "cut at {cuts:?}");
}

struct Run<M: Machine, A> {
    machine: Checked<M>,
    answer: A,
    seen: Seen,
}

impl<M: Machine<Event: Debug>, A: Fn(&M::Event) -> Vec<M::Command>> Run<M, A> {
    fn hear(&mut self, heard: Heard<'_>) {
        self.machine.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Do(link, Action::Write(bytes)) => {
                    self.seen.written.extend(bytes);
                    self.machine.handle(Now::default(), Input::Link(link, Heard::Written));
                }
                Output::Do(link, action) => self.seen.told.push(format!("{link:?} {action:?}")),
                Output::Store(store) => self.seen.told.push(format!("{store:?}")),
                Output::End => self.seen.told.push("End".to_owned()),
                Output::Tell(event) => {
                    self.seen.told.push(format!("{event:?}"));
                    for command in (self.answer)(&event) {
                        let done = self.machine.command(Now::default(), command);
                        self.seen.told.push(format!("{done:?}"));
                    }
                }
            }
        }
    }
}
