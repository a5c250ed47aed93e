//! One client of a server: framing, refusals, order, silence and lag. Knows no command.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use serde::Serialize;

use super::failure::ErrorTag;
use super::server::Config;
use super::wire::{self, Answer, Asked, Request, RequestId};
use crate::closed::{Cause, Closed};
use crate::lines::Line;
use crate::link::Link;
use crate::machine::{Deadline, Heard, Now, Peer, Refused, Time, soonest};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{After, Json};

/// What is wrong with an answer that no client would take.
const TOO_LONG: Refused = Refused::Limit("bytes of an answer");

#[derive(Debug)]
pub(super) struct Connection {
    wire: Wire<Event, Infallible>,
    state: State,
    /// The number of the newest request.
    newest: u32,
    /// Answers are kept until then for the one that the application is about to give.
    gather: Option<Time>,
    /// Whoever takes our events is full.
    full: bool,
    /// Bytes of an unfinished line, as they were told last.
    kept: usize,
    peer: Peer,
    /// Frames that are written as the client reads: how things stand, and behind it what happens meanwhile, which counts.
    pending: VecDeque<(Json, bool)>,
    /// Bytes of those that count.
    counted: usize,
    config: Arc<Config>,
}

/// Where the conversation stands; the module shows it as a diagram.
#[derive(Debug)]
enum State {
    /// The client may speak, until then.
    Waiting { until: Time },
    /// A request is with the application. What the client says meanwhile waits.
    Answering(Open),
    /// The answer is a stream. So many frames were dropped since the last one. `stalled`: what is unsent has to be
    /// taken by then.
    Streaming { open: Open, lost: u64, stalled: Option<Time> },
    /// Everything is said. The client has until then to take it.
    Finishing { until: Time },
}

/// A request whose answer is not complete.
#[derive(Debug)]
struct Open {
    number: u32,
    id: Option<RequestId>,
}

#[derive(Debug)]
pub(super) enum Event {
    Requested(u32, Request),
    /// A watcher that was too slow has room again, and was told that it missed so many frames.
    CaughtUp(u32, u64),
    /// Nobody waits for the answer any more.
    Abandoned(u32),
    /// So many bytes of an unfinished line are kept.
    Keeps(usize),
}

#[derive(Debug)]
pub(super) enum Command {
    /// To the request of that number.
    Answer(u32, Answer),
    /// To the request of that number: how things stand.
    State(u32, Vec<Json>),
    /// Others want its seat.
    Yield,
    /// Its unfinished line is too much, with those of others.
    Overflow,
    /// The server stops, for that reason.
    Leave(String),
}

impl Role for Connection {
    type Config = (Arc<Config>, Peer);
    type Command = Command;
    type Event = Event;
    type Fault = Infallible;

    fn start(now: Now, (config, peer): (Arc<Config>, Peer)) -> Self {
        Self {
            wire: Wire::adopt(&config.limits, &config.graces),
            state: State::Waiting { until: now.mono + config.idle },
            newest: 0,
            gather: None,
            full: false,
            kept: 0,
            peer,
            pending: VecDeque::new(),
            counted: 0,
            config,
        }
    }

    fn wire(&self) -> &Wire<Event, Infallible> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Event, Infallible> {
        &mut self.wire
    }

    fn step(&mut self, now: Now, heard: Option<Heard<'_>>) {
        if let Some(Heard::Written) = heard {
            self.restart(now);
        }
    }

