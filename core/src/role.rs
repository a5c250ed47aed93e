//! What every machine around one link has in common: the link, its lines, the order of a step, and the end.
//!
//! ```text
//!  input ──► link ──► opened, line, ended ──► timers of the link, then of the role ──► settle ──► one write
//!                                                                                                    │
//!                                       the last event, and the end ◄── the link is closed? ◄────────┘
//! ```
//!
//! A role says what a line means and what follows from it. It is asked only while it is up: once it parts, whatever
//! the peer still says is thrown away, the role's timers are off and commands are refused.

use std::time::Duration;

use crate::closed::{Cause, Closed};
use crate::limits::{Graces, Limits};
use crate::lines::{Line, Lines};
use crate::link::{Link, Report};
use crate::machine::{
    Deadline, Heard, Input, LinkId, Machine, Now, Open, Output, Outputs, Peer, Refused, Time, soonest,
};

/// A side of a channel that is one link of lines. Whatever has a role is a [`Machine`].
pub trait Role: Sized {
    /// What it starts from.
    type Config;
    /// What the application may ask.
    type Command;
    /// What the application is told.
    type Event;
    /// What the peer can do wrong.
    type Fault: Clone;

    /// What is wrong with a peer that takes nothing while too much waits for it, where it cannot be made to wait.
    const DEAF: Option<Self::Fault> = None;

    /// At the start of its run.
    fn start(now: Now, config: Self::Config) -> Self;

    /// The link that it speaks over.
    fn wire(&self) -> &Wire<Self::Event, Self::Fault>;

    /// Its link, to act on.
    fn wire_mut(&mut self) -> &mut Wire<Self::Event, Self::Fault>;

    /// Whether it takes the next line.
    fn takes(&self) -> Takes;

