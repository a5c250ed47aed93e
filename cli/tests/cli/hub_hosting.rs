//! Terminals and files that a hub, and a chat that others attach to, host for an agent.

use std::fs;

use serde_json::{Value, json};

use crate::hub_stories::Desk;
use crate::rig::{Bench, Running, done};
use crate::terminal::Terminal;

#[test]
fn a_hub_hosts_for_the_agents_of_which_that_was_said_and_from_their_next_start_on() {
    let desk = Desk::new();
    let answer = |prompt: &str| {
        let started = desk.run(&["session", "new", "-q", "--agent", "one", prompt]);
        let id = started.out.trim().to_owned();
        assert_eq!((started.code, desk.wait(&id)), (Some(0), Some(0)), "{started:?}");
        desk.run(&["session", "show", &id, "--last"]).out
    };
    let none = "That does not work: this client offers no such thing, and I have none of my own.\n";
    assert_eq!(answer("term echo one"), none);
    let set = desk.run(&["agent", "set", "one", "--host-terminal", "on", "--host-files", "on"]);
    let said = "the hub runs its commands, from its next start on; \
                the hub reads and writes files for it, from its next start on\n";
    assert_eq!((set.code, &*set.out), (Some(0), said), "{set:?}");
    assert_eq!(desk.run(&["hub", "stop"]).code, Some(0));
    assert_eq!(answer("term echo $0 one; env | grep -c GH_TOKEN"), "/bin/sh one\n0\nIt ended with 1.\n");
    assert_eq!(answer("writefile a some text"), "Written.\n");
    assert_eq!(answer("readfile a"), "some text\n");
    assert_eq!(
        answer("readfile /etc/passwd"),
        "That does not work: /etc/passwd is outside of the workspace.\n"
    );
    let set = desk.run(&["agent", "set", "one", "--host-terminal", "off"]);
    assert_eq!(set.out, "the hub no longer runs its commands, from its next start on\n");
    assert_eq!(desk.run(&["agent", "set", "one", "--host-files", "maybe"]).code, Some(2));
    let settings = fs::read(desk.home.bench.path("home/.config/agentline/settings.json")).expect("settings");
    let settings: Value = serde_json::from_slice(&settings).expect("JSON");
    assert_eq!(settings["agents"]["one"], json!({"hostTerminal": false, "hostFiles": true}));
    assert_eq!(desk.run(&["hub", "stop"]).code, Some(0));
    assert_eq!(answer("term echo one"), none);
}

#[test]
fn what_a_hub_hosts_is_shown_to_those_who_look() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["agent", "set", "one", "--host-terminal", "on"]).code, Some(0));
    let id = desk.session("one", "hello");
    assert_eq!(desk.wait(&id), Some(0));
    let mut attached = Terminal::sized(&mut desk.command(&["session", "attach", &id]), 100, 30);
    attached.until("› hello");
    attached.types("term echo one; exit 3\r");
    attached.until("◦ run here: echo one; exit 3\n");
    let shown = attached.until("It ended with 3.");
    assert!(shown.contains("\none\n"), "{shown}");
    attached.types("\u{4}");
    attached.end();

    let mut watch = Running::new(&mut desk.command(&["session", "watch", "--json", &id]));
    watch.until_some(|frame| frame["kind"] == "synced");
    assert_eq!(desk.run(&["session", "send", &id, "term echo two"]).code, Some(0));
    let mut hosted = || watch.until_some(|frame| frame["kind"] == "hosted");
    let (started, exited) = (hosted(), hosted());
    assert_eq!([&started["deed"], &started["command"]], [&json!("started"), &json!(["echo two"])]);
    assert_eq!([&exited["deed"], &exited["exitCode"]], [&json!("exited"), &json!(0)]);
}

#[test]
fn a_chat_that_others_attach_to_hosts_for_their_prompts_too() {
    let bench = Bench::new();
    let mut chat = crate::chat::chat(&bench, &["--json", "--host-terminal", "--host-files"]);
    let mut chat = Running::new(chat.stdin(std::process::Stdio::piped()));
    let peer = chat.until("listening")["peerId"].as_str().expect("an id").to_owned();
    for (prompt, answer) in
        [("term echo one", "one\n"), ("writefile a some text", "Written.\n"), ("readfile a", "some text\n")]
    {
        let mut send = bench.agentline(&["attach", "send", "-q", &peer, prompt]);
        let sent = done(send.env("AGENTICA_ATTACH_DIR", bench.path("at")));
        assert_eq!((sent.code, &*sent.out), (Some(0), answer), "{sent:?}");
        let deed = prompt_deed(prompt);
        chat.until_some(|object| object["type"] == "hosted" && object["deed"] == deed);
    }
    assert_eq!(fs::read_to_string(bench.path("work/a")).expect("a file"), "some text\n");
}

fn prompt_deed(prompt: &str) -> &'static str {
    match prompt.split_once(' ').map(|(word, _)| word) {
        Some("term") => "started",
        Some("writefile") => "wrote",
        _ => "read",
    }
}
