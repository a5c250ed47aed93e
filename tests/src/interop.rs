//! Published peers, for the suites that talk to them.

use std::path::{Path, PathBuf};
use std::sync::Once;

/// The folder that `tests/interop/setup.sh` filled, which `AGENTLINE_INTEROP` names; says once that there is none.
#[must_use]
pub fn peers() -> Option<PathBuf> {
    static SAID: Once = Once::new();
    let folder = std::env::var_os("AGENTLINE_INTEROP").map(PathBuf::from);
    if folder.is_none() {
        SAID.call_once(|| skipped("AGENTLINE_INTEROP names no folder with published peers"));
    }
    folder
}

/// A script that drives a peer, or is driven by it.
#[must_use]
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(name)
}

/// Says that a suite, or a part of it, was skipped, and why.
#[expect(clippy::print_stderr, reason = "a skipped suite says so")]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
