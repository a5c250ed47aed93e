//! An ACP client over a session in another terminal: the real attach server behind the gateway.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::client::{self, Answer, Client, Which};
use agentline_core::acp::{ContentBlock, SessionSetup};
use agentline_core::attach::server::{Command, Event, Server};
use agentline_core::attach::{Injection, Turn};
use agentline_core::gateway::{Config, Gateway};
use agentline_core::session::{AttachedConfig, SourceConfig};
use agentline_core::{Heard, Machine, Now, Open, Peer, Tag};
use agentline_tests::attach::{config as session, target};
use agentline_tests::{Checked, Checks, Dice, Faults, Handle, Node, World};

/// What the session's host does with words.
#[derive(Clone, Copy)]
enum Host {
    Answers,
    Fails,
    /// It is cancelled, or never.
    Works,
    Refuses,
    /// It leaves in the middle of the turn.
    Leaves,
}

type Seen = Rc<RefCell<Vec<String>>>;

struct Scene<'d> {
    world: World<'d>,
    client: Handle<Client>,
    gateway: Handle<Gateway>,
    session: Handle<Server>,
    seen: Seen,
    host: Seen,
}

impl Scene<'_> {
    fn new(host: Host, cwd: &'static str) -> Self {
        let mut world = World::new(Dice::new(&[]), Faults::NONE);
        let heard = Seen::default();
        let said = Rc::clone(&heard);
        let machine = Checked::around(Server::new(Now::default(), session()), Checks::default());
        let session = world.add(Node::new(machine, move |_, event, commands| match event {
            Event::PromptReceived { prompt, .. } if matches!(host, Host::Refuses) => {
                commands.push(Command::Injected(prompt, Injection::Failed("no room".into())));
            }
            Event::PromptReceived { prompt, text } => {
                said.borrow_mut().push(text.clone());
                commands.extend([Command::Injected(prompt, Injection::Queued), Command::TurnStarted]);
                commands.extend(match host {
                    Host::Answers => Some(Command::TurnEnded(Turn::ended(
                        agentline_core::attach::Stop::EndTurn,
                        Some(format!("to {text}")),
                    ))),
                    Host::Fails => {
                        Some(Command::TurnFailed { why: "boom".into(), answer: Some("half".into()) })
                    }
                    Host::Leaves => Some(Command::Shutdown),
                    Host::Works | Host::Refuses => None,
                });
            }
            Event::CancelReceived => {
                said.borrow_mut().push("cancel".to_owned());
                commands.push(Command::TurnEnded(Turn::cancelled()));
            }
            Event::Listening(_) | Event::PresenceFailed { .. } | Event::Closed(_) => {}
        }));
        let (ours, theirs) = world.stream();
        let source =
            SourceConfig::Attached(Box::new(AttachedConfig { target: target(), name: "proj-7f".into() }));
        let machine: Checked<Gateway> =
            Checked::new(Now::default(), (Checks::default(), Config::on_stdio(source)));
        let gateway = world.add_with_given(Node::new(machine, |_, _, _| {}), ours);
        let seen = Seen::default();
        let told = Rc::clone(&seen);
        let machine: Checked<Client> =
            Checked::new(Now::default(), (Checks::default(), client::Config::new(Open::Given(0))));
        let client = world.add_with_given(
            Node::new(machine, move |_, event, commands| hear(&event, cwd, &told, commands)),
            theirs,
        );
        world.run_until(world.now().mono + Duration::from_secs(2));
        Self { world, client, gateway, session, seen, host: heard }
    }

    fn run(&mut self, seconds: u64) -> Vec<String> {
        self.world.run_until(self.world.now().mono + Duration::from_secs(seconds));
        std::mem::take(&mut self.seen.borrow_mut())
    }

    fn leave(mut self) -> Vec<String> {
        let _ = self.world.command(self.client, client::Command::Shutdown);
        self.world.run_until(self.world.now().mono + Duration::from_secs(60));
        assert!(self.world.is_over(self.gateway) && self.world.is_over(self.client), "somebody stays");
        assert!(!self.world.is_over(self.session), "the session goes on");
        std::mem::take(&mut self.host.borrow_mut())
    }
}

