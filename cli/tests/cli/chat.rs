//! A conversation in a terminal or a pipe, and others who speak into it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Running, done, repeats, text};
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
    let mut terminal = Terminal::sized(&mut chat(bench, &[]), 160, 50);
    let shown = terminal.until(" \"…\"");
    let (_, peer) = shown.split_once("agentline attach send ").expect("how to attach");
    let peer = peer.split(' ').next().expect("a word");
    (terminal, bench.path("at").join(format!("{peer}.sock")))
}

/// Somebody who has been let in and has said that: when this returns, it was heard.
pub(crate) fn speak(socket: &Path, words: &str) -> BufReader<UnixStream> {
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

pub(crate) fn answer(stream: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    serde_json::from_str(&line).expect("an object")
}

#[test]
fn a_line_from_outside_is_shown_then_answered_while_nothing_runs() {
    let bench = Bench::new();
    let (mut terminal, socket) = typed(&bench);
    let mut caller = speak(&socket, "from elsewhere");
    let shown = terminal.until("◦ completed in");
    assert!(shown.contains("» from elsewhere (from outside)\nfrom elsewhere\n◦ completed"), "{shown}");
    let answer = answer(&mut caller);
    assert_eq!(answer["result"], json!({"stopReason": "end_turn", "agenticaAnswer": "from elsewhere"}));
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn lines_that_come_during_a_turn_wait_in_the_order_they_came() {
    let bench = Bench::new();
    let (mut terminal, socket) = typed(&bench);
    terminal.types("slow 1000\r");
    terminal.until("⠋ waiting for the agent");
    let mut caller = speak(&socket, "first");
    terminal.types("second\r");
    let shown = terminal.until("  queued: second");
    assert!(!shown.contains("› second"), "{shown}");
    kill_process(Pid::from_child(terminal.child()), Signal::INT).expect("it lives");
    terminal.until("◦ cancelled after");
    // Whoever spoke from outside waits for an answer; what was typed is given back to be said, or not.
    terminal.until("» first (from outside)\nfirst\n◦ completed");
    assert_eq!(answer(&mut caller)["result"]["agenticaAnswer"], "first");
    let shown = terminal.until("\n› second\n");
    assert!(!shown.contains("queued"), "{shown}");
    terminal.types("\r");
    terminal.until("› second\nsecond\n◦ completed");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_permission_is_given_where_one_types() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    terminal.until("›");
    terminal.types("ask\r");
    let shown = terminal.until("type y, a or n, then Enter\n?");
    let question =
        "      $ rm -rf target && cargo build --release\n  ? Clean the build folder\n      y  Allow once\n";
    assert!(shown.contains(question), "{shown}");
    terminal.types("y\r");
    let shown = terminal.until("1 allowed");
    assert!(shown.contains("✓ allowed once") && shown.contains("I may: the command ran."), "{shown}");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn c2_nothing_typed_while_a_question_is_open_is_ever_a_prompt() {
    let bench = Bench::new();
    let mut terminal = Terminal::sized(&mut bench.agentline(&["chat"]), 80, 60);
    terminal.until("›");
    terminal.types("ask\r");
    terminal.until("then Enter\n?");
    let wrong = ["yep", "yes please", "1", "ok", ""];
    for (at, wrong) in wrong.iter().enumerate() {
        terminal.types(&format!("{wrong}\r"));
        terminal.until_times("! not an answer: type y, a or n, then Enter", at + 1);
    }
    terminal.types("n\r");
    terminal.until("1 rejected");
    // What the arrow keys call back is what was said to the agent.
    terminal.types("\u{1b}[A");
    terminal.until("\n› ask\n");
    terminal.types("\u{15}\u{4}");
    let (status, shown) = terminal.end();
    assert_eq!(status.code(), Some(0));
    assert!(wrong[..4].iter().all(|wrong| !shown.contains(&format!("› {wrong}"))), "{shown}");
    let history = fs::read_to_string(bench.path("home").join(".local/state/agentline/history"));
    assert_eq!(history.expect("a history"), "\"ask\"\n");
}

#[test]
fn c2_what_was_begun_before_the_question_does_not_answer_it_and_is_kept() {
    let bench = Bench::new();
    let steps = json!({"later": [{"wait": 0.3}, {"ask": {"tool": {"title": "It"}}}]});
    let script = bench.file("script.json", steps.to_string());
    let agent = ["chat", "--", AGENTLINE, "demo-agent", "--script", text(&script)];
    let mut terminal = Terminal::new(&mut bench.agentline(&agent));
    terminal.until("›");
    terminal.types("later\ry");
    terminal.until("then Enter\n? y\n");
    terminal.types("\r");
    terminal.until("what was typed before is kept for");
    terminal.types("n\r");
    terminal.until("✗ rejected");
    terminal.until("\n› y\n");
    terminal.types("\u{15}\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn c2_ctrl_c_gives_back_what_waits_and_starts_none_of_it() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    terminal.until("›");
    terminal.types("slow 1000\r");
    terminal.until("waiting for the agent");
    terminal.types("one\rtwo\rthree");
    terminal.until("  queued: one\n  queued: two\n› three");
    terminal.types("\u{3}");
    terminal.until("◦ cancelled after");
    let shown = terminal.until("› one\n  two\n  three");
    assert!(!shown.contains("queued"), "{shown}");
    // Where nothing runs, Ctrl-C takes back what is typed, and then there is nothing to take back.
    terminal.types("\u{3}\u{3}");
    let shown = terminal.until("◦ nothing runs; Ctrl-D leaves");
    assert!(!shown.contains("three"), "{shown}");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn ctrl_c_cancels_the_turn_and_ctrl_d_leaves() {
    let bench = Bench::new();
    let (mut terminal, socket) = typed(&bench);
    let raw = terminal.settings();
    let mut caller = speak(&socket, "slow 1000");
    terminal.until("» slow 1000 (from outside)\n");
    terminal.types("\u{3}");
    terminal.until("◦ cancelled after");
    assert_eq!(answer(&mut caller)["result"], json!({"stopReason": "cancelled"}));
    terminal.types("still here\r");
    terminal.until("› still here\nstill here\n◦ completed in");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
    assert_ne!(raw.local_modes, terminal.settings().local_modes, "it was raw while it was typed in");
    assert_eq!(fs::read_dir(bench.path("at")).expect("the folder").count(), 0);
}

#[test]
fn the_second_ctrl_c_does_not_wait() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    let before = terminal.settings();
    // Once it is answered, the session is open: what is typed is a turn at once.
    terminal.types("hello\r");
    terminal.until("◦ completed in");
    terminal.types("hang\r");
    terminal.until("› hang\n");
    terminal.types("\u{3}");
    terminal.until("◦ cancelling; Ctrl-C again ends the agent\n");
    terminal.types("\u{3}");
    assert_eq!(terminal.end().0.code(), Some(130));
    assert_eq!(before.local_modes, terminal.settings().local_modes, "the terminal is as it was");
}

#[test]
fn ctrl_c_may_come_before_the_turn_that_it_cancels_is_shown() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    terminal.types("hello\r");
    terminal.until("◦ completed in");
    // In one piece, with the next line begun: nothing of ours runs between these keys.
    for turn in 1..=20 {
        terminal.types("slow 1000\rnext\u{3}");
        terminal.until_times("◦ cancelling; Ctrl-C again ends the agent\n", turn);
        terminal.until_times("◦ cancelled after", turn);
        terminal.types("\u{3}\u{3}");
        let shown = terminal.until_times("◦ nothing runs; Ctrl-D leaves", turn);
        assert!(!shown.contains("› next"), "{shown}");
    }
    terminal.types("hang\r\u{3}\u{3}");
    assert_eq!(terminal.end().0.code(), Some(130));
}

#[test]
fn a_start_that_takes_too_long_is_ended_by_ctrl_c() {
    let bench = Bench::new();
    let mut terminal =
        Terminal::new(&mut bench.agentline(&["chat", "--", AGENTLINE, "demo-agent", "--fault", "silent"]));
    terminal.until("›");
    terminal.types("hello\r");
    terminal.until("  queued: hello\n");
    terminal.types("\u{3}");
    assert_eq!(terminal.end().0.code(), Some(130));
}

#[test]
fn c1_the_last_words_are_always_there() {
    let bench = Bench::new();
    for run in 0..repeats(10) {
        let mut chat = bench.agentline(&["chat", "--", AGENTLINE, "demo-agent", "--fault", "exit-early"]);
        let mut terminal = Terminal::sized(&mut chat, 120, 24);
        let (status, shown) = terminal.end();
        assert_eq!(status.code(), Some(5));
        assert!(shown.contains("✗ agentline exited during initialize with code 3"), "{run}: {shown}");
        assert!(shown.contains("stderr: Error: DEMO_API_KEY is not set"), "{run}: {shown}");
    }
}

#[test]
fn keys_are_told_and_commands_are_ours() {
    let bench = Bench::new();
    let mut terminal = Terminal::sized(&mut bench.agentline(&["chat"]), 100, 50);
    terminal.until("◦ Enter sends · Alt-Enter: new line · Ctrl-C cancels · Ctrl-D leaves · /help\n");
    terminal.types("/help\r");
    terminal.until("  Ctrl-Z        stops, until fg\n");
    terminal.types("two\u{1b}\rlines\r");
    terminal.until("› two\n  lines\ntwo\nlines\n◦ completed in");
    terminal.types("/quit\r");
    assert_eq!(terminal.end().0.code(), Some(0));
    // And the next one knows what was typed in this one.
    let mut again = Terminal::new(&mut bench.agentline(&["chat"]));
    again.until("›");
    again.types("\u{1b}[A\u{1b}[A");
    again.until("› two\n  lines\n");
    again.types("\u{1b}[B\u{15}\u{4}");
    again.types("\u{15}\u{4}");
    assert_eq!(again.end().0.code(), Some(0));
}

#[test]
fn a_stopped_conversation_gives_the_terminal_back_and_takes_it_again() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    terminal.until("Ctrl-D leaves");
    let raw = terminal.settings().local_modes;
    for open in [false, true] {
        if open {
            terminal.types("\u{15}ask\r");
            terminal.until("then Enter\n?");
        } else {
            terminal.types("half a li");
            terminal.until("› half a li");
        }
        terminal.types("\u{1a}");
        terminal.until_stopped();
        assert_ne!(terminal.settings().local_modes, raw);
        terminal
            .until_seen("nothing of ours", |all| !all.contains("› half a li") && !all.contains("then Enter"));
        terminal.signal(Signal::CONT);
        terminal.until(if open { "then Enter\n?" } else { "› half a li" });
        assert_eq!(terminal.settings().local_modes, raw);
    }
    terminal.types("n\r");
    terminal.until("1 rejected");
    // A stop that nobody can catch: whoever continues us has set the terminal as he likes.
    terminal.signal(Signal::STOP);
    terminal.until_stopped();
    terminal.signal(Signal::CONT);
    terminal.types("still here\r");
    terminal.until("› still here\nstill here\n");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn without_a_shell_of_its_container_ctrl_z_is_a_key_that_does_nothing() {
    let is_allowed =
        Command::new("unshare").args(["-pf", "true"]).status().is_ok_and(|status| status.success());
    if !is_allowed {
        return;
    }
    let bench = Bench::new();
    // The shell is of a session and a group that are not of the container: they have no number there.
    let mut contained = Command::new("unshare");
    contained.args(["-pf", "sh", "-c", "\"$@\"; exit $?", "sh", AGENTLINE, "chat"]);
    contained.env_clear().env("HOME", bench.path("home")).env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::new(contained.current_dir(bench.path("work")));
    terminal.until("Ctrl-D leaves");
    terminal.types("half a li");
    terminal.until("› half a li");
    terminal.types("\u{1a}ne\r");
    terminal.until("› half a line\nhalf a line\n");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_terminal_of_another_size_is_drawn_anew() {
    let bench = Bench::new();
    let mut terminal = Terminal::new(&mut bench.agentline(&["chat"]));
    terminal.until("Ctrl-D leaves");
    terminal.resize(40, 24);
    terminal.types("a text that is longer than forty columns are wide");
    terminal.until("› a text that is longer than forty colu\n  mns are wide");
    terminal.types("\u{15}\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_terminal_that_cannot_draw_gets_no_escapes_and_asks_all_the_same() {
    let bench = Bench::new();
    let mut dumb = bench.agentline(&["chat"]);
    let mut terminal = Terminal::new(dumb.env("TERM", "dumb"));
    terminal.until("◦ Enter sends · Ctrl-C cancels · Ctrl-D leaves · /help\n");
    terminal.types("/help\n");
    assert!(!terminal.until("  Ctrl-Z        stops, until fg\n").contains("Alt-Enter"));
    terminal.types("ask\n");
    terminal.until("y, a or n, then Enter ›");
    terminal.types("maybe\n");
    terminal.until("! not an answer");
    terminal.types("y\n");
    terminal.until("1 allowed");
    terminal.types("\u{4}");
    let (status, _) = terminal.end();
    assert_eq!((status.code(), terminal.escapes()), (Some(0), 0));
    let mut run = bench.agentline(&["run", "slow 1"]);
    let mut terminal = Terminal::new(run.env("TERM", "dumb"));
    let (status, _) = terminal.end();
    assert_eq!((status.code(), terminal.escapes()), (Some(0), 0));
}

#[test]
fn what_waits_and_cannot_be_given_back_is_told() {
    let bench = Bench::new();
    let mut dumb = bench.agentline(&["chat"]);
    let mut terminal = Terminal::new(dumb.env("TERM", "dumb"));
    terminal.types("slow 1000\n");
    terminal.until("1\n");
    terminal.types("one\ntwo\n/help\n");
    terminal.until("/list-agents");
    terminal.signal(Signal::INT);
    terminal.until("◦ not said: one\n◦ not said: two\n");
    terminal.until("◦ cancelled after");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn in_a_pipe_a_line_that_follows_a_question_is_its_answer() {
    let bench = Bench::new();
    let lines = bench.file("lines", "ask\nmaybe\ny\nhello there\nask\n");
    let chat = done(bench.agentline(&["chat", "-p", "ask"]).stdin(fs::File::open(lines).expect("a file")));
    assert_eq!(chat.code, Some(0), "{}", chat.err);
    assert!(
        chat.out.contains("I may: the command ran.") && chat.out.contains("hello there\n"),
        "{}",
        chat.out
    );
    // The end of input says no to the second one.
    assert!(
        chat.out.contains("I may not") && chat.err.contains("! not an answer"),
        "{}{}",
        chat.out,
        chat.err
    );
}

#[test]
fn g5_a_line_without_an_end_is_bounded() {
    let bench = Bench::new();
    let zero = || fs::File::open("/dev/zero").expect("a device");
    let chat = done(bench.agentline(&["chat"]).stdin(zero()));
    assert_eq!(chat.code, Some(2), "{}", chat.err);
    assert!(chat.err.contains("✗ a line of more than 4 MiB: nothing more is read"), "{}", chat.err);
    let run = done(bench.agentline(&["run", "--json", "-p", "ask", "ask"]).stdin(zero()));
    assert_eq!(run.result()["permissions"][0]["decision"], "rejected");
}

#[test]
fn chat_takes_what_run_takes() {
    let bench = Bench::new();
    let lines = bench.file("lines", "ask\n");
    let trace = bench.path("trace");
    let mut chat = bench.agentline(&["chat", "-p", "allow", "--trace", text(&trace)]);
    let chat = done(chat.stdin(fs::File::open(&lines).expect("a file")));
    assert!(chat.out.contains("I may: the command ran."), "{}", chat.out);
    assert!(chat.err.contains("✓ allowed once: Clean the build folder (--permission allow)"), "{}", chat.err);
    assert!(fs::read_to_string(trace).expect("a trace").contains("session/prompt"));
    let hang = bench.file("hang", "hang\n");
    let mut chat = bench.agentline(&["chat", "--idle-timeout", "100ms"]);
    let chat = done(chat.stdin(fs::File::open(&hang).expect("a file")));
    assert_eq!(chat.code, Some(124), "{}", chat.err);
    let mut chat = bench.agentline(&["chat", "--timeout", "200ms"]);
    let chat = done(chat.stdin(fs::File::open(&hang).expect("a file")));
    assert_eq!(chat.code, Some(124), "{}", chat.err);
    assert!(chat.err.contains("✗ the conversation took longer than --timeout"), "{}", chat.err);
}

#[test]
fn chat_sets_what_run_sets_and_says_what_cannot_be() {
    let bench = Bench::new();
    let chat = |args: &[&str]| {
        let lines = bench.file("lines", "hi\n");
        done(bench.agentline(&["chat"]).args(args).stdin(fs::File::open(lines).expect("a file")))
    };
    let trace = bench.path("trace");
    let set = ["--mode", "code", "--model", "large", "--set", "model=small", "--trace", text(&trace)];
    let well = chat(&set);
    assert_eq!((well.code, &*well.out), (Some(0), "hi\n"), "{}", well.err);
    let trace = fs::read_to_string(trace).expect("a trace");
    let sent = |method: &str| trace.matches(&format!("{method}\\\"")).count();
    let sent = ["session/set_mode", "session/set_config_option", "session/prompt"].map(sent);
    assert_eq!(sent, [1, 2, 1], "{trace}");
    for (args, code, said) in [
        (&["--model", "nosuch"][..], 1, "one of small, large"),
        (&["--set", "nosuch=1"], 2, "nosuch"),
        (&["--resume", "s-9"], 2, "session/load"),
        (&["--resume", "last"], 2, "session/list"),
    ] {
        let bad = chat(args);
        assert_eq!((bad.code, &*bad.out), (Some(code), ""), "{args:?} {}", bad.err);
        assert!(bad.err.contains(said), "{args:?} {}", bad.err);
    }
}

#[test]
fn a_terminal_that_goes_away_ends_the_agent() {
    let bench = Bench::new();
    let (command, witness) = bench.watched(&[AGENTLINE, "demo-agent"]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut terminal = Terminal::new(bench.agentline(&["chat"]).args(&command));
    terminal.until("›");
    kill_process(Pid::from_child(terminal.child()), Signal::HUP).expect("it lives");
    assert_eq!(terminal.end().0.code(), Some(129));
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
