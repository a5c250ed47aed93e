//! The process of the hub: started once, found from everywhere, holding nothing of whoever started it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::rig::{AGENTLINE, Bench, Done, Running, done, text};

/// A home in which a hub may run. It is gone with it.
pub(crate) struct Home {
    pub(crate) bench: Bench,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { bench: Bench::new() }
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        done(&mut self.bench.agentline(args))
    }

    /// What `hub.json` says.
    pub(crate) fn serving(&self) -> Option<Value> {
        let file = fs::read(self.state("hub.json")).ok()?;
        Some(serde_json::from_slice(&file).expect("JSON"))
    }

    pub(crate) fn state(&self, name: &str) -> std::path::PathBuf {
        self.bench.path("home/.local/state/agentline").join(name)
    }

    /// The hub is killed, as by a crash.
    pub(crate) fn kill(&self) {
        let pid = self.serving().and_then(|serving| serving["pid"].as_i64()).expect("a hub");
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::KILL).expect("it lives");
        // Its lock goes with it.
        while agentline_os_is_taken(&self.state("hub.lock")) {
            std::thread::yield_now();
        }
    }
}

fn agentline_os_is_taken(path: &std::path::Path) -> bool {
    let file = fs::File::open(path).expect("a lock");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).is_err()
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.bench.agentline(&["hub", "stop", "-y"]).output();
    }
}

#[test]
fn two_that_find_none_at_the_same_moment_start_one() {
    let home = Home::new();
    for round in 0..100 {
        let starts = || Running::new(&mut home.bench.agentline(&["hub", "start", "--json"]));
        let both = [starts(), starts()].map(Running::end);
        let pids = both.map(|(status, out, err)| {
            assert!(status.success(), "{round}: {err}");
            serde_json::from_str::<Value>(&out).expect(&err)["pid"].clone()
        });
        assert_eq!(pids[0], pids[1], "{round}");
        let stopped = home.run(&["hub", "stop"]);
        assert_eq!((stopped.code, &*stopped.err), (Some(0), "◦ stopped\n"), "{round}");
        assert_eq!(home.serving(), None, "{round}");
    }
}

#[test]
fn a_detached_hub_keeps_nothing_of_its_caller() {
    let home = Home::new();
    let mut shell = Command::new("/bin/sh");
    let line = format!("exec 9>&1; id=$({AGENTLINE} hub start 2>&1); echo \"$id\"");
    let command = home.bench.agentline(&[]);
    shell.args(["-c", &line]).env_clear().current_dir(home.bench.path("work"));
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // It returns: nobody holds the pipe, nor the other descriptor.
    let started = done(&mut shell);
    assert!(started.out.starts_with("◦ hub started (pid "), "{started:?}");
    let pid = home.serving().expect("a hub")["pid"].clone();
    if cfg!(target_os = "linux") {
        let process = std::path::PathBuf::from(format!("/proc/{pid}"));
        assert_eq!(fs::read_link(process.join("cwd")).expect("a folder"), std::path::Path::new("/"));
        assert_eq!(fs::read_link(process.join("fd/0")).expect("stdin"), std::path::Path::new("/dev/null"));
        let log = home.state("hub.log");
        for fd in ["fd/1", "fd/2"] {
            assert_eq!(fs::read_link(process.join(fd)).expect("a log"), log);
        }
        let status = fs::read_to_string(process.join("status")).expect("a status");
        assert!(status.contains("Umask:\t0077"), "{status}");
        let stat = fs::read_to_string(process.join("stat")).expect("a stat");
        let session = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3)).expect("a session");
        assert_eq!(session, pid.to_string(), "it leads a session");
        let kept = fs::read_dir(process.join("fd")).expect("descriptors").flatten();
        let kept = kept.filter_map(|fd| fs::read_link(fd.path()).ok());
        assert_eq!(kept.filter(|to| to.to_string_lossy().starts_with("pipe:")).count(), 0);
    }
    for name in ["", "hub.json", "hub.lock", "start.lock", "hub.log", "control.sock"] {
        let mode = fs::metadata(home.state(name)).expect(name).permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{name} {mode:o}");
    }
}