    fn takes(&self) -> Takes {
        match self.state {
            State::Waiting { .. } if !self.wire.link.is_open() => Takes::Never,
            State::Waiting { .. } if self.may_take() => Takes::Now,
            State::Waiting { .. } | State::Answering(_) => Takes::Later,
            // A stream is the last thing on its connection: a Galley reads nothing behind it, so no client may count
            // on more.
            State::Streaming { .. } | State::Finishing { .. } => Takes::Never,
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        let asked = wire::asked(line, &self.config.limits);
        self.asked(now, asked);
    }

    /// A client that has closed its half is still answered.
    fn ended(&mut self, _: Now) {}

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Answer(number, answer) => self.answer(now, number, answer),
            Command::State(number, frames) => self.state(number, frames),
            Command::Yield => {
                let message = "connection idle, and others wait for its seat";
                self.turn_away(now, ErrorTag::IdleTimeout, message);
                Ok(())
            }
            Command::Overflow => {
                let message = "too many long requests are unfinished: send this one again later";
                self.turn_away(now, ErrorTag::Busy, message);
                Ok(())
            }
            Command::Leave(reason) => {
                self.dismiss(now, reason);
                Ok(())
            }
        }
    }

    fn hold(&mut self, now: Now, full: bool) {
        self.full = full;
        self.restart(now);
    }

    fn tick(&mut self, now: Now) {
        match self.state {
            // While we are full its next line may lie in the pipe, unread.
            State::Waiting { until } if until <= now.mono && !self.full => {
                let message = format!("connection idle > {}s", self.config.idle.as_secs());
                self.say(None, &Answer::fail(ErrorTag::IdleTimeout, message));
                self.part(now, Cause::Left);
            }
            State::Finishing { until } if until <= now.mono => self.part(now, Cause::Left),
            State::Streaming { stalled: Some(until), .. } if until <= now.mono => {
                self.dismiss(now, "stalled".to_owned());
            }
            State::Waiting { .. }
            | State::Answering(_)
            | State::Streaming { .. }
            | State::Finishing { .. } => {}
        }
    }

    fn due(&self) -> Option<Deadline> {
        let own = match self.state {
            State::Waiting { until } if !self.full => Some((until, "idle")),
            State::Finishing { until } => Some((until, "take the last answer")),
            State::Streaming { stalled: Some(until), .. } => Some((until, "take a frame")),
            State::Waiting { .. } | State::Answering(_) | State::Streaming { stalled: None, .. } => None,
        };
        soonest(own, self.gather.map(|until| (until, "send what is answered")))
    }

    fn settle(&mut self, now: Now) {
        if !self.wire.link.is_open() {
            return self.part(now, Cause::Gone);
        }
        self.feed(self.config.limits.write);
        self.catch_up();
        self.watch(now);
        self.weigh();
        if let State::Waiting { until } = self.state
            && self.wire.link.has_ended()
            && self.wire.waiting() == 0
        {
            // It asks no more, but may still read what it asked for.
            self.state = State::Finishing { until };
        }
        if self.wire.link.unsent() == 0 && matches!(self.state, State::Finishing { .. }) {
            return self.part(now, Cause::Left);
        }
        // Some of what is asked ahead is kept, so that the next answer needs no read; the rest stays in the pipe.
        let full = self.full || self.wire.waiting() >= self.config.limits.write;
        self.wire.hold(now, full);
    }

    /// Whoever asks ahead gets its answers together, as far as they come at once.
    fn flush(&mut self, now: Now) {
        let more = matches!(self.state, State::Answering(_))
            && self.wire.link.has_unflushed()
            && self.wire.link.unsent() < self.config.limits.write;
        self.gather = match self.gather {
            None if more => Some(now.mono + self.config.gather),
            Some(until) if more && until > now.mono => Some(until),
            None | Some(_) => None,
        };
        if self.gather.is_none() {
            self.wire.flush(now);
        }
    }

    /// Nobody waits for what is open any more.
    fn parting(&mut self, now: Now, _: &Cause<Infallible>) {
        if let Some((open, _)) = self.take_open(State::Finishing { until: now.mono }) {
            self.wire.tell(Event::Abandoned(open.number));
        }
    }

    fn last(&mut self, _: Closed<Infallible>) -> Option<Event> {
        None
    }
}

impl Connection {
    /// The client did its part: it took an answer, or it was us who kept it waiting.
    fn restart(&mut self, now: Now) {
        match &mut self.state {
            State::Waiting { until } | State::Finishing { until } => *until = now.mono + self.config.idle,
            State::Streaming { stalled, .. } => *stalled = None,
            State::Answering(_) => {}
        }
    }

    /// A watcher that takes nothing is not kept for ever.
    fn watch(&mut self, now: Now) {
        if let State::Streaming { stalled, .. } = &mut self.state {
            let due = stalled.unwrap_or(now.mono + self.config.stall);
            *stalled = (self.wire.link.unsent() > 0).then_some(due);
        }
    }

    /// Says how much of an unfinished line it keeps, if that is much.
    fn weigh(&mut self) {
        let kept = self.wire.unfinished();
        let kept = if kept > self.config.limits.write { kept } else { 0 };
        if std::mem::replace(&mut self.kept, kept) != kept {
            self.wire.tell(Event::Keeps(kept));
        }
    }

    /// Who it is, as far as the system says.
    pub(super) const fn peer(&self) -> Peer {
        self.peer
    }

    /// When it may be asked to make room for others; `None` while it is not idle.
    pub(super) fn yields(&self) -> Option<Time> {
        let State::Waiting { until } = self.state else { return None };
        let early = self.config.idle.saturating_sub(self.config.patience);
        let early = u64::try_from(early.as_micros()).unwrap_or(u64::MAX);
        (self.wire.is_up() && !self.full).then(|| Time::from_micros(until.as_micros().saturating_sub(early)))
    }

    /// Whether there is room for one more request, and for its answer.
    fn may_take(&self) -> bool {
        !self.full && self.wire.link.unsent() < self.config.limits.unsent_soft
    }

