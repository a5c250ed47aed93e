//! Agents that dial in over a real socket: at a hub on each runtime, and at the `agentline` of this build.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use agentline_core::control::ErrorTag;
use agentline_core::hub::api::{
    ApprovalBrief, ApprovalRespond, ApprovalsList, By, Decision, HubHealth, HubStop, Reason, Role,
    SessionBrief, SessionNew, SessionSend, SessionShow, SessionStop, SessionWait, SessionsList, Status,
};
use agentline_tests::program::agentline;
use agentline_tests::runtimes::{Blocking, Runtime, Smol};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::house::{call, hub};

#[test]
fn a_hub_on_smol_takes_in_who_dials() {
    on::<Smol>();
}

#[test]
fn a_hub_on_threads_takes_in_who_dials() {
    on::<Blocking>();
}

fn on<R: Runtime>() {
    let home = TempDir::with_prefix("al").unwrap();
    let [control, reverse] = ["run/control.sock", "run/acp.sock"].map(|path| home.path().join(path));
    let mut last = None;
    hub::<R>(home.path(), || last = Some(visit(&control, &reverse)));
    // It was left when the hub stopped.
    last.expect("it dialled").is_left();
    assert!(!reverse.exists(), "the socket is left behind");
}

#[test]
fn the_program_takes_in_who_dials() {
    let home = TempDir::with_prefix("al").unwrap();
    let mut hub = Command::new(agentline())
        .args(["hub", "run", "--format", "json"])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(hub.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it listens");
    let listening: Value = serde_json::from_str(&line).expect("JSON");
    let path = |name: &str| Path::new(listening[name].as_str().expect("a path")).to_owned();
    let (control, reverse) = (path("control"), path("reverse"));
    let mut last = visit(&control, &reverse);
    assert!(call(&control, &HubStop::default()).unwrap().stopping);
    last.is_left();
    assert!(hub.wait().expect("it ends").success());
    assert!(!reverse.exists(), "the socket is left behind");
}

/// One after the other, on one hub. Whoever is left open at the end.
fn visit(control: &Path, reverse: &Path) -> Dialled {
    // It says nothing: it is left when its time is up.
    let mut silent = Dialled::at(reverse);
    said_before_the_hello(control, reverse);
    refused(reverse);
    turns_and_prompts(control, reverse);
    questions(control, reverse);
    owners(control, reverse);
    bounds(control, reverse);
    new_sessions(control, reverse);
    beside_a_process(control, reverse);
    silent.is_left();
    let open = Dialled::at(reverse);
    assert_eq!(call(control, &HubHealth {}).unwrap().reverse.as_deref(), reverse.to_str());
    open
}

fn said_before_the_hello(control: &Path, reverse: &Path) {
    let mut early = Dialled::at(reverse);
    early.question(7, "early", "c");
    assert!(early.line()["error"]["message"].as_str().is_some_and(|why| why.contains("hello")));
    early.announce("early", "seen early");
    early.turn("early", "started", &json!(null));
    early.hello("demo", &json!({}));
    let row = row(control, "early");
    assert_eq!((row.status, &*row.title, row.controllable), (Status::Running, "seen early", false));
    // It takes no prompts.
    let refused = call(control, &send("early", "hi")).unwrap_err();
    assert_eq!(refused.tag, ErrorTag::InvalidArgs);
    drop(early);
    gone(control, "early", Reason::LinkLost);
}

fn refused(reverse: &Path) {
    for (id, why) in [("nobody", "agentline agent add nobody"), ("", "no agent")] {
        let mut link = Dialled::at(reverse);
        link.say(&json!({ "id": 1, "method": "_botbus/hello", "params": { "id": id, "version": 1 } }));
        let answer = link.line();
        assert_eq!(answer["result"]["accepted"], false, "{answer}");
        assert!(answer["result"]["reason"].as_str().is_some_and(|text| text.contains(why)), "{answer}");
        link.is_left();
    }
}

fn turns_and_prompts(control: &Path, reverse: &Path) {
    let mut link = Dialled::shown(reverse, "turns", &json!({ "prompt": true, "cancel": true }));
    link.hello_again();
    link.turn("turns", "started", &json!(null));
    link.chunk("turns", "user_message_chunk", "typed here");
    link.chunk("turns", "agent_message_chunk", "answered");
    link.turn("turns", "ended", &json!("end_turn"));
    link.sync();
    let row = row(control, "turns");
    assert_eq!((row.status, row.last_message.as_deref()), (Status::Completed, Some("answered")));
    assert!(row.controllable && row.live);

    call(control, &send("turns", "from afar")).unwrap();
    let prompt = link.line();
    assert_eq!(
        (&prompt["method"], &prompt["params"]["sessionId"]),
        (&json!("session/prompt"), &json!("turns"))
    );
    assert_eq!(prompt["params"]["prompt"], json!([{ "type": "text", "text": "from afar" }]));
    link.chunk("turns", "user_message_chunk", "from afar");
    link.chunk("turns", "agent_message_chunk", "done");
    link.say(&json!({ "id": prompt["id"], "result": { "stopReason": "end_turn" } }));
    link.sync();
    let shown = SessionShow { session_id: "turns".into(), ..SessionShow::default() };
    let said: Vec<_> = call(control, &shown).unwrap().into_iter().map(|it| (it.role, it.content)).collect();
    let said: Vec<_> = said.iter().map(|(role, text)| (*role, &**text)).collect();
    let expected = [
        (Role::User, "typed here"),
        (Role::Agent, "answered"),
        (Role::User, "from afar"),
        (Role::Agent, "done"),
    ];
    assert_eq!(said, expected);
    assert_eq!(call(control, &HubHealth {}).unwrap().agents, 0, "a process was started beside the link");

    link.turn("turns", "started", &json!(null));
    link.sync();
    call(control, &SessionStop::of("turns")).unwrap();
    assert_eq!(link.line()["method"], "session/cancel");
    drop(link);
    gone(control, "turns", Reason::LinkLost);
}

fn questions(control: &Path, reverse: &Path) {
    let mut link = Dialled::shown(reverse, "asks", &json!({ "cancel": true }));
    link.question(1, "nobodys", "c");
    link.has_no_answer(1);

    link.question(2, "asks", "one");
    link.question(3, "asks", "two");
    link.has_no_answer(2);
    let open = waiting(control);
    let allow = ApprovalRespond {
        approval_id: open.approval_id.clone(),
        decision: Some(Decision::Allow),
        ..ApprovalRespond::default()
    };
    assert_eq!(call(control, &allow).unwrap().by, By::Client);
    let outcome = &link.line()["result"]["outcome"];
    assert_eq!((&outcome["outcome"], &outcome["optionId"]), (&json!("selected"), &json!("y")));

    link.resolved("asks", "early");
    link.question(4, "asks", "early");
    link.has_no_answer(4);
    link.question(5, "asks", "late");
    link.resolved("asks", "late");
    link.has_no_answer(5);
    let late = ApprovalRespond { approval_id: settled(control, By::Terminal), ..allow.clone() };
    assert_eq!(call(control, &late).unwrap_err().tag, ErrorTag::AlreadyAnswered);

    link.turn("asks", "started", &json!(null));
    link.question(6, "asks", "over");
    link.turn("asks", "ended", &json!("end_turn"));
    link.has_no_answer(6);
    settled(control, By::TurnEnded);
    assert_eq!(row(control, "asks").status, Status::Completed);

    link.turn("asks", "started", &json!(null));
    link.question(7, "asks", "stopped");
    link.sync();
    waiting(control);
    call(control, &SessionStop::of("asks")).unwrap();
    assert_eq!(link.line()["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(link.line()["method"], "session/cancel");
}

fn owners(control: &Path, reverse: &Path) {
    let first = Dialled::shown(reverse, "owned", &json!({ "prompt": true }));
    let before = row(control, "owned");
    let mut second = Dialled::shown(reverse, "other", &json!({}));
    second.announce("owned", "mine now");
    second.turn("owned", "started", &json!(null));
    second.chunk("owned", "agent_message_chunk", "mine");
    second.question(1, "owned", "c");
    second.has_no_answer(1);
    assert_eq!(row(control, "owned"), before);
    drop(first);
    // Who comes back at once has it again.
    let mut again = Dialled::shown(reverse, "owned", &json!({ "prompt": true }));
    again.turn("owned", "started", &json!(null));
    again.sync();
    assert_eq!(row(control, "owned").status, Status::Running);
}

fn bounds(control: &Path, reverse: &Path) {
    let mut link = Dialled::shown(reverse, "b-0", &json!({}));
    link.bytes(&vec![b'x'; 17 << 20]);
    link.bytes(b"\n");
    for number in 1..=50 {
        link.announce(&format!("b-{number}"), "one of many");
    }
    link.sync();
    let rows = call(control, &SessionsList::default()).unwrap();
    let shown = |name: &str| rows.iter().any(|row| row.agent_session_id.as_deref() == Some(name));
    assert!(shown("b-1") && shown("b-49") && !shown("b-50"));
}

fn new_sessions(control: &Path, reverse: &Path) {
    let mut link = Dialled::at(reverse);
    link.hello("demo", &json!({ "prompt": true, "newSession": true }));
    let new = SessionNew {
        task: Some("begin".into()),
        agent: Some("demo".into()),
        cwd: Some("/".into()),
        ..SessionNew::default()
    };
    let started = std::thread::scope(|scope| {
        let started = scope.spawn(|| call(control, &new));
        let open = link.line();
        assert_eq!((&open["method"], &open["params"]["cwd"]), (&json!("session/new"), &json!("/")));
        link.announce("opened", "just begun");
        link.say(&json!({ "id": open["id"], "result": { "sessionId": "opened" } }));
        started.join().expect("a client").unwrap()
    });
    let prompt = link.line();
    assert_eq!(
        (&prompt["method"], &prompt["params"]["sessionId"]),
        (&json!("session/prompt"), &json!("opened"))
    );
    link.say(&json!({ "id": prompt["id"], "result": { "stopReason": "end_turn" } }));
    link.sync();
    let row = row(control, "opened");
    assert_eq!((&row.id, row.status, &*row.title), (&started.session.id, Status::Completed, "just begun"));
}

/// The end of an agent's process is nothing to a link of that agent.
fn beside_a_process(control: &Path, reverse: &Path) {
    let mut link = Dialled::shown(reverse, "beside", &json!({}));
    link.turn("beside", "started", &json!(null));
    link.sync();
    let crash = SessionNew {
        task: Some("crash 3".into()),
        agent: Some("demo".into()),
        cwd: Some("/".into()),
        ..SessionNew::default()
    };
    let crashed = call(control, &crash).unwrap().session.id;
    let wait = SessionWait { session_id: crashed, ..SessionWait::default() };
    assert_eq!(call(control, &wait).unwrap().session.status_reason, Some(Reason::AgentExited));
    let beside = row(control, "beside");
    assert_eq!((beside.status, beside.live), (Status::Running, true));
    link.turn("beside", "ended", &json!("end_turn"));
    link.sync();
    assert_eq!(row(control, "beside").status, Status::Completed);
}

fn send(session: &str, text: &str) -> SessionSend {
    SessionSend { session_id: session.into(), content: text.into(), ..SessionSend::default() }
}

fn row(control: &Path, name: &str) -> SessionBrief {
    let rows = call(control, &SessionsList::default()).unwrap();
    let row = rows.into_iter().find(|row| row.agent_session_id.as_deref() == Some(name));
    row.unwrap_or_else(|| panic!("no session {name}"))
}

fn waiting(control: &Path) -> ApprovalBrief {
    call(control, &ApprovalsList::default()).unwrap().pop().expect("a question")
}

/// The question that was settled last, which was settled so.
fn settled(control: &Path, by: By) -> String {
    let all = call(control, &ApprovalsList { answered: true, ..ApprovalsList::default() }).unwrap();
    let last = all.last().expect("a question");
    assert_eq!(last.resolved.as_ref().map(|it| it.by), Some(by));
    last.approval_id.clone()
}

/// The end of a link is noticed when it is read: whoever asks next may be ahead of that.
fn gone(control: &Path, name: &str, why: Reason) {
    for _ in 0..1000 {
        if row(control, name).status_reason == Some(why) {
            return;
        }
    }
    panic!("{name} stays: {:?}", row(control, name));
}

/// An agent that dialled in.
struct Dialled(BufReader<UnixStream>);

impl Dialled {
    fn at(reverse: &Path) -> Self {
        let stream = UnixStream::connect(reverse).expect("a hub");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        Self(BufReader::new(stream))
    }

    /// One that shows a session.
    fn shown(reverse: &Path, session: &str, can: &Value) -> Self {
        let mut link = Self::at(reverse);
        link.hello("demo", can);
        link.announce(session, session);
        link.sync();
        link
    }

    fn hello(&mut self, id: &str, can: &Value) {
        let params = json!({ "id": id, "version": 1, "capabilities": can });
        self.say(&json!({ "id": 0, "method": "_botbus/hello", "params": params }));
        assert_eq!(self.line(), json!({ "jsonrpc": "2.0", "id": 0, "result": { "accepted": true } }));
    }

    fn hello_again(&mut self) {
        self.say(&json!({ "id": 1, "method": "_botbus/hello", "params": { "id": "demo", "version": 1 } }));
        assert_eq!(self.line()["result"]["accepted"], false);
    }

    /// Whatever was said is heard when this is answered.
    fn sync(&mut self) {
        self.say(&json!({ "id": 99, "method": "_test/sync" }));
        assert_eq!(self.line()["error"]["code"], -32601);
    }

    fn announce(&mut self, session: &str, title: &str) {
        let params = json!({ "sessionId": session, "cwd": "/w", "title": title });
        self.say(&json!({ "method": "_botbus/session", "params": params }));
    }

    fn turn(&mut self, session: &str, state: &str, reason: &Value) {
        let params = json!({ "sessionId": session, "state": state, "stopReason": reason });
        self.say(&json!({ "method": "_botbus/turn", "params": params }));
    }

    fn chunk(&mut self, session: &str, kind: &str, text: &str) {
        let update = json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
        let params = json!({ "sessionId": session, "update": update });
        self.say(&json!({ "method": "session/update", "params": params }));
    }

    fn question(&mut self, id: u32, session: &str, call: &str) {
        let options = json!([{ "optionId": "y", "name": "yes", "kind": "allow_once" }]);
        let params = json!({ "sessionId": session, "toolCall": { "toolCallId": call }, "options": options });
        self.say(&json!({ "id": id, "method": "session/request_permission", "params": params }));
    }

    fn resolved(&mut self, session: &str, call: &str) {
        let params = json!({ "sessionId": session, "toolCallId": call });
        self.say(&json!({ "method": "_botbus/permission_resolved", "params": params }));
    }

    fn has_no_answer(&mut self, id: u32) {
        let answer = self.line();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32001)), "{answer}");
    }

    fn say(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        self.bytes(format!("{message}\n").as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("it reads");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn is_left(&mut self) {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).expect("an end");
        assert_eq!(rest, "", "a last word");
    }
}
