//! The life of one byte link: opening, writing with one write outstanding, and leaving without an orphan.
//!
//! ```text
//!             Opened                leave()           all written           grace        grace
//!  Opening ───────────────► Open ────────────► Flushing ────────► Leaving(Eof) ──► (Term) ──► (Kill)
//!   │  ▲ │ leave() (a child)  │                    │ grace            │               │          │ grace
//!   │  │ └──► Abandoned ──────┘ Opened             └─────────────────►│               │          │
//!   │  │ busy                                      gone: Parting ◄────┴───────────────┤          │
//!   ▼  ▼                                                │ drained                     │          │
//!  Closed ◄─────────────────────────────────────────────┴── exited, group gone, EOF ◄─┴──────────┘
//! ```
//!
//! A child's link closes when its exit is known, nobody is left in its group and its stdout has ended; or the
//! drain grace ended; or the ladder did. A stream closes when both halves are closed, or after its EOF grace.

mod clock;
mod obituary;
mod state;
mod tail;

use std::time::Duration;

use crate::limits::{Graces, Limits};
use crate::machine::{
    Action, Deadline, Exit, Group, Heard, LinkId, Now, Open, OpenError, Outputs, Peer, Refused, Signal, Time,
    soonest,
};
use crate::outbox::Outbox;

use clock::Clock;
use state::{Inbound, Life, Phase, Search};
use tail::Tail;

pub use clock::Listened;
pub use obituary::{Obituary, Rung};

/// One byte link of a machine. Its owner decides what the bytes mean and when to leave.
#[derive(Debug)]
pub struct Link {
    id: LinkId,
    phase: Phase,
    life: Life,
    inbound: Inbound,
    clock: Clock,
    outbox: Outbox,
    /// Bytes of the outstanding write.
    in_flight: Option<usize>,
    rung: Rung,
    /// How far the teardown was when the child ended.
    exit_rung: Rung,
    stderr: Tail,
    graces: Graces,
    write: usize,
    /// Our half is closed.
    shut: bool,
}

