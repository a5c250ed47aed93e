//! The server: dialogues byte by byte, order, silence, half-close, streams and lag.

use std::time::Duration;

use agentline_core::control::server::{Command, Config, Event};
use agentline_core::control::{Answer, ErrorTag, Key, Request, Server};
use agentline_core::{
    Action, Address, Heard, Input, Limits, LinkId, Machine, Now, Open, OpenError, Output, Peer, Refused,
};
use serde_json::json;

mod bounds;

use super::bench::{Bench, Dice};

const ME: u32 = 1000;

fn config() -> Config {
    Config::new(Address("/run/control.sock".into()))
}

fn serving(config: Config) -> (Bench<Server>, LinkId) {
    let mut bench = Bench::<Server>::new(config);
    let link = bench.accept(ME);
    assert!(matches!(bench.told()[..], [Event::Listening]));
    (bench, link)
}

/// Requests and endings since the last call, in order.
fn asked(bench: &mut Bench<Server>) -> Vec<(Key, Option<Request>)> {
    let asked = bench.told().into_iter().map(|event| match event {
        Event::Requested(key, request) => (key, Some(request)),
        Event::Abandoned(key) => (key, None),
        Event::Listening | Event::CaughtUp(..) | Event::Closed(_) => panic!("{event:?}"),
    });
    asked.collect()
}

fn request(bench: &mut Bench<Server>) -> (Key, Request) {
    match asked(bench).pop() {
        Some((key, Some(request))) => (key, request),
        other => panic!("no request but {other:?}"),
    }
}

fn reply(bench: &mut Bench<Server>, key: Key, text: &str) {
    bench.command(Command::Answer(key, Answer::reply(text))).unwrap();
}

fn frame(text: &str) -> Answer {
    Answer::frame(&json!({ "kind": text }))
}

/// An application: echoes, fails, streams, says nothing.
fn serve(bench: &mut Bench<Server>) {
    loop {
        let asked = asked(bench);
        if asked.is_empty() {
            return;
        }
        for (key, request) in asked {
            let Some(request) = request else { continue };
            let answers = match &*request.command {
                "echo" => vec![Answer::reply(&request.args)],
                "watch" => vec![frame("a"), frame("b"), Answer::End("closed".to_owned())],
                "hang" => vec![],
                "sessions.list" => {
                    vec![request.decode::<std::collections::BTreeMap<String, String>>().map_or_else(
                        |failure| Answer::fail(failure.tag, "wrong arguments"),
                        |args| Answer::reply(&args),
                    )]
                }
                other => vec![Answer::fail(ErrorTag::UnknownCommand, format!("unknown command '{other}'"))],
            };
            for answer in answers {
                bench.command(Command::Answer(key, answer)).unwrap();
            }
        }
    }
}

