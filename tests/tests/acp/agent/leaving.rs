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
    let machine = Checked::new(Default::default(), (Default::default(), plain()));
    let mut rig = Deaf::around(machine);
    rig.hear(Heard::Bytes(
        format!("{}\n", request("0", "initialize", r#"{"protocolVersion":1}"#)).as_bytes(),
    ));
    rig.hear(Heard::Eof);
    assert_eq!(rig.deadline(), Some((Duration::from_millis(100), "flush before leaving")));
}

/// A machine whose writes are never done.
struct Deaf(Checked<Agent>);

impl Deaf {
    fn around(machine: Checked<Agent>) -> Self {
        let mut deaf = Self(machine);
        deaf.hear(Heard::Opened(Default::default()));
        deaf
    }

    fn hear(&mut self, heard: Heard<'_>) {
        self.0.handle(Default::default(), Input::Link(LinkId::FIRST, heard));
        while self.0.poll().is_some() {}
    }

    fn deadline(&self) -> Option<(Duration, &'static str)> {
        self.0.deadline().map(|(at, why)| (at.since(Time::ZERO), why))
    }
}

#[test]
fn who_talks_faster_than_the_client_reads_is_told_to_wait() {
    let limits = Limits { unsent_soft: 1000, ..Limits::default() };
    let mut agent = Agent::new(Default::default(), Config { limits, ..plain() });
    let mut told = Vec::new();
    let hear = |agent: &mut Agent, heard: Heard<'_>| {
        agent.handle(Default::default(), Input::Link(LinkId::FIRST, heard))
    };
    hear(&mut agent, Heard::Opened(Default::default()));
    for line in [
        request("0", "initialize", r#"{"protocolVersion":1}"#),
        request("1", "session/new", r#"{"cwd":"/w"}"#),
    ] {
        hear(&mut agent, Heard::Bytes(format!("{line}\n").as_bytes()));
    }
    let mut drain = |agent: &mut Agent| {
        let mut writes = 0;
        while let Some(output) = agent.poll() {
            match output {
                Output::Tell(event) => told.push(event),
                Output::Do(_, action) => writes += usize::from(matches!(action, Action::Write(_))),
                Output::Store(_) | Output::End => {}
            }
        }
        (writes, std::mem::take(&mut told))
    };
    let (_, events) = drain(&mut agent);
    let request = events
        .iter()
        .find_map(|event| if let Event::Requested(asked) = event { Some(asked.request) } else { None });
    let reply = Reply::SessionOpened { session: "s".into(), state: SessionState::default() };
    agent.command(Default::default(), Command::Reply { request: request.unwrap(), reply }).unwrap();
    hear(&mut agent, Heard::Bytes(format!("{}\n", prompt("2")).as_bytes()));
    let (_, events) = drain(&mut agent);
    let turn = events
        .iter()
        .find_map(|event| if let Event::Prompted(prompted) = event { Some(prompted.turn) } else { None });
    let turn = turn.unwrap();
    let mut said = 0;
    let refused = loop {
        match agent.command(Default::default(), say(turn, "0123456789")) {
            Ok(()) => said += 1,
            Err(refused) => break refused,
        }
        assert!(said < 100);
    };
    assert!(matches!(refused, Refused::Limit(_)) && said > 3, "{said} {refused}");
    assert_eq!(drain(&mut agent).1, [Event::Crowded]);
    // The end of the turn needs no room.
    hear(&mut agent, Heard::Written);
    hear(&mut agent, Heard::Written);
    assert_eq!(drain(&mut agent).1, [Event::Drained]);
    assert_eq!(agent.command(Default::default(), say(turn, "more")), Ok(()));
    assert_eq!(agent.command(Default::default(), end(turn)), Ok(()));
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
    assert_eq!(rig.command(say(turn, "short")), Ok(()));
}
