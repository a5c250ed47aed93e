//! The real binary, for suites that run it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Where the `agentline` of this build is; built when it is not there yet.
///
/// # Panics
///
/// It does not build.
pub fn agentline() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "agentline-cli", "--bin", "agentline", "--target-dir"]);
    build.arg(profile.parent().expect("target"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo runs").success(), "agentline does not build");
    profile.join("agentline")
}
