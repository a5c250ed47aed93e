//! What an idle link keeps, whatever it did before: at most 8 KB, counted by the allocator.

use agentline_core::acp::client::{self, Client, Which};
use agentline_core::acp::session::SessionState;
use agentline_core::acp::{Agent, SessionSetup, agent};
use agentline_core::attach::{self, server::Command as AttachCommand};
use agentline_core::control;
use agentline_core::{
    Action, Address, Heard, Input, LinkId, Machine, Now, Open, Output, Peer, SpawnSpec, Stderr, Tag,
};
use agentline_tests::weigh::{Weight, weigh};

/// Links of one measurement: what a machine keeps for itself is spread over them.
const LINKS: usize = 100;
const MOST: i64 = 8 << 10;

/// A machine whose writes are done at once, and whose events are answered.
struct Desk<M: Machine> {
    machine: M,
    answer: fn(M::Event) -> Option<M::Command>,
}

impl<M: Machine> Desk<M> {
    fn new(config: M::Config, answer: fn(M::Event) -> Option<M::Command>) -> Self {
        Self { machine: M::new(Now::default(), config), answer }
    }

    /// Returns the links that it wants to accept.
    fn drain(&mut self) -> Option<LinkId> {
        let mut accepting = None;
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Do(link, Action::Open(Open::Accept(_))) => accepting = Some(link),
                Output::Do(link, Action::Write(_)) => {
                    self.machine.handle(Now::default(), Input::Link(link, Heard::Written));
                }
                Output::Tell(event) => {
                    if let Some(command) = (self.answer)(event) {
                        self.machine.command(Now::default(), command).expect("it may be asked");
                    }
                }
                Output::Do(..) | Output::Store(..) | Output::End => {}
            }
        }
        accepting
    }

    fn hear(&mut self, link: LinkId, heard: Heard<'_>) -> Option<LinkId> {
        self.machine.handle(Now::default(), Input::Link(link, heard));
        self.drain()
    }

    fn command(&mut self, command: M::Command) {
        self.machine.command(Now::default(), command).expect("it may be asked");
        self.drain();
    }

    fn lines(&mut self, link: LinkId, text: &str) {
        // As a pipe hands them out.
        for chunk in text.as_bytes().chunks(64 << 10) {
            self.hear(link, Heard::Bytes(chunk));
        }
    }

    /// A burst of small messages, lines of every size that end within a read and across two, and an unfinished one.
    fn history(&mut self, link: LinkId, message: impl Fn(&str) -> String) {
        let burst: String = (0..600).map(|_| message("hello") + "\n").collect();
        for size in [0, 100, 3_000, 20_000, 60_000, 1_000_000] {
            self.lines(link, &burst);
            let long = message(&"x".repeat(size)) + "\n";
            let (start, end) = long.split_at(long.len() / 2);
            self.lines(link, start);
            self.lines(link, end);
            self.lines(link, &(message(&"y".repeat(size)) + "\n{"));
            self.lines(link, "}\n");
        }
    }
}

fn is_light(name: &str, weight: Weight) {
    let each = weight.kept / LINKS as i64;
    assert!(each <= MOST, "{name}: {each} bytes a link");
}

#[test]
fn an_acp_client_with_a_session_is_light() {
    let (_kept, weight) = weigh(|| {
        let connect = |_| {
            let open = Open::spawn(SpawnSpec { stderr: Stderr::Pipe, ..SpawnSpec::default() });
            let mut desk = Desk::<Client>::new(client::Config::new(open), |_| None);
            let link = LinkId::FIRST;
            desk.hear(link, Heard::Opened(Peer::default()));
            desk.lines(link, "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1}}\n");
            let setup = SessionSetup::in_directory("/");
            desk.command(client::Command::OpenSession { tag: Tag(1), which: Which::New, setup });
            desk.lines(link, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"sessionId\":\"s\"}}\n");
            desk.history(link, |text| {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
                )
            });
            desk.hear(link, Heard::Stderr(&[b'e'; 60_000]));
            desk
        };
        (0..LINKS).map(connect).collect::<Vec<_>>()
    });
    is_light("client", weight);
}

#[test]
fn an_acp_agent_with_a_session_is_light() {
    let (_kept, weight) = weigh(|| {
        let connect = |_| {
            let mut desk = Desk::<Agent>::new(agent::Config::on_stdio(), |event| {
                let agent::Event::Requested(asked) = event else { return None };
                let reply =
                    agent::Reply::SessionOpened { session: "s".into(), state: SessionState::default() };
                Some(agent::Command::Reply { request: asked.request, reply })
            });
            let link = LinkId::FIRST;
            desk.hear(link, Heard::Opened(Peer::default()));
            desk.lines(
                link,
                "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n",
            );
            desk.lines(
                link,
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"/\",\"mcpServers\":[]}}\n",
            );
            desk.history(link, |text| {
                format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"t{text}"}}}}"#)
            });
            desk
        };
        (0..LINKS).map(connect).collect::<Vec<_>>()
    });
    is_light("agent", weight);
}

#[test]
fn a_control_connection_is_light() {
    let (_kept, weight) = weigh(|| {
        let config = control::server::Config::new(Address("/run/sock".into()));
        let mut desk = Desk::<control::Server>::new(
            control::server::Config { connections: LINKS + 1, ..config },
            |event| {
                let control::server::Event::Requested(key, _) = event else { return None };
                Some(control::server::Command::Answer(key, control::Answer::reply("done")))
            },
        );
        let mut next = desk.hear(LinkId::FIRST, Heard::Opened(Peer::default()));
        for _ in 0..LINKS {
            let link = next.take().expect("it accepts");
            next = desk.hear(link, Heard::Opened(Peer::default()));
            desk.history(link, |text| format!(r#"{{"command":"get_{text}"}}"#));
        }
        desk
    });
    is_light("control", weight);
}

#[test]
fn an_attached_client_is_light() {
    let (_kept, weight) = weigh(|| {
        let mut config = agentline_tests::attach::config();
        config.limits.connections = LINKS + 1;
        let mut desk = Desk::<attach::Server>::new(config, |_| None::<AttachCommand>);
        let mut next = desk.hear(LinkId::FIRST, Heard::Opened(Peer::default()));
        for _ in 0..LINKS {
            let link = next.take().expect("it accepts");
            next = desk.hear(link, Heard::Opened(Peer::default()));
            desk.lines(link, &format!("{HELLO}\n"));
            desk.history(link, |text| {
                format!(r#"{{"jsonrpc":"2.0","id":9,"method":"ping","params":{{"text":"{text}"}}}}"#)
            });
        }
        desk
    });
    is_light("attach", weight);
}

#[test]
fn a_link_that_was_dialled_is_light() {
    use agentline_core::reverse::acceptor::{Acceptor, Command, Config, Event};

    let (_kept, weight) = weigh(|| {
        let connect = |_| {
            let mut desk = Desk::<Acceptor>::new(Config::taken(), |event| {
                matches!(event, Event::Hello(_)).then_some(Command::Accept)
            });
            let link = LinkId::FIRST;
            desk.lines(
                link,
                "{\"id\":1,\"method\":\"_botbus/hello\",\"params\":{\"id\":\"a\",\"version\":1}}\n",
            );
            desk.lines(
                link,
                "{\"method\":\"_botbus/session\",\"params\":{\"sessionId\":\"s\",\"cwd\":\"/w\"}}\n",
            );
            desk.history(link, |text| {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
                )
            });
            desk
        };
        (0..LINKS).map(connect).collect::<Vec<_>>()
    });
    is_light("reverse", weight);
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"authToken":"5eb1"}}"#;