    /// Reads one line, whatever it is: what is no message is the role's to judge.
    fn line(&mut self, now: Now, line: Line<'_>);

    /// Bytes of the longest line that it takes from here on, where that changes as it goes.
    fn longest(&self) -> Option<usize> {
        None
    }

    /// Does what the application wants.
    ///
    /// # Errors
    ///
    /// As those of [`Machine::command`].
    fn obey(&mut self, now: Now, command: Self::Command) -> Result<(), Refused>;

    /// Whether that command only wants the end, and at once: it is obeyed while the role leaves, too.
    fn hastens(_command: &Self::Command) -> bool {
        false
    }

    /// The last event, where there is one.
    fn last(&mut self, closed: Closed<Self::Fault>) -> Option<Self::Event>;

    /// A step begins, with what happened on the link.
    fn step(&mut self, _now: Now, _heard: Option<Heard<'_>>) {}

    /// The link is up.
    fn opened(&mut self, _now: Now, _peer: Peer) {}

    /// The child wrote to its standard error.
    fn stderr(&mut self, _bytes: &[u8]) {}

    /// The peer has said its last line, or that line waits.
    fn ended(&mut self, now: Now) {
        self.part(now, Cause::Gone);
    }

    /// Whoever takes our events is full, or has room again.
    fn hold(&mut self, now: Now, full: bool) {
        self.wire_mut().hold(now, full);
    }

    /// Fires its own timers that are due.
    fn tick(&mut self, _now: Now) {}

    /// The earliest of its own timers.
    fn due(&self) -> Option<Deadline> {
        None
    }

    /// What follows from any step.
    fn settle(&mut self, _now: Now) {}

    /// The peer reads so slowly that whoever can wait should (`true`), or has caught up.
    fn crowded(&mut self, _crowded: bool) {}

    /// The peer takes nothing.
    fn deaf(&mut self, now: Now, fault: Self::Fault) {
        self.part(now, Cause::Fault(fault));
    }

    /// Sends what there is to send.
    fn flush(&mut self, now: Now) {
        self.wire_mut().flush(now);
    }

    /// It is about to leave: what is open is answered, and what waits fails.
    fn parting(&mut self, _now: Now, _cause: &Cause<Self::Fault>) {}

    /// Leaves. The first reason counts.
    fn part(&mut self, now: Now, cause: Cause<Self::Fault>) {
        if self.leaves(now, cause) {
            let wire = self.wire_mut();
            wire.link.leave(now, &mut wire.out);
        }
    }

    /// Leaves without waiting for anybody. The first reason counts.
    fn cut(&mut self, now: Now, cause: Cause<Self::Fault>) {
        if self.leaves(now, cause) {
            let wire = self.wire_mut();
            wire.link.cut(&mut wire.out);
        }
    }

    /// Whether it was up.
    fn leaves(&mut self, now: Now, cause: Cause<Self::Fault>) -> bool {
        let up = self.wire().is_up();
        if up {
            self.wire_mut().parted = Some(cause.clone());
            self.parting(now, &cause);
        }
        up
    }

    /// Does something from outside of a step, as a command does.
    ///
    /// # Errors
    ///
    /// The role refuses it, or is leaving.
    fn act(&mut self, now: Now, what: impl FnOnce(&mut Self) -> Result<(), Refused>) -> Result<(), Refused> {
        if !self.wire().is_up() {
            return Err(Refused::Closed);
        }
        self.step(now, None);
        let done = what(self);
        settle(self, now);
        done
    }
}

/// Whether a role takes a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Takes {
    /// Now: it has nothing open that stands in the way.
    Now,
    /// It has to wait. Whoever says so holds its link.
    Later,
    /// Never: it is thrown away.
    Never,
}

/// The link of a role, its lines, and what is said of it.
#[derive(Debug)]
pub struct Wire<E, F> {
    /// The life of the link, and what waits to be written.
    pub link: Link,
    /// What the machine wants and says.
    pub out: Outputs<E>,
    /// They are not there while one of them is read.
    lines: Lines,
    /// Why it is left, once it is.
    parted: Option<Cause<F>>,
    unsent_soft: usize,
    unsent_hard: usize,
    /// From then on a peer that takes nothing is deaf: too much is unsent.
    deaf_at: Option<Time>,
    read: Duration,
    /// Whether more was unsent than what a writer that can wait should let wait.
    crowded: bool,
}

impl<E, F> Wire<E, F> {
    /// Begins to open a link.
    pub fn open(now: Now, how: Open, limits: &Limits, graces: &Graces) -> Self {
        let mut out = Outputs::default();
        let link = Link::open(now, LinkId::FIRST, how, limits, graces, &mut out);
        Self::of(link, out, limits, graces)
    }

    /// Around a connection that a listener took.
    pub fn adopt(limits: &Limits, graces: &Graces) -> Self {
        Self::of(Link::adopt(LinkId::FIRST, limits, graces), Outputs::default(), limits, graces)
    }

    fn of(link: Link, out: Outputs<E>, limits: &Limits, graces: &Graces) -> Self {
        let &Limits { line, unsent_soft, unsent_hard, .. } = limits;
        let (lines, read) = (Lines::new(line), graces.read);
        let (parted, deaf_at, crowded) = (None, None, false);
        Self { link, out, lines, parted, unsent_soft, unsent_hard, deaf_at, read, crowded }
    }

    /// Whether nobody has left.
    pub const fn is_up(&self) -> bool {
        self.parted.is_none()
    }

    /// Why it is being left.
    pub const fn parted(&self) -> Option<&Cause<F>> {
        self.parted.as_ref()
    }

    /// News for the application.
    pub fn tell(&mut self, event: E) {
        self.out.tell(event);
    }

    /// Whether what can wait may be sent.
    ///
    /// # Errors
    ///
    /// The peer reads slowly.
    pub const fn has_room(&self) -> Result<(), Refused> {
        if self.crowded { Err(Refused::Crowded) } else { Ok(()) }
    }

