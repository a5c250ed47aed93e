//! `agentline gateway`: the real program between our own client and the demo agent, on both runtimes.

use serde_json::Value;

use crate::rig::{AGENTLINE, Bench, Done, done, text};

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
