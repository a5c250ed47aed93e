//! A conversation in a terminal or a pipe, and others who speak into it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Running, done, text};
use crate::terminal::Terminal;

/// A chat that others can speak into.
pub(crate) fn chat(bench: &Bench, args: &[&str]) -> Command {
    let mut command = bench.agentline(&["chat", "--attachable"]);
    command.args(args).env("AGENTICA_ATTACH_DIR", bench.path("at"));
    command
}

/// The same in a pipe, until others can speak into it: its socket.
pub(crate) fn open(bench: &Bench, args: &[&str]) -> (Running, PathBuf) {
    let mut chat = Running::new(chat(bench, &["--json"]).args(args).stdin(Stdio::piped()));
    let listening = chat.until("listening");
    (chat, listening["socket"].as_str().expect("a path").into())
}

/// The same in a terminal.
fn typed(bench: &Bench) -> (Terminal, PathBuf) {
    let mut terminal = Terminal::new(&mut chat(bench, &[]));
    terminal.until("agentline attach send ");
    let peer = terminal.until(" ");
    (terminal, bench.path("at").join(format!("{}.sock", peer.trim())))
}

/// Somebody who has been let in and has said that: when this returns, it was heard.
fn speak(socket: &Path, words: &str) -> BufReader<UnixStream> {
    let token = fs::read_to_string(socket.with_extension("token")).expect("the token");
    let line = |id: u32, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
    };
    let hello = line(1, "initialize", json!({"authToken": token.trim()}));
    let prompt = line(2, "session/prompt", json!({"prompt": [{"type": "text", "text": words}]}));
    let mut stream = BufReader::new(UnixStream::connect(socket).expect("somebody listens"));
    stream.get_mut().write_all((hello + &prompt).as_bytes()).expect("it is read");
    let welcome = answer(&mut stream);
    assert_eq!(welcome["result"]["agentInfo"]["name"], "agentline");
    assert!(welcome["result"]["agentInfo"]["version"].is_string());
    stream
}

fn answer(stream: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    serde_json::from_str(&line).expect("an object")
}

