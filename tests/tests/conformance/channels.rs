//! The channels, each between two machines of ours.

use std::path::Path;

use agentline_core::acp::Json;
use agentline_core::acp::client::{Command, Which};
use agentline_core::acp::update::ToolCallUpdate;
use agentline_core::acp::{
    Client, ContentBlock, OptionKind, PermissionOption, PermissionOutcome, SessionSetup, StopReason, client,
};
use agentline_core::attach::{AgentInfo, Injection, PromptId, Stop, Target, Turn, presence};
use agentline_core::control::{Answer, Request};
use agentline_core::conversation;
use agentline_core::galley::{
    Bridge, Decision, Desktop, Exit, ExitReason, Ready, ToolStatus, bridge, desktop,
};
use agentline_core::reverse::acceptor::{self, Acceptor};
use agentline_core::reverse::{self, Capabilities};
use agentline_core::subagent::{self, Run};
use agentline_core::{Address, Open, Tag, attach, control};
use agentline_tests::scenario::{Cast, Role, Scenario};
use agentline_tests::scripted::{self, Scripted};
use serde_json::json;

use super::children::{LONG, SHORT, SHORT_EOF};
use super::{AGENT, child};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "acp: a client drives a child through a turn and a permission",
        cast: |dir| Cast::alone(client(dir, child(AGENT, dir, &[]))),
        shows: &[
            "ready",
            "session_opened",
            "permission_asked",
            "allow_once-0",
            "turn_ended",
            r#""rung":"eof""#,
        ],
    },
    Scenario {
        name: "acp: an agent writes noise before its first message",
        cast: |dir| Cast::alone(client(dir, child(AGENT, dir, &["--noise"]))),
        shows: &["noticed", "ready", "turn_ended", "closed"],
    },
    Scenario {
        name: "acp: an agent dies in the middle of a turn, and a grandchild keeps its pipe",
        cast: |dir| {
            let setup = SessionSetup::in_directory(&*dir.to_string_lossy());
            let open = child(AGENT, dir, &["--grandchild"]);
            let role = Role::<Client>::new(client::Config { graces: SHORT_EOF, ..config(open) })
                .at("ready", [Command::OpenSession { tag: Tag(1), which: Which::New, setup }])
                .at("session_opened", [prompt("say hello; die 3")]);
            Cast::alone(role)
        },
        shows: &["hello", "turn_ended", "closed", r#""exit":{"code":3}"#, r#""rung":"term""#],
    },
    Scenario {
        name: "acp: client and agent over a socket",
        cast: |dir| {
            let start = scripted::Start { cwd: dir.into(), ..scripted::Start::default() };
            Cast::pair(client(dir, Open::Given(0)), Role::<Scripted>::new(start))
        },
        shows: &["ready", "permission_asked", "turn_ended", "closed", "session/new", "session/prompt"],
    },
    Scenario {
        name: "galley: a host and a runner over a socket",
        cast: |_| Cast::pair(host(), runner()),
        shows: &[
            "ready",
            "approval_asked",
            "tool_started",
            "run_ended",
            "closed",
            "told",
            "decided",
            "shutdown",
        ],
    },
    Scenario {
        name: "reverse: an agent dials in, is prompted, and asks",
        cast: |_| Cast::pair(hub(), dialled_in()),
        shows: &[
            "hello",
            "accepted",
            "announced",
            "turn_started",
            "permission_asked",
            "turn_ended",
            "closed",
            "prompted",
            "permission_answered",
            "closed",
        ],
    },
    Scenario {
        name: "subagent: one task, one child, one result",
        cast: |dir| {
            let setup = SessionSetup::in_directory(&*dir.to_string_lossy());
            let prompt = vec![ContentBlock::text("say hello; perm allow_once,reject_once; say bye")];
            let conversation = conversation::Config::new(config(child(AGENT, dir, &[])), setup);
            Cast::alone(Role::<Run>::new(subagent::Config::new(conversation, prompt)))
        },
        shows: &["started", "ready", "hello", "permission_decided", "finished", r#""rung":"eof""#],
    },
    Scenario {
        name: "subagent: cancelled while the agent hangs, and the agent has to be terminated",
        cast: |dir| {
            let setup = SessionSetup::in_directory(&*dir.to_string_lossy());
            let prompt = vec![ContentBlock::text("say hello; hang")];
            let mut client = config(child(AGENT, dir, &["--ignore-eof"]));
            client.graces.eof = SHORT;
            client.timeouts.cancel = Some(SHORT);
            let role =
                Role::<Run>::new(subagent::Config::new(conversation::Config::new(client, setup), prompt));
            Cast::alone(role.at("hello", [subagent::Command::Cancel]))
        },
        shows: &["hello", "aborted", r#""rung":"term""#],
    },
    Scenario {
        name: "control: a call and a stream",
        cast: |dir| {
            let address = Address(dir.join("s/control"));
            let key =
                |number| serde_json::from_value(json!({"connection": 1, "number": number})).expect("a key");
            let answer = move |number, answer| control::server::Command::Answer(key(number), answer);
            let host = Role::<control::Server>::new(control::server::Config::new(address.clone()))
                .at("requested", [answer(1, Answer::reply(&"pong"))])
                .at("requested", [answer(2, Answer::frame(&1)), answer(2, Answer::End("completed".into()))])
                .farewell(control::server::Command::Shutdown("done".into()));
            let call = |tag, command: &str| {
                control::client::Command::Call(Tag(tag), Request { command: command.into(), args: None })
            };
            let guest = Role::<control::Client>::new(control::client::Config::connect(address))
                .at("pong", [call(2, "watch")])
                .at("end", [control::client::Command::Close]);
            Cast::visit(host, guest.first([call(1, "ping")]))
        },
        shows: &["listening", "requested", "closed", "pong", "frame", "end", "closed"],
    },
    Scenario {
        name: "attach: a prompt and its answer",
        cast: |dir| {
            let (socket, token) = (dir.join("s/session.sock"), "a token of some length".to_owned());
            let record = presence::Record { peer_id: "0a1b2c3d".into(), ..presence::Record::default() };
            let config = attach::server::Config {
                socket: socket.clone(),
                token: token.clone().into(),
                record,
                record_file: dir.join("record.json"),
                agent: AgentInfo { name: "agentline".into(), version: "1".into() },
                limits: attach::Limits::default(),
            };
            use attach::server::Command;
            let host = Role::<attach::Server>::new(config)
                .at(
                    "prompt_received",
                    [
                        Command::Injected(PromptId(0), Injection::Queued),
                        Command::TurnStarted,
                        Command::TurnEnded(Turn::ended(Stop::EndTurn, Some("PONG".into()))),
                    ],
                )
                .farewell(Command::Shutdown);
            let target =
                Target { socket: Address(socket), token: token.into(), limits: attach::Limits::default() };
            use attach::client::Command as Ask;
            let guest = Role::<attach::Client>::new(target)
                .at("ready", [Ask::Prompt { session: None, text: "say PONG".into() }])
                .at("PONG", [Ask::Ping])
                .at("answered", [Ask::Shutdown]);
            Cast::visit(host, guest)
        },
        shows: &["listening", "prompt_received", "stopped", "ready", "PONG", "left"],
    },
];

/// Opens a session, prompts, allows what is asked, and leaves.
fn client(dir: &Path, open: Open) -> Role<Client> {
    let setup = SessionSetup::in_directory(&*dir.to_string_lossy());
    let outcome = PermissionOutcome::Selected { option_id: "allow_once-0".into() };
    let request = serde_json::from_value(json!(0)).expect("a key");
    Role::new(config(open))
        .at("ready", [Command::OpenSession { tag: Tag(1), which: Which::New, setup }])
        .at("session_opened", [prompt("say hello; tool edit; perm allow_once,reject_once; chunks 9; think")])
        .at("permission_asked", [Command::Answer { request, outcome }])
        .at("turn_ended", [Command::Shutdown])
}

fn config(open: Open) -> client::Config {
    client::Config { graces: LONG, ..client::Config::new(open) }
}

fn prompt(text: &str) -> Command {
    Command::Prompt { tag: Tag(2), session: "s-1".into(), prompt: vec![ContentBlock::text(text)] }
}

/// Says one thing, allows what it is asked for, and leaves.
fn host() -> Role<Desktop> {
    let message = Box::new(desktop::Message::text("go"));
    let (approval, decision) = ("appr_000000000001".to_owned(), Decision::AllowOnce);
    Role::new(desktop::Config::new(Open::Given(0)))
        .at("ready", [desktop::Command::Say { tag: Tag(1), message }])
        .at("approval_asked", [desktop::Command::Decide { approval, decision }])
        .at("run_ended", [desktop::Command::Close])
}

/// Uses one tool, and is done.
fn runner() -> Role<Bridge> {
    let (run, tag) = (bridge::RunKey::from_number(1), Tag(1));
    let (tool, args, reason) = ("code_run".to_owned(), Json::new(&()), String::new());
    let (status, result) = (ToolStatus::Success, "42".to_owned());
    let end = bridge::RunEnd {
        reason: ExitReason::new(&Exit::Done),
        final_content: "done".to_owned(),
        telemetry: None,
        question: None,
    };
    let (turn, end) = (Box::default(), Box::new(end));
    Role::new(bridge::Config::on_stdio("s-1", Ready::default()))
        .at("told", [bridge::Command::CallTool { run, tag, tool, args, reason }])
        .at(
            "decided",
            [
                bridge::Command::EndTool { tag, status, result, elapsed_ms: 1 },
                bridge::Command::EndRun { run, turn, end },
            ],
        )
}

/// Lets an agent in, says one thing, allows what it is asked for, and leaves.
fn hub() -> Role<Acceptor> {
    use acceptor::Command;

    let config = acceptor::Config { open: Some(Open::Given(0)), ..acceptor::Config::taken() };
    let request = serde_json::from_value(json!(0)).expect("a key");
    let outcome = PermissionOutcome::selected("y");
    Role::new(config)
        .at("hello", [Command::Accept])
        .at("announced", [Command::Prompt { tag: Tag(1), session: "s".into(), text: "go".into() }])
        .at("permission_asked", [Command::Answer { request, outcome }])
        .at("turn_ended", [Command::Leave])
}

/// Shows a session, asks in the turn of a prompt, and is done.
fn dialled_in() -> Role<reverse::Agent> {
    use reverse::agent::{Command, Config};

    let capabilities = Capabilities { prompt: true, ..Capabilities::default() };
    let hub = Address("/".into());
    let config = Config { open: Open::Given(0), capabilities, ..Config::connect(hub, "my-agent") };
    let (tag, session, turn) = (Tag(7), "s".into(), serde_json::from_value(json!(1)).expect("a key"));
    let tool_call = Box::new(ToolCallUpdate { tool_call_id: "c".to_owned(), ..ToolCallUpdate::default() });
    let yes = PermissionOption { option_id: "y".into(), name: "yes".into(), kind: OptionKind::AllowOnce };
    Role::new(config)
        .at("accepted", [Command::Announce { session: "s".into(), cwd: "/w".into(), title: None }])
        .at("prompted", [Command::AskPermission { tag, session, tool_call, options: vec![yes] }])
        .at(
            "permission_answered",
            [Command::EndPrompt { turn, stopped: Box::new(StopReason::EndTurn.into()) }],
        )
}
