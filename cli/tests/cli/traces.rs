//! Recorded runs, looked at: as lines, and as a page.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::rig::{Bench, Done, done, text};

/// A run of the demo agent, recorded.
fn recorded(bench: &Bench, prompt: &str, args: &[&str]) -> std::path::PathBuf {
    let trace = bench.path("run.trace");
    let words = ["run", "--trace", text(&trace), "-p", "allow"];
    let words: Vec<&str> = words.iter().chain(args).copied().chain([prompt]).collect();
    assert_eq!(done(&mut bench.agentline(&words)).code, Some(0));
    trace
}

#[test]
fn a_recorded_run_is_shown_line_by_line() {
    let bench = Bench::new();
    let trace = recorded(&bench, "ask", &[]);
    let shown = done(&mut bench.agentline(&["trace", "show", text(&trace)]));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for said in [
        "      → peer  initialize  agentline",
        "      → peer  session/prompt  ask",
        "      ← peer  session/request_permission  Clean the build folder",
        "      → peer  answer to session/request_permission  yes",
        "  end_turn",
        "app ←         end",
    ] {
        assert!(shown.out.contains(said), "{said}\n{}", shown.out);
    }
    assert!(!shown.out.contains("written"), "{}", shown.out);

    let tools = done(&mut bench.agentline(&["trace", "show", text(&trace), "--kind", "tool,flow", "--json"]));
    let rows = tools.objects();
    assert_eq!(rows[0]["schemaVersion"], 1);
    assert!(rows.iter().all(|row| row["type"] == "row" && (row["kind"] == "tool" || row["kind"] == "flow")));
    let statuses: Vec<&Value> =
        rows.iter().filter(|row| row["kind"] == "tool").map(|row| &row["text"]).collect();
    assert_eq!(statuses, ["Clean the build folder", "in_progress", "completed"]);
    assert!(rows.iter().any(|row| row["title"] == "written" && row["session"] == "demo-1"), "{rows:?}");

    let none = done(&mut bench.agentline(&["trace", "show", text(&trace), "--session", "another"]));
    assert_eq!((none.code, &*none.out), (Some(0), ""));
    assert!(none.err.contains("nothing is shown"), "{}", none.err);
}

#[test]
fn what_is_no_trace_is_named() {
    let bench = Bench::new();
    let file = bench.file("a.txt", "hello\n");
    for verb in ["show", "view"] {
        let shown = done(&mut bench.agentline(&["trace", verb, text(&file)]));
        assert_eq!(shown.code, Some(2), "{shown:?}");
        assert!(
            shown.err.contains("is no trace: line 1") && shown.err.contains("--trace FILE"),
            "{}",
            shown.err
        );
    }
    let shown = done(&mut bench.agentline(&["trace", "show", "/nowhere"]));
    assert_eq!(shown.code, Some(2), "{shown:?}");
}

#[test]
fn what_a_terminal_would_obey_is_not_obeyed_and_a_damaged_line_harms_no_other() {
    let bench = Bench::new();
    let said = json!({ "method": "\u{1b}[2J", "params": { "text": "\u{202e}one\ntwo\u{7}" } }).to_string();
    let mut file = header();
    let _ = write!(file, "\n{}\n{{\"t\":0,\"dir\n", json!({ "t": 0, "link": 0, "dir": "in", "line": said }));
    file += "{\"t\":2000000,\"dir\":\"end\"}\n";
    let trace = bench.file("run.trace", file);
    let shown = done(&mut bench.agentline(&["trace", "show", text(&trace), "--color", "never"]));
    assert!(shown.out.contains("\u{fffd}[2J  \u{fffd}one two\u{fffd}\n"), "{}", shown.out);
    assert!(
        shown.out.contains("a damaged line") && shown.out.contains("2.000000  app ←         end"),
        "{}",
        shown.out
    );
    assert!(shown.err.contains("lines that cannot be read: 1"), "{}", shown.err);
}

#[test]
fn journal_poisoned_by_one_line_is_shown_with_its_number_and_nothing_else_is_lost() {
    let bench = Bench::new();
    let good = json!({ "t": 1, "link": 0, "dir": "err", "text": "good" }).to_string();
    let separator = "{\"t\":1,\"link\":0,\"dir\":\"err\",\"text\":\"a\u{2028}b\"}";
    let lines = [&header(), &good, "{\"a\":1,\"b", &"\0".repeat(400), separator, &good];
    let trace = bench.file("run.trace", lines.join("\n"));
    let shown = done(&mut bench.agentline(&["trace", "show", text(&trace), "--json"]));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let rows: Vec<_> = shown.objects().iter().map(|row| (row["line"].clone(), row["kind"].clone())).collect();
    let stands = |line: u32, kind: &str| (json!(line), json!(kind));
    let (said, damaged) = ("stderr", "damage");
    let all = [stands(2, said), stands(3, damaged), stands(4, damaged), stands(5, said), stands(6, said)];
    assert_eq!(rows, all);
}

