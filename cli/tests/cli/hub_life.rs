//! A hub as it comes and goes, who it lets in, and how it gets on with programs of another version.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::hub_stories::Desk;
use crate::rig::{AGENTLINE, Running, done, text};

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

/// A hub of that version: what it answers to each request, with `requestId` put in.
fn stand_in(desk: &Desk, version: &'static str, answer: fn(&str) -> Vec<Value>) {
    let private = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("ours");
    };
    fs::create_dir_all(desk.home.state("")).expect("a folder");
    let path = desk.home.state("control.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    private(&desk.home.state(""), 0o700);
    private(&path, 0o600);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let serving =
        json!({"host": host, "pid": 7, "control": text(&path), "version": version, "startedAt": "x"});
    fs::write(desk.home.state("hub.json"), serving.to_string()).expect("a file");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let lines = BufReader::new(client.try_clone().expect("a descriptor")).lines();
            for line in lines.map_while(Result::ok) {
                let request: Value = serde_json::from_str(&line).expect("JSON");
                let answers = match request["command"].as_str().expect("a command") {
                    "health" => vec![json!({"ok": true, "result": {"ok": true, "version": version}})],
                    command => answer(command),
                };
                for mut answer in answers {
                    answer["requestId"] = request["requestId"].clone();
                    let _ = writeln!(&client, "{answer}");
                }
            }
        }
    });
}

#[test]
fn a_hub_of_another_version_is_told_once() {
    let desk = Desk::new();
    stand_in(&desk, "0.0.1", |_| vec![json!({"ok": true, "result": []})]);
    let listed = desk.run(&["session", "list"]);
    let version = env!("CARGO_PKG_VERSION");
    let said = format!("! the hub is 0.0.1, this is {version}: agentline hub restart --when-idle\n");
    assert_eq!(listed.err.matches(&said).count(), 1, "{listed:?}");
    fs::remove_file(desk.home.state("hub.json")).expect("a file");
}

#[test]
fn what_an_older_hub_does_not_know_is_refused_with_the_way_out() {
    let desk = Desk::new();
    stand_in(&desk, "0.0.1", |command| {
        let message = format!("unknown command: {command}");
        vec![json!({"ok": false, "error": "unknown_command", "message": message})]
    });
    let ways: [&[&str]; 3] =
        [&["session", "rename", "s1", "docs"], &["approval", "list"], &["session", "watch", "s1"]];
    for args in ways {
        let refused = desk.run(args);
        assert_eq!((refused.code, &*refused.out), (Some(1), ""), "{refused:?}");
        assert!(refused.err.contains("try: agentline hub restart"), "{refused:?}");
    }
    fs::remove_file(desk.home.state("hub.json")).expect("a file");
}

#[test]
fn what_a_later_hub_adds_is_no_trouble() {
    let desk = Desk::new();
    stand_in(&desk, "99.0.0", |command| {
        let row = json!({"id": "s1", "title": "the moon", "status": "error", "statusReason": "eclipse",
            "lastActivityAt": "2026-12-01T00:00:00+00:00", "createdAt": "2026-12-01T00:00:00+00:00",
            "updatedAt": "2026-12-01T00:00:00+00:00", "turnCount": 0, "runtimeKind": "external",
            "gaRuntimeKind": "external", "runtimeLabel": "One", "agent": "one", "channel": "acp", "cwd": "/w",
            "policy": "ask", "phases": [1, 2], "controllable": true, "live": true});
        if command == "sessions.list" {
            return vec![json!({"ok": true, "result": [row], "tides": 2})];
        }
        let data = |data: Value| json!({"stream": "event", "data": data});
        vec![
            data(
                json!({"kind": "session", "sessionId": "s1", "timestamp": "x"})
                    .as_object()
                    .map(|head| {
                        let mut whole = row.as_object().expect("a row").clone();
                        whole.extend(head.clone());
                        Value::Object(whole)
                    })
                    .expect("a frame"),
            ),
            data(json!({"kind": "synced", "timestamp": "x"})),
            data(json!({"kind": "moonrise", "sessionId": "s1", "timestamp": "x", "height": 3})),
            data(
                json!({"kind": "turn_progress", "sessionId": "s1", "timestamp": "x", "delta": "still\n", "mass": 7}),
            ),
            json!({"stream": "end", "reason": "hub_stopping"}),
        ]
    });
    let listed = desk.run(&["session", "list", "-a"]);
    assert!(listed.code == Some(0) && listed.out.contains("the moon"), "{listed:?}");
    let watched = desk.run(&["session", "watch", "s1"]);
    let all = format!("{}{}", watched.out, watched.err);
    assert!(all.contains("moonrise") && all.contains("still"), "{watched:?}");
    fs::remove_file(desk.home.state("hub.json")).expect("a file");
}

