//! `agentline gateway`: the real program between our own client and the demo agent, on both runtimes.

use rustix::process::Signal;
use serde_json::Value;

use crate::rig::{AGENTLINE, Bench, Done, Running, done, text};

const RUNTIMES: [&str; 2] = ["blocking", "smol"];

/// A run of the demo agent with these gateways in between, the outermost first.
fn through(bench: &Bench, run: &[&str], gateways: &[&[&str]]) -> Done {
    let mut words: Vec<&str> = ["run", "--json"].iter().chain(run).copied().collect();
    for gateway in gateways {
        words.extend(["--", AGENTLINE, "gateway", "acp"]);
        words.extend(*gateway);
    }
    words.extend(["--", AGENTLINE, "demo-agent"]);
    done(&mut bench.agentline(&words))
}

/// What of a result is the agent's own.
fn essence(done: &Done) -> Value {
    let mut result = done.result();
    let titles: Vec<Value> =
        done.objects().iter().filter(|it| it["type"] == "tool").map(|it| it["title"].clone()).collect();
    let members = ["outcome", "output", "stopReason", "permissions", "usage"];
    let mut essence: serde_json::Map<String, Value> =
        members.map(|name| (name.to_owned(), result[name].take())).into_iter().collect();
    essence.insert("tools".into(), titles.into());
    essence.into()
}

#[test]
fn a_turn_is_the_same_through_one_gateway_and_through_two() {
    let bench = Bench::new();
    for prompt in ["hello", "ask"] {
        let plain = through(&bench, &["-p", "allow", prompt], &[]);
        assert_eq!(plain.code, Some(0), "{plain:?}");
        for runtime in RUNTIMES {
            let gateway = ["--runtime", runtime];
            for gateways in [&[&gateway[..]][..], &[&gateway[..], &gateway[..]]] {
                let passed = through(&bench, &["-p", "allow", prompt], gateways);
                assert_eq!(essence(&passed), essence(&plain), "{passed:?}");
            }
        }
    }
}

#[test]
fn a_cancel_passes_and_nobody_is_left_behind() {
    for runtime in RUNTIMES {
        let bench = Bench::new();
        let agent = [AGENTLINE, "demo-agent"];
        let (inner, witness) = bench.watched(&agent);
        let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
        let mut words =
            vec!["run", "--json", "--timeout", "1s", "slow 60", "--", AGENTLINE, "gateway", "acp"];
        words.extend(["--runtime", runtime]);
        words.extend(inner);
        let seen = done(&mut bench.agentline(&words));
        assert_eq!(seen.code, Some(124), "{seen:?}");
        let _ = witness.last_words();
    }
}

#[test]
fn rules_stand_between() {
    let bench = Bench::new();
    let seen = through(&bench, &["-p", "allow", "ask"], &[&["--reject", "execute"]]);
    let result = seen.result();
    assert_eq!(result["permissions"].as_array().map(Vec::len), Some(0), "{result}");
    assert!(seen.err.contains("rejected by --reject execute: Clean the build folder"), "{}", seen.err);
}

#[test]
fn a_trace_holds_both_sides() {
    let bench = Bench::new();
    let file = bench.path("trace");
    let seen = through(&bench, &["hello"], &[&["--trace", text(&file)]]);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let trace = std::fs::read_to_string(&file).expect("a trace");
    assert_eq!(trace.matches("session/prompt").count(), 2, "in and out: {trace}");
    let again = through(&bench, &["hello"], &[&["--trace", text(&file)]]);
    assert!(again.err.contains("--force"), "{}", again.err);
}

#[test]
fn an_agent_that_does_not_start_is_an_error_of_the_session_that_says_why() {
    let bench = Bench::new();
    let words = ["run", "--json", "hello", "--", AGENTLINE, "gateway", "acp", "--", "/not/there"];
    let seen = done(&mut bench.agentline(&words));
    let result = seen.result();
    assert!(
        result["error"]["message"].as_str().is_some_and(|why| why.contains("cannot be started: not found")),
        "{result}"
    );
}

