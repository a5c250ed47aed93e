//! `hub call`: answers as they came, streams to their end, and exit codes by tag.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use agentline_core::Address;
use agentline_core::control::Server;
use agentline_core::control::server::{Config, Event};
use agentline_tests::control::Desk;
use agentline_tests::runtimes::{Blocking, Runtime};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Bench, Done, Running, done, text};

/// A server in this process, and what it heard.
struct Hub {
    bench: Bench,
    told: Receiver<String>,
}

impl Hub {
    fn new() -> Self {
        let bench = Bench::new();
        let (tell, told) = channel();
        let config = Config::new(Address(bench.path("run/control.sock")));
        thread::spawn(move || {
            let mut desk = Desk::default();
            Blocking::run::<Server>(config, Vec::new(), |event, say| {
                let news = match &event {
                    Event::Listening => "listening",
                    Event::Requested(_, request) => &request.command,
                    Event::CaughtUp(..) => "caught up",
                    Event::Abandoned(_) => "abandoned",
                    Event::Closed(_) => "closed",
                };
                // Nobody listens any more when the test is over.
                let _ = tell.send(news.to_owned());
                desk.on(event, say);
            });
        });
        let hub = Self { bench, told };
        hub.until("listening");
        hub
    }

    fn until(&self, news: &str) {
        while self.told.recv_timeout(Duration::from_secs(30)).expect(news) != news {}
    }

    fn call(&self, args: &[&str]) -> Command {
        let mut command = self.bench.agentline(&["hub", "call"]);
        command.args(args).env("AGENTLINE_SOCKET", self.bench.path("run/control.sock"));
        command
    }
}

#[test]
fn a_result_is_printed_as_it_came() {
    let hub = Hub::new();
    for (args, out) in [
        (&["echo", "{\"b\": 1, \"a\":\"é\"}"][..], "{\"b\": 1, \"a\":\"é\"}\n"),
        (&["echo", "null"], "null\n"),
        (&["echo"], "{}\n"),
        (&["echo", "[1,\n2]"], "[1, 2]\n"),
        (&["--json", "echo", "{\"a\": 1}"], "{\"ok\":true,\"requestId\":\"0\",\"result\":{\"a\": 1}}\n"),
    ] {
        let ended = done(&mut hub.call(args));
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(0), out, ""), "{args:?}");
    }
}

#[test]
fn a_stream_is_followed_to_its_end() {
    let hub = Hub::new();
    for (args, err) in [
        (&["burst", "3"][..], "◦ the stream has ended: completed\n"),
        (&["burst", "3", "-q"], ""),
        (&["burst", "2000"], "◦ the stream has ended: completed\n"),
    ] {
        let ended = done(&mut hub.call(args));
        assert_eq!((ended.code, &*ended.err), (Some(0), err), "{args:?}");
        let frames = ended.objects();
        let last = args[1].parse::<u64>().unwrap() - 1;
        assert!(frames.iter().any(|frame| frame["n"] == last || frame["kind"] == "lagged"), "{args:?}");
    }
    let frames = done(&mut hub.call(&["burst", "2", "--json"])).objects();
    assert_eq!((&frames[1]["stream"], &frames[1]["data"]["n"]), (&json!("event"), &json!(1)));
    assert_eq!(frames[2..], [json!({"stream": "end", "requestId": "0", "reason": "completed"})]);
}

#[test]
fn a_failure_ends_with_the_code_of_its_tag() {
    let hub = Hub::new();
    for (args, code, err) in [
        (&["fail"][..], 3, "✗ there is none (not_found)\n"),
        (&["no.such"], 1, "✗ unknown command 'no.such' (unknown_command)\n"),
    ] {
        let ended = done(&mut hub.call(args));
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(code), "", err), "{args:?}");
    }
    let ended = done(&mut hub.call(&["burst", "\"many\""]));
    assert!(ended.code == Some(2) && ended.err.ends_with("(invalid_args)\n"), "{ended:?}");
    let ended = done(&mut hub.call(&["--json", "fail"]));
    assert_eq!(ended.code, Some(3));
    let line = "{\"ok\":false,\"requestId\":\"0\",\"error\":\"not_found\",\"message\":\"there is none\"}\n";
    assert_eq!(ended.out, line);
}

#[test]
fn ctrl_c_ends_a_stream_and_the_server_notices() {
    let hub = Hub::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let call = Running::new(&mut hub.call(&["watch"]));
        hub.until("watch");
        call.signal(signal);
        hub.until("abandoned");
        let (status, out, err) = call.end();
        assert_eq!((status.code(), &*out, &*err), (Some(code), "", ""));
    }
    let call = Running::new(&mut hub.call(&["later"]));
    hub.until("later");
    call.signal(Signal::INT);
    assert_eq!(call.end().0.code(), Some(130), "nor is an answer waited for");
}

