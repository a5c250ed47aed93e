//! Forms and pages: filled in by a person or from a file, and else declined.

use serde_json::{Value, json};

use crate::rig::{Bench, done, text};
use crate::terminal::Terminal;

/// The one question of a run.
fn question(objects: &[Value]) -> &Value {
    let mut questions = objects.iter().filter(|object| object["type"] == "question");
    let (Some(question), None) = (questions.next(), questions.next()) else { panic!("{objects:?}") };
    question
}

#[test]
fn elicitation_where_nobody_is_asked_is_declined_and_said_so() {
    let bench = Bench::new();
    for (word, mode) in [("form", "form"), ("page", "url")] {
        let objects = done(&mut bench.agentline(&["run", "--json", word])).objects();
        let question = question(&objects);
        let told = json!([question["mode"], question["action"], question["by"], question["why"]]);
        assert_eq!(told, json!([mode, "decline", "policy", "there is nobody to ask"]));
    }
    let ended = done(&mut bench.agentline(&["run", "--agent", "demo", "form"]));
    assert_eq!(ended.out, "You answered {\"action\":\"decline\"}\n");
    let line = "  ✗ declined: How shall I set the project up? (there is nobody to ask)\n";
    assert!(ended.err.contains(line) && ended.err.contains(" · 1 question\n"), "{}", ended.err);
}

#[test]
fn a_file_of_answers_fills_a_form_in_or_it_is_declined() {
    let bench = Bench::new();
    for (answers, action, why) in [
        (r#"{"name":"al","kind":"lib","other":1}"#, "accept", "given beforehand"),
        (r#"{"name":"al"}"#, "decline", "kind: it is required"),
        (r#"{"name":"al","kind":"both"}"#, "decline", "kind: it takes one of lib, bin"),
        (r#"{"name":true,"kind":"lib"}"#, "decline", "name: it takes a text"),
        ("{}", "decline", "none of its fields was given"),
    ] {
        let file = bench.file("answers.json", answers);
        let objects =
            done(&mut bench.agentline(&["run", "--json", "--answers", text(&file), "form"])).objects();
        let question = question(&objects);
        assert_eq!((&question["action"], &question["why"]), (&json!(action), &json!(why)), "{answers}");
    }
}

#[test]
fn a_bad_file_of_answers_is_refused_before_anything_starts() {
    let bench = Bench::new();
    let value = "answers.json name is neither a text, a number, true, false, nor a list of texts";
    for (answers, why) in [
        ("[]", "answers.json it is no object of field to value"),
        ("{", "answers.json EOF while parsing an object at line 1 column 1"),
        (r#"{"name":null}"#, value),
        (r#"{"name":{"a":1}}"#, value),
        (r#"{"name":["a",1]}"#, value),
    ] {
        let file = bench.file("answers.json", answers);
        let ended = done(&mut bench.agentline(&["run", "--answers", text(&file), "form"]));
        assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains("--answers: ") && ended.err.contains(why), "{ended:?}");
    }
}

#[test]
fn elicitation_a_person_fills_a_form_in_field_by_field() {
    let bench = Bench::new();
    let mut terminal = Terminal::sized(&mut bench.agentline(&["run", "--agent", "demo", "form"]), 200, 24);
    terminal.until(
        "  ? How shall I set the project up?\n  ? Its name (1 of 3)\n    a text, then Enter; - declines ›",
    );
    terminal.types("x\n");
    terminal.until("! not an answer: at least 2 characters");
    terminal.types("agent\n");
    terminal.until(
        "? What it is (2 of 3)\n      1  A library\n      2  A program\n    1 to 2, then Enter; - declines ›",
    );
    terminal.types("2\n");
    terminal.until("? With tests (3 of 3)\n    y or n, or nothing for y, then Enter; - declines ›");
    terminal.types("\n");
    let (status, shown) = terminal.end();
    assert!(status.success() && shown.contains("  ✓ answered\n"), "{shown}");
    assert!(shown.contains(r#""content":{"kind":"bin","name":"agent","tests":true}"#), "{shown}");
}

#[test]
fn elicitation_a_page_is_shown_and_opened_by_nobody_but_the_person() {
    let bench = Bench::new();
    for verb in ["run", "chat"] {
        let words: &[&str] =
            if verb == "run" { &["run", "--agent", "demo", "page"] } else { &["chat", "--agent", "demo"] };
        let mut terminal = Terminal::new(&mut bench.agentline(words));
        if verb == "chat" {
            terminal.until("/help");
            terminal.types("page\r");
        }
        terminal.until("? Enter the code ABCD-1234 there\n      https://example.org/device\n");
        terminal.types(if verb == "run" { "y\n" } else { "y\r" });
        let shown = terminal.until("✓ done at that page");
        assert!(shown.contains("✓ answered"), "{shown}");
        if verb == "chat" {
            terminal.until("completed in");
            terminal.types("\u{4}");
        }
        assert!(terminal.end().0.success());
    }
}
