//! The client: answers, streams, and every way in which an answer does not come.

use std::collections::BTreeSet;
use std::time::Duration;

use agentline_core::control::client::{Command, Config, Event};
use agentline_core::control::{Answer, Client, ErrorTag, Failure, Fault, Request};
use agentline_core::rpc::Json;
use agentline_core::{
    Address, Cause, Graces, Heard, Input, Limits, LinkId, OpenError, Output, Peer, Refused, Tag,
};

use super::bench::{Bench, Dice};

const LINK: LinkId = LinkId::FIRST;

fn config() -> Config {
    Config::connect(Address("/run/control.sock".into()))
}

fn connecting(config: Config) -> Bench<Client> {
    Bench::new(config)
}

fn connected(config: Config) -> Bench<Client> {
    let mut bench = connecting(config);
    bench.hear(LINK, Heard::Opened(Peer::default()));
    bench
}

fn call(tag: u64, command: &str) -> Command {
    Command::Call(Tag(tag), Request { command: command.to_owned(), args: None })
}

/// Events since the last call, short.
fn told(bench: &mut Bench<Client>) -> Vec<String> {
    let told = bench.told().into_iter().map(|event| match event {
        Event::Answered(Tag(tag), Answer::Reply(result)) => format!("{tag} reply {result:?}"),
        Event::Answered(Tag(tag), Answer::Fail(failure)) => format!("{tag} fail {failure}"),
        Event::Answered(Tag(tag), Answer::Frame(data)) => format!("{tag} frame {data:?}"),
        Event::Answered(Tag(tag), Answer::End(reason)) => format!("{tag} end {reason}"),
        Event::Lost(Tag(tag), why) => format!("{tag} lost {why:?}"),
        Event::Line(line) => line,
        Event::Greeted(greeting) => format!("greeted {} {:?}", greeting.version, greeting.reason),
        Event::Unexpected { why, line } => format!("{why}: {line}"),
        Event::Closed(closed) => format!("closed {:?}", closed.cause),
    });
    told.collect()
}

