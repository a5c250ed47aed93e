//! A check: one bad agent for each way to fail, and what is printed.

use std::path::Path;
use std::time::Duration;

use agentline_core::check::{self, Line};
use agentline_core::discovery::{Failure, Handshake, Language};
use agentline_core::problem::{Kind, Phase};
use agentline_core::subagent::Event;
use agentline_core::{Exit, Heard, OpenError, Peer, SpawnSpec};

use crate::moments::{CHUNK, END, GREETING, Hand, PERMISSION, SESSION};

/// What an agent does.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Cannot be started.
    Fails(OpenError),
    /// Is up.
    Opens,
    Says(&'static str),
    Complains(&'static str),
    Waits(u64),
    Exits(Exit),
}

use Does::{Complains, Exits, Fails, Opens, Says, Waits};

fn checked(prompt: Option<&str>, script: &[Does]) -> Hand {
    let spec = SpawnSpec { program: "/bin/agent".into(), args: vec!["--acp".into()], ..SpawnSpec::default() };
    let mut hand = Hand::new(check::plan(spec, Path::new("/tmp/check"), prompt));
    for does in script {
        match *does {
            Fails(error) => hand.hear(Heard::OpenFailed(error)),
            Opens => hand.hear(Heard::Opened(Peer::default())),
            Says(line) => hand.line(line),
            Complains(text) => hand.hear(Heard::Stderr(text.as_bytes())),
            Waits(seconds) => hand.wait(Duration::from_secs(seconds)),
            Exits(exit) => hand.gone(exit),
        }
    }
    hand
}

fn printed(hand: &Hand, language: Language) -> String {
    hand.events.iter().map(|event| check::text(event, language)).collect()
}

const TOOL: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
    {"sessionUpdate":"tool_call_update","toolCallId":"t","kind":"execute"}}}"#;
const NO: &str = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"Internal error","data":{"details":"boom"}}}"#;
const LOGIN: &str = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"Authentication required"}}"#;

/// What it does; the kind, the step and what it says about the handshake; words of the message and the hint.
type Row<'a> = (&'a [Does], Kind, Phase, Handshake, &'a str, &'a str);

