//! Variables and headers that are handed on: the peer gets them, and nobody else sees them.

use agentline_core::acp::agent::{self, Agent, Wanted};
use agentline_core::acp::client::{self, Client, Which};
use agentline_core::acp::services::{CreateTerminal, ServiceRequest};
use agentline_core::acp::session::{McpHttp, McpServer, McpStdio, Pair};
use agentline_core::acp::{Json, SessionSetup};
use agentline_core::trace::{Recording, Tap, Tapped, Traced, Until, replay};
use agentline_core::{Machine, Now, Open, Secret, Tag};
use agentline_tests::acp::Rig;
use agentline_tests::acp::rig::{CLIENT_OFFERS, OFFERS};
use agentline_tests::invariants::{Checked, Checks};
use serde::Serialize;
use serde::de::DeserializeOwned;

const SECRET: &str = "hunter2-\"quoted\"";
/// Its spelling in JSON.
const WRITTEN: &str = r#"hunter2-\"quoted\""#;

/// A machine that is recorded, and that must not show the secret anywhere.
fn rig<M>(config: M::Config) -> Rig<Tap<M>>
where
    M: Machine<Config: Serialize, Command: Serialize, Event: Serialize> + std::fmt::Debug,
    M::Command: std::fmt::Debug,
    M::Event: std::fmt::Debug,
{
    let recording = Recording {
        channel: "acp".to_owned(),
        role: "either".to_owned(),
        secrets: vec![SECRET.as_bytes().to_vec().into()],
    };
    let tap = Tap::<M>::new(Now::default(), Tapped { config, recording: Some(recording) });
    let words = vec!["hunter2".to_owned()];
    Rig::around(Checked::around(tap, Checks::default()).and_secrets(words))
}

fn pairs() -> Vec<Pair> {
    vec![Pair { name: "KEY".into(), value: Secret::new(SECRET.into()) }]
}

fn setup() -> SessionSetup {
    let child = McpStdio { name: "m".into(), command: "/m".into(), args: vec!["-x".into()], env: pairs() };
    let page = || McpHttp { name: "h".into(), url: "https://h".into(), headers: pairs() };
    SessionSetup {
        mcp_servers: vec![McpServer::Stdio(child), McpServer::Http(page()), McpServer::Sse(page())],
        additional_directories: vec!["/x".into()],
        meta: Some(Json::new(&[0])),
        ..SessionSetup::in_directory("/w")
    }
}

fn session_new() -> String {
    let pair = format!(r#"{{"name":"KEY","value":"{WRITTEN}"}}"#);
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{{"cwd":"/w","mcpServers":[{{"name":"m","command":"/m","args":["-x"],"env":[{pair}]}},{{"type":"http","name":"h","url":"https://h","headers":[{pair}]}},{{"type":"sse","name":"h","url":"https://h","headers":[{pair}]}}],"additionalDirectories":["/x"],"_meta":[0]}}}}"#
    )
}

fn create_terminal() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"terminal/create","params":{{"sessionId":"s","command":"ls","args":["-l"],"env":[{{"name":"KEY","value":"{WRITTEN}"}}],"cwd":"/w","outputByteLimit":9}}}}"#
    )
}

/// The lines of a trace and the events beside them.
fn sorted<E>(told: Vec<Traced<E>>) -> (String, Vec<E>) {
    let (mut file, mut events) = (String::new(), Vec::new());
    for traced in told {
        match traced {
            Traced::Line(line) => file.push_str(&format!("{line}\n")),
            Traced::Event(event) => events.push(event),
        }
    }
    (file, events)
}

/// The trace shows placeholders and replays.
fn recorded<M>(file: &str)
where
    M: Machine<Config: DeserializeOwned, Command: DeserializeOwned, Event: Serialize>,
{
    assert!(!file.contains("hunter2") && file.contains("‹secret 1›"), "{file}");
    let replayed = replay::<M>(file.as_bytes(), Until::End).expect("no difference");
    assert!(replayed.records > 5, "{replayed:?}");
}

#[test]
fn a_client_shows_what_it_hands_on_to_the_agent_alone() {
    let mut config = client::Config::new(Open::Given(0));
    config.capabilities.terminal = true;
    let mut rig = rig::<Client>(config);
    rig.hear(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":1,"agentCapabilities":{OFFERS}}}}}"#
    ));
    rig.written();
    let open = client::Command::OpenSession { tag: Tag(1), which: Which::New, setup: setup() };
    rig.command(open).expect("an agent that takes it");
    assert_eq!(rig.line(), session_new());

    rig.hear(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#);
    rig.hear(&create_terminal());
    let (file, mut events) = sorted(rig.told());
    recorded::<Client>(&file);
    let Some(client::Event::Requested(asked)) = events.pop() else { panic!("{events:?}") };
    let ServiceRequest::CreateTerminal(wanted) = asked.wanted else { panic!("{asked:?}") };
    assert_eq!(wanted.env, pairs());
}

#[test]
fn an_agent_shows_what_it_is_handed_to_its_application_alone() {
    let capabilities = serde_json::from_str(OFFERS).expect("capabilities");
    let mut rig = rig::<Agent>(agent::Config { capabilities, ..agent::Config::on_stdio() });
    rig.hear(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":1,"clientCapabilities":{CLIENT_OFFERS}}}}}"#
    ));
    rig.hear(&session_new());
    rig.written();
    let wanted = ServiceRequest::CreateTerminal(CreateTerminal {
        session_id: "s".into(),
        command: "ls".into(),
        args: vec!["-l".into()],
        env: pairs(),
        cwd: Some("/w".into()),
        output_byte_limit: Some(9),
    });
    rig.command(agent::Command::Request { tag: Tag(1), wanted }).expect("a client that has terminals");
    assert_eq!(rig.line(), create_terminal());

    let (file, mut events) = sorted(rig.told());
    recorded::<Agent>(&file);
    let Some(agent::Event::Requested(asked)) = events.pop() else { panic!("{events:?}") };
    assert_eq!(asked.wanted, Wanted::NewSession(setup()));
}

/// What is no list of servers is refused, and not repeated: neither to the client nor to the application.
#[test]
fn what_is_wrong_with_a_secret_is_told_without_it() {
    let mut rig = Rig::<Agent>::agent(agent::Config::on_stdio());
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.written();
    rig.told();
    for servers in [
        r#"[{"name":"m","command":"c","args":[],"env":["KEY=sesame"]}]"#,
        r#"[{"name":"m","command":"c","args":[],"env":"sesame"}]"#,
        r#"[{"type":"http","name":"m","url":"u","headers":"Authorization: sesame, expected sesame"}]"#,
        r#""sesame""#,
    ] {
        let params = format!(r#"{{"cwd":"/","mcpServers":{servers}}}"#);
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{params}}}"#));
        let told = format!("{:?}", rig.told());
        let line = rig.line();
        assert!(
            line.contains("-32602") && !line.contains("sesame") && !told.contains("sesame"),
            "{line} {told}"
        );
    }
}
