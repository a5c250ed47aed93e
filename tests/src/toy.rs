//! The smallest channel there is: lines of text over one link, both ways. It proves the link and the nest
//! without any protocol of its own.

use agentline_core::lines::Line;
use agentline_core::lines::Lines;
use agentline_core::link::{Link, Obituary, Report};
use agentline_core::{
    Deadline, Graces, Input, Limits, LinkId, Machine, Now, Open, OpenError, Output, Outputs, Refused,
};
use serde::Serialize;

/// One end of a conversation in lines.
#[derive(Debug)]
pub struct Talk {
    link: Link,
    lines: Lines,
    stage: Stage,
    /// Bytes above which the peer is called deaf.
    unsent_hard: usize,
    out: Outputs<Heard>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Talking,
    /// The application has left, or the peer has.
    Leaving,
    Over,
}

/// How a conversation begins.
#[derive(Clone, Debug)]
pub struct Start {
    /// How the link comes about; `None`: it is there already.
    pub how: Option<Open>,
    /// Sizes.
    pub limits: Limits,
    /// Times.
    pub graces: Graces,
}

/// What may be asked of one end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Say {
    /// Send a line.
    Line(String),
    /// Send several lines in one step.
    Lines(Vec<String>),
    /// Leave.
    Leave,
    /// Leave without waiting.
    Hasten,
}

/// What is heard at one end.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// The link is up.
    Opened,
    /// It never will be.
    Failed(OpenError),
    /// A line came; `Err`: it is no text, or too long.
    Line(Result<String, &'static str>),
    /// The peer has said its last word. We leave by ourselves.
    Ended,
    /// The peer does not read. We leave by ourselves.
    Deaf,
    /// The last event.
    Closed(Box<Obituary>),
}

impl Talk {
    /// One end around a link that is open.
    #[must_use]
    pub fn adopt(limits: &Limits, graces: &Graces) -> Self {
        Self::around(Link::adopt(LinkId::FIRST, limits, graces), limits, Outputs::default())
    }

    fn around(link: Link, limits: &Limits, out: Outputs<Heard>) -> Self {
        let lines = Lines::new(limits.line);
        Self { link, lines, stage: Stage::Talking, unsent_hard: limits.unsent_hard, out }
    }

    /// Bytes that are not yet with the operating system.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.link.unsent()
    }

    /// The link itself.
    #[must_use]
    pub const fn link(&self) -> &Link {
        &self.link
    }

    fn read(&mut self, bytes: &[u8]) {
        if self.stage != Stage::Talking {
            return;
        }
        let mut feed = self.lines.feed(bytes);
        while let Some(line) = feed.next() {
            self.out.tell(Heard::Line(own(line)));
        }
    }

    fn ended(&mut self, now: Now) {
        if self.stage != Stage::Talking {
            return;
        }
        if let Some(line) = self.lines.feed(b"\n").next() {
            self.out.tell(Heard::Line(own(line)));
        }
        self.out.tell(Heard::Ended);
        self.leave(now);
    }

    fn leave(&mut self, now: Now) {
        self.stage = Stage::Leaving;
        self.link.leave(now, &mut self.out);
    }

    /// The end of each step: one write, and the last words when the link is closed.
    fn settle(&mut self, now: Now) {
        if self.link.unsent() > self.unsent_hard && self.stage == Stage::Talking {
            self.out.tell(Heard::Deaf);
            self.leave(now);
        }
        self.link.flush(now, &mut self.out);
        if self.link.is_closed() && self.stage != Stage::Over {
            self.stage = Stage::Over;
            self.out.tell(Heard::Closed(Box::new(self.link.obituary())));
            self.out.end();
        }
    }

    fn report(&mut self, now: Now, report: Report<'_>) {
        match report {
            Report::Quiet | Report::Stderr(_) => {}
            Report::Opened(_) => self.out.tell(Heard::Opened),
            Report::Failed(error) => self.out.tell(Heard::Failed(error)),
            Report::Bytes(bytes) => self.read(bytes),
            Report::Ended => self.ended(now),
        }
    }
}

impl Machine for Talk {
    type Config = Start;
    type Command = Say;
    type Event = Heard;

    fn new(now: Now, Start { how, limits, graces }: Start) -> Self {
        match how {
            None => Self::adopt(&limits, &graces),
            Some(how) => {
                let mut out = Outputs::default();
                let link = Link::open(now, LinkId::FIRST, how, &limits, &graces, &mut out);
                Self::around(link, &limits, out)
            }
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(LinkId::FIRST, heard) => {
                let report = self.link.heard(now, heard, &mut self.out);
                self.report(now, report);
            }
            Input::Hold(hold) => self.link.hold(now, hold, &mut self.out),
            Input::Tick | Input::Link(..) | Input::StoreFailed(..) => {}
        }
        let report = self.link.tick(now, &mut self.out);
        self.report(now, report);
        self.settle(now);
    }

    fn command(&mut self, now: Now, say: Say) -> Result<(), Refused> {
        match self.stage {
            Stage::Talking => {}
            Stage::Leaving if say == Say::Hasten => {}
            Stage::Leaving | Stage::Over => return Err(Refused::Closed),
        }
        match say {
            Say::Line(line) => self.link.line(|buf| buf.extend_from_slice(line.as_bytes())),
            Say::Lines(lines) => {
                for line in lines {
                    self.link.line(|buf| buf.extend_from_slice(line.as_bytes()));
                }
            }
            Say::Leave => self.leave(now),
            Say::Hasten => {
                self.leave(now);
                self.link.hasten(now, &mut self.out);
            }
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Heard>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.link.deadline()
    }
}

fn own(line: Line<'_>) -> Result<String, &'static str> {
    match line {
        Line::Text(text) | Line::Header(text) => Ok(text.to_owned()),
        Line::NotUtf8(_) => Err("not UTF-8"),
        Line::TooLong(_) => Err("too long"),
    }
}
