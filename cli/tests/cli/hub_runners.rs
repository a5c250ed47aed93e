//! Galley runners in a hub: real processes, and commands as they are typed in several terminals.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::hub_stories::Desk;
use crate::rig::{AGENTLINE, Running, text};

/// A home whose settings name the demo runner.
fn desk() -> Desk {
    let desk = Desk::new();
    settings(&desk, "{}");
    desk
}

/// Writes the settings: the demo runner, and what that says.
fn settings(desk: &Desk, more: &str) {
    let mut all: Value = serde_json::from_str(more).expect("JSON");
    let cwd = text(&desk.home.bench.path("home")).to_owned();
    all["runners"] = serde_json::json!({
        "galley": { "name": "Galley", "command": AGENTLINE, "args": ["demo-runner"], "cwd": cwd, "llmName": "demo/large" }
    });
    let file = desk.home.bench.path("home/.config/agentline/settings.json");
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(&file, all.to_string()).expect("a file");
}

#[test]
fn a_runner_is_listed_and_prompted_approved_and_watched_from_three_terminals() {
    let desk = desk();
    let listed = desk.run(&["agent", "list", "--json"]).objects();
    let row = listed.iter().find(|row| row["id"] == "galley").expect("a row");
    assert_eq!((&row["origin"], &row["name"]), (&Value::from("runner"), &Value::from("Galley")), "{row}");

    let id = desk.session("galley", "where");
    assert_eq!(desk.wait(&id), Some(0));
    let said = desk.run(&["session", "show", &id, "--last"]);
    let work = desk.home.bench.path("work").canonicalize().expect("a folder");
    assert!(said.out.contains(&format!("The project is {}.", text(&work))), "{said:?}");
    assert_eq!(desk.row(&id)["channel"], "galley");

    let mut watch = Running::new(&mut desk.command(&["session", "watch", &id, "--json"]));
    watch.until_some(|frame| frame["kind"] == "synced");
    assert_eq!(desk.run(&["session", "send", &id, "code"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(8), "it waits for an answer");
    let approved = desk.run(&["approve"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    watch.until_some(|frame| frame["kind"] == "run_complete");
    assert_eq!(desk.wait(&id), Some(0));

    // What it asks in words is answered by the next prompt.
    assert_eq!(desk.run(&["session", "send", &id, "ask"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(8));
    assert_eq!(desk.run(&["session", "send", &id, "the whole folder"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(0));

    // Its end is the watch's as well, and it is tried again.
    assert_eq!(desk.run(&["session", "send", &id, "crash 3"]).code, Some(0));
    assert_eq!(watch.end().0.code(), Some(0));
    assert_eq!(desk.wait(&id), Some(5));
    assert_eq!(desk.run(&["session", "send", &id, "hello"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(0));
}

#[test]
fn what_has_no_session_without_a_hub_says_so() {
    let desk = desk();
    for args in [["run", "--agent", "galley", "hello"].as_slice(), &["agent", "check", "galley"]] {
        let refused = desk.run(args);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.err.contains("only a hub has sessions of it"), "{refused:?}");
        assert!(refused.err.contains("agentline session new --agent galley"), "{refused:?}");
    }
}

#[test]
fn a_runner_remembers_across_its_own_end_and_the_hubs() {
    let desk = desk();
    let id = desk.session("galley", "hello");
    assert_eq!(desk.wait(&id), Some(0));
    let file = desk.home.state(&format!("transcripts/{id}.ndjson"));
    let mode = fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(desk.run(&["hub", "stop", "-y"]).code, Some(0));
    let status = desk.run(&["session", "send", &id, "history"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(desk.wait(&id), Some(0));
    let said = desk.run(&["session", "show", &id, "--last"]);
    assert!(said.out.contains("I remember 2 messages."), "{said:?}");
    let health = desk.run(&["hub", "status", "--json"]).objects();
    assert_eq!(health[0]["transcripts"], "runners", "{health:?}");

    settings(&desk, r#"{"transcripts":"none"}"#);
    assert_eq!(desk.run(&["session", "send", &id, "crash 1"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(5));
    assert_eq!(desk.run(&["session", "send", &id, "history"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(0));
    let said = desk.run(&["session", "show", &id, "--last"]);
    assert!(said.out.contains("I remember 0 messages."), "{said:?}");

    assert_eq!(desk.run(&["session", "delete", &id, "-y"]).code, Some(0));
    assert!(!file.exists());
}