#[test]
fn no_error_without_request_id_in_the_bytes_of_a_dialogue() {
    let dialogue = [
        (
            r#"{"command":"echo","args":{"a":1},"schemaVersion":1,"requestId":"r1"}"#,
            r#"{"ok":true,"requestId":"r1","result":{"a":1}}"#,
        ),
        (r#"{"command":"echo"}"#, r#"{"ok":true,"result":null}"#),
        (
            r#"{"command":"no.such","requestId":"r1"}"#,
            r#"{"ok":false,"requestId":"r1","error":"unknown_command","message":"unknown command 'no.such'"}"#,
        ),
        (
            r#"{"command":"sessions.list","args":7,"requestId":"r2"}"#,
            r#"{"ok":false,"requestId":"r2","error":"invalid_args","message":"wrong arguments"}"#,
        ),
        (
            r#"{"command":"sessions.list","requestId":"r2"}"#,
            r#"{"ok":false,"requestId":"r2","error":"invalid_args","message":"wrong arguments"}"#,
        ),
        (
            r#"{"command":"sessions.list","args":{},"requestId":"r2"}"#,
            r#"{"ok":true,"requestId":"r2","result":{}}"#,
        ),
        (
            r#"{"requestId":"r3"}"#,
            r#"{"ok":false,"requestId":"r3","error":"invalid_args","message":"malformed request JSON"}"#,
        ),
        (
            r#"{"command":"echo","schemaVersion":99,"requestId":"r4"}"#,
            r#"{"ok":false,"requestId":"r4","error":"schema_mismatch","message":"schema version 99 is not supported, 1 is"}"#,
        ),
        ("{\"command\":", r#"{"ok":false,"error":"invalid_args","message":"malformed request JSON"}"#),
        ("\"\\ud800\"", r#"{"ok":false,"error":"invalid_args","message":"malformed request JSON"}"#),
        (
            r#"{"command":"echo","args":"\ud800","requestId":"\ud800\u00e9"}"#,
            r#"{"ok":true,"requestId":"\ud800\u00e9","result":"\ufffd"}"#,
        ),
        ("\u{feff}{\"command\":\"echo\"}\r", r#"{"ok":true,"result":null}"#),
    ];
    let (mut bench, link) = serving(config());
    for (said, heard) in dialogue {
        bench.bytes(link, format!("\n \t\r\n{said}\n"));
        serve(&mut bench);
        assert_eq!(bench.lines(link), [heard], "{said}");
    }
    bench.bytes(link, "{\"command\":\"watch\",\"requestId\":\"w\"}\n{\"command\":\"never read\"}\n");
    serve(&mut bench);
    assert_eq!(
        bench.lines(link),
        [
            r#"{"stream":"event","requestId":"w","data":{"kind":"a"}}"#,
            r#"{"stream":"event","requestId":"w","data":{"kind":"b"}}"#,
            r#"{"stream":"end","requestId":"w","reason":"closed"}"#,
        ]
    );
    assert!(bench.wire(link).half_closed);
    bench.hear(link, Heard::Eof);
    assert!(bench.wire(link).closed);
    assert_eq!(bench.machine.connections(), 0);
    assert_eq!(bench.at().as_micros(), 0, "nobody waited for a grace period");
}

#[test]
fn the_line_behind_one_that_is_not_utf_8_is_answered_and_none_behind_one_that_is_too_long() {
    let limits = Limits { line: 40, ..config().limits };
    let (mut bench, link) = serving(Config { limits, ..config() });
    let exactly = format!("{{\"command\":\"echo\",\"x\":\"{}\"}}", "y".repeat(15));
    assert_eq!(exactly.len(), 40);
    bench.bytes(link, b"{\"command\":\"\xff\"}\n");
    bench.bytes(link, format!("{exactly}\n{exactly} \n{{\"command\":\"echo\"}}\n"));
    serve(&mut bench);
    let invalid = |why| format!(r#"{{"ok":false,"error":"invalid_args","message":"{why}"}}"#);
    let ok = r#"{"ok":true,"result":null}"#.to_owned();
    let lines = bench.lines(link);
    assert_eq!(lines, [invalid("request is not UTF-8"), ok, invalid("request line longer than 40 bytes")]);
    assert!(bench.wire(link).half_closed);
}

#[test]
fn pipelined_requests_are_handled_one_after_another() {
    let (mut bench, link) = serving(config());
    bench.bytes(
        link,
        "{\"command\":\"a\"}\n{\"command\":\"b\"}\nno\n{\"command\":\"c\",\"requestId\":\"c\"}\n",
    );
    let (a, first) = request(&mut bench);
    assert_eq!(first.command, "a");
    assert!(bench.lines(link).is_empty());
    reply(&mut bench, a, "A");
    let (b, second) = request(&mut bench);
    assert_eq!(second.command, "b");
    assert_eq!(bench.command(Command::Answer(a, Answer::reply("again"))), Err(Refused::Unknown));
    reply(&mut bench, b, "B");
    let (c, _) = request(&mut bench);
    reply(&mut bench, c, "C");
    let lines = bench.lines(link);
    assert_eq!(lines.len(), 4);
    assert!(lines[0].contains("\"A\"") && lines[1].contains("\"B\"") && lines[3].contains("\"C\""));
    assert!(lines[2].contains("malformed"), "{lines:?}");
}

#[test]
fn answers_to_requests_asked_ahead_are_sent_together_or_after_a_millisecond() {
    let (mut bench, link) = serving(config());
    bench.bytes(link, "{\"command\":\"a\"}\n{\"command\":\"b\"}\n{\"command\":\"c\"}\n");
    let (a, _) = request(&mut bench);
    reply(&mut bench, a, "A");
    let (b, _) = request(&mut bench);
    assert!(bench.lines(link).is_empty(), "B is about to come");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.lines(link), [r#"{"ok":true,"result":"A"}"#], "it takes its time");
    for text in ["B", "C"] {
        let key = if text == "B" { b } else { request(&mut bench).0 };
        bench.acks = false;
        reply(&mut bench, key, text);
    }
    assert_eq!(bench.wire(link).outstanding, 2 * r#"{"ok":true,"result":"B"} "#.len(), "one write");
}

#[test]
fn a_client_that_reads_nothing_is_asked_nothing_more_and_leaves_its_seat() {
    let (mut bench, link) = serving(config());
    bench.acks = false;
    let (mut served, mut fed) = (0, 0);
    while !bench.wire(link).unread {
        bench.bytes(link, "{\"command\":\"echo\"}\n".repeat(1000));
        fed += 1000;
        assert!(fed < 100_000, "the server reads for ever");
        loop {
            let asked = asked(&mut bench);
            if asked.is_empty() {
                break;
            }
            for (key, _) in asked {
                served += 1;
                reply(&mut bench, key, "ok");
            }
        }
    }
    assert!((2000..3000).contains(&served), "{served} answers of 26 bytes make 64 KiB");
    bench.pass(Duration::from_secs(89));
    assert!(!bench.wire(link).half_closed);
    bench.pass(Duration::from_secs(5));
    assert!(bench.wire(link).closed);
}

#[test]
fn silence_ends_a_connection_after_90_seconds_of_no_whole_line() {
    let (mut bench, link) = serving(config());
    bench.pass(Duration::from_secs(80));
    bench.bytes(link, "{\"command\":\"echo\"}\n");
    let (key, _) = request(&mut bench);
    bench.pass(Duration::from_secs(3600));
    assert!(bench.lines(link).is_empty(), "time inside a command does not count");
    reply(&mut bench, key, "late");
    bench.pass(Duration::from_secs(80));
    bench.bytes(link, "\n\n{\"comm");
    bench.pass(Duration::from_secs(9));
    bench.bytes(link, "and");
    assert_eq!(bench.lines(link), [r#"{"ok":true,"result":"late"}"#]);
    bench.pass(Duration::from_secs(1));
    assert_eq!(
        bench.lines(link),
        [r#"{"ok":false,"error":"idle_timeout","message":"connection idle > 90s"}"#]
    );
    assert!(bench.wire(link).half_closed);
    bench.pass(Duration::from_secs(3));
    assert!(bench.wire(link).closed, "a client that stays loses its seat");
}

#[test]
fn a_server_that_sleeps_for_an_hour_fires_one_rung() {
    let (mut bench, link) = serving(config());
    bench.acks = false;
    bench.oversleep(Duration::from_secs(3600));
    assert!(!bench.wire(link).half_closed, "the last line may still be taken");
    bench.ack(link);
    assert!(bench.wire(link).half_closed);
}

#[test]
fn silence_does_not_count_while_our_own_reader_is_full() {
    let (mut bench, link) = serving(config());
    bench.feed(Input::Hold(true));
    assert!(bench.wire(link).unread);
    let other = bench.accept(ME);
    assert!(bench.wire(other).unread, "a new client waits as well");
    bench.oversleep(Duration::from_secs(3600));
    bench.bytes(link, "read before the hold was heard of");
    assert!(!bench.wire(link).half_closed);
    bench.feed(Input::Hold(false));
    assert!(!bench.wire(link).unread);
    bench.pass(Duration::from_secs(89));
    assert!(!bench.wire(link).half_closed);
    bench.pass(Duration::from_secs(1));
    assert!(bench.wire(link).half_closed);
}

#[test]
fn whoever_closed_its_half_still_gets_every_answer() {
    let (mut bench, link) = serving(config());
    bench.bytes(link, "{\"command\":\"a\"}\n{\"command\":\"b\"}\n{\"command\":\"c\"}");
    bench.hear(link, Heard::Eof);
    for text in ["A", "B", "C"] {
        let (key, _) = request(&mut bench);
        assert!(!bench.wire(link).closed);
        bench.pass(Duration::from_secs(200));
        reply(&mut bench, key, text);
    }
    assert_eq!(bench.lines(link).len(), 3);
    assert!(bench.wire(link).closed);
}

#[test]
fn whoever_closed_its_half_may_take_the_answer_slowly() {
    let (mut bench, link) = serving(config());
    bench.acks = false;
    bench.bytes(link, "{\"command\":\"a\"}");
    bench.hear(link, Heard::Eof);
    let (key, _) = request(&mut bench);
    bench.command(Command::Answer(key, Answer::reply(&"x".repeat(200_000)))).unwrap();
    bench.pass(Duration::from_secs(80));
    assert!(!bench.wire(link).half_closed);
    bench.ack(link);
    assert!(bench.wire(link).closed);
}

#[test]
fn a_client_that_goes_away_is_told_once() {
    let (mut bench, link) = serving(config());
    bench.bytes(link, "{\"command\":\"wait\"}\n");
    let (key, _) = request(&mut bench);
    bench.hear(link, Heard::Eof);
    assert!(asked(&mut bench).is_empty(), "it may only have closed its half");
    bench.hear(link, Heard::WriteFailed);
    assert!(matches!(asked(&mut bench)[..], [(gone, None)] if gone == key));
    assert!(bench.wire(link).closed);
    assert_eq!(bench.command(Command::Answer(key, Answer::reply("late"))), Err(Refused::Unknown));
    assert!(asked(&mut bench).is_empty());
}

#[test]
fn a_server_that_stops_answers_everybody_and_ends() {
    let (mut bench, idle) = serving(config());
    let [asking, watching] = [(); 2].map(|()| bench.accept(ME));
    bench.bytes(asking, "{\"command\":\"slow\",\"requestId\":\"s\"}\n{\"command\":\"next\"}\n");
    let (slow, _) = request(&mut bench);
    bench.bytes(watching, "{\"command\":\"watch\"}\n");
    let (watch, _) = request(&mut bench);
    bench.command(Command::Answer(watch, frame("a"))).unwrap();
    bench.command(Command::Shutdown("hub_stopping".to_owned())).unwrap();
    assert_eq!(bench.command(Command::Shutdown("again".to_owned())), Err(Refused::Closed));
    assert_eq!(
        bench.lines(asking),
        [r#"{"ok":false,"requestId":"s","error":"app_unavailable","message":"the server is stopping"}"#]
    );
    assert_eq!(
        bench.lines(watching),
        [r#"{"stream":"event","data":{"kind":"a"}}"#, r#"{"stream":"end","reason":"hub_stopping"}"#]
    );
    let gone: Vec<_> = asked(&mut bench).into_iter().map(|(key, _)| key).collect();
    assert_eq!(gone, [slow, watch]);
    for link in [idle, asking, watching] {
        assert!(!bench.ended);
        bench.hear(link, Heard::Eof);
        assert!(bench.wire(link).closed);
    }
    assert!(bench.ended);
    assert!(matches!(bench.told()[..], [Event::Closed(None)]));
    assert_eq!(bench.at().as_micros(), 0, "nobody waited for a grace period");
}

#[test]
fn a_server_that_cannot_listen_says_why_and_ends() {
    let mut bench = Bench::<Server>::new(config());
    bench.fail_to_listen(OpenError::InUse);
    assert!(matches!(bench.told()[..], [Event::Closed(Some(OpenError::InUse))]));
    assert!(bench.ended);
    assert_eq!(bench.command(Command::Shutdown(String::new())), Err(Refused::Closed));
}

#[test]
fn any_cut_of_the_input_gives_the_same_bytes_and_requests() {
    let stream = concat!(
        "{\"command\":\"echo\",\"args\":\"é🎉\",\"requestId\":\"1\"}\r\n\n",
        "no\n{\"command\":\"echo\",\"x\":\"too long for the limit of this test\"}\n",
        "{\"command\":\"watch\"}\n{\"command\":\"lost\"}"
    );
    let run = |cuts: &[usize]| {
        let limits = Limits { line: 60, unsent_soft: 40, ..config().limits };
        let (mut bench, link) = serving(Config { limits, ..config() });
        let mut from = 0;
        for to in cuts.iter().copied().chain([stream.len()]) {
            bench.bytes(link, &stream.as_bytes()[from..to]);
            serve(&mut bench);
            from = to;
        }
        bench.hear(link, Heard::Eof);
        serve(&mut bench);
        assert!(bench.wire(link).closed);
        bench.lines(link)
    };
    let whole = run(&[]);
    assert_eq!(whole.len(), 6, "{whole:#?}");
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            assert_eq!(run(&[first, second]), whole, "{first} {second}");
        }
    }
    let mut dice = Dice(7);
    for _ in 0..200 {
        let mut cuts: Vec<_> = (0..dice.below(20)).map(|_| dice.below(stream.len())).collect();
        cuts.sort_unstable();
        assert_eq!(run(&cuts), whole, "{cuts:?}");
    }
}

#[test]
fn a_trace_can_hold_the_config_and_every_command() {
    let mut bench = serving(config()).0;
    let link = bench.accept(ME);
    bench.bytes(link, "{\"command\":\"echo\"}\n");
    let (key, _) = request(&mut bench);
    let answers =
        [Answer::reply(&1), Answer::fail(ErrorTag::Busy, "m"), frame("a"), Answer::End("r".to_owned())];
    let commands = answers.into_iter().map(|answer| Command::Answer(key, answer));
    for command in commands.chain([Command::Shutdown("r".to_owned())]) {
        let json = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<Command>(&json).unwrap(), command, "{json}");
    }
    let json = serde_json::to_string(&config()).unwrap();
    let again: Config = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), json);
}

#[test]
fn an_output_is_small() {
    assert!(size_of::<Output<Event>>() <= 64, "{}", size_of::<Output<Event>>());
}
