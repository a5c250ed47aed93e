//! Hubs of other machines, with a command on this one in the place of ssh.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::hub_process::Home;
use crate::hub_stories::Desk;
use crate::rig::{AGENTLINE, Leash, Running, done, text};

/// Two homes: from one of them the other is `box`.
struct Two {
    here: Home,
    there: Home,
}

impl Two {
    fn new() -> Self {
        let two = Self { here: Home::new(), there: Home::new() };
        two.add("box", &format!("exec {AGENTLINE} hub pipe --start"));
        two
    }

    /// What a shell does there is what ssh would do.
    fn add(&self, name: &str, script: &str) {
        let home = format!("HOME={}", text(&self.there.bench.path("home")));
        let words =
            ["host", "add", name, "--", "env", "-i", &home, "PATH=/usr/bin:/bin", "/bin/sh", "-c", script];
        let added = self.here.run(&words);
        assert_eq!(added.code, Some(0), "{added:?}");
    }
}

#[test]
fn what_a_login_shell_says_is_passed_over() {
    let two = Two::new();
    let banner = "echo 'Welcome!'; echo '{\"mail\":1}'; printf '\\033[2J\\n'; echo noise >&2;";
    two.add("box", &format!("{banner} exec {AGENTLINE} hub pipe --start"));
    let status = two.here.run(&["hub", "status", "--host", "box", "--json"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(status.objects()[0]["pid"], two.there.serving().expect("a hub there")["pid"]);
    assert_eq!(status.objects()[0]["host"], "box");
    assert_eq!(two.here.serving(), None, "none here");
    let called = two.here.run(&["hub", "call", "ping", "--host", "box"]);
    assert_eq!((called.code, &*called.out), (Some(0), "{\"pong\":true}\n"), "{called:?}");
    let by_variable = done(two.here.bench.agentline(&["hub", "call", "ping"]).env("AGENTLINE_HOST", "box"));
    assert_eq!(by_variable.out, "{\"pong\":true}\n");
    let stopped = two.here.run(&["hub", "stop", "--host", "box"]);
    assert_eq!((stopped.code, &*stopped.err), (Some(0), "◦ stopped\n"));
}

#[test]
fn why_a_machine_cannot_be_reached_is_said_with_the_next_step() {
    let two = Two::new();
    for (name, script, said, hint) in [
        (
            "bare",
            "no-such-agentline hub pipe",
            "bare: agentline is not in the PATH there: ",
            "try: agentline host add bare -- ",
        ),
        (
            "locked",
            "echo 'Permission denied (publickey).' >&2; exit 255",
            "locked cannot be reached: Permission denied (publickey).",
            "try: ssh locked",
        ),
        ("dead", "exit 3", "dead: the connection ended with code 3", "try: agentline host check dead"),
        (
            "none",
            &format!("exec {AGENTLINE} hub pipe"),
            "none: no hub runs in ",
            "try: agentline hub start --host none",
        ),
    ] {
        two.add(name, script);
        let ended = two.here.run(&["hub", "status", "--host", name]);
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.err.starts_with(&format!("✗ {said}")) && ended.err.contains(hint), "{ended:?}");
    }
    two.add("mute", "exec sleep 1000");
    let ended = two.here.run(&["hub", "status", "--host", "mute", "--host-timeout", "100ms"]);
    assert!(ended.code == Some(4) && ended.err.contains("mute: no answer in 0.1 s"), "{ended:?}");
}

#[test]
fn a_name_that_would_be_an_option_of_ssh_is_none() {
    let home = Home::new();
    for name in ["-oProxyCommand=touch x", "a b", "", "all", "local"] {
        let ended = home.run(&["host", "add", "--", name]);
        assert_eq!(ended.code, Some(2), "{name} {ended:?}");
        let ended = home.run(&["host", "add", name]);
        assert_eq!(ended.code, Some(2), "{name} {ended:?}");
    }
    for name in ["-oProxyCommand=x", "a b", "$(x)"] {
        let ended = done(home.bench.agentline(&["hub", "status"]).env("AGENTLINE_HOST", name));
        assert_eq!(ended.code, Some(2), "{name} {ended:?}");
    }
    let ended = home.run(&["hub", "status", "--host=-oProxyCommand=x"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[test]
fn machines_are_remembered_and_forgotten() {
    let two = Two::new();
    assert_eq!(two.here.run(&["host", "add", "devbox"]).code, Some(0));
    let listed = two.here.run(&["host", "list", "--json"]).objects();
    let row = |name: &str| listed.iter().find(|row| row["name"] == name).expect(name)["command"].clone();
    let ssh = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 -o ServerAliveCountMax=3 -- devbox agentline hub pipe";
    assert_eq!(row("devbox"), Value::from(ssh.split(' ').collect::<Vec<_>>()));
    assert_eq!(row("box")[0], "env");
    assert_eq!(two.here.run(&["host", "remove", "devbox"]).code, Some(0));
    assert_eq!(two.here.run(&["host", "remove", "devbox"]).code, Some(3));

    // A file that others may write to would let them run commands here.
    let settings = two.here.bench.path("home/.config/agentline/settings.json");
    std::fs::set_permissions(&settings, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("ours");
    let ended = two.here.run(&["hub", "status", "--host", "box"]);
    assert!(ended.code == Some(2) && ended.err.contains("try: chmod go-w "), "{ended:?}");
}

#[test]
fn a_pipe_says_who_is_there_and_passes_on_what_the_hub_still_says() {
    let home = Home::new();
    let none = home.run(&["hub", "pipe"]);
    let greeting: Value = serde_json::from_str(&none.out).expect("a greeting");
    assert_eq!((none.code, &greeting["hub"]), (Some(4), &Value::from(0)), "{none:?}");
    assert!(greeting["reason"].as_str().is_some_and(|why| why.starts_with("no hub runs")), "{none:?}");

    let mut command = home.bench.agentline(&["hub", "pipe", "--start"]);
    let mut pipe = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let _leash = Leash::of(&pipe);
    let mut stdin = pipe.stdin.take().expect("a pipe");
    stdin.write_all(b"{\"command\":\"ping\"}\n{\"command\":\"version\"}\n").expect("a reader");
    drop(stdin);
    let lines: Vec<String> =
        BufReader::new(pipe.stdout.take().expect("a pipe")).lines().map(Result::unwrap).collect();
    assert_eq!(pipe.wait().expect("it ends").code(), Some(0));
    let greeting: Value = serde_json::from_str(&lines[0]).expect("a greeting");
    assert_eq!(
        (&greeting["hub"], &greeting["pid"]),
        (&Value::from(1), &home.serving().expect("a hub")["pid"])
    );
    assert_eq!(
        lines[1..],
        ["{\"ok\":true,\"result\":{\"pong\":true}}", "{\"ok\":true,\"result\":{\"schemaVersion\":1}}"]
    );

    // Nobody reads, and nothing is said: it leaves all the same.
    let mut pipe = home
        .bench
        .agentline(&["hub", "pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let _leash = Leash::of(&pipe);
    let mut said = BufReader::new(pipe.stdout.take().expect("a pipe"));
    said.read_line(&mut String::new()).expect("a greeting");
    drop(said);
    assert_eq!(pipe.wait().expect("it ends").code(), Some(0));
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
