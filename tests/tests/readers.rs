//! One policy for lines that are no messages, in all six machines that read: named, answered where an id is known,
//! and then the connection goes on or ends, the same way everywhere.

use agentline_core::acp::{Agent, agent, client};
use agentline_core::attach::client::Client as Caller;
use agentline_core::attach::server::Server as Attached;
use agentline_core::control::{self, Server};
use agentline_core::{Action, Address, Graces, Heard, Input, LinkId, Machine, Now, Open, Output, Peer, Tag};
use agentline_tests::attach::{TOKEN, config as attached, target};

/// What came of a line: what was written, what was told, and whether the connection is ending.
#[derive(Debug, Default)]
struct Seen {
    written: String,
    told: String,
    ends: bool,
}

/// A machine, its link, and how often the end of a stream was asked of it.
struct Reader<M: Machine> {
    machine: M,
    link: LinkId,
    accepts: Option<LinkId>,
}

impl<M: Machine<Event: std::fmt::Debug>> Reader<M> {
    fn new(config: M::Config) -> Self {
        let machine = M::new(Now::default(), config);
        let mut reader = Self { machine, link: LinkId::FIRST, accepts: None };
        reader.drain();
        reader.hear(Heard::Opened(Peer::default()));
        if let Some(link) = reader.accepts.take() {
            reader.link = link;
            reader.hear(Heard::Opened(Peer::default()));
        }
        reader
    }

    fn hear(&mut self, heard: Heard<'_>) -> Seen {
        self.machine.handle(Now::default(), Input::Link(self.link, heard));
        self.drain()
    }

    fn line(&mut self, line: &[u8]) -> Seen {
        self.hear(Heard::Bytes(&[line, b"\n"].concat()))
    }

    fn command(&mut self, command: M::Command) -> Seen {
        self.machine.command(Now::default(), command).expect("it is the time for it");
        self.drain()
    }

    fn drain(&mut self) -> Seen {
        let mut seen = Seen::default();
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Do(link, Action::Open(Open::Accept(_))) => self.accepts = Some(link),
                Output::Do(link, Action::Write(bytes)) if link == self.link => {
                    seen.written += &String::from_utf8(bytes).expect("lines are text");
                    self.machine.handle(Now::default(), Input::Link(link, Heard::Written));
                }
                Output::Do(link, Action::CloseWrite | Action::Close) if link == self.link => seen.ends = true,
                Output::Do(..) | Output::Store(..) | Output::End => {}
                Output::Tell(event) => seen.told += &format!("{event:?}\n"),
            }
        }
        seen
    }
}

const LIMIT: usize = 300;

fn acp_client() -> Reader<client::Client> {
    let mut config = client::Config::new(Open::Given(0));
    config.limits.line = LIMIT;
    let mut reader = Reader::new(config);
    reader.line(br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    reader
}

fn acp_agent() -> Reader<Agent> {
    let mut config = agent::Config::on_stdio();
    config.limits.line = LIMIT;
    let mut reader = Reader::new(config);
    reader.line(br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    reader
}

fn attach_server() -> Reader<Attached> {
    let mut config = attached();
    config.limits.link.line = LIMIT;
    let mut reader = Reader::new(config);
    reader.line(
        format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"authToken":"{TOKEN}"}}}}"#)
            .as_bytes(),
    );
    reader
}

fn attach_client() -> Reader<Caller> {
    let mut target = target();
    target.limits.link.line = LIMIT;
    let mut reader = Reader::new(target);
    reader.line(br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"agenticaAttach":true},"agentInfo":{"name":"a","version":1},"agenticaAuth":"token"}}"#);
    reader
}

fn control_server() -> Reader<Server> {
    let mut config = control::server::Config::new(Address("/s".into()));
    config.limits.line = LIMIT;
    Reader::new(config)
}

fn control_client() -> Reader<control::Client> {
    let mut config = control::client::Config::connect(Address("/s".into()));
    config.limits.line = LIMIT;
    let mut reader = Reader::new(config);
    let request = control::Request { command: "ping".to_owned(), args: None };
    reader.command(control::client::Command::Call(Tag(7), request));
    reader
}

fn long(start: &str) -> Vec<u8> {
    format!("{start}{}", "x".repeat(400)).into_bytes()
}

