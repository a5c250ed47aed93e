//! ACP with published peers: our client drives an agent on the TypeScript SDK, and clients on the TypeScript and
//! the Python SDK drive our agent. Needs `AGENTLINE_INTEROP`, the folder that `tests/interop/setup.sh` filled.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use agentline_tests::interop::{peers, script};
use agentline_tests::program::agentline;
use serde_json::Value;

/// Runs our client against the scripted agent of the TypeScript SDK.
fn run(options: &[&str], prompt: &str, agent_options: &[&str]) -> Option<(Option<i32>, Vec<Value>)> {
    let peers = peers()?;
    let output = Command::new(agentline())
        .args(["run", "--format", "json", "-e", "AGENTLINE_INTEROP"])
        .args(options)
        .args([prompt, "--", "node"])
        .arg(script("scripted_agent.mjs"))
        .args(agent_options)
        .env("AGENTLINE_INTEROP", &peers)
        .stdin(Stdio::null())
        .output()
        .expect("agentline runs");
    Some((output.status.code(), objects(&output)))
}

fn objects(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The last object, which must be the only result.
fn result(objects: &[Value]) -> &Value {
    assert_eq!(objects.iter().filter(|object| object["type"] == "result").count(), 1, "{objects:?}");
    assert_eq!(objects.iter().filter(|object| object["type"] == "start").count(), 1, "{objects:?}");
    objects.last().expect("not empty")
}

#[test]
fn our_client_takes_text_from_the_typescript_sdk() {
    let Some((code, objects)) = run(&[], "chunks 3", &[]) else { return };
    let result = result(&objects);
    assert_eq!(
        (code, &result["outcome"], &result["output"]),
        (Some(0), &"completed".into(), &"c0 c1 c2 ".into())
    );
}

#[test]
fn our_client_allows_by_kind_whatever_the_order() {
    let Some((code, objects)) = run(&["-p", "allow"], "perm", &[]) else { return };
    let said = result(&objects)["output"].as_str().unwrap().to_owned();
    assert_eq!(code, Some(0));
    assert_eq!(said, r#"{"outcome":{"outcome":"selected","optionId":"allow_once-2"}}"#);
}

#[test]
fn our_client_rejects_by_kind_and_by_cancelled_where_there_is_no_such_option() {
    let Some((code, objects)) = run(&["-p", "reject"], "perm", &[]) else { return };
    assert_eq!(code, Some(0));
    assert!(result(&objects)["output"].as_str().unwrap().contains("reject_once-0"));
    let Some((_, objects)) = run(&["-p", "reject"], "perm allow_once", &[]) else { return };
    assert_eq!(result(&objects)["output"], r#"{"outcome":{"outcome":"cancelled"}}"#);
}

#[test]
fn our_client_names_each_end_of_a_turn() {
    for (prompt, code, outcome) in [
        ("stop refusal", 1, "refusal"),
        ("stop max_tokens", 1, "max-tokens"),
        ("stop max_turn_requests", 1, "error"),
        ("stop cancelled", 130, "aborted"),
        ("stop weird", 1, "error"),
        ("rpcerr", 1, "error"),
        ("die 3", 5, "error"),
    ] {
        let Some((seen, objects)) = run(&[], prompt, &[]) else { return };
        let result = result(&objects);
        assert_eq!((seen, &result["outcome"]), (Some(code), &outcome.into()), "{prompt}: {result}");
    }
}

#[test]
fn our_client_gives_up_on_a_silent_agent_and_leaves_nothing_behind() {
    let Some((code, objects)) = run(&["--timeout", "2s"], "hang", &["--ignore-eof", "--trap-term"]) else {
        return;
    };
    let result = result(&objects);
    assert_eq!((code, &result["error"]["kind"]), (Some(124), &"timeout".into()), "{result}");
}

/// Runs a published client against our agent.
fn drive(program: &OsStr, client: &str, options: &[&str]) -> Value {
    drive_behind(program, client, options, &[])
}

/// The same, with that command between them.
fn drive_behind(program: &OsStr, client: &str, options: &[&str], gateway: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(program)
        .arg(script(client))
        .arg("--cwd")
        .arg(folder.path())
        .args(options)
        .arg("--")
        .arg(agentline())
        .args(gateway)
        .arg("demo-agent")
        .stdin(Stdio::null())
        .output()
        .expect("the client runs");
    let shown = || {
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    objects(&output).pop().unwrap_or_else(|| panic!("{}", shown()))
}

/// Both published clients, as far as they are there.
fn clients() -> Vec<(PathBuf, &'static str, &'static str)> {
    let Some(peers) = peers() else { return Vec::new() };
    vec![
        ("node".into(), "ts_sdk2_client.mjs", "300"),
        (peers.join("py/bin/python"), "py_sdk_client.py", "0.3"),
    ]
}

#[test]
fn published_clients_drive_our_agent() {
    for (program, client, _) in clients() {
        let seen = drive(program.as_os_str(), client, &["--prompt", "hello"]);
        assert_eq!(
            (&seen["stopReason"], &seen["protocolVersion"]),
            (&"end_turn".into(), &1.into()),
            "{seen}"
        );
        assert!(seen["output"].as_str().unwrap().starts_with("Hello!"), "{seen}");
    }
}

#[test]
fn published_clients_answer_our_agents_permission() {
    for (program, client, _) in clients() {
        let allowed = drive(program.as_os_str(), client, &["--prompt", "ask"]);
        assert_eq!(allowed["permissions"].as_array().map(Vec::len), Some(1), "{allowed}");
        assert_eq!(allowed["stopReason"], "end_turn", "{allowed}");
        let denied = drive(program.as_os_str(), client, &["--prompt", "ask", "--deny"]);
        assert_ne!(allowed["output"], denied["output"], "{denied}");
    }
}

#[test]
fn published_clients_cancel_our_agents_turn() {
    for (program, client, after) in clients() {
        let seen = drive(program.as_os_str(), client, &["--prompt", "slow 30", "--cancel-after", after]);
        assert_eq!(seen["stopReason"], "cancelled", "{seen}");
    }
}

#[test]
fn published_clients_drive_an_agent_behind_our_gateway() {
    let agentline = agentline();
    let gateway = ["gateway", "acp", "--", agentline.to_str().expect("UTF-8")];
    for (program, client, after) in clients() {
        let drive = |options: &[&str]| drive_behind(program.as_os_str(), client, options, &gateway);
        let seen = drive(&["--prompt", "hello"]);
        assert_eq!(seen["stopReason"], "end_turn", "{seen}");
        assert!(seen["output"].as_str().unwrap().starts_with("Hello!"), "{seen}");
        let allowed = drive(&["--prompt", "ask"]);
        assert_eq!(allowed["permissions"].as_array().map(Vec::len), Some(1), "{allowed}");
        let denied = drive(&["--prompt", "ask", "--deny"]);
        assert_ne!(allowed["output"], denied["output"], "{denied}");
        let cancelled = drive(&["--prompt", "slow 30", "--cancel-after", after]);
        assert_eq!(cancelled["stopReason"], "cancelled", "{cancelled}");
    }
}
