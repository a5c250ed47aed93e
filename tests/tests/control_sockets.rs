//! A server, its clients, slow readers and a second server, over real sockets and each runtime.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use agentline_core::control::{Answer, Client, Server, client, server};
use agentline_core::rpc::Json;
use agentline_core::{Address, OpenError, Tag};
use agentline_tests::control::{Desk, Numbers, request};
use agentline_tests::runtimes::{Blocking, Runtime, Smol};
use serde::Deserialize;
use tempfile::TempDir;

#[test]
fn blocking_serves_everybody_and_slow_readers_slow_nobody() {
    serves_everybody::<Blocking>();
}

#[test]
fn smol_serves_everybody_and_slow_readers_slow_nobody() {
    serves_everybody::<Smol>();
}

fn serves_everybody<R: Runtime>() {
    let dir = TempDir::with_prefix("al").expect("a directory");
    let path = dir.path().join("run/control.sock");
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(|| serve::<R>(&path, &tell));
        until(&told, "listening");
        assert_eq!(serve_again::<R>(&path), Some(OpenError::InUse));

        let slow = say(&path, r#"{"command":"burst","args":5000}"#);
        until(&told, "burst");
        let half = say(&path, r#"{"command":"watch"}"#);
        half.shutdown(Shutdown::Write).expect("a half");
        let gone = say(&path, r#"{"command":"watch"}"#);
        for _ in 0..2 {
            until(&told, "watch");
        }

        let callers: Vec<_> = (0..8).map(|_| scope.spawn(|| echoes::<R>(&path, 300))).collect();
        for caller in callers {
            assert_eq!(caller.join().expect("a caller"), 300);
        }
        drop(gone);
        until(&told, "abandoned");
        assert_eq!(call::<R>(&path, "publish"), Answer::reply(&1), "the half that reads is there");
        assert_eq!(call::<R>(&path, "stop"), Answer::reply(&true));
        let (numbers, end) = read(half);
        assert_eq!((numbers, &*end), (Numbers { seen: 1, lost: 0 }, "stopped"));
        let (numbers, end) = read(slow);
        assert_eq!((numbers.seen + numbers.lost, &*end), (5000, "completed"));
        assert!(numbers.seen > 100 && numbers.lost > 100, "{numbers:?}");
    });
    assert!(!path.exists(), "nothing is left behind");
}

#[test]
fn blocking_answers_ten_thousand_requests_at_once_in_order() {
    answers_ten_thousand_at_once::<Blocking>();
}

#[test]
fn smol_answers_ten_thousand_requests_at_once_in_order() {
    answers_ten_thousand_at_once::<Smol>();
}

/// More than the pipes hold, so the server stops reading until the first answers are read.
fn answers_ten_thousand_at_once<R: Runtime>() {
    let dir = TempDir::with_prefix("al").expect("a directory");
    let path = dir.path().join("run/control.sock");
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(|| serve::<R>(&path, &tell));
        until(&told, "listening");
        let stream = say(&path, "");
        let mut asks = stream.try_clone().expect("a descriptor");
        scope.spawn(move || {
            let requests: String = (0..10_000)
                .map(|n| format!("{{\"command\":\"echo\",\"args\":{n},\"requestId\":\"{n}\"}}\n"))
                .collect();
            asks.write_all(requests.as_bytes()).expect("a reader");
            asks.shutdown(Shutdown::Write).expect("a half");
        });
        let mut answers = BufReader::new(stream).lines();
        for n in 0..10_000 {
            let answer = answers.next().expect("an answer").expect("a line");
            assert_eq!(answer, format!(r#"{{"ok":true,"requestId":"{n}","result":{n}}}"#));
        }
        assert!(answers.next().is_none(), "half-closed, and everything is answered");
        assert_eq!(call::<R>(&path, "stop"), Answer::reply(&true));
    });
}

fn serve<R: Runtime>(path: &Path, tell: &Sender<String>) {
    let config = server::Config { watch: 100_000, ..server::Config::new(Address(path.into())) };
    let mut desk = Desk::default();
    R::run::<Server>(config, Vec::new(), |event, say| {
        let news = match &event {
            server::Event::Listening => "listening",
            server::Event::Requested(_, request) => &request.command,
            server::Event::CaughtUp(..) => "caught up",
            server::Event::Abandoned(_) => "abandoned",
            server::Event::Closed(_) => "closed",
        };
        tell.send(news.to_owned()).expect("a listener");
        desk.on(event, say);
    });
}

fn serve_again<R: Runtime>(path: &Path) -> Option<OpenError> {
    let mut why = None;
    R::run::<Server>(server::Config::new(Address(path.into())), Vec::new(), |event, _| {
        if let server::Event::Closed(failed) = event {
            why = failed;
        }
    });
    why
}

fn until(told: &Receiver<String>, news: &str) {
    while told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {news}")) != news {}
}

/// Asks for that many echoes at once, and counts those that are right.
fn echoes<R: Runtime>(path: &Path, calls: u64) -> u64 {
    let first = (0..calls).map(|n| client::Command::Call(Tag(n), request("echo", &n))).collect();
    let mut right = 0;
    R::run::<Client>(client::Config::connect(Address(path.into())), first, |event, say| {
        if let client::Event::Answered(Tag(n), Answer::Reply(result)) = event {
            right += u64::from(result.get() == n.to_string());
            if right == calls {
                say.push(client::Command::Close);
            }
        }
    });
    right
}

fn call<R: Runtime>(path: &Path, command: &str) -> Answer {
    let first = vec![client::Command::Call(Tag(0), request(command, &()))];
    let mut answered = None;
    R::run::<Client>(client::Config::connect(Address(path.into())), first, |event, say| {
        if let client::Event::Answered(_, answer) = event {
            answered = Some(answer);
            say.push(client::Command::Close);
        }
    });
    answered.expect("an answer")
}

/// A client by hand.
fn say(path: &Path, line: &str) -> UnixStream {
    let mut stream = UnixStream::connect(path).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    writeln!(stream, "{line}").expect("a reader");
    stream
}

/// Reads a stream to its end and the connection to its own.
fn read(stream: UnixStream) -> (Numbers, String) {
    #[derive(Deserialize)]
    struct Line {
        data: Option<Json>,
        reason: Option<String>,
    }
    let (mut numbers, mut end) = (Numbers::default(), String::new());
    for line in BufReader::new(stream).lines() {
        let line: Line = serde_json::from_str(&line.expect("a line")).expect("an answer");
        assert!(end.is_empty(), "a line behind the end");
        line.data.iter().for_each(|data| numbers.take(data));
        end = line.reason.unwrap_or_default();
    }
    (numbers, end)
}

/// The global deadline of a step: none is expected to take any time worth mentioning.
const PATIENCE: Duration = Duration::from_secs(30);
