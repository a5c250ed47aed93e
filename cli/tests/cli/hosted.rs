//! Terminals and files that are hosted for an agent.

use std::fs;
use std::os::unix::fs::symlink;

use agentline_tests::driver_table::Witness;
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Bench, Running, done, text, timeless};
use crate::terminal::Terminal;

const BOTH: [&str; 2] = ["--host-terminal", "--host-files"];

fn said(bench: &Bench, options: &[&str], prompt: &str) -> String {
    let words: Vec<&str> = ["run", "-q", prompt].iter().chain(options).copied().collect();
    done(&mut bench.agentline(&words)).out
}

#[test]
fn agent_without_own_shell_has_its_commands_run_where_that_is_offered() {
    let bench = Bench::new();
    let ended = done(&mut bench.agentline(&["run", "--host-terminal", "term echo hi; echo no >&2; exit 3"]));
    assert_eq!((ended.code, &*ended.out), (Some(0), "hi\nno\nIt ended with 3.\n"));
    let shown = "\
◦ demo agent (built in: no model, no key)
  ◦ run here: echo hi; echo no >&2; exit 3
  ✗ run echo hi; echo no >&2; exit 3
◦ completed in N s · 1 tool · nothing asked
  try: agentline run ask · agentline run \"…\" -- CMD (no agent is installed)
";
    assert_eq!(timeless(&ended.err), shown);
    let none = "That does not work: this client offers no such thing, and I have none of my own.\n";
    for (options, prompt) in [
        (&[][..], "term ls"),
        (&["--host-files"], "term ls"),
        (&["--host-terminal"], "readfile a"),
        (&[], "writefile a b"),
    ] {
        assert_eq!(said(&bench, options, prompt), none, "{prompt}");
    }
}

#[test]
fn files_of_the_workspace_are_read_and_written_and_no_others() {
    let bench = Bench::new();
    fs::write(bench.path("work/a.txt"), "in the workspace\n").expect("a file");
    symlink(bench.file("secret", "no"), bench.path("work/link")).expect("a link");
    let at = |name: &str| fs::canonicalize(bench.path("work")).expect("a folder").join(name);
    let no = |name: &str, why: &str| format!("That does not work: {} {why}.\n", at(name).display());
    for (prompt, answer) in [
        ("readfile a.txt", "in the workspace\n".to_owned()),
        ("writefile b/c.txt some text", "Written.\n".to_owned()),
        ("readfile b/c.txt", "some text\n".to_owned()),
        ("readfile link", no("link", "is outside of the workspace")),
        ("writefile link yes", no("link", "is outside of the workspace")),
        ("readfile ../secret", no("../secret", "is outside of the workspace")),
        ("readfile b", no("b", "is a folder")),
        ("readfile none", no("none", "is not there")),
        ("readfile /etc/passwd", "That does not work: /etc/passwd is outside of the workspace.\n".to_owned()),
    ] {
        assert_eq!(said(&bench, &["--host-files"], prompt), answer);
    }
    assert_eq!(fs::read_to_string(bench.path("secret")).expect("a file"), "no");
    let other = bench.path("other");
    fs::create_dir(&other).expect("a folder");
    let prompt = format!("writefile {} x", other.join("f").display());
    assert_eq!(said(&bench, &["--host-files", "--add-dir", text(&other)], &prompt), "Written.\n");
}

