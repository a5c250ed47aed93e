//! `SECURITY.md` names the tests that hold what it says: each of them exists.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn each_test_that_the_security_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let mut code = String::new();
    for part in ["core", "runtime-os", "cli", "tests"] {
        gather(&root.join(part), &mut code);
    }
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

fn gather(folder: &Path, code: &mut String) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("fixtures") {
            gather(&path, code);
        } else if path.extension().is_some_and(|end| end == "rs") {
            code.push_str(&fs::read_to_string(path).expect("a text"));
        }
    }
}
