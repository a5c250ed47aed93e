//! Both runtimes perform every action as the table says. One test: a child that another thread starts holds
//! copies of all our descriptors for a moment, and then no pipe ends when it should.

use agentline_tests::driver_table::{RUNTIMES, rows};

#[test]
fn the_table_holds_for_every_runtime() {
    for (_, drive) in RUNTIMES {
        rows().into_iter().for_each(|row| row.run(drive));
    }
}