#[test]
fn every_way_to_fail_names_its_kind_and_step_and_what_to_try() {
    use Handshake::{BrokenOff, Failed, NeedsLogin, Succeeded, TimedOut};
    let (gone, crash) = (Exits(Exit::Code(3)), Exits(Exit::Signal(11)));
    let exited = Failed(Failure::Exited);
    let not_acp = Failed(Failure::NotAcp);
    let cannot = Failed(Failure::CannotStart);
    let no_session = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let no_to_session = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#;
    let login_first = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no account"}}"#;
    let no_to_prompt = r#"{"jsonrpc":"2.0","id":2,"error":{"code":400,"message":"bad key"}}"#;
    let table: &[Row] = &[
        (&[Fails(OpenError::NotFound)], Kind::NotFound, Phase::Spawn, cannot, "not found", "PATH"),
        (
            &[Fails(OpenError::NotExecutable)],
            Kind::NotExecutable,
            Phase::Spawn,
            cannot,
            "not executable",
            "chmod +x",
        ),
        (
            &[Fails(OpenError::NotAProgram)],
            Kind::NotExecutable,
            Phase::Spawn,
            cannot,
            "not a program",
            "reinstall",
        ),
        (
            &[Fails(OpenError::NoInterpreter)],
            Kind::NotExecutable,
            Phase::Spawn,
            cannot,
            "interpreter",
            "install",
        ),
        (
            &[Fails(OpenError::TooManyFiles), Waits(11)],
            Kind::Timeout,
            Phase::Spawn,
            TimedOut,
            "timed out",
            "",
        ),
        (&[Fails(OpenError::BadDirectory)], Kind::Usage, Phase::Spawn, BrokenOff, "directory", ""),
        (&[Opens, gone], Kind::Exited, Phase::Initialize, exited, "exited during initialize with code 3", ""),
        (&[Opens, Exits(Exit::Code(127))], Kind::Exited, Phase::Initialize, exited, "127", "PATH"),
        (&[Opens, crash], Kind::Signalled, Phase::Initialize, exited, "signal 11", ""),
        (
            &[Opens, Says("usage: agent"), gone],
            Kind::NotAcp,
            Phase::Initialize,
            not_acp,
            "it wrote: usage: agent",
            "--acp",
        ),
        (
            &[Opens, Says("Content-Length: 9"), gone],
            Kind::NotAcp,
            Phase::Initialize,
            not_acp,
            "Content-Length",
            "",
        ),
        (
            &[Opens, Says(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"?"}}"#), gone],
            Kind::NotAcp,
            Phase::Initialize,
            not_acp,
            "does not know initialize",
            "--acp",
        ),
        (
            &[Opens, Says(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}"#), gone],
            Kind::WrongVersion,
            Phase::Initialize,
            Failed(Failure::WrongVersion),
            "version 2",
            "ACP 1",
        ),
        (
            &[Opens, Says(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"today"}}"#), gone],
            Kind::WrongVersion,
            Phase::Initialize,
            Failed(Failure::WrongVersion),
            "version \"today\"",
            "ACP 1",
        ),
        (
            &[Opens, Says(NO), gone],
            Kind::Rpc,
            Phase::Initialize,
            not_acp,
            "Internal error: boom (-32603)",
            "",
        ),
        (
            &[Opens, Says(LOGIN), gone],
            Kind::NeedsLogin,
            Phase::Initialize,
            NeedsLogin,
            "wants a login",
            "/bin/agent",
        ),
        (&[Opens, Waits(60)], Kind::Timeout, Phase::Initialize, TimedOut, "initialize in time", "by hand"),
        (
            &[Opens, Says("loading"), Waits(60)],
            Kind::Timeout,
            Phase::Initialize,
            TimedOut,
            "it wrote: loading",
            "",
        ),
        (
            &[Opens, Says(GREETING), gone],
            Kind::Exited,
            Phase::Session,
            Succeeded,
            "while the session was opened",
            "",
        ),
        (
            &[Opens, Says(GREETING), Waits(120)],
            Kind::Timeout,
            Phase::Session,
            Succeeded,
            "a session in time",
            "",
        ),
        (
            &[Opens, Says(GREETING), Says(no_session), gone],
            Kind::Protocol,
            Phase::Session,
            Succeeded,
            "sessionId",
            "",
        ),
        (
            &[Opens, Says(GREETING), Says(no_to_session), gone],
            Kind::Rpc,
            Phase::Session,
            Succeeded,
            "no (-32603)",
            "",
        ),
        (
            &[Opens, Says(GREETING), Says(login_first), gone],
            Kind::NeedsLogin,
            Phase::Session,
            Succeeded,
            "no account",
            "Web login",
        ),
        (
            &[Opens, Says(GREETING), Says(SESSION), gone],
            Kind::Exited,
            Phase::Prompt,
            Succeeded,
            "during the turn",
            "",
        ),
        (
            &[Opens, Says(GREETING), Says(SESSION), Waits(400)],
            Kind::Timeout,
            Phase::Prompt,
            Succeeded,
            "the prompt in time",
            "",
        ),
        (
            &[Opens, Says(GREETING), Says(SESSION), Says(no_to_prompt)],
            Kind::Rpc,
            Phase::Prompt,
            Succeeded,
            "bad key (400)",
            "",
        ),
    ];
    for (script, kind, phase, handshake, said, hint) in table {
        let hand = checked(Some("hi"), script);
        let problem = hand.problem();
        assert_eq!((problem.kind, problem.phase), (*kind, *phase), "{script:?}: {problem}");
        assert_eq!(Handshake::of(problem), *handshake, "{script:?}");
        assert!(problem.message.contains(said), "{script:?}: {problem}");
        assert!(problem.hint.as_deref().unwrap_or_default().contains(hint), "{script:?}: {:?}", problem.hint);
        let finished = hand.finished().expect("a result");
        assert_eq!(check::exit_code(finished), 1, "{script:?}");
        assert!(check::failure(finished, Language::English).starts_with("failed: the agent"), "{script:?}");
    }
}

#[test]
fn a_real_agent_is_checked_as_a_simulated_one_is() {
    let folder = tempfile::TempDir::with_prefix("al").unwrap();
    let run = |program: &str, args: &[&str]| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let spec = SpawnSpec {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            env: vec![("PATH".into(), path.into())],
            ..SpawnSpec::default()
        };
        let seen = crate::rig::blocking(
            check::plan(spec, folder.path(), Some("say yes; tool look")),
            Box::new(|_| None),
        );
        let printed: String = seen.events.iter().map(|event| check::text(event, Language::English)).collect();
        printed + &check::failure(seen.finished(), Language::English)
    };
    assert_eq!(
        run(env!("CARGO_BIN_EXE_scripted_agent"), &[]),
        "protocol version: 1\nloadSession: no\nimages: no\nsession/list: no\nlogin methods: 0\n\
         session: s-1\nagent: yes\ntool: look\nstop reason: end_turn\n"
    );
    assert_eq!(
        run("sh", &["-c", "echo no key >&2; read -r x; exit 3"]),
        "failed: the agent exited during initialize with code 3\n  stderr: no key\n"
    );
    let login = format!("read -r x; printf '%s\\n' '{LOGIN}'; exit 42");
    assert_eq!(
        run("sh", &["-c", &login]),
        "failed: the agent wants a login: Authentication required\n  try: start sh by hand and log in there\n"
    );
}