#[test]
fn ctrl_c_again_ends_a_call_whose_reader_sleeps() {
    let hub = Hub::new();
    let mut call = Running::new(&mut hub.call(&["burst", "50000"]));
    hub.until("burst");
    call.signal(Signal::INT);
    call.signal(Signal::INT);
    // Nobody has read a byte of it.
    assert_eq!(call.child().wait().expect("it ends").code(), Some(130));
}

#[test]
fn an_answer_that_cannot_be_written_is_told() {
    let hub = Hub::new();
    let full = File::options().write(true).open("/dev/full").expect("a full disk");
    let output = hub.call(&["echo", "1"]).stdout(full).stderr(Stdio::piped()).output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("✗ stdout cannot be written: No space left"), "{said}");
}

#[test]
fn whoever_stops_reading_has_read_enough() {
    let hub = Hub::new();
    let mut call = Running::new(&mut hub.call(&["watch"]));
    hub.until("watch");
    call.hang_up();
    assert_eq!(done(&mut hub.call(&["publish"])).out, "1\n");
    let (status, _, err) = call.end();
    assert_eq!((status.code(), &*err), (Some(0), ""));
    hub.until("abandoned");
}

#[test]
fn a_frame_is_shown_when_it_comes() {
    let hub = Hub::new();
    let mut call = Running::new(&mut hub.call(&["watch", "--json"]));
    hub.until("watch");
    done(&mut hub.call(&["publish"]));
    call.until_some(|frame| frame["data"]["n"] == 0);
    done(&mut hub.call(&["stop"]));
    let (status, out, _) = call.end();
    let line = "{\"stream\":\"end\",\"requestId\":\"0\",\"reason\":\"stopped\"}\n";
    assert_eq!((status.code(), &*out), (Some(0), line));
}

#[test]
fn where_no_server_was_chosen_and_none_is_there_the_way_to_choose_is_named() {
    let bench = Bench::new();
    let folder = bench.path("home/.local/state/agentline");
    let ended = done(&mut bench.agentline(&["hub", "call", "ping"]));
    let hint = "agentline hub start, or --socket PATH of any server of the control protocol";
    let message = format!("no hub runs in {}", text(&folder));
    let err = format!("✗ {message}\n  try: {hint}\n");
    assert_eq!((ended.code, &*ended.out, ended.err), (Some(4), "", err));

    let ended = done(&mut bench.agentline(&["hub", "call", "--json", "ping"]));
    let object: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &object["exitCode"], &*ended.err), (Some(4), &json!(4), ""));
    assert_eq!((&object["type"], &object["schemaVersion"]), (&json!("error"), &json!(1)));
    let error = json!({"phase": "connect", "kind": "unreachable", "message": message, "hint": hint, "retryable": true});
    assert_eq!(object["error"], error);

    // A user who has a Galley may mean that.
    let uid = rustix::process::getuid().as_raw();
    let galley = bench.file(&format!("galley-{uid}.sock"), "");
    let ended = done(bench.agentline(&["hub", "call", "ping"]).env("TMPDIR", bench.path("")));
    assert!(ended.err.contains(&format!("try: --socket {}, the Galley", text(&galley))), "{ended:?}");
}

#[test]
fn a_socket_that_was_chosen_is_the_only_one_tried() {
    let hub = Hub::new();
    let file = hub.bench.file("file", "a user's file");
    for (path, why) in [
        ("/no/such.sock", "not found"),
        (text(&file), "not a socket"),
        (&*format!("/{}", "x".repeat(200)), "the socket path is too long"),
    ] {
        let ended = done(&mut hub.call(&["ping", "--socket", path]));
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert_eq!(ended.err, format!("✗ cannot connect to {path}: {why}\n"));
    }
    let path = hub.bench.path("run/control.sock");
    let mut call = hub.bench.agentline(&["hub", "call", "echo", "--socket", text(&path)]);
    assert_eq!(done(call.env("AGENTLINE_SOCKET", "/no/such.sock")).out, "{}\n");
}

