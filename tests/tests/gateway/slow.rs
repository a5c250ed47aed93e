//! Sides that do not read.

use agentline_core::session::SourceConfig;

use super::rig::{Rig, config, text};
use agentline_core::Heard;
use agentline_tests::weigh;

#[test]
fn a_client_that_does_not_read_holds_the_agent_and_loses_nothing() {
    let mut rig = Rig::running(config());
    rig.desk.deaf.insert(rig.client);
    let line = text(&"x".repeat(1000));
    let mut sent = 0;
    while rig.desk.held.get(&rig.agent) != Some(&true) {
        rig.agent_says(&line);
        sent += 1;
        assert!(sent < 10_000, "the agent is never held");
    }
    rig.agent_says(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
    assert!(sent < 200, "{sent} lines of 1 KB");
    rig.desk.deaf.remove(&rig.client);
    rig.desk.heard(rig.client, Heard::Written);
    let seen = rig.read();
    assert_eq!(seen.len(), sent + 1);
    assert!(seen[..sent].iter().all(|seen| *seen == line), "an update is another one");
    assert!(seen[sent].contains("end_turn"));
    assert_eq!(rig.desk.held.get(&rig.agent), Some(&false));
}

#[test]
fn an_agent_that_does_not_read_refuses_a_prompt_and_that_is_its_end() {
    let mut config = config();
    let SourceConfig::Acp(agent) = &mut config.source else { panic!("it is an agent") };
    agent.limits.unsent_hard = 100_000;
    let mut rig = Rig::open(config);
    let long = "x".repeat(60_000);
    let mut ends = Vec::new();
    for session in ["t", "u", "v"] {
        rig.says(&format!(
            r#"{{"jsonrpc":"2.0","id":"{session}","method":"session/load","params":{{"sessionId":"{session}","cwd":"/w","mcpServers":[]}}}}"#
        ));
        rig.agent_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, ends.len() + 2));
        ends.push(session);
    }
    let opened = rig.read();
    assert!(opened.iter().all(|line| line.contains(r#""result":{}"#)), "{opened:#?}");
    rig.desk.deaf.insert(rig.agent);
    for session in ends {
        rig.says(&format!(
            r#"{{"jsonrpc":"2.0","id":"{session}","method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{long}"}}]}}}}"#
        ));
    }
    let seen = rig.read();
    assert_eq!(seen.len(), 2, "{seen:#?}");
    for (line, id) in seen.iter().zip(["u", "v"]) {
        assert!(line.contains(&format!(r#""id":"{id}","error""#)) && line.contains("reads slowly"), "{line}");
    }
}

/// The most memory that so many updates take, with a client that reads only when the agent is held.
fn peak(updates: usize) -> u64 {
    let mut rig = Rig::running(config());
    let line = text(&"x".repeat(100));
    let (read, weight) = weigh(|| {
        let (mut said, mut read) = (0, 0);
        while said < updates {
            rig.desk.deaf.insert(rig.client);
            while rig.desk.held.get(&rig.agent) != Some(&true) && said < updates {
                rig.agent_says(&line);
                said += 1;
            }
            rig.desk.deaf.remove(&rig.client);
            rig.desk.heard(rig.client, Heard::Written);
            read += rig.read().len();
        }
        read
    });
    assert_eq!(read, updates, "an update is lost");
    weight.peak
}

#[test]
fn memory_is_flat_over_a_hundred_thousand_updates_with_a_slow_client() {
    let (few, many) = (peak(2_000), peak(100_000));
    assert!(many < few + 65_536, "{few} bytes for a few, {many} for many");
}
