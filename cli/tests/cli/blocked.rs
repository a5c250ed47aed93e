//! A reader that stops reading stops nothing else: no signal, no clock, no teardown, nobody who is served.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use agentline_tests::driver_table::Witness;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::chat::{answer, open, speak};
use crate::rig::{AGENTLINE, Bench, Leash, done, text};
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
    unread: Box<dyn Read + Send>,
}

impl Blocked {
    fn new(command: &mut Command, deaf: Deaf) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let (out, err) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let _leash = Leash::of(&child);
        match deaf {
            Deaf::Out => Self { child, _leash, other: Box::new(err), unread: Box::new(out) },
            Deaf::Err => Self { child, _leash, other: Box::new(out), unread: Box::new(err) },
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }

    /// The reader reads after all.
    fn read(&mut self) {
        let mut late = std::mem::replace(&mut self.unread, Box::new(std::io::empty()));
        thread::spawn(move || std::io::copy(&mut late, &mut std::io::sink()));
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

/// A chat whose reader does not read, in the middle of a turn that has said much.
fn in_a_turn(bench: &Bench, options: &[&str], deaf: Deaf) -> (Blocked, ChildStdin, Witness) {
    let (agent, mut witness) = chatty(bench, deaf);
    let mut command = bench.agentline(&["chat"]);
    let mut chat = Blocked::new(command.args(options).args(agent).stdin(Stdio::piped()), deaf);
    let mut keyboard = chat.child.stdin.take().expect("a pipe");
    keyboard.write_all(b"much\n").expect("a reader");
    witness.wait_for_text("session/prompt");
    (chat, keyboard, witness)
}

#[test]
fn g1_one_interrupt_cancels_the_turn_of_a_chat_whose_reader_does_not_read() {
    for deaf in [Deaf::Out, Deaf::Err] {
        let bench = Bench::new();
        let (mut chat, keyboard, mut witness) = in_a_turn(&bench, &[], deaf);
        chat.signal(Signal::INT);
        witness.wait_for_text("session/cancel");
        // The conversation goes on, and at its end the agent is seen off before anybody reads.
        drop(keyboard);
        let _ = witness.last_words();
        chat.read();
        assert_eq!(chat.code(), Some(130), "{deaf:?}");
    }
}

#[test]
fn g1_silence_ends_the_turn_of_a_chat_whose_reader_does_not_read() {
    for deaf in [Deaf::Out, Deaf::Err] {
        for (signal, code) in [(None, 124), (Some(Signal::TERM), 143), (Some(Signal::HUP), 129)] {
            let bench = Bench::new();
            let (mut chat, keyboard, mut witness) = in_a_turn(&bench, &["--idle-timeout", "700ms"], deaf);
            witness.wait_for_text("session/cancel");
            drop(keyboard);
            let _ = witness.last_words();
            // What was said waits for its reader, and a signal ends the wait.
            match signal {
                Some(signal) => chat.signal(signal),
                None => chat.read(),
            }
            assert_eq!(chat.code(), Some(code), "{signal:?} {deaf:?}");
        }
    }
}

#[test]
fn g1_who_attached_is_served_by_a_chat_whose_reader_does_not_read() {
    let bench = Bench::new();
    let (mut chat, socket) = open(&bench, &["--", AGENTLINE, "demo-agent"]);
    let mut keyboard = chat.child().stdin.take().expect("a pipe");
    // More than the pipe takes: the turn is over all the same.
    keyboard.write_all(b"flood 4000\n").expect("a reader");
    let mut caller = speak(&socket, "from elsewhere");
    assert_eq!(answer(&mut caller)["result"]["agenticaAnswer"], "from elsewhere");
    // More than is held back: the agent waits, and whoever attached is let in and can cancel.
    keyboard.write_all(b"flood 100000000\n").expect("a reader");
    let _waits = speak(&socket, "later");
    let mut cancel = bench.agentline(&["attach", "cancel", text(&socket)]);
    assert_eq!(done(&mut cancel).code, Some(0));
    chat.signal(Signal::TERM);
    assert_eq!(chat.end().0.code(), Some(143));
}

/// `attach send` whose answer nobody reads, up to where it is printed.
fn unheard(bench: &Bench, socket: &Path, options: &[&str]) -> Blocked {
    let mut command = bench.agentline(&["attach", "send", text(socket), "much"]);
    let mut send = Blocked::new(command.args(options), Deaf::Out);
    let mut first = [0];
    send.unread.read_exact(&mut first).expect("an answer");
    send
}

#[test]
fn g1_signals_and_clocks_end_an_attach_send_whose_reader_does_not_read() {
    let bench = Bench::new();
    let script = json!({"much": [{"say": "x".repeat(MUCH)}]}).to_string();
    let script = bench.file("script.json", script);
    let (mut chat, socket) = open(&bench, &["--", AGENTLINE, "demo-agent", "--script", text(&script)]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let send = unheard(&bench, &socket, &[]);
        send.signal(signal);
        assert_eq!(send.code(), Some(code), "{signal:?}");
        chat.until("result");
    }
    for options in [&["--timeout", "2s"][..], &["--timeout", "2s", "--json"]] {
        let send = unheard(&bench, &socket, options);
        assert_eq!(send.code(), Some(124), "{options:?}");
        chat.until("result");
    }
    let mut late = unheard(&bench, &socket, &[]);
    late.read();
    assert_eq!(late.code(), Some(0), "a reader may take its time");
    drop(chat.child().stdin.take());
    assert_eq!(chat.end().0.code(), Some(0));
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