#[test]
fn each_is_an_event_and_says_what_decided() {
    let bench = Bench::new();
    let events = |options: &[&str], prompt: &str| {
        let words: Vec<&str> =
            ["run", "--json", prompt].iter().chain(&BOTH).chain(options).copied().collect();
        let objects = done(&mut bench.agentline(&words)).objects();
        let hosted = objects.into_iter().filter(|it| it["type"] == "hosted" || it["type"] == "permission");
        hosted.collect::<Vec<_>>()
    };
    let cwd = fs::canonicalize(bench.path("work")).expect("a folder");
    let cwd = text(&cwd);
    let (session, id) = ("demo-1", "terminal-1");
    assert_eq!(
        events(&[], "term true"),
        [
            json!({"type": "hosted", "sessionId": session, "deed": "started", "terminalId": id,
                   "command": ["true"], "cwd": cwd}),
            json!({"type": "hosted", "sessionId": session, "deed": "exited", "terminalId": id,
                   "exitCode": 0, "signal": null}),
        ]
    );
    let path = format!("{cwd}/a");
    assert_eq!(
        events(&["--allow", "edit"], "writefile a 中")[1..],
        [json!({"type": "hosted", "sessionId": session, "deed": "wrote", "path": path, "bytes": 4})]
    );
    assert_eq!(
        events(&[], "readfile none"),
        [json!({"type": "hosted", "sessionId": session, "deed": "read", "path": format!("{cwd}/none"),
                "error": format!("{cwd}/none is not there")})]
    );
    for (options, prompt, decided) in [
        (&["--reject", "execute:rm"][..], "term cd / && rm -rf x", "rejected rule --reject execute:rm"),
        (&["--reject", "edit:b"], "writefile b/c x", "rejected rule --reject edit:b"),
        (&["--reject", "*:/etc"], "readfile /etc/passwd", "rejected rule --reject *:/etc"),
        (&["--ask", "read"], "readfile a", "rejected rule --ask read"),
    ] {
        let [event] = &events(options, prompt)[..] else { panic!("{prompt}") };
        let word = |name: &str| event[name].as_str().unwrap_or("-");
        let said = [word("decision"), word("by"), word("rule")].join(" ");
        assert_eq!(said, decided, "{prompt}");
    }
}

#[test]
fn a_command_gets_no_credentials_and_no_escape_reaches_the_terminal() {
    let bench = Bench::new();
    let mut run = bench.agentline(&["run", "-q", "--host-terminal", "-e", "MY_KEY=k", "term env"]);
    let out = done(run.env("GH_TOKEN", "t").env("PLAIN", "p")).out;
    assert!(out.contains("PLAIN=p\n") && out.contains("AGENTLINE_INSIDE=demo\n"), "{out}");
    assert!(!out.contains("GH_TOKEN") && !out.contains("MY_KEY"), "{out}");
    let shown = done(&mut bench.agentline(&["run", "--host-terminal", "term : \u{1b}[2J"])).err;
    assert!(shown.contains("run here: : \u{fffd}[2J\n") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn however_we_go_what_was_run_for_an_agent_goes_too() {
    for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
        let bench = Bench::new();
        let path = bench.path("witness");
        let mut witness = Witness::new(&path);
        let script = format!("term exec 9>{}; trap '' TERM; echo held >&9; sleep 1000", text(&path));
        let mut run = Running::new(&mut bench.agentline(&["run", "--json", "--host-terminal", &script]));
        run.until("hosted");
        witness.wait_for(5);
        run.signal(signal);
        assert_eq!(witness.last_words(), "", "{signal:?}");
    }
}

#[test]
fn a_chat_hosts_as_a_run_does() {
    let bench = Bench::new();
    let lines = bench.file("lines", "term echo one\nwritefile a two\nreadfile a\n");
    let mut chat = bench.agentline(&["chat", "-q", "--host-terminal", "--host-files"]);
    let ended = done(chat.stdin(fs::File::open(lines).expect("a file")));
    assert_eq!((ended.code, &*ended.out), (Some(0), "one\nWritten.\ntwo\n"), "{ended:?}");
}

#[test]
fn a_rule_asks_in_a_chat_whatever_the_policy_is() {
    let bench = Bench::new();
    let mut chat = bench.agentline(&["chat", "-p", "reject", "--host-terminal", "--ask", "execute"]);
    let mut terminal = Terminal::sized(&mut chat, 120, 50);
    terminal.until("›");
    terminal.types("term echo one\r");
    let shown = terminal.until("Enter\n?");
    assert!(shown.contains("? run echo one\n      y  Allow once\n"), "{shown}");
    terminal.types("y\r");
    let shown = terminal.until("1 allowed");
    assert!(shown.contains("✓ allowed once") && shown.contains("◦ run here: echo one"), "{shown}");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0.code(), Some(0));
}
