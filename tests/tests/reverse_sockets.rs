//! A hub's side of a link and an agent that dials in, over real sockets and on each runtime.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for the few events that it is about")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use agentline_blocking::Given;
use agentline_core::acp::update::{Speaker, ToolCallUpdate};
use agentline_core::acp::{OptionKind, PermissionOption, PermissionOutcome, StopReason};
use agentline_core::reverse::Capabilities;
use agentline_core::reverse::acceptor::{self, Acceptor};
use agentline_core::reverse::agent::{self, Agent};
use agentline_core::{Address, Cause, Open, OpenError, Tag};
use agentline_tests::door::{self, Door};
use agentline_tests::runtimes::{Blocking, Runtime, Smol};
use tempfile::TempDir;

/// A socket that somebody listens at.
struct Place {
    dir: TempDir,
    listener: UnixListener,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::with_prefix("al").expect("a directory");
        std::fs::DirBuilder::new().mode(0o700).create(dir.path().join("run")).expect("a directory");
        let listener = UnixListener::bind(dir.path().join("run/acp.sock")).expect("a socket");
        Self { dir, listener }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("run/acp.sock")
    }

    /// Takes one link and drives a hub's side of it; what it was told.
    fn serve<R: Runtime>(
        &self,
        mut on: impl FnMut(&acceptor::Event, &mut Vec<acceptor::Command>),
    ) -> Vec<acceptor::Event> {
        let (stream, _) = self.listener.accept().expect("a link");
        let given = vec![Given::socket(stream).expect("a descriptor")];
        let config = acceptor::Config { open: Some(Open::Given(0)), ..acceptor::Config::taken() };
        let mut told = Vec::new();
        R::run_with_given::<Acceptor>(config, given, Vec::new(), |event, say| {
            on(&event, say);
            told.push(event);
        });
        told
    }

    /// An agent by hand.
    fn dial(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).expect("a hub");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    fn agent(&self) -> agent::Config {
        let capabilities = Capabilities { prompt: true, cancel: true, new_session: true };
        agent::Config { capabilities, ..agent::Config::connect(Address(self.path()), "my-agent") }
    }
}

fn accept(event: &acceptor::Event, say: &mut Vec<acceptor::Command>) {
    if let acceptor::Event::Hello(_) = event {
        say.push(acceptor::Command::Accept);
    }
}

#[test]
fn blocking_shows_prompts_and_asks() {
    shows_prompts_and_asks::<Blocking>();
}

#[test]
fn smol_shows_prompts_and_asks() {
    shows_prompts_and_asks::<Smol>();
}

/// A turn at the agent's own end, then one of the hub's in which it asks; the hub leaves.
fn shows_prompts_and_asks<R: Runtime>() {
    let place = Place::new();
    thread::scope(|scope| {
        let hub = scope.spawn(|| {
            place.serve::<R>(|event, say| {
                use acceptor::{Command, Event};
                accept(event, say);
                match event {
                    Event::TurnEnded(ended) if ended.tag.is_none() => {
                        let session = ended.session.clone();
                        say.push(Command::Prompt { tag: Tag(1), session, text: "go".to_owned() });
                    }
                    Event::TurnEnded(_) => say.push(Command::Leave),
                    Event::PermissionAsked(asked) => say.push(Command::Answer {
                        request: asked.request,
                        outcome: PermissionOutcome::selected("y"),
                    }),
                    _ => {}
                }
            })
        });
        let mut answered = 0;
        let mut end = None;
        let mut turn = None;
        R::run::<Agent>(place.agent(), Vec::new(), |event, say| {
            use agent::{Command, Event};
            let session = || "s".into();
            match event {
                Event::Accepted => say.extend([
                    Command::Announce { session: session(), cwd: "/w".to_owned(), title: None },
                    Command::StartTurn { session: session() },
                    Command::Say {
                        session: session(),
                        speaker: Speaker::Agent,
                        text: "x".repeat(300_000),
                        message: None,
                    },
                    Command::EndTurn { session: session(), reason: StopReason::EndTurn },
                ]),
                Event::Prompted(prompted) => {
                    turn = Some(prompted.turn);
                    let tool_call = Box::new(ToolCallUpdate {
                        tool_call_id: "c".to_owned(),
                        ..ToolCallUpdate::default()
                    });
                    let options = vec![PermissionOption {
                        option_id: "y".to_owned(),
                        name: "yes".to_owned(),
                        kind: OptionKind::AllowOnce,
                    }];
                    say.push(Command::AskPermission { tag: Tag(1), session: session(), tool_call, options });
                }
                Event::PermissionAnswered(..) => {
                    answered += 1;
                    let turn = turn.expect("a turn");
                    say.push(Command::EndPrompt { turn, stopped: Box::new(StopReason::EndTurn.into()) });
                }
                Event::Closed(closed) => end = Some(closed.cause),
                _ => {}
            }
        });
        let told = hub.join().expect("a hub");
        let text: usize = told.iter().map(text_of).sum();
        assert_eq!((text, answered, end), (300_000, 1, Some(Cause::Gone)));
        assert!(matches!(told.last(), Some(acceptor::Event::Closed(closed)) if closed.cause == Cause::Left));
    });
}

