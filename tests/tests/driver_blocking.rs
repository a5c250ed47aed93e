//! The blocking runtime performs every action as the table says.

use std::thread;

use agentline_blocking::{Driver, Given};
use agentline_core::{Action, Open, Refused};
use agentline_tests::driver_table::whole::stubborn;
use agentline_tests::driver_table::{A, Scripted, Step, Until, Witness, rows, sh};
use tempfile::TempDir;

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

#[test]
fn a_command_from_another_thread_is_written_at_once_and_wakes_the_driver() {
    let dir = TempDir::with_prefix("al").unwrap();
    let mut witness = Witness::new(&dir.path().join("witness"));
    let script = vec![
        Step::Do(A, Action::Open(Open::spawn(sh(dir.path(), "read -r x; echo $x >witness; exec cat")))),
        Step::Until(A, Until::Bytes(6)),
    ];
    let mut driver = Driver::<Scripted>::new(script).unwrap();
    let handle = driver.handle();
    // Nobody drives, and yet the child hears it.
    handle.command((A, Action::Write(b"first\n".into()))).unwrap();
    witness.wait_for(6);
    let seen = thread::scope(|scope| {
        let driving = scope.spawn(move || driver.next());
        while handle.command((A, Action::Write(b"second\n".into()))).is_err() {}
        driving.join().unwrap()
    });
    assert_eq!(seen.unwrap().on(A).bytes, b"second\n");
    assert_eq!(handle.command((A, Action::Probe)), Err(Refused::Closed));
}

#[test]
fn dropping_the_driver_kills_the_group() {
    let dir = TempDir::with_prefix("al").unwrap();
    let mut witness = Witness::new(&dir.path().join("witness"));
    let driver = Driver::<Scripted>::new(stubborn(dir.path())).unwrap();
    let handle = driver.handle();
    witness.wait_for(5);
    drop(driver);
    assert_eq!(witness.last_words(), "");
    assert_eq!(handle.command((A, Action::Probe)), Err(Refused::Closed));
}
