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
fn what_is_piped_in_goes_along_with_the_prompt() {
    let bench = Bench::new();
    let piped = |args: &[&str], input: &str| {
        let mut run = Running::new(bench.agentline(&["run", "--json"]).args(args).stdin(Stdio::piped()));
        run.child().stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = run.until("result")["output"].clone();
        run.end();
        output
    };
    assert_eq!(piped(&["review this"], "+ a line"), "review this\n\n+ a line");
    assert_eq!(piped(&["review this"], ""), "review this");
    let file = bench.file("diff", "- a line\n");
    let mut run = bench.agentline(&["run", "-q", "review this"]);
    let ended = done(run.stdin(std::fs::File::open(file).unwrap()));
    assert_eq!(ended.out, "review this\n\n- a line\n");
}

#[test]
fn a_pipe_that_never_ends_is_said_to_be_read() {
    let bench = Bench::new();
    let mut run = Running::new(bench.agentline(&["run", "-q", "hi"]).stdin(Stdio::piped()));
    run.until_said("</dev/null\n");
    drop(run.child().stdin.take());
    assert_eq!(run.end().1, "hi\n");
}

#[test]
fn nested_agent_marker_and_names_that_are_unset_do_not_reach_the_agent() {
    let bench = Bench::new();
    let seen = bench.path("seen");
    let script = format!("env > {}; exec {AGENTLINE} demo-agent", text(&seen));
    let mut command = bench.agentline(&["run", "-q", "-e", "PLAIN-", "-e", "GEMINI_CLI", "hi", "--"]);
    command.args(["/bin/sh", "-c", &script]);
    let ours = [("CLAUDECODE", "1"), ("GEMINI_CLI", "1"), ("PLAIN", "1"), ("OTHER", "1")];
    assert_eq!(done(command.envs(ours)).code, Some(0));
    let seen = std::fs::read_to_string(seen).unwrap();
    let has = |line: &str| seen.lines().any(|seen| seen == line);
    assert!(has("OTHER=1") && has("GEMINI_CLI=1") && !has("PLAIN=1") && !has("CLAUDECODE=1"), "{seen}");
}

#[test]
fn d1_the_workspace_is_sent_as_its_real_path() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("work/real/inner")).unwrap();
    std::os::unix::fs::symlink("real", bench.path("work/link")).unwrap();
    let real = std::fs::canonicalize(bench.path("work/real")).unwrap();
    for dir in ["real/", "real/.", "real/../real", "link", "link/inner/..", "./link/"] {
        let ended = done(&mut bench.agentline(&["run", "--json", "--dry-run", "-C", dir, "hi"]));
        assert_eq!(ended.objects()[0]["cwd"], text(&real), "{dir}");
    }
}