#[test]
fn a_line_from_outside_is_shown_then_answered_while_nothing_runs() {
    let bench = Bench::new();
    let (mut terminal, socket) = typed(&bench);
    let mut caller = speak(&socket, "from elsewhere");
    terminal.until("» from elsewhere (from outside)\n");
    terminal.until("from elsewhere\n");
    terminal.until("◦ completed in");
    let answer = answer(&mut caller);
    assert_eq!(answer["result"], json!({"stopReason": "end_turn", "agenticaAnswer": "from elsewhere"}));
    terminal.types("\u{4}");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn lines_that_come_during_a_turn_wait_in_the_order_they_came() {
    let bench = Bench::new();
    let (mut terminal, socket) = typed(&bench);
    terminal.types("ask\r");
    terminal.until("n Reject");
    let mut caller = speak(&socket, "first");
    terminal.types("second\rn\r");
    let shown = terminal.until("◦ completed in");
    assert!(shown.contains("✗ rejected") && !shown.contains("first"), "{shown}");
    terminal.until("» first (from outside)\n");
    terminal.until("first\n");
    assert_eq!(answer(&mut caller)["result"]["agenticaAnswer"], "first");
    terminal.until("◦ completed in");
    terminal.until("› second\n");
    terminal.until("second\n");
    terminal.until("◦ completed in");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn a_permission_is_given_where_one_types() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    terminal.until("› ");
    terminal.types("ask\r");
    let shown = terminal.until("n Reject");
    assert!(shown.contains("? Clean the build folder\n"), "{shown}");
    assert!(shown.contains("$ rm -rf target && cargo build --release\n"), "{shown}");
    terminal.types("y\r");
    terminal.until("✓ allowed once");
    terminal.until("I may: the command ran.");
    terminal.until("1 allowed");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn what_was_begun_before_the_question_does_not_answer_it() {
    let bench = Bench::new();
    let steps = json!({"later": [{"wait": 0.5}, {"ask": {"tool": {"title": "It"}}}]});
    let script = bench.file("script.json", steps.to_string());
    let agent = ["chat", "--", AGENTLINE, "demo-agent", "--script", text(&script)];
    let mut terminal = Terminal::new(&mut bench.agentline(&agent));
    terminal.until("› ");
    terminal.types("later\ry");
    terminal.until("n Reject");
    terminal.types("\rn\r");
    terminal.until("✗ rejected");
    terminal.until("› y\n");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn ctrl_c_cancels_the_turn_and_ctrl_d_leaves() {
    let bench = Bench::new();
    let (mut terminal, socket) = typed(&bench);
    let before = terminal.settings();
    terminal.types("\u{3}");
    terminal.until("◦ nothing runs; Ctrl-D leaves");
    let mut caller = speak(&socket, "slow 1000");
    terminal.until("» slow 1000 (from outside)\n");
    terminal.types("\u{3}");
    terminal.until("◦ cancelled after");
    assert_eq!(answer(&mut caller)["result"], json!({"stopReason": "cancelled"}));
    terminal.types("still here\r");
    terminal.until("still here\n");
    terminal.until("◦ completed in");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().code(), Some(0));
    assert_ne!(before.local_modes, terminal.settings().local_modes, "it was raw while it was typed in");
    assert_eq!(fs::read_dir(bench.path("at")).expect("the folder").count(), 0);
}

#[test]
fn the_second_ctrl_c_does_not_wait() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    let before = terminal.settings();
    terminal.until("› ");
    // Once it is answered, the session is open: what is typed is a turn at once.
    terminal.types("hello\r");
    terminal.until("◦ completed in");
    terminal.types("hang\r");
    terminal.until("hang\n› ");
    terminal.types("\u{3}");
    // Between two lines the terminal would make a signal of it, and this one is nobody's.
    terminal.until("◦ cancelling; Ctrl-C again ends the agent\n› ");
    terminal.types("\u{3}");
    assert_eq!(terminal.end().code(), Some(130));
    assert_eq!(before.local_modes, terminal.settings().local_modes, "the terminal is as it was");
}

#[test]
fn a_start_that_takes_too_long_is_ended_by_ctrl_c() {
    let bench = Bench::new();
    let mut terminal =
        Terminal::new(&mut bench.agentline(&["chat", "--", AGENTLINE, "demo-agent", "--fault", "silent"]));
    terminal.until("› ");
    terminal.types("hello\r");
    terminal.until("hello\n› ");
    terminal.types("\u{3}");
    assert_eq!(terminal.end().code(), Some(130));
}

#[test]
fn a_terminal_that_goes_away_ends_the_agent() {
    let bench = Bench::new();
    let (command, witness) = bench.watched(&[AGENTLINE, "demo-agent"]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut terminal = Terminal::new(bench.agentline(&["chat"]).args(&command));
    terminal.until("› ");
    kill_process(Pid::from_child(terminal.child()), Signal::HUP).expect("it lives");
    assert_eq!(terminal.end().code(), Some(129));
    drop(witness);
}

#[test]
fn in_a_pipe_each_line_is_a_prompt_and_the_end_is_the_end() {
    let bench = Bench::new();
    let lines = bench.file("lines", "one\n\n  \ntwo words\nhello there");
    let chat = done(bench.agentline(&["chat", "-q"]).stdin(fs::File::open(lines).expect("a file")));
    assert_eq!((chat.code, &*chat.out, &*chat.err), (Some(0), "one\ntwo words\nhello there\n", ""));
    let many: String = (0..500).map(|n| format!("line {n}\n")).collect();
    let lines = bench.file("many", &many);
    let chat = done(bench.agentline(&["chat", "-q"]).stdin(fs::File::open(lines).expect("a file")));
    assert_eq!((chat.code, &*chat.out), (Some(0), &*many));
}

#[test]
fn in_a_pipe_a_turn_that_fails_shows_in_the_exit_code_and_is_not_the_end() {
    let bench = Bench::new();
    let lines = bench.file("lines", "fail\nafter\n");
    let chat = done(bench.agentline(&["chat"]).stdin(fs::File::open(lines).expect("a file")));
    assert_eq!((chat.code, &*chat.out), (Some(1), "This will not end well.\nafter\n"));
    assert!(chat.err.contains("the demo agent was asked to fail"), "{}", chat.err);
    let crash = bench.file("crash", "crash 3\nafter\n");
    let chat = done(bench.agentline(&["chat"]).stdin(fs::File::open(crash).expect("a file")));
    assert_eq!((chat.code, &*chat.out), (Some(5), "Down I go.\n"));
    assert!(chat.err.contains("exited during the turn with code 3"), "{}", chat.err);
}

#[test]
fn programs_are_told_who_spoke_and_what_came_of_it() {
    let bench = Bench::new();
    let (mut chat, socket) = open(&bench, &[]);
    let mut caller = speak(&socket, "from elsewhere");
    assert_eq!(chat.until("prompt"), json!({"type": "prompt", "from": "outside", "text": "from elsewhere"}));
    assert_eq!(chat.until("text")["text"], "from elsewhere");
    let result = chat.until("result");
    assert_eq!((&result["outcome"], &result["output"]), (&json!("completed"), &json!("from elsewhere")));
    assert_eq!(answer(&mut caller)["result"]["stopReason"], "end_turn");
    let mut stdin = chat.child().stdin.take().expect("a pipe");
    stdin.write_all(b"typed\n").expect("a reader");
    assert_eq!(chat.until("prompt"), json!({"type": "prompt", "from": "keyboard", "text": "typed"}));
    drop(stdin);
    assert_eq!(chat.end().0.code(), Some(0));
}

#[test]
fn nobody_can_attach_unless_that_is_wanted() {
    let bench = Bench::new();
    let quiet = |variable: &str| {
        let mut chat = bench.agentline(&["chat", "--json"]);
        chat.env("AGENTICA_ATTACH_DIR", bench.path("at")).env("AGENTICA_ATTACH_ENABLED", variable);
        done(&mut chat)
    };
    for variable in ["", "0"] {
        assert!(quiet(variable).objects().iter().all(|object| object["type"] != "listening"));
        assert!(!bench.path("at").exists() && !bench.path("home").join(".agentica").exists());
    }
    let mut chat = bench.agentline(&["chat", "--json"]);
    chat.env("AGENTICA_ATTACH_DIR", bench.path("at")).env("AGENTICA_ATTACH_ENABLED", "1");
    let mut chat = Running::new(chat.stdin(Stdio::piped()));
    chat.until("listening");
    drop(chat.child().stdin.take());
    assert_eq!(chat.end().0.code(), Some(0));
}

#[test]
fn what_lets_others_in_is_private_and_gone_afterwards() {
    let bench = Bench::new();
    let (chat, socket) = open(&bench, &[]);
    let live = bench.path("home").join(".agentica/cache/peers/live");
    let record = live.join(socket.with_extension("json").file_name().expect("a name"));
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    let token = socket.with_extension("token");
    assert_eq!([&socket, &token, &record].map(|path| mode(path)), [0o600; 3]);
    assert_eq!([bench.path("at"), live.clone()].map(|path| mode(&path)), [0o700; 2]);
    assert_eq!(fs::read(&token).expect("a token").len(), 65);
    let shown: Value = serde_json::from_slice(&fs::read(&record).expect("a record")).expect("an object");
    assert_eq!(shown["attach_socket"], text(&socket));
    assert_eq!(shown["session_id"], "demo-1");
    chat.signal(Signal::TERM);
    assert_eq!(chat.end().0.code(), Some(143));
    for path in [socket, token, record] {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn a_session_that_cannot_listen_goes_on_without() {
    let bench = Bench::new();
    let far = bench.path("at").join("x".repeat(120));
    let mut chat = chat(&bench, &["-q"]);
    let lines = bench.file("lines", "hi\n");
    let chat = done(chat.env("AGENTICA_ATTACH_DIR", far).stdin(fs::File::open(lines).expect("a file")));
    assert_eq!((chat.code, &*chat.out), (Some(0), "hi\n"));
    assert!(chat.err.contains("! nobody can attach: the socket path is too long"), "{}", chat.err);
}

#[test]
fn the_agents_of_this_machine_are_listed_where_one_types() {
    let bench = Bench::new();
    let (_chat, socket) = open(&bench, &[]);
    let lines = bench.file("lines", "/list-agents\n");
    let other = done(bench.agentline(&["chat"]).stdin(fs::File::open(lines).expect("a file")));
    assert_eq!(other.out, "");
    assert!(other.err.contains(text(&socket)) && other.err.contains("idle"), "{}", other.err);
}
