//! Split invariance: how a stream is cut changes nothing.

use std::fmt::Debug;

use agentline_core::{Action, Heard, Input, LinkId, Machine, Now, Output, Peer};

use crate::dice::Dice;
use crate::invariants::{Checked, Checks};

/// What a peer says. Between two parts it waits for us, and that is when the application acts on what it was
/// told: so the cuts within a part change neither.
#[derive(Clone, Debug)]
pub struct Wire {
    bytes: Vec<u8>,
    /// Where the parts end.
    ends: Vec<usize>,
}

impl Wire {
    /// A stream in parts.
    pub fn new<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for part in parts {
            bytes.extend_from_slice(part.as_ref());
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    /// Its parts, each in the pieces that it is cut into.
    fn cut<'a>(&'a self, cuts: &'a [usize]) -> impl Iterator<Item = Vec<&'a [u8]>> {
        let mut from = 0;
        self.ends.iter().map(move |&end| {
            let within = cuts.iter().copied().filter(move |cut| (from..end).contains(cut));
            let mut pieces = Vec::new();
            for to in within.chain([end]) {
                pieces.push(&self.bytes[std::mem::replace(&mut from, to)..to]);
            }
            pieces
        })
    }
}

/// What came of a stream, in two projections. How they interleave may differ, because a pending
/// acknowledgement delays the next write.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// All that was written.
    pub written: String,
    /// Events, and actions other than writes, as they show themselves.
    pub told: Vec<String>,
}

/// Feeds a stream to the first link of a machine, in pieces that end at `cuts`, then its end. Links open and
/// writes are acknowledged at once; `answer` says what the application does about an event, at the end of a part.
pub fn feed<M: Machine<Event: Debug>>(
    machine: Checked<M>,
    wire: &Wire,
    cuts: &[usize],
    answer: impl Fn(&M::Event) -> Vec<M::Command>,
) -> Seen {
    let mut run = Run { machine, answer, asked: Vec::new(), seen: Seen::default() };
    run.drain();
    run.act();
    for pieces in wire.cut(cuts) {
        for piece in pieces {
            run.hear(Heard::Bytes(piece));
        }
        run.act();
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
    wire: &Wire,
    checks: &Checks,
    make: impl Fn() -> M,
    answer: impl Fn(&M::Event) -> Vec<M::Command> + Copy,
) {
    let seen = |cuts: &[usize]| feed(Checked::around(make(), checks.clone()), wire, cuts, answer);
    let whole = seen(&[]);
    let length = wire.bytes.len();
    for first in 0..=length {
        for second in first..=length {
            assert_eq!(seen(&[first, second]), whole, "cut at {first} and {second}");
        }
    }
    let bytes: Vec<usize> = (1..length).collect();
    assert_eq!(seen(&bytes), whole, "cut into bytes");
}

/// Cuts a stream where the dice say.
///
/// # Panics
///
/// The machine that `make` makes behaves differently.
pub fn some_cuts<M: Machine<Event: Debug>>(
    wire: &Wire,
    dice: &mut Dice<'_>,
    checks: &Checks,
    make: impl Fn() -> M,
    answer: impl Fn(&M::Event) -> Vec<M::Command> + Copy,
) {
    let cuts = dice.cuts(wire.bytes.len(), 16);
    let seen = |cuts: &[usize]| feed(Checked::around(make(), checks.clone()), wire, cuts, answer);
    assert_eq!(seen(&cuts), seen(&[]), "cut at {cuts:?}");
}

struct Run<M: Machine, A> {
    machine: Checked<M>,
    answer: A,
    asked: Vec<M::Command>,
    seen: Seen,
}

impl<M: Machine<Event: Debug>, A: Fn(&M::Event) -> Vec<M::Command>> Run<M, A> {
    fn hear(&mut self, heard: Heard<'_>) {
        self.machine.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
        self.drain();
    }

    fn act(&mut self) {
        for command in std::mem::take(&mut self.asked) {
            let done = self.machine.command(Now::default(), command);
            self.seen.told.push(format!("{done:?}"));
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Do(link, Action::Write(bytes)) => {
                    self.seen.written.push_str(&String::from_utf8_lossy(&bytes));
                    self.machine.handle(Now::default(), Input::Link(link, Heard::Written));
                }
                Output::Do(link, Action::Open(_)) => {
                    let heard = Heard::Opened(Peer::default());
                    self.machine.handle(Now::default(), Input::Link(link, heard));
                }
                Output::Do(link, action) => self.seen.told.push(format!("{link:?} {action:?}")),
                Output::Store(_, store) => self.seen.told.push(format!("{store:?}")),
                Output::End => self.seen.told.push("End".to_owned()),
                Output::Tell(event) => {
                    self.seen.told.push(format!("{event:?}"));
                    self.asked.extend((self.answer)(&event));
                }
            }
        }
    }
}
