//! Whatever an agent does: one result that says what went wrong, the right exit code, and nobody left behind.

use std::os::unix::fs::PermissionsExt;
use std::thread;

use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, done, text};
use crate::terminal::Terminal;

/// Fault, options, exit code, outcome, phase and kind of the error.
type Row = (&'static str, &'static [&'static str], i32, &'static str, &'static str, &'static str);

const FAULTS: &[Row] = &[
    ("junk", &[], 0, "completed", "", ""),
    ("content-length", &[], 5, "error", "initialize", "not_acp"),
    ("silent", &["--init-timeout", "200ms"], 124, "error", "initialize", "timeout"),
    ("refuse-initialize", &[], 5, "error", "initialize", "rpc"),
    ("wrong-version", &[], 5, "error", "initialize", "wrong_version"),
    ("exit-early", &[], 5, "error", "initialize", "exited"),
    ("exit-mid-turn", &[], 5, "error", "prompt", "exited"),
    ("die-mid-turn", &[], 5, "error", "prompt", "signalled"),
    ("needs-login", &[], 7, "error", "session", "needs_login"),
    ("no-session-id", &[], 5, "error", "session", "protocol"),
    ("duplicate-id", &[], 0, "completed", "", ""),
    ("unknown-id", &[], 0, "completed", "", ""),
    ("wrong-envelope", &[], 5, "error", "prompt", "protocol"),
    ("unknown-update", &[], 0, "completed", "", ""),
    ("invalid-utf8", &[], 0, "completed", "", ""),
    ("long-line", &[], 5, "error", "prompt", "protocol"),
    ("noisy-stderr", &[], 0, "completed", "", ""),
    ("close-stdout", &[], 5, "error", "prompt", "exited"),
    ("silent-turn", &["--idle-timeout", "200ms"], 124, "error", "prompt", "timeout"),
    ("silent-turn", &["--timeout", "2s"], 124, "error", "prompt", "timeout"),
    ("unknown-stop", &[], 1, "error", "prompt", "rpc"),
    ("ignore-eof", &[], 0, "completed", "", ""),
    ("ignore-term", &[], 0, "completed", "", ""),
];

#[test]
fn each_fault_ends_in_one_result_and_leaves_nobody() {
    thread::scope(|scope| {
        for row in FAULTS {
            scope.spawn(|| fault(row));
        }
    });
}

fn fault(&(name, options, code, outcome, phase, kind): &Row) {
    let bench = Bench::new();
    let (agent, witness) = bench.watched(&[AGENTLINE, "demo-agent", "--fault", name]);
    let mut command = bench.agentline(&["run", "--json", "hi"]);
    // Secrets ride along, and are seen nowhere.
    let given = format!("gi ven\"%\u{f6}-{name}");
    command.args(["-e", &format!("GIVEN_VALUE={given}")]).env("INHERITED_TOKEN", "inh-erited");
    let ended = done(command.args(options).args(agent));
    for secret in [&*given, "inh-erited", &given.replace('"', "\\\"")] {
        assert!(!ended.out.contains(secret) && !ended.err.contains(secret), "{name}: {ended:?}");
    }
    let result = ended.result();
    let error = &result["error"];
    let told = json!([result["outcome"], error["phase"], error["kind"]]);
    let word = |word: &str| if word.is_empty() { Value::Null } else { word.into() };
    assert_eq!(
        (ended.code, told),
        (Some(code), json!([outcome, word(phase), word(kind)])),
        "{name}: {ended:?}"
    );
    let _ = witness.last_words();
}

#[test]
fn stderr_missing_from_error_the_reason_is_told_with_what_the_agent_said_last() {
    let bench = Bench::new();
    let run = |words: &[&str]| {
        let agent = [&["run", "--json", "crash 3", "--", AGENTLINE, "demo-agent"], words].concat();
        done(&mut bench.agentline(&agent)).result()
    };
    let early = run(&["--fault", "exit-early"]);
    assert_eq!(early["error"]["agentExit"], json!({"code": 3}));
    assert_eq!(early["error"]["stderrTail"], "Error: DEMO_API_KEY is not set");
    let killed = run(&["--fault", "die-mid-turn"]);
    assert_eq!(killed["error"]["agentExit"], json!({"signal": 9}));
    assert_eq!(
        (&killed["error"]["kind"], &killed["output"]),
        (&json!("signalled"), &json!("so far so good"))
    );
    let crashed = run(&[]);
    assert_eq!(crashed["error"]["agentExit"], json!({"code": 3}));
    assert_eq!(crashed["output"], "Down I go.\n");
}

#[test]
fn spawn_errno_classes_a_command_that_cannot_be_started_says_why() {
    let bench = Bench::new();
    let stub = bench.file("stub", "echo placeholder\n");
    let script = bench.file("script", "#!/no/such/interpreter\n");
    let plain = bench.file("plain", "#!/bin/sh\n");
    for file in [&stub, &script] {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    for (command, kind) in [
        ("/no/such/agent", "not_found"),
        ("no-such-agent", "not_found"),
        (text(&bench.path("work")), "not_executable"),
        (text(&plain), "not_executable"),
        (text(&stub), "not_executable"),
        (text(&script), "not_executable"),
    ] {
        let ended = done(&mut bench.agentline(&["run", "--json", "hi", "--", command]));
        let result = ended.result();
        assert_eq!(ended.code, Some(5), "{command}: {ended:?}");
        assert_eq!(result["error"]["phase"], "spawn", "{command}");
        assert_eq!(result["error"]["kind"], kind, "{command}");
        assert_eq!(ended.objects()[0]["pid"], Value::Null, "{command}");
    }
}

#[test]
fn a_workspace_that_cannot_be_entered_is_refused_before_anything_starts() {
    let bench = Bench::new();
    let file = bench.file("file", "");
    for dir in ["/no/such/folder", text(&file)] {
        let ended = done(&mut bench.agentline(&["run", "--json", "-C", dir, "hi", "--", "/no/such/agent"]));
        let result = ended.result();
        assert_eq!((ended.code, &result["error"]["kind"]), (Some(2), &json!("usage")), "{dir}: {ended:?}");
    }
}

#[test]
fn outcomes_have_exit_codes() {
    let bench = Bench::new();
    for (prompt, options, code, outcome) in [
        ("hello", &[][..], 0, "completed"),
        ("fail", &[], 1, "error"),
        ("refuse", &[], 1, "refusal"),
        ("crash 7", &[], 5, "error"),
        ("ask", &["-p", "allow"], 0, "completed"),
        ("ask", &["-p", "reject"], 0, "completed"),
        ("ask", &["-p", "fail"], 6, "error"),
        ("hang", &["--timeout", "100ms"], 124, "error"),
    ] {
        let ended = done(bench.agentline(&["run", "--json", prompt]).args(options));
        assert_eq!(
            (ended.code, &ended.result()["outcome"]),
            (Some(code), &json!(outcome)),
            "{prompt}: {ended:?}"
        );
    }
}

#[test]
fn g3_what_was_given_as_a_secret_is_shown_nowhere_but_in_the_answer() {
    let bench = Bench::new();
    // An agent that tells its key wherever it can, in three spellings.
    let key = r#"k"ey-ö/9"#;
    let script = r#"
        echo "noise: $MY_KEY" >&2
        echo "junk $MY_KEY"
        read -r line
        printf '%s\n' '{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"no account for k\"ey-\u00f6/9","data":{"reason":"k%22ey-%C3%B6%2F9"}}}'
        cat >/dev/null
    "#;
    for format in ["text", "json"] {
        let mut command = bench.agentline(&["run", "--format", format, "-e", &format!("MY_KEY={key}"), "hi"]);
        let ended = done(command.env("OTHER_KEY", "x").args(["--", "/bin/sh", "-c", script, "sh", key]));
        assert_eq!(ended.code, Some(7), "{ended:?}");
        for said in [&ended.out, &ended.err] {
            for spelled in [key, r#"k\"ey-ö/9"#, r#"k\\\"ey-ö/9"#, "k%22ey", "ey-\\u00f6"] {
                assert!(!said.contains(spelled), "{spelled} in {said}");
            }
        }
        assert!(ended.out.contains("‹secret 1›") || ended.err.contains("‹secret 1›"), "{ended:?}");
    }
}

#[test]
fn g3_where_a_text_is_cut_nothing_of_a_secret_is_left() {
    let bench = Bench::new();
    let key = "sk-0123456789abcdefghij";
    let filled = |length: usize, text: &str| format!("{}{text}", "x".repeat(length));
    // Beside each edge: of a line that is no message, of the words of an error, of the end of standard error, and of a
    // line of it on a terminal.
    let junk = filled(190, key);
    let error =
        format!(r#"{{"jsonrpc":"2.0","id":0,"error":{{"code":-32603,"message":"{}"}}}}"#, filled(490, key));
    let script = format!(
        "echo '{junk}'; read -r line; echo '{}' >&2; echo '{}' >&2; echo '{error}'; cat >/dev/null",
        filled(1990, key),
        key.to_owned() + &filled(4085, ""),
    );
    let args = ["run", "-v", "-e", &format!("MY_KEY={key}"), "hi", "--", "/bin/sh", "-c", &script];
    let [json, piped] =
        [&["--json"][..], &[]].map(|more| done(&mut bench.agentline(&[more, &args].concat())));
    let (_, seen) = Terminal::new(&mut bench.agentline(&args)).end();
    assert!(json.out.contains("‹cut secret›") && piped.err.contains("‹cut secret›"), "{json:?}: {piped:?}");
    for said in [json.out, json.err, piped.out, piped.err, seen] {
        for length in 4..=key.len() {
            for piece in [&key[..length], &key[key.len() - length..]] {
                assert!(!said.contains(piece), "{piece} in {said}");
            }
        }
    }
}
