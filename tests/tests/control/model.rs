//! One connection of the server against a model of it, written from the protocol.

use std::collections::VecDeque;
use std::time::Duration;

use agentline_core::control::server::{Command, Config, Event};
use agentline_core::control::{Answer, ErrorTag, Key, Server};
use agentline_core::{Address, Heard, Input, Limits, LinkId, Refused, Time};

use super::bench::{Bench, Dice};

const IDLE: Duration = Duration::from_secs(90);
/// Four frames exactly.
const WATCH: usize = 112;
const SOFT: usize = 200;
const WRITE: usize = 64;

/// What a line of the client comes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Line {
    Request,
    Refused(&'static str),
    /// The last one that is read.
    TooLong(&'static str),
    /// The end of the input takes its turn like a line.
    End,
}

const LINES: [(&str, Option<Line>); 5] = [
    ("{\"command\":\"c\"}\n", Some(Line::Request)),
    ("\r\n", None),
    (
        "[]\n",
        Some(Line::Refused(r#"{"ok":false,"error":"invalid_args","message":"malformed request JSON"}"#)),
    ),
    (
        "{\"command\":\"c\",\"schemaVersion\":2}\n",
        Some(Line::Refused(
            r#"{"ok":false,"error":"schema_mismatch","message":"schema version 2 is not supported, 1 is"}"#,
        )),
    ),
    (
        "{\"command\":\"0123456789012345678901234567890123456789\"}\n",
        Some(Line::TooLong(
            r#"{"ok":false,"error":"invalid_args","message":"request line longer than 45 bytes"}"#,
        )),
    ),
];

#[derive(Debug)]
struct Model {
    now: Time,
    state: State,
    waiting: VecDeque<Line>,
    half_closed: bool,
    full: bool,
    /// What the client is to get.
    lines: String,
    acked: usize,
    /// What the application is to hear since the last look.
    told: Vec<&'static str>,
}

#[derive(Debug, Eq, PartialEq)]
enum State {
    Waiting(Time),
    Answering,
    Streaming(usize),
    Finishing(Time),
    Gone,
}

impl Model {
    fn new() -> Self {
        Self {
            now: Time::ZERO,
            state: State::Waiting(Time::ZERO + IDLE),
            waiting: VecDeque::new(),
            half_closed: false,
            full: false,
            lines: String::new(),
            acked: 0,
            told: Vec::new(),
        }
    }

    fn unsent(&self) -> usize {
        self.lines.len() - self.acked
    }

    fn say(&mut self, line: &str) {
        self.lines += line;
        self.lines += "\n";
    }

    fn answer(&mut self, answer: &Answer) -> Result<(), Refused> {
        let lost = match self.state {
            State::Answering => 0,
            State::Streaming(_) if matches!(answer, Answer::Reply(_) | Answer::Fail(_)) => {
                return Err(Refused::Invalid("a stream takes frames and an end"));
            }
            State::Streaming(lost) => lost,
            State::Waiting(_) | State::Finishing(_) | State::Gone => {
                return Err(Refused::Unknown);
            }
        };
        match answer {
            Answer::Reply(_) => {
                self.say(r#"{"ok":true,"result":1}"#);
                self.state = State::Waiting(self.now + IDLE);
            }
            Answer::Fail(_) => {
                self.say(r#"{"ok":false,"error":"busy","message":"m"}"#);
                self.state = State::Waiting(self.now + IDLE);
            }
            Answer::Frame(_) if self.unsent() >= WATCH => self.state = State::Streaming(lost + 1),
            Answer::Frame(_) => {
                self.say(r#"{"stream":"event","data":2}"#);
                self.state = State::Streaming(lost);
            }
            Answer::End(_) => {
                self.lagged(lost);
                self.say(r#"{"stream":"end","reason":"r"}"#);
                self.state = State::Finishing(self.now + IDLE);
            }
        }
        Ok(())
    }

    fn lagged(&mut self, lost: usize) {
        if lost > 0 {
            self.say(&format!(r#"{{"stream":"event","data":{{"kind":"lagged","lost":{lost}}}}}"#));
        }
    }

    fn acked(&mut self, bytes: usize) {
        self.acked += bytes;
        self.restart();
    }

    fn restart(&mut self) {
        if let State::Waiting(until) | State::Finishing(until) = &mut self.state {
            *until = self.now + IDLE;
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        match self.state {
            State::Waiting(until) if until <= self.now && !self.full => {
                self.say(r#"{"ok":false,"error":"idle_timeout","message":"connection idle > 90s"}"#);
                self.state = State::Gone;
            }
            State::Finishing(until) if until <= self.now => self.state = State::Gone,
            State::Waiting(_)
            | State::Answering
            | State::Streaming(_)
            | State::Finishing(_)
            | State::Gone => {}
        }
    }

    fn lose(&mut self) {
        if matches!(self.state, State::Answering | State::Streaming(_)) {
            self.told.push("abandoned");
        }
        self.state = State::Gone;
    }

    fn settle(&mut self) {
        while let State::Waiting(until) = self.state
            && !self.full
            && self.unsent() < SOFT
            && let Some(line) = self.waiting.pop_front()
        {
            match line {
                Line::Request => {
                    self.told.push("requested");
                    self.state = State::Answering;
                }
                Line::Refused(answer) => {
                    self.say(answer);
                    self.restart();
                }
                Line::TooLong(answer) => {
                    self.say(answer);
                    self.state = State::Finishing(self.now + IDLE);
                }
                Line::End => self.state = State::Finishing(until),
            }
        }
        if let State::Streaming(lost) = self.state
            && self.unsent() < WATCH
        {
            self.lagged(lost);
            if lost > 0 {
                self.told.push("caught up");
            }
            self.state = State::Streaming(0);
        }
        if self.unsent() == 0 && matches!(self.state, State::Finishing(_)) {
            self.state = State::Gone;
        }
        if !matches!(self.state, State::Waiting(_) | State::Answering) {
            self.waiting.clear();
        }
    }
}

struct Run {
    bench: Bench<Server>,
    link: LinkId,
    model: Model,
    keys: Vec<Key>,
    /// Answers are kept for the next one since then.
    waits_since: Option<Time>,
    dice: Dice,
}

impl Run {
    fn new(seed: u64) -> Self {
        let config = Config::new(Address("/run/control.sock".into()));
        let limits = Limits { line: 45, unsent_soft: SOFT, write: WRITE, ..config.limits };
        let mut bench = Bench::<Server>::new(Config {
            limits,
            watch: WATCH,
            stall: Duration::from_secs(1 << 30),
            ..config
        });
        let link = bench.accept(0);
        bench.told();
        bench.acks = false;
        Self { bench, link, model: Model::new(), keys: Vec::new(), waits_since: None, dice: Dice(seed) }
    }

    fn step(&mut self) -> String {
        let deaf = self.bench.wire(self.link).unread || self.model.half_closed;
        let op = match self.dice.below(16) {
            0..5 if !deaf => self.lines(),
            5..10 => self.answer(),
            10..13 => self.ack(),
            13 => self.pass(),
            14 => self.hold(),
            15 => self.end(deaf),
            _ => "nothing".to_owned(),
        };
        self.model.settle();
        op
    }

    fn lines(&mut self) -> String {
        let mut bytes = String::new();
        for _ in 0..=self.dice.below(3) {
            let (text, line) = LINES[self.dice.below(LINES.len())];
            bytes += text;
            self.model.waiting.extend(line);
        }
        let cut = self.dice.below(bytes.len());
        for piece in [&bytes.as_bytes()[..cut], &bytes.as_bytes()[cut..]] {
            self.bench.bytes(self.link, piece);
        }
        format!("the client says {bytes:?}, cut at {cut}")
    }

    fn answer(&mut self) -> String {
        let answer = match self.dice.below(4) {
            0 => Answer::reply(&1),
            1 => Answer::fail(ErrorTag::Busy, "m"),
            2 => Answer::frame(&2),
            _ => Answer::End("r".to_owned()),
        };
        let newest = self.keys.len().saturating_sub(1);
        let stale = self.dice.below(4) == 0 && newest > 0;
        let at = if stale { self.dice.below(newest) } else { newest };
        let Some(key) = self.keys.get(at).copied() else { return "nothing".to_owned() };
        let expected = if stale { Err(Refused::Unknown) } else { self.model.answer(&answer) };
        let op = format!("the application says {answer:?} to request {at}");
        assert_eq!(self.bench.command(Command::Answer(key, answer)), expected, "{op}");
        op
    }

    fn ack(&mut self) -> String {
        let bytes = self.bench.wire(self.link).outstanding;
        if bytes > 0 {
            self.model.acked(bytes);
            self.bench.ack(self.link);
        }
        format!("{bytes} bytes are sent")
    }

    fn pass(&mut self) -> String {
        let span = Duration::from_secs([1, 30, 89, 90][self.dice.below(4)]);
        self.model.pass(span);
        self.bench.pass(span);
        format!("{span:?} pass")
    }

    fn hold(&mut self) -> String {
        self.model.full = !self.model.full;
        self.model.restart();
        self.bench.feed(Input::Hold(self.model.full));
        format!("hold {}", self.model.full)
    }

    fn end(&mut self, deaf: bool) -> String {
        if deaf || self.dice.below(4) == 0 {
            self.model.lose();
            self.bench.hear(self.link, Heard::WriteFailed);
            return "the client is gone".to_owned();
        }
        self.model.half_closed = true;
        self.model.waiting.push_back(Line::End);
        self.bench.hear(self.link, Heard::Eof);
        "the client closes its half".to_owned()
    }

    fn check(&mut self) {
        let mut told = Vec::new();
        for event in self.bench.told() {
            match event {
                Event::Requested(key, _) => {
                    assert!(!self.keys.contains(&key), "a key is given twice");
                    self.keys.push(key);
                    told.push("requested");
                }
                Event::Abandoned(key) => {
                    assert_eq!(self.keys.last(), Some(&key));
                    told.push("abandoned");
                }
                Event::CaughtUp(key, _) => {
                    assert_eq!(self.keys.last(), Some(&key));
                    told.push("caught up");
                }
                Event::Listening | Event::Closed(_) => panic!("{event:?}"),
            }
        }
        assert_eq!(told, std::mem::take(&mut self.model.told));
        let wire = self.bench.wire(self.link);
        let written = std::str::from_utf8(&wire.written).unwrap();
        assert!(
            self.model.lines.starts_with(written),
            "{written}\nis not the start of\n{}",
            self.model.lines
        );
        if self.model.state != State::Gone {
            assert_eq!(written.len(), self.model.acked + wire.outstanding);
            // What was said waits for the answer that is due, but not for long: every step of time is longer.
            let waits = wire.outstanding == 0 && self.model.unsent() > 0;
            let since = waits.then(|| self.waits_since.unwrap_or(self.model.now));
            self.waits_since = since;
            let due = self.model.state == State::Answering && self.model.unsent() < WRITE;
            assert!(!waits || due && since == Some(self.model.now), "something waits for nothing");
            assert!(!wire.half_closed);
        }
    }
}

#[test]
fn a_connection_behaves_like_its_model() {
    for seed in 0..5000 {
        let mut run = Run::new(seed);
        let mut ops = Vec::new();
        for _ in 0..50 {
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ops.push(run.step());
                run.check();
            }));
            assert!(failed.is_ok(), "seed {seed}: {ops:#?}\n{:#?}", run.model);
        }
    }
}