    fn asked(&mut self, now: Now, Asked { id, request, after }: Asked) {
        match request {
            Ok(request) => {
                // An answer names its request, so that a late one cannot become the answer to the next.
                self.newest = self.newest.wrapping_add(1);
                self.state = State::Answering(Open { number: self.newest, id });
                self.wire.tell(Event::Requested(self.newest, request));
            }
            Err(failure) => {
                self.say(id.as_ref(), &Answer::Fail(failure));
                self.restart(now);
                if let (After::End, State::Waiting { until }) = (after, &self.state) {
                    self.state = State::Finishing { until: *until };
                }
            }
        }
    }

    fn answer(&mut self, now: Now, number: u32, answer: Answer) -> Result<(), Refused> {
        self.check(number, &answer)?;
        let until = now.mono + self.config.idle;
        let stalled = if let State::Streaming { stalled, .. } = self.state { stalled } else { None };
        let Some((open, lost)) = self.take_open(State::Waiting { until }) else {
            return Err(Refused::Unknown);
        };
        self.state = match answer {
            Answer::Frame(_) if self.wire.link.unsent() + self.counted >= self.config.watch => {
                State::Streaming { open, lost: lost.saturating_add(1), stalled }
            }
            Answer::Frame(frame) if !self.pending.is_empty() => {
                self.counted += frame.get().len();
                self.pending.push_back((frame, true));
                State::Streaming { open, lost, stalled }
            }
            Answer::Frame(_) => {
                self.say(open.id.as_ref(), &answer);
                State::Streaming { open, lost, stalled }
            }
            Answer::Reply(_) | Answer::Fail(_) => {
                self.say(open.id.as_ref(), &answer);
                State::Waiting { until }
            }
            Answer::End(_) => {
                self.say_pending(&open, usize::MAX);
                say_lost(&mut self.wire.link, &open, lost);
                self.say(open.id.as_ref(), &answer);
                State::Finishing { until }
            }
        };
        Ok(())
    }

    /// How things stand, whatever it takes: it is written as the client reads.
    fn state(&mut self, number: u32, frames: Vec<Json>) -> Result<(), Refused> {
        if !self.is_open(number) {
            return Err(Refused::Unknown);
        }
        if frames.iter().any(|frame| frame.get().len() > self.config.answer) {
            return Err(TOO_LONG);
        }
        let stalled = if let State::Streaming { stalled, .. } = self.state { stalled } else { None };
        let Some((open, lost)) = self.take_open(State::Waiting { until: Time::ZERO }) else {
            return Err(Refused::Unknown);
        };
        self.state = State::Streaming { open, lost, stalled };
        self.pending.extend(frames.into_iter().map(|frame| (frame, false)));
        Ok(())
    }

    /// Writes what waits for the client to read, as far as there is room.
    fn feed(&mut self, room: usize) {
        let state = std::mem::replace(&mut self.state, State::Waiting { until: Time::ZERO });
        if let State::Streaming { open, .. } = &state {
            self.say_pending(open, room);
        }
        self.state = state;
    }

    fn say_pending(&mut self, open: &Open, room: usize) {
        while self.wire.link.unsent() < room
            && let Some((frame, counts)) = self.pending.pop_front()
        {
            self.counted -= if counts { frame.get().len() } else { 0 };
            self.say(open.id.as_ref(), &Answer::Frame(frame));
        }
    }

    /// Whether that request is the one that is open.
    fn is_open(&self, number: u32) -> bool {
        match &self.state {
            State::Answering(open) | State::Streaming { open, .. } => open.number == number,
            State::Waiting { .. } | State::Finishing { .. } => false,
        }
    }

    fn check(&self, number: u32, answer: &Answer) -> Result<(), Refused> {
        if !self.is_open(number) {
            return Err(Refused::Unknown);
        }
        let streaming = matches!(self.state, State::Streaming { .. });
        match answer {
            Answer::Reply(_) | Answer::Fail(_) if streaming => {
                Err(Refused::Invalid("a stream takes frames and an end"))
            }
            _ if answer.len() > self.config.answer => Err(TOO_LONG),
            Answer::Reply(_) | Answer::Fail(_) | Answer::Frame(_) | Answer::End(_) => Ok(()),
        }
    }

    /// Takes the open request out, with the frames lost since its last one.
    fn take_open(&mut self, next: State) -> Option<(Open, u64)> {
        match std::mem::replace(&mut self.state, next) {
            State::Answering(open) => Some((open, 0)),
            State::Streaming { open, lost, .. } => Some((open, lost)),
            other @ (State::Waiting { .. } | State::Finishing { .. }) => {
                self.state = other;
                None
            }
        }
    }

