//! Deadlines that are late, and what lies in the pipes by then.

use std::io::Write;
use std::os::unix::net::UnixStream;

use agentline_core::{Action, Deadline, Heard, LinkId, Open, Outputs};

use super::*;

/// Has a deadline, and keeps how much it had read when that came.
struct Reader {
    read: usize,
    until: Option<Time>,
    out: Outputs<usize>,
}

impl Machine for Reader {
    type Config = Duration;
    type Command = ();
    type Event = usize;

    fn new(now: Now, patience: Duration) -> Self {
        let mut out = Outputs::default();
        out.act(LinkId::FIRST, Action::Open(Open::Given(0)));
        Self { read: 0, until: Some(now.mono + patience), out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(_, Heard::Bytes(bytes)) = input {
            self.read += bytes.len();
        }
        if self.until.is_some_and(|until| until <= now.mono) {
            self.until = None;
            self.out.tell(self.read);
        }
    }

    fn command(&mut self, _: Now, (): ()) -> Result<(), Refused> {
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<usize>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.until.map(|until| (until, "patience"))
    }
}

/// An engine whose deadline is over, by a minute or by nothing worth mentioning, and the other end of its link.
fn overdue(late: Duration) -> (Engine<Reader>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let patience = Duration::from_secs(60);
    let mut engine = Engine::<Reader>::with_given(patience, [Given::socket(ours).unwrap()]).unwrap();
    engine.clock.jump(patience + late);
    (engine, theirs)
}

/// Drives until the deadline is served; `meanwhile` runs before each look.
fn read_by_the_deadline(engine: &mut Engine<Reader>, mut meanwhile: impl FnMut()) -> usize {
    let mut round = Round::default();
    loop {
        if let Some(read) = engine.told() {
            return read;
        }
        if round.is_empty() {
            meanwhile();
            engine.poller().look(&mut round).unwrap();
        }
        engine.turn(&mut round);
    }
}

#[test]
fn b1_all_that_lies_in_a_pipe_is_read_before_a_deadline_is_served() {
    for late in [Duration::ZERO, Duration::from_millis(300), Duration::from_secs(3600)] {
        let (mut engine, mut theirs) = overdue(late);
        let lies = [b'x'; 150_000];
        theirs.write_all(&lies).unwrap();
        assert_eq!(read_by_the_deadline(&mut engine, || {}), lies.len(), "{late:?}");
    }
}

#[test]
fn b1_a_peer_that_never_stops_talking_does_not_put_a_deadline_off_for_ever() {
    let (mut engine, mut theirs) = overdue(Duration::ZERO);
    theirs.set_nonblocking(true).unwrap();
    let read = read_by_the_deadline(&mut engine, || drop(theirs.write(&[b'x'; READ])));
    assert!(read > 0 && read <= 40 * READ, "{read}");
}

#[test]
fn b1_who_was_frozen_with_us_gets_a_moment_to_speak_once() {
    let (mut engine, mut theirs) = overdue(Duration::from_secs(3600));
    let mut round = Round::default();
    engine.turn(&mut round);
    assert!(!engine.has_told(), "an hour late, and nobody could say anything");
    let left = engine.deadline().unwrap().saturating_duration_since(Instant::now());
    assert!(left <= MOMENT && !left.is_zero(), "{left:?}");
    engine.clock.jump(Duration::from_secs(3600));
    theirs.write_all(b"late").unwrap();
    assert_eq!(read_by_the_deadline(&mut engine, || {}), 4);
}
