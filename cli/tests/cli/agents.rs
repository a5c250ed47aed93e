//! `agentline agent …`, and runs by id.

use serde_json::json;

use crate::rig::{AGENTLINE, Bench, done};

fn say(bench: &Bench, args: &[&str]) -> String {
    let ended = done(&mut bench.agentline(args));
    assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
    ended.out
}

#[test]
fn an_agent_is_added_run_switched_and_removed() {
    let bench = Bench::new();
    let added = say(&bench, &["agent", "add", "mine", "--name", "My Agent", "--", AGENTLINE, "demo-agent"]);
    assert!(
        added.starts_with("mine is added: ") && added.ends_with("/.botbus/agents/mine.json\n"),
        "{added}"
    );
    let row = format!("mine\tMy Agent\tmanifest\tenabled\t{AGENTLINE} demo-agent\n");
    assert_eq!(say(&bench, &["agent", "list"]), row);
    assert_eq!(say(&bench, &["run", "-q", "--agent", "mi", "hi"]), "hi\n");

    say(&bench, &["agent", "default", "mine"]);
    let start = done(&mut bench.agentline(&["run", "--json", "hi"])).objects()[0].clone();
    assert_eq!((&start["agent"], &start["command"]), (&json!("mine"), &json!([AGENTLINE, "demo-agent"])));
    say(&bench, &["agent", "set", "mine", "--env", "MY_KEY"]);
    let shown = say(&bench, &["agent", "show", "mine"]);
    assert!(shown.contains("env      MY_KEY\ndefault  yes\n"), "{shown}");

    assert_eq!(say(&bench, &["agent", "disable", "mine"]), "mine is off\n");
    assert_eq!(say(&bench, &["agent", "disable", "mine"]), "mine is off already\n");
    let off = done(&mut bench.agentline(&["run", "--json", "hi"]));
    assert_eq!((off.code, &off.result()["error"]["hint"]), (Some(3), &json!("agentline agent enable mine")));
    say(&bench, &["agent", "enable", "mine"]);
    assert!(say(&bench, &["agent", "remove", "mine"]).starts_with("mine is removed, "));
    let again = done(&mut bench.agentline(&["agent", "remove", "mine"]));
    assert_eq!(again.code, Some(3), "{again:?}");
}

#[test]
fn to_add_again_keeps_what_is_not_given_and_to_remove_clears_the_default() {
    let bench = Bench::new();
    assert!(say(&bench, &["agent", "default"]).starts_with("demo (none is chosen"));
    say(&bench, &["agent", "add", "mine", "--name", "My Agent", "--", AGENTLINE, "demo-agent"]);
    say(&bench, &["agent", "add", "mine", "--", AGENTLINE]);
    let row = format!("mine\tMy Agent\tmanifest\tenabled\t{AGENTLINE}\n");
    assert_eq!(say(&bench, &["agent", "list"]), row);
    say(&bench, &["agent", "default", "mine"]);
    assert_eq!(say(&bench, &["agent", "default"]), "mine\n");
    assert!(say(&bench, &["agent", "remove", "mine"]).contains("the default no more"));
    assert!(say(&bench, &["agent", "default"]).starts_with("demo "));
    assert_eq!(done(&mut bench.agentline(&["run", "-q", "hi"])).out, "hi\n");
}

#[test]
fn what_cannot_be_used_is_not_added() {
    let bench = Bench::new();
    for (id, command, said, hint) in [
        (
            "mine",
            "no-such-program",
            "mine is not added: command not found",
            "agent add mine -- /path/to/program",
        ),
        (
            "mine",
            "/no/such/program",
            "mine is not added: command does not",
            "agent add mine -- /path/to/program",
        ),
        ("demo", AGENTLINE, "demo is the demo agent", "agent add my-demo -- "),
        ("Bad Id", AGENTLINE, "lower-case", "agent add bad-id -- "),
        ("claude", AGENTLINE, "built into BotBus", "agent add my-claude -- "),
    ] {
        let ended = done(&mut bench.agentline(&["agent", "add", id, "--", command]));
        assert!(ended.code == Some(2) && ended.err.contains(said) && ended.err.contains(hint), "{ended:?}");
        assert!(!bench.path("home/.botbus").exists());
    }
}