/// A run of the demo runner through a gateway.
fn through_a_runner(bench: &Bench, runtime: &str, run: &[&str]) -> Done {
    let mut words = vec!["run", "--json"];
    words.extend(run);
    words.extend(["--", AGENTLINE, "gateway", "acp", "--runtime", runtime, "--runner"]);
    words.extend(["--", AGENTLINE, "demo-runner"]);
    done(&mut bench.agentline(&words))
}

#[test]
fn a_runner_of_galley_is_an_agent_for_an_editor() {
    let bench = Bench::new();
    for runtime in RUNTIMES {
        let seen = through_a_runner(&bench, runtime, &["-p", "allow", "code"]).result();
        assert_eq!(seen["output"], "I will use a tool.\nIt said: 42", "{seen}");
        assert_eq!(seen["permissions"][0]["optionId"], "allow_once", "{seen}");
        let seen = through_a_runner(&bench, runtime, &["-p", "reject", "code"]).result();
        assert!(
            seen["output"]
                .as_str()
                .is_some_and(|text| text.ends_with("I may not, so I left everything as it was.")),
            "{seen}"
        );
        let seen =
            through_a_runner(&bench, runtime, &["--model", "demo/large", "--mode", "yolo", "code"]).result();
        assert_eq!(seen["permissions"].as_array().map(Vec::len), Some(0), "{seen}");
    }
    let settings = bench.path("home/.config/agentline/settings.json");
    std::fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
    let runner = serde_json::json!({ "command": AGENTLINE, "args": ["demo-runner"], "cwd": "/" });
    let all = serde_json::json!({ "runners": { "galley": runner } });
    std::fs::write(settings, all.to_string()).expect("a file");
    let words = ["run", "--json", "where", "--", AGENTLINE, "gateway", "acp", "--runner", "galley"];
    let seen = done(&mut bench.agentline(&words)).result();
    let work = bench.path("work").canonicalize().expect("a folder");
    let place = format!("The project is {}.", text(&work));
    assert!(seen["output"].as_str().is_some_and(|output| output.contains(&place)), "{seen}");
    let seen = through_a_runner(&bench, "blocking", &["crash 3"]);
    assert_eq!(seen.code, Some(1), "{seen:?}");
}

#[test]
fn an_agent_without_a_terminal_is_found_and_answers() {
    for runtime in RUNTIMES {
        let bench = Bench::new();
        let words =
            ["gateway", "attach", "--name", "reviewer", "--runtime", runtime, "--", AGENTLINE, "demo-agent"];
        let mut gateway = Running::new(&mut bench.agentline(&words));
        gateway.until_said("others can speak to it");
        let list = done(&mut bench.agentline(&["attach", "list", "--json"]));
        assert_eq!(list.objects()[0]["name"], "reviewer", "{list:?}");
        let say = |text: &str| done(&mut bench.agentline(&["attach", "send", "reviewer", text]));
        assert!(say("hello").out.starts_with("Hello! I am a scripted agent"));
        assert!(say("ask").out.contains("I may not"), "nobody can be asked");
        gateway.until_said("rejected by --permission");
        assert_ne!(say("fail").code, Some(0));
        gateway.signal(Signal::TERM);
        let (status, ..) = gateway.end();
        assert_eq!(status.code(), Some(143));
        assert!(done(&mut bench.agentline(&["attach", "list", "--json"])).objects().is_empty());
    }
}

#[test]
fn nothing_to_attach_to_is_said_and_is_an_error() {
    let bench = Bench::new();
    let seen = done(&mut bench.agentline(&["gateway", "attach", "--", "/not/there"]));
    assert_eq!(seen.code, Some(5), "{seen:?}");
    assert!(
        seen.err.contains("✗ cannot be started: not found") || seen.err.contains("not found"),
        "{}",
        seen.err
    );
    let seen = done(&mut bench.agentline(&["gateway", "attach", "-p", "ask", "--", AGENTLINE, "demo-agent"]));
    assert_eq!(seen.code, Some(2), "{seen:?}");
}
