//! What the blocking runtime does to its process. One test: it counts what is open in all of it.

use agentline_blocking::Driver;
use agentline_tests::driver_table::{Scripted, whole};
use tempfile::TempDir;

#[test]
fn nothing_is_left_behind_and_a_shortage_passes() {
    let drive = |script| Driver::<Scripted>::new(script).ok()?.next();
    whole::nothing_is_left(drive);
    let dir = TempDir::with_prefix("al").expect("a directory");
    whole::a_shortage_passes(dir.path(), drive);
}
