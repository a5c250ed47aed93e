//! What a hub with many sessions costs in the core alone: `many_sessions SESSIONS list|new|named TIMES` takes up so many
//! records, 200 of each agent, and is then asked so often for all sessions, or for a new one, with or without a name. Run
//! it for two numbers of times under a counter of instructions; the difference is the cost.

#![expect(clippy::disallowed_methods, reason = "a program around the core")]

use std::time::Duration;

use agentline_core::control::server;
use agentline_core::hub::{AgentKind, AgentSpec, Caller, Command, Config, Errand, Event, Found, Hub, Stored};
use agentline_core::{Action, Address, Heard, Input, LinkId, Machine, Now, Output, Peer, Time};

/// Sessions of one agent.
const EACH: usize = 200;

fn now() -> Now {
    // Later than the ten minutes in which nothing is forgotten.
    Now { mono: Time::ZERO + Duration::from_secs(3600), unix: Duration::from_secs(1_800_003_600) }
}

fn stored(sessions: usize) -> Stored {
    let mut stored = Stored::default();
    for number in 1..=sessions {
        let record = format!(
            r#"{{"version":1,"session":{number},"agent":"agent-{}","cwd":"/home/somebody/project","agentSessionId":"sess-{number:016}","title":"Fix the flaky login test","stand":{{"status":"completed"}},"created":{{"secs":1800000000,"nanos":0}},"active":{{"secs":{},"nanos":0}}}}"#,
            number / EACH,
            1_800_000_000 + number * 7919 % 3600
        );
        assert!(!stored.read("sessions", &format!("s{number}.json"), record.as_bytes()), "a record");
    }
    stored
}

/// Does what the hub wants, as far as it is needed: the link on which it waits for a client, and how much it wrote.
fn settle(hub: &mut Hub) -> (Option<LinkId>, usize) {
    let (mut waits, mut wrote) = (None, 0);
    while let Some(output) = std::hint::black_box(hub.poll()) {
        match output {
            Output::Do(link, Action::Open(_)) => waits = Some(link),
            Output::Do(link, Action::Write(bytes)) => {
                wrote += bytes.len();
                hub.handle(now(), Input::Link(link, Heard::Written));
            }
            Output::Tell(Event::Errand(tag, errand)) => {
                let found = match errand {
                    Errand::Folder(_) => Found::Folder(true),
                    Errand::Rules(_) => Found::Kept(Ok(())),
                    Errand::Read(_) => Found::Read(Ok(Vec::new().into())),
                    Errand::Who(_) => Found::Who(Caller::default()),
                    // No agent is started: what that costs is its own.
                    Errand::Launch { .. } => continue,
                    Errand::Discover | Errand::Enable { .. } => Found::Enabled(Ok(false)),
                };
                assert!(hub.command(now(), Command::Done(tag, found)).is_ok(), "it was asked for");
            }
            Output::Tell(_) | Output::Do(..) | Output::Store(..) | Output::End => {}
        }
    }
    (waits, wrote)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).map_or("", String::as_str);
    let number = |at: usize, default: usize| word(at).parse().unwrap_or(default);
    let (sessions, times) = (number(0, 10_000), number(2, 1));

    let mut config = Config::new(server::Config::new(Address("/run/control.sock".into())));
    config.stored = stored(sessions);
    config.state = Some("/state".into());
    config.agents = (0..=sessions / EACH).map(spec).collect();
    let mut hub = Hub::new(Now { mono: Time::ZERO, ..now() }, config);
    let mut open = || {
        let link = settle(&mut hub).0.expect("it waits for somebody");
        hub.handle(now(), Input::Link(link, Heard::Opened(Peer::default())));
        link
    };
    // The socket, and somebody who connects.
    let client = [open(), open()][1];
    let mut wrote = 0;
    for round in 0..times {
        let request = match word(1) {
            "new" => r#"{"command":"session.new","args":{"agent":"agent-1","cwd":"/w"}}"#.to_owned(),
            "named" => format!(
                r#"{{"command":"session.new","args":{{"agent":"agent-1","cwd":"/w","name":"name {round}"}}}}"#
            ),
            _ => r#"{"command":"sessions.list","args":{"all":true}}"#.to_owned(),
        };
        let request = format!("{request}\n");
        hub.handle(now(), Input::Link(client, Heard::Bytes(request.as_bytes())));
        wrote += settle(&mut hub).1;
    }
    assert!(word(1) != "list" || wrote >= times * sessions * 300, "{wrote} bytes");
}

fn spec(number: usize) -> AgentSpec {
    let id = format!("agent-{number}");
    AgentSpec {
        name: id.clone(),
        origin: "manifest".to_owned(),
        enabled: true,
        default: false,
        launch: Some(id.clone()),
        initialize: None,
        kind: AgentKind::Acp,
        id: id.into(),
    }
}