    /// Queues a line of at most so many bytes that the application may send later as well.
    ///
    /// # Errors
    ///
    /// It is too long, or with it more would be unsent than what makes a peer look deaf.
    pub fn send(&mut self, most: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Refused> {
        let room = self.unsent_hard.saturating_sub(self.link.unsent() + 1);
        let sent = self.link.line_within(most.min(room), fill);
        sent.map_err(|refused| if room < most { Refused::Crowded } else { refused })
    }

    /// Queues an answer of at most so many bytes. One may be too much, since the peer waits for it; the next has to
    /// wait.
    ///
    /// # Errors
    ///
    /// It is too long, or too much is unsent.
    pub fn answer(&mut self, most: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), Refused> {
        if self.link.unsent() > self.unsent_hard {
            return Err(Refused::Crowded);
        }
        self.link.line_within(most, fill)
    }

    /// Whether the peer takes nothing of what is too much. What we say ourselves comes to less than twice the limit: what
    /// is above are answers to a peer that goes on talking.
    fn is_deaf(&mut self, now: Now) -> bool {
        let unsent = self.link.unsent();
        if unsent <= self.unsent_hard {
            self.deaf_at = None;
            return false;
        }
        let at = *self.deaf_at.get_or_insert(now.mono + self.read);
        at <= now.mono || unsent > 2 * self.unsent_hard
    }

    /// Whether the peer has become slow, or has caught up, if that is news.
    fn flow(&mut self) -> Option<bool> {
        // Half, so that a peer that reads slowly does not toggle it with each line.
        let most = if self.crowded { self.unsent_soft / 2 } else { self.unsent_soft };
        let crowded = self.link.unsent() > most;
        (std::mem::replace(&mut self.crowded, crowded) != crowded).then_some(crowded)
    }

    /// Bytes of lines that had to wait.
    pub const fn waiting(&self) -> usize {
        self.lines.waiting()
    }

    /// Bytes of a line whose end has not come.
    pub const fn unfinished(&self) -> usize {
        self.lines.held()
    }

    /// Stops or resumes reading.
    pub fn hold(&mut self, now: Now, hold: bool) {
        self.link.hold(now, hold, &mut self.out);
    }

    /// Sends what there is to send, unless a write is outstanding.
    pub fn flush(&mut self, now: Now) {
        self.link.flush(now, &mut self.out);
    }
}

impl<R: Role> Machine for R {
    type Config = <R as Role>::Config;
    type Command = <R as Role>::Command;
    type Event = <R as Role>::Event;

    fn new(now: Now, config: <R as Role>::Config) -> Self {
        R::start(now, config)
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if self.wire().link.is_closed() {
            return;
        }
        let heard = if let Input::Link(LinkId::FIRST, heard) = input { Some(heard) } else { None };
        self.step(now, heard);
        if let Some(heard) = heard {
            let wire = self.wire_mut();
            if let Heard::Written = heard {
                wire.deaf_at = None;
            }
            let report = wire.link.heard(now, heard, &mut wire.out);
            take_in(self, now, report);
        } else if let Input::Hold(full) = input {
            self.hold(now, full);
        }
        // Behind what was heard: what lay in the pipe counts before a deadline that has passed meanwhile.
        let wire = self.wire_mut();
        let report = wire.link.tick(now, &mut wire.out);
        take_in(self, now, report);
        if self.wire().is_up() {
            self.tick(now);
        }
        settle(self, now);
    }

    fn command(&mut self, now: Now, command: <R as Role>::Command) -> Result<(), Refused> {
        if !self.wire().is_up() && !self.wire().link.is_closed() && R::hastens(&command) {
            let wire = self.wire_mut();
            wire.link.hasten(now, &mut wire.out);
            settle(self, now);
            return Ok(());
        }
        self.act(now, |role| role.obey(now, command))
    }

