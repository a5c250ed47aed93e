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

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::{Graces, Limits};
use crate::machine::{
    Action, Deadline, Exit, Group, Heard, LinkId, Now, Open, OpenError, Outputs, Peer, Signal, Time, soonest,
};
use crate::outbox::Outbox;

/// One byte link of a machine. Its owner decides what the bytes mean and when to leave.
#[derive(Debug)]
pub struct Link {
    id: LinkId,
    phase: Phase,
    life: Life,
    inbound: Inbound,
    outbound: Outbound,
    outbox: Outbox,
    rung: Rung,
    stderr: Vec<u8>,
    graces: Graces,
    write: usize,
    stderr_tail: usize,
}

#[derive(Debug)]
enum Phase {
    Opening {
        how: Open,
        until: Time,
    },
    /// The system was short of something; the same again at `at`.
    Again {
        how: Open,
        at: Time,
        until: Time,
    },
    /// We left before the child was there: it must be seen before it can be ended.
    Abandoned {
        until: Time,
    },
    Open,
    Flushing {
        until: Time,
    },
    Leaving {
        until: Time,
    },
    /// Nobody is left to signal; only the drain grace is waited for.
    Parting,
    Closed(Option<OpenError>),
}

/// What is at the other end.
#[derive(Debug)]
enum Life {
    /// Our own stdin and stdout, or a stream of the embedder: nobody to wait for.
    Given,
    Stream,
    Running,
    Exited(Exit, Search),
}

/// Whether anybody of the child's group lives.
#[derive(Debug, Eq, PartialEq)]
enum Search {
    Unasked,
    Asked { next: Duration },
    Again { at: Time, next: Duration },
    Gone,
}

#[derive(Debug, Eq, PartialEq)]
enum Inbound {
    Open,
    Held,
    /// The child has exited and its last bytes may still come.
    Draining {
        until: Time,
    },
    Ended,
}

#[derive(Debug, Eq, PartialEq)]
enum Outbound {
    Idle,
    Writing(usize),
    Shut,
}

/// How far the teardown had to go.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The peer left by itself.
    #[default]
    Own,
    /// We closed our half.
    Eof,
    /// SIGTERM to the group.
    Term,
    /// SIGKILL to the group.
    Kill,
}

/// How a link ended.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Obituary {
    /// Why it never opened.
    pub failed: Option<OpenError>,
    /// How the child ended, if it did in time.
    pub exit: Option<Exit>,
    /// How far the teardown had to go.
    pub rung: Rung,
    /// Whether the child's group was seen to be gone. `None`: there was no child.
    pub group: Option<Group>,
    /// The end of what the child wrote to standard error, as text.
    pub stderr_tail: String,
}

