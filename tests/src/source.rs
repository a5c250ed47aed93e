//! The project's own source, for the suites that hold what its pages say about its tests.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
///
/// # Panics
///
/// This crate stands in no folder.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace")
}

/// The text of every file of Rust.
///
/// # Panics
///
/// One of them cannot be read.
#[must_use]
pub fn all_code() -> String {
    let mut code = String::new();
    for part in ["core", "runtime-os", "runtime-blocking", "runtime-smol", "cli", "tests"] {
        gather(&root().join(part), &mut code);
    }
    code
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
