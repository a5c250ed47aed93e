//! A hub with real processes and real sockets, on each runtime: started, asked, approved, crashed, tried again, stopped,
//! and started once more from its files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use agentline_core::control::{ErrorTag, Failure, server};
use agentline_core::hub::api::{
    ApprovalRespond, ApprovalsWatch, By, Decision, Dispatched, Frame, Happening, HubStop, Method, Reason,
    SessionNew, SessionRetry, SessionSend, SessionShow, SessionWait, SessionsList, Status, WaitedFor,
};
use agentline_core::hub::{AgentSpec, Caller, Command, Config, Errand, Event, Found, Hub, Stored};
use agentline_core::{Address, SpawnSpec, Stderr};
use agentline_tests::program::agentline;
use agentline_tests::runtimes::{Blocking, Runtime, Smol};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

#[test]
fn a_day_of_a_hub_on_smol() {
    a_day::<Smol>();
}

#[test]
fn a_day_of_a_hub_on_threads() {
    a_day::<Blocking>();
}

fn a_day<R: Runtime>() {
    let home = TempDir::with_prefix("al").unwrap();
    let path = home.path().join("run/control.sock");
    hub::<R>(home.path(), || {
        let approvals = watch(&path);
        let started = call(&path, &new("ask", home.path())).unwrap();
        assert_eq!((&*started.session.id, started.dispatch), ("s1", Dispatched::Dispatched));
        approve(&path, approvals);
        assert_eq!(wait(&path, "s1"), (WaitedFor::Completed, None));

        call(&path, &send("crash 3")).unwrap();
        assert_eq!(wait(&path, "s1"), (WaitedFor::Error, Some(Reason::AgentExited)));
        // That agent keeps no sessions.
        let lost = call(&path, &SessionRetry::of("s1")).unwrap_err();
        assert_eq!(
            (lost.tag.clone(), lost.member("sessionId").as_deref()),
            (ErrorTag::RunnerError, Some("s1"))
        );
        let again = call(&path, &new("good evening", home.path())).unwrap();
        assert_eq!(wait(&path, &again.session.id), (WaitedFor::Completed, None));
        let shown = SessionShow { session_id: again.session.id, tail: Some(1), load: Some(false) };
        let shown = call(&path, &shown);
        assert_eq!(shown.unwrap()[0].content, "good evening");
        let nowhere = SessionNew { cwd: Some("/no/such/folder".into()), ..new("hi", home.path()) };
        assert_eq!(call(&path, &nowhere).unwrap_err().tag, ErrorTag::InvalidArgs);
    });
    assert!(!path.exists(), "the socket is left behind");
    hub::<R>(home.path(), || {
        let rows = call(&path, &SessionsList::default()).unwrap();
        let rows: Vec<_> = rows.iter().map(|row| (&*row.id, row.status)).collect();
        assert_eq!(rows, [("s2", Status::Completed), ("s1", Status::Error)]);
        let started = call(&path, &new("hi", home.path())).unwrap();
        assert!(!rows.iter().any(|(id, _)| *id == started.session.id), "a handle is given twice");
        assert!(started.turn.unwrap() > 4, "a number is given twice: {started:?}");
    });
}

/// The first answer counts, and everybody is told.
fn approve(path: &Path, mut approvals: Lines) {
    let mut next = |wanted: &str| loop {
        let frame = approvals.frame();
        if frame.what.kind() == wanted {
            return frame.what;
        }
    };
    next("synced");
    let Happening::ApprovalBrief(asked) = next("asked") else { panic!("no question") };
    let allow = ApprovalRespond {
        approval_id: asked.approval_id.clone(),
        decision: Some(Decision::Allow),
        ..ApprovalRespond::default()
    };
    assert_eq!(call(path, &allow).unwrap().by, By::Client);
    let late = call(path, &allow).unwrap_err();
    assert_eq!((late.tag.clone(), late.member("by").as_deref()), (ErrorTag::AlreadyAnswered, Some("client")));
    let Happening::Resolved(over) = next("resolved") else { panic!("not told") };
    assert_eq!((over.approval_id, over.by), (asked.approval_id, By::Client));
}