#[test]
fn a_call_before_the_link_is_up_is_sent_when_it_is() {
    let mut bench = connecting(config());
    bench.command(call(7, "ping")).unwrap();
    assert!(bench.lines(LINK).is_empty());
    bench.hear(LINK, Heard::Opened(Peer::default()));
    assert_eq!(bench.lines(LINK), [r#"{"command":"ping","schemaVersion":1,"requestId":"7"}"#]);
    bench.bytes(LINK, "{\"ok\":true,\"requestId\":\"7\",\"result\":{\"pong\":true}}\n");
    assert_eq!(told(&mut bench), [r#"7 reply {"pong":true}"#]);
}

#[test]
fn answers_go_to_whom_they_name_or_else_to_the_oldest() {
    let mut bench = connected(config());
    for tag in [1, 2, 3, 4] {
        bench.command(call(tag, "x")).unwrap();
    }
    bench.bytes(
        LINK,
        concat!(
            "{\"ok\":true,\"result\":\"a\"}\n",
            "{\"ok\":true,\"requestId\":\"3\"}\n",
            "{\"ok\":true,\"requestId\":\"3\"}\n",
            "{\"ok\":true,\"requestId\":\"uuid\"}\n",
            "{\"error\":\"busy\",\"message\":\"later\"}\n",
            "{\"ok\":false,\"requestId\":\"4\",\"error\":\"goal_conflict\",\"message\":\"m\"}\n",
        ),
    );
    assert_eq!(
        told(&mut bench),
        [
            "1 reply \"a\"",
            "3 reply null",
            "answers no open call: {\"ok\":true,\"result\":null}",
            "answers no open call: {\"ok\":true,\"result\":null}",
            "2 fail later (busy)",
            "4 fail m (goal_conflict)",
        ]
    );
    assert_eq!(bench.machine.waiting(), 0);
}

#[test]
fn an_answer_that_cannot_be_read_is_a_failure_and_noise_is_only_news() {
    let mut bench = connected(Config { limits: Limits { line: 20, ..Limits::default() }, ..config() });
    bench.bytes(LINK, "hello\n");
    assert_eq!(told(&mut bench), ["not a JSON object: hello"]);
    for (tag, line) in [(1, "oops\n"), (2, "[]\n"), (3, "{}\n"), (4, "{\"a\":\"0123456789012345\"}")] {
        bench.command(call(tag, "x")).unwrap();
        bench.bytes(LINK, line);
    }
    bench.hear(LINK, Heard::Eof);
    assert_eq!(
        told(&mut bench),
        [
            "1 fail the answer is not a JSON object (internal)",
            "2 fail the answer is not a JSON object (internal)",
            "3 fail the server gives no reason (internal)",
            "4 fail the answer is a line over the limit (internal)",
            "closed Fault(Unreadable)",
        ]
    );
    assert!(bench.ended);
}

#[test]
fn a_stream_is_followed_to_its_end() {
    let mut bench = connected(config());
    bench.command(call(1, "session.watch")).unwrap();
    bench.command(call(2, "never.read")).unwrap();
    bench.bytes(LINK, "{\"stream\":\"event\",\"requestId\":\"1\",\"data\":{\"kind\":\"a\"}}\n");
    assert_eq!(bench.command(call(3, "ping")), Err(Refused::Busy));
    bench.pass(Duration::from_secs(3600));
    bench.bytes(LINK, "noise\n{\"kind\":\"future\"}\n{\"stream\":\"end\",\"reason\":\"closed\"}\n");
    assert_eq!(
        told(&mut bench),
        [
            "1 frame {\"kind\":\"a\"}",
            "not a JSON object: noise",
            "1 frame {\"kind\":\"future\"}",
            "1 end closed",
            "2 lost Gone",
        ]
    );
    assert!(bench.wire(LINK).half_closed);
    bench.hear(LINK, Heard::Eof);
    assert_eq!(told(&mut bench), ["closed Gone"]);
}

#[test]
fn a_stream_may_end_before_its_first_frame() {
    let mut bench = connected(config());
    bench.command(call(1, "session.watch")).unwrap();
    bench.bytes(LINK, "{\"stream\":\"end\",\"reason\":\"closed\"}\n");
    bench.hear(LINK, Heard::Eof);
    assert_eq!(told(&mut bench), ["1 end closed", "closed Gone"]);
    assert_eq!(bench.at().as_micros(), 0, "nobody waited for a grace period");
}

#[test]
fn a_stream_may_fail_or_break_off() {
    for (rest, expected) in [
        ("{\"ok\":false,\"error\":\"runner_error\",\"message\":\"m\"}\n", "1 fail m (runner_error)"),
        ("{\"stream\":\"ev", "not a JSON object: {\"stream\":\"ev"),
        ("", "1 lost Gone"),
    ] {
        let mut bench = connected(config());
        bench.command(call(1, "session.watch")).unwrap();
        bench.bytes(LINK, "{\"stream\":\"event\"}\n");
        bench.bytes(LINK, rest);
        bench.hear(LINK, Heard::Eof);
        let told = told(&mut bench);
        assert_eq!(told[..2], ["1 frame null", expected]);
        assert_eq!(told.last().unwrap(), "closed Gone");
        assert!(bench.ended);
    }
}

#[test]
fn a_stream_is_cancelled_by_closing_and_nobody_is_waited_for() {
    let mut bench = connected(config());
    bench.command(call(1, "session.watch")).unwrap();
    bench.bytes(LINK, "{\"stream\":\"event\"}\n");
    bench.command(Command::Close).unwrap();
    assert_eq!(told(&mut bench), ["1 frame null", "1 lost Left", "closed Left"]);
    assert!(bench.wire(LINK).closed && bench.ended);
    assert_eq!(bench.command(Command::Close), Err(Refused::Closed));
    assert_eq!(bench.command(call(2, "ping")), Err(Refused::Closed));
}

#[test]
fn a_call_goes_out_before_the_connection_closes() {
    let mut bench = connecting(config());
    bench.acks = false;
    bench.command(call(1, "app.activate")).unwrap();
    bench.command(Command::Close).unwrap();
    assert!(!bench.wire(LINK).closed);
    bench.hear(LINK, Heard::Opened(Peer::default()));
    assert_eq!(bench.lines(LINK).len(), 1);
    assert!(!bench.wire(LINK).closed);
    bench.ack(LINK);
    assert!(bench.wire(LINK).closed);
    assert_eq!(told(&mut bench), ["1 lost Left", "closed Left"]);
}

#[test]
fn a_server_that_does_not_take_the_call_is_left_after_the_flush_grace() {
    let mut bench = connected(config());
    bench.acks = false;
    bench.command(call(1, "ping")).unwrap();
    bench.command(Command::Close).unwrap();
    bench.pass(Graces::default().flush);
    assert!(bench.wire(LINK).closed);
}

#[test]
fn an_answer_is_waited_for_for_two_minutes_after_the_one_before() {
    let mut bench = connected(config());
    bench.command(call(1, "a")).unwrap();
    bench.command(call(2, "b")).unwrap();
    bench.pass(Duration::from_secs(119));
    bench.bytes(LINK, "{\"ok\":true}\n");
    bench.pass(Duration::from_secs(119));
    assert_eq!(told(&mut bench), ["1 reply null"]);
    bench.pass(Duration::from_secs(1));
    assert_eq!(told(&mut bench), ["2 lost Fault(TimedOut)", "closed Fault(TimedOut)"]);
    assert!(bench.wire(LINK).closed);
    let failure = Failure::from(&Cause::Fault(Fault::TimedOut));
    assert_eq!((failure.tag.exit_code(), failure.tag), (4, ErrorTag::DbUnavailable));
}

#[test]
fn the_clock_of_a_call_starts_when_it_can_be_sent() {
    let mut bench = connecting(config());
    bench.command(call(1, "a")).unwrap();
    bench.pass(Duration::from_secs(9));
    bench.hear(LINK, Heard::Opened(Peer::default()));
    bench.pass(Duration::from_secs(119));
    assert!(told(&mut bench).is_empty());
    bench.pass(Duration::from_secs(1));
    assert_eq!(told(&mut bench), ["1 lost Fault(TimedOut)", "closed Fault(TimedOut)"]);
    let mut bench = connected(config());
    bench.command(call(1, "a")).unwrap();
    bench.bytes(LINK, "{\"ok\":true}\n");
    bench.pass(Duration::from_secs(1000));
    bench.command(call(2, "b")).unwrap();
    bench.pass(Duration::from_secs(119));
    assert_eq!(told(&mut bench), ["1 reply null"]);
    bench.pass(Duration::from_secs(1));
    assert_eq!(told(&mut bench), ["2 lost Fault(TimedOut)", "closed Fault(TimedOut)"]);
    let mut bench = connected(config());
    bench.command(call(1, "a")).unwrap();
    bench.pass(Duration::from_secs(60));
    bench.command(call(2, "b")).unwrap();
    bench.pass(Duration::from_secs(60));
    assert_eq!(
        told(&mut bench),
        ["1 lost Fault(TimedOut)", "2 lost Fault(TimedOut)", "closed Fault(TimedOut)"]
    );
}

#[test]
fn whoever_asks_may_have_another_patience_from_there_on() {
    let mut bench = connected(config());
    bench.command(Command::Patience(Some(Duration::from_secs(1)))).unwrap();
    bench.command(call(1, "a")).unwrap();
    bench.bytes(LINK, "{\"ok\":true}\n");
    bench.command(Command::Patience(None)).unwrap();
    bench.command(call(2, "b")).unwrap();
    bench.pass(Duration::from_secs(1000));
    assert_eq!(told(&mut bench), ["1 reply null"]);
    bench.command(Command::Patience(Some(Duration::from_secs(3)))).unwrap();
    bench.pass(Duration::from_secs(2));
    assert!(told(&mut bench).is_empty(), "it has the whole time again");
    bench.pass(Duration::from_secs(1));
    assert_eq!(told(&mut bench), ["2 lost Fault(TimedOut)", "closed Fault(TimedOut)"]);
    assert_eq!(bench.command(Command::Patience(None)), Err(Refused::Closed));
}

#[test]
fn a_trace_can_hold_the_config_and_every_command() {
    for command in [call(1, "a"), Command::Patience(Some(Duration::from_secs(7))), Command::Close] {
        let json = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<Command>(&json).unwrap(), command, "{json}");
    }
    let json = serde_json::to_string(&config()).unwrap();
    let again: Config = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), json);
}

#[test]
fn a_client_without_a_limit_waits_for_ever_and_an_idle_one_has_no_clock() {
    let mut bench = connected(Config { answer: None, ..config() });
    bench.command(call(1, "session.wait")).unwrap();
    assert_eq!(bench.machine.waiting(), 1);
    bench.pass(Duration::from_secs(100_000));
    assert!(told(&mut bench).is_empty());
    let mut bench = connected(config());
    bench.pass(Duration::from_secs(100_000));
    assert!(told(&mut bench).is_empty());
}

#[test]
fn the_clock_stands_still_while_our_own_reader_is_full() {
    let mut bench = connected(config());
    bench.command(call(1, "a")).unwrap();
    bench.pass(Duration::from_secs(19));
    bench.feed(Input::Hold(true));
    assert!(bench.wire(LINK).unread);
    bench.oversleep(Duration::from_secs(3600));
    bench.feed(Input::Hold(false));
    assert!(!bench.wire(LINK).unread);
    bench.pass(Duration::from_secs(100));
    assert!(told(&mut bench).is_empty());
    bench.pass(Duration::from_secs(1));
    assert_eq!(told(&mut bench), ["1 lost Fault(TimedOut)", "closed Fault(TimedOut)"]);
}

#[test]
fn a_server_that_cannot_be_reached_loses_every_call() {
    let mut bench = connecting(config());
    bench.command(call(1, "a")).unwrap();
    bench.command(call(2, "b")).unwrap();
    bench.hear(LINK, Heard::OpenFailed(OpenError::Refused));
    assert_eq!(
        told(&mut bench),
        ["1 lost Failed(Refused)", "2 lost Failed(Refused)", "closed Failed(Refused)"]
    );
    let mut bench = connecting(config());
    bench.command(call(1, "a")).unwrap();
    bench.pass(Duration::from_secs(10));
    assert_eq!(told(&mut bench), ["1 lost Failed(TimedOut)", "closed Failed(TimedOut)"]);
    assert!(bench.ended);
}

#[test]
fn what_the_server_said_before_it_stopped_reading_still_counts() {
    let mut bench = connected(config());
    bench.command(call(1, "a")).unwrap();
    bench.acks = false;
    bench.command(call(2, "b")).unwrap();
    bench.hear(LINK, Heard::WriteFailed);
    assert_eq!(bench.command(call(3, "c")), Err(Refused::Closed));
    bench.bytes(LINK, "{\"ok\":false,\"error\":\"idle_timeout\",\"message\":\"connection idle > 90s\"}\n");
    bench.hear(LINK, Heard::Eof);
    assert_eq!(
        told(&mut bench),
        ["1 fail connection idle > 90s (idle_timeout)", "2 lost Gone", "closed Gone"]
    );
}

#[test]
fn a_refused_call_changes_nothing() {
    let limits = Limits { own_requests: 2, unsent_soft: 300, line: 40, ..Limits::default() };
    let mut bench = connected(Config { limits, ..config() });
    bench.acks = false;
    bench.command(call(1, "a")).unwrap();
    let refused = |bench: &mut Bench<Client>, command| {
        let before = format!("{:?}", bench.machine);
        let refused = bench.command(command).unwrap_err();
        assert_eq!(format!("{:?}", bench.machine), before);
        refused
    };
    assert_eq!(refused(&mut bench, call(1, "b")), Refused::Busy);
    let args = Some(Json::new(&"x".repeat(50)));
    let long = Command::Call(Tag(2), Request { command: "b".to_owned(), args });
    assert_eq!(refused(&mut bench, long), Refused::Limit("bytes of a request"));
    bench.command(call(2, &"b".repeat(300))).unwrap();
    assert_eq!(refused(&mut bench, call(3, "c")), Refused::Limit("open calls"));
    bench.bytes(LINK, "{\"ok\":true}\n");
    assert_eq!(refused(&mut bench, call(1, "c")), Refused::Limit("unsent bytes"));
    bench.ack(LINK);
    bench.ack(LINK);
    bench.command(call(1, "c")).unwrap();
}

#[test]
fn any_cut_of_the_input_gives_the_same_events() {
    let stream = concat!(
        "{\"ok\":true,\"requestId\":\"2\",\"result\":\"é🎉\"}\r\n\n",
        "{\"ok\":false,\"error\":\"busy\",\"message\":\"m\"}\nno\n",
        "{\"stream\":\"event\"}\nnoise\n{\"stream\":\"end\"}"
    );
    let run = |cuts: &[usize]| {
        let mut bench = connected(Config { limits: Limits { line: 50, ..Limits::default() }, ..config() });
        for tag in 0..6 {
            bench.command(call(tag, "x")).unwrap();
        }
        let mut from = 0;
        for to in cuts.iter().copied().chain([stream.len()]) {
            bench.bytes(LINK, &stream.as_bytes()[from..to]);
            from = to;
        }
        bench.hear(LINK, Heard::Eof);
        assert!(bench.ended);
        told(&mut bench)
    };
    let whole = run(&[]);
    assert_eq!(whole.len(), 9, "{whole:#?}");
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            assert_eq!(run(&[first, second]), whole, "{first} {second}");
        }
    }
    let mut dice = Dice(11);
    for _ in 0..200 {
        let mut cuts: Vec<_> = (0..dice.below(20)).map(|_| dice.below(stream.len())).collect();
        cuts.sort_unstable();
        assert_eq!(run(&cuts), whole, "{cuts:?}");
    }
}

