//! What goes into a run, and that it arrives: prompt, environment, workspace, settings; and the record of it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use agentline_core::subagent::Run;
use agentline_core::trace::{Until, replay};
use serde_json::json;

use crate::rig::{AGENTLINE, Bench, Running, done, text};

#[test]
fn the_prompt_comes_from_the_argument_a_file_or_stdin() {
    let bench = Bench::new();
    let file = bench.file("prompt", "from a file");
    let from_file = done(&mut bench.agentline(&["run", "-q", "--prompt-file", text(&file)]));
    assert_eq!(from_file.out, "from a file\n");
    for args in [&["run", "--json"][..], &["run", "--json", "-"]] {
        let mut run = Running::new(bench.agentline(args).stdin(Stdio::piped()));
        run.child().stdin.take().unwrap().write_all(b"from stdin").unwrap();
        assert_eq!(run.until("result")["output"], "from stdin");
        run.end();
    }
}

#[test]
fn credentials_do_not_reach_the_agent_unless_they_are_given() {
    let bench = Bench::new();
    let file = bench.file("vars", "# a comment\n\nFROM_FILE_KEY=a=b c\nPASSED_TOKEN\n");
    let seen = bench.path("seen");
    let script = format!("env > {}; exec {AGENTLINE} demo-agent", text(&seen));
    let mut command = bench.agentline(&["run", "-q", "-e", "GIVEN_SECRET=x", "-e", "MISSING", "--env-file"]);
    command.args([text(&file), "hi", "--", "/bin/sh", "-c", &script]);
    let ours =
        [("AWS_SECRET_ACCESS_KEY", "no"), ("PASSED_TOKEN", "yes"), ("PLAIN", "1"), ("AGENTLINE_X", "no")];
    assert_eq!(done(command.envs(ours)).code, Some(0));
    let seen = std::fs::read_to_string(seen).unwrap();
    for line in ["FROM_FILE_KEY=a=b c", "PASSED_TOKEN=yes", "GIVEN_SECRET=x", "PLAIN=1"] {
        assert!(seen.lines().any(|seen| seen == line), "{line}: {seen}");
    }
    for name in ["AWS_SECRET_ACCESS_KEY", "AGENTLINE_X", "MISSING"] {
        assert!(!seen.contains(name), "{name}: {seen}");
    }
}

#[test]
fn the_agent_works_in_the_workspace() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("work/inner")).unwrap();
    for (options, proof) in [(&[][..], "work/proof.txt"), (&["-C", "inner"], "work/inner/proof.txt")] {
        let (mut agent, mut witness) =
            bench.tapped(&["/bin/sh", "-c", "touch proof.txt; exec \"$0\" demo-agent", AGENTLINE]);
        let ended = done(bench.agentline(&["run", "-q", "hi"]).args(options).args(agent.drain(..)));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(bench.path(proof).exists());
        let inner = std::fs::canonicalize(bench.path(proof)).unwrap();
        let cwd = format!("\"cwd\":\"{}\"", inner.parent().unwrap().to_str().unwrap());
        assert!(witness.wait_for_text("session/prompt").contains(&cwd));
        drop(witness);
        std::fs::remove_file(bench.path("witness")).unwrap();
    }
}

#[test]
fn settings_are_made_before_the_prompt() {
    let bench = Bench::new();
    let servers = r#"[{"name":"files","command":"/bin/files","args":[],"env":[]}]"#;
    let servers = bench.file("mcp.json", servers);
    let (agent, mut witness) = bench.tapped(&[AGENTLINE, "demo-agent"]);
    let options = ["--mode", "code", "--model", "large", "--set", "model=small", "--mcp", text(&servers)];
    let ended = done(bench.agentline(&["run", "-q", "hi"]).args(options).args(agent));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let sent = witness.wait_for_text("session/prompt");
    let methods: Vec<&str> =
        sent.split("\"method\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let set = "session/set_config_option";
    assert_eq!(methods, ["initialize", "session/new", "session/set_mode", set, set, "session/prompt"]);
    assert!(
        sent.contains(r#""mcpServers":[{"name":"files","command":"/bin/files","args":[],"env":[]}]"#),
        "{sent}"
    );
}

#[test]
fn a_setting_that_is_refused_ends_the_run() {
    let bench = Bench::new();
    let ended = done(&mut bench.agentline(&["run", "--json", "--mode", "nonsense", "hi"]));
    let result = ended.result();
    assert_eq!(
        (ended.code, &result["error"]["phase"], &result["error"]["kind"]),
        (Some(1), &json!("session"), &json!("rpc"))
    );
}

#[test]
fn files_go_along_as_the_agent_can_take_them() {
    let bench = Bench::new();
    let image = bench.file("dot.png", b"\x89PNG\r\n\x1a\n");
    let note = bench.file("a note.txt", "hello");
    let files = ["--image", text(&image), "--resource", text(&note)];
    let ended = done(bench.agentline(&["run", "-q", "see"]).args(files));
    assert_eq!(ended.out, "see [image/png, 12 bytes of base64] [resource]\n");
    let faulty = ["hi", "--", AGENTLINE, "demo-agent", "--fault", "junk"];
    let refused = done(bench.agentline(&["run", "--json", "--image", text(&image)]).args(faulty));
    assert_eq!((refused.code, &refused.result()["error"]["kind"]), (Some(2), &json!("usage")), "{refused:?}");
    let (agent, mut witness) = bench.tapped(&[AGENTLINE, "demo-agent", "--fault", "junk"]);
    done(bench.agentline(&["run", "-q", "--resource", text(&note), "hi"]).args(agent));
    witness.wait_for_text("session/prompt");
    assert!(witness.last_words().contains(r#""type":"resource_link""#));
}

#[test]
fn a_trace_replays_without_a_difference() {
    let bench = Bench::new();
    let file = bench.path("trace");
    let env = r#"[{"name":"KEY","value":"hunter2 of a server"}]"#;
    let servers = format!(r#"[{{"name":"m","command":"/m","args":[],"env":{env}}}]"#);
    let servers = bench.file("mcp.json", servers);
    for args in [&["-p", "allow", "ask"][..], &["crash 3"], &["hang", "--timeout", "100ms"]] {
        let options = ["run", "-q", "-e", "SOME_KEY=hunter2hunter2", "--trace", text(&file)];
        done(bench.agentline(&options).args(["--mcp", text(&servers)]).args(args));
        let trace = std::fs::read(&file).unwrap();
        let replayed = replay::<Run>(&trace, Until::End).unwrap();
        assert!(replayed.ended && replayed.records > 20, "{args:?}: {replayed:?}");
        let trace = String::from_utf8(trace).unwrap();
        assert!(trace.contains(r#"\"mcpServers\":[{"#) && !trace.contains("hunter2"), "{trace}");
    }
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
