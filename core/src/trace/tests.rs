//! A toy machine, recorded and replayed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::*;
use crate::lines::{Line, Lines};
use crate::link::{Link, Obituary, Report};
use crate::machine::*;
use crate::{Graces, Limits, Secret};

/// Echoes lines, asks for a password first, and tells the wall clock.
#[derive(Debug)]
struct Echo {
    config: Config,
    link: Link,
    lines: Lines,
    out: Outputs<Event>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Config {
    open: Open,
    password: Option<Secret<String>>,
    limits: Limits,
    graces: Graces,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Command {
    Say(String),
    Leave,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
enum Event {
    Came(Peer),
    Read { text: String, unix: Duration },
    Garbled(String),
    LoggedIn,
    Complained(String),
    NotStored(i32),
    Closed(Box<Obituary>),
}

impl Machine for Echo {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let mut out = Outputs::default();
        let link =
            Link::open(now, LinkId::FIRST, config.open.clone(), &config.limits, &config.graces, &mut out);
        Self { lines: Lines::new(config.limits.line), config, link, out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        let closed = self.link.is_closed();
        match input {
            Input::Tick => {}
            Input::Hold(hold) => self.link.hold(now, hold, &mut self.out),
            Input::StoreFailed(_, errno) => self.out.tell(Event::NotStored(errno)),
            Input::Link(_, heard) => self.heard(now, heard),
        }
        self.link.tick(now, &mut self.out);
        self.link.flush(now, &mut self.out);
        if self.link.is_closed() && !closed {
            self.out.tell(Event::Closed(self.link.obituary().into()));
            self.out.end();
        }
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if self.link.is_closed() {
            return Err(Refused::Closed);
        }
        match command {
            Command::Say(text) if text.contains('\n') => return Err(Refused::Invalid("it is no line")),
            Command::Say(text) => {
                self.link.line(|buf| buf.extend_from_slice(text.as_bytes()));
                self.link.flush(now, &mut self.out);
            }
            Command::Leave => self.link.leave(now, &mut self.out),
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.link.deadline()
    }
}

impl Echo {
    fn heard(&mut self, now: Now, heard: Heard<'_>) {
        match self.link.heard(now, heard, &mut self.out) {
            Report::Quiet | Report::Failed(_) => {}
            Report::Opened(peer) => {
                if let Some(password) = &self.config.password {
                    self.link.line(|buf| buf.extend_from_slice(password.expose().as_bytes()));
                }
                self.out.tell(Event::Came(peer));
            }
            Report::Stderr(bytes) => {
                self.out.tell(Event::Complained(String::from_utf8_lossy(bytes).into_owned()));
            }
            Report::Bytes(bytes) => {
                let password = self.config.password.as_ref();
                let is_password = |text: &str| password.is_some_and(|held| held.matches(text.as_bytes()));
                let mut feed = self.lines.feed(bytes);
                while let Some(line) = feed.next() {
                    match line {
                        Line::Text(text) if is_password(text) => self.out.tell(Event::LoggedIn),
                        Line::Text(text) | Line::Header(text) => {
                            self.link.line(|buf| buf.extend_from_slice(text.as_bytes()));
                            self.out.tell(Event::Read { text: text.into(), unix: now.unix });
                        }
                        Line::NotUtf8(bytes) | Line::TooLong(bytes) => {
                            self.out.tell(Event::Garbled(String::from_utf8_lossy(bytes).into()))
                        }
                    }
                }
            }
            Report::Ended => self.link.leave(now, &mut self.out),
        }
    }
}

/// Quotes, so that it is spelled in three ways.
const PASSWORD: &str = "hunter2-\"quoted\"";

fn config(password: Option<&str>) -> Config {
    let key = password.unwrap_or("none");
    let spec = SpawnSpec {
        program: "agent".into(),
        args: vec!["--key".into(), key.into()],
        cwd: "/tmp".into(),
        env: vec![("KEY".into(), Secret::new(key.into()))],
        stderr: Stderr::Pipe,
    };
    let limits = Limits { line: 200, ..Limits::default() };
    let password = password.map(|password| Secret::new(password.into()));
    Config { open: Open::spawn(spec), password, limits, graces: Graces::default() }
}

const START: Now = Now { mono: Time::ZERO, unix: Duration::new(1_764_460_800, 123_456_789) };

/// A recorded run, and the same without a tap.
struct Run {
    tap: Tap<Echo>,
    bare: Echo,
    now: Now,
    lines: Vec<String>,
    did: Vec<Output<Event>>,
    bare_did: Vec<Output<Event>>,
}

impl Run {
    fn new(password: Option<&str>, secrets: &[&str]) -> Self {
        let secrets = secrets.iter().map(|secret| secret.as_bytes().to_vec().into()).collect();
        let recording = Recording { channel: "toy".into(), role: "echo".into(), secrets };
        let tap = Tap::new(START, Tapped { config: config(password), recording: Some(recording) });
        let bare = Echo::new(START, config(password));
        let (lines, did, bare_did) = (Vec::new(), Vec::new(), Vec::new());
        let mut run = Self { tap, bare, now: START, lines, did, bare_did };
        run.drain();
        run
    }

    fn opened() -> Self {
        let mut run = Self::new(Some(PASSWORD), &[PASSWORD]);
        run.heard(Heard::Opened(Peer { pid: Some(7), uid: None }));
        run
    }

    fn heard(&mut self, heard: Heard<'_>) {
        self.input(Input::Link(LinkId::FIRST, heard));
    }

    fn input(&mut self, input: Input<'_>) {
        self.tap.handle(self.now, input);
        self.bare.handle(self.now, input);
        self.drain();
    }

    fn command(&mut self, command: Command) -> Result<(), Refused> {
        let done = self.tap.command(self.now, command.clone());
        let _ = self.bare.command(self.now, command);
        self.drain();
        done
    }

    fn drain(&mut self) {
        self.bare_did.extend(std::iter::from_fn(|| self.bare.poll()));
        while let Some(output) = self.tap.poll() {
            match output {
                Output::Tell(Traced::Line(line)) => self.lines.push(line),
                Output::Tell(Traced::Event(event)) => self.did.push(Output::Tell(event)),
                Output::Do(link, action) => self.did.push(Output::Do(link, action)),
                Output::Store(id, store) => self.did.push(Output::Store(id, store)),
                Output::End => self.did.push(Output::End),
            }
        }
    }

    fn file(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn records(&self) -> Vec<Record> {
        let mut reader = Reader::new(self.lines[0].as_bytes()).unwrap();
        self.lines[1..].iter().map(|line| reader.line(line.as_bytes()).unwrap().unwrap()).collect()
    }

    fn replay(&self) -> Result<Replayed, ReplayError> {
        replay::<Echo>(self.file().as_bytes(), Until::End)
    }
}

/// Small random numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Any inputs and commands in any order, under clocks that jump.
fn random(seed: u64, password: Option<&str>) -> Run {
    let dice = &mut Dice(seed);
    let mut run = Run::new(password, password.map_or(&[], |_| &[PASSWORD, "hunted"]));
    for _ in 0..dice.below(60) {
        let step = Duration::from_micros(dice.pick(&[0, 1, 40_000, 3_000_000]));
        run.now.mono = run.now.mono + step;
        run.now.unix = dice.pick(&[run.now.unix + step, run.now.unix + step, Duration::new(1, 5)]);
        let text = dice.pick(&[
            "one\n",
            "two\nthr",
            "ee\n",
            "hunt",
            "hunter2-\"quo",
            "ted\"\n",
            "\u{2028}中\r\n",
            "\n",
            "",
            "\0",
        ]);
        match dice.below(12) {
            0..4 => run.heard(Heard::Bytes(text.as_bytes())),
            4 => run.heard(Heard::Bytes(&"中".as_bytes()[..2])),
            5 => run.heard(Heard::Stderr(text.as_bytes())),
            6 => run.heard(Heard::Opened(Peer { pid: Some(1), uid: Some(2) })),
            7 => run.heard(Heard::Written),
            8 => run.heard(dice.pick(&[
                Heard::OpenFailed(OpenError::Busy),
                Heard::WriteFailed,
                Heard::Eof,
                Heard::Exited(Exit::Code(3)),
                Heard::Group(Group::Alive),
                Heard::Group(Group::Gone),
            ])),
            9 => {
                let leave = dice.below(8) == 0;
                let _ = run.command(if leave { Command::Leave } else { Command::Say(text.into()) });
            }
            10 => run.input(Input::StoreFailed(StoreId::FIRST, 28)),
            _ => run.input(dice.pick(&[Input::Tick, Input::Hold(true), Input::Hold(false)])),
        }
    }
    run
}

/// Runs with secrets and without.
fn runs() -> impl Iterator<Item = (u64, Run)> {
    (0..2000).map(|seed| (seed, random(seed, [None, Some(PASSWORD)][usize::from(seed % 2 == 0)])))
}

#[test]
fn what_was_recorded_replays_without_a_difference() {
    let mut seen = BTreeMap::<Dir, usize>::new();
    for (seed, run) in runs() {
        let replayed = run.replay().unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", run.file()));
        let ended = run.did.contains(&Output::End);
        assert_eq!(
            replayed,
            Replayed { records: run.lines.len() - 1, damaged: vec![], ended },
            "seed {seed}"
        );
        for record in run.records() {
            *seen.entry(record.dir).or_default() += 1;
        }
    }
    // Every kind of record but `Store`, for which the toy has no use.
    assert_eq!(seen.len(), 18, "{seen:?}");
}

#[test]
fn a_changed_byte_is_named() {
    for (seed, mut run) in runs() {
        let dice = &mut Dice(seed);
        let outputs: Vec<usize> =
            (1..).zip(run.records()).filter_map(|(at, r)| r.dir.is_output().then_some(at)).collect();
        let at = dice.pick(&outputs);
        let line = &mut run.lines[at];
        let body = line.find("\"dir\":").unwrap() + 12;
        let digits = line.match_indices(|c: char| c.is_ascii_digit());
        let digits: Vec<usize> =
            digits.map(|(at, _)| at).filter(|at| *at > body && !line[..*at].ends_with("‹secret ")).collect();
        let Some(&digit) = digits.first() else { continue };
        let other = if line[digit..].starts_with('7') { "5" } else { "7" };
        line.replace_range(digit..=digit, other);
        match run.replay() {
            Err(ReplayError::Changed { line, .. }) => assert_eq!(line, at + 1, "seed {seed}"),
            other => panic!("seed {seed}, line {}: {other:?}\n{}", at + 1, run.file()),
        }
    }
}

#[test]
fn a_missing_and_an_added_output_are_named() {
    let mut run = Run::opened();
    run.heard(Heard::Bytes(b"one\n"));
    run.heard(Heard::Bytes(b"two\n"));
    let lines = run.lines.clone();
    assert!(lines[6].contains("Read"), "{lines:#?}");
    run.lines.remove(6);
    assert!(matches!(run.replay(), Err(ReplayError::Unexpected { line: 7, .. })), "{:?}", run.replay());
    run.lines.insert(6, lines[6].clone());
    run.lines.insert(6, lines[6].clone());
    assert!(matches!(run.replay(), Err(ReplayError::Missing { line: 8, .. })), "{:?}", run.replay());
}

#[test]
fn a_tap_changes_nothing() {
    for seed in 0..500 {
        let run = random(seed, None);
        assert_eq!(run.did, run.bare_did, "seed {seed}");
    }
    let mut off = Tap::<Echo>::new(START, Tapped { config: config(None), recording: None });
    assert!(matches!(off.poll(), Some(Output::Do(LinkId::FIRST, Action::Open(_)))));
    assert_eq!(off.poll(), None);
    assert!(size_of::<Output<Traced<u64>>>() <= 64);
}

#[test]
fn a_secret_is_shown_nowhere_however_it_is_cut() {
    let stream = format!("one {PASSWORD}\n{PASSWORD}\n{}\n", serde_json::to_string(PASSWORD).unwrap());
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            let mut run = Run::opened();
            for chunk in [&stream[..first], &stream[first..second], &stream[second..]] {
                run.heard(Heard::Bytes(chunk.as_bytes()));
                run.heard(Heard::Stderr(chunk.as_bytes()));
            }
            run.heard(Heard::Eof);
            let file = run.file();
            for part in PASSWORD.as_bytes().windows(4) {
                let part = std::str::from_utf8(part).unwrap();
                assert!(!file.contains(part), "{part} in {file}");
            }
            assert!(run.did.contains(&Output::Tell(Event::LoggedIn)));
            run.replay().unwrap_or_else(|error| panic!("{first} {second}: {error}\n{file}"));
        }
    }
}

/// A line of a peer's with the peer's own escapes, as a value has it.
#[test]
fn g3_a_secret_in_a_line_in_a_value_is_found_however_it_is_spelled() {
    let masks = Masks::new(&[b"sesame \"open\"".to_vec().into()]);
    let line = r#"{"a":"x \u0073esa\u006de \u0022open\" y","b":"\\"}"#;
    let value = serde_json::value::to_raw_value(&serde_json::json!({"line": line, "n": "\n"})).unwrap();
    let hidden = mask::json(value.clone(), |bytes| masks.apply(bytes));
    let shown = serde_json::json!({"line": r#"{"a":"x ‹secret 1› y","b":"\\"}"#, "n": "\n"});
    assert_eq!(serde_json::from_str::<serde_json::Value>(hidden.get()).unwrap(), shown);
    let nothing = Masks::new(&[b"other".to_vec().into()]);
    assert_eq!(mask::json(value.clone(), |bytes| nothing.apply(bytes)).get(), value.get());
}

#[test]
fn a_secret_that_the_end_cuts_off_is_shown_nowhere() {
    for last in [Heard::Eof, Heard::Exited(Exit::Code(1))] {
        let mut run = Run::opened();
        run.heard(Heard::Bytes(b"last hunter2"));
        run.heard(Heard::Stderr(b"last hunter2"));
        run.heard(if last == Heard::Eof { Heard::Exited(Exit::Code(1)) } else { Heard::Eof });
        run.heard(last);
        assert!(!run.file().contains("hunt"), "{}", run.file());
        assert!(
            run.lines.iter().any(|line| line.contains(r#""dir":"err","text":"‹cut secret›""#)),
            "{}",
            run.file()
        );
        run.replay().unwrap();
    }
}

#[test]
fn an_exit_between_two_halves_of_a_secret_does_not_show_them() {
    let mut run = Run::opened();
    let (one, two) = PASSWORD.as_bytes().split_at(9);
    for half in [one, two] {
        run.heard(Heard::Bytes(half));
        run.heard(Heard::Stderr(half));
        run.heard(Heard::Exited(Exit::Code(0)));
    }
    run.heard(Heard::Bytes(b"\n"));
    assert!(run.did.contains(&Output::Tell(Event::LoggedIn)));
    assert!(!run.file().contains("quo"), "{}", run.file());
}

#[test]
fn what_only_looks_like_a_secret_waits_for_the_next_chunk() {
    let mut run = Run::opened();
    run.heard(Heard::Bytes(b"a hunt"));
    run.heard(Heard::Bytes(b"er\n"));
    let read = Event::Read { text: "a hunter".into(), unix: START.unix };
    assert!(run.did.contains(&Output::Tell(read)));
    assert!(run.lines.iter().any(|line| line.contains(r#""dir":"in","text":"a ""#)), "{}", run.file());
    assert!(run.lines.iter().any(|line| line.contains(r#""dir":"in","line":"hunter""#)), "{}", run.file());
}

#[test]
fn damaged_lines_are_named_and_the_others_stand() {
    let mut run = Run::opened();
    run.heard(Heard::Bytes("\u{2028}\n".as_bytes()));
    let good = run.lines.join("\n");
    let damaged = format!("{good}\n{{\"t\":1,\"d\n{}\n\n{}\n", "\0".repeat(400), r#"{"t":9,"dir":"tick"}"#);
    let mut reader = Reader::new(run.lines[0].as_bytes()).unwrap();
    let read: Vec<_> = damaged.split('\n').skip(1).filter_map(|line| reader.line(line.as_bytes())).collect();
    let bad: Vec<usize> =
        read.iter().filter_map(|read| read.as_ref().err()).map(|damage| damage.line).collect();
    assert_eq!(bad, [run.lines.len() + 1, run.lines.len() + 2]);
    assert_eq!(read.len() - bad.len(), run.lines.len());
    assert_eq!(read.last().unwrap().as_ref().unwrap().dir, Dir::Tick);
}

#[test]
fn a_replay_passes_over_a_damaged_output_and_a_torn_end() {
    let mut run = Run::opened();
    run.heard(Heard::Bytes(b"one\n"));
    run.heard(Heard::Written);
    let output = run.lines.iter().position(|line| line.contains("Read")).unwrap();
    run.lines[output].truncate(20);
    run.lines.push(r#"{"t":1,"dir":"ti"#.into());
    let replayed = run.replay().unwrap();
    let at: Vec<usize> = replayed.damaged.iter().map(|damage| damage.line).collect();
    assert_eq!(at, [output + 1, run.lines.len()]);

    let mut run = Run::opened();
    run.heard(Heard::Bytes(b"one\n"));
    let input = run.lines.iter().position(|line| line.contains(r#""dir":"in""#)).unwrap();
    run.lines[input].truncate(20);
    assert!(matches!(run.replay(), Err(ReplayError::Lost(Damage { line, .. })) if line == input + 1));
}

#[test]
fn a_replay_goes_as_far_as_asked() {
    let mut run = Run::opened();
    run.now.mono = Time::from_micros(500);
    run.heard(Heard::Bytes(b"one\n"));
    let until = |until| replay::<Echo>(run.file().as_bytes(), until).unwrap().records;
    assert_eq!(until(Until::End), run.lines.len() - 1);
    assert_eq!(until(Until::Line(3)), 2);
    assert_eq!(until(Until::Time(Time::from_micros(499))), 4);
}

#[test]
fn a_file_that_is_no_trace_is_refused() {
    for file in ["", "\n", "{}", "hello", r#"{"t":1,"dir":"tick"}"#] {
        let refused = replay::<Echo>(file.as_bytes(), Until::End);
        assert!(matches!(refused, Err(ReplayError::Lost(Damage { line: 1, .. }))), "{file}");
    }
    let header = Run::opened().lines.swap_remove(0);
    let newer = header.replace(r#""format":1"#, r#""format":2"#);
    assert!(matches!(replay::<Echo>(newer.as_bytes(), Until::End), Err(ReplayError::Lost(_))));
    let other = header.replace("\"open\"", "\"opened\"");
    assert!(matches!(replay::<Echo>(other.as_bytes(), Until::End), Err(ReplayError::Config(_))));
}

#[test]
fn bytes_come_back_as_they_were() {
    let all: [&[u8]; 8] =
        [b"", b"\n", b"a\n", b"a\nb\n", b"a", b"\r\n", b"\xff\0\n", "\u{2028}\n".as_bytes()];
    let mut reader = Reader::new(Run::opened().lines[0].as_bytes()).unwrap();
    for bytes in all {
        let line = Record::input(START, &Input::Link(LinkId::FIRST, Heard::Bytes(bytes))).to_line(None);
        assert_eq!(reader.line(line.as_bytes()).unwrap().unwrap().bytes(), bytes, "{line}");
        assert!(!line.contains(['\n', '\u{2028}']), "{line}");
    }
    let line = Record::input(START, &Input::Link(LinkId::FIRST, Heard::Bytes(b"\xff\x0a"))).to_line(None);
    assert_eq!(line, r#"{"t":0,"link":0,"dir":"in","hex":"ff0a"}"#);
}

#[test]
fn secrets_that_overlap_or_break_json_are_hidden_all_the_same() {
    let mut run = Run::new(None, &["abcdef", "defghi", "12345", "one\nlines"]);
    run.heard(Heard::Opened(Peer { pid: Some(12345), uid: None }));
    run.heard(Heard::Bytes(b"<abcdefghi> abcdefabcdef\nlines\n"));
    let shown: Vec<String> = run.records().iter().map(|record| record.to_line(None)).collect();
    assert_eq!(shown[1], r#"{"t":0,"link":0,"dir":"opened","value":"‹secret›"}"#);
    assert_eq!(
        shown[3],
        r#"{"t":0,"link":0,"dir":"in","text":"<‹secret 1›> ‹secret 1›‹secret 1›\n‹secret 4›\n"}"#
    );
}
