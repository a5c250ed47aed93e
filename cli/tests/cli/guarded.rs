//! However suddenly we die, nobody is left behind; and however the agent is started, our terminal is ours.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use agentline_tests::driver_table::Witness;
use rustix::process::Signal;

use crate::chat::open;
use crate::rig::{AGENTLINE, Bench, PATIENCE, Running, done, repeats, text};
use crate::terminal::Terminal;

/// `agentline` at the head of a session that has the terminal, as a shell starts it.
fn in_a_session(bench: &Bench, args: &[&str]) -> Command {
    let mut command = bench.agentline(args);
    let mut session = Command::new("setsid");
    session.args(["--ctty", "--wait", AGENTLINE]).args(command.get_args()).env_clear();
    session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    session.current_dir(bench.path("work"));
    command.stdin(Stdio::null());
    session
}

#[test]
fn a1_child_steals_terminal_what_an_agent_runs_finds_no_terminal_and_nothing_stops() {
    for how in [&["run", "hello"][..], &["agent", "check", "--prompt", "hello"], &["chat"]] {
        let bench = Bench::new();
        let said = bench.path("said");
        let script = "(exec 3</dev/tty) 2>\"$0\"; exec \"$1\" demo-agent";
        let agent = ["--", "/bin/sh", "-c", script, text(&said), AGENTLINE];
        let mut terminal = Terminal::new(&mut in_a_session(&bench, &[how, &agent].concat()));
        if how == ["chat"] {
            terminal.types("hello\r");
        }
        terminal.until("Hello");
        if how == ["chat"] {
            terminal.types("\u{4}");
        }
        assert_eq!(terminal.end().0.code(), Some(0), "{how:?}");
        let said = fs::read_to_string(said).unwrap();
        assert!(said.contains("No such device or address"), "{how:?}: {said}");
    }
}

#[test]
fn a2_eof_cuts_own_cleanup_an_agent_that_saves_at_the_end_of_its_input_is_not_cut() {
    let bench = Bench::new();
    let script = "exec 9>\"$0\"; \"$1\" demo-agent; sleep 0.3; echo saved >&9";
    let path = bench.path("witness");
    let witness = Witness::new(&path);
    let mut run = Running::new(&mut bench.agentline(&[
        "run",
        "--json",
        "slow 1000",
        "--",
        "/bin/sh",
        "-c",
        script,
        text(&path),
        AGENTLINE,
    ]));
    run.until("text");
    run.signal(Signal::KILL);
    assert_eq!(witness.last_words(), "saved\n");
}

#[test]
fn a2_a_tool_that_left_the_agents_session_is_found() {
    let bench = Bench::new();
    let (agent, witness) = bench.watched(&[
        "/bin/sh",
        "-c",
        "setsid sh -c 'trap \"\" HUP; sleep 1000' & exec \"$0\" demo-agent",
        AGENTLINE,
    ]);
    let mut run = Running::new(bench.agentline(&["run", "--json", "slow 1000"]).args(agent));
    run.until("text");
    run.signal(Signal::KILL);
    assert_eq!(witness.last_words(), "");
}

#[test]
fn a4_what_a_killed_check_left_is_removed_by_the_next() {
    let bench = Bench::new();
    let place = bench.path("tmp");
    fs::create_dir(&place).unwrap();
    let left = || fs::read_dir(&place).unwrap().count();
    let check = |agent: &[&str]| {
        let mut command = bench.agentline(&[&["agent", "check", "--json", "--"], agent].concat());
        command.env("TMPDIR", &place);
        command
    };
    let path = bench.path("witness");
    let mut witness = Witness::new(&path);
    let mut run =
        Running::new(&mut check(&["/bin/sh", "-c", "echo here >\"$0\"; exec sleep 1000", text(&path)]));
    witness.wait_for_text("here");
    assert_eq!(left(), 1);
    run.signal(Signal::KILL);
    run.child().wait().unwrap();
    assert_eq!(left(), 1);
    assert_eq!(done(&mut check(&[AGENTLINE, "demo-agent"])).code, Some(0));
    assert_eq!(left(), 0);
}

#[test]
fn a4_what_a_killed_chat_left_is_removed_by_whoever_looks_and_nothing_else() {
    let bench = Bench::new();
    let live = bench.path("home").join(".agentica/cache/peers/live");
    let (mut chat, socket) = open(&bench, &[]);
    let (mut second, other) = open(&bench, &[]);
    let (token, id) = (socket.with_extension("token"), socket.file_stem().unwrap().to_str().unwrap());
    let record = live.join(format!("{id}.json"));
    let there = || [&socket, &token, &record].map(|file| file.exists());
    assert_eq!(there(), [true; 3]);
    chat.signal(Signal::KILL);
    chat.child().wait().unwrap();
    assert_eq!(there(), [true; 3]);

    // The same, written by another program, and by ours for a socket that is not beside it.
    let text = fs::read_to_string(&record).unwrap();
    let foreign = text.replace("\"program\":\"agentline\"", "\"program\":\"other\"").replace(id, "foreign");
    fs::write(live.join("foreign.json"), foreign).unwrap();
    let victim = bench.file("work/victim", "precious");
    let lured = text
        .replace(id, "lured")
        .replace(socket.with_file_name("lured.sock").to_str().unwrap(), victim.to_str().unwrap());
    fs::write(live.join("lured.json"), lured).unwrap();

    assert_eq!(done(&mut bench.agentline(&["attach", "list"])).code, Some(0));
    assert_eq!(there(), [false; 3]);
    for kept in [other, live.join("foreign.json"), live.join("lured.json"), victim] {
        assert!(kept.exists(), "{}", kept.display());
    }
    second.signal(Signal::TERM);
    second.child().wait().unwrap();
}

