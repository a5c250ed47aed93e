//! The blocking runtime performs every action as the table says.

use agentline_blocking::{Driver, Given};
use agentline_tests::driver_table::{Scripted, rows};

#[test]
fn the_driver_table_holds() {
    for row in rows() {
        row.run(|script, given| {
            let driver = match given {
                Some((input, output)) => Driver::with_given(script, Given::pair(input, output)),
                None => Driver::new(script),
            };
            let mut driver: Driver<Scripted> = driver.expect("a driver");
            driver.next()
        });
    }
}
