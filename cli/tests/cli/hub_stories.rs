//! The hub in people's hands: real agents, real processes, and commands as they are typed in several terminals.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::hub_process::Home;
use crate::rig::{AGENTLINE, Done, Running, done, text};
use crate::terminal::Terminal;

/// A home with two agents in it.
pub(crate) struct Desk {
    pub(crate) home: Home,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let desk = Self { home: Home::new() };
        for id in ["one", "two"] {
            desk.add(id, &[AGENTLINE, "demo-agent"]);
        }
        desk
    }

    pub(crate) fn add(&self, id: &str, command: &[&str]) {
        let added = self.run(&[&["agent", "add", id, "--"], command].concat());
        assert_eq!(added.code, Some(0), "{added:?}");
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        self.home.run(args)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.home.bench.agentline(args)
    }

    /// A session of that agent, and its id.
    pub(crate) fn session(&self, agent: &str, prompt: &str) -> String {
        let started = self.run(&["session", "new", "-q", "--agent", agent, prompt]);
        assert_eq!(started.code, Some(0), "{started:?}");
        started.out.trim().to_owned()
    }

    pub(crate) fn wait(&self, id: &str) -> Option<i32> {
        self.run(&["session", "wait", id, "--timeout", "30s"]).code
    }

    pub(crate) fn row(&self, id: &str) -> Value {
        let rows = self.run(&["session", "list", "-a", "--json"]).objects();
        rows.into_iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id}"))
    }

    /// An agent that follows a script.
    pub(crate) fn scripted(&self, id: &str, steps: &Value) {
        let script = self.home.bench.file(&format!("{id}.json"), steps.to_string());
        self.add(id, &[AGENTLINE, "demo-agent", "--script", text(&script)]);
    }

    pub(crate) fn in_terminal(&self, args: &[&str], columns: u16) -> Terminal {
        Terminal::sized(&mut self.command(args), columns, 30)
    }

    /// Waits until so many questions are open.
    pub(crate) fn until_asked(&self, count: usize) -> Vec<Value> {
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
fn the_first_session_starts_a_hub_and_goes_on_without_us() {
    let desk = Desk::new();
    let started = desk.run(&["session", "new", "--agent", "one", "-n", "login", "hello"]);
    assert_eq!((started.code, &*started.out), (Some(0), "s1\n"), "{started:?}");
    let pid = desk.home.serving().expect("a hub")["pid"].clone();
    let work = desk.home.bench.path("work");
    let lines: Vec<&str> = started.err.lines().collect();
    assert_eq!(lines[0], format!("◦ hub started (pid {pid}; agentline hub stop)"));
    assert_eq!(lines[1], format!("◦ login · one · {}", text(&work.canonicalize().expect("a folder"))));
    assert_eq!(lines[2], "  try: agentline session attach s1 · agentline approval list --watch");

    assert_eq!(desk.wait("login"), Some(0));
    let answer = desk.run(&["session", "show", "s1", "--last"]);
    assert!(answer.out.starts_with("Hello! I am a scripted agent"), "{answer:?}");
    let shown = desk.run(&["session", "show", "last"]);
    assert!(shown.out.starts_with("› hello\n"), "{shown:?}");
    let listed = desk.run(&["session", "list"]);
    let cells: Vec<&str> = listed.out.trim_end().split('\t').collect();
    assert_eq!((cells[0], cells[1], cells[2], cells[3]), ("s1", "login", "one", "completed"), "{listed:?}");
}

#[test]
fn its_id_is_all_that_a_script_gets_and_the_script_goes_on() {
    let desk = Desk::new();
    let line = format!(
        "id=$({AGENTLINE} session new -q -p reject --agent one ask) && {AGENTLINE} session wait \"$id\" --timeout 30s && \
         {AGENTLINE} session show \"$id\" --last"
    );
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &line]).env_clear().current_dir(desk.home.bench.path("work"));
    let command = desk.command(&[]);
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = done(&mut shell);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.out.is_empty(), "{ended:?}");
}

