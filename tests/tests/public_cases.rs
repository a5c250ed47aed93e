//! Each of the public bug reports in `fixtures/cases.jsonl` is a test that bears its slug, or a row of a table of tests
//! that does. The few that cannot occur stand in `cases.md`, with what makes them impossible.

use std::collections::BTreeSet;
use std::fs;

use agentline_tests::source::{all_code, root};
use serde_json::Value;

#[test]
fn each_public_case_is_a_test_that_bears_its_slug() {
    let file = fs::read_to_string(root().join("tests/fixtures/cases.jsonl")).unwrap();
    let slugs: BTreeSet<String> = file
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["slug"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(slugs.len(), 111);

    let code = all_code();
    let names: Vec<&str> = code
        .split("fn ")
        .skip(1)
        .filter_map(|rest| rest.split('(').next())
        .filter(|name| name.len() < 200)
        .collect();
    let page = fs::read_to_string(root().join("tests/cases.md")).unwrap();
    let excused: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(slug, _)| slugs.contains(*slug))
        .collect();
    assert!(excused.len() <= 10, "{excused:?}");
    for (slug, why) in &excused {
        let held = why.split('`').nth(1).unwrap_or_default();
        assert!(!held.is_empty() && code.contains(held), "{slug} names no test and no type: {why}");
    }

    let is_test = |slug: &str| {
        let underscored = slug.replace('-', "_");
        names.iter().any(|name| name.contains(&underscored)) || code.contains(&format!("\"{slug}: "))
    };
    let is_excused = |slug: &str| excused.iter().any(|(excused, _)| *excused == slug);
    let missing: Vec<&String> = slugs.iter().filter(|slug| !is_test(slug) && !is_excused(slug)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
