//! Galley's desktop on both runtimes starts our script as its runner, with the real demo agent behind it.
#![expect(clippy::wildcard_enum_match_arm, reason = "a flow is about few of the events")]

use std::path::{Path, PathBuf};
use std::process::Command as Process;

use agentline_core::galley::desktop::{Command, Config, Event, Launch};
use agentline_core::galley::{Decision, Exit, HistoryMessage, Rules};
use agentline_core::{Open, SpawnSpec, Stderr, Tag};
use agentline_tests::desktop::{approvals, play, say};
use agentline_tests::program::agentline;
use agentline_tests::runtimes::{Blocking, Runtime, Smol};
use tempfile::TempDir;

/// A folder with the script in it.
struct Shim(TempDir);

impl Shim {
    fn new() -> Self {
        let shim = Self(TempDir::with_prefix("al").expect("a folder"));
        let written = Process::new(agentline())
            .args(["gateway", "galley", "--shim"])
            .arg(shim.file())
            .arg("--")
            .args([agentline().as_ref() as &Path, Path::new("demo-agent")])
            .status()
            .expect("it runs");
        assert!(written.success());
        shim
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("runner")
    }

    /// As Galley starts it.
    fn config(&self) -> Config {
        let spawn = SpawnSpec {
            program: self.file().into(),
            args: ["-m", "runner.workbench_bridge"].map(Into::into).into(),
            cwd: "/".into(),
            env: vec![
                ("PATH".into(), std::ffi::OsString::from("/usr/bin:/bin").into()),
                ("HOME".into(), self.0.path().as_os_str().to_owned().into()),
            ],
            stderr: Stderr::Pipe,
        };
        let launch = Launch {
            spawn,
            ga_path: "/ga".into(),
            session: "s-1".to_owned(),
            workspace_root: Some(self.0.path().to_owned()),
            llm: Some(0),
            core: Some(std::process::id()),
            ..Launch::default()
        };
        Config::new(Open::spawn(launch.spec()))
    }
}

#[test]
fn an_approval_is_asked_for_and_given_or_denied() {
    let shim = Shim::new();
    let begun = ["ready small", "step 1", "asked code_run High"];
    let over = ["step over 1", "run 1 Ok(Done)", "closed Left Some(Code(0))"];
    let given = [&begun[..], &["started code_run", "ended Success"], &over].concat();
    let denied = [&begun[..], &["ended Denied"], &over].concat();
    assert_eq!(approvals::<Blocking>(shim.config(), "ask", &Decision::AllowOnce), given);
    assert_eq!(approvals::<Smol>(shim.config(), "ask", &Decision::AllowOnce), given);
    assert_eq!(approvals::<Blocking>(shim.config(), "ask", &Decision::Deny), denied);
    assert_eq!(approvals::<Smol>(shim.config(), "ask", &Decision::Deny), denied);
}

/// The resume flow: rules, a history, messages; then an abort, and another message.
fn resume<R: Runtime>(shim: &Shim) -> Vec<String> {
    let rules = Rules { project: vec!["code_run".to_owned()], ..Rules::default() };
    let mut runs = vec![say(3, "hello"), say(2, "slow 60"), say(1, "ask")];
    play::<R>(Config { rules, ..shim.config() }, move |event| match event {
        Event::Ready(ready) => {
            assert_eq!(ready.ga_commit, "unknown");
            let messages = vec![HistoryMessage::text("user", "a"), HistoryMessage::text("assistant", "b")];
            vec![Command::LoadHistory { tag: Tag(9), messages }]
        }
        Event::Done(..) => runs.pop().into_iter().collect(),
        Event::Progress(progress) if progress.delta.starts_with('1') => vec![Command::Abort],
        Event::RunEnded(ended) => {
            assert_eq!(ended.tag == Tag(2), ended.end == Ok(Exit::Aborted));
            vec![runs.pop().unwrap_or(Command::Close)]
        }
        _ => vec![],
    })
}

#[test]
fn a_session_has_its_rules_and_an_abort_ends_a_run() {
    let shim = Shim::new();
    let told = resume::<Blocking>(&shim);
    assert!(told.contains(&"done 9 false".to_owned()), "no agent takes a history: {told:#?}");
    assert!(!told.iter().any(|line| line.starts_with("asked")), "a rule allows it: {told:#?}");
    let runs: Vec<&String> = told.iter().filter(|line| line.starts_with("run ")).collect();
    assert_eq!(runs, ["run 1 Ok(Done)", "run 2 Ok(Aborted)", "run 3 Ok(Done)"], "{told:#?}");
    assert_eq!(told, resume::<Smol>(&shim));
}