#[test]
fn d9_a_request_whose_id_is_a_fraction_is_answered_by_it() {
    for id in ["1.5", "1.0", "-0.5", "1e2"] {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"no/such"}}"#);
        let answered = format!(r#""id":{id},"error":{{"code":-32601"#);
        for seen in [
            acp_client().line(request.as_bytes()),
            acp_agent().line(request.as_bytes()),
            attach_server().line(request.as_bytes()),
        ] {
            assert!(seen.written.contains(&answered) && !seen.ends, "{seen:?}");
        }
    }
}

#[test]
fn d9_an_answer_to_1_is_one_whose_id_is_written_as_a_fraction() {
    let mut reader = acp_client();
    let call = client::Command::Call {
        tag: Tag(7),
        method: "_x".to_owned(),
        params: agentline_core::acp::Json::new(&serde_json::json!({})),
    };
    reader.command(call);
    let seen = reader.line(br#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#);
    assert!(seen.told.contains("Answered(Tag(7)"), "{seen:?}");
}

#[test]
fn d9_a_line_over_the_limit_is_named_and_answered_and_ends_the_connection() {
    let request = long(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":""#);
    let answered = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"a line over the limit"}}"#;
    for seen in [acp_client().line(&request), acp_agent().line(&request), attach_server().line(&request)] {
        assert!(seen.written.contains(answered) && seen.ends, "{seen:?}");
    }
    let seen = control_server().line(&long(r#"{"requestId":"r","command":"x","args":""#));
    assert!(seen.written.contains(r#"{"ok":false,"requestId":"r","error":"invalid_args""#), "{seen:?}");
    assert!(seen.ends, "{seen:?}");
    let seen = attach_client().line(&long("{"));
    assert!(seen.told.contains("a line over the limit") && seen.ends, "{seen:?}");
    let seen = control_client().line(&long(r#"{"ok":true,"result":""#));
    assert!(seen.told.contains("a line over the limit") && seen.ends, "{seen:?}");
}

#[test]
fn d9_an_answer_over_the_limit_fails_what_asked_for_it() {
    let mut reader = acp_client();
    let call = client::Command::Call {
        tag: Tag(7),
        method: "_x".to_owned(),
        params: agentline_core::acp::Json::new(&serde_json::json!({})),
    };
    reader.command(call);
    let seen = reader.line(&long(r#"{"jsonrpc":"2.0","id":1,"result":""#));
    assert!(seen.told.contains(r#"Failed(Tag(7), Unreadable("a line over the limit"))"#), "{seen:?}");
    assert!(seen.ends && seen.written.is_empty(), "{seen:?}");
}

#[test]
fn d9_a_peer_that_frames_its_messages_like_mail_is_named_and_not_waited_for() {
    let named = "framed by Content-Length, not by lines";
    let header = b"Content-Length: 52\r\n\r\n{\"jsonrpc\":\"2.0\"";
    let mut agent = agent::Config::on_stdio();
    agent.graces = Graces::default();
    let mut fresh = [
        ("acp client", Reader::<client::Client>::new(client::Config::new(Open::Given(0))).line(header)),
        ("acp agent", Reader::<Agent>::new(agent).line(header)),
        ("attach server", Reader::<Attached>::new(attached()).line(header)),
        ("attach client", Reader::<Caller>::new(target()).line(header)),
        ("control server", control_server().line(header)),
        ("control client", control_client().line(header)),
    ];
    for (who, seen) in &mut fresh {
        assert!(seen.ends, "{who}: {seen:?}");
        assert!(seen.told.contains(named) || seen.written.contains(named), "{who}: {seen:?}");
        // Whoever serves says so to its client as well.
        assert_eq!(
            seen.written.contains(named),
            who.ends_with("server") || *who == "acp agent",
            "{who}: {seen:?}"
        );
    }
}

#[test]
fn d9_a_line_that_is_not_utf_8_costs_itself_alone() {
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":\"\xff\"}";
    for seen in [acp_client().line(request), acp_agent().line(request), attach_server().line(request)] {
        assert!(seen.written.contains(r#""id":7,"error":{"code":-32700,"message":"not UTF-8"}"#), "{seen:?}");
        assert!(!seen.ends, "{seen:?}");
    }
    let seen = control_server().line(b"{\"requestId\":\"r\",\"command\":\"\xff\"}");
    assert!(seen.written.contains(r#""requestId":"r","error":"invalid_args""#) && !seen.ends, "{seen:?}");
    let seen = attach_client().line(b"\xff");
    assert!(seen.told.contains("not UTF-8") && !seen.ends, "{seen:?}");
    let seen = control_client().line(b"\xff");
    assert!(seen.told.contains("not UTF-8") && !seen.ends, "{seen:?}");
}
