//! `agentline agent check`: one agent for each outcome, what it is given, and that nothing of it stays.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Done, Running, done, text};

/// A bench with a manifest folder and a folder for temporary files of its own.
struct Clinic(Bench);

impl Clinic {
    fn new() -> Self {
        let bench = Bench::new();
        for name in ["botbus/agents", "tmp"] {
            fs::create_dir_all(bench.path(name)).expect("a folder");
        }
        Self(bench)
    }

    /// The manifest of the agent `mine`.
    fn manifest(&self, mut manifest: Value) {
        manifest["id"] = "mine".into();
        manifest["name"] = "Mine".into();
        self.0.file("botbus/agents/mine.json", manifest.to_string());
    }

    fn check(&self, words: &[&str]) -> Command {
        let mut command = self.0.agentline(&["agent", "check"]);
        command.args(words);
        command.env("AGENTLINE_BOTBUS_DIR", self.0.path("botbus")).env("TMPDIR", self.0.path("tmp"));
        command
    }

    /// Checks to the end; whatever happens, the folder is gone.
    fn done(&self, words: &[&str]) -> Done {
        let ended = done(&mut self.check(words));
        self.is_clean();
        ended
    }

    fn is_clean(&self) {
        assert_eq!(fs::read_dir(self.0.path("tmp")).expect("a folder").count(), 0, "one was left behind");
    }
}

