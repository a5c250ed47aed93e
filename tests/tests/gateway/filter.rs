//! Rules and a budget, for clients that have none.

use agentline_core::conversation::{Budget, Overspent};
use agentline_core::gateway::{Config, Event};
use agentline_core::rules::{self, Rules};
use serde_json::json;

use super::rig::{Rig, config, question, text, update};

fn ruled(rules: &str) -> Config {
    let own = rules::rules(rules.as_bytes(), "rules.json").expect("rules");
    Config { rules: Rules { own, project: Vec::new() }, ..config() }
}

#[test]
fn a_rule_decides_before_the_client_is_asked() {
    for (then, option, allowed) in [("allow", "y", true), ("reject", "n", false)] {
        let mut rig = Rig::running(ruled(&format!(r#"{{"rules":[{{"command":"rm","then":"{then}"}}]}}"#)));
        rig.agent_says(&question(7, "s"));
        assert_eq!(rig.read(), [""; 0]);
        assert_eq!(rig.agent_line()["result"]["outcome"]["optionId"], option);
        let Some(Event::Ruled(ruled)) = rig.events().pop_front() else { panic!("it is told") };
        assert_eq!(
            (ruled.allowed, &*ruled.title, ruled.option.as_deref()),
            (allowed, "run rm", Some(option))
        );
        assert!(ruled.rule.as_ref().is_some_and(|rule| rule.contains("rules.json")), "{ruled:?}");
    }
}

#[test]
fn what_no_rule_decides_is_the_clients() {
    for rules in [r#"{"rules":[{"kind":"read","then":"allow"}]}"#, r#"{"rules":[{"then":"ask"}]}"#] {
        let mut rig = Rig::running(ruled(rules));
        rig.agent_says(&question(7, "s"));
        assert_eq!(rig.line()["method"], "session/request_permission");
    }
}

#[test]
fn a_session_that_costs_too_much_is_stopped_and_takes_no_prompt_any_more() {
    let budget = Budget { cost: Some(500_000), tools: None };
    let mut rig = Rig::running(Config { budget, ..config() });
    let usage = |cost: &str| {
        update(&format!(
            r#"{{"sessionUpdate":"usage_update","used":1,"size":9,"cost":{{"amount":{cost},"currency":"USD"}}}}"#
        ))
    };
    rig.agent_says(&usage("0.5"));
    assert_eq!(rig.agent_read(), [""; 0]);
    rig.agent_says(&usage("0.75"));
    assert_eq!(rig.agent_line()["method"], "session/cancel");
    assert!(rig.events().iter().any(|event| matches!(event, Event::Overspent(_, it) if matches!(**it, Overspent::Cost { spent: 750_000, .. }))));
    rig.agent_says(&usage("0.8"));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#);
    let seen = rig.read();
    let last: serde_json::Value = serde_json::from_str(seen.last().expect("the end")).expect("JSON");
    assert_eq!(last["error"]["message"], "the budget is spent: it cost 0.75 USD, and might 0.50");
    rig.agent_read();
    rig.prompts("q");
    assert_eq!(rig.line()["error"]["message"], last["error"]["message"]);
    assert_eq!(rig.agent_read(), [""; 0]);
}

#[test]
fn a_turn_that_calls_too_many_tools_is_stopped_and_the_next_one_may_again() {
    let mut rig = Rig::running(Config { budget: Budget { cost: None, tools: Some(1) }, ..config() });
    let call =
        |id: u32| update(&format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","title":"t"}}"#));
    rig.agent_says(&call(1));
    assert_eq!(rig.agent_read(), [""; 0]);
    rig.agent_says(&call(2));
    assert_eq!(rig.agent_line()["method"], "session/cancel");
    rig.agent_says(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#);
    let seen = rig.read();
    assert!(seen.last().is_some_and(|line| line.contains("it called more than 1 tools")), "{seen:#?}");
    rig.prompts("q");
    assert_eq!(rig.agent_line()["method"], "session/prompt");
    rig.agent_says(&text("fine"));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(rig.read().last().map(|line| line.contains("end_turn")), Some(true));
    assert_eq!(json!(rig.agent_read()), json!([]));
}