#[test]
fn what_an_older_program_asks_is_answered() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    let hub = UnixStream::connect(desk.home.state("control.sock")).expect("a hub");
    let mut answers = BufReader::new(hub.try_clone().expect("a descriptor")).lines();
    let mut ask = |request: Value| {
        writeln!(&hub, "{request}").expect("a reader");
        let line = answers.next().expect("an answer").expect("a line");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    // Nothing but what the first version of the words had, and what it may have had besides.
    let args = json!({"agent": "one", "task": "hello", "colour": "blue"});
    let new = ask(json!({"schemaVersion": 1, "requestId": "r1", "command": "session.new", "args": args}));
    assert_eq!((&new["ok"], &new["requestId"]), (&json!(true), &json!("r1")), "{new}");
    let id = new["result"]["session"]["id"].clone();
    let wait = ask(json!({"command": "session.wait", "args": {"sessionId": id}}));
    assert_eq!(wait["result"]["reason"], "completed", "{wait}");
    let list = ask(json!({"command": "sessions.list"}));
    assert_eq!(list["result"][0]["id"], id, "{list}");
    let later = ask(json!({"schemaVersion": 3, "command": "sessions.list"}));
    assert_eq!(later["error"], "schema_mismatch", "{later}");
}

#[test]
fn an_agent_that_is_switched_off_or_removed_is_left_in_its_own_terminal() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    let chat = |agent| {
        let args = ["chat", "--json", "--announce", "--agent", agent];
        let mut chat = Running::new(desk.command(&args).stdin(Stdio::piped()));
        chat.until_said("◦ shown by the hub");
        chat
    };
    for (agent, reason) in [("one", "agent_disabled"), ("two", "agent_removed")] {
        let mut chat = chat(agent);
        let row = loop {
            let rows = desk.run(&["session", "list", "--json"]).objects();
            if let Some(row) = rows.into_iter().find(|row| row["agent"] == agent) {
                break row;
            }
            std::thread::yield_now();
        };
        assert_eq!((&row["controllable"], &row["live"]), (&json!(true), &json!(true)), "{row}");
        let id = row["id"].as_str().expect("an id");
        assert_eq!(desk.run(&["session", "send", id, "slow 60000"]).code, Some(0));
        chat.until("text");
        if agent == "one" {
            assert_eq!(desk.run(&["agent", "disable", "one"]).code, Some(0));
        } else {
            fs::remove_file(desk.home.bench.path("home/.botbus/agents/two.json")).expect("a manifest");
            assert_eq!(desk.run(&["session", "new", "--agent", "two", "hello"]).code, Some(3));
        }
        let left = desk.row(id);
        assert_eq!((&left["status"], &left["statusReason"]), (&json!("cancelled"), &json!(reason)), "{left}");
        assert_ne!(left["controllable"], true, "{left}");
        chat.until_said("! the hub is gone: the conversation goes on without it");
        chat.signal(Signal::TERM);
        chat.end();
    }
}

/// A disk of its own below a hub, as root.
struct Disk<'a>(&'a Desk);

impl<'a> Disk<'a> {
    fn below(desk: &'a Desk) -> Option<Self> {
        let folder = desk.home.state("");
        fs::create_dir_all(&folder).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", text(&folder)]);
        mount.output().is_ok_and(|mounted| mounted.status.success()).then_some(Self(desk))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        self.0.run(&["hub", "stop", "-y"]);
        let _ = Command::new("umount").args(["-l", text(&self.0.home.state(""))]).status();
    }
}

#[test]
fn what_a_full_disk_does_not_take_is_told_and_stored_when_there_is_room() {
    let desk = Desk::new();
    let Some(_disk) = Disk::below(&desk) else { return };
    let first = desk.session("one", "hello");
    assert_eq!(desk.wait(&first), Some(0));
    let filler = desk.home.state("filler");
    assert!(fs::write(&filler, vec![0; 1 << 20]).is_err(), "the disk is full");
    // That it is full shows at the first thing that is stored.
    assert_eq!(desk.run(&["session", "send", &first, "more"]).code, Some(0));
    assert_eq!(desk.wait(&first), Some(0));
    let told = desk.run(&["session", "new", "--agent", "one", "hello"]);
    assert!(told.code == Some(0) && told.err.contains("it cannot be stored"), "{told:?}");
    let second = told.out.trim().to_owned();
    assert_eq!(desk.wait(&second), Some(0), "it works all the same");
    let status = desk.run(&["hub", "status"]);
    assert!(status.err.contains("make room on the disk"), "{status:?}");
    fs::remove_file(filler).expect("it is there");
    assert_eq!(desk.run(&["hub", "stop", "-y"]).code, Some(0));
    let rows = desk.run(&["session", "list", "-a", "--json"]).objects();
    let stored = |id: &str| rows.iter().any(|row| row["id"] == id && row["status"] == "completed");
    assert!(stored(&first) && stored(&second), "{rows:?}");
}