/// Fault, exit code, phase and kind of the error.
type Row = (&'static str, i32, &'static str, &'static str);

const FAULTS: &[Row] = &[
    ("junk", 0, "", ""),
    ("content-length", 1, "initialize", "not_acp"),
    ("refuse-initialize", 1, "initialize", "rpc"),
    ("wrong-version", 1, "initialize", "wrong_version"),
    ("exit-early", 1, "initialize", "exited"),
    ("exit-mid-turn", 1, "prompt", "exited"),
    ("die-mid-turn", 1, "prompt", "signalled"),
    ("needs-login", 1, "session", "needs_login"),
    ("no-session-id", 1, "session", "protocol"),
    ("long-line", 1, "prompt", "protocol"),
    ("close-stdout", 1, "prompt", "exited"),
    ("unknown-stop", 0, "", ""),
    ("ignore-eof", 0, "", ""),
    ("ignore-term", 0, "", ""),
];

#[test]
fn each_fault_ends_in_one_result_and_leaves_nothing() {
    thread::scope(|scope| {
        for row in FAULTS {
            scope.spawn(|| fault(row));
        }
    });
}

fn fault(&(name, code, phase, kind): &Row) {
    let clinic = Clinic::new();
    let (agent, witness) = clinic.0.watched(&[AGENTLINE, "demo-agent", "--fault", name]);
    clinic.manifest(json!({ "command": agent[1], "args": agent[2..] }));
    let ended = clinic.done(&["--json", "--prompt", "hi", "mine"]);
    let objects = ended.objects();
    let result = objects.last().expect("a result");
    let word = |word: &str| if word.is_empty() { Value::Null } else { word.into() };
    assert_eq!(
        (ended.code, &result["ok"], &result["error"]["phase"], &result["error"]["kind"]),
        (Some(code), &json!(code == 0), &word(phase), &word(kind)),
        "{name}: {ended:?}"
    );
    let results = objects.iter().filter(|object| object["type"] == "result").count();
    assert_eq!((results, &objects[0]["schemaVersion"]), (1, &json!(1)), "{name}");
    let _ = witness.last_words();
}

#[test]
fn what_a_run_here_would_permit_is_shown_where_there_are_rules() {
    let clinic = Clinic::new();
    clinic.manifest(json!({ "command": AGENTLINE, "args": ["demo-agent"] }));
    let folder = clinic.0.path("work/.agentline");
    fs::create_dir(&folder).expect("a folder");
    let settings = r#"{"permissions":{"rules":[{"command":"cargo","then":"reject"}]}}"#;
    fs::write(folder.join("settings.json"), settings).expect("a file");
    let ended = clinic.done(&["--allow", "read", "mine"]);
    let table = "\
a run permits: allow   read (--allow read)
a run permits: reject  any other call (by default)
a run permits: reject  command cargo (.agentline/settings.json rules[0], only if stricter)
protocol version: 1
";
    assert!(ended.code == Some(0) && ended.out.starts_with(table), "{ended:?}");
    let objects = clinic.done(&["--json", "--allow", "read", "mine"]).objects();
    let rules: Vec<&Value> =
        objects[0]["permissions"].as_array().expect("a table").iter().map(|row| &row["then"]).collect();
    assert_eq!(rules, ["allow", "reject", "reject"]);
    fs::write(folder.join("settings.json"), r#"{"permissions":{"rules":[{"then":"allow"}]}}"#)
        .expect("a file");
    assert_eq!(clinic.done(&["mine"]).code, Some(2));
}

#[test]
fn a_check_offers_what_a_run_offers() {
    let clinic = Clinic::new();
    let said = |words: &[&str]| {
        let (agent, witness) = clinic.0.tapped(&[AGENTLINE, "demo-agent"]);
        let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
        done(&mut clinic.0.agentline(&[words, &agent].concat()));
        let words = witness.last_words();
        let first: Value = serde_json::from_str(words.lines().next().expect("a line")).expect("JSON");
        let _ = fs::remove_file(clinic.0.path("witness"));
        first["params"]["clientCapabilities"].clone()
    };
    let offered = said(&["run", "hello"]);
    assert_eq!(offered["auth"]["terminal"], true);
    assert_eq!(said(&["agent", "check"]), offered);
}

#[test]
fn without_a_prompt_the_agent_says_what_it_can() {
    let clinic = Clinic::new();
    clinic.manifest(json!({ "command": AGENTLINE, "args": ["demo-agent"] }));
    let ended = clinic.done(&["mine"]);
    let said = "protocol version: 1\nloadSession: no\nimages: yes\nsession/list: no\nlogin methods: 0\nsession: demo-1\nverdict: usable\n";
    assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(0), said, ""));
    let objects = clinic.done(&["--format", "json", "mine"]).objects();
    let types: Vec<_> = objects.iter().map(|object| object["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["check", "session", "result"]);
    assert_eq!(
        (&objects[0]["id"], &objects[0]["command"]),
        (&json!("mine"), &json!([AGENTLINE, "demo-agent"]))
    );
    let ended = clinic.done(&["--json", "--", AGENTLINE, "demo-agent"]);
    assert_eq!((ended.code, &ended.objects()[0]["id"]), (Some(0), &Value::Null));
}

#[test]
fn with_a_prompt_it_runs_one_turn_in_the_words_of_botbus() {
    let clinic = Clinic::new();
    let ended = clinic.done(&["demo", "--prompt", "hi", "--lang", "zh"]);
    assert_eq!(
        (ended.code, &*ended.out, &*ended.err),
        (
            Some(0),
            "ACP 协议版本: 1\nloadSession: 否\n图片: 是\nsession/list: 否\n登录方式: 0 种\n会话: demo-1\nagent: hi\n结束原因: end_turn\n",
            ""
        )
    );
    // Text is joined, a tool is told once and by its title, and what ran without asking is counted.
    let ended = clinic.done(&["demo", "--prompt", "hello"]);
    let (_, said) = ended.out.split_once("session: demo-1\n").expect("a session");
    assert_eq!(said.matches("tool: ").count(), 1, "{said}");
    assert!(said.contains("tool: README.md\nagent: Hello! I am a scripted agent"), "{said}");
    assert!(
        said.ends_with("\nstop reason: end_turn\nverdict: usable; it ran 1 tool without asking\n"),
        "{said}"
    );
    assert_eq!(said.matches("agent: ").count(), 1, "{said}");
    let ended = clinic.done(&["demo", "--prompt", "ask"]);
    assert!(ended.out.ends_with("verdict: usable\n"), "{}", ended.out);
    assert!(ended.out.contains("\npermission: Clean the build folder (cancelled)\n"), "{}", ended.out);
}

#[test]
fn a_failure_says_what_to_try() {
    let clinic = Clinic::new();
    let fault = |name: &str| {
        let ended = clinic.done(&["--prompt", "hi", "--", AGENTLINE, "demo-agent", "--fault", name]);
        (ended.code, ended.err)
    };
    let early = format!(
        "failed: the agent exited during initialize with code 3\n  command: {AGENTLINE} demo-agent --fault exit-early\n  stderr: Error: DEMO_API_KEY is not set\n"
    );
    assert_eq!(fault("exit-early"), (Some(1), early));
    let login = format!(
        "failed: the agent wants a login: Authentication required\n  try: start {AGENTLINE} by hand and log in there\n"
    );
    assert_eq!(fault("needs-login"), (Some(1), login));
    let words = ["--prompt", "hi", "--", AGENTLINE, "demo-agent", "--fault", "needs-login"];
    let mut check = clinic.check(&words);
    let ended = done(check.env("A_KEY", "x").env("CLAUDECODE", "1"));
    let said = format!(
        "failed: the agent wants a login: Authentication required\n  withheld from the agent, by name: A_KEY\n  \
         withheld as marks of the agent that we run in: CLAUDECODE\n  \
         try: agentline agent check -e A_KEY --prompt hi -- {AGENTLINE} demo-agent --fault needs-login\n"
    );
    assert_eq!(ended.err, said);
    let ended = clinic.done(&["--lang", "zh", "--", "no-such-agent"]);
    assert!(
        ended
            .err
            .starts_with("失败：the agent cannot be started: not found\n  命令：no-such-agent\n  建议："),
        "{}",
        ended.err
    );
    assert_eq!(ended.code, Some(1));
}

#[test]
fn an_agent_that_cannot_be_started_is_a_failure_and_a_wrong_command_line_is_not() {
    let clinic = Clinic::new();
    clinic.manifest(json!({}));
    for (id, said) in [("nope", "no agent nope is installed"), ("mine", "botbus/run/acp.sock")] {
        let ended = clinic.done(&[id]);
        assert!(ended.code == Some(1) && ended.err.contains(said), "{ended:?}");
        let ended = clinic.done(&["--json", id]);
        let objects = ended.objects();
        assert_eq!((ended.code, objects.len()), (Some(1), 1));
        assert_eq!((&objects[0]["type"], &objects[0]["ok"]), (&json!("result"), &json!(false)));
    }
    for words in [&[][..], &["mine", "--prompt"], &["mine", "--", "sh"], &["mine", "yours"]] {
        assert_eq!(clinic.done(words).code, Some(2), "{words:?}");
    }
}

#[test]
fn an_agent_that_is_switched_off_can_be_checked() {
    let clinic = Clinic::new();
    clinic.manifest(json!({ "command": AGENTLINE, "args": ["demo-agent"] }));
    let mut off = clinic.0.agentline(&["agent", "disable", "mine"]);
    assert_eq!(done(off.env("AGENTLINE_BOTBUS_DIR", clinic.0.path("botbus"))).code, Some(0));
    assert_eq!(clinic.done(&["mine"]).code, Some(0));
}

#[test]
fn the_agent_gets_what_a_run_gives_it_and_what_is_remembered_for_it() {
    let clinic = Clinic::new();
    let seen = clinic.0.path("seen");
    let script = format!("{{ pwd; env; }} > {}; exec {AGENTLINE} demo-agent", text(&seen));
    clinic.manifest(json!({
        "command": "/bin/sh", "args": ["-c", script], "env": { "MODEL_KEY": "manifest", "OTHER_KEY": "manifest" },
    }));
    let mut set = clinic.0.agentline(&["agent", "set", "mine", "--env", "OTHER_KEY"]);
    assert_eq!(done(set.env("AGENTLINE_BOTBUS_DIR", clinic.0.path("botbus"))).code, Some(0));
    let mut check = clinic.check(&["mine", "-e", "GIVEN_KEY", "-e", "PLAIN-", "--env", "MORE_TOKEN=a=b"]);
    for name in
        ["MODEL_KEY", "OTHER_KEY", "THIRD_KEY", "GIVEN_KEY", "PLAIN", "KEPT", "CLAUDECODE", "AGENTLINE_AGENT"]
    {
        check.env(name, "ours");
    }
    assert_eq!(done(&mut check).code, Some(0));
    clinic.is_clean();
    let seen = fs::read_to_string(seen).unwrap();
    let folder = Path::new(seen.lines().next().unwrap());
    assert_eq!(folder.parent().unwrap(), fs::canonicalize(clinic.0.path("tmp")).unwrap());
    for (line, is_there) in [
        ("MODEL_KEY=manifest\n", true),
        ("OTHER_KEY=ours\n", true),
        ("GIVEN_KEY=ours\n", true),
        ("MORE_TOKEN=a=b\n", true),
        ("KEPT=ours\n", true),
        ("THIRD_KEY", false),
        ("PLAIN", false),
        ("CLAUDECODE", false),
        ("PATH=/bin:", true),
        ("AGENTLINE_INSIDE=mine\n", true),
        ("AGENTLINE_AGENT", false),
    ] {
        assert_eq!(seen.contains(line), is_there, "{line} in {seen}");
    }
}

#[test]
fn a_signal_ends_the_agent_and_removes_the_folder() {
    // Silent, so that the signal comes before the end; what is ignored at its start stays ignored.
    let script = r#"trap '' $1; shift; exec "$@""#;
    for (signal, fault, deaf_to) in [
        (Signal::INT, "silent", "URG"),
        (Signal::TERM, "silent-turn", "URG"),
        (Signal::HUP, "silent", "TERM"),
    ] {
        let clinic = Clinic::new();
        let agent = ["/bin/sh", "-c", script, "sh", deaf_to, AGENTLINE, "demo-agent", "--fault", fault];
        let (agent, mut witness) = clinic.0.tapped(&agent);
        let mut check = clinic.check(&["--json", "--prompt", "hi"]);
        let check = Running::new(check.args(agent));
        witness.wait_for_text("initialize");
        check.signal(signal);
        let (status, out, err) = check.end();
        assert_eq!((status.code(), &*err), (Some(1), ""), "{fault}: {out}");
        assert!(out.lines().last().unwrap().starts_with(r#"{"type":"result","ok":false"#), "{fault}: {out}");
        let _ = witness.last_words();
        clinic.is_clean();
    }
}

#[test]
fn a_reader_that_is_gone_ends_it_quietly() {
    let clinic = Clinic::new();
    let (agent, witness) = clinic.0.tapped(&[AGENTLINE, "demo-agent"]);
    let mut check = clinic.check(&["--prompt", "flood 100000000"]);
    let mut check = Running::new(check.args(agent));
    check.until_line("agent: 1");
    check.hang_up();
    let (status, _, err) = check.end();
    assert_eq!((status.code(), &*err), (Some(0), ""));
    let _ = witness.last_words();
    clinic.is_clean();
}
