//! `SECURITY.md` names the tests that hold what it says: each of them exists.

use std::fs;

use agentline_tests::source::{all_code, root};

#[test]
fn each_test_that_the_security_page_names_exists() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let code = all_code();
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with('|') && line.matches('|').count() == 5) {
        let tests = row.rsplit('|').nth(1).unwrap();
        for test in tests.split('`').skip(1).step_by(2) {
            let exists = code.contains(&format!("fn {test}(")) || code.contains(&format!("\"{test}\""));
            assert!(exists, "no test {test}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
