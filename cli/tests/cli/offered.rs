//! What is offered to an agent beyond the baseline: its own agents, and options that are on or off.

use serde_json::{Value, json};

use crate::rig::{Bench, done, timeless};
use crate::terminal::Terminal;

#[test]
fn the_agents_of_an_agent_are_shown_under_it_whichever_session_they_ask_by() {
    let bench = Bench::new();
    let ended = done(&mut bench.agentline(&["run", "--agent", "demo", "-p", "allow", "team"]));
    let out = "I have two of mine do it.\nBoth are done. (Not really: we are scripted.)\n";
    let err = "\
◦ demo agent (built in: no model, no key)
  ┆ scout: begins
  ┆ scout: ✓ search src
  ✓ allowed once: https://example.org/style (--permission allow)
  ┆ scout: ✓ fetch https://example.org/style
  ┆ scout: I read how it is done there.
  ┆ scout: is done
  ┆ builder: begins
  ✓ allowed once: notes.md (--permission allow)
  ┆ builder: ✓ edit notes.md
  ┆ builder: It is written.
  ┆ builder: is done
◦ completed in N s · 3 tools · 2 allowed
";
    assert_eq!((ended.code, &*ended.out, &*timeless(&ended.err)), (Some(0), out, err));

    // What was not permitted is told once, and what nobody was asked about is counted.
    let ended = done(&mut bench.agentline(&["run", "--agent", "demo", "-p", "reject", "team"]));
    let end = "completed in N s · 3 tools · ran 1 tool without asking · 2 rejected\n";
    assert!(timeless(&ended.err).ends_with(end) && !ended.err.contains(": ✗"), "{}", ended.err);

    let told = done(&mut bench.agentline(&["run", "--json", "-p", "reject", "team"]));
    assert_eq!(told.result()["output"], out);
    let below: Vec<Value> = told.objects().into_iter().filter(|it| it["type"] == "subagent").collect();
    let told = |name: &str, text: &str| {
        below.iter().any(|it| {
            let session = it["sessionId"].as_str().unwrap_or_default();
            session == format!("demo-1-{name}")
                && it["of"] == "demo-1"
                && it["raw"]["content"]["text"] == text
        })
    };
    for name in ["scout", "builder"] {
        assert!(told(name, "I may not, so I leave it.\n"), "{below:?}");
    }
}

#[test]
fn who_of_them_asks_is_said_in_the_question() {
    let bench = Bench::new();
    for verb in ["run", "chat"] {
        let words: &[&str] =
            if verb == "run" { &["run", "--agent", "demo", "team"] } else { &["chat", "--agent", "demo"] };
        let enter = if verb == "run" { "\n" } else { "\r" };
        let mut terminal = Terminal::sized(&mut bench.agentline(words), 120, 40);
        if verb == "chat" {
            terminal.until("/help");
            terminal.types("team\r");
        }
        terminal.until("? fetch https://example.org/style  scout\n");
        terminal.types(&format!("y{enter}"));
        // It is asked as if the agent itself did.
        terminal.until("? edit notes.md\n");
        terminal.types(&format!("n{enter}"));
        terminal.until("completed in");
        if verb == "chat" {
            terminal.types("\u{4}");
        }
        assert!(terminal.end().0.success());
    }
}

#[test]
fn an_option_that_is_on_or_off_is_set_by_a_word() {
    let bench = Bench::new();
    let said = |set: &[&str]| {
        let options: Vec<&str> = set.iter().flat_map(|set| ["--set", *set]).collect();
        done(bench.agentline(&["run", "-q", "settings"]).args(options))
    };
    assert_eq!(said(&[]).out, "model: small\nbrief: off\n");
    assert_eq!(said(&["brief=yes", "model=large"]).out, "model: large\nbrief: on\n");
    assert_eq!(said(&["brief=on", "brief=false"]).out, "model: small\nbrief: off\n");
    let wrong = said(&["brief=maybe"]);
    assert_eq!(
        (wrong.code, &*wrong.err),
        (Some(2), "✗ brief is on or off, not maybe\n  try: --set brief=true, or =false\n")
    );
    let told = done(&mut bench.agentline(&["run", "--json", "--set", "brief=on", "settings"]));
    let session = told.objects().into_iter().find(|it| it["type"] == "session").expect("a session");
    assert_eq!(session["configOptions"][1]["type"], json!("boolean"));
}
