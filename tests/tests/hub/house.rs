//! A hub with real processes and sockets, and those who talk to it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use agentline_core::control::{Failure, server};
use agentline_core::host;
use agentline_core::hub::api::{Frame, HubStop, Method};
use agentline_core::hub::{AgentKind, AgentSpec, Caller, Command, Config, Errand, Event, Found, Hub, Stored};
use agentline_core::{Address, SpawnSpec, Stderr};
use agentline_tests::program::agentline;
use agentline_tests::runtimes::Runtime;
use serde::de::DeserializeOwned;

/// Runs a hub on the files of that home, as long as `day` takes.
pub(super) fn hub<R: Runtime>(home: &Path, day: impl FnOnce()) {
    let path = home.join("run/control.sock");
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(|| serve::<R>(home, &path, &tell));
        told.recv().expect("it listens");
        // A hub that nobody stops would keep the failure from being seen.
        let gone = catch_unwind(AssertUnwindSafe(day));
        assert!(call(&path, &HubStop::default()).unwrap().stopping);
        gone.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

fn serve<R: Runtime>(home: &Path, path: &Path, tell: &Sender<()>) {
    let mut config = Config::new(server::Config::new(Address(path.to_owned())));
    let state = home.join("state");
    config.stored = stored(&state);
    config.state = Some(state);
    config.agents = agents();
    config.reverse = Some(Address(home.join("run/acp.sock")));
    R::run::<Hub>(config, Vec::new(), |event, say| match event {
        Event::Listening => tell.send(()).expect("somebody waits"),
        Event::Errand(tag, errand) => say.push(Command::Done(tag, found(home, errand))),
        Event::Notify(_) | Event::Started(_) | Event::Noted(..) | Event::Ended(..) | Event::Closed(_) => {}
    });
}

/// What is hosted where something is.
pub(super) fn hosting() -> host::Config {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let terminals = host::Terminals { env: vec![("PATH".into(), path.into())], ..Default::default() };
    host::Config { terminals: Some(terminals), files: Some(host::Files::default()) }
}

fn agents() -> Vec<AgentSpec> {
    let hosted = |id| AgentSpec { host: hosting(), ..demo(id) };
    vec![demo("demo"), demo("keeper"), hosted("hosted"), hosted("scripted")]
}

/// `keeper` keeps its sessions, `demo` does not.
fn demo(id: &str) -> AgentSpec {
    AgentSpec {
        id: id.into(),
        name: id.to_uppercase(),
        origin: "manifest".into(),
        enabled: true,
        default: false,
        launch: Some(id.into()),
        initialize: None,
        kind: AgentKind::Acp,
        host: Default::default(),
    }
}

fn found(home: &Path, errand: Errand) -> Found {
    match errand {
        Errand::Folder(path) => Found::Folder(PathBuf::from(path).is_dir()),
        Errand::Discover => Found::Agents(agents(), Vec::new()),
        Errand::Launch { agent, .. } if *agent == *"scripted" => Found::Launch(Ok(Box::new(SpawnSpec {
            program: env!("CARGO_BIN_EXE_scripted_agent").into(),
            cwd: "/".into(),
            stderr: Stderr::Pipe,
            ..SpawnSpec::default()
        }))),
        Errand::Launch { agent, .. } => {
            let keep = ["--keep".into(), home.join("kept").into()];
            let args =
                ["demo-agent".into()].into_iter().chain(keep.into_iter().filter(|_| *agent == *"keeper"));
            Found::Launch(Ok(Box::new(SpawnSpec {
                program: agentline().into(),
                args: args.collect(),
                cwd: "/".into(),
                env: Vec::new(),
                stderr: Stderr::Pipe,
            })))
        }
        Errand::Enable { .. } => Found::Enabled(Ok(false)),
        Errand::Who(_) => Found::Who(Caller::default()),
        Errand::Rules(_) => Found::Kept(Ok(())),
        Errand::Read(_) => Found::Read(Ok(Vec::new().into())),
        Errand::File { wanted } => Found::File(agentline_blocking::workspace::carry_out(&wanted)),
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

/// A client's connection, and the lines that come over it.
pub(super) struct Lines(BufReader<UnixStream>);

impl Lines {
    pub(super) fn ask(path: &Path, method: &impl Method) -> Self {
        let mut stream = UnixStream::connect(path).expect("a hub");
        let request = method.request();
        let args = request.args.as_ref().map_or("null", |args| args.get());
        writeln!(stream, r#"{{"command":"{}","args":{args}}}"#, request.command).expect("it reads");
        Self(BufReader::new(stream))
    }

    pub(super) fn line(&mut self) -> BTreeMap<String, agentline_core::rpc::Json> {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    pub(super) fn frame(&mut self) -> Frame {
        Frame::read(&self.line()["data"]).expect("a frame")
    }
}

/// Asks one thing.
pub(super) fn call<M: Method<Result: DeserializeOwned>>(
    path: &Path,
    method: &M,
) -> Result<M::Result, Failure> {
    let answer = Lines::ask(path, method).line();
    if answer["ok"].get() == "true" {
        return Ok(serde_json::from_str(answer["result"].get()).expect("what the command gives"));
    }
    let text = |name: &str| serde_json::from_str::<String>(answer[name].get()).expect("text");
    let failure = Failure::new(text("error").as_str().into(), text("message"));
    Err(failure.beside(&answer))
}