fn text_of(event: &acceptor::Event) -> usize {
    use agentline_core::acp::Update;
    match event {
        acceptor::Event::Updated(updated) => match &updated.update {
            Update::Message(_, chunk) => chunk.content.as_text().map_or(0, str::len),
            _ => 0,
        },
        _ => 0,
    }
}

#[test]
fn blocking_hears_whoever_says_it_all_at_once_and_goes() {
    hears_whoever_goes_at_once::<Blocking>();
}

#[test]
fn smol_hears_whoever_says_it_all_at_once_and_goes() {
    hears_whoever_goes_at_once::<Smol>();
}

/// Twenty times: each line is told, and so is the end.
fn hears_whoever_goes_at_once<R: Runtime>() {
    let place = Place::new();
    thread::scope(|scope| {
        for _ in 0..20 {
            let agent = scope.spawn(|| {
                let mut stream = place.dial();
                write!(stream, "{HELLO}\n{ANNOUNCE}\n").expect("a reader");
                stream.shutdown(Shutdown::Write).expect("a half");
                let mut answer = String::new();
                stream.read_to_string(&mut answer).expect("an answer");
                answer
            });
            let told = place.serve::<R>(accept);
            assert_eq!(agent.join().expect("an agent"), ACCEPTED.to_owned() + "\n");
            assert!(
                matches!(
                    &told[..],
                    [
                        acceptor::Event::Hello(_),
                        acceptor::Event::Accepted(_),
                        acceptor::Event::Announced(_),
                        acceptor::Event::Closed(_)
                    ]
                ),
                "{told:?}"
            );
        }
    });
}

#[test]
fn blocking_tells_whoever_is_turned_away_why() {
    tells_why::<Blocking>();
}

#[test]
fn smol_tells_whoever_is_turned_away_why() {
    tells_why::<Smol>();
}

/// Twenty times: the reason is read before the end.
fn tells_why<R: Runtime>() {
    let place = Place::new();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                place.serve::<R>(|event, say| {
                    if let acceptor::Event::Hello(_) = event {
                        say.push(acceptor::Command::Refuse("disabled".to_owned()));
                    }
                })
            });
            let mut end = None;
            R::run::<Agent>(place.agent(), Vec::new(), |event, _| {
                if let agent::Event::Closed(closed) = event {
                    end = Some(closed.cause);
                }
            });
            assert_eq!(end, Some(Cause::Fault(agent::Fault::Refused("disabled".to_owned()))));
        }
    });
}

#[test]
fn blocking_passes_over_a_line_of_17_mib() {
    passes_over_a_long_line::<Blocking>();
}

#[test]
fn smol_passes_over_a_line_of_17_mib() {
    passes_over_a_long_line::<Smol>();
}

fn passes_over_a_long_line<R: Runtime>() {
    let place = Place::new();
    thread::scope(|scope| {
        let hub = scope.spawn(|| place.serve::<R>(accept));
        let mut stream = place.dial();
        writeln!(stream, "{HELLO}").expect("a reader");
        let mut answers = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
        assert_eq!(answers.next().expect("an answer").expect("a line"), ACCEPTED);
        stream.write_all(&vec![b'x'; 17 << 20]).expect("a reader");
        write!(stream, "\n{ANNOUNCE}\n").expect("a reader");
        stream.shutdown(Shutdown::Write).expect("a half");
        let told = hub.join().expect("a hub");
        assert!(
            matches!(
                &told[..],
                [
                    _,
                    _,
                    acceptor::Event::Noticed(_),
                    acceptor::Event::Announced(_),
                    acceptor::Event::Closed(_)
                ]
            ),
            "{told:?}"
        );
    });
}

