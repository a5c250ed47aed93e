//! Answers of a given form, and what is asked again because it passes.

use serde_json::json;

use crate::rig::{AGENTLINE, Bench, Done, done, text, timeless};
use crate::terminal::Terminal;

const SCHEMA: &str = r#"{"type":"object","required":["name","channels"],"properties":
    {"name":{"type":"string"},"channels":{"type":"integer"}}}"#;

fn demo(bench: &Bench, options: &[&str]) -> Done {
    let words: Vec<&str> = ["run", "--agent", "demo"].iter().chain(options).copied().collect();
    done(&mut bench.agentline(&words))
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_again_and_one_that_fits_is_all_that_is_printed() {
    let bench = Bench::new();
    let schema = bench.file("schema.json", SCHEMA);
    let ended = demo(&bench, &["json", "--schema", text(&schema)]);
    assert_eq!((ended.code, &*ended.out), (Some(0), "{\"name\": \"agentline\", \"channels\": 5}\n"));
    let why =
        "◦ the answer does not fit the schema: at /channels: want integer, but got string; asked again\n";
    assert!(ended.err.contains(why), "{}", ended.err);

    let ended = demo(&bench, &["json", "--json", "--schema", text(&schema)]);
    let result = ended.result();
    assert_eq!(result["json"], json!({"name": "agentline", "channels": 5}));
    let judged: Vec<_> = ended.objects().into_iter().filter(|object| object["type"] == "answer").collect();
    let reason = "at /channels: want integer, but got string";
    let meant = [
        json!({"type": "answer", "fits": false, "reason": reason, "left": 2}),
        json!({"type": "answer", "fits": true, "left": 1}),
    ];
    assert_eq!(judged, meant);
}

#[test]
fn what_never_fits_is_a_failure_with_its_reason() {
    let bench = Bench::new();
    let schema = bench.file("schema.json", SCHEMA);
    let script = bench.file("script.json", json!({"*": [{"say": "Sorry."}]}).to_string());
    let agent = ["--schema", text(&schema), "--", AGENTLINE, "demo-agent", "--script", text(&script)];
    let words: Vec<&str> = ["run", "go", "--schema-tries", "1"].iter().chain(&agent).copied().collect();
    let ended = done(&mut bench.agentline(&words));
    assert_eq!((ended.code, &*ended.out), (Some(1), ""), "{ended:?}");
    let said = "✗ the answer of agentline does not fit the schema: it is no JSON: expected value at line 1 column 1\n  \
                try: more --schema-tries; --json shows what it said\n";
    assert!(ended.err.ends_with(said) && ended.err.matches("asked again").count() == 1, "{}", ended.err);

    let words: Vec<&str> =
        ["run", "go", "--json", "--schema-tries", "0"].iter().chain(&agent).copied().collect();
    let result = done(&mut bench.agentline(&words)).result();
    let told = json!([result["outcome"], result["error"]["kind"], result["output"], result["json"]]);
    assert_eq!(told, json!(["error", "unwanted", "Sorry.", null]));
}

#[test]
fn what_is_no_schema_is_refused_before_anything_starts() {
    let bench = Bench::new();
    let (agent, witness) = bench.watched(&[AGENTLINE, "demo-agent"]);
    let agent: Vec<&str> = agent.iter().map(String::as_str).collect();
    for (schema, why) in [
        (r#"{"type": "objekt"}"#, " is no JSON Schema: at /type: "),
        ("{\n  nope", " is no JSON Schema: key must be a string at line 2 column 3\n"),
        (r#"{"$ref": "https://example.org/x"}"#, " is no JSON Schema: it refers to https://example.org/x, "),
    ] {
        let file = bench.file("schema.json", schema);
        let words: Vec<&str> = ["run", "x", "--schema", text(&file)].iter().chain(&agent).copied().collect();
        let ended = done(&mut bench.agentline(&words));
        let said = format!("✗ --schema: {}{why}", text(&file));
        assert!(ended.code == Some(2) && ended.err.contains(&said), "{ended:?}");
    }
    assert_eq!(witness.last_words(), "");
    let ended = demo(&bench, &["x", "--schema", "nowhere.json"]);
    assert!(ended.code == Some(2) && ended.err.contains("✗ --schema: nowhere.json "), "{ended:?}");
}

#[test]
fn an_overloaded_agent_is_asked_again_as_often_as_one_says() {
    let bench = Bench::new();
    let ended = demo(&bench, &["overload 2"]);
    let said = "✗ demo agent answered: Overloaded (529)\n  try: later, or with --retry 3\n";
    assert!(ended.code == Some(1) && ended.err.contains(said), "{ended:?}");

    let ended = demo(&bench, &["overload 2", "--retry", "2"]);
    assert_eq!((ended.code, &*ended.out), (Some(0), "Now I have time, after 2 times.\n"));
    let said = "◦ demo agent answered: Overloaded (529); again in N s (2 of 2)\n";
    assert!(timeless(&ended.err).contains(said), "{}", ended.err);

    let objects = demo(&bench, &["--json", "overload 1", "--retry", "5"]).objects();
    let retry = objects.iter().find(|object| object["type"] == "retry").expect("one");
    let told =
        json!([retry["attempt"], retry["most"], retry["afterMs"], retry["why"], retry["error"]["kind"]]);
    assert_eq!(told, json!([1, 5, 100, "overloaded", "rpc"]));

    let script = bench.file("in", "overload 1\n");
    let mut chat = bench.agentline(&["chat", "-q", "--agent", "demo", "--retry", "1"]);
    let ended = done(chat.stdin(std::fs::File::open(script).expect("a file")));
    assert_eq!((ended.code, &*ended.out), (Some(0), "Now I have time, after 1 times.\n"));
}

#[test]
fn a_chat_offers_the_login_that_is_missing_and_goes_on() {
    let bench = Bench::new();
    let file = bench.path("login");
    let words = ["chat", "--", AGENTLINE, "demo-agent", "--login", text(&file)];
    let mut terminal = Terminal::sized(&mut bench.agentline(&words), 200, 24);
    let asked = terminal.until("1 to 3 or n, then Enter ›");
    assert!(asked.contains("  ? Log in to agentline"), "{asked}");
    terminal.types("1\n");
    terminal.until("Ctrl-D leaves");
    terminal.types("echo this\r");
    terminal.until("echo this");
    terminal.until("completed in");
    terminal.types("\u{4}");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");

    let mut terminal = Terminal::sized(&mut bench.agentline(&words), 200, 24);
    terminal.until("1 to 3 or n, then Enter ›");
    terminal.types("n\n");
    assert_eq!(terminal.end().0.code(), Some(7));
}