#[test]
fn a_server_that_hangs_up_is_told_behind_what_it_said() {
    for (answer, out) in [("", ""), ("{\"stream\":\"event\",\"data\":7}\n", "7\n")] {
        let bench = Bench::new();
        let path = bench.path("sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            BufReader::new(client.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
            client.write_all(answer.as_bytes()).unwrap();
        });
        let ended = done(&mut bench.agentline(&["hub", "call", "--socket", text(&path), "x"]));
        server.join().unwrap();
        assert_eq!((ended.code, &*ended.out), (Some(4), out));
        let path = text(&path);
        let why = match out {
            "" => format!("✗ {path} is gone; what was asked may have been accepted\n"),
            _ => format!("✗ {path} hung up before the answer was complete\n"),
        };
        assert!(ended.err.starts_with(&why), "{ended:?}");
    }
}

#[test]
fn arguments_that_are_no_json_are_refused_before_anything_is_sent() {
    let hub = Hub::new();
    let ended = done(&mut hub.call(&["echo", "{a:1}"]));
    assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{ended:?}");
    assert!(hub.told.try_recv().is_err());
}

/// A server that says this, whatever it is asked, and then goes.
fn answered(said: &'static [u8], args: &[&str]) -> Done {
    let bench = Bench::new();
    let path = bench.path("sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        BufReader::new(client.try_clone().expect("a descriptor"))
            .read_line(&mut String::new())
            .expect("a request");
        client.write_all(said).expect("a reader");
    });
    let ended = done(bench.agentline(&["hub", "call", "--socket", text(&path), "x"]).args(args));
    server.join().expect("it ends");
    ended
}

#[test]
fn e4_with_json_the_lines_are_the_servers_own() {
    const LINES: [(&str, i32); 6] = [
        ("{\"ok\": true, \"result\": 1, \"later\": {\"x\": 1.50}}\n", 0),
        ("{\"ok\":false,\"error\":\"not_found\",\"message\":\"m\",\"detail\":[1]}\n", 3),
        ("junk\n", 1),
        ("[1]\n", 1),
        (
            "{\"stream\":\"snapshot\",\"data\":1}\n{\"kind\":\"future\"}\n{\"stream\":\"end\",\"reason\":\"r\",\"n\":7}\n",
            0,
        ),
        ("{\"stream\":\"event\",\"data\":1,\"seq\":7}\n[2]\n{\"stream\":\"end\"}\n", 0),
    ];
    for (said, code) in LINES {
        let ended = answered(said.as_bytes(), &["--json"]);
        assert_eq!((&*ended.out, ended.code), (said, Some(code)), "{ended:?}");
    }
    let text = answered(LINES[4].0.as_bytes(), &[]);
    assert_eq!(text.out, "{\"stream\":\"snapshot\",\"data\":1}\n{\"kind\":\"future\"}\n");
}

#[test]
fn c5_what_a_server_says_is_cut_and_loses_what_urls_carry() {
    let said = format!("see https://me:pw@a.example/x?key=1 {}", "x".repeat(2000));
    let end = |why: &str| json!({"stream": "end", "reason": why}).to_string();
    for lines in [
        vec![json!({"ok": false, "error": "not_found", "message": said}).to_string()],
        vec![json!({"stream": "event", "data": 1}).to_string(), end(&said)],
        vec![json!({"stream": "event", "data": 1}).to_string(), said.clone(), end("done")],
    ] {
        let lines: String = lines.iter().map(|line| line.clone() + "\n").collect();
        let ended = answered(lines.leak().as_bytes(), &[]);
        assert!(ended.err.contains("https://a.example/x"), "{ended:?}");
        assert!(!ended.err.contains("pw@") && !ended.err.contains("key=1"), "{ended:?}");
        assert!(ended.err.lines().all(|line| line.chars().count() < 600), "{ended:?}");
    }
}

#[test]
fn g10_a_silent_server_is_not_waited_for_without_end() {
    let bench = Bench::new();
    let path = bench.path("sock");
    let _silent = UnixListener::bind(&path).unwrap();
    let args = ["hub", "call", "--socket", text(&path), "--timeout", "100ms", "x"];
    let ended = done(&mut bench.agentline(&args));
    assert_eq!(
        (ended.code, &*ended.err),
        (Some(4), &*format!("✗ {} does not answer within 0.1 s\n", text(&path)))
    );
    let help = done(&mut bench.agentline(&["hub", "call", "--help"])).out;
    assert!(help.contains("120s"), "{help}");
}

#[test]
fn e3_a_socket_that_others_may_write_to_is_sent_nothing() {
    let hub = Hub::new();
    let path = hub.bench.path("run/control.sock");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let ended = done(&mut hub.call(&["echo"]));
    assert_eq!(ended.code, Some(4));
    assert!(ended.err.contains("not private: other users may write to it (mode 666)"), "{}", ended.err);
    assert!(hub.told.try_recv().is_err(), "nothing was asked");
}