#[test]
fn whoever_sits_elsewhere_approves_and_the_second_answer_is_refused() {
    let desk = Desk::new();
    let id = desk.session("two", "ask");
    assert_eq!(desk.wait(&id), Some(8), "it waits for an answer");
    assert_eq!(desk.row(&id)["status"], "waiting_approval");
    let mut watch = Running::new(&mut desk.command(&["session", "watch", &id, "--json"]));
    watch.until_some(|frame| frame["kind"] == "synced");
    let asked = desk.run(&["approval", "list", "--json"]).objects();
    assert_eq!((asked.len(), &asked[0]["sessionId"]), (1, &Value::from(&*id)), "{asked:?}");
    let question = asked[0]["approvalId"].as_str().expect("an id").to_owned();
    let shown = desk.run(&["approval", "show", "--json"]);
    assert_eq!((shown.code, shown.out.matches("\"type\":").count()), (Some(0), 1), "{shown:?}");

    // A program of an agent's may not decide that.
    for decides in [["approve", &question].as_slice(), &["session", "delete", &id]] {
        let inside = done(desk.command(decides).env("AGENTLINE_INSIDE", "two"));
        assert_eq!(inside.code, Some(1), "{inside:?}");
        assert!(inside.err.contains("may not decide"), "{inside:?}");
    }

    let approved = desk.run(&["approve"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.err.starts_with("✓ allowed once: "), "{approved:?}");
    assert!(approved.err.ends_with(&format!(" ({id})\n")), "{approved:?}");
    let resolved = watch.until_some(|frame| frame["kind"] == "resolved");
    assert_eq!(
        (&resolved["approvalId"], &resolved["by"]),
        (&Value::from(&*question), &Value::from("client"))
    );
    watch.until_some(|frame| frame["kind"] == "run_complete");
    watch.signal(Signal::INT);
    assert_eq!(watch.end().0.code(), Some(130));

    let second = desk.run(&["deny", &question]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let unknown = desk.run(&["approve", "a999"]);
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
    let all = desk.run(&["approve", "all"]);
    assert_eq!(all.code, Some(2), "{all:?}");
    assert_eq!(desk.wait(&id), Some(0));
}

#[test]
fn a_turn_is_cancelled_and_what_waits_is_held() {
    let desk = Desk::new();
    let id = desk.session("one", "slow 100");
    let sent = desk.run(&["session", "send", &id, "and the docs"]);
    assert_eq!((sent.code, &*sent.out), (Some(0), ""), "{sent:?}");
    assert!(sent.err.contains("queued (1)"), "{sent:?}");
    let cancelled = desk.run(&["session", "cancel", &id]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    let end = format!(" · 1 prompt is held: agentline session queue {id}\n");
    assert!(
        cancelled.err.starts_with("◦ cancelled after ") && cancelled.err.ends_with(&end),
        "{cancelled:?}"
    );
    assert_eq!(desk.wait(&id), Some(1), "only held prompts wait");
    let queue = desk.run(&["session", "queue", &id]);
    assert!(queue.out.ends_with("\tand the docs\n"), "{queue:?}");
    assert_eq!(desk.run(&["session", "queue", &id, "--go"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(0));
    assert_eq!(desk.run(&["session", "show", &id, "--last"]).out, "and the docs\n");
}

#[test]
fn dead_connection_reused_a_crash_is_told_and_can_be_tried_again() {
    let desk = Desk::new();
    let id = desk.session("one", "crash 3");
    let offers = |done: &Done| done.err.contains("session retry");
    let waited = desk.run(&["session", "wait", &id]);
    assert!(waited.code == Some(5) && !offers(&waited), "{waited:?}");
    let row = desk.row(&id);
    assert_eq!((&row["status"], &row["statusReason"]), (&Value::from("error"), &Value::from("agent_exited")));
    // This agent keeps no sessions: what it was in the middle of is lost with its process, and that is said.
    let retried = desk.run(&["session", "retry", &id]);
    assert!(retried.code == Some(5) && retried.err.contains("one cannot continue"), "{retried:?}");
    assert!(!offers(&retried), "{retried:?}");
    let next = desk.session("one", "fail");
    let waited = desk.run(&["session", "wait", &next]);
    assert!(waited.code == Some(1) && offers(&waited), "{waited:?}");
    assert_eq!(desk.run(&["session", "retry", &next]).code, Some(0));
    assert_eq!(desk.wait(&next), Some(1));
}

#[test]
fn what_cannot_be_chosen_is_refused_with_what_can() {
    let desk = Desk::new();
    let id = desk.session("one", "hello");
    let set = |args: &[&str]| desk.run(&[&["session", "set", &id], args].concat());
    let new = desk.run(&["session", "new", "--agent", "one", "--model", "huge", "hello"]);
    assert_eq!((new.code, &*new.out), (Some(5), ""), "{new:?}");
    let (mode, model) = (set(&["--mode", "wild"]), set(&["--model", "huge"]));
    let (option, value) = (set(&["--set", "speed=9"]), set(&["--set", "model=huge"]));
    assert_eq!([&mode, &model, &option, &value].map(|done| done.code), [Some(2); 4]);
    for (done, choices) in
        [(new, "one of small, "), (mode, "one of "), (option, "one of model"), (value, "one of small, ")]
    {
        assert!(done.err.contains(choices), "{done:?}");
    }
    assert!(model.err.contains("one of small, "), "{model:?}");
}

#[test]
fn agents_come_and_go_while_the_hub_runs() {
    let desk = Desk::new();
    let id = desk.session("two", "slow 100");
    assert_eq!(desk.run(&["agent", "disable", "two"]).code, Some(0));
    assert_eq!(desk.wait(&id), Some(130));
    assert_eq!(desk.row(&id)["statusReason"], "agent_disabled");
    let refused = desk.run(&["session", "send", &id, "hello"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert_eq!(desk.run(&["agent", "enable", "two"]).code, Some(0));
    let next = desk.session("two", "hello");
    assert_eq!(desk.wait(&next), Some(0));

    fs::remove_file(desk.home.bench.path("home/.botbus/agents/two.json")).expect("a manifest");
    let refused = desk.run(&["session", "new", "--agent", "two", "hello"]);
    assert_eq!((refused.code, &*refused.out), (Some(3), ""), "{refused:?}");
    assert_eq!(desk.row(&id)["agent"], "two", "its row is readable");

    let manifest =
        format!("{{\"id\":\"new\",\"name\":\"New\",\"command\":\"{AGENTLINE}\",\"args\":[\"demo-agent\"]}}");
    fs::write(desk.home.bench.path("home/.botbus/agents/new.json"), manifest).expect("a manifest");
    let id = desk.session("new", "hello");
    assert_eq!(desk.wait(&id), Some(0));
}

#[test]
fn a_hub_that_was_killed_loses_nothing_but_the_turn() {
    let desk = Desk::new();
    let id = desk.session("one", "slow 100");
    let done_before = desk.session("two", "hello");
    assert_eq!(desk.wait(&done_before), Some(0));
    desk.home.kill();
    let listed = desk.run(&["session", "list", "--json"]);
    assert!(listed.err.contains("no hub runs"), "{listed:?}");
    let row = |rows: &[Value], id: &str| rows.iter().find(|row| row["id"] == id).expect(id).clone();
    let rows = listed.objects();
    assert_eq!(row(&rows, &id)["status"], "cancelled");
    assert_eq!(row(&rows, &id)["statusReason"], "interrupted");
    assert_eq!(row(&rows, &done_before)["status"], "completed");
    assert_eq!(desk.run(&["approve"]).code, Some(4), "nobody is started by an answer");

    // This agent keeps no sessions: that is said, and the row stays.
    let retried = desk.run(&["session", "retry", &id]);
    assert_eq!((retried.code, &*retried.out), (Some(5), ""), "{retried:?}");
    assert!(retried.err.starts_with("◦ hub started (pid "), "{retried:?}");
    assert!(retried.err.contains("one cannot continue a session of before"), "{retried:?}");
    let next = desk.session("one", "hello");
    assert!(next != id && next != done_before, "no number is given twice: {next}");
    assert_eq!(desk.wait(&next), Some(0));
}

#[test]
fn an_agent_has_the_keys_of_the_shell_that_asks_and_only_those_named() {
    let desk = Desk::new();
    let seen = desk.home.bench.path("seen");
    let script = format!("env >{}; exec {AGENTLINE} demo-agent", text(&seen));
    for id in ["keys", "named"] {
        desk.add(id, &["/bin/sh", "-c", &script]);
    }
    assert_eq!(desk.run(&["agent", "set", "named", "--env", "MY_KEY"]).code, Some(0));
    let new = |agent: &str, key: &str| {
        let mut command = desk.command(&["session", "new", "-q", "--agent", agent, "hello"]);
        let started = done(command.env("MY_KEY", key).env("OTHER_KEY", "o").env("PLAIN", "p"));
        assert_eq!(started.code, Some(0), "{started:?}");
        assert_eq!(desk.wait(started.out.trim()), Some(0));
        fs::read_to_string(&seen).expect("the agent's environment")
    };
    let has = |env: &str, line: &str| env.lines().any(|seen| seen == line);
    // The hub was started by a shell that has it, and no agent gets it.
    let env = new("keys", "first");
    assert!(!env.contains("MY_KEY") && !env.contains("OTHER_KEY"), "{env}");
    assert!(has(&env, "AGENTLINE_INSIDE=keys") && has(&env, "PLAIN=p"), "{env}");
    let env = new("named", "second");
    assert!(has(&env, "MY_KEY=second") && !env.contains("OTHER_KEY"), "{env}");
}

#[test]
fn one_can_look_over_its_shoulder_say_something_and_leave() {
    let desk = Desk::new();
    let id = desk.session("one", "ask");
    let mut attach = desk.command(&["session", "attach", &id]);
    let mut attached = Running::new(attach.stdin(std::process::Stdio::piped()));
    attached.until_said("y  Allow");
    let mut stdin = attached.child().stdin.take().expect("a pipe");
    // Neither is ever a prompt while that is open.
    std::io::Write::write_all(&mut stdin, b"v\nz\n").expect("a reader");
    attached.until_said("! not an answer: type y, ");
    std::io::Write::write_all(&mut stdin, b"y\n").expect("a reader");
    attached.until_said("completed");
    drop(stdin);
    let (status, _, err) = attached.end();
    assert!(status.success(), "{err}");
    assert!(err.ends_with(&format!("◦ left; it goes on: agentline session attach {id}\n")), "{err}");
}

#[test]
fn what_is_followed_is_shown_and_exits_as_it_ends() {
    let desk = Desk::new();
    for (prompt, code, says) in [("hello", 0, "Hello!"), ("fail", 1, ""), ("crash 4", 5, ""), ("ask", 8, "")]
    {
        let ended = desk.run(&["session", "new", "--agent", "one", "--follow", prompt]);
        assert_eq!(ended.code, Some(code), "{prompt}: {ended:?}");
        assert!(ended.out.contains(says), "{prompt}: {ended:?}");
    }
}

#[test]
fn another_machine_is_spoken_to_as_this_one() {
    let (here, there) = (Desk::new(), Desk::new());
    let home = format!("HOME={}", text(&there.home.bench.path("home")));
    let add = [
        "host",
        "add",
        "box",
        "--",
        "env",
        "-i",
        &home,
        "PATH=/usr/bin:/bin",
        AGENTLINE,
        "hub",
        "pipe",
        "--start",
    ];
    assert_eq!(here.run(&add).code, Some(0));
    let far = text(&there.home.bench.path("work")).to_owned();
    let started = here.run(&["session", "new", "--host", "box", "-C", &far, "--agent", "one", "ask"]);
    assert_eq!((started.code, &*started.out), (Some(0), "s1@box\n"), "{started:?}");
    assert_eq!(here.home.serving(), None);
    assert_eq!(here.run(&["session", "wait", "s1@box", "--timeout", "30s"]).code, Some(8));
    let own = here.session("two", "hello");
    let rows = here.run(&["session", "list", "--host", "all", "--json"]).objects();
    let hosts: Vec<_> = rows.iter().map(|row| (row["id"].clone(), row["host"].clone())).collect();
    assert!(
        hosts.contains(&("s1".into(), "box".into())) && hosts.contains(&(own.into(), Value::Null)),
        "{hosts:?}"
    );
    let question = here.run(&["approval", "list", "--host", "all"]);
    let id = question.out.split('\t').next().expect("a row").to_owned();
    assert!(id.ends_with("@box"), "{question:?}");
    let approved = here.run(&["approve", &id]);
    assert!(approved.code == Some(0) && approved.err.contains("(s1@box)"), "{approved:?}");
    assert_eq!(here.run(&["session", "wait", "s1@box", "--timeout", "30s"]).code, Some(0));
    let checked = here.run(&["host", "check", "box"]);
    assert!(checked.out.contains("hub running, ") && checked.out.contains("one"), "{checked:?}");

    // It is lost in mid-watch.
    let mut watch = Running::new(&mut here.command(&["session", "watch", "s1@box", "--json"]));
    watch.until_some(|frame| frame["kind"] == "synced");
    there.home.kill();
    watch.until_some(|frame| frame["kind"] == "synced");
    watch.signal(Signal::INT);
    assert_eq!(watch.end().0.code(), Some(130));
}

#[test]
fn conversations_in_terminals_are_seen_prompted_approved_and_cancelled() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["hub", "start"]).code, Some(0));
    let chat = |args: &[&str]| {
        let args = [&["chat", "--json", "-p", "ask", "--announce"], args].concat();
        let mut chat = Running::new(desk.command(&args).stdin(std::process::Stdio::piped()));
        chat.until_said("◦ shown by the hub");
        chat
    };
    let (mut one, mut other) = (chat(&["--agent", "one"]), chat(&[]));
    let live = || desk.run(&["session", "list", "--json"]).objects();
    while live().len() < 2 {
        std::thread::yield_now();
    }
    let id = |agent: &str| {
        let row = live().into_iter().find(|row| row["agent"] == agent).expect("a row");
        row["id"].as_str().expect("an id").to_owned()
    };
    let (first, second) = (id("one"), id("agentline-chat"));

    assert_eq!(desk.run(&["session", "send", &first, "ask"]).code, Some(0));
    assert_eq!(desk.wait(&first), Some(8));
    assert_eq!(one.until_some(|object| object["from"] == "hub")["text"], "ask");
    let approved = desk.run(&["approve"]);
    assert!(approved.code == Some(0) && approved.err.contains(&format!("({first})")), "{approved:?}");
    assert_eq!(desk.wait(&first), Some(0));

    assert_eq!(desk.run(&["session", "send", &second, "slow 60000"]).code, Some(0));
    other.until("text");
    let cancelled = desk.run(&["session", "cancel", &second]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    assert_eq!(desk.wait(&second), Some(130));

    for chat in [&mut one, &mut other] {
        drop(chat.child().stdin.take());
    }
    assert_eq!(one.end().0.code(), Some(0));
    assert_eq!(other.end().0.code(), Some(130), "a turn was cancelled");
}

#[test]
fn a_hub_takes_in_nobody_where_it_is_told_so() {
    let desk = Desk::new();
    let mut hub = Running::new(&mut desk.command(&["hub", "run", "--no-reverse", "--json"]));
    assert_eq!(hub.until("listening")["reverse"], Value::Null);
    assert!(!desk.home.bench.path("home/.botbus/run").exists());
    hub.signal(Signal::TERM);
    hub.end();
}

#[test]
fn the_agent_of_a_session_that_names_none_is_whichever_the_user_chose_last() {
    let desk = Desk::new();
    let new = || desk.run(&["session", "new", "-q", "hello"]);
    assert_eq!(new().code, Some(2), "there are two");
    for chosen in ["two", "one"] {
        assert_eq!(desk.run(&["agent", "default", chosen]).code, Some(0));
        let id = new().out.trim().to_owned();
        assert_eq!(desk.row(&id)["agent"], chosen);
    }
}
