//! Streams, and what is bounded: slow watchers, floods, many clients.

use super::*;

#[test]
fn a_flood_without_a_line_end_is_refused_once() {
    let (mut bench, link) = serving(config());
    for _ in 0..(64 << 20 >> 16) {
        bench.bytes(link, [b'x'; 64 << 10]);
    }
    assert_eq!(
        bench.lines(link),
        [r#"{"ok":false,"error":"invalid_args","message":"request line longer than 16777216 bytes"}"#]
    );
    assert!(bench.wire(link).half_closed);
}

#[test]
fn ten_thousand_pipelined_requests_are_answered_in_order_and_little_waits() {
    let (mut bench, link) = serving(config());
    bench.acks = false;
    let soft = config().limits.unsent_soft;
    let line = |n: usize| format!("{{\"command\":\"echo\",\"args\":{n},\"requestId\":\"{n}\"}}\n");
    let stream: String = (0..10_000).map(line).collect();
    let mut rest = stream.as_bytes();
    let (mut taken, mut answered, mut unsent) = (0, Vec::new(), 0);
    while answered.len() < 10_000 {
        // The pipe: up to 64 KiB a read, nothing while the server does not read.
        if !bench.wire(link).unread && !rest.is_empty() {
            let (chunk, left) = rest.split_at(rest.len().min(64 << 10));
            rest = left;
            bench.bytes(link, chunk);
        }
        for (key, request) in asked(&mut bench) {
            let args = request.unwrap().args.unwrap();
            taken += line(answered.len()).len();
            unsent += format!("{{\"ok\":true,\"requestId\":\"{args:?}\",\"result\":{args:?}}}\n").len();
            answered.push(args.get().parse::<usize>().unwrap());
            bench.command(Command::Answer(key, Answer::Reply(args))).unwrap();
        }
        assert!(stream.len() - rest.len() - taken <= 2 * (64 << 10), "too much waits to be handled");
        assert!(unsent <= soft + 100, "too much waits to be sent");
        // The client takes an answer now and then.
        if bench.events.is_empty() {
            let flight = bench.wire(link).outstanding;
            assert!(flight <= 64 << 10);
            unsent -= flight;
            bench.ack(link);
        }
    }
    assert!(answered.iter().copied().eq(0..10_000));
    while bench.wire(link).outstanding > 0 {
        bench.ack(link);
    }
    let lines = bench.lines(link);
    assert_eq!(lines.len(), 10_000);
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(line, &format!("{{\"ok\":true,\"requestId\":\"{n}\",\"result\":{n}}}"));
    }
}

#[test]
fn a_watcher_ends_its_stream_by_closing() {
    let (mut bench, link) = serving(Config { connections: 1, ..config() });
    bench.bytes(link, "{\"command\":\"watch\"}\n");
    let (key, _) = request(&mut bench);
    bench.command(Command::Answer(key, frame("a"))).unwrap();
    let other = bench.accept(ME);
    bench.bytes(other, "{\"command\":\"watch\"}\n");
    request(&mut bench);
    bench.pass(Duration::from_secs(3600));
    assert!(!bench.wire(link).half_closed, "a stream is never idle");
    assert!(!bench.is_accepting(), "the seat is taken, and so is that of whoever waits for one");
    bench.hear(link, Heard::Eof);
    bench.command(Command::Answer(key, frame("b"))).unwrap();
    bench.hear(link, Heard::WriteFailed);
    assert!(matches!(asked(&mut bench)[..], [(gone, None)] if gone == key));
    assert_eq!(bench.command(Command::Answer(key, frame("c"))), Err(Refused::Unknown));
    assert!(bench.is_accepting(), "the seat is free again");
}

#[test]
fn a_stream_takes_frames_and_an_end_and_a_long_answer_is_refused() {
    let (mut bench, link) = serving(Config { answer: 30, ..config() });
    bench.bytes(link, "{\"command\":\"watch\"}\n");
    let (key, _) = request(&mut bench);
    let long = Answer::reply(&"x".repeat(29));
    assert_eq!(bench.command(Command::Answer(key, long)), Err(Refused::Limit("bytes of an answer")));
    bench.command(Command::Answer(key, frame("a"))).unwrap();
    for whole in [Answer::reply("r"), Answer::fail(ErrorTag::Internal, "f")] {
        assert!(matches!(bench.command(Command::Answer(key, whole)), Err(Refused::Invalid(_))));
    }
    bench.command(Command::Answer(key, Answer::End("done".to_owned()))).unwrap();
    assert_eq!(bench.lines(link).len(), 2);
}

