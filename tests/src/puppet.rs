//! A child that speaks lines and does what its arguments say. The same machine lives in a world and in a
//! process of its own.
//!
//! Its last argument is steps with `;` between them:
//!
//! | step | what it does |
//! |---|---|
//! | `say TEXT` | writes a line |
//! | `flood N` | writes N lines of 64 KiB |
//! | `err N` | writes N bytes to standard error |
//! | `hear N` | waits until it has read N lines |
//! | `eof` | waits for the end of its stdin |
//! | `sleep MS` | waits |
//! | `deaf` | reads no more |
//! | `shut` | closes its stdout and lives on |
//! | `exit N` | ends |
//! | `hang` | does nothing any more |
//!
//! Arguments before it are [`habits`](crate::habits).

use std::collections::VecDeque;
use std::time::Duration;

use agentline_core::{
    Action, Deadline, Heard, Input, LinkId, Machine, Now, Open, Output, Outputs, Refused, Time,
};

/// The child.
#[derive(Debug)]
pub struct Puppet {
    steps: VecDeque<String>,
    wait: Wait,
    /// Lines that it has read.
    lines: usize,
    ended: bool,
    out: Outputs<Deed>,
}

/// What its process does apart from its stdin and stdout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deed {
    /// Writes so many bytes to standard error.
    Complain(usize),
    /// Ends with that status. The last event.
    Exit(i32),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wait {
    Nothing,
    Opened,
    Written,
    Until(Time),
    Lines(usize),
    Eof,
    Forever,
    /// It is gone.
    Over,
}

impl Machine for Puppet {
    /// Its last argument.
    type Config = String;
    type Command = ();
    type Event = Deed;

    fn new(_: Now, steps: String) -> Self {
        let steps = steps.split(';').map(|step| step.trim().to_owned()).collect();
        let mut out = Outputs::default();
        out.act(LinkId::FIRST, Action::Open(Open::Given(0)));
        Self { steps, wait: Wait::Opened, lines: 0, ended: false, out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(_, heard) = input {
            self.hear(heard);
        }
        while self.is_ready(now)
            && let Some(step) = self.steps.pop_front()
        {
            self.wait = Wait::Nothing;
            self.take(now, &step);
        }
    }

    fn command(&mut self, _: Now, (): ()) -> Result<(), Refused> {
        Err(Refused::Closed)
    }

    fn poll(&mut self) -> Option<Output<Deed>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        if let Wait::Until(at) = self.wait { Some((at, "go on")) } else { None }
    }
}

impl Puppet {
    fn hear(&mut self, heard: Heard<'_>) {
        match heard {
            Heard::Opened(_) if self.wait == Wait::Opened => self.wait = Wait::Nothing,
            Heard::Written if self.wait == Wait::Written => self.wait = Wait::Nothing,
            Heard::Bytes(bytes) => self.lines += bytes.iter().filter(|byte| **byte == b'\n').count(),
            Heard::Eof => self.ended = true,
            // As SIGPIPE does it.
            Heard::WriteFailed if self.wait == Wait::Written => self.exit(1),
            Heard::Opened(_)
            | Heard::OpenFailed(_)
            | Heard::Stderr(_)
            | Heard::Written
            | Heard::WriteFailed
            | Heard::Exited(_)
            | Heard::Group(_) => {}
        }
    }

    fn is_ready(&self, now: Now) -> bool {
        match self.wait {
            Wait::Nothing => true,
            Wait::Until(at) => at <= now.mono,
            Wait::Lines(lines) => self.lines >= lines,
            Wait::Eof => self.ended,
            Wait::Opened | Wait::Written | Wait::Forever | Wait::Over => false,
        }
    }

    /// Takes a step. One without a meaning is a mistake in a test: the child fails loudly.
    fn take(&mut self, now: Now, step: &str) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let number: usize = rest.parse().unwrap_or_default();
        match word {
            "say" => self.write(format!("{rest}\n")),
            "flood" => {
                if number > 1 {
                    self.steps.push_front(format!("flood {}", number - 1));
                }
                self.write(format!("{}\n", "x".repeat(FLOOD)));
            }
            "err" => self.out.tell(Deed::Complain(number)),
            "hear" => self.wait = Wait::Lines(number),
            "eof" => self.wait = Wait::Eof,
            "sleep" => self.wait = Wait::Until(now.mono + Duration::from_millis(number as u64)),
            "deaf" => self.out.act(LinkId::FIRST, Action::Read(false)),
            "shut" => self.out.act(LinkId::FIRST, Action::CloseWrite),
            "hang" => self.wait = Wait::Forever,
            "exit" => self.exit(i32::try_from(number).unwrap_or(1)),
            _ => self.exit(99),
        }
    }

    fn write(&mut self, line: String) {
        self.wait = Wait::Written;
        self.out.act(LinkId::FIRST, Action::Write(line.into_bytes()));
    }

    fn exit(&mut self, status: i32) {
        self.wait = Wait::Over;
        self.out.act(LinkId::FIRST, Action::Close);
        self.out.tell(Deed::Exit(status));
        self.out.end();
    }
}

/// Bytes of a line of a flood.
pub const FLOOD: usize = 64 << 10;