#[test]
fn the_environment_chooses_before_the_default() {
    let bench = Bench::new();
    say(&bench, &["agent", "add", "mine", "--", AGENTLINE, "demo-agent"]);
    let start = |id: &str| {
        let mut command = bench.agentline(&["run", "--json", "hi"]);
        done(command.env("AGENTLINE_AGENT", id)).objects()[0]["agent"].clone()
    };
    assert_eq!((start("mine"), start("demo"), start("")), (json!("mine"), json!("demo"), json!("demo")));
    let ended = done(&mut bench.agentline(&["run", "hello"]));
    assert!(ended.err.ends_with("agentline run --agent mine \"…\" (installed: mine)\n"), "{}", ended.err);
}

#[test]
fn the_list_says_what_is_wrong_and_where_it_looked() {
    let bench = Bench::new();
    let empty = done(&mut bench.agentline(&["agent", "list"]));
    assert!(empty.err.contains("/.botbus/agents/<id>.json (folder chosen by HOME)"), "{empty:?}");
    let bare = done(bench.agentline(&["agent", "list"]).env_remove("HOME"));
    assert!(bare.err.contains("chosen by the password file"), "{bare:?}");
    assert_eq!((&*empty.out, &*bare.out), ("", ""));
    std::fs::create_dir_all(bench.path("home/.botbus/agents")).unwrap();
    bench.file("home/.botbus/agents/bad.json", "{");
    bench.file("home/.botbus/agents/good.json", r#"{"id":"good","name":"Good","command":"/bin/sh"}"#);
    let list = done(&mut bench.agentline(&["agent", "list"]));
    assert_eq!((list.code, &*list.out), (Some(0), "good\tGood\tmanifest\tenabled\t/bin/sh\n"));
    assert!(list.err.starts_with("✗ ") && list.err.contains("bad.json: not a valid manifest"), "{list:?}");
    let ended = done(&mut bench.agentline(&["agent", "list", "--json"]));
    let objects = ended.objects();
    assert_eq!((&objects[0]["type"], &objects[0]["schemaVersion"]), (&json!("agent"), &json!(1)));
    assert_eq!((&objects[1]["type"], &objects[1]["code"]), (&json!("problem"), &json!("invalid_json")));
    assert!(say(&bench, &["agent", "list", "-v"]).contains("\n  searched: /usr/bin, /bin"));
    assert!(say(&bench, &["agent", "list", "--lang", "zh"]).contains("\t清单\t已启用\t"));
    let run = done(&mut bench.agentline(&["run", "--json", "--agent", "bad", "hi"]));
    assert_eq!(run.code, Some(3));
    assert!(run.result()["error"]["message"].as_str().unwrap().contains("not a valid manifest"));
}

#[test]
fn env_too_empty_a_manifest_brings_its_own_environment() {
    let bench = Bench::new();
    let seen = bench.path("seen");
    std::fs::create_dir_all(bench.path("home/.botbus/agents")).unwrap();
    let script = format!("env > {}; exec {AGENTLINE} demo-agent", seen.display());
    let manifest = json!({
        "id": "mine", "name": "Mine", "command": "/bin/sh", "args": ["-c", script], "env": {"MODEL_KEY": "from the manifest"},
    });
    bench.file("home/.botbus/agents/mine.json", manifest.to_string());
    let mut command = bench.agentline(&["run", "-q", "--agent", "mine", "hi"]);
    let ended = done(command.env("MODEL_KEY", "ours").env("OTHER_KEY", "ours"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("MODEL_KEY=from the manifest\n") && !seen.contains("ours"), "{seen}");
}

#[test]
fn damaged_settings_are_named_and_left_alone() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("home/.config/agentline")).unwrap();
    let file = bench.file("home/.config/agentline/settings.json", "{\"agents\":3}");
    let ended = done(&mut bench.agentline(&["agent", "default", "demo"]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("settings.json: the settings cannot be read"), "{}", ended.err);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "{\"agents\":3}");
    assert_eq!(done(&mut bench.agentline(&["run", "-q", "hi", "--", AGENTLINE, "demo-agent"])).code, Some(0));
}
