//! Until a link is up.

use agentline_core::machine::Heard::{OpenFailed, Opened};
use agentline_core::{Address, Open, OpenError, Peer, SpawnSpec};

use crate::HOUR;
use crate::rig::Rig;

#[test]
fn a_child_that_is_left_before_it_is_there_is_awaited_and_ended() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.say(&["never sent"]);
    rig.hold(true);
    rig.leave();
    rig.expect("open");
    rig.pass(3000);
    rig.hear(Opened(Peer::default()));
    rig.expect("end stdin");
    rig.tick_in(2500);
    rig.expect("term");
}

#[test]
fn a_child_that_never_comes_is_given_up() {
    for leave in [false, true] {
        let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
        if leave {
            rig.leave();
        }
        rig.tick_in(10_000);
        rig.expect(r#"open, close, failed: timed out, closed Own - - "", over"#);
        rig.hear(Opened(Peer::default()));
        rig.expect("");
    }
}

#[test]
fn a_connection_that_is_left_before_it_is_there_is_closed() {
    for how in [Open::Connect(Address("s".into())), Open::Given(0)] {
        let mut rig = Rig::opening(how);
        rig.leave();
        rig.expect(r#"open, close, closed Own - - "", over"#);
    }
}

#[test]
fn a_link_that_is_open_is_not_called_late() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.pass(HOUR);
    rig.hear(Opened(Peer::default()));
    rig.tick();
    rig.expect("open, opened");
    assert_eq!(rig.due(), None);
}

#[test]
fn what_the_system_is_short_of_is_asked_for_again() {
    for error in [OpenError::Busy, OpenError::TooManyFiles] {
        let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
        rig.say(&["kept"]);
        rig.expect("open");
        for _ in 0..3 {
            rig.hear(OpenFailed(error));
            rig.hear(Opened(Peer::default()));
            rig.expect("");
            rig.tick_in(200);
            rig.expect("open");
        }
        rig.hear(Opened(Peer::default()));
        rig.expect("opened, write kept");
    }
}

#[test]
fn it_is_not_asked_for_beyond_the_open_grace() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    let (mut asked, mut last) = (0, String::new());
    while !rig.is_over() {
        rig.hear(OpenFailed(OpenError::Busy));
        for output in rig.outputs() {
            asked += usize::from(output == "open");
            if output.starts_with("failed") {
                last = output;
            }
        }
        if let Some(due) = rig.due() {
            rig.tick_in(due);
        }
    }
    assert_eq!((asked, last.as_str()), (50, "failed: the listener is busy"));
}

#[test]
fn other_failures_are_final() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.hear(OpenFailed(OpenError::NotFound));
    rig.expect(r#"open, close, failed: not found, closed Own - - "", over"#);
}

#[test]
fn leaving_between_two_attempts_leaves_no_child_behind() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.hear(OpenFailed(OpenError::Busy));
    rig.leave();
    rig.expect(r#"open, close, closed Own - - "", over"#);
}
