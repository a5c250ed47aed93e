//! A reader that stops reading stops nothing else: no signal, no clock, no teardown, nobody who is served.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use agentline_tests::driver_table::Witness;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::rig::{AGENTLINE, Bench, Leash, text};
use crate::terminal::unread;

/// More than a pipe takes, and less than is held back.
const MUCH: usize = 200_000;

/// Whose reader does not read.
#[derive(Clone, Copy, Debug)]
enum Deaf {
    Out,
    Err,
}

/// A command one of whose streams is a pipe that nobody reads.
struct Blocked {
    child: Child,
    _leash: Leash,
    /// For whoever wants to be told of its end.
    other: Box<dyn Read + Send>,
    _unread: Box<dyn Send>,
}

impl Blocked {
    fn new(command: &mut Command, deaf: Deaf) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let (out, err) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let _leash = Leash::of(&child);
        match deaf {
            Deaf::Out => Self { child, _leash, other: Box::new(err), _unread: Box::new(out) },
            Deaf::Err => Self { child, _leash, other: Box::new(out), _unread: Box::new(err) },
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }

    fn code(mut self) -> Option<i32> {
        let mut rest = Vec::new();
        let mut other = self.other;
        let reads = thread::spawn(move || other.read_to_end(&mut rest));
        let code = self.child.wait().expect("it ends").code();
        reads.join().expect("it reads").expect("a pipe");
        code
    }
}

/// An agent that says much, on either stream, and then nothing; the witness hears what it is told.
fn chatty(bench: &Bench, deaf: Deaf) -> (Vec<String>, Witness) {
    let much = "x".repeat(100);
    let steps: Vec<_> = (0..MUCH / 100)
        .map(|_| match deaf {
            Deaf::Out => json!({"say": format!("{much}\n")}),
            Deaf::Err => json!({"grumble": format!("{much}\n")}),
        })
        .collect();
    let mut steps = steps;
    steps.push(json!({"say": "enough\n"}));
    steps.push(json!({"wait": 3600.0}));
    let script = bench.file("script.json", json!({"much": steps}).to_string());
    bench.tapped(&[AGENTLINE, "demo-agent", "--script", text(&script)])
}

#[test]
fn g1_signals_end_a_run_whose_reader_does_not_read() {
    for deaf in [Deaf::Out, Deaf::Err] {
        for (signals, code) in [
            (&[Signal::INT][..], 130),
            (&[Signal::INT, Signal::INT], 130),
            (&[Signal::TERM], 143),
            (&[Signal::HUP], 129),
        ] {
            let bench = Bench::new();
            let (agent, mut witness) = chatty(&bench, deaf);
            let run = Blocked::new(bench.agentline(&["run", "much"]).args(agent), deaf);
            witness.wait_for_text("session/prompt");
            signals.iter().for_each(|signal| run.signal(*signal));
            assert_eq!(run.code(), Some(code), "{signals:?} {deaf:?}");
            let _ = witness.last_words();
        }
    }
}

#[test]
fn g1_clocks_end_a_run_whose_reader_does_not_read() {
    for deaf in [Deaf::Out, Deaf::Err] {
        for runtime in ["blocking", "smol"] {
            for clock in ["--timeout", "--idle-timeout"] {
                let bench = Bench::new();
                let (agent, witness) = chatty(&bench, deaf);
                let mut command = bench.agentline(&["run", "--runtime", runtime, clock, "700ms", "much"]);
                assert_eq!(Blocked::new(command.args(agent), deaf).code(), Some(124), "{clock} {deaf:?}");
                let _ = witness.last_words();
            }
        }
    }
}

#[test]
fn g1_a_clock_also_ends_the_wait_for_a_reader_when_all_is_said() {
    let bench = Bench::new();
    let mut command = bench.agentline(&["run", "-q", "--timeout", "1s", "flood 40000"]);
    assert_eq!(Blocked::new(&mut command, Deaf::Out).code(), Some(124));
}

#[test]
fn g1_a_flood_is_held_back_and_every_signal_still_counts() {
    for runtime in ["blocking", "smol"] {
        let bench = Bench::new();
        let (agent, mut witness) = bench.tapped(&[AGENTLINE, "demo-agent"]);
        let mut command = bench.agentline(&["run", "-q", "--runtime", runtime, "flood 100000000"]);
        let run = Blocked::new(command.args(agent), Deaf::Out);
        witness.wait_for_text("session/prompt");
        run.signal(Signal::INT);
        assert_eq!(run.code(), Some(130));
        assert!(witness.last_words().contains("session/cancel"));
    }
}

#[test]
fn g1_signals_and_clocks_end_a_chat_whose_reader_does_not_read() {
    for deaf in [Deaf::Out, Deaf::Err] {
        for (options, signals, code) in [
            (&[][..], &[Signal::INT, Signal::INT][..], 130),
            (&[], &[Signal::TERM], 143),
            (&[], &[Signal::HUP], 129),
            (&["--timeout", "700ms"], &[], 124),
        ] {
            let bench = Bench::new();
            let (agent, mut witness) = chatty(&bench, deaf);
            let mut command = bench.agentline(&["chat"]);
            let chat = Blocked::new(command.args(options).args(agent).stdin(Stdio::piped()), deaf);
            let mut stdin = chat.child.stdin.as_ref().expect("a pipe");
            stdin.write_all(b"much\n").expect("a reader");
            witness.wait_for_text("session/prompt");
            for (at, signal) in signals.iter().enumerate() {
                if at > 0 {
                    witness.wait_for_text("session/cancel");
                }
                chat.signal(*signal);
            }
            assert_eq!(chat.code(), Some(code), "{signals:?} {deaf:?}");
            let _ = witness.last_words();
        }
    }
}

#[test]
fn g1_a_terminal_that_takes_nothing_ends_no_differently() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let bench = Bench::new();
        let (agent, mut witness) = chatty(&bench, Deaf::Out);
        let (mut keys, mut child) = unread(bench.agentline(&["chat"]).args(agent));
        let _leash = Leash::of(&child);
        keys.write_all(b"much\r").expect("it takes keys");
        witness.wait_for_text("session/prompt");
        kill_process(Pid::from_child(&child), signal).expect("it lives");
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        let _ = witness.last_words();
    }
}

/// A server of the control protocol that answers with much, and then keeps the connection open.
fn server(path: &Path) -> Receiver<()> {
    let listener = UnixListener::bind(path).expect("a socket");
    let (asked, asks) = channel();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut byte = [0];
        while byte != *b"\n" && client.read(&mut byte).is_ok_and(|read| read > 0) {}
        asked.send(()).expect("somebody waits");
        let frame = json!({"stream": "frame", "data": {"text": "x".repeat(1000)}}).to_string() + "\n";
        while client.write_all(frame.as_bytes()).is_ok() {}
    });
    asks
}

#[test]
fn g1_signals_end_a_hub_call_whose_reader_does_not_read() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let bench = Bench::new();
        let socket = bench.path("s");
        let asked = server(&socket);
        let mut command = bench.agentline(&["hub", "call", "--socket", text(&socket), "session.watch", "{}"]);
        let call = Blocked::new(&mut command, Deaf::Out);
        asked.recv().expect("a request");
        call.signal(signal);
        assert_eq!(call.code(), Some(code), "{signal:?}");
    }
}
