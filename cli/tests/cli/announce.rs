//! A conversation that shows itself to a hub.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for the few events that it is about")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use agentline_blocking::Given;
use agentline_core::acp::PermissionOutcome;
use agentline_core::reverse::acceptor::{Acceptor, Command, Config, Event};
use agentline_core::{Open, Tag};
use agentline_tests::runtimes::{Blocking, Runtime};

use crate::rig::{Bench, PATIENCE, Running};

/// A hub's side of the next link, on a thread of its own: what it is told, and what it says at that.
fn hub(bench: &Bench, mut on: impl FnMut(&Event, &mut Vec<Command>) + Send + 'static) -> Receiver<Event> {
    let run = bench.path("home/.botbus/run");
    fs::create_dir_all(&run).expect("a folder");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).expect("ours");
    let listener = UnixListener::bind(run.join("acp.sock")).expect("a socket");
    let (tell, told): (Sender<Event>, _) = channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a link");
        let given = vec![Given::socket(stream).expect("a descriptor")];
        let config = Config { open: Some(Open::Given(0)), ..Config::taken() };
        Blocking::run_with_given::<Acceptor>(config, given, Vec::new(), |event, say| {
            on(&event, say);
            let _ = tell.send(event);
        });
    });
    told
}

/// What is told up to such an event, and that.
fn until(told: &Receiver<Event>, is_meant: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = told.recv_timeout(PATIENCE).expect("such an event");
        if is_meant(&event) {
            return event;
        }
    }
}

fn chat(bench: &Bench, args: &[&str]) -> Running {
    let args: Vec<&str> = ["chat", "--json", "--announce"].iter().chain(args).copied().collect();
    Running::new(bench.agentline(&args).stdin(Stdio::piped()))
}

#[test]
fn a_hub_sees_it_live_speaks_into_it_answers_and_cancels() {
    let bench = Bench::new();
    let told = hub(&bench, |event, say| {
        let prompt = |tag, text: &str| {
            let session = "demo-1".into();
            Command::Prompt { tag: Tag(tag), session, text: text.to_owned() }
        };
        match event {
            Event::Hello(_) => say.push(Command::Accept),
            Event::TurnEnded(ended) if ended.tag.is_none() => say.push(prompt(1, "ask")),
            Event::TurnEnded(ended) if ended.tag == Some(Tag(1)) => say.push(prompt(2, "slow 60000")),
            // In one breath with its prompt.
            Event::TurnStarted(session, Some(Tag(2))) => {
                say.push(Command::Cancel { session: session.clone() })
            }
            Event::PermissionAsked(asked) => {
                let option = asked.asked.options.first().expect("an option");
                let outcome = PermissionOutcome::selected(&*option.option_id);
                say.push(Command::Answer { request: asked.request, outcome });
            }
            _ => {}
        }
    });
    let mut chat = chat(&bench, &["-p", "ask"]);
    // A turn that is over before the hub has answered was nobody's to see.
    chat.until_said("◦ shown by the hub, as agentline-chat");
    let stdin = chat.child().stdin.as_mut().expect("a pipe");
    stdin.write_all(b"typed here\n").expect("it reads");
    let Event::Hello(hello) = until(&told, |event| matches!(event, Event::Hello(_))) else { unreachable!() };
    assert_eq!((&*hello.id, hello.pid), ("agentline-chat", Some(chat.child().id())));
    let ended = |tag| {
        let is_it = move |event: &Event| matches!(event, Event::TurnEnded(ended) if ended.tag == tag);
        let Event::TurnEnded(ended) = until(&told, is_it) else { unreachable!() };
        ended.end.expect("an end").reason.as_str().to_owned()
    };
    assert_eq!((ended(None), ended(Some(Tag(1))), ended(Some(Tag(2)))), {
        ("end_turn".to_owned(), "end_turn".to_owned(), "cancelled".to_owned())
    });
    let from_hub = chat.until_some(|object| object["from"] == "hub");
    assert_eq!(from_hub["text"], "ask");
    drop(chat.child().stdin.take());
    let (status, _, err) = chat.end();
    assert!(matches!(status.code(), Some(0 | 130)), "the cancelled turn may not have begun: {err}");
    until(&told, |event| matches!(event, Event::Closed(_)));
}

#[test]
fn who_is_refused_reads_why_and_what_helps_and_the_conversation_goes_on() {
    let bench = Bench::new();
    let _told = hub(&bench, |event, say| {
        if let Event::Hello(_) = event {
            say.push(Command::Refuse("no agent with id mine found\u{1b}[2J".to_owned()));
        }
    });
    let mut chat = chat(&bench, &["--as", "mine", "--", "/bin/sh", "-c", AGENT]);
    let said = chat.until_said("/bin/sh -c");
    assert!(
        said.contains("✗ the hub does not show this conversation: no agent with id mine found"),
        "{said}"
    );
    assert!(said.ends_with("agentline agent add mine -- /bin/sh -c"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    drop(chat.child().stdin.take());
    assert_eq!(chat.end().0.code(), Some(0));
}

#[test]
fn without_a_hub_it_is_a_conversation_as_any_other() {
    let bench = Bench::new();
    let mut chat = chat(&bench, &[]);
    chat.child().stdin.take().expect("a pipe").write_all(b"hello\n").expect("it reads");
    assert_eq!(chat.until("result")["outcome"], "completed");
    let (status, _, err) = chat.end();
    assert_eq!(status.code(), Some(0), "{err}");
    assert!(err.contains("no hub runs here"), "{err}");
}

/// One that opens a session and says nothing.
const AGENT: &str = r#"read x; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
read x; echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}'; read x"#;
