//! The hub at a terminal: sessions joined, questions answered by one key, and what a screen looks like.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::hub_stories::Desk;
use crate::rig::{AGENTLINE, done, text};

#[test]
fn a_session_is_joined_as_a_chat_is() {
    for columns in [80, 40] {
        let desk = Desk::new();
        let id = desk.session("one", "hello");
        assert_eq!(desk.wait(&id), Some(0));
        let mut attached = desk.in_terminal(&["session", "attach", &id], columns);
        attached.until("› hello");
        attached.types("ask\r");
        let shown = attached.until("y  Allow once");
        assert_eq!(shown.matches("› ask").count(), 1, "{shown}");
        assert_eq!(shown.matches("Clean the build folder").count(), 1, "it is asked once: {shown}");
        assert!(!shown.contains("agentline approve"), "it is asked here: {shown}");
        // Nothing that is typed is a prompt while that is open.
        attached.types("maybe\r");
        attached.until("! not an answer: type y, a or n");
        attached.types("y\r");
        attached.until("✓ allowed once");
        let shown = attached.until_seen("the end", |all| all.matches("◦ completed").count() >= 1);
        assert!(!shown.contains("another client"), "{shown}");
        attached.types("/quue\r");
        attached.until("! /quue is no command; /queue is");
        attached.types("/queue\r");
        attached.until("◦ nothing waits");
        attached.types("\u{4}");
        let (status, shown) = attached.end();
        assert_eq!(status.code(), Some(0), "{shown}");
        let left = format!("◦ left; it goes on: agentline session attach {id}");
        assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(&left), "{shown}");
        assert!(attached.settings().local_modes.contains(rustix::termios::LocalModes::ECHO));
    }
}

#[test]
fn what_is_said_during_a_turn_is_queued_and_can_be_taken_back() {
    let desk = Desk::new();
    let id = desk.session("one", "slow 1000");
    let mut attached = desk.in_terminal(&["session", "attach", &id], 80);
    attached.until("› slow 1000");
    attached.types("and keep the old test\r");
    attached.until("queued (1): and keep the old test");
    attached.types("\u{3}");
    attached.until("◦ taken back; Ctrl-C again leaves");
    attached.types("\u{3}");
    attached.until("◦ left; it goes on");
    assert_eq!(attached.end().0.code(), Some(0));
    // Another one cancels.
    let mut attached = desk.in_terminal(&["session", "attach", &id], 80);
    attached.until("› slow 1000");
    attached.types("\u{3}");
    attached.until("◦ cancelling; Ctrl-C again leaves");
    attached.until("◦ cancelled");
    attached.types("\u{4}");
    assert_eq!(attached.end().0.code(), Some(0));
    assert_eq!(desk.wait(&id), Some(130));
}