#[test]
fn a_slow_watcher_learns_how_much_it_lost_and_slows_nobody() {
    let (mut bench, slow) = serving(Config { watch: 1000, ..config() });
    let quick = bench.accept(ME);
    let mut keys = Vec::new();
    for link in [slow, quick] {
        bench.bytes(link, "{\"command\":\"watch\",\"requestId\":\"w\"}\n");
        keys.push(request(&mut bench).0);
    }
    bench.acks = false;
    for n in 0..100 {
        for key in &keys {
            bench.command(Command::Answer(*key, frame(&format!("{n:03}")))).unwrap();
        }
        bench.ack(quick);
    }
    bench.ack(quick);
    let numbered = |n: usize| format!(r#"{{"stream":"event","requestId":"w","data":{{"kind":"{n:03}"}}}}"#);
    let quick_lines = bench.lines(quick);
    assert_eq!(quick_lines, (0..100).map(numbered).collect::<Vec<_>>());
    bench.acks = true;
    bench.ack(slow);
    bench.command(Command::Answer(keys[0], frame("100"))).unwrap();
    let lines = bench.lines(slow);
    let kept = lines.len() - 2;
    assert!((10..25).contains(&kept), "{kept} frames fit");
    assert_eq!(lines[..kept], (0..kept).map(numbered).collect::<Vec<_>>());
    let lagged =
        format!(r#"{{"stream":"event","requestId":"w","data":{{"kind":"lagged","lost":{}}}}}"#, 100 - kept);
    assert_eq!(lines[kept..], [lagged, numbered(100)]);
    assert_eq!(bench.told(), [Event::CaughtUp(keys[0], 100 - kept as u64)]);
}

#[test]
fn a_stream_that_ends_says_what_was_lost_before() {
    let (mut bench, link) = serving(Config { watch: 1, ..config() });
    bench.acks = false;
    bench.bytes(link, "{\"command\":\"watch\"}\n");
    let (key, _) = request(&mut bench);
    for _ in 0..4 {
        bench.command(Command::Answer(key, frame("x"))).unwrap();
    }
    bench.command(Command::Answer(key, Answer::End("done".to_owned()))).unwrap();
    bench.pass(Duration::from_secs(60));
    bench.ack(link);
    bench.ack(link);
    assert_eq!(
        bench.lines(link),
        [
            r#"{"stream":"event","data":{"kind":"x"}}"#,
            r#"{"stream":"event","data":{"kind":"lagged","lost":3}}"#,
            r#"{"stream":"end","reason":"done"}"#,
        ]
    );
    assert!(bench.wire(link).half_closed);
}

#[test]
fn ten_thousand_clients_are_held_with_one_action_each() {
    const MANY: usize = 10_000;
    let mut server = Server::new(Now::default(), Config { connections: MANY, ..config() });
    let mut links = Vec::new();
    server
        .handle(Now::default(), Input::Link(LinkId::FIRST, Heard::Opened(Peer { pid: None, uid: Some(ME) })));
    while let Some(output) = server.poll() {
        if let Output::Do(link, Action::Open(Open::Accept(_))) = output {
            server
                .handle(Now::default(), Input::Link(link, Heard::Opened(Peer { pid: None, uid: Some(ME) })));
            links.push(link);
        }
    }
    // One more, who waits for a seat.
    assert_eq!(links.len(), MANY + 1);
    for hold in [true, false] {
        server.handle(Now::default(), Input::Hold(hold));
        let did: Vec<_> = std::iter::from_fn(|| server.poll()).collect();
        assert!(did.iter().all(|did| matches!(did, Output::Do(_, Action::Read(read)) if *read != hold)));
        assert_eq!(did.len(), MANY + 1);
    }
}

#[test]
fn e9_a_watcher_that_takes_nothing_is_told_why_and_leaves() {
    let (mut bench, link) = serving(config());
    bench.bytes(link, "{\"command\":\"watch\"}\n");
    let (key, _) = request(&mut bench);
    bench.acks = false;
    for pause in [29, 29] {
        bench.command(Command::Answer(key, frame("a"))).unwrap();
        bench.pass(Duration::from_secs(pause));
        assert!(asked(&mut bench).is_empty(), "it has time yet");
        bench.ack(link);
    }
    bench.pass(Duration::from_secs(3600));
    assert!(asked(&mut bench).is_empty(), "nothing is unsent, so nothing is stalled");
    bench.command(Command::Answer(key, frame("b"))).unwrap();
    bench.pass(Duration::from_secs(30));
    assert!(matches!(asked(&mut bench)[..], [(gone, None)] if gone == key));
    bench.ack(link);
    assert_eq!(bench.lines(link).last().map(String::as_str), Some(r#"{"stream":"end","reason":"stalled"}"#));
    bench.pass(Duration::from_secs(60));
    assert!(bench.wire(link).closed);
}

#[test]
fn e9_what_a_stopped_watcher_keeps_is_bounded_and_what_it_lost_is_counted() {
    let (mut bench, link) = serving(Config { watch: 4096, ..config() });
    bench.bytes(link, "{\"command\":\"watch\"}\n");
    let (key, _) = request(&mut bench);
    bench.acks = false;
    for _ in 0..1000 {
        bench.command(Command::Answer(key, frame("x"))).unwrap();
    }
    bench.acks = true;
    bench.ack(link);
    let lines = bench.lines(link);
    let lagged = lines.last().expect("the count");
    let lost: serde_json::Value = serde_json::from_str(lagged).expect("JSON");
    assert_eq!(lost["data"]["kind"], "lagged", "{lagged}");
    let sent = lines.len() - 1;
    assert_eq!(lost["data"]["lost"], 1000 - sent, "each is sent or counted");
    assert!(lines.iter().map(String::len).sum::<usize>() < 4096 + 300);
}

#[test]
fn g8_idle_connections_lock_nobody_out() {
    let (mut bench, first) = serving(Config { connections: 3, ..config() });
    let others = [(); 2].map(|()| bench.accept(ME));
    bench.pass(Duration::from_secs(5));
    bench.bytes(first, "{\"command\":\"wait\"}\n");
    let (key, _) = request(&mut bench);
    let late = bench.accept(ME);
    assert!(!bench.is_accepting());
    bench.pass(Duration::from_secs(5));
    let message = "connection idle, and others wait for its seat";
    let line = format!(r#"{{"ok":false,"error":"idle_timeout","message":"{message}"}}"#);
    assert_eq!(bench.lines(others[0]), [line], "whoever was idle longest");
    bench.hear(others[0], Heard::Eof);
    assert!(bench.is_accepting());
    assert!(!bench.wire(others[1]).half_closed && !bench.wire(late).half_closed);
    bench.command(Command::Answer(key, Answer::reply("r"))).unwrap();
    assert_eq!(bench.lines(first).len(), 1, "who waits for an answer is not idle");
}

#[test]
fn g8_unfinished_lines_are_bounded_in_all() {
    let mut limits = config().limits;
    limits.write = 100;
    let (mut bench, first) = serving(Config { unfinished: 1000, limits, ..config() });
    let second = bench.accept(ME);
    bench.bytes(first, format!("{{\"command\":\"{}", "x".repeat(500)));
    bench.bytes(second, format!("{{\"command\":\"{}", "x".repeat(400)));
    assert!(bench.lines(first).is_empty());
    bench.bytes(second, "x".repeat(200));
    let said = bench.lines(second);
    assert!(said.len() == 1 && said[0].contains(r#""error":"busy""#), "{said:?}");
    assert!(bench.wire(second).half_closed);
    bench.bytes(first, "\"}\n");
    let (key, asked) = request(&mut bench);
    assert_eq!(asked.command.len(), 500);
    bench.command(Command::Answer(key, Answer::reply("r"))).unwrap();
    // What is finished weighs nothing any more.
    let third = bench.accept(ME);
    bench.bytes(third, "x".repeat(900));
    assert!(bench.lines(third).is_empty());
}