/// As root, who can give files away: what another user could change is refused, and the reason is said.
#[test]
fn g9_what_another_user_could_change_is_refused_with_the_reason() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    let agents = bench.path("home").join(".botbus/agents");
    fs::create_dir_all(&agents).unwrap();
    let manifest = agents.join("mine.json");
    fs::write(&manifest, r#"{"id":"mine","name":"Mine","command":"/bin/cat"}"#).unwrap();
    let list = || {
        let listed = done(&mut bench.agentline(&["agent", "list"]));
        listed.out + &listed.err
    };
    assert!(list().contains("mine"));
    let give = |path: &Path, to: u32| std::os::unix::fs::lchown(path, Some(to), None).unwrap();
    for path in [manifest.clone(), agents.clone(), bench.path("home").join(".botbus")] {
        give(&path, NOBODY);
        assert!(list().contains(&format!("{} belongs to user {NOBODY}", path.display())), "{}", list());
        give(&path, 0);
    }
    let run = || done(&mut bench.agentline(&["run", "--agent", "mine", "hi"]));
    fs::set_permissions(&agents, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = run();
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("can be written by other users (mode 777)"), "{refused:?}");
    fs::set_permissions(&agents, fs::Permissions::from_mode(0o755)).unwrap();

    // A link of somebody else's, on the way to records and to sockets.
    let elsewhere = bench.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir_all(bench.path("home").join(".agentica/cache")).unwrap();
    for (link, place) in [("home/.agentica/cache/peers", None), ("sockets", Some("sockets/deep"))] {
        let link = bench.path(link);
        symlink(&elsewhere, &link).unwrap();
        give(&link, NOBODY);
        let mut chat = bench.agentline(&["chat", "--attachable"]);
        if let Some(place) = place {
            chat.env("AGENTICA_ATTACH_DIR", bench.path(place));
        }
        let refused = done(&mut chat);
        assert_eq!(refused.code, Some(4), "{refused:?}");
        assert!(refused.err.contains(&format!("{} belongs to user {NOBODY}", link.display())), "{refused:?}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        if place.is_none() {
            let refused = done(&mut bench.agentline(&["attach", "list"]));
            assert_eq!(refused.code, Some(4), "{refused:?}");
        }
        fs::remove_file(link).unwrap();
    }
}

/// Starts one run after the other and kills each at another moment of its start: first before it can have started
/// anybody, at last when the agent runs.
#[test]
fn g6_killed_at_any_moment_of_the_start_nobody_is_left() {
    killed_while_it_starts(repeats(60), |command| {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        Killed(child)
    });
}

#[test]
fn g6_killed_at_any_moment_of_the_start_in_a_terminal_nobody_is_left() {
    // Its terminal goes when it has been killed.
    killed_while_it_starts(repeats(20), Terminal::new);
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().expect("it lives");
        self.0.wait().expect("it ends");
    }
}

/// What is started ends when it is dropped, by SIGKILL.
fn killed_while_it_starts<R>(times: u32, starts: impl Fn(&mut Command) -> R) {
    let bench = Bench::new();
    let mark = format!("G6={}", bench.path("").display());
    let (name, value) = mark.split_once('=').expect("a name and a value");
    // It hears neither the end of its input nor the end of the world.
    let agent = ["--", "/bin/sh", "-c", "exec sleep 1000"];
    let start = || starts(bench.agentline(&["run", "hi"]).args(agent).env(name, value));
    let first = start();
    let began = Instant::now();
    while !is_there(&mark, "sleep") {
        thread::yield_now();
    }
    let whole = began.elapsed();
    for moment in 0..=times {
        let run = start();
        let until = Instant::now() + whole * moment / times;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        drop(run);
    }
    drop(first);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && is_there(&mark, "") {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(!is_there(&mark, ""), "somebody is left");
}

/// Whether a process of that variable and that program lives.
fn is_there(mark: &str, program: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("the proc file system").flatten();
    processes.map(|process| process.path()).any(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes()) && runs(&process, program)
    })
}

fn runs(process: &Path, program: &str) -> bool {
    fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim().starts_with(program))
}

/// The user that owns nothing.
const NOBODY: u32 = 65534;