#[test]
fn d7_servers_come_in_either_shape_and_a_fault_names_its_place() {
    let bench = Bench::new();
    let servers = r#"{"mcpServers":{"files":{"command":"/bin/files","env":{"K":"v"}}}}"#;
    let servers = bench.file(".mcp.json", servers);
    let (agent, mut witness) = bench.tapped(&[AGENTLINE, "demo-agent"]);
    let ended = done(bench.agentline(&["run", "-q", "hi", "--mcp", text(&servers)]).args(agent));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let wire = r#""mcpServers":[{"name":"files","command":"/bin/files","args":[],"env":[{"name":"K","value":"v"}]}]"#;
    assert!(witness.wait_for_text("session/prompt").contains(wire));
    let typo = bench.file("typo.json", r#"{"mcpServers":{"files":{"comand":"/bin/files"}}}"#);
    let ended = done(&mut bench.agentline(&["run", "hi", "--mcp", text(&typo)]));
    let said = format!("--mcp: {} is no list of MCP servers: mcpServers.files has neither", text(&typo));
    assert!(ended.code == Some(2) && ended.err.contains(&said), "{}", ended.err);
}

#[test]
fn g7_a_trace_touches_nothing_that_is_there() {
    let bench = Bench::new();
    let victim = bench.file("victim", "precious");
    std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o644)).unwrap();
    let link = bench.path("link");
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let trace = |args: &[&str]| done(bench.agentline(&["run", "-q", "hi"]).args(args));
    for (file, options, said) in [
        (text(&victim), &[][..], "is there already\n  try: --force replaces it"),
        (text(&link), &[], "is a symlink, not a file"),
        (text(&link), &["--force"], "is a symlink, not a file"),
        ("/dev/full", &["--force"], "is a device, not a file"),
        (text(&bench.path("work")), &["--force"], "is a folder, not a file"),
    ] {
        let ended = trace(&[&["--trace", file], options].concat());
        assert!(ended.code == Some(2) && ended.err.contains(said), "{file}: {}", ended.err);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
    assert_eq!(trace(&["--trace", text(&victim), "--force"]).code, Some(0));
    assert!(std::fs::read_to_string(&victim).unwrap().starts_with('{'));
    assert_eq!(std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn g7_a_trace_that_is_cut_is_a_warning_and_part_of_the_result() {
    let bench = Bench::new();
    let file = bench.path("trace");
    let script = "ulimit -f 4; trap '' XFSZ; exec \"$@\"";
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", script, "sh", AGENTLINE, "run", "--json", "flood 500", "--trace", text(&file)]);
    command.env("HOME", bench.path("home")).stdin(Stdio::null()).current_dir(bench.path("work"));
    let ended = done(&mut command);
    let warning = ended.result()["warnings"][0].as_str().unwrap_or_default().to_owned();
    assert!(warning.starts_with("the trace ends here: "), "{ended:?}");
    assert_eq!(
        (ended.code, ended.err.matches("! the trace ends here").count()),
        (Some(0), 1),
        "{}",
        ended.err
    );
}

#[test]
fn g5_a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    let bench = Bench::new();
    let fifo = |name: &str| {
        let path = bench.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    fifo("home/.npmrc");
    fifo("home/.botbus/agents/pipe.json");
    let ended = done(&mut bench.agentline(&["agent", "list"]));
    assert!(ended.code == Some(0) && ended.err.contains("pipe.json: cannot read this file"), "{ended:?}");
    let pipe = fifo("pipe");
    for option in ["--env-file", "--mcp", "--image", "--resource", "--prompt-file", "--trace"] {
        let prompt: &[&str] = if option == "--prompt-file" { &[] } else { &["hi"] };
        let ended = done(bench.agentline(&["run", option, text(&pipe)]).args(prompt));
        let said = format!("{option}: {} is a pipe, not a file", text(&pipe));
        assert!(ended.code == Some(2) && ended.err.contains(&said), "{}", ended.err);
    }
    // The settings are needed by nobody who names a command.
    fifo("home/.config/agentline/settings.json");
    let ended = done(&mut bench.agentline(&["run", "-q", "hi"]));
    assert!(ended.code == Some(1) && ended.err.contains("settings.json is a pipe"), "{ended:?}");
}

#[test]
fn a_pipe_that_the_shell_hands_over_is_read() {
    let bench = Bench::new();
    let mut command = std::process::Command::new("/bin/sh");
    let script = format!("echo hey | {AGENTLINE} run -q --prompt-file /dev/stdin");
    command.args(["-c", &script]).env("HOME", bench.path("home")).current_dir(bench.path("work"));
    assert_eq!(done(&mut command).out, "hey\n");
}

#[test]
fn env_secrets_to_child_credentials_do_not_reach_the_agent_unless_they_are_given() {
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
        let options = ["run", "-q", "-e", "SOME_KEY=hunter2hunter2", "--force", "--trace", text(&file)];
        done(bench.agentline(&options).args(["--mcp", text(&servers)]).args(args));
        let trace = std::fs::read(&file).unwrap();
        let replayed = replay::<Run>(&trace, Until::End).unwrap();
        assert!(replayed.ended && replayed.records > 20, "{args:?}: {replayed:?}");
        let trace = String::from_utf8(trace).unwrap();
        assert!(trace.contains(r#"\"mcpServers\":[{"#) && !trace.contains("hunter2"), "{trace}");
    }
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