    fn poll(&mut self) -> Option<Output<<R as Role>::Event>> {
        self.wire_mut().out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        let wire = self.wire();
        let deaf = wire.deaf_at.map(|at| (at, "take what is sent"));
        let own = if wire.is_up() { soonest(self.due(), deaf) } else { None };
        soonest(wire.link.deadline(), own)
    }
}

fn take_in<R: Role>(role: &mut R, now: Now, report: Report<'_>) {
    match report {
        Report::Quiet => {}
        Report::Stderr(bytes) => role.stderr(bytes),
        Report::Bytes(bytes) => read(role, now, bytes),
        Report::Opened(peer) => role.opened(now, peer),
        Report::Failed(error) => role.part(now, Cause::Failed(error)),
        Report::Ended => {
            // An unterminated last line is a line.
            read(role, now, b"\n");
            if role.wire().is_up() {
                role.ended(now);
            }
        }
    }
}

/// The end of every step.
fn settle<R: Role>(role: &mut R, now: Now) {
    // What had to wait comes first: this step may have made room for it.
    go_on(role, now);
    watch_unsent(role, now);
    if role.wire().is_up() {
        if let Some(crowded) = role.wire_mut().flow() {
            role.crowded(crowded);
        }
        role.settle(now);
    }
    if role.wire().is_up() {
        role.flush(now);
    } else {
        // A role may keep answers back to send them together. Once it leaves nothing more comes.
        role.wire_mut().flush(now);
    }
    if role.wire().link.is_closed() {
        // A link may end without anybody having left: its child was killed, say.
        role.part(now, Cause::Gone);
        let wire = role.wire();
        let (cause, obituary) = (wire.parted.clone(), wire.link.obituary());
        let last = cause.and_then(|cause| role.last(Closed { cause, obituary }));
        let wire = role.wire_mut();
        last.into_iter().for_each(|event| wire.tell(event));
        wire.out.end();
    }
}

/// Looked at after each line: what came in one read can ask for many times its size.
fn watch_unsent<R: Role>(role: &mut R, now: Now) {
    if let Some(fault) = R::DEAF
        && role.wire().is_up()
        && role.wire_mut().is_deaf(now)
    {
        role.deaf(now, fault);
    }
}

fn read<R: Role>(role: &mut R, now: Now, bytes: &[u8]) {
    let mut lines = lend(role);
    // Behind what waits already, so that lines are read in the order they came.
    let left = if lines.waiting() == 0 { take(role, now, &mut lines, bytes) } else { bytes };
    lines.wait(left);
    role.wire_mut().lines = lines;
}

/// Goes on with what had to wait.
fn go_on<R: Role>(role: &mut R, now: Now) {
    if role.wire().waiting() > 0 {
        let mut lines = lend(role);
        lines.resume(|lines, bytes| take(role, now, lines, bytes).len());
        role.wire_mut().lines = lines;
    }
}

fn lend<R: Role>(role: &mut R) -> Lines {
    std::mem::replace(&mut role.wire_mut().lines, Lines::new(0))
}

/// Reads lines as long as they are taken, and returns what has to wait.
fn take<'a, R: Role>(role: &mut R, now: Now, lines: &mut Lines, bytes: &'a [u8]) -> &'a [u8] {
    let mut feed = lines.feed(bytes);
    loop {
        if let Some(longest) = role.longest() {
            feed.limit(longest);
        }
        match if role.wire().is_up() { role.takes() } else { Takes::Never } {
            Takes::Now => match feed.next() {
                Some(line) => {
                    role.line(now, line);
                    watch_unsent(role, now);
                }
                None => return &[],
            },
            Takes::Later => {
                let left = feed.stop();
                return bytes.get(bytes.len() - left..).unwrap_or_default();
            }
            Takes::Never => return &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Action, Exit};

    /// Takes one line at a time, and none after one that says so.
    struct Slow {
        wire: Wire<String, String>,
        seen: Vec<String>,
        busy: bool,
    }

    impl Role for Slow {
        type Config = ();
        type Command = ();
        type Event = String;
        type Fault = String;

        fn start(_: Now, (): ()) -> Self {
            let limits = Limits { line: 10, ..Limits::default() };
            Self { wire: Wire::adopt(&limits, &Graces::default()), seen: Vec::new(), busy: false }
        }

        fn wire(&self) -> &Wire<String, String> {
            &self.wire
        }

        fn wire_mut(&mut self) -> &mut Wire<String, String> {
            &mut self.wire
        }

        fn takes(&self) -> Takes {
            match self.seen.last() {
                Some(last) if last == "Text(\"stop\")" => Takes::Never,
                Some(_) if self.busy => Takes::Later,
                Some(_) | None => Takes::Now,
            }
        }

        fn line(&mut self, now: Now, line: Line<'_>) {
            self.seen.push(format!("{line:?}"));
            self.busy = true;
            if line == Line::Text("leave") {
                self.part(now, Cause::Fault("first".to_owned()));
                self.part(now, Cause::Left);
            }
        }

        fn obey(&mut self, _: Now, (): ()) -> Result<(), Refused> {
            self.busy = false;
            Ok(())
        }

        fn ended(&mut self, _: Now) {}

        fn last(&mut self, closed: Closed<String>) -> Option<String> {
            Some(closed.cause.to_string())
        }
    }

    impl Slow {
        fn hear(&mut self, heard: Heard<'_>) -> Vec<Output<String>> {
            self.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
            std::iter::from_fn(|| self.poll()).collect()
        }
    }

    #[test]
    fn what_a_slow_reader_takes_later_is_the_same() {
        let stream = b"ab\n\ncd\r\n0123456789a\nef\n\xff\ngh";
        let whole = [
            "Text(\"ab\")",
            "Text(\"cd\")",
            &format!("{:?}", Line::TooLong(b"0123456789")),
            "Text(\"ef\")",
            "NotUtf8([255])",
            "Text(\"gh\")",
        ];
        for (first, second) in
            (0..=stream.len()).flat_map(|second| (0..=second).map(move |first| (first, second)))
        {
            let mut slow = Slow::new(Now::default(), ());
            for piece in [&stream[..first], &stream[first..second], &stream[second..]] {
                slow.hear(Heard::Bytes(piece));
                let _ = slow.command(Now::default(), ());
            }
            slow.hear(Heard::Eof);
            while slow.wire.waiting() > 0 {
                let _ = slow.command(Now::default(), ());
            }
            assert_eq!(slow.seen, whole, "{first} {second}");
        }
    }

    #[test]
    fn what_nobody_will_take_is_not_kept() {
        let mut slow = Slow::new(Now::default(), ());
        slow.hear(Heard::Bytes(b"x\na\nstop\nb\n"));
        assert_eq!(slow.wire.waiting(), 9);
        for _ in 0..2 {
            let _ = slow.command(Now::default(), ());
        }
        slow.hear(Heard::Bytes(b"c\n"));
        assert_eq!((slow.wire.waiting(), slow.seen.len()), (0, 3));
    }

    #[test]
    fn whoever_leaves_hears_nothing_more_and_says_the_first_reason_once() {
        let mut slow = Slow::new(Now::default(), ());
        let told = slow.hear(Heard::Bytes(b"leave\nab\ncd\n"));
        assert_eq!(told, [Output::Do(LinkId::FIRST, Action::CloseWrite)]);
        assert_eq!((slow.wire.waiting(), slow.seen.len()), (0, 1));
        assert_eq!(slow.command(Now::default(), ()), Err(Refused::Closed));
        let told = slow.hear(Heard::Eof);
        let last = [Output::Do(LinkId::FIRST, Action::Close), Output::Tell("first".to_owned()), Output::End];
        assert_eq!(told, last);
        assert_eq!(slow.hear(Heard::Exited(Exit::Code(0))), []);
    }
}
