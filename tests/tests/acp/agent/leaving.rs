//! Clients that read slowly, and the end of it all.

use super::*;

#[test]
fn at_the_end_of_its_input_an_agent_ends_what_is_open_and_is_gone_at_once() {
    for by_signal in [false, true] {
        let mut rig = one_session();
        let turn = begin(&mut rig, "1");
        rig.command(ask(5, turn)).unwrap();
        rig.hear(&request("2", "session/list", "{}"));
        rig.told();
        rig.written();
        if by_signal {
            rig.command(Command::Shutdown).unwrap();
        } else {
            rig.link(Heard::Eof);
        }
        assert_eq!(
            rig.written(),
            [
                r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#,
                r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"the agent is leaving"}}"#,
            ]
        );
        assert_eq!(words(&mut rig), ["permission 5 Cancelled", "turn over", "withdrawn", "closed None"]);
        assert_eq!(rig.done().last().map(String::as_str), Some("End"));
        assert_eq!(rig.command(say(turn, "late")), Err(Refused::Closed));
    }
}

#[test]
fn an_agent_that_leaves_waits_for_a_deaf_client_no_longer_than_its_flush() {
    let mut rig = Rig::<Agent>::greeted(plain(), "{}");
    rig.done();
    rig.deafen();
    rig.hear(&request("1", "no/such", "{}"));
    rig.link(Heard::Eof);
    rig.wait(Duration::from_millis(99));
    assert!(rig.done().is_empty() && rig.told().is_empty());
    rig.wait(Duration::from_millis(1));
    assert_eq!(rig.done(), ["CloseWrite", "Close", "End"]);
    assert_eq!(words(&mut rig), ["closed None"]);
}

#[test]
fn who_talks_faster_than_the_client_reads_is_told_to_wait() {
    let limits = Limits { unsent_soft: 1000, ..Limits::default() };
    let mut rig = Rig::<Agent>::with_sessions(Config { limits, ..plain() }, "{}", &["s"]);
    let turn = begin(&mut rig, "1");
    rig.deafen();
    let said = (0..).take_while(|_| rig.command(say(turn, "0123456789")).is_ok()).count();
    assert!((5..10).contains(&said), "{said}");
    assert_eq!(rig.command(say(turn, "more")), Err(Refused::Crowded));
    assert_eq!(words(&mut rig), ["crowded"]);
    // The end of a turn needs no room.
    assert_eq!(rig.command(end(turn)), Ok(()));
    rig.undeafen();
    assert_eq!(words(&mut rig), ["drained"]);
    assert_eq!(rig.written().len(), said + 1);
    let turn = begin(&mut rig, "2");
    assert_eq!(rig.command(say(turn, "more")), Ok(()));
}

#[test]
fn a_client_that_only_talks_is_left_and_everything_ends_once() {
    let lines: Vec<String> = (100..900).map(|id| request(&id.to_string(), "no/such", "{}")).collect();
    for step in [1, lines.len()] {
        let limits = Limits { unsent_soft: 100_000, unsent_hard: 4000, ..Limits::default() };
        let mut rig = Rig::<Agent>::with_sessions(Config { limits, ..generous() }, CLIENT_OFFERS, &["s"]);
        let turn = begin(&mut rig, "1");
        rig.command(ask(5, turn)).unwrap();
        rig.hear(&request("2", "session/list", "{}"));
        rig.told();
        rig.done();
        rig.deafen();
        for lines in lines.chunks(step) {
            rig.hear(&lines.join("\n"));
            // One answer is one too many, and the two requests that are open get theirs.
            assert!(rig.machine().machine().unsent() < 8500, "{}", rig.machine().machine().unsent());
        }
        rig.wait(Duration::from_secs(10));
        assert_eq!(
            words(&mut rig),
            ["permission 5 Cancelled", "turn over", "withdrawn", "closed Some(NotReading)"],
            "{step} lines a read"
        );
        assert_eq!(rig.done(), ["CloseWrite", "Close", "End"]);
    }
}

#[test]
fn what_an_agent_tells_a_client_that_does_not_read_has_an_end_too() {
    let limits = Limits { unsent_hard: 4000, ..Limits::default() };
    let mut rig = Rig::<Agent>::with_sessions(Config { limits, ..plain() }, "{}", &["s"]);
    rig.deafen();
    let notify = || Command::Notify { method: "_x/news".into(), params: empty() };
    let said = (0..).take_while(|_| rig.command(notify()).is_ok()).count();
    assert!((50..100).contains(&said), "{said}");
    assert_eq!(rig.command(notify()), Err(Refused::Crowded));
    rig.wait(Duration::from_secs(10));
    assert!(words(&mut rig).is_empty());
}

#[test]
fn a_client_that_is_gone_hears_nothing_more() {
    let mut rig = one_session();
    let turn = begin(&mut rig, "1");
    rig.link(Heard::WriteFailed);
    assert_eq!(rig.command(say(turn, "hello?")), Err(Refused::Closed));
    rig.link(Heard::Eof);
    assert_eq!(words(&mut rig), ["turn over", "closed None"]);
}

#[test]
fn a_line_that_no_client_would_take_is_refused() {
    let limits = Limits { line: 500, ..Limits::default() };
    let mut rig = Rig::<Agent>::with_sessions(Config { limits, ..plain() }, "{}", &["s"]);
    let turn = begin(&mut rig, "1");
    assert_eq!(rig.command(say(turn, &"x".repeat(500))), Err(Refused::Limit("bytes of one line")));
    let error = RpcError::new(-32603, "x".repeat(500));
    assert_eq!(
        rig.command(Command::FailTurn { turn, error }),
        Err(Refused::Limit("bytes of one line")),
        "and the turn goes on"
    );
    assert_eq!(rig.command(say(turn, "short")), Ok(()));
}

#[test]
fn an_answer_does_not_repeat_all_that_is_wrong() {
    let mut rig = one_session();
    let long = "\"".repeat(5000).replace('"', "\\\"");
    for (method, params) in [
        ("session/prompt", format!(r#"{{"sessionId":"{long}","prompt":[]}}"#)),
        ("session/new", format!(r#"{{"cwd":"/","mcpServers":"{long}"}}"#)),
        ("authenticate", format!(r#"{{"methodId":"{long}"}}"#)),
        (&long, "{}".to_owned()),
    ] {
        rig.hear(&request("1", method, &params));
        let line = rig.line();
        assert!(line.contains("\"error\"") && line.len() < 2000, "{method}: {} bytes", line.len());
    }
}
