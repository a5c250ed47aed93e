//! What a person sees: screens as they are meant to be, beside this file. `AGENTLINE_TEST_ACCEPT=1` writes them anew.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::rig::{AGENTLINE, Bench, text, timeless};
use crate::terminal::Terminal;

/// Compares with the screen of that name. Times, and what turns, are never the same.
fn is_as_meant(name: &str, shown: &str) {
    let turning = |letter: char| "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏".contains(letter);
    let shown = timeless(shown).replace(turning, "⠋");
    // A tool that took no time has none.
    let rows = shown.lines().map(|row| row.strip_suffix(" N s").unwrap_or(row).trim_end().to_owned() + "\n");
    let shown: String = rows.collect();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/screens").join(name).with_extension("txt");
    if std::env::var_os("AGENTLINE_TEST_ACCEPT").is_some() {
        fs::write(&file, shown).expect("a file");
        return;
    }
    let meant = fs::read_to_string(&file).expect("a screen");
    assert_eq!(shown, meant, "{name}");
}

/// Runs in a terminal up to a question, answers it, and compares both screens.
fn run(name: &str, args: &[&str], columns: u16, term: &str, answer: &str) {
    let bench = Bench::new();
    let mut command = bench.agentline(args);
    let mut terminal = Terminal::sized(command.env("TERM", term), columns, 24);
    let asked = terminal.until_seen("the question", |all| all.ends_with("then Enter ›\n"));
    is_as_meant(&format!("{name}-{columns}-asked"), &asked);
    terminal.types(&format!("{answer}\n"));
    let (_, shown) = terminal.end();
    is_as_meant(&format!("{name}-{columns}"), &shown);
}

#[test]
fn questions_of_a_run() {
    for columns in [80, 40] {
        run("ask", &["run", "--agent", "demo", "ask"], columns, "xterm", "y");
        run("diff", &["run", "--agent", "demo", "diff 160"], columns, "xterm", "n");
        run("options", &["run", "--agent", "demo", "options"], columns, "xterm", "3");
    }
    run("dumb", &["run", "--agent", "demo", "ask"], 80, "dumb", "y");
}

#[test]
fn a_question_in_a_conversation() {
    let bench = Bench::new();
    let steps = json!({
        "first": [{"say": "A first line.\nAnd half of a "}, {"ask": {"tool": {"title": "Go on"}}}, {"say": "line.\n"}],
    });
    let script = bench.file("script.json", steps.to_string());
    let agent = ["chat", "--", AGENTLINE, "demo-agent", "--script", text(&script)];
    for columns in [80, 40] {
        let mut terminal = Terminal::sized(&mut bench.agentline(&agent), columns, 24);
        terminal.until("/help");
        terminal.types("first\r");
        terminal.until("then Enter\n?");
        terminal.types("yep\r");
        terminal.until("! not an answer");
        is_as_meant(&format!("chat-{columns}-asked"), &terminal.until("then Enter\n?\n"));
        terminal.types("n\r");
        terminal.until("◦ completed in");
        terminal.types("\u{4}");
        let (_, shown) = terminal.end();
        is_as_meant(&format!("chat-{columns}"), &shown);
    }
}

#[test]
fn no_colour_is_no_colour() {
    let bench = Bench::new();
    for (name, colours) in [("NO_COLOR", false), ("COLORTERM", true)] {
        let mut command = bench.agentline(&["run", "refuse"]);
        let mut terminal = Terminal::new(command.env(name, "1"));
        terminal.end();
        assert_eq!(terminal.is_coloured(), colours, "{name}");
    }
}