#[test]
fn forms_and_pages_are_filled_in_where_one_sits() {
    let desk = Desk::new();
    let schema = json!({"properties": {"colour": {"type": "string", "title": "Colour", "enum": ["red", "blue"]},
        "count": {"type": "integer", "maximum": 9, "default": 3}}, "required": ["colour"]});
    desk.scripted(
        "asks",
        &json!({"form": [{"form": {"message": "How shall it look?", "schema": schema}}],
            "page": [{"page": {"message": "Look at this.", "url": "https://a.example/x"}}]}),
    );
    let id = desk.session("asks", "form");
    let mut attached = desk.in_terminal(&["session", "attach", &id], 80);
    attached.until("? Colour (1 of 2)");
    attached.types("2\r");
    attached.until("? count (2 of 2)");
    attached.types("12\r");
    attached.until("! not an answer: at most 9");
    attached.types("\r");
    attached.until("✓ answered");
    let shown = attached.until("◦ completed");
    assert!(shown.contains("blue"), "{shown}");
    attached.types("page\r");
    attached.until("https://a.example/x");
    attached.types("y\r");
    attached.until_seen("both ends", |all| all.matches("◦ completed").count() == 2);
    attached.types("\u{4}");
    attached.end();

    // And from the board of questions, where a form takes lines.
    let mut board = desk.in_terminal(&["approval", "list", "--watch"], 80);
    let id = desk.session("asks", "form");
    board.until("? Colour (1 of 2)");
    board.presses("1\n", "? count (2 of 2)");
    board.presses("7\n", "✓ answered: How shall it look?");
    board.types("q");
    assert_eq!(board.end().0.code(), Some(0));
    assert_eq!(desk.wait(&id), Some(0));

    // And as one command.
    let id = desk.session("asks", "form");
    desk.until_asked(1);
    let question = desk.until_asked(1)[0]["approvalId"].as_str().expect("an id").to_owned();
    let wrong = desk.run(&["approval", "answer", &question, "green"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("takes a JSON object with its fields"), "{wrong:?}");
    let given = desk.run(&["approval", "answer", &question, "{\"colour\":\"red\"}"]);
    assert_eq!(given.code, Some(0), "{given:?}");
    assert_eq!(desk.wait(&id), Some(0));
}

#[test]
fn yes_is_an_answer_where_it_can_mean_one_thing_only() {
    let desk = Desk::new();
    let id = desk.session("one", "ask");
    let question = desk.until_asked(1)[0]["approvalId"].as_str().expect("an id").to_owned();
    let wrong = desk.run(&["approval", "answer", &question, "perhaps"]);
    assert!(wrong.code == Some(2) && wrong.err.contains(&format!("{question} takes y, a or n")), "{wrong:?}");
    let given = desk.run(&["approval", "answer", &question, "yes"]);
    assert_eq!(given.code, Some(0), "{given:?}");
    assert!(given.err.starts_with("✓ allowed once: "), "{given:?}");
    assert_eq!(desk.wait(&id), Some(0));
}

#[test]
fn one_key_answers() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    for columns in [80, 40] {
        let mut board = desk.in_terminal(&["approval", "list", "--watch"], columns);
        board.until("nothing waits; q quits");
        let id = desk.session("one", "ask");
        let shown = board.until("q quit ›");
        assert!(shown.contains("? Clean the build folder"), "{shown}");
        let before = board.settings();
        // For good is asked twice.
        board.presses("a", "! for good: ");
        board.presses("n", "y · a · n");
        board.until_seen("the question again", |all| all.matches("y · a · n").count() >= 2);
        board.presses("y", "✓ allowed once: Clean the build folder");
        board.until_times("nothing waits; q quits", 2);
        assert_eq!(desk.wait(&id), Some(0));

        // One after the other; the first can wait.
        let first = desk.session("one", "ask");
        board.until(&format!("· {first} ·"));
        let second = desk.session("two", "ask");
        board.presses("s", &format!("· {second} ·"));
        board.presses("n", "✗ rejected: Clean the build folder");
        board.presses("y", &format!("({first})"));
        board.until_seen("nothing waits", |all| all.matches("nothing waits").count() >= 3);
        board.types("q");
        let (status, shown) = board.end();
        assert_eq!(status.code(), Some(0), "{shown}");
        assert_ne!(board.settings().local_modes, before.local_modes, "the terminal is as it was");
    }
}

#[test]
fn after_a_stop_one_key_answers_still() {
    let desk = Desk::new();
    let id = desk.session("one", "ask");
    let mut board = desk.in_terminal(&["approval", "list", "--watch"], 80);
    board.until("q quit ›");
    board.signal(Signal::TSTP);
    board.until_stopped();
    assert!(board.settings().local_modes.contains(rustix::termios::LocalModes::ECHO), "the shell has it");
    board.prints("\r\n$ fg\r\n");
    board.signal(Signal::CONT);
    board.until_seen("the question again", |all| all.matches("q quit ›").count() >= 2);
    board.presses("y", "✓ allowed once");
    board.types("q");
    assert_eq!(board.end().0.code(), Some(0));
    assert_eq!(desk.wait(&id), Some(0));
}

#[test]
fn words_are_not_broken_where_a_screen_ends() {
    let desk = Desk::new();
    let words = "several words that are together far longer than one row of that screen";
    desk.scripted(
        "talks",
        &json!({"talk": words.split_inclusive(' ').map(|word| json!({"say": word})).collect::<Vec<_>>()}),
    );
    let id = desk.session("talks", "talk");
    assert_eq!(desk.wait(&id), Some(0));
    let rows = |shown: &str| {
        let start = shown.find("several").expect("the words");
        shown[start..].lines().take(3).collect::<Vec<_>>().join("\n")
    };
    let meant = "several words that are together far\nlonger than one row of that screen";
    let mut show = desk.in_terminal(&["session", "show", &id], 40);
    assert!(rows(&show.end().1).starts_with(meant));
    let mut follow = desk.in_terminal(&["session", "send", &id, "--follow", "talk"], 40);
    let (status, shown) = follow.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(rows(&shown).starts_with(meant), "{shown}");
}

