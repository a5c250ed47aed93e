//! A process that is stopped while it waits, and what it makes of the time that it did not run.

use std::path::Path;
use std::time::Duration;

use agentline_core::{
    Action, Deadline, Heard, Input, LinkId, Machine, Now, Open, Output, Outputs, Refused, Time,
};

use super::{A, sh};
use crate::runtimes::{Blocking, Runtime, Smol};

/// What came first: the child's word, or the end of the time that it had for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum First {
    /// The word, which lay in the pipe.
    Word,
    /// The deadline.
    Deadline,
}

/// Gives its child 200 ms for one word.
struct Patient {
    until: Option<Time>,
    out: Outputs<First>,
}

impl Machine for Patient {
    type Config = Open;
    type Command = ();
    type Event = First;

    fn new(_: Now, open: Open) -> Self {
        let mut out = Outputs::default();
        out.act(A, Action::Open(open));
        Self { until: None, out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(LinkId::FIRST, Heard::Bytes(b"up\n")) => {
                self.until = Some(now.mono + Duration::from_millis(200));
                self.out.act(A, Action::Write(b"go\n".into()));
            }
            Input::Link(LinkId::FIRST, Heard::Bytes(_)) => self.end(First::Word),
            Input::Link(..) | Input::Tick | Input::Hold(_) | Input::StoreFailed(..) => {}
        }
        if self.until.is_some_and(|until| until <= now.mono) {
            self.end(First::Deadline);
        }
    }

    fn command(&mut self, _: Now, (): ()) -> Result<(), Refused> {
        Err(Refused::Closed)
    }

    fn poll(&mut self) -> Option<Output<First>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.until.map(|until| (until, "the word"))
    }
}

impl Patient {
    fn end(&mut self, first: First) {
        if std::mem::take(&mut self.until).is_some() {
            self.out.tell(first);
            self.out.act(A, Action::Close);
            self.out.end();
        }
    }
}

/// The child stops this process, says its word, and lets it go on when the time for it is long over.
#[must_use]
pub fn stopped(runtime: &str) -> Option<First> {
    let script =
        "echo up; read -r go; kill -s STOP $PPID; echo word; sleep 0.4; kill -s CONT $PPID; read -r x";
    let open = Open::spawn(sh(Path::new("/"), script));
    let mut first = None;
    let on = |event, _: &mut Vec<()>| first = Some(event);
    match runtime {
        "blocking" => Blocking::run::<Patient>(open, Vec::new(), on),
        "smol" => Smol::run::<Patient>(open, Vec::new(), on),
        _ => {}
    }
    first
}