#[test]
fn each_step_has_its_own_clock_to_the_second() {
    let session = [Opens, Says(GREETING)];
    let turn = [Opens, Says(GREETING), Says(SESSION)];
    for (script, seconds) in [(&[Opens][..], 10), (&session, 60), (&turn, 300)] {
        let early = checked(Some("hi"), &[script, &[Waits(seconds - 1)]].concat());
        assert!(early.finished().is_none() && !early.over, "{script:?}");
        let late = checked(Some("hi"), &[script, &[Waits(seconds), Exits(Exit::Code(0))]].concat());
        assert_eq!(late.problem().kind, Kind::Timeout, "{script:?}");
        assert_eq!(late.wrote.matches("session/cancel").count(), usize::from(seconds == 300));
    }
}

#[test]
fn c7_without_a_prompt_a_session_is_opened_and_not_prompted() {
    let hand = checked(None, &[Opens, Says(GREETING), Says(SESSION), Exits(Exit::Code(0))]);
    assert!(hand.wrote.contains("session/new") && !hand.wrote.contains("session/prompt"), "{}", hand.wrote);
    let finished = hand.finished().expect("a result");
    assert_eq!(check::exit_code(finished), 0);
    assert_eq!(check::failure(finished, Language::English), "");
    assert_eq!(
        printed(&hand, Language::English),
        "protocol version: 1\nloadSession: no\nimages: no\nsession/list: no\nlogin methods: 2\nsession: s\n"
    );
    assert!(matches!(hand.events.last(), Some(Event::Closed(_))));
}

#[test]
fn the_agent_is_told_that_it_gets_nothing() {
    let hand = checked(Some("hi"), &[Opens, Says(GREETING), Says(SESSION), Says(PERMISSION)]);
    for part in [
        r#""clientInfo":{"name":"agentline","version":"check"}"#,
        r#""params":{"cwd":"/tmp/check","mcpServers":[]}"#,
        r#"{"outcome":{"outcome":"cancelled"}}"#,
    ] {
        assert!(hand.wrote.contains(part), "{part} in {}", hand.wrote);
    }
}

#[test]
fn in_chinese_it_reads_as_botbus_writes_it() {
    let greeting =
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#;
    let session = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"7f3c…"}}"#;
    let hello = CHUNK.replace("so far", "你好！").replace("\"s\"", "\"7f3c…\"");
    let empty = hello.replace("你好！", "");
    let mut hand = checked(Some("hi"), &[Opens, Says(greeting), Says(session)]);
    [&*hello, &empty, END].into_iter().for_each(|line| hand.line(line));
    assert_eq!(
        printed(&hand, Language::Chinese),
        "ACP 协议版本: 1\nloadSession: 是\n图片: 否\nsession/list: 否\n登录方式: 0 种\n会话: 7f3c…\nagent: 你好！\n结束原因: end_turn\n"
    );
    let hand = checked(None, &[Opens, Complains("Error: no key\u{1b}[0m\n"), Exits(Exit::Code(3))]);
    assert_eq!(
        check::failure(hand.finished().unwrap(), Language::Chinese),
        "失败：the agent exited during initialize with code 3\n  stderr: Error: no key\u{fffd}[0m\n"
    );
}

#[test]
fn tools_and_permissions_are_a_line_each_and_any_word_at_the_end_is_good_enough() {
    let weird = r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"tired"}}"#;
    let script =
        [Opens, Says(GREETING), Says(SESSION), Says(TOOL), Says(PERMISSION), Says(CHUNK), Says(weird)];
    let hand = checked(Some("hi"), &script);
    let printed = printed(&hand, Language::English);
    let end = "tool: execute\npermission: t (cancelled)\nagent: so far\nstop reason: tired\n";
    assert!(printed.ends_with(end), "{printed}");
    assert_eq!(check::exit_code(hand.finished().unwrap()), 0);
}

#[test]
fn programs_get_the_same_as_objects() {
    let command = ["/bin/agent".to_owned(), "--acp".to_owned()];
    let hand = checked(None, &[Opens, Says(GREETING), Says(SESSION), Exits(Exit::Code(0))]);
    let ready =
        hand.events.iter().find_map(|event| if let Event::Ready(ready) = event { Some(ready) } else { None });
    let ready = ready.expect("a handshake");
    assert_eq!(
        serde_json::to_value(Line::check(Some("mine"), &command, ready)).unwrap(),
        serde_json::json!({
            "type": "check", "id": "mine", "command": ["/bin/agent", "--acp"], "protocolVersion": 1,
            "loadSession": false, "images": false, "sessionList": false, "agentInfo": null,
            "authMethods": [
                { "id": "a", "name": "Web login" },
                { "id": "t", "name": "Terminal login", "type": "terminal", "args": ["login", "--now"] },
            ],
        })
    );
    let result = |hand: &Hand| serde_json::to_value(Line::result(hand.finished().unwrap())).unwrap();
    assert_eq!(result(&hand), serde_json::json!({ "type": "result", "ok": true }));
    let hand = checked(None, &[Fails(OpenError::NotFound)]);
    assert_eq!(
        result(&hand),
        serde_json::json!({
            "type": "result", "ok": false,
            "error": {
                "kind": "not_found", "phase": "spawn", "retryable": false, "hint": "check the name and PATH",
                "message": "the agent cannot be started: not found",
            },
        })
    );
}
