//! Command lines that make no sense, and the others.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::chat::open;
use crate::rig::{AGENTLINE, Bench, done, text};

#[test]
fn a_wrong_command_line_is_one_error_and_exit_code_2() {
    let bench = Bench::new();
    for args in [
        &["run", "--timeout", "0", "hi"][..],
        &["run", "--timeout", "soon", "hi"],
        &["run", "--agent", "demo", "hi", "--", "cmd"],
        &["run", "--set", "novalue", "hi"],
        &["run", "-e", "=x", "hi"],
        &["run", "--prompt-file", "/no/such/file"],
        &["run", "--image", "/no/such/file", "hi"],
        &["run", "--mcp", "/dev/null", "hi"],
        &["run", "--trace", "/no/such/folder/file", "hi"],
        &["run", " "],
        &["run"],
        &["run", "-p", "maybe", "hi"],
        &["nonsense"],
        &["agent", "add", "Bad Id", "--", "x"],
    ] {
        let ended = done(bench.agentline(&["--json"]).args(args));
        let [object] = &ended.objects()[..] else { panic!("{args:?}: {ended:?}") };
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert_eq!((&object["type"], &object["schemaVersion"]), (&json!("error"), &json!(1)));
        assert_eq!((&object["exitCode"], &object["error"]["kind"]), (&json!(2), &json!("usage")), "{args:?}");
        assert_eq!(ended.err, "", "{args:?}");
        let ended = done(&mut bench.agentline(args));
        assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{args:?}");
        assert!(!ended.err.is_empty(), "{args:?}");
    }
}

#[test]
fn an_agent_that_is_not_there_is_exit_code_3() {
    let bench = Bench::new();
    let ended = done(&mut bench.agentline(&["run", "--json", "--agent", "no-such", "hi"]));
    let result = ended.result();
    assert_eq!((ended.code, &result["error"]["phase"]), (Some(3), &json!("discovery")));
    assert_eq!(result["error"]["hint"], "agentline agent list");
}

const OFFERS: &str = "\
offers    logins in a terminal, forms, pages, options that are on or off, subagents, notices, compaction, plans by id
";

#[test]
fn a_dry_run_says_what_is_hosted_and_what_is_offered() {
    let bench = Bench::new();
    for (options, hosts, terminal, files) in [
        (&[][..], "nothing", json!(null), json!(null)),
        (&["--host-terminal"], "commands", json!(true), json!(null)),
        (&["--host-files"], "files of the workspace", json!(null), json!(true)),
        (&["--host-terminal", "--host-files"], "commands, files of the workspace", json!(true), json!(true)),
    ] {
        let args = [&["run", "--dry-run", "hi"], options].concat();
        let out = done(&mut bench.agentline(&args)).out;
        assert!(out.contains(&format!("{OFFERS}hosts     {hosts}\n")), "{out}");
        let start = &done(bench.agentline(&["--json"]).args(args)).objects()[0];
        let offers = &start["offers"];
        let told = (&offers["terminal"], &offers["fs"]["readTextFile"], &offers["fs"]["writeTextFile"]);
        assert_eq!(told, (&terminal, &files, &files));
        assert_eq!(offers["elicitation"], json!({"form": {}, "url": {}}));
        assert_eq!(offers["session"]["configOptions"]["boolean"], json!({}));
    }
}

#[test]
fn a_dry_run_starts_nothing() {
    let bench = Bench::new();
    let proof = bench.path("proof");
    let args = ["run", "--dry-run", "hi", "--", "/bin/touch", text(&proof), "a b"];
    let mut command = bench.agentline(&args);
    let ended = done(command.env("MY_TOKEN", "hunter2").env("HARMLESS", "1"));
    let work = fs::canonicalize(bench.path("work")).unwrap();
    let shown = format!(
        "command   /bin/touch {} 'a b'\ncwd       {}\nwithheld  MY_TOKEN\n{OFFERS}hosts     nothing\npermits   reject  any other call (by default)\n",
        text(&proof),
        text(&work)
    );
    assert_eq!((ended.code, ended.out, ended.err), (Some(0), shown, String::new()));
    let ended = done(bench.agentline(&["--json"]).args(args).env("MY_TOKEN", "hunter2"));
    assert_eq!(ended.result()["outcome"], "dry-run");
    assert_eq!(ended.objects()[0]["withheld"], json!(["MY_TOKEN"]));
    let unsaid = done(&mut bench.agentline(&["run", "--dry-run", "--", "/bin/touch", text(&proof)]));
    assert_eq!(unsaid.code, Some(0), "{unsaid:?}");
    assert!(!proof.exists());
}

