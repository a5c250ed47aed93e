//! The last word, what it cost, how much it may cost, and what goes with a session.

use serde_json::json;

use crate::rig::{AGENTLINE, Bench, done, text, timeless};

#[test]
fn the_last_message_alone() {
    let bench = Bench::new();
    let steps = json!({"talk": [
        {"say": "I'll look."}, {"tool": {"title": "look"}}, {"say": "Found"}, {"say": " it."},
    ]});
    let script = bench.file("script.json", steps.to_string());
    let agent = ["--", AGENTLINE, "demo-agent", "--script", text(&script)];
    for (options, out) in
        [(&["run", "talk"][..], "I'll look.\nFound it.\n"), (&["run", "--last", "talk"], "Found it.\n")]
    {
        let words: Vec<&str> = options.iter().chain(&agent).copied().collect();
        assert_eq!(done(&mut bench.agentline(&words)).out, out);
    }
    let words: Vec<&str> = ["run", "--json", "talk"].iter().chain(&agent).copied().collect();
    let result = done(&mut bench.agentline(&words)).result();
    assert_eq!(result["messages"], json!(["I'll look.", "Found it."]));
}

#[test]
fn what_it_cost_is_one_line_and_too_much_of_it_is_the_end() {
    let bench = Bench::new();
    let demo = |options: &[&str]| {
        let words: Vec<&str> = ["run", "--agent", "demo"].iter().chain(options).copied().collect();
        done(&mut bench.agentline(&words))
    };
    let ended = demo(&["spend 2"]);
    let line = "◦ 2000 of 200000 tokens of context · 0.20 USD so far\n";
    assert!(ended.code == Some(0) && ended.err.contains(line), "{ended:?}");
    let ended = demo(&["--max-cost", "0.25", "spend 9"]);
    let said = "✗ cancelled: the session has cost 0.30 USD, more than 0.25\n  try: a higher --max-cost\n";
    assert!(ended.code == Some(1) && timeless(&ended.err).contains(said), "{ended:?}");
    let result = demo(&["--json", "--max-turns-tools", "2", "spend 9"]).result();
    let told = json!([
        result["outcome"],
        result["error"]["kind"],
        result["error"]["message"],
        result["error"]["retryable"]
    ]);
    assert_eq!(told, json!(["error", "limit", "cancelled: demo agent called more than 2 tools", false]));
    assert_eq!(demo(&["--max-cost", "1e3", "spend 1"]).code, Some(2));
}

#[test]
fn notices_compaction_and_plans_by_id_are_shown() {
    let bench = Bench::new();
    let ended = done(&mut bench.agentline(&["run", "--agent", "demo", "news"]));
    for line in
        ["  ! The model is slow today\n", "  ◦ making room in the context\n", "  plan   1 tell the news\n"]
    {
        assert!(ended.err.contains(line), "{}", ended.err);
    }
    assert_eq!(ended.out, "That is the news.\n");
}

#[test]
fn folders_and_instructions_go_with_a_session_where_the_agent_takes_them() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("more")).expect("a folder");
    let more = bench.path("more").canonicalize().expect("a path");
    let rules = bench.file("rules.md", "Be brief.");
    let options =
        ["run", "where", "--add-dir", text(&more), "--system", "Be kind.", "--append-file", text(&rules)];
    let ended = done(&mut bench.agentline(&options));
    let said = format!("folders: {}\ninstructions: Be kind. Be brief.\n", text(&more));
    assert_eq!((ended.code, ended.out), (Some(0), said), "{}", ended.err);
    let script = bench.file("plain.sh", PLAIN);
    for (option, value, said) in
        [("--add-dir", text(&more), "additional directories"), ("--system", "x", "a system prompt")]
    {
        let ended = done(&mut bench.agentline(&["run", "x", option, value, "--", "/bin/sh", text(&script)]));
        assert!(
            ended.code == Some(2) && ended.err.contains(&format!("✗ sh does not offer {said}\n")),
            "{ended:?}"
        );
    }
    for (option, value) in [("--add-dir", "nowhere"), ("--append-file", "nowhere")] {
        let ended = done(&mut bench.agentline(&["run", "x", option, value]));
        assert!(ended.code == Some(2) && ended.err.contains(&format!("✗ {option}: ")), "{ended:?}");
    }
}

/// An agent that offers nothing.
const PLAIN: &str =
    r#"read -r _; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'; cat >/dev/null"#;