#[test]
fn no_secret_that_a_trace_masks_is_in_its_page() {
    let bench = Bench::new();
    let trace = recorded(&bench, "say hunter2-hunter2 please", &["-e", "API_KEY=hunter2-hunter2"]);
    let page = page(&bench, &trace, &[]);
    assert!(page.contains("‹secret 1›") && page.contains("API_KEY") && !page.contains("hunter2"));
}

#[test]
fn a_page_is_private_replaces_nothing_and_holds_what_was_chosen() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let trace = recorded(&bench, "hello", &[]);
    let whole = page(&bench, &trace, &[]);
    let file = bench.path("run.trace.html");
    assert_eq!(std::fs::metadata(&file).expect("a page").permissions().mode() & 0o777, 0o600);
    let again = done(&mut bench.agentline(&["trace", "view", text(&trace)]));
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("--force"), "{}", again.err);
    let turns = page(&bench, &trace, &["--force", "--kind", "turn"]);
    assert!(
        whole.contains("agent_message_chunk")
            && !data(&turns)["rows"].to_string().contains("agent_message_chunk")
    );
    assert_eq!(data(&turns)["rows"].as_array().map(Vec::len), Some(2));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!frame(&whole).contains(outside), "{outside}");
    }
}

#[test]
fn a_recorded_run_of_each_command_replays_and_a_changed_one_is_named() {
    let bench = Bench::new();
    let trace = bench.path("run.trace");
    let file = text(&trace);
    for words in [
        &["run", "hello"][..],
        &["agent", "check", "--prompt", "hello", "demo"],
        &["chat"],
        &["attach", "ping", "/nowhere.sock", "--token-file", text(&bench.file("token", "token"))],
    ] {
        done(&mut bench.agentline(&[words, &["--trace", file, "--force"]].concat()));
        let same = done(&mut bench.agentline(&["trace", "replay", file]));
        assert_eq!(same.code, Some(0), "{words:?} {same:?}");
        assert!(
            same.out.starts_with("✓ no difference in ") && !same.out.contains("not recorded"),
            "{words:?} {}",
            same.out
        );
    }
    recorded(&bench, "hello", &["--force"]);
    let said = std::fs::read_to_string(&trace).expect("a trace");
    let changed =
        bench.file("changed.trace", said.replace("stopReason\":\"end_turn", "stopReason\":\"refusal"));
    let other = done(&mut bench.agentline(&["trace", "replay", text(&changed), "--json"]));
    assert_eq!(other.code, Some(1), "{other:?}");
    let why = other.objects()[0]["difference"].to_string();
    assert!(why.contains("recorded") && why.contains("refusal"), "{why}");
    let before = done(&mut bench.agentline(&["trace", "replay", text(&changed), "--line", "5"]));
    assert_eq!(before.code, Some(0), "{before:?}");
    let unknown = bench.file("unknown.trace", header().replace("\"agent\"", r#""\u001b[2J""#));
    let unknown = done(&mut bench.agentline(&["trace", "replay", text(&unknown)]));
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("trace show"), "{}", unknown.err);
}

#[test]
fn a_capture_becomes_a_trace() {
    let bench = Bench::new();
    let capture = bench.file(
        "capture.ndjson",
        r#"{"t": 0.5, "dir": "in", "line": "{\"id\":0,\"method\":\"session/prompt\",\"params\":{\"prompt\":\"hi\"}}"}

{"t": 1200, "dir": "out", "line": "{\"id\":0,\"result\":{\"stopReason\":\"end_turn\"}}"}
{"t": 1201, "dir": "err", "line": "bye"}"#,
    );
    let trace = bench.path("run.trace");
    let made = done(&mut bench.agentline(&["trace", "import", text(&capture), "-o", text(&trace)]));
    assert_eq!(made.code, Some(0), "{made:?}");
    let shown = done(&mut bench.agentline(&["trace", "show", text(&trace)]));
    let lines = "   0.000000        → peer  session/prompt  hi
   1.199500        ← peer  answer to session/prompt (1.2 s)  end_turn
   1.200500        ← peer  stderr  bye
";
    assert_eq!(shown.out, lines);
    let bad = bench.file("bad.ndjson", "{\"dir\":\"up\",\"line\":\"\"}");
    let bad = done(&mut bench.agentline(&["trace", "import", text(&bad), "-o", text(&bench.path("x"))]));
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.err.contains("line 1: `up` is no direction") && !bench.path("x").exists(), "{}", bad.err);
}

