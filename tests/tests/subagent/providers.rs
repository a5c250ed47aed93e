//! Agents by name: what is refused before anything is started, and what a child gets of our environment.

use std::path::Path;
use std::process::Command;
use std::thread;

use agentline_blocking::{Providers, Subagent};
use agentline_core::Stderr;
use agentline_core::acp::ContentBlock;
use agentline_core::conversation;
use agentline_core::subagent::provider::{Provider, Task, Unstartable};
use agentline_core::subagent::{self, Outcome};
use tempfile::TempDir;

fn provider(json: serde_json::Value) -> Provider {
    serde_json::from_value(json).expect("a configuration")
}

fn scripted() -> Provider {
    provider(serde_json::json!({ "command": env!("CARGO_BIN_EXE_scripted_agent") }))
}

fn task(cwd: &Path, prompt: &str) -> Task {
    Task { prompt: vec![ContentBlock::text(prompt)], parent_cwd: Some(cwd.to_owned()), ..Task::default() }
}

#[test]
fn what_no_process_can_be_held_to_is_refused() {
    let mut providers = Providers::new(Path::new("/"));
    providers.add(scripted()).unwrap();
    let plain = || task(Path::new("/"), "x");
    let schema = serde_json::from_str("{}").unwrap();
    let wishes = [
        (Task { max_depth: Some(1), ..plain() }, Unstartable::Capability("a depth")),
        (Task { tool_filter: Some(Vec::new()), ..plain() }, Unstartable::Capability("a choice of tools")),
        (Task { output_schema: Some(schema), ..plain() }, Unstartable::Capability("an output schema")),
    ];
    for (task, refusal) in wishes {
        assert_eq!(providers.plan("acp", task).err(), Some(refusal));
    }
    assert_eq!(providers.plan("other", plain()).err(), Some(Unstartable::Name("other".into())));
    assert!(providers.plan("acp", plain()).is_ok());
    assert!(providers.names().eq(["acp"]));
}

#[test]
fn a_folder_must_be_there_before_anything_is_started() {
    let dir = TempDir::with_prefix("al").unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let missing = dir.path().join("missing");
    let mut providers = Providers::new(dir.path());
    providers.add(scripted()).unwrap();
    let refused = |cwd: Option<&Path>| {
        let task = Task { parent_cwd: cwd.map(Path::to_owned), ..Task::default() };
        providers.plan("acp", task).err()
    };
    assert_eq!(refused(None), Some(Unstartable::NoDirectory));
    assert_eq!(refused(Some(Path::new("sub"))), Some(Unstartable::RelativeDirectory("sub".into())));
    assert_eq!(refused(Some(&missing)), Some(Unstartable::BadDirectory(missing.clone())));
    assert_eq!(refused(Some(&file)), Some(Unstartable::BadDirectory(file.clone())));
    assert_eq!(refused(Some(dir.path())), None);
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused_when_it_is_read() {
    let dir = TempDir::with_prefix("al").unwrap();
    let load = |json| Providers::new(dir.path()).add(provider(json)).err();
    let config = |text| Some(Unstartable::Config(text));
    let graces = config("a grace is between 1 and 2147483647 milliseconds");
    assert_eq!(load(serde_json::json!({ "command": "" })), config("the command is empty"));
    assert_eq!(
        load(serde_json::json!({ "command": "a", "cwd": "" })),
        config("the working directory is empty")
    );
    assert_eq!(load(serde_json::json!({ "command": "a", "disposeGraceMs": 0 })), graces);
    assert_eq!(load(serde_json::json!({ "command": "a", "disposeEofGraceMs": 2_147_483_648_u64 })), graces);
    let missing = Unstartable::BadDirectory(dir.path().join("sub"));
    assert_eq!(load(serde_json::json!({ "command": "a", "cwd": "sub" })), Some(missing));
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    assert_eq!(load(serde_json::json!({ "command": "a", "cwd": "sub" })), None);
    assert_eq!(load(serde_json::json!({ "command": "a", "disposeGraceMs": 2_147_483_647_u64 })), None);
}

#[test]
fn the_configured_folder_counts_for_more_than_the_asker_s_and_only_text_is_passed_on() {
    let dir = TempDir::with_prefix("al").unwrap();
    let mut providers = Providers::new(dir.path());
    providers.add(Provider { cwd: Some(".".into()), ..scripted() }).unwrap();
    let mut task = task(Path::new("/"), "text");
    task.prompt
        .push(serde_json::from_str(r#"{"type":"resource_link","name":"x","uri":"file:///x"}"#).unwrap());
    let subagent::Config { conversation, prompt, .. } = providers.plan("acp", task).unwrap();
    let conversation::Config { setup, client, .. } = conversation;
    assert_eq!(setup.cwd, dir.path().display().to_string());
    assert_eq!(prompt, [ContentBlock::text("text")]);
    let agentline_core::Open::Spawn(spec) = client.open else { panic!("a child") };
    assert_eq!((&*spec.cwd, spec.stderr), (dir.path(), Stderr::Inherit));
}

#[test]
fn only_given_credentials_reach_the_child_and_its_proof_lands_where_we_work() {
    for runtime in ["blocking", "smol"] {
        let dir = TempDir::with_prefix("al").unwrap();
        let mut host = Command::new(env!("CARGO_BIN_EXE_subagent_host"));
        host.args([runtime, env!("CARGO_BIN_EXE_scripted_agent"), "env KEY; env PLAIN; proof it works"]);
        host.arg("DEEPSEEK_API_KEY=given").current_dir(dir.path());
        host.env("AWS_SECRET_ACCESS_KEY", "ambient").env("PLAIN", "ambient");
        let output = host.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "DEEPSEEK_API_KEY=givenPLAIN=ambient|Completed|Some(Eof)\n", "{runtime}");
        assert_eq!(std::fs::read_to_string(dir.path().join("proof.txt")).unwrap(), "it works", "{runtime}");
    }
}

#[test]
fn a_subagent_is_cancelled_from_another_thread_and_disposed_of_twice() {
    let mut providers = Providers::new(Path::new("/"));
    providers.add(scripted()).unwrap();
    let mut agent =
        Subagent::start(providers.plan("acp", task(Path::new("/"), "sleep 600000")).unwrap()).unwrap();
    let handle = agent.handle();
    let cancels = thread::spawn(move || handle.command(subagent::Command::Cancel));
    assert_eq!(agent.result().outcome, Outcome::Aborted);
    cancels.join().unwrap().unwrap();
    agent.cancel();
    let closed = agent.dispose().cloned();
    assert!(closed.is_some());
    assert_eq!(agent.dispose().cloned(), closed);
    assert_eq!(agent.result().outcome, Outcome::Aborted);
}

#[test]
fn a_subagent_that_is_dropped_may_finish_what_it_does_at_the_end_of_its_input() {
    let dir = TempDir::with_prefix("al").unwrap();
    let script = format!("'{}'; echo tidy > left", env!("CARGO_BIN_EXE_scripted_agent"));
    let mut providers = Providers::new(dir.path());
    providers.add(provider(serde_json::json!({ "command": "/bin/sh", "args": ["-c", script] }))).unwrap();
    let mut agent = Subagent::start(providers.plan("acp", task(dir.path(), "say done")).unwrap()).unwrap();
    assert_eq!(agent.result().output, "done");
    drop(agent);
    assert_eq!(std::fs::read_to_string(dir.path().join("left")).unwrap(), "tidy\n");
}
