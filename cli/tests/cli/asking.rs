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
    let question = "      $ rm -rf target && cargo build --release\n  ? Clean the build folder\n      y  Allow once\n      a  Always allow\n      n  Reject\n    y, a or n, then Enter › ";
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
fn two_prompts_one_keypress_questions_come_one_after_the_other() {
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
    assert!(shown[0].contains("      /a/file\n      - two\n      + 2\n  ? edit Write\n"), "{}", shown[0]);
}

#[test]
fn a_long_change_is_cut_with_a_count_and_can_be_seen_whole() {
    let bench = Bench::new();
    let (shown, result) = asked(&bench, &["diff 160"], "", &["v\n", "n\n"]);
    assert!(shown[0].contains("more lines of 161; v and Enter show all …\n"), "{}", shown[0]);
    assert!(
        shown[0].lines().count() < 30 && shown[0].contains("+ line 160 of the new text\n"),
        "{}",
        shown[0]
    );
    assert!((1..=160).all(|n| shown[1].contains(&format!("+ line {n} of the new text\n"))), "{}", shown[1]);
    assert_eq!(result["permissions"][0]["decision"], "rejected");
}

#[test]
fn chooser_auto_answered_four_options_are_four_lines_and_yes_and_no_are_among_them() {
    let bench = Bench::new();
    let (shown, result) = asked(&bench, &["options"], "", &["3\n"]);
    let choices = "\
  ? Fetch the newest release notes
      y  Yes
      a  Yes, and do not ask again for example.org
      3  Yes, and do not ask again for any page in this session
      n  No, and say what to do instead
    y, a, 3 or n, then Enter › ";
    assert!(shown[0].ends_with(choices), "{}", shown[0]);
    assert_eq!(result["permissions"][0]["optionId"], "all");
}

#[test]
fn g5_answers_without_an_end_are_a_no() {
    let bench = Bench::new();
    let yes = std::fs::File::open(bench.file("much", "maybe\n".repeat(1_000_000))).expect("a file");
    let ended = done(bench.agentline(&["run", "--json", "-p", "ask", "ask"]).stdin(yes));
    assert_eq!(ended.result()["permissions"][0]["decision"], "rejected");
    assert!(ended.err.matches("! not an answer").count() <= 101, "{}", ended.err.len());
}

#[test]
fn noninteractive_permission_without_a_terminal_nothing_is_allowed_and_the_flag_is_named() {
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