fn hear(event: &client::Event, cwd: &str, seen: &Seen, commands: &mut Vec<client::Command>) {
    use client::Event as E;
    let open = || client::Command::OpenSession {
        tag: Tag(1),
        which: Which::New,
        setup: SessionSetup::in_directory(cwd),
    };
    let say = |text: String| seen.borrow_mut().push(text);
    match event {
        E::Ready(ready) => {
            let sessions = ready.capabilities.session_capabilities;
            say(format!("ready resume {} load {}", sessions.resume, ready.capabilities.load_session));
            commands.push(open());
        }
        E::Answered(_, answer) => {
            if let Answer::SessionOpened { session, .. } = &**answer {
                say(format!("open {session}"));
                let prompt = vec![ContentBlock::text("words")];
                commands.push(client::Command::Prompt { tag: Tag(2), session: session.clone(), prompt });
                commands.push(client::Command::OpenSession {
                    tag: Tag(3),
                    which: Which::New,
                    setup: SessionSetup::in_directory(cwd),
                });
            }
        }
        E::Failed(_, failure) => say(format!("failed {failure}")),
        E::Text(text) => say(text.text.trim().to_owned()),
        E::TurnEnded(ended) => say(match &ended.end {
            Ok(stopped) => stopped.reason.as_str().to_owned(),
            Err(failure) => failure.to_string(),
        }),
        _ => {}
    }
}

const SECOND: &str = "failed this agent is the session proj-7f, which is open: it has no other (-32602)";

fn started() -> Vec<String> {
    ["ready resume true load false", "open proj-7f"].map(str::to_owned).into()
}

#[test]
fn words_go_there_and_the_answer_comes_as_a_whole() {
    let mut scene = Scene::new(Host::Answers, "/home/u/proj");
    let mut expected = started();
    expected.extend([SECOND, "to words", "end_turn"].map(str::to_owned));
    let mut seen = scene.run(1);
    // The refusal may come before or behind the answer.
    seen.sort();
    expected.sort();
    assert_eq!(seen, expected);
    assert_eq!(scene.leave(), ["words"]);
}

#[test]
fn another_folder_is_a_notice_and_no_refusal() {
    let mut scene = Scene::new(Host::Answers, "/elsewhere");
    let seen = scene.run(1);
    assert!(seen.contains(&"This session works in /home/u/proj.".to_owned()), "{seen:#?}");
    assert!(seen.contains(&"end_turn".to_owned()), "{seen:#?}");
}

#[test]
fn each_way_a_prompt_can_fail_is_told() {
    for (host, end) in [
        (Host::Fails, "boom (-32603)"),
        (
            Host::Leaves,
            "the words were delivered; how the turn ended was not seen: look before you send them again (-32603)",
        ),
    ] {
        let mut scene = Scene::new(host, "/home/u/proj");
        let seen = scene.run(5);
        assert!(seen.iter().any(|line| line == end), "{seen:#?}");
    }
    let mut scene = Scene::new(Host::Refuses, "/home/u/proj");
    let seen = scene.run(5);
    assert!(seen.iter().any(|line| line.contains("no room")), "{seen:#?}");
}

#[test]
fn a_cancel_is_for_our_own_turn() {
    let mut scene = Scene::new(Host::Works, "/home/u/proj");
    scene.run(1);
    let cancel = client::Command::Cancel { session: "proj-7f".into() };
    assert_eq!(scene.world.command(scene.client, cancel), Ok(()));
    let seen = scene.run(2);
    assert!(seen.contains(&"cancelled".to_owned()), "{seen:#?}");
    assert_eq!(scene.leave(), ["words", "cancel"]);
}

#[test]
fn nothing_behind_is_an_error_that_says_what_is_missing() {
    let mut rig =
        super::rig::Rig::silent(Config::on_stdio(SourceConfig::Missing("no session is called x".into())));
    rig.says(r#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":1}}"#);
    assert_eq!(rig.line()["result"]["protocolVersion"], 1);
    for id in 1..3 {
        rig.says(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/new","params":{{"cwd":"/w","mcpServers":[]}}}}"#
        ));
        assert_eq!(rig.line()["error"]["message"], "no session is called x");
    }
}

#[test]
fn a_client_that_is_gone_cancels_nothing_and_the_link_is_left() {
    let source = SourceConfig::Attached(Box::new(AttachedConfig { target: target(), name: "s".into() }));
    let mut rig = super::rig::Rig::silent(Config::on_stdio(source));
    rig.says(r#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.agent = rig.desk.connecting.pop_front().expect("the session is called");
    rig.desk.heard(rig.agent, Heard::Opened(Peer::default()));
    let answer = |id: u32, result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    rig.agent_says(&answer(1, r#"{"protocolVersion":1,"agentCapabilities":{"agenticaAttach":true},"agentInfo":{"name":"a","version":"1"}}"#));
    let session = r#"{"sessionId":"x","cwd":"/w","busy":false}"#;
    rig.agent_says(&answer(2, session));
    rig.says(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#);
    rig.agent_says(&answer(3, session));
    rig.prompts("p");
    assert!(rig.agent_read().last().is_some_and(|line| line.contains("session/prompt")));
    rig.desk.heard(rig.client, Heard::Eof);
    assert!(rig.desk.connecting.is_empty(), "a cancel would be a connection of its own");
    assert_eq!(rig.agent_read(), [""; 0]);
    assert!(rig.desk.shut.contains(&rig.agent));
}