#[test]
fn every_call_ends_once_whatever_the_server_does() {
    const LINES: [&str; 8] = [
        "{\"ok\":true}\n",
        "{\"ok\":true,\"requestId\":\"2\"}\n",
        "{\"ok\":false,\"requestId\":\"9\"}\n",
        "{\"stream\":\"event\"}\n",
        "{\"stream\":\"end\"}\n",
        "{\"x\":1}\n",
        "noise\n",
        "{\"ok\":tr",
    ];
    for seed in 0..5000 {
        let mut dice = Dice(seed);
        let mut bench = connecting(config());
        bench.acks = false;
        let mut open = BTreeSet::new();
        for _ in 0..40 {
            let before = format!("{:?}", bench.machine);
            match dice.below(16) {
                0..5 => {
                    let tag = u64::try_from(dice.below(4)).unwrap();
                    match bench.command(call(tag, "x")) {
                        Ok(()) => assert!(open.insert(Tag(tag))),
                        Err(_) => assert_eq!(format!("{:?}", bench.machine), before),
                    }
                }
                5..8 if !bench.wire(LINK).unread => bench.bytes(LINK, LINES[dice.below(LINES.len())]),
                8..11 => bench.hear(LINK, Heard::Opened(Peer::default())),
                11 => bench.ack(LINK),
                12 => bench.pass(Duration::from_secs([1, 119, 120][dice.below(3)])),
                13 => bench.feed(Input::Hold(dice.below(2) == 0)),
                14 if dice.below(4) == 0 => {
                    let ends = [Heard::Eof, Heard::WriteFailed, Heard::OpenFailed(OpenError::Refused)];
                    bench.hear(LINK, ends[dice.below(3)]);
                }
                15 if dice.below(4) == 0 => drop(bench.command(Command::Close)),
                _ => {}
            }
            for event in bench.told() {
                match event {
                    Event::Answered(tag, Answer::Frame(_)) => assert!(open.contains(&tag)),
                    Event::Answered(tag, _) | Event::Lost(tag, _) => assert!(open.remove(&tag)),
                    Event::Greeted(_) | Event::Line(_) | Event::Unexpected { .. } => {}
                    Event::Closed(_) => assert!(open.is_empty()),
                }
            }
            assert!(bench.ended || !open.is_empty() || bench.machine.waiting() == 0);
        }
        let _ = bench.command(Command::Close);
        bench.pass(Duration::from_secs(20));
        assert!(bench.ended && bench.wire(LINK).closed, "seed {seed}");
    }
}