    /// The server stops: what is open gets a last line.
    fn dismiss(&mut self, now: Now, reason: String) {
        let last = match self.state {
            State::Streaming { .. } => Answer::End(reason),
            State::Waiting { .. } | State::Answering(_) | State::Finishing { .. } => {
                Answer::fail(ErrorTag::AppUnavailable, "the server is stopping")
            }
        };
        if let Some((open, lost)) = self.take_open(State::Finishing { until: now.mono }) {
            say_lost(&mut self.wire.link, &open, lost);
            self.say(open.id.as_ref(), &last);
            self.wire.tell(Event::Abandoned(open.number));
        }
        self.part(now, Cause::Left);
    }

    fn turn_away(&mut self, now: Now, tag: ErrorTag, message: &str) {
        self.say(None, &Answer::fail(tag, message));
        self.part(now, Cause::Left);
    }

    /// Tells a watcher that has caught up what it missed.
    fn catch_up(&mut self) {
        if let State::Streaming { open, lost, .. } = &mut self.state
            && *lost > 0
            && self.pending.is_empty()
            && self.wire.link.unsent() < self.config.watch
        {
            let lost = std::mem::take(lost);
            say_lost(&mut self.wire.link, open, lost);
            self.wire.out.tell(Event::CaughtUp(open.number, lost));
        }
    }

    fn say(&mut self, id: Option<&RequestId>, answer: &Answer) {
        self.wire.link.line(|buf| wire::answer(buf, id, answer));
    }
}

fn say_lost(link: &mut Link, open: &Open, lost: u64) {
    if lost > 0 {
        let lagged = Answer::frame(&Lagged { kind: "lagged", lost });
        link.line(|buf| wire::answer(buf, open.id.as_ref(), &lagged));
    }
}

/// What a slow watcher gets in place of the frames it was too slow for.
#[derive(Serialize)]
struct Lagged {
    kind: &'static str,
    lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Action, Address, Input, LinkId, Machine, Output};

    #[test]
    fn what_waits_for_a_client_that_does_not_read_is_bounded_however_much_it_asks() {
        let mut config = Config::new(Address("/s".into()));
        config.limits.unsent_soft = 1000;
        let mut connection = Connection::new(Now::default(), (Arc::new(config), Peer::default()));
        let mut hear = |heard: Heard<'_>| {
            connection.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
            assert!(connection.wire.link.unsent() < 1200, "{}", connection.wire.link.unsent());
            let written = std::iter::from_fn(|| connection.poll()).filter_map(|output| match output {
                Output::Do(_, Action::Write(bytes)) => Some(bytes),
                Output::Do(..) | Output::Tell(_) | Output::Store(..) | Output::End => None,
            });
            written.flatten().filter(|byte| *byte == b'\n').count()
        };
        let mut answers = hear(Heard::Bytes(&b"no\n".repeat(1000)));
        for _ in 0..1000 {
            answers += hear(Heard::Written);
        }
        assert_eq!(answers, 1000);
    }

    #[test]
    fn how_things_stand_is_never_lost_and_comes_before_what_happens_meanwhile() {
        let mut config = Config::new(Address("/s".into()));
        (config.watch, config.limits.write) = (2000, 500);
        let mut connection = Connection::new(Now::default(), (Arc::new(config), Peer::default()));
        let mut wrote = String::new();
        let mut step = |connection: &mut Connection, heard: Heard<'_>| {
            connection.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
            for output in std::iter::from_fn(|| connection.poll()) {
                if let Output::Do(_, Action::Write(bytes)) = output {
                    wrote += &String::from_utf8_lossy(&bytes);
                }
            }
        };
        step(&mut connection, Heard::Bytes(b"{\"command\":\"watch\"}\n"));
        let frame = |n: usize| Json::new(&format!("{n:0100}"));
        let state = (0..100).map(frame).collect();
        assert_eq!(connection.command(Now::default(), Command::State(1, state)), Ok(()));
        for n in 100..150 {
            let frame = Command::Answer(1, Answer::Frame(frame(n)));
            assert_eq!(connection.command(Now::default(), frame), Ok(()));
        }
        (0..200).for_each(|_| step(&mut connection, Heard::Written));
        let expected = (0..).map(|n| format!("{n:0100}"));
        let lines: Vec<&str> = wrote.lines().collect();
        let (last, told) = lines.split_last().expect("lines");
        assert!(told.iter().zip(expected).all(|(line, number)| line.contains(&number)));
        assert!((110..130).contains(&told.len()), "{}", told.len());
        let lost = 150 - told.len();
        assert!(last.contains(&format!("{{\"kind\":\"lagged\",\"lost\":{lost}}}")), "{last}");
    }
}
