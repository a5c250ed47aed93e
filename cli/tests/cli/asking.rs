//! Permission questions: put to a person, one at a time, and never answered by accident.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Done, Running, done, text};

/// Runs with `-p ask`, types each answer when the next question is shown, and then nothing more.
fn asked(bench: &Bench, args: &[&str], before: &str, answers: &[&str]) -> (Vec<String>, Value) {
    let mut command = bench.agentline(&["run", "--json", "-p", "ask"]);
    let mut run = Running::new(command.args(args).stdin(Stdio::piped()));
    let mut stdin = run.child().stdin.take().expect("a pipe");
    stdin.write_all(before.as_bytes()).expect("a reader");
    let mut shown = Vec::new();
    for answer in answers {
        shown.push(run.until_said("› "));
        stdin.write_all(answer.as_bytes()).expect("a reader");
    }
    drop(stdin);
    let result = run.until("result");
    run.end();
    (shown, result)
}

#[test]
fn the_question_shows_the_real_command_and_every_option() {
    let bench = Bench::new();
    let (shown, result) = asked(&bench, &["ask"], "", &["y\n"]);
    let question = "  ? Clean the build folder\n      $ rm -rf target && cargo build --release\n    y Allow once · a Always allow · n Reject › ";
    assert!(shown[0].ends_with(question), "{}", shown[0]);
    let [decision] = &result["permissions"].as_array().unwrap()[..] else { panic!("{result}") };
    let told = json!([decision["decision"], decision["optionId"], decision["by"]]);
    assert_eq!(told, json!(["allowed", "yes", "user"]));
}

#[test]
fn what_makes_no_sense_is_asked_again() {
    let bench = Bench::new();
    let (_, result) = asked(&bench, &["ask"], "", &["\n", "maybe\n", "ALWAYS\n"]);
    assert_eq!(result["permissions"][0]["optionId"], "always");
}

#[test]
fn what_was_typed_before_answers_nothing() {
    let bench = Bench::new();
    let (_, result) = asked(&bench, &["ask"], "y\ny\na\n", &["n\n"]);
    assert_eq!(result["permissions"][0]["decision"], "rejected");
}

#[test]
fn the_end_of_input_says_no() {
    let bench = Bench::new();
    let (_, result) = asked(&bench, &["ask"], "", &[]);
    assert_eq!(result["permissions"][0]["decision"], "rejected");
    let ended = done(bench.agentline(&["run", "--json", "-p", "ask", "ask"]).stdin(Stdio::null()));
    assert_eq!(ended.result()["permissions"][0]["decision"], "rejected");
}

#[test]
fn questions_come_one_after_the_other() {
    let bench = Bench::new();
    let ask = |title: &str| json!({"ask": {"tool": {"title": title}, "allowed": [{"say": format!("did {title}.")}]}});
    let script = json!({"two": [ask("first"), ask("second")]}).to_string();
    let script = bench.file("script.json", script);
    let agent = ["two", "--", AGENTLINE, "demo-agent", "--script", text(&script)];
    let (shown, result) = asked(&bench, &agent, "", &["y\n", "n\n"]);
    assert!(shown[0].contains("? first") && shown[1].contains("? second"), "{shown:?}");
    assert_eq!(result["output"], "did first.");
}

#[test]
fn a_change_is_shown_before_it_is_allowed() {
    let bench = Bench::new();
    let tool = json!({"title": "Write", "kind": "edit", "diff": ["/a/file", "one\ntwo\n", "one\n2\n"]});
    let script = bench.file("script.json", json!({"*": [{"ask": {"tool": tool}}]}).to_string());
    let agent = ["edit", "--", AGENTLINE, "demo-agent", "--script", text(&script)];
    let (shown, _) = asked(&bench, &agent, "", &["n\n"]);
    assert!(shown[0].contains("  ? edit Write\n      /a/file\n      - two\n      + 2\n"), "{}", shown[0]);
}

#[test]
fn without_a_terminal_nothing_is_allowed_and_the_flag_is_named() {
    let bench = Bench::new();
    let Done { code, out, err } = done(&mut bench.agentline(&["run", "ask"]));
    assert_eq!((code, &*out), (Some(0), "I may not, so I left everything as it was.\n"));
    let line = "  ✗ rejected: Clean the build folder (nobody to ask here; to decide otherwise: --permission allow|fail)\n";
    assert!(err.contains(line), "{err}");
}

#[test]
fn policies_choose_by_kind() {
    let bench = Bench::new();
    for (policy, option, decision) in
        [("allow", "yes", "allowed"), ("reject", "no", "rejected"), ("fail", "no", "rejected")]
    {
        let result = done(&mut bench.agentline(&["run", "--json", "-p", policy, "ask"])).result();
        let asked = &result["permissions"][0];
        let told = json!([asked["optionId"], asked["decision"], asked["by"]]);
        assert_eq!(told, json!([option, decision, "policy"]), "{policy}");
    }
}
