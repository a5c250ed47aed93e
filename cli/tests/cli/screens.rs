//! What a person sees: screens as they are meant to be, beside this file. `AGENTLINE_TEST_ACCEPT=1` writes them anew.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{AGENTLINE, Bench, Leash, text, timeless};
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

/// Whether the agent's two pipes are read in this order or the other is luck: its grumbling goes to the top.
fn quiet_below(shown: &str) -> String {
    let (grumbling, ours): (Vec<&str>, Vec<&str>) =
        shown.lines().partition(|row| row.starts_with("  │") || row.starts_with("debug:"));
    grumbling.into_iter().chain(ours).map(|row| row.to_owned() + "\n").collect()
}

#[test]
fn an_agent_that_grumbles() {
    let bench = Bench::new();
    for columns in [80, 40] {
        let mut run = bench.agentline(&["run", "--agent", "demo", "noisy"]);
        let mut terminal = Terminal::sized(&mut run, columns, 24);
        terminal.until_times("that nobody needs", 3);
        terminal.until("then Enter ›");
        terminal.types("y\n");
        let (_, shown) = terminal.end();
        is_as_meant(&format!("noisy-{columns}"), &quiet_below(&shown));
    }
}

#[test]
fn a_pipe() {
    let bench = Bench::new();
    // Both streams in one pipe: what a log or a terminal behind `tee` shows.
    let piped = |args: &[&str], input: &Path| {
        let (mut read, write) = io::pipe().expect("a pipe");
        let mut command = bench.agentline(args);
        command.stdin(fs::File::open(input).expect("a file"));
        command.stdout(write.try_clone().expect("a descriptor")).stderr(write);
        let mut child = command.spawn().expect("it runs");
        let _leash = Leash::of(&child);
        drop(command);
        let mut shown = String::new();
        read.read_to_string(&mut shown).expect("UTF-8");
        child.wait().expect("it ends");
        shown
    };
    let nothing = Path::new("/dev/null");
    is_as_meant("pipe-hello", &piped(&["run", "--agent", "demo", "hello"], nothing));
    is_as_meant("pipe-ask", &piped(&["run", "--agent", "demo", "ask"], nothing));
    let noisy = piped(&["run", "--agent", "demo", "noisy"], nothing);
    is_as_meant("pipe-noisy", &quiet_below(&noisy));
    let lines = bench.file("lines", "hello\nask\nmaybe\ny\n");
    is_as_meant("pipe-chat", &piped(&["chat", "--agent", "demo", "-p", "ask"], &lines));
    let once = bench.file("once", "ask\n");
    is_as_meant("pipe-chat-end", &piped(&["chat", "--agent", "demo", "-p", "ask"], &once));
}

#[test]
fn a_question_of_a_run_is_asked_again_after_a_stop() {
    let bench = Bench::new();
    for term in ["xterm", "dumb"] {
        let mut run = bench.agentline(&["run", "--agent", "demo", "ask"]);
        let mut terminal = Terminal::new(run.env("TERM", term));
        terminal.until("then Enter ›");
        terminal.signal(Signal::STOP);
        terminal.until_stopped();
        terminal.prints("\r\n$ fg\r\n");
        terminal.signal(Signal::CONT);
        let shown = terminal.until_times("then Enter ›", 2);
        assert_eq!(shown.matches("? Clean the build folder").count(), 2, "{shown}");
        assert!(shown.ends_with("then Enter ›\n"), "{term} {shown}");
        terminal.types("y\n");
        let (status, shown) = terminal.end();
        assert_eq!(status.code(), Some(0));
        assert!(shown.contains("✓ allowed once\n"), "{shown}");
    }
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
