//! What a runtime does to its process. One test: it counts what is open in all of it.

use agentline_tests::driver_table::{RUNTIMES, whole};
use tempfile::TempDir;

#[test]
fn subscriber_and_fd_leak_nothing_is_left_behind_and_a_shortage_passes() {
    for (_, drive) in RUNTIMES {
        whole::nothing_is_left(drive);
        let dir = TempDir::with_prefix("al").expect("a directory");
        whole::a_shortage_passes(dir.path(), drive);
    }
}