/// What an input meant for the link's owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Report<'a> {
    /// Nothing for the owner: the link has seen to it.
    Quiet,
    /// The link is up.
    Opened(Peer),
    /// It never will be. The link is closed.
    Failed(OpenError),
    /// Bytes of the peer.
    Bytes(&'a [u8]),
    /// What the child wrote to standard error.
    Stderr(&'a [u8]),
    /// The peer has said its last byte. The owner finishes its business and leaves.
    Ended,
}

impl Link {
    /// Begins to open a link.
    pub fn open<E>(
        now: Now,
        id: LinkId,
        how: Open,
        limits: &Limits,
        graces: &Graces,
        out: &mut Outputs<E>,
    ) -> Self {
        let life = match how {
            Open::Spawn(_) => Life::Unborn,
            Open::Given(_) => Life::Given,
            Open::Connect(_) | Open::Listen(_) | Open::Accept(_) => Life::Stream,
        };
        out.act(id, Action::Open(how.clone()));
        let phase = Phase::Opening { how, until: now.mono + graces.open, again: None };
        Self { phase, life, ..Self::adopt(id, limits, graces) }
    }

    /// A stream that is up already: a connection that a listener took.
    #[must_use]
    pub fn adopt(id: LinkId, limits: &Limits, graces: &Graces) -> Self {
        Self {
            id,
            phase: Phase::Open,
            life: Life::Stream,
            inbound: Inbound::Open,
            clock: Clock::default(),
            outbox: Outbox::default(),
            in_flight: None,
            rung: Rung::Own,
            exit_rung: Rung::Own,
            stderr: Tail::of(limits.stderr_tail),
            graces: graces.clone(),
            write: limits.write,
            shut: false,
        }
    }

    /// Takes one thing that happened. Whatever is said about a closed link is ignored.
    pub fn heard<'a, E>(&mut self, now: Now, heard: Heard<'a>, out: &mut Outputs<E>) -> Report<'a> {
        if self.is_closed() {
            return Report::Quiet;
        }
        match heard {
            Heard::Opened(peer) => return self.opened(now, peer, out),
            Heard::OpenFailed(error) => return self.open_failed(now, error, out),
            Heard::Bytes(bytes) => return self.bytes(now, bytes),
            Heard::Eof => return self.ended(now, out),
            Heard::Stderr(bytes) => {
                self.stderr.keep(bytes);
                return Report::Stderr(bytes);
            }
            Heard::Written => self.in_flight = None,
            Heard::WriteFailed => self.write_failed(now, out),
            Heard::Exited(exit) => self.exited(now, exit, out),
            Heard::Group(group) => self.group(now, group, out),
        }
        Report::Quiet
    }

    /// Fires what is due at `now`: each timer at most once, and one rung of the ladder at most, counted from
    /// `now`, so that a laptop that slept does not skip to SIGKILL.
    pub fn tick<E>(&mut self, now: Now, out: &mut Outputs<E>) -> Report<'static> {
        let mut report = Report::Quiet;
        if self.is_closed() {
            return report;
        }
        // First, for it may close the link: then there is nobody to signal.
        if let Inbound::Draining { until } = self.inbound
            && until <= now.mono
        {
            report = self.ended(now, out);
        }
        if let Life::Exited(_, Search::Again { at, next }) = self.life
            && at <= now.mono
        {
            self.look(now, next, out);
        }
        match self.phase {
            Phase::Opening { until, .. } | Phase::Abandoned { until } if until <= now.mono => {
                self.close(out);
                report = Report::Failed(OpenError::TimedOut);
            }
            Phase::Opening { again: Some(at), .. } if at <= now.mono => self.open_again(out),
            Phase::Flushing { until } if until <= now.mono => self.end_stdin(now, out),
            Phase::Leaving { until } if until <= now.mono => self.next_rung(now, out),
            Phase::Opening { .. }
            | Phase::Abandoned { .. }
            | Phase::Open
            | Phase::Flushing { .. }
            | Phase::Leaving { .. }
            | Phase::Parting
            | Phase::Closed => {}
        }
        report
    }

    /// When to tick, and why.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let phase = match self.phase {
            Phase::Opening { again: Some(at), .. } => Some((at, "open again")),
            Phase::Opening { until, .. } | Phase::Abandoned { until } => Some((until, "open")),
            Phase::Flushing { until } => Some((until, "flush before leaving")),
            Phase::Leaving { until } => Some((
                until,
                match self.rung {
                    Rung::Own | Rung::Eof => "leave after end of input",
                    Rung::Term => "exit after SIGTERM",
                    Rung::Kill => "reap after SIGKILL",
                },
            )),
            Phase::Open | Phase::Parting => None,
            Phase::Closed => return None,
        };
        let drain = match self.inbound {
            Inbound::Draining { until } => Some((until, "drain after exit")),
            Inbound::Open | Inbound::Held | Inbound::Ended => None,
        };
        let probe = match self.life {
            Life::Exited(_, Search::Again { at, .. }) => Some((at, "look for the group")),
            Life::Exited(..) | Life::Given | Life::Stream | Life::Unborn | Life::Running => None,
        };
        soonest(soonest(phase, drain), probe)
    }

    /// Queues one line; `fill` writes its content without the line end. Sent by the next [`Link::flush`].
    /// Dropped when the peer cannot get it any more.
    pub fn line(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.is_writable() {
            self.outbox.line(self.write, fill);
        }
    }

    /// Like [`Link::line`], for content that others chose: longer than `most` bytes it is not queued.
    ///
    /// # Errors
    ///
    /// It is too long. Nothing changed.
    pub fn line_within(&mut self, most: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Refused> {
        let takes = matches!(self.phase, Phase::Opening { .. } | Phase::Open);
        if takes && !self.outbox.line_within(self.write, most, fill) {
            return Err(Refused::Limit("bytes of one line"));
        }
        Ok(())
    }

    /// Emits the write that may be outstanding. Called once at the end of a step, so that a step is one write.
    pub fn flush<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        let leaving = matches!(self.phase, Phase::Flushing { .. });
        if self.in_flight.is_some() || !(leaving || self.is_open()) {
            return;
        }
        if let Some(bytes) = self.outbox.take() {
            self.in_flight = Some(bytes.len());
            out.act(self.id, Action::Write(bytes));
        } else if leaving {
            self.end_stdin(now, out);
        }
    }

    /// Leaves politely, then less politely. Harmless when leaving already.
    pub fn leave<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        match (&self.phase, &self.life) {
            (&Phase::Opening { until, again: None, .. }, Life::Unborn) => {
                self.phase = Phase::Abandoned { until };
                self.outbox.clear();
                self.inbound = Inbound::Open;
            }
            // Whatever else is not there yet leaves nothing behind.
            (Phase::Opening { .. }, _) => self.close(out),
            // Nobody is left who could read what is unsent.
            (Phase::Open, Life::Exited(..)) => self.end_stdin(now, out),
            (Phase::Open, _) => {
                // A peer that waits for us to read would never take the rest, nor leave.
                self.hold(now, false, out);
                self.phase = Phase::Flushing { until: now.mono + self.graces.flush };
                self.flush(now, out);
            }
            _ => {}
        }
    }

    /// Leaves for an owner who waits no longer: SIGTERM at once, SIGKILL 0.2 s later. What is left of the ladder
    /// is shortened when the link is leaving already.
    pub fn hasten<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        let Graces { flush, eof, term, .. } = &mut self.graces;
        (*flush, *eof, *term) = ((*flush).min(FIRST_LOOK), (*eof).min(FIRST_LOOK), (*term).min(HASTE));
        self.leave(now, out);
        if matches!(self.phase, Phase::Flushing { .. }) {
            self.end_stdin(now, out);
        }
        let Phase::Leaving { until } = &mut self.phase else { return };
        match (self.rung, &self.life) {
            // Whether anybody is left to signal is being looked up.
            (Rung::Own | Rung::Eof, Life::Exited(..)) => *until = (*until).min(now.mono + FIRST_LOOK),
            (Rung::Own | Rung::Eof, _) => self.next_rung(now, out),
            (Rung::Term, _) => *until = (*until).min(now.mono + HASTE),
            (Rung::Kill, _) => {}
        }
    }

    /// Closes our half of an open link and stays, for an owner who has nothing to say: the peer's input is empty.
    pub fn end_input<E>(&mut self, out: &mut Outputs<E>) {
        if self.is_open() && !std::mem::replace(&mut self.shut, true) {
            self.outbox.clear();
            self.in_flight = None;
            out.act(self.id, Action::CloseWrite);
        }
    }

    /// Ends the link at once: what is unsent is lost, and nothing that the peer still says matters.
    pub fn cut<E>(&mut self, out: &mut Outputs<E>) {
        if !self.is_closed() {
            self.close(out);
        }
    }

    /// Stops or resumes reading, for an owner whose own reader is full. Over when the link leaves.
    pub fn hold<E>(&mut self, now: Now, hold: bool, out: &mut Outputs<E>) {
        if !matches!(self.phase, Phase::Opening { .. } | Phase::Open) {
            return;
        }
        self.inbound = match (self.inbound, hold) {
            (Inbound::Open | Inbound::Draining { .. }, true) => {
                self.clock.stop(now);
                Inbound::Held
            }
            (Inbound::Held, false) => {
                self.clock.go_on(now);
                if matches!(self.life, Life::Exited(..)) { self.draining(now) } else { Inbound::Open }
            }
            (Inbound::Held | Inbound::Ended, _) | (Inbound::Open | Inbound::Draining { .. }, false) => {
                return;
            }
        };
        if self.is_open() {
            out.act(self.id, Action::Read(!hold));
        }
    }

    /// The name that its machine gave it.
    #[must_use]
    pub const fn id(&self) -> LinkId {
        self.id
    }

    /// Bytes that are not yet with the operating system.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.outbox.queued() + self.in_flight.unwrap_or(0)
    }

    /// Whether the next [`Link::flush`] has something to send.
    #[must_use]
    pub fn has_unflushed(&self) -> bool {
        self.in_flight.is_none() && self.outbox.queued() > 0
    }

    /// Whether a line that is queued now has a way to the peer.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        !self.shut && matches!(self.phase, Phase::Opening { .. } | Phase::Open)
    }

    /// Whether lines reach the peer.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether reading is suspended for our own reader's sake.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self.inbound, Inbound::Held)
    }

    /// What the link's own clock shows.
    #[must_use]
    pub fn listened(&self, now: Now) -> Listened {
        self.clock.shows(now)
    }

    /// When the link's own clock will show that; `None` while it stands still.
    #[must_use]
    pub fn due_at(&self, until: Listened) -> Option<Time> {
        self.clock.due_at(until)
    }

    /// Whether the peer has said its last byte.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.inbound, Inbound::Ended)
    }

    /// Whether the link is over.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// How it ended, or how far it came.
    #[must_use]
    pub fn obituary(&self) -> Obituary {
        let (exit, group) = match &self.life {
            Life::Given | Life::Stream | Life::Unborn => (None, None),
            Life::Running => (None, Some(Group::Alive)),
            Life::Exited(exit, Search::Gone) => (Some(*exit), Some(Group::Gone)),
            Life::Exited(exit, _) => (Some(*exit), Some(Group::Alive)),
        };
        Obituary { exit, exit_rung: self.exit_rung, rung: self.rung, group, stderr_tail: self.stderr.text() }
    }

    fn opened<E>(&mut self, now: Now, peer: Peer, out: &mut Outputs<E>) -> Report<'static> {
        let abandoned = matches!(self.phase, Phase::Abandoned { .. });
        if !abandoned && !matches!(self.phase, Phase::Opening { again: None, .. }) {
            return Report::Quiet;
        }
        self.phase = Phase::Open;
        if matches!(self.life, Life::Unborn) {
            self.life = Life::Running;
        }
        // The owner has left already, so it hears nothing of a child that it never meets.
        if abandoned {
            self.leave(now, out);
            return Report::Quiet;
        }
        if self.is_held() {
            out.act(self.id, Action::Read(false));
        }
        Report::Opened(peer)
    }

    fn open_failed<E>(&mut self, now: Now, error: OpenError, out: &mut Outputs<E>) -> Report<'static> {
        match &mut self.phase {
            Phase::Opening { until, again, .. } if error.is_transient() && now.mono + OPEN_AGAIN < *until => {
                *again = Some(now.mono + OPEN_AGAIN);
                Report::Quiet
            }
            Phase::Opening { .. } | Phase::Abandoned { .. } => {
                self.close(out);
                Report::Failed(error)
            }
            Phase::Open | Phase::Flushing { .. } | Phase::Leaving { .. } | Phase::Parting | Phase::Closed => {
                Report::Quiet
            }
        }
    }

    fn open_again<E>(&mut self, out: &mut Outputs<E>) {
        if let Phase::Opening { how, again, .. } = &mut self.phase {
            *again = None;
            out.act(self.id, Action::Open(how.clone()));
        }
    }

    fn bytes<'a>(&mut self, now: Now, bytes: &'a [u8]) -> Report<'a> {
        match self.inbound {
            Inbound::Ended => return Report::Quiet,
            // Whoever still talks is not drained; once we leave, the first grace is the last.
            Inbound::Draining { .. } if self.is_open() => self.inbound = self.draining(now),
            Inbound::Open | Inbound::Held | Inbound::Draining { .. } => {}
        }
        Report::Bytes(bytes)
    }

    fn ended<E>(&mut self, now: Now, out: &mut Outputs<E>) -> Report<'static> {
        if self.has_ended() {
            return Report::Quiet;
        }
        self.clock.go_on(now);
        self.inbound = Inbound::Ended;
        self.close_if_over(out);
        Report::Ended
    }

    fn exited<E>(&mut self, now: Now, exit: Exit, out: &mut Outputs<E>) {
        if !matches!(self.life, Life::Running) {
            return;
        }
        self.life = Life::Exited(exit, Search::Unasked);
        self.exit_rung = self.rung;
        // While we do not read, the last bytes wait in the pipe: they are drained from the moment we do.
        if self.inbound == Inbound::Open {
            self.inbound = self.draining(now);
        }
        if matches!(self.phase, Phase::Flushing { .. }) {
            self.end_stdin(now, out);
        } else if matches!(self.phase, Phase::Leaving { .. }) {
            self.look(now, FIRST_LOOK, out);
        }
    }

    fn write_failed<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        // What the peer still has to say is read for the EOF grace.
        if matches!(self.phase, Phase::Open | Phase::Flushing { .. }) {
            self.end_stdin(now, out);
        }
    }

    /// The first rung: our half closes, and the peer is expected to follow.
    fn end_stdin<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        self.hold(now, false, out);
        // What has not gone out by now never will: our half is closed.
        self.outbox.clear();
        self.in_flight = None;
        self.phase = Phase::Leaving { until: now.mono + self.graces.eof };
        if !std::mem::replace(&mut self.shut, true) {
            out.act(self.id, Action::CloseWrite);
        }
        if matches!(self.life, Life::Exited(..)) {
            self.look(now, FIRST_LOOK, out);
        } else {
            self.rung = Rung::Eof;
        }
        self.close_if_over(out);
    }

    fn next_rung<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        let (signal, grace) = match (self.rung, &self.life) {
            (Rung::Own | Rung::Eof, Life::Running | Life::Exited(..)) => {
                self.rung = Rung::Term;
                (Signal::Term, self.graces.term)
            }
            (Rung::Term, Life::Running | Life::Exited(..)) => {
                self.rung = Rung::Kill;
                (Signal::Kill, self.graces.reap)
            }
            // Even SIGKILL does not end a process that hangs in the kernel: the obituary says that it lives.
            (Rung::Kill, _) | (_, Life::Given | Life::Stream | Life::Unborn) => return self.close(out),
        };
        out.act(self.id, Action::Signal(signal));
        self.phase = Phase::Leaving { until: now.mono + grace };
        // Whoever is left goes now, if ever.
        if let Life::Exited(_, Search::Again { at, next }) = &mut self.life {
            (*at, *next) = (now.mono + FIRST_LOOK, FIRST_LOOK);
        }
    }

    /// Looks whether anybody of the child's group lives. The next rung waits for the answer: whoever is gone
    /// must not be signalled, for the number of the group may be somebody else's by then.
    fn look<E>(&mut self, now: Now, next: Duration, out: &mut Outputs<E>) {
        if let Life::Exited(_, search) = &mut self.life {
            *search = Search::Asked { next };
            out.act(self.id, Action::Probe);
        }
        if let Phase::Leaving { until } = &mut self.phase {
            *until = (*until).max(now.mono + FIRST_LOOK);
        }
    }

    fn group<E>(&mut self, now: Now, group: Group, out: &mut Outputs<E>) {
        let Life::Exited(_, search) = &mut self.life else { return };
        let Search::Asked { next } = *search else { return };
        match group {
            Group::Alive => *search = Search::Again { at: now.mono + next, next: (next * 2).min(LAST_LOOK) },
            Group::Gone => {
                *search = Search::Gone;
                if matches!(self.phase, Phase::Leaving { .. }) {
                    self.phase = Phase::Parting;
                }
                self.close_if_over(out);
            }
        }
    }

    fn close_if_over<E>(&mut self, out: &mut Outputs<E>) {
        let left = matches!(self.phase, Phase::Leaving { .. } | Phase::Parting);
        let over = match &self.life {
            // Nobody is behind our own stdout whose end could be waited for.
            Life::Given => true,
            Life::Stream => self.inbound == Inbound::Ended,
            Life::Unborn | Life::Running => false,
            Life::Exited(_, search) => self.inbound == Inbound::Ended && *search == Search::Gone,
        };
        if left && over {
            self.close(out);
        }
    }

    fn close<E>(&mut self, out: &mut Outputs<E>) {
        self.phase = Phase::Closed;
        self.outbox.clear();
        self.in_flight = None;
        out.act(self.id, Action::Close);
    }

    fn draining(&self, now: Now) -> Inbound {
        Inbound::Draining { until: now.mono + self.graces.drain }
    }
}

/// After this the system is asked again for what it was short of.
const OPEN_AGAIN: Duration = Duration::from_millis(200);
/// From SIGTERM until SIGKILL for whoever is in haste: what an agent takes that has nothing to save.
const HASTE: Duration = Duration::from_millis(200);
/// The pause after the first look for a living group; each further one doubles it.
const FIRST_LOOK: Duration = Duration::from_millis(15);
/// The longest pause between two looks.
const LAST_LOOK: Duration = Duration::from_millis(480);