#[test]
fn without_a_hub_an_agent_goes_on_alone() {
    without_a_hub::<Blocking>();
    without_a_hub::<Smol>();
}

#[test]
fn blocking_shuts_its_door_on_everybody() {
    shuts_its_door::<Blocking>();
}

#[test]
fn smol_shuts_its_door_on_everybody() {
    shuts_its_door::<Smol>();
}

/// Three are let in and one has said nothing; a second door finds the first one there.
fn shuts_its_door<R: Runtime>() {
    let dir = TempDir::with_prefix("al").expect("a directory");
    let path = dir.path().join("run/acp.sock");
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut let_in = 0;
            R::run::<Door>(Address(path.clone()), Vec::new(), |event, say| match event {
                door::Event::Listening => tell.send(None).expect("a listener"),
                door::Event::Said(link, acceptor::Event::Hello(_)) => {
                    say.push(door::Command::To(link, acceptor::Command::Accept));
                }
                door::Event::Said(_, acceptor::Event::Announced(_)) => {
                    let_in += 1;
                    if let_in == 3 {
                        say.push(door::Command::Close);
                    }
                }
                door::Event::Said(_, acceptor::Event::Closed(closed)) => {
                    tell.send(Some(closed.cause)).expect("a listener");
                }
                door::Event::Said(..) | door::Event::Closed(_) => {}
            });
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok(None));
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&dir.path().join("run"))), (0o600, 0o700));
        let mut second = None;
        R::run::<Door>(Address(path.clone()), Vec::new(), |event, _| second = Some(event));
        assert_eq!(second, Some(door::Event::Closed(Some(OpenError::InUse))));

        let silent = UnixStream::connect(&path).expect("a door");
        let agents: Vec<_> = (0..3).map(|_| scope.spawn(|| ends_with_the_hub::<R>(&path))).collect();
        for agent in agents {
            assert_eq!(agent.join().expect("an agent"), Some(Cause::Gone));
        }
        silent.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!((&silent).read(&mut [0]).expect("an end"), 0, "who said nothing hears nothing");
        drop(silent);
        // The second door has knocked to see whether anybody is there.
        let ends: Vec<_> = (0..5).map(|_| told.recv_timeout(PATIENCE).expect("an end")).collect();
        let left = ends.iter().filter(|end| **end == Some(Cause::Left)).count();
        assert_eq!((left, ends.contains(&Some(Cause::Gone))), (4, true), "{ends:?}");
    });
    assert!(!path.exists(), "the door is gone");
}

/// Dials in, shows a session, and stays as long as the hub does.
fn ends_with_the_hub<R: Runtime>(path: &Path) -> Option<Cause<agent::Fault>> {
    let mut end = None;
    R::run::<Agent>(
        agent::Config::connect(Address(path.into()), "a"),
        Vec::new(),
        |event, say| match event {
            agent::Event::Accepted => {
                say.push(agent::Command::Announce { session: "s".into(), cwd: "/w".to_owned(), title: None })
            }
            agent::Event::Closed(closed) => end = Some(closed.cause),
            _ => {}
        },
    );
    end
}

fn without_a_hub<R: Runtime>() {
    let place = Place::new();
    let end = |config: agent::Config| {
        let mut end = None;
        R::run::<Agent>(config, Vec::new(), |event, _| {
            if let agent::Event::Closed(closed) = event {
                end = Some(closed.cause);
            }
        });
        end
    };
    let missing = Open::Connect(Address(place.dir.path().join("run/none.sock")));
    assert_eq!(
        end(agent::Config { open: missing, ..place.agent() }),
        Some(Cause::Failed(OpenError::NotFound))
    );
    let config = place.agent();
    let Place { dir, listener } = place;
    drop(listener);
    assert_eq!(end(config), Some(Cause::Failed(OpenError::Refused)));
    drop(dir);
}

const HELLO: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"_botbus/hello","params":{"id":"my-agent","version":1}}"#;
const ANNOUNCE: &str =
    r#"{"jsonrpc":"2.0","method":"_botbus/session","params":{"sessionId":"s","cwd":"/w"}}"#;
const ACCEPTED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"accepted":true}}"#;
/// The global deadline of a step: none is expected to take any time worth mentioning.
const PATIENCE: Duration = Duration::from_secs(30);