/// What an input meant for the link's owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Report<'a> {
    /// Nothing.
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
            Open::Spawn(_) => Life::Running,
            Open::Given => Life::Given,
            Open::Connect(_) | Open::Listen(_) | Open::Accept(_) => Life::Stream,
        };
        out.act(id, Action::Open(how.clone()));
        let phase = Phase::Opening { how, until: now.mono + graces.open };
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
            outbound: Outbound::Idle,
            outbox: Outbox::default(),
            rung: Rung::Own,
            stderr: Vec::new(),
            graces: graces.clone(),
            write: limits.write,
            stderr_tail: limits.stderr_tail,
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
            Heard::Eof => return self.ended(out),
            Heard::Stderr(bytes) => {
                self.keep_stderr(bytes);
                return Report::Stderr(bytes);
            }
            Heard::Written => {
                if matches!(self.outbound, Outbound::Writing(_)) {
                    self.outbound = Outbound::Idle;
                }
            }
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
        if let Inbound::Draining { until } = self.inbound
            && until <= now.mono
        {
            report = self.ended(out);
        }
        if let Life::Exited(_, Search::Again { at, next }) = self.life
            && at <= now.mono
            && !self.is_closed()
        {
            self.ask(next, out);
        }
        match self.phase {
            Phase::Opening { until, .. } | Phase::Abandoned { until } if until <= now.mono => {
                self.close(Some(OpenError::TimedOut), out);
                report = Report::Failed(OpenError::TimedOut);
            }
            Phase::Again { at, .. } if at <= now.mono => self.open_again(out),
            Phase::Flushing { until } if until <= now.mono => self.end_stdin(now, out),
            Phase::Leaving { until } if until <= now.mono => self.next_rung(now, out),
            Phase::Opening { .. }
            | Phase::Again { .. }
            | Phase::Abandoned { .. }
            | Phase::Open
            | Phase::Flushing { .. }
            | Phase::Leaving { .. }
            | Phase::Parting
            | Phase::Closed(_) => {}
        }
        report
    }

    /// When to tick, and why.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let phase = match self.phase {
            Phase::Opening { until, .. } | Phase::Abandoned { until } => Some((until, "open")),
            Phase::Again { at, .. } => Some((at, "open again")),
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
            Phase::Closed(_) => return None,
        };
        let drain = match self.inbound {
            Inbound::Draining { until } => Some((until, "drain after exit")),
            Inbound::Open | Inbound::Held | Inbound::Ended => None,
        };
        let probe = match self.life {
            Life::Exited(_, Search::Again { at, .. }) => Some((at, "look for the group")),
            Life::Exited(..) | Life::Given | Life::Stream | Life::Running => None,
        };
        soonest(soonest(phase, drain), probe)
    }

    /// Queues one line; `fill` writes its content without the line end. Sent by the next [`Link::flush`].
    /// Dropped when the peer cannot get it any more.
    pub fn line(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let writable = match self.phase {
            Phase::Opening { .. } | Phase::Again { .. } | Phase::Open => true,
            Phase::Abandoned { .. }
            | Phase::Flushing { .. }
            | Phase::Leaving { .. }
            | Phase::Parting
            | Phase::Closed(_) => false,
        };
        if writable && self.outbound != Outbound::Shut {
            self.outbox.line(self.write, fill);
        }
    }

    /// Emits the write that may be outstanding. Called once at the end of a step, so that a step is one write.
    pub fn flush<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        if self.outbound == Outbound::Idle && matches!(self.phase, Phase::Open | Phase::Flushing { .. }) {
            if let Some(bytes) = self.outbox.take() {
                self.outbound = Outbound::Writing(bytes.len());
                out.act(self.id, Action::Write(bytes));
            } else if matches!(self.phase, Phase::Flushing { .. }) {
                self.end_stdin(now, out);
            }
        }
    }

    /// Leaves politely, then less politely. Harmless when leaving already.
    pub fn leave<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        match self.phase {
            Phase::Opening { until, .. } if matches!(self.life, Life::Running) => {
                self.phase = Phase::Abandoned { until };
            }
            Phase::Opening { .. } | Phase::Again { .. } => self.close(None, out),
            Phase::Open => {
                self.hold(now, false, out);
                self.phase = Phase::Flushing { until: now.mono + self.graces.flush };
                if matches!(self.life, Life::Exited(..)) || self.outbound == Outbound::Shut {
                    self.end_stdin(now, out);
                } else {
                    self.flush(now, out);
                }
            }
            Phase::Abandoned { .. }
            | Phase::Flushing { .. }
            | Phase::Leaving { .. }
            | Phase::Parting
            | Phase::Closed(_) => {}
        }
    }

    /// Stops or resumes reading, for an owner whose own reader is full. Over when the link leaves.
    pub fn hold<E>(&mut self, now: Now, hold: bool, out: &mut Outputs<E>) {
        if !matches!(self.phase, Phase::Open) {
            return;
        }
        self.inbound = match (&self.inbound, hold) {
            (Inbound::Open | Inbound::Draining { .. }, true) => Inbound::Held,
            (Inbound::Held, false) if matches!(self.life, Life::Exited(..)) => {
                Inbound::Draining { until: now.mono + self.graces.drain }
            }
            (Inbound::Held, false) => Inbound::Open,
            (Inbound::Held | Inbound::Ended, _) | (Inbound::Open | Inbound::Draining { .. }, false) => return,
        };
        out.act(self.id, Action::Read(!hold));
    }

    /// Bytes that are not yet with the operating system.
    #[must_use]
    pub fn unsent(&self) -> usize {
        match self.outbound {
            Outbound::Idle => self.outbox.queued(),
            Outbound::Writing(flight) => self.outbox.queued() + flight,
            Outbound::Shut => 0,
        }
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

    /// Whether the peer has said its last byte.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.inbound, Inbound::Ended)
    }

    /// Whether the link is over.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed(_))
    }

    /// How it ended, or how far it came.
    #[must_use]
    pub fn obituary(&self) -> Obituary {
        let (exit, group) = match &self.life {
            Life::Exited(exit, Search::Gone) => (Some(*exit), Some(Group::Gone)),
            Life::Exited(exit, _) => (Some(*exit), Some(Group::Alive)),
            Life::Running if !matches!(self.phase, Phase::Closed(Some(_))) => (None, Some(Group::Alive)),
            Life::Running | Life::Given | Life::Stream => (None, None),
        };
        let failed = match self.phase {
            Phase::Closed(failed) => failed,
            Phase::Opening { .. }
            | Phase::Again { .. }
            | Phase::Abandoned { .. }
            | Phase::Open
            | Phase::Flushing { .. }
            | Phase::Leaving { .. }
            | Phase::Parting => None,
        };
        let stderr_tail = String::from_utf8_lossy(&self.stderr).into_owned();
        Obituary { failed, exit, rung: self.rung, group, stderr_tail }
    }

    fn opened<E>(&mut self, now: Now, peer: Peer, out: &mut Outputs<E>) -> Report<'static> {
        match self.phase {
            Phase::Opening { .. } => {
                self.phase = Phase::Open;
                Report::Opened(peer)
            }
            Phase::Abandoned { .. } => {
                self.phase = Phase::Open;
                self.outbox.clear();
                self.leave(now, out);
                Report::Quiet
            }
            Phase::Again { .. }
            | Phase::Open
            | Phase::Flushing { .. }
            | Phase::Leaving { .. }
            | Phase::Parting
            | Phase::Closed(_) => Report::Quiet,
        }
    }

    fn open_failed<E>(&mut self, now: Now, error: OpenError, out: &mut Outputs<E>) -> Report<'static> {
        match std::mem::replace(&mut self.phase, Phase::Open) {
            Phase::Opening { how, until } if error.passes() && now.mono < until => {
                self.phase = Phase::Again { how, at: now.mono + OPEN_AGAIN, until };
                Report::Quiet
            }
            Phase::Opening { .. } | Phase::Abandoned { .. } => {
                self.close(Some(error), out);
                Report::Failed(error)
            }
            other @ (Phase::Again { .. }
            | Phase::Open
            | Phase::Flushing { .. }
            | Phase::Leaving { .. }
            | Phase::Parting
            | Phase::Closed(_)) => {
                self.phase = other;
                Report::Quiet
            }
        }
    }

    fn open_again<E>(&mut self, out: &mut Outputs<E>) {
        if let Phase::Again { how, until, .. } = std::mem::replace(&mut self.phase, Phase::Open) {
            out.act(self.id, Action::Open(how.clone()));
            self.phase = Phase::Opening { how, until };
        }
    }

    fn bytes<'a>(&mut self, now: Now, bytes: &'a [u8]) -> Report<'a> {
        match &mut self.inbound {
            Inbound::Ended => return Report::Quiet,
            // Whoever still talks is not drained; once we leave, the first grace is the last.
            Inbound::Draining { until } if matches!(self.phase, Phase::Open) => {
                *until = now.mono + self.graces.drain;
            }
            Inbound::Open | Inbound::Held | Inbound::Draining { .. } => {}
        }
        Report::Bytes(bytes)
    }

    fn ended<E>(&mut self, out: &mut Outputs<E>) -> Report<'static> {
        if self.inbound == Inbound::Ended {
            return Report::Quiet;
        }
        self.inbound = Inbound::Ended;
        self.close_if_over(out);
        Report::Ended
    }

    fn exited<E>(&mut self, now: Now, exit: Exit, out: &mut Outputs<E>) {
        if !matches!(self.life, Life::Running) {
            return;
        }
        self.life = Life::Exited(exit, Search::Unasked);
        if self.inbound == Inbound::Open {
            self.inbound = Inbound::Draining { until: now.mono + self.graces.drain };
        }
        match self.phase {
            Phase::Flushing { .. } => self.end_stdin(now, out),
            Phase::Leaving { .. } => self.ask(FIRST_LOOK, out),
            Phase::Opening { .. }
            | Phase::Again { .. }
            | Phase::Abandoned { .. }
            | Phase::Open
            | Phase::Parting
            | Phase::Closed(_) => {}
        }
    }

    fn write_failed<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        self.outbox.clear();
        if matches!(self.outbound, Outbound::Writing(_)) {
            self.outbound = Outbound::Idle;
        }
        match self.phase {
            // What the peer still has to say is read for the EOF grace.
            Phase::Open | Phase::Flushing { .. } => self.end_stdin(now, out),
            Phase::Opening { .. }
            | Phase::Again { .. }
            | Phase::Abandoned { .. }
            | Phase::Leaving { .. }
            | Phase::Parting
            | Phase::Closed(_) => {}
        }
    }

    /// The first rung: our half closes, and the peer is expected to follow.
    fn end_stdin<E>(&mut self, now: Now, out: &mut Outputs<E>) {
        self.hold(now, false, out);
        self.outbox.clear();
        self.outbound = Outbound::Shut;
        if !matches!(self.life, Life::Exited(..)) {
            self.rung = Rung::Eof;
        }
        self.phase = Phase::Leaving { until: now.mono + self.graces.eof };
        out.act(self.id, Action::CloseWrite);
        if matches!(self.life, Life::Exited(_, Search::Unasked)) {
            self.ask(FIRST_LOOK, out);
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
            (Rung::Kill, _) | (_, Life::Given | Life::Stream) => return self.close(None, out),
        };
        out.act(self.id, Action::Signal(signal));
        self.phase = Phase::Leaving { until: now.mono + grace };
    }

    fn ask<E>(&mut self, next: Duration, out: &mut Outputs<E>) {
        if let Life::Exited(_, search) = &mut self.life {
            *search = Search::Asked { next };
            out.act(self.id, Action::Probe);
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
            Life::Given => true,
            Life::Stream => self.inbound == Inbound::Ended,
            Life::Running => false,
            Life::Exited(_, search) => self.inbound == Inbound::Ended && *search == Search::Gone,
        };
        if left && over {
            self.close(None, out);
        }
    }

    fn close<E>(&mut self, failed: Option<OpenError>, out: &mut Outputs<E>) {
        self.phase = Phase::Closed(failed);
        self.outbox.clear();
        self.outbound = Outbound::Shut;
        out.act(self.id, Action::Close);
    }

    fn keep_stderr(&mut self, bytes: &[u8]) {
        self.stderr.extend_from_slice(bytes);
        if self.stderr.len() > self.stderr_tail {
            let mut cut = self.stderr.len() - self.stderr_tail;
            // Text must not begin inside a character.
            while self.stderr.get(cut).is_some_and(|byte| byte & 0xC0 == 0x80) {
                cut += 1;
            }
            self.stderr.drain(..cut);
        }
    }
}

/// After this the system is asked again for what it was short of.
const OPEN_AGAIN: Duration = Duration::from_millis(200);
/// The pause after the first look for a living group; each further one doubles it.
const FIRST_LOOK: Duration = Duration::from_millis(15);
/// The longest pause between two looks.
const LAST_LOOK: Duration = Duration::from_millis(480);