#[test]
fn a_session_that_is_not_there_is_an_error_wherever_one_sits() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    let ended = desk.run(&["session", "attach", "s99"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let mut attached = desk.in_terminal(&["session", "attach", "s99"], 80);
    assert_eq!(attached.end().0.code(), Some(3));
}

#[test]
fn whoever_looks_is_not_told_otherwise() {
    let desk = Desk::new();
    let told = desk.home.bench.path("told");
    let settings = desk.home.bench.path("home/.config/agentline/settings.json");
    let mut known: Value =
        fs::read(&settings).map_or(json!({}), |bytes| serde_json::from_slice(&bytes).expect("JSON"));
    known["notify"] = json!(["/bin/sh", "-c", "cat >>\"$0\"", text(&told)]);
    fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
    fs::write(&settings, known.to_string()).expect("settings");
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    let mut board = desk.in_terminal(&["approval", "list", "--watch"], 80);
    // Whoever looks before there is anything to see has seen that.
    board.until("nothing waits; q quits");
    let seen = desk.session("one", "ask");
    board.until("q quit ›");
    board.presses("y", "✓ allowed once");
    board.types("q");
    board.end();
    assert_eq!(desk.wait(&seen), Some(0));
    let unseen = desk.session("two", "ask");
    let line = loop {
        match fs::read_to_string(&told) {
            Ok(lines) if lines.contains("\"approval\"") => break lines,
            _ => std::thread::yield_now(),
        }
    };
    let first: Value =
        serde_json::from_str(line.lines().find(|line| line.contains("approval")).expect("a line"))
            .expect("JSON");
    assert_eq!(first["sessionId"], *unseen, "{line}");
    assert!(
        line.lines().all(|line| !line.contains(&format!("\"{seen}\"")) || !line.contains("\"approval\""))
    );
}

#[test]
fn an_archived_session_is_restored_by_its_name() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["session", "new", "-q", "--agent", "one", "-n", "docs", "hello"]).code, Some(0));
    assert_eq!(desk.wait("docs"), Some(0));
    assert_eq!(desk.run(&["session", "archive", "docs"]).code, Some(0));
    let restored = desk.run(&["session", "restore", "docs"]);
    assert!(restored.code == Some(0) && restored.err.contains("restored: s1 docs"), "{restored:?}");
    assert_eq!(desk.run(&["session", "restore", "nothing"]).code, Some(3));
}

#[test]
fn a_list_fits_the_screen_and_says_what_each_session_waits_for() {
    let desk = Desk::new();
    desk.add("locked", &[AGENTLINE, "demo-agent", "--fault", "needs-login"]);
    let locked = desk.run(&["session", "new", "--agent", "locked", "-n", "try-locked", "hello"]);
    assert_eq!((locked.code, &*locked.out), (Some(7), ""), "{locked:?}");
    let hint = "try: agentline login locked, then agentline session retry s1";
    assert!(locked.err.contains(hint), "{locked:?}");
    for (name, agent, task) in [("try-one", "one", "ask"), ("try-two", "two", "slow 1000")] {
        let started = desk.run(&["session", "new", "-q", "--agent", agent, "-n", name, task]);
        assert_eq!(started.code, Some(0), "{started:?}");
    }
    desk.until_asked(1);
    let (_, shown) = desk.in_terminal(&["session", "list"], 120).end();
    let cells = |row: &str| {
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = shown.lines().map(cells).collect();
    assert_eq!(rows[0].join(" "), "ID NAME AGENT STATUS AGE FOLDER TITLE", "{shown}");
    let row = |id: &str| rows.iter().find(|row| row[0] == id).unwrap_or_else(|| panic!("no {id} in {shown}"));
    assert_eq!(row("s1")[1..4].join(" "), "try-locked locked error needs_login");
    assert_eq!(row("s2")[1..4].join(" "), "try-one one waiting_approval !1");
    assert_eq!(row("s3")[1..4].join(" "), "try-two two running");
    assert_eq!(rows.last().expect("rows")[0], "s1", "those that run come first: {shown}");
    let (_, shown) = desk.in_terminal(&["session", "list"], 40).end();
    assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
}

#[test]
fn a_tab_key_waits_for_no_hub() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    let pid = desk.home.serving().and_then(|serving| serving["pid"].as_i64()).expect("a hub");
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, Signal::STOP).expect("it lives");
    // Its limit is below that of a command, which says how long it has waited.
    let mut tab = Command::new(AGENTLINE);
    let command = desk.command(&[]);
    tab.args(["--", "agentline", "session", "show", ""])
        .env_clear()
        .current_dir(desk.home.bench.path("work"));
    tab.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    tab.env("AGENTLINE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3").env("_CLAP_IFS", "\n");
    let asked = done(&mut tab);
    let status = desk.run(&["hub", "call", "ping", "--timeout", "300ms"]);
    rustix::process::kill_process(pid, Signal::CONT).expect("it lives");
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_eq!(status.code, Some(4), "{status:?}");
    assert!(status.err.starts_with("✗ the hub does not answer within 0.3 s\n"), "{status:?}");
}
