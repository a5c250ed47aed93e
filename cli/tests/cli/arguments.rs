//! Command lines that make no sense, and the others.

use serde_json::json;

use crate::rig::{Bench, done, text};

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

#[test]
fn a_dry_run_starts_nothing() {
    let bench = Bench::new();
    let proof = bench.path("proof");
    let args = ["run", "--dry-run", "hi", "--", "/bin/touch", text(&proof), "a b"];
    let mut command = bench.agentline(&args);
    let ended = done(command.env("MY_TOKEN", "hunter2").env("HARMLESS", "1"));
    let work = std::fs::canonicalize(bench.path("work")).unwrap();
    let shown = format!(
        "command   /bin/touch {} 'a b'\ncwd       {}\nwithheld  MY_TOKEN\n",
        text(&proof),
        text(&work)
    );
    assert_eq!((ended.code, ended.out, ended.err), (Some(0), shown, String::new()));
    let ended = done(bench.agentline(&["--json"]).args(args).env("MY_TOKEN", "hunter2"));
    assert_eq!(ended.result()["outcome"], "dry-run");
    assert_eq!(ended.objects()[0]["withheld"], json!(["MY_TOKEN"]));
    assert!(!proof.exists());
}

#[test]
fn completions_know_the_commands() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = done(&mut bench.agentline(&["completions", shell]));
        assert!(ended.code == Some(0) && ended.out.contains("demo-agent"), "{shell}");
    }
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