#[test]
fn an_output_is_small() {
    assert!(size_of::<Output<Event>>() <= 64, "{}", size_of::<Output<Event>>());
}

#[test]
fn who_greets_is_asked_after_what_a_login_shell_says() {
    let mut bench = connecting(Config { greeted: true, ..config() });
    assert_eq!(bench.command(call(1, "ping")), Err(Refused::NotReady));
    bench.hear(LINK, Heard::Opened(Peer::default()));
    bench.bytes(LINK, "Welcome to devbox\n{\"mail\": 3}\n\u{1b}[1m{\n\n");
    bench.hear(LINK, Heard::Bytes(b"\xff\xfe\n"));
    assert_eq!(bench.command(call(1, "ping")), Err(Refused::NotReady));
    bench.bytes(LINK, "{\"hub\":1,\"version\":\"0.2.0\",\"pid\":7,\"later\":[]}\n");
    assert_eq!(told(&mut bench), ["greeted 0.2.0 None"]);
    bench.command(call(1, "ping")).unwrap();
    bench.bytes(LINK, "{\"ok\":true,\"requestId\":\"1\",\"result\":7}\n");
    assert_eq!(told(&mut bench), ["1 reply 7"]);

    let mut nobody = connecting(Config { greeted: true, ..config() });
    nobody.hear(LINK, Heard::Opened(Peer::default()));
    nobody.bytes(LINK, "{\"hub\":0,\"reason\":\"none runs\"}\n");
    assert_eq!(told(&mut nobody), ["greeted  Some(\"none runs\")"]);
}

#[test]
fn who_never_greets_is_left() {
    let closed = |bench: &mut Bench<Client>| told(bench).pop();
    let no_greeting = Some(format!("closed {:?}", Cause::Fault(Fault::NoGreeting)));
    let mut silent = connected(Config { greeted: true, ..config() });
    silent.pass(Duration::from_secs(9));
    assert_eq!(closed(&mut silent), None);
    silent.pass(Duration::from_secs(1));
    assert_eq!(closed(&mut silent), no_greeting);

    for noise in ["x".repeat(1 << 17), format!("{}\n", "y".repeat(1000)).repeat(70)] {
        let mut noisy = connected(Config { greeted: true, ..config() });
        noisy.bytes(LINK, &noise);
        noisy.bytes(LINK, "\n");
        assert_eq!(closed(&mut noisy), no_greeting, "{}", noise.len());
    }
}