#[test]
fn nobody_starts_one_where_that_is_forbidden() {
    let home = Home::new();
    let none = "✗ no hub runs, and none is started from here: ";
    for (name, why) in [
        ("AGENTLINE_INSIDE", "an agent started us (AGENTLINE_INSIDE is set)"),
        ("AGENTLINE_GUARDIAN", "an agent started us (AGENTLINE_GUARDIAN is set)"),
        ("CLAUDECODE", "an agent started us (CLAUDECODE is set)"),
        ("AGENTLINE_NO_START", "AGENTLINE_NO_START is set"),
    ] {
        let ended = done(home.bench.agentline(&["hub", "start"]).env(name, "1"));
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.err.starts_with(&format!("{none}{why}\n")), "{ended:?}");
    }
    let ended = home.run(&["hub", "start", "--no-start"]);
    assert!(ended.code == Some(4) && ended.err.starts_with(&format!("{none}--no-start\n")), "{ended:?}");
    let ended = home.run(&["hub", "start", "--socket", "/no/such.sock"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert_eq!(home.serving(), None);
}

#[test]
fn who_only_looks_starts_none() {
    let home = Home::new();
    for args in [&["hub"][..], &["hub", "status"], &["hub", "call", "ping"], &["hub", "pipe"]] {
        let ended = home.run(args);
        assert_eq!(ended.code, Some(4), "{ended:?}");
    }
    let ended = home.run(&["hub", "stop"]);
    assert_eq!((ended.code, &*ended.err), (Some(0), "◦ no hub runs\n"));
    assert!(!home.state("").exists());
}

#[test]
fn one_that_was_killed_is_replaced_and_a_second_one_refused() {
    let home = Home::new();
    let pid = |home: &Home| home.serving().expect("a hub")["pid"].clone();
    assert_eq!(home.run(&["hub", "start"]).code, Some(0));
    let first = pid(&home);
    let second = home.run(&["hub", "run"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let said = format!("(pid {first} on ");
    assert!(second.err.contains(&said) && second.err.contains("control.sock"), "{second:?}");
    assert_eq!(pid(&home), first);

    home.kill();
    let ended = home.run(&["hub", "status"]);
    assert!(ended.code == Some(4) && ended.err.starts_with("✗ no hub runs in "), "{ended:?}");
    assert_eq!(home.run(&["hub", "start"]).code, Some(0));
    assert_ne!(pid(&home), first);
    let restarted = home.run(&["hub", "restart"]);
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    assert_eq!(home.run(&["hub", "status"]).code, Some(0));
}

#[test]
fn a_hub_that_ends_at_once_is_quoted() {
    let home = Home::new();
    fs::create_dir_all(home.state("control.sock")).expect("a folder in the way");
    let ended = home.run(&["hub", "start"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.starts_with("✗ the hub ended at once: "), "{ended:?}");
    assert!(ended.err.contains("not a socket") && ended.err.contains("try: tail "), "{ended:?}");
}

#[test]
fn the_hub_of_another_machine_that_shares_the_home_is_named() {
    let home = Home::new();
    fs::create_dir_all(home.state("")).expect("a folder");
    let serving = r#"{"host":"elsewhere","pid":7,"control":"/x","version":"1","startedAt":"x"}"#;
    fs::write(home.state("hub.json"), serving).expect("a file");
    for args in [&["hub", "status"][..], &["hub", "start"]] {
        let ended = home.run(args);
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.err.starts_with("✗ the hub of this folder runs on elsewhere (pid 7)\n"), "{ended:?}");
    }
    fs::remove_file(home.state("hub.json")).expect("a file");
}

#[test]
fn a_hub_in_the_foreground_says_where_it_serves_and_leaves_at_a_signal() {
    for (signal, socket) in [(Signal::INT, true), (Signal::TERM, false)] {
        let home = Home::new();
        let mut hub = Running::new(&mut home.bench.agentline(&["hub", "run", "--json"]));
        let listening = hub.until("listening");
        assert_eq!(listening["control"], text(&home.state("control.sock")));
        assert_eq!(listening["pid"], home.serving().expect("a hub")["pid"]);
        let path = text(&home.state("control.sock")).to_owned();
        let args: &[&str] = if socket { &["--socket", &path] } else { &[] };
        assert_eq!(home.run(&[&["hub", "call", "ping"], args].concat()).out, "{\"pong\":true}\n");
        hub.signal(signal);
        let (status, _, err) = hub.end();
        assert!(status.success() || status.code() == Some(143), "{err}");
        assert!(!home.state("control.sock").exists() && home.serving().is_none());
    }
}

#[test]
fn a_long_log_is_kept_once_and_begun_anew() {
    let home = Home::new();
    fs::create_dir_all(home.state("")).expect("a folder");
    fs::write(home.state("hub.log"), vec![b'x'; (1 << 20) + 1]).expect("a file");
    assert_eq!(home.run(&["hub", "start"]).code, Some(0));
    let old = fs::metadata(home.state("hub.log.1")).expect("it was kept");
    let new = fs::read_to_string(home.state("hub.log")).expect("a new one");
    assert!(old.len() > 1 << 20 && new.contains(" info  ") && new.len() < 1000, "{new}");
}
