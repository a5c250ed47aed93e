//! What a person sees, and what a program reads.

use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Done, done, timeless};

/// Output of a run in text, without its times.
fn shown(bench: &Bench, args: &[&str]) -> (Option<i32>, String, String) {
    let Done { code, out, err } = done(&mut bench.agentline(args));
    (code, out, timeless(&err))
}

const HELLO: &str = "\
Hello! I am a scripted agent speaking ACP over stdio. Every line you see came
through the same code that drives Gemini CLI, Codex or your own agent.
";

#[test]
fn hello() {
    let err = "\
◦ demo agent (built in: no model, no key)
  plan   1 look around  2 answer
  ✓ read README.md                                  N s
◦ completed in N s · 1 tool · nothing asked
  try: agentline run ask · agentline run \"…\" -- CMD (no agent is installed)
";
    assert_eq!(shown(&Bench::new(), &["run", "hello"]), (Some(0), HELLO.into(), err.into()));
}

#[test]
fn both_runtimes_show_the_same() {
    let bench = Bench::new();
    for prompt in ["hello", "ask", "fail", "refuse"] {
        let on = |runtime| shown(&bench, &["run", "-p", "allow", "--runtime", runtime, prompt]);
        assert_eq!(on("smol"), on("blocking"));
    }
}

#[test]
fn quiet_is_the_answer_only() {
    let bench = Bench::new();
    assert_eq!(shown(&bench, &["run", "-q", "hello"]), (Some(0), HELLO.into(), String::new()));
    assert_eq!(shown(&bench, &["run", "-q", "你好"]), (Some(0), "你好\n".into(), String::new()));
    let (code, _, err) = shown(&bench, &["run", "-q", "fail"]);
    assert_eq!(
        (code, &*err),
        (Some(1), "✗ demo agent answered: the demo agent was asked to fail (-32603)\n")
    );
}

#[test]
fn a_permission() {
    let err = "\
◦ demo agent (built in: no model, no key)
  ✓ allowed once: Clean the build folder (--permission allow)
  ✓ Clean the build folder                          N s
◦ completed in N s · 1 tool · 1 allowed
";
    let out = "I may: the command ran. (It did not really: I am scripted.)\n";
    let args = ["run", "--agent", "demo", "-p", "allow", "ask"];
    assert_eq!(shown(&Bench::new(), &args), (Some(0), out.into(), err.into()));
}

#[test]
fn other_ends() {
    let bench = Bench::new();
    for (prompt, code, out, err) in [
        ("refuse", 1, "I will not do that.\n", "✗ the agent refused, after N s · nothing asked\n"),
        (
            "fail",
            1,
            "This will not end well.\n",
            "✗ demo agent answered: the demo agent was asked to fail (-32603)\n",
        ),
        ("crash 3", 5, "Down I go.\n", "✗ demo agent exited during the turn with code 3 after N s\n"),
    ] {
        let head = "◦ demo agent (built in: no model, no key)\n";
        let want = (Some(code), out.to_owned(), format!("{head}{err}"));
        assert_eq!(shown(&bench, &["run", "--agent", "demo", prompt]), want);
    }
}

#[test]
fn an_agent_that_misses_a_variable() {
    let bench = Bench::new();
    let mut command =
        bench.agentline(&["run", "fix it", "--", AGENTLINE, "demo-agent", "--fault", "exit-early"]);
    let ended = done(command.env("DEMO_API_KEY", "hunter2").env("OTHER_KEY", "x"));
    let err = format!(
        "\
✗ agentline exited during initialize with code 3 after N s
  command: {AGENTLINE} demo-agent --fault exit-early
  stderr: Error: DEMO_API_KEY is not set
  withheld from the agent, by name: DEMO_API_KEY
  try: agentline run -e DEMO_API_KEY \"fix it\" -- {AGENTLINE} demo-agent --fault exit-early
"
    );
    assert_eq!((ended.code, timeless(&ended.err), ended.out), (Some(5), err, String::new()));
}

#[test]
fn colour_is_only_for_who_wants_it() {
    let bench = Bench::new();
    let err = |args: &[&str]| shown(&bench, args).2;
    assert!(!err(&["run", "hello"]).contains('\u{1b}'));
    assert!(!err(&["run", "--color", "never", "hello"]).contains('\u{1b}'));
    assert!(err(&["run", "--color", "always", "hello"]).contains("\u{1b}[32m✓\u{1b}[0m"));
}

#[test]
fn stderr_of_the_agent_goes_on_to_ours() {
    let bench = Bench::new();
    let ended =
        done(&mut bench.agentline(&["run", "hi", "--", AGENTLINE, "demo-agent", "--fault", "noisy-stderr"]));
    assert_eq!(ended.err.matches("a line that nobody needs\n").count(), 40_000);
    assert_eq!((ended.code, &*ended.out), (Some(0), "so far so good\n"));
}

#[test]
fn a_line_that_is_no_message_is_named_once() {
    let bench = Bench::new();
    let ended = done(&mut bench.agentline(&["run", "hi", "--", AGENTLINE, "demo-agent", "--fault", "junk"]));
    assert_eq!(ended.err.matches("ignored").count(), 1, "{}", ended.err);
    let line = "! 4 messages of the agent were ignored; the first: it wrote: Welcome to the agent!\n";
    assert!(ended.err.contains(line), "{}", ended.err);
}

#[test]
fn json_output_not_pure_a_program_reads_one_object_a_line() {
    let bench = Bench::new();
    let mut command = bench.agentline(&["run", "--json", "--agent", "demo", "hello"]);
    let ended = done(command.env("MY_TOKEN", "hunter2"));
    let objects = ended.objects();
    let result = ended.result();
    let kinds: Vec<&str> = objects.iter().map(|object| object["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..8], ["start", "ready", "session", "thought", "plan", "tool", "tool", "tool"]);
    assert!(kinds[8..kinds.len() - 1].iter().all(|kind| *kind == "text"));
    let texts = objects.iter().filter(|object| object["type"] == "text");
    let said: String = texts.map(|object| object["text"].as_str().unwrap()).collect();
    assert_eq!((&*said, &result["output"]), (HELLO, &json!(HELLO)));
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&objects[0]), "agent command cwd pid schemaVersion type withheld");
    assert_eq!(keys(&objects[1]), "agentInfo authMethods capabilities protocolVersion type");
    assert_eq!(keys(&objects[2]), "configOptions modes sessionId type");
    assert_eq!(
        keys(&result),
        "elapsedMs messages outcome output outputTruncated permissionCounts permissions stopReason type"
    );
    assert_eq!(objects[0]["withheld"], json!(["MY_TOKEN"]));
    assert_eq!((ended.err, ended.code), (String::new(), Some(0)));
}

#[test]
fn what_is_not_known_is_passed_on_untouched() {
    let bench = Bench::new();
    let agent = ["run", "--json", "hi", "--", AGENTLINE, "demo-agent", "--fault", "unknown-update"];
    let objects = done(&mut bench.agentline(&agent)).objects();
    let update = objects.iter().find(|object| object["type"] == "update").unwrap();
    assert_eq!(update["raw"], json!({"sessionUpdate": "mood_update", "mood": "fine"}));
}
