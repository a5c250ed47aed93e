//! Everything that 27 real agents said, played to our client.

use std::collections::BTreeMap;

use agentline_core::acp::client::Event;
use agentline_tests::acp::replay::play;
use agentline_tests::transcripts::{captures, fixture};

type Counts = BTreeMap<String, usize>;

#[test]
fn no_line_is_lost() {
    let mut lines = 0;
    for capture in captures("acp") {
        let played = play(&capture);
        for said in &played.lines {
            lines += 1;
            assert!(!said.told.is_empty() || !said.written.is_empty(), "{}: {}", played.name, said.line);
        }
        let closed = played.told().filter(|event| matches!(event, Event::Closed(_))).count();
        assert_eq!(closed, 1, "{}", played.name);
    }
    assert!(lines > 2500, "{lines}");
}

#[test]
fn each_kind_is_heard_as_often_as_an_independent_count_says() {
    let expected = std::fs::read_to_string(fixture("acp.counts.json")).unwrap();
    let expected: BTreeMap<String, Counts> = serde_json::from_str(&expected).unwrap();
    let mut seen: BTreeMap<String, Counts> = BTreeMap::new();
    for capture in captures("acp") {
        let file = capture.name.rsplit_once(' ').map_or(&*capture.name, |(file, _)| file);
        let counts = seen.entry(file.to_owned()).or_default();
        for (kind, count) in play(&capture).counts() {
            *counts.entry(kind).or_default() += count;
        }
    }
    assert_eq!(seen.len(), 82);
    for (file, counts) in &seen {
        assert_eq!(Some(counts), expected.get(file), "{file}");
    }
}
