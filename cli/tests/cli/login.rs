//! Logging in, out, and in on the way to a session.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Done, done, text};
use crate::terminal::Terminal;

/// A demo agent that wants a login, and where it remembers the one by a terminal.
fn agent(bench: &Bench) -> Vec<String> {
    let file = bench.path("login");
    ["--", AGENTLINE, "demo-agent", "--login", text(&file)].map(Into::into).into()
}

fn run(bench: &Bench, words: &[&str]) -> Done {
    let agent = agent(bench);
    let words: Vec<&str> = words.iter().copied().chain(agent.iter().map(String::as_str)).collect();
    done(&mut bench.agentline(&words))
}

#[test]
fn each_way_in_is_listed_where_nobody_is_asked() {
    let bench = Bench::new();
    let Done { code, out, .. } = run(&bench, &["login"]);
    let line = format!("{AGENTLINE} demo-agent --login {} --log-in", text(&bench.path("login")));
    let meant = format!(
        "demo\tagent\tDemo login\ndemo-terminal\tterminal\tDemo login in a terminal\t{line}\ndemo-key\tenv_var\tDemo key\tAGENTLINE_DEMO_KEY\n"
    );
    assert_eq!((code, out), (Some(0), meant));
    let objects = run(&bench, &["login", "--json"]).objects();
    let [logins] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!((&logins["type"], &logins["schemaVersion"]), (&json!("logins"), &json!(1)));
    let kinds: Vec<&Value> =
        logins["methods"].as_array().expect("a list").iter().map(|it| &it["type"]).collect();
    assert_eq!(kinds, ["agent", "terminal", "env_var"]);
    assert_eq!(logins["methods"][2]["variables"], json!(["AGENTLINE_DEMO_KEY"]));
}

#[test]
fn a_login_says_what_came_of_it_and_what_to_do_else() {
    let bench = Bench::new();
    for (method, code, said) in [
        ("demo", 0, "◦ logged in to agentline: Demo login\n"),
        ("demo-terminal", 2, "✗ Demo login in a terminal needs a terminal\n  try: in a terminal: "),
        ("demo-key", 2, "  try: pass the key to the agent: -e AGENTLINE_DEMO_KEY\n"),
        ("nope", 2, "✗ agentline has no login nope\n  try: one of demo, demo-terminal, demo-key\n"),
    ] {
        let ended = run(&bench, &["login", "--method", method]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(said), "{ended:?}");
    }
    let objects = run(&bench, &["login", "--json", "--method", "demo"]).objects();
    assert_eq!(
        objects.last().map(|last| (&last["type"], &last["ok"])),
        Some((&json!("result"), &json!(true)))
    );
}

#[test]
fn login_per_process_who_wants_one_in_each_process_gets_it() {
    let bench = Bench::new();
    let refused = run(&bench, &["run", "hello"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    let hint = "  try: agentline login -- ";
    assert!(refused.err.contains(hint) && refused.err.contains("Demo login"), "{refused:?}");
    assert!(refused.err.contains("Demo key: -e AGENTLINE_DEMO_KEY"), "{refused:?}");
    for verb in ["run", "chat"] {
        let words: &[&str] =
            if verb == "run" { &["run", "--login", "demo", "echo"] } else { &["chat", "--login", "demo"] };
        let agent = agent(&bench);
        let words: Vec<&str> = words.iter().copied().chain(agent.iter().map(String::as_str)).collect();
        let ended = done(
            bench.agentline(&words).stdin(std::fs::File::open(bench.file("in", "echo\n")).expect("a file")),
        );
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("echo"), "{ended:?}");
    }
    let wrong = run(&bench, &["run", "--json", "--login", "nope", "hello"]).result();
    assert_eq!(
        (&wrong["error"]["kind"], &wrong["error"]["phase"]),
        (&json!("usage"), &json!("authenticate"))
    );
}

#[test]
fn at_a_terminal_a_login_is_offered_and_the_task_goes_on() {
    let bench = Bench::new();
    let agent = agent(&bench);
    let words: Vec<&str> = ["run", "hello"].into_iter().chain(agent.iter().map(String::as_str)).collect();
    let mut terminal = Terminal::sized(&mut bench.agentline(&words), 200, 24);
    let asked = terminal.until("1 to 3 or n, then Enter ›");
    assert!(
        asked.contains("  ? Log in to agentline\n      1  Demo login\n      2  Demo login in a terminal  "),
        "{asked}"
    );
    terminal.types("1\n");
    let (status, shown) = terminal.end();
    assert!(status.success() && shown.contains("◦ completed in"), "{shown}");

    let mut terminal = Terminal::sized(&mut bench.agentline(&words), 200, 24);
    terminal.until("1 to 3 or n, then Enter ›");
    terminal.types("n\n");
    assert_eq!(terminal.end().0.code(), Some(7));

    // Ctrl-C is a no as well.
    let mut terminal = Terminal::sized(&mut bench.agentline(&words), 200, 24);
    terminal.until("1 to 3 or n, then Enter ›");
    terminal.signal(Signal::INT);
    assert_eq!(terminal.end().0.code(), Some(7));
}

#[test]
fn a_login_in_a_terminal_is_shown_agreed_to_and_run_there() {
    let bench = Bench::new();
    let agent = agent(&bench);
    let words: Vec<&str> = ["login"].into_iter().chain(agent.iter().map(String::as_str)).collect();
    for (answer, code, is_in) in [("n", 130, false), ("y", 0, true)] {
        let mut terminal = Terminal::sized(&mut bench.agentline(&words), 200, 24);
        terminal.until("1 to 3 or n, then Enter ›");
        terminal.types("2\n");
        let asked = terminal.until("y or n, then Enter ›");
        assert!(asked.contains("? run ") && asked.contains("--log-in"), "{asked}");
        terminal.types(&format!("{answer}\n"));
        let (status, shown) = terminal.end();
        assert_eq!((status.code(), bench.path("login").exists()), (Some(code), is_in), "{shown}");
        assert_eq!(shown.contains("demo agent: logged in"), is_in, "{shown}");
    }
    let mut terminal = Terminal::sized(&mut bench.agentline(&words), 200, 24);
    terminal.until("1 to 3 or n, then Enter ›");
    terminal.signal(Signal::INT);
    assert_eq!(terminal.end().0.code(), Some(130));
    assert_eq!(run(&bench, &["run", "echo"]).code, Some(0));
    let out = run(&bench, &["logout"]);
    assert_eq!(
        (out.code, &*out.err, bench.path("login").exists()),
        (Some(0), "◦ logged out of agentline\n", false)
    );
}
