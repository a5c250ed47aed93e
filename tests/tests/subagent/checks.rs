//! A check: one bad agent for each way to fail, and its clocks.

use std::path::Path;
use std::time::Duration;

use agentline_core::check;
use agentline_core::discovery::{Failure, Handshake};
use agentline_core::problem::{Kind, Phase};
use agentline_core::subagent::Event;
use agentline_core::{Exit, Heard, OpenError, Peer, SpawnSpec};

use crate::moments::{GREETING, Hand, PERMISSION, SESSION};

/// What an agent does.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Cannot be started.
    Fails(OpenError),
    /// Is up.
    Opens,
    Says(&'static str),
    Waits(u64),
    Exits(Exit),
}

use Does::{Exits, Fails, Opens, Says, Waits};

fn checked(prompt: Option<&str>, script: &[Does]) -> Hand {
    let spec = SpawnSpec { program: "/bin/agent".into(), args: vec!["--acp".into()], ..SpawnSpec::default() };
    let mut hand = Hand::new(check::plan(spec, Path::new("/tmp/check"), prompt));
    for does in script {
        match *does {
            Fails(error) => hand.hear(Heard::OpenFailed(error)),
            Opens => hand.hear(Heard::Opened(Peer::default())),
            Says(line) => hand.line(line),
            Waits(seconds) => hand.wait(Duration::from_secs(seconds)),
            Exits(exit) => hand.gone(exit),
        }
    }
    hand
}

const NO: &str = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"Internal error","data":{"details":"boom"}}}"#;
const LOGIN: &str = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"Authentication required"}}"#;

/// What it does; the kind, the step and what it says about the handshake; a part of the cause.
type Row<'a> = (&'a [Does], Kind, Phase, Handshake, &'a str);

#[test]
fn every_way_to_fail_names_its_kind_and_step_and_its_cause() {
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
        (&[Fails(OpenError::NotFound)], Kind::NotFound, Phase::Spawn, cannot, "NotFound"),
        (&[Fails(OpenError::NotExecutable)], Kind::NotExecutable, Phase::Spawn, cannot, "NotExecutable"),
        (&[Fails(OpenError::NotAProgram)], Kind::NotExecutable, Phase::Spawn, cannot, "NotAProgram"),
        (&[Fails(OpenError::NoInterpreter)], Kind::NotExecutable, Phase::Spawn, cannot, "NoInterpreter"),
        (&[Fails(OpenError::TooManyFiles), Waits(11)], Kind::Timeout, Phase::Spawn, TimedOut, "TimedOut"),
        (&[Fails(OpenError::BadDirectory)], Kind::Usage, Phase::Spawn, BrokenOff, "BadDirectory"),
        (&[Opens, gone], Kind::Exited, Phase::Initialize, exited, "Code(3)"),
        (&[Opens, Exits(Exit::Code(127))], Kind::Exited, Phase::Initialize, exited, "Code(127)"),
        (&[Opens, crash], Kind::Signalled, Phase::Initialize, exited, "Signal(11)"),
        (&[Opens, Says("usage: agent"), gone], Kind::NotAcp, Phase::Initialize, not_acp, "usage: agent"),
        (
            &[Opens, Says("Content-Length: 9"), gone],
            Kind::NotAcp,
            Phase::Initialize,
            not_acp,
            "Content-Length",
        ),
        (
            &[Opens, Says(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"?"}}"#), gone],
            Kind::NotAcp,
            Phase::Initialize,
            not_acp,
            "NoInitialize",
        ),
        (
            &[Opens, Says(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}"#), gone],
            Kind::WrongVersion,
            Phase::Initialize,
            Failed(Failure::WrongVersion),
            "WrongVersion(\"2\")",
        ),
        (
            &[Opens, Says(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"today"}}"#), gone],
            Kind::WrongVersion,
            Phase::Initialize,
            Failed(Failure::WrongVersion),
            "today",
        ),
        (&[Opens, Says(NO), gone], Kind::Rpc, Phase::Initialize, not_acp, "boom"),
        (
            &[Opens, Says(LOGIN), gone],
            Kind::NeedsLogin,
            Phase::Initialize,
            NeedsLogin,
            "Authentication required",
        ),
        (&[Opens, Waits(60)], Kind::Timeout, Phase::Initialize, TimedOut, "clock: Initialize, after: 10s"),
        (&[Opens, Says("loading"), Waits(60)], Kind::Timeout, Phase::Initialize, TimedOut, "loading"),
        (&[Opens, Says(GREETING), gone], Kind::Exited, Phase::Session, Succeeded, "Gone(Some(Code(3)))"),
        (
            &[Opens, Says(GREETING), Waits(120)],
            Kind::Timeout,
            Phase::Session,
            Succeeded,
            "clock: Session, after: 60s",
        ),
        (
            &[Opens, Says(GREETING), Says(no_session), gone],
            Kind::Protocol,
            Phase::Session,
            Succeeded,
            "sessionId",
        ),
        (&[Opens, Says(GREETING), Says(no_to_session), gone], Kind::Rpc, Phase::Session, Succeeded, "\"no\""),
        (
            &[Opens, Says(GREETING), Says(login_first), gone],
            Kind::NeedsLogin,
            Phase::Session,
            Succeeded,
            "no account",
        ),
        (
            &[Opens, Says(GREETING), Says(SESSION), gone],
            Kind::Exited,
            Phase::Prompt,
            Succeeded,
            "Gone(Some(Code(3)))",
        ),
        (
            &[Opens, Says(GREETING), Says(SESSION), Waits(400)],
            Kind::Timeout,
            Phase::Prompt,
            Succeeded,
            "clock: Turn, after: 300s",
        ),
        (
            &[Opens, Says(GREETING), Says(SESSION), Says(no_to_prompt)],
            Kind::Rpc,
            Phase::Prompt,
            Succeeded,
            "bad key",
        ),
    ];
    for (script, kind, phase, handshake, data) in table {
        let hand = checked(Some("hi"), script);
        let failed = hand.failed();
        assert_eq!((failed.kind(), failed.phase), (*kind, *phase), "{script:?}: {failed:?}");
        assert_eq!(Handshake::of(failed), *handshake, "{script:?}");
        assert!(format!("{:?}", failed.cause).contains(data), "{script:?}: {failed:?}");
        assert!(!check::passed(hand.finished().expect("a result")), "{script:?}");
    }
}

#[test]
fn each_step_has_its_own_clock_to_the_second() {
    let session = [Opens, Says(GREETING)];
    let turn = [Opens, Says(GREETING), Says(SESSION)];
    for (script, seconds) in [(&[Opens][..], 10), (&session, 60), (&turn, 300)] {
        let early = checked(Some("hi"), &[script, &[Waits(seconds - 1)]].concat());
        assert!(early.finished().is_none() && !early.over, "{script:?}");
        let late = checked(Some("hi"), &[script, &[Waits(seconds), Exits(Exit::Code(0))]].concat());
        assert_eq!(late.failed().kind(), Kind::Timeout, "{script:?}");
        assert_eq!(late.wrote.matches("session/cancel").count(), usize::from(seconds == 300));
    }
}

#[test]
fn c7_without_a_prompt_a_session_is_opened_and_not_prompted() {
    let hand = checked(None, &[Opens, Says(GREETING), Says(SESSION), Exits(Exit::Code(0))]);
    assert!(hand.wrote.contains("session/new") && !hand.wrote.contains("session/prompt"), "{}", hand.wrote);
    assert!(check::passed(hand.finished().expect("a result")));
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