#[test]
fn f_completions_know_the_commands_the_agents_and_the_sessions() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("home/.botbus/agents")).expect("a folder");
    let mine = json!({"id": "mine", "name": "My own", "command": AGENTLINE, "args": ["demo-agent"]});
    bench.file("home/.botbus/agents/mine.json", mine.to_string());
    let (_chat, _) = open(&bench, &[]);
    let live = bench.path("home/.agentica/cache/peers/live");
    let record = fs::read_dir(&live).expect("a folder").flatten().next().expect("a record").path();
    let mut record: Value = serde_json::from_slice(&fs::read(record).expect("it")).expect("a record");
    let (id, name) =
        (record["peer_id"].as_str().unwrap().to_owned(), record["name"].as_str().unwrap().to_owned());
    // What a shell would run is no completion.
    (record["peer_id"], record["name"]) = ("ffff0000".into(), "$(touch proof)".into());
    fs::write(live.join("ffff0000.json"), record.to_string()).expect("a file");

    for (words, shown, hidden) in [
        (&["ru"][..], &["run"][..], "chat"),
        (&["run", "--agent", ""], &["mine", "demo"], "$("),
        (&["run", "--agent", "mi"], &["mine"], "demo"),
        (&["chat", "--agent", ""], &["mine", "demo"], "$("),
        (&["agent", "check", ""], &["mine", "demo"], "$("),
        (&["agent", "disable", "m"], &["mine"], "demo"),
        (&["attach", "send", ""], &[&*id, &*name, "ffff0000"], "$("),
        (&["attach", "ping", &name[..5]], &[&*name], &*id),
        (&["completions", ""], &["bash", "zsh", "fish"], "$("),
    ] {
        for shell in ["bash", "zsh", "fish"] {
            let mut called = bench.agentline(&["--", "agentline"]);
            called.args(words).env("AGENTLINE_COMPLETE", shell);
            called.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
            let ended = done(&mut called);
            let offered: Vec<_> =
                ended.out.lines().filter_map(|line| line.split(['\t', ':']).next()).collect();
            assert!(shown.iter().all(|word| offered.contains(word)), "{shell} {words:?}: {ended:?}");
            assert!(offered.iter().all(|word| !word.contains(hidden)), "{shell} {words:?}: {ended:?}");
        }
    }
}

#[test]
fn f_the_script_of_a_shell_asks_the_program() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = done(&mut bench.agentline(&["completions", shell]));
        assert!(ended.code == Some(0) && ended.out.contains("AGENTLINE_COMPLETE"), "{shell}: {ended:?}");
    }
    let script = "\
        source <(agentline completions bash)
        COMP_WORDS=(agentline agent check \"\") COMP_CWORD=3 COMP_TYPE=9
        _clap_complete_agentline agentline \"\" check
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let folder = Path::new(AGENTLINE).parent().expect("a folder");
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).env_clear().env("HOME", bench.path("home")).stdin(Stdio::null());
    let ended = done(bash.env("PATH", format!("{}:/usr/bin:/bin", folder.display())));
    assert!(ended.out.lines().any(|word| word == "demo"), "{ended:?}");
}

#[test]
fn help_and_version_are_no_errors() {
    let bench = Bench::new();
    let version = done(&mut bench.agentline(&["--version"]));
    assert_eq!(version.out, format!("agentline {}\n", env!("CARGO_PKG_VERSION")));
    let help = done(&mut bench.agentline(&["demo-agent", "--help"]));
    assert!(help.out.contains("content-length"), "{}", help.out);
    assert_eq!((version.code, help.code, help.err), (Some(0), Some(0), String::new()));
}
