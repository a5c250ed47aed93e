//! The hub at a terminal: sessions joined, questions answered by one key, and what a screen looks like.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::hub_stories::Desk;
use crate::rig::{AGENTLINE, Running, done, text};
use crate::terminal::Terminal;

impl Desk {
    /// An agent that follows a script.
    fn scripted(&self, id: &str, steps: &Value) {
        let script = self.home.bench.file(&format!("{id}.json"), steps.to_string());
        self.add(id, &[AGENTLINE, "demo-agent", "--script", text(&script)]);
    }

    fn in_terminal(&self, args: &[&str], columns: u16) -> Terminal {
        Terminal::sized(&mut self.command(args), columns, 30)
    }

    /// Waits until so many questions are open.
    fn until_asked(&self, count: usize) -> Vec<Value> {
        loop {
            let asked = self.run(&["approval", "list", "--json"]).objects();
            if asked.len() >= count {
                return asked;
            }
            std::thread::yield_now();
        }
    }
}

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
fn a_hub_that_nobody_needs_leaves_and_one_that_is_asked_something_stays() {
    let desk = Desk::new();
    let mut hub = Running::new(&mut desk.command(&["hub", "run", "--leave-after", "600ms", "--json"]));
    hub.until("listening");
    let id = desk.session("one", "ask");
    desk.until_asked(1);
    assert_eq!(desk.run(&["approve"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(0));
    let (status, _, err) = hub.end();
    assert!(status.success(), "{err}");
    assert_eq!(desk.home.serving(), None);
    let listed = desk.run(&["session", "list"]);
    assert!(listed.out.starts_with(&id) && listed.err.contains("no hub runs"), "{listed:?}");
}

#[test]
fn a_hub_whose_sockets_were_removed_is_found_again() {
    let desk = Desk::new();
    let mut hub = Running::new(&mut desk.command(&["hub", "run", "--look-every", "50ms", "--json"]));
    hub.until("listening");
    let id = desk.session("one", "slow 1000");
    let mut watch = Running::new(&mut desk.command(&["session", "watch", &id, "--json"]));
    watch.until_some(|frame| frame["kind"] == "synced");
    let sockets = [desk.home.state("control.sock"), desk.home.bench.path("home/.botbus/run/acp.sock")];
    for round in 0..3 {
        sockets.iter().for_each(|socket| fs::remove_file(socket).expect("a socket"));
        fs::remove_file(desk.home.state("hub.json")).expect("a file");
        while !sockets.iter().all(|socket| socket.exists()) || desk.home.serving().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(desk.row(&id)["status"], "running", "{round}");
    }
    // Whoever was there has lost nothing.
    assert_eq!(desk.run(&["session", "cancel", &id]).code, Some(0));
    watch.until_some(|frame| frame["kind"] == "run_complete");
    watch.signal(Signal::INT);
    watch.end();
    hub.signal(Signal::TERM);
    assert!(hub.end().0.success());
    assert!(sockets.iter().all(|socket| !socket.exists()));
}

#[test]
fn a_log_that_is_not_read_holds_up_no_hub() {
    let desk = Desk::new();
    let (_keys, mut hub) = crate::terminal::unread(&mut desk.command(&["hub", "run"]));
    while desk.home.serving().is_none() {
        std::thread::yield_now();
    }
    desk.scripted("loud", &json!({"talk": (0..200).map(|_| json!({"grumble": "x\n"})).collect::<Vec<_>>()}));
    for _ in 0..3 {
        let id = desk.session("loud", "talk");
        assert_eq!(desk.wait(&id), Some(0));
    }
    assert_eq!(desk.run(&["hub", "stop"]).code, Some(0));
    hub.wait().expect("it ends");
}

#[test]
fn a_file_of_variables_and_a_longer_handshake_are_an_agents_own() {
    let desk = Desk::new();
    let seen = desk.home.bench.path("seen");
    desk.add(
        "keys",
        &["/bin/sh", "-c", &format!("env >{}; ulimit -n >>{0}; exec {AGENTLINE} demo-agent", text(&seen))],
    );
    let file = desk.home.bench.file("keys.env", "# mine\nexport MY_KEY=from the file\n");
    let set = |args: &[&str]| desk.run(&[&["agent", "set", "keys"], args].concat());
    let open = set(&["--env-file", text(&file)]);
    assert!(open.code == Some(2) && open.err.contains("may be read by others"), "{open:?}");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    assert_eq!(set(&["--env-file", text(&file), "--init-timeout", "30s"]).code, Some(0));
    assert_eq!(set(&[]).code, Some(2));
    let new = |desktop: &str| {
        let mut command = desk.command(&["session", "new", "-q", "--agent", "keys", "hello"]);
        let started = done(command.env("DISPLAY", desktop));
        assert_eq!(started.code, Some(0), "{started:?}");
        assert_eq!(desk.wait(started.out.trim()), Some(0));
        fs::read_to_string(&seen).expect("the agent's environment")
    };
    let env = new(":7");
    let has = |line: &str| env.lines().any(|seen| seen == line);
    assert!(has("MY_KEY=from the file") && has("DISPLAY=:7"), "{env}");
    let ours =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.expect("a limit").to_string();
    assert!(has(&ours), "the hub raises its own limit only: {env}");
    let damaged = "no variables";
    fs::write(&file, damaged).expect("a file");
    assert_eq!(desk.run(&["hub", "stop"]).code, Some(0));
    let failed = desk.run(&["session", "new", "--agent", "keys", "hello"]);
    assert!(failed.code == Some(5) && failed.err.contains("line 1 is not NAME=VALUE"), "{failed:?}");
    assert!(!failed.err.contains(damaged), "{failed:?}");
}

#[test]
fn a_run_asks_in_the_hub() {
    let desk = Desk::new();
    let run = |args: &[&str]| {
        Running::new(&mut desk.command(&[&["run", "-p", "hub", "--json", "--agent", "demo"], args].concat()))
    };
    let mut asks = run(&["ask"]);
    asks.until_said("? Clean the build folder  waiting: agentline approve a1");
    let asked = desk.until_asked(1);
    assert_eq!(
        (&asked[0]["title"], &asked[0]["class"]),
        (&json!("Clean the build folder"), &json!("command"))
    );
    let approved = desk.run(&["approve"]);
    assert!(approved.err.starts_with("✓ allowed once: Clean the build folder"), "{approved:?}");
    let (status, out, err) = asks.end();
    assert_eq!(status.code(), Some(0), "{err}");
    assert!(out.contains("the command ran"), "{out}");

    // Whoever is ended takes the question back.
    let mut asks = run(&["ask"]);
    asks.until_said("approve a2");
    asks.signal(Signal::INT);
    assert_eq!(asks.end().0.code(), Some(130));
    let over = desk.run(&["approve", "a2"]);
    assert_eq!(over.code, Some(1), "{over:?}");
    assert_eq!(desk.run(&["hub", "stop"]).code, Some(0));
    let mut alone = desk.command(&["run", "-p", "hub", "--agent", "demo", "ask"]);
    let alone = done(alone.env("AGENTLINE_NO_START", "1"));
    assert!(alone.code == Some(4) && alone.err.contains("none is started from here"), "{alone:?}");
    let chat = desk.run(&["chat", "-p", "hub"]);
    assert!(chat.code == Some(2) && chat.err.contains("try: agentline chat --announce"), "{chat:?}");
}

#[test]
fn a_conversation_shows_itself_when_it_is_told_to() {
    let desk = Desk::new();
    let mut chat = desk.in_terminal(&["chat", "--agent", "one"], 80);
    chat.until("/help");
    chat.types("/announce\r");
    chat.until("◦ no hub runs here");
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    chat.types("/announce\r");
    chat.until("◦ shown by the hub, as one");
    chat.types("/announce\r");
    chat.until("! it is shown by the hub already");
    while desk.run(&["session", "list"]).out.is_empty() {
        std::thread::yield_now();
    }
    let said = desk.run(&["session", "send", "last", "hello"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    chat.until("» hello (from the hub)");
    chat.types("\u{4}");
    assert_eq!(chat.end().0.code(), Some(0));
}

#[test]
fn agents_that_dial_in_are_let_in_unless_the_settings_say_otherwise() {
    let desk = Desk::new();
    let settings = desk.home.bench.path("home/.config/agentline/settings.json");
    let mut known: Value =
        serde_json::from_slice(&fs::read(&settings).unwrap_or(b"{}".to_vec())).expect("JSON");
    known["reverse"] = json!(false);
    fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
    fs::write(&settings, known.to_string()).expect("settings");
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    assert_eq!(desk.run(&["hub", "status", "--json"]).objects()[0]["reverse"], Value::Null);
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
fn a_child_of_an_agent_does_not_answer_for_a_person() {
    let desk = Desk::new();
    let bench = &desk.home.bench;
    let (go, said) = (bench.path("go"), bench.path("said"));
    rustix::fs::mkfifoat(rustix::fs::CWD, &go, rustix::fs::Mode::RWXU).expect("a pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &said, rustix::fs::Mode::RWXU).expect("a pipe");
    // It has not even the mark that children of agents have.
    let home = text(&bench.path("home")).to_owned();
    let script = format!(
        "(cat {}; env -i HOME={home} PATH=/usr/bin:/bin {AGENTLINE} approve >{} 2>&1) & exec {AGENTLINE} demo-agent",
        text(&go),
        text(&said)
    );
    desk.add("sly", &["/bin/sh", "-c", &script]);
    let id = desk.session("sly", "ask");
    desk.until_asked(1);
    fs::File::options().write(true).open(&go).expect("a reader").write_all(b"\n").expect("a reader");
    let refused = fs::read_to_string(&said).expect("what it was told");
    assert!(refused.contains("may not decide"), "{refused}");
    assert_eq!(desk.until_asked(1).len(), 1);
    assert_eq!(desk.run(&["deny"]).code, Some(0));
    desk.wait(&id);
}

#[test]
fn a_hub_that_is_killed_before_the_agent_has_the_prompt_says_that_nobody_knows() {
    let desk = Desk::new();
    let gate = desk.home.bench.path("gate");
    // It does not answer before there is a gate.
    let script = format!("[ -e {} ] || exec sleep 1000; exec {AGENTLINE} demo-agent", text(&gate));
    desk.add("late", &["/bin/sh", "-c", &script]);
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    let new =
        Running::new(desk.command(&["session", "new", "--agent", "late", "hello"]).stdin(Stdio::null()));
    let record = desk.home.state("sessions/s1.json");
    while !record.exists() || fs::read_dir(desk.home.state("queue")).map_or(0, Iterator::count) == 0 {
        std::thread::yield_now();
    }
    desk.home.kill();
    let (status, _, err) = new.end();
    assert_eq!(status.code(), Some(4), "{err}");
    assert!(err.contains("may have been accepted"), "{err}");
    fs::write(&gate, "").expect("a gate");
    let retried = desk.run(&["session", "retry", "s1"]);
    if retried.code != Some(0) {
        // It waits as it did: nothing is sent by itself.
        let released = desk.run(&["session", "queue", "s1", "--go"]);
        assert_eq!(released.code, Some(0), "{retried:?} {released:?}");
    }
    assert_eq!(desk.wait("s1"), Some(0));
    assert!(desk.run(&["session", "show", "s1", "--last"]).out.starts_with("Hello!"));
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
fn another_machine_is_checked_before_a_hub_runs_there() {
    let (here, there) = (Desk::new(), Desk::new());
    let home = format!("HOME={}", text(&there.home.bench.path("home")));
    let pipe = ["env", "-i", &home, "PATH=/usr/bin:/bin", AGENTLINE, "hub", "pipe"];
    assert_eq!(here.run(&[&["host", "add", "devbox", "--"], &pipe[..]].concat()).code, Some(0));
    let checked = here.run(&["host", "check", "devbox"]);
    let version = env!("CARGO_PKG_VERSION");
    let said = format!("✓ devbox: agentline {version}, hub not running, one, two (");
    assert!(checked.code == Some(0) && checked.out.starts_with(&said), "{checked:?}");
    assert_eq!(there.home.serving(), None, "nobody is started by a look");
    assert_eq!(here.run(&["host", "add", "nas", "--", "sleep", "1000"]).code, Some(0));
    let own = here.session("one", "hello");
    let listed = here.run(&["session", "list", "--host", "all", "--host-timeout", "100ms"]);
    assert!(listed.code == Some(0) && listed.err.contains("! nas: no answer in 0.1 s"), "{listed:?}");
    assert!(listed.out.starts_with(&own), "{listed:?}");
}

#[test]
fn one_machine_that_is_off_does_not_end_what_is_seen_of_the_others() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["host", "add", "nas", "--", "/bin/sh", "-c", "exit 255"]).code, Some(0));
    let id = desk.session("one", "ask");
    let listed = desk.run(&["session", "list", "--host", "all"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.err.contains("! nas cannot be reached"), "{listed:?}");
    let mut board = desk.in_terminal(&["approval", "list", "--watch", "--host", "all"], 80);
    board.until("! nas cannot be reached; it is tried again");
    board.presses("y", "✓ allowed once");
    board.types("q");
    assert_eq!(board.end().0.code(), Some(0));
    let mut watch = Running::new(&mut desk.command(&["session", "watch", "--host", "all"]));
    watch.until_said("! nas cannot be reached; it is tried again");
    // It runs until it was seen, however late the watch begins.
    let next = desk.session("two", "slow 1000");
    watch.until_said("slow 1000");
    assert_eq!(desk.run(&["session", "cancel", &next]).code, Some(0));
    watch.until_said("cancelled");
    watch.signal(Signal::INT);
    assert_eq!(watch.end().0.code(), Some(130));
    assert_eq!(desk.wait(&id), Some(0));
}

#[test]
fn a_machine_that_comes_back_is_watched_again() {
    let (here, there) = (Desk::new(), Desk::new());
    let home = format!("HOME={}", text(&there.home.bench.path("home")));
    let pipe = ["env", "-i", &home, "PATH=/usr/bin:/bin", AGENTLINE, "hub", "pipe", "--start"];
    assert_eq!(here.run(&[&["host", "add", "box", "--"], &pipe[..]].concat()).code, Some(0));
    let id = there.session("one", "slow 1000");
    let mut watch = Running::new(&mut here.command(&["session", "watch", &format!("{id}@box")]));
    watch.until_said("› slow 1000");
    there.home.kill();
    watch.until_said("! box is gone: its hub has ended; it is tried again");
    watch.until_said("the hub died meanwhile");
    watch.signal(Signal::TERM);
    assert_eq!(watch.end().0.code(), Some(143));
}

#[test]
fn a_hub_of_another_version_is_told_once() {
    let desk = Desk::new();
    fs::create_dir_all(desk.home.state("")).expect("a folder");
    let path = desk.home.state("control.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    fs::set_permissions(desk.home.state(""), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("ours");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let serving =
        json!({"host": host, "pid": 7, "control": text(&path), "version": "0.0.1", "startedAt": "x"});
    fs::write(desk.home.state("hub.json"), serving.to_string()).expect("a file");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut lines =
                std::io::BufRead::lines(std::io::BufReader::new(client.try_clone().expect("a descriptor")));
            while let Some(Ok(line)) = lines.next() {
                let request: Value = serde_json::from_str(&line).expect("JSON");
                let result = if request["command"] == "health" {
                    json!({"ok": true, "version": "0.0.1"})
                } else {
                    json!([])
                };
                let answer = json!({"ok": true, "requestId": request["requestId"], "result": result});
                let _ = writeln!(&client, "{answer}");
            }
        }
    });
    let listed = desk.run(&["session", "list"]);
    let version = env!("CARGO_PKG_VERSION");
    let said = format!("! the hub is 0.0.1, this is {version}: agentline hub restart --when-idle\n");
    assert_eq!(listed.err.matches(&said).count(), 1, "{listed:?}");
    fs::remove_file(desk.home.state("hub.json")).expect("a file");
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