fn new(task: &str, cwd: &Path) -> SessionNew {
    let cwd = Some(cwd.to_str().unwrap().to_owned());
    SessionNew { task: Some(task.into()), agent: Some("demo".into()), cwd, ..SessionNew::default() }
}

fn send(content: &str) -> SessionSend {
    SessionSend { session_id: "s1".into(), content: content.into(), ..SessionSend::default() }
}

fn wait(path: &Path, sid: &str) -> (WaitedFor, Option<Reason>) {
    let waited = call(path, &SessionWait { session_id: sid.into(), ..SessionWait::default() }).unwrap();
    (waited.reason, waited.session.status_reason)
}

/// Runs a hub on the files of that home, as long as `day` takes.
fn hub<R: Runtime>(home: &Path, day: impl FnOnce()) {
    let path = home.join("run/control.sock");
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(|| serve::<R>(home, &path, &tell));
        told.recv().expect("it listens");
        day();
        assert!(call(&path, &HubStop::default()).unwrap().stopping);
    });
}

fn serve<R: Runtime>(home: &Path, path: &Path, tell: &Sender<()>) {
    let mut config = Config::new(server::Config::new(Address(path.to_owned())));
    let state = home.join("state");
    config.stored = stored(&state);
    config.state = Some(state);
    config.agents = vec![demo()];
    R::run::<Hub>(config, Vec::new(), |event, say| match event {
        Event::Listening => tell.send(()).expect("somebody waits"),
        Event::Errand(tag, errand) => say.push(Command::Done(tag, found(errand))),
        Event::Notify(_) | Event::Started(_) | Event::Noted(..) | Event::Ended(..) | Event::Closed(_) => {}
    });
}

fn demo() -> AgentSpec {
    AgentSpec {
        id: "demo".into(),
        name: "Demo".into(),
        origin: "manifest".into(),
        enabled: true,
        default: false,
        launch: Some("demo".into()),
        initialize: None,
    }
}

fn found(errand: Errand) -> Found {
    match errand {
        Errand::Folder(path) => Found::Folder(PathBuf::from(path).is_dir()),
        Errand::Discover => Found::Agents(vec![demo()], Vec::new()),
        Errand::Launch { .. } => Found::Launch(Ok(Box::new(SpawnSpec {
            program: agentline().into(),
            args: vec!["demo-agent".into()],
            cwd: "/".into(),
            env: Vec::new(),
            stderr: Stderr::Pipe,
        }))),
        Errand::Enable { .. } => Found::Enabled(Ok(false)),
        Errand::Who(_) => Found::Who(Caller::default()),
    }
}

fn stored(state: &Path) -> Stored {
    let mut stored = Stored::default();
    for folder in Stored::FOLDERS {
        fs::create_dir_all(state.join(folder)).unwrap();
        for entry in fs::read_dir(state.join(folder)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                let name = entry.file_name().into_string().unwrap();
                assert!(!stored.read(folder, &name, &fs::read(entry.path()).unwrap()), "{name}");
            }
        }
    }
    stored
}

/// A connection, and the lines that come over it.
struct Lines(BufReader<UnixStream>);

impl Lines {
    fn ask(path: &Path, method: &impl Method) -> Self {
        let mut stream = UnixStream::connect(path).expect("a hub");
        let request = method.request();
        let args = request.args.as_ref().map_or("null", |args| args.get());
        writeln!(stream, r#"{{"command":"{}","args":{args}}}"#, request.command).expect("it reads");
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> BTreeMap<String, agentline_core::rpc::Json> {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    fn frame(&mut self) -> Frame {
        Frame::read(&self.line()["data"]).expect("a frame")
    }
}

fn watch(path: &Path) -> Lines {
    Lines::ask(path, &ApprovalsWatch::default())
}

fn call<M: Method<Result: DeserializeOwned>>(path: &Path, method: &M) -> Result<M::Result, Failure> {
    let answer = Lines::ask(path, method).line();
    if answer["ok"].get() == "true" {
        return Ok(serde_json::from_str(answer["result"].get()).expect("what the command gives"));
    }
    let text = |name: &str| serde_json::from_str::<String>(answer[name].get()).expect("text");
    let failure = Failure::new(text("error").as_str().into(), text("message"));
    Err(failure.beside(&answer))
}