#[test]
fn a_browser_shows_a_run_and_runs_nothing_of_what_it_holds() {
    let Some(browser) = Browser::find() else { return };
    let bench = Bench::new();
    let said = "</script><script>document.documentElement.dataset.obeyed=1</script>\
        <img src=x onerror=\"document.documentElement.dataset.obeyed=2\">\u{202e}";
    let mut file = header();
    let params = json!({ "sessionId": said, "prompt": said, "toolCall": { "title": said } });
    for (at, method) in (0u32..).zip(["session/prompt", "session/request_permission", said]) {
        let line = json!({ "id": said, "method": method, "params": params }).to_string();
        let _ = write!(file, "\n{}", json!({ "t": at * 900_000, "link": 0, "dir": "in", "line": line }));
    }
    let _ = write!(file, "\n{}\n{said}\n", json!({ "t": 9, "link": 1, "dir": "err", "text": said }));
    let trace = bench.file("run.trace", file);
    page(&bench, &trace, &[]);
    for hash in ["#row=0", "#row=4&find=onerror&theme=dark"] {
        let shown = browser.dom(&bench, &bench.path("run.trace.html"), hash);
        assert!(shown.contains("data-ready=\"5\""), "{shown}");
        assert!(!shown.contains("data-obeyed"), "{shown}");
        // As text: the marks are escaped again, and what would turn the line around is named.
        assert!(shown.contains("&lt;/script&gt;&lt;script&gt;") && shown.contains("‹202e›"), "{shown}");
    }
}

#[test]
fn a_browser_draws_as_much_of_a_long_run_as_it_shows() {
    let Some(browser) = Browser::find() else { return };
    let bench = Bench::new();
    let mut file = header();
    for at in 0..100_000 {
        let said = json!({ "method": "session/update", "params": { "sessionId": "s", "update": {
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": format!("word {at}") } } } });
        let _ =
            write!(file, "\n{}", json!({ "t": at * 10, "link": 0, "dir": "in", "line": said.to_string() }));
    }
    let trace = bench.file("run.trace", file);
    page(&bench, &trace, &[]);
    let shown = browser.dom(&bench, &bench.path("run.trace.html"), "#row=99990");
    assert!(shown.contains("data-ready=\"100000\"") && shown.contains(">word 99990<"), "{shown}");
    assert!(shown.matches("class=\"row").count() < 200, "{shown}");
}

fn header() -> String {
    let start = json!({ "secs": 1_764_460_800, "nanos": 0 });
    json!({ "format": 1, "channel": "acp", "role": "agent", "version": "0", "t": 0, "unix": start, "config": {} })
        .to_string()
}

fn page(bench: &Bench, trace: &Path, args: &[&str]) -> String {
    let words: Vec<&str> = ["trace", "view", text(trace)].iter().chain(args).copied().collect();
    let Done { code, out, err } = done(&mut bench.agentline(&words));
    assert_eq!(code, Some(0), "{err}");
    std::fs::read_to_string(out.trim_end()).expect("a page")
}

/// What the page holds of the trace.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("an end").0).expect("JSON")
}

/// The page without that.
fn frame(page: &str) -> String {
    let (before, rest) = page.split_once("id=\"data\">").expect("data");
    format!("{before}{}", rest.split_once("</script>").expect("an end").1)
}

/// A browser without a window, where there is one.
struct Browser(&'static str);

impl Browser {
    fn find() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let is_there = |name: &&str| {
            Command::new(name).arg("--version").output().is_ok_and(|done| done.status.success())
        };
        let found = names.into_iter().find(is_there);
        if found.is_none() {
            agentline_tests::interop::skipped("no browser is installed");
        }
        found.map(Self)
    }

    /// The page as its script has left it.
    fn dom(&self, bench: &Bench, page: &Path, hash: &str) -> String {
        let profile = format!("--user-data-dir={}", text(&bench.path("profile")));
        let address = format!("file://{}{hash}", text(page));
        let mut command = Command::new(self.0);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]).arg(profile);
        done(
            command.args(["--window-size=1400,900", "--virtual-time-budget=5000", "--dump-dom"]).arg(address),
        )
        .out
    }
}
