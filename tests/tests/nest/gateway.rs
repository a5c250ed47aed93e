//! A gateway of lines from one child to another, and a child that talks faster than the other listens.

use agentline_core::link::{Link, Report};
use agentline_core::machine::soonest;
use agentline_core::nest::{Nest, Told};
use agentline_core::{
    Deadline, Graces, Ids, Input, Limits, LinkId, Machine, Now, Open, Output, Outputs, Refused, SpawnSpec,
};
use agentline_tests::toy::{Heard, Say, Start, Talk};

/// Passes lines on, without loss. With `hold` it stops reading while the listener is behind.
#[derive(Debug)]
pub(crate) struct Gateway {
    talker: Nest<(), Talk>,
    listener: Nest<(), Talk>,
    hold: bool,
    /// The most that was ever unsent.
    peak: usize,
    ids: Ids,
    out: Outputs<Over>,
}

/// The gateway is done; so much was unsent at worst.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) peak: usize,
}

impl Gateway {
    fn settle(&mut self, now: Now) {
        while let Some(((), told)) = self.talker.next(&mut self.ids, &mut self.out) {
            let say = match told {
                Told::Event(Heard::Line(Ok(line))) => Say::Line(line),
                Told::Event(Heard::Ended) => Say::Leave,
                Told::Event(_) | Told::Ended => continue,
            };
            let _ = self.listener.command(now, &(), say);
        }
        while self.listener.next(&mut self.ids, &mut self.out).is_some() {}
        let unsent = self.listener.get(&()).map_or(0, Talk::unsent);
        self.peak = self.peak.max(unsent);
        if self.hold {
            self.talker.hold(now, &(), unsent > Limits::default().unsent_soft);
            while self.talker.next(&mut self.ids, &mut self.out).is_some() {}
        }
        if self.talker.is_empty() && self.listener.is_empty() {
            self.out.tell(Over { peak: self.peak });
            self.out.end();
        }
    }
}

impl Machine for Gateway {
    type Config = bool;
    type Command = std::convert::Infallible;
    type Event = Over;

    fn new(now: Now, hold: bool) -> Self {
        let child = |name: &str| {
            let spec = SpawnSpec { program: name.into(), ..SpawnSpec::default() };
            let limits = Limits { unsent_hard: usize::MAX, ..Limits::default() };
            Talk::new(now, Start { how: Some(Open::spawn(spec)), limits, graces: Graces::default() })
        };
        let (talker, listener) = (Nest::of((), child("talker")), Nest::of((), child("listener")));
        let (ids, out) = (Ids::default(), Outputs::default());
        let mut gateway = Self { talker, listener, hold, peak: 0, ids, out };
        gateway.settle(now);
        gateway
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if self.talker.is_empty() && self.listener.is_empty() {
            return;
        }
        if let Input::Link(link, heard) = input {
            let _ = self.talker.handle(now, link, heard) || self.listener.handle(now, link, heard);
        }
        self.talker.tick(now);
        self.listener.tick(now);
        self.settle(now);
    }

    fn command(&mut self, _: Now, command: Self::Command) -> Result<(), Refused> {
        match command {}
    }

    fn poll(&mut self) -> Option<Output<Over>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        soonest(self.talker.deadline(), self.listener.deadline())
    }
}

/// Says a number of lines as fast as they are taken, then leaves.
#[derive(Debug)]
pub(crate) struct Hose {
    link: Link,
    left: usize,
    out: Outputs<()>,
}

impl Hose {
    /// What it says.
    pub(crate) const LINE: &'static str =
        "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123";

    fn settle(&mut self, now: Now) {
        while self.left > 0 && self.link.unsent() < Limits::default().unsent_soft {
            self.left -= 1;
            self.link.line(|buf| buf.extend_from_slice(Self::LINE.as_bytes()));
        }
        if self.left == 0 {
            self.link.leave(now, &mut self.out);
        }
        self.link.flush(now, &mut self.out);
    }
}

impl Machine for Hose {
    type Config = usize;
    type Command = std::convert::Infallible;
    type Event = ();

    fn new(now: Now, left: usize) -> Self {
        let mut out = Outputs::default();
        let (limits, graces) = (Limits::default(), Graces::default());
        let link = Link::open(now, LinkId::FIRST, Open::Given(0), &limits, &graces, &mut out);
        Self { link, left, out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        let was_closed = self.link.is_closed();
        let mut ready = false;
        if let Input::Link(LinkId::FIRST, heard) = input {
            ready = matches!(self.link.heard(now, heard, &mut self.out), Report::Opened(_));
        }
        self.link.tick(now, &mut self.out);
        if ready || self.link.is_open() {
            self.settle(now);
        }
        self.link.flush(now, &mut self.out);
        if self.link.is_closed() && !was_closed {
            self.out.end();
        }
    }

    fn command(&mut self, _: Now, command: Self::Command) -> Result<(), Refused> {
        match command {}
    }

    fn poll(&mut self) -> Option<Output<()>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.link.deadline()
    }
}
