//! An owner whose own reader is full.

use agentline_core::machine::Heard::{Bytes, Group as Answer, Opened, Stderr, WriteFailed, Written};
use agentline_core::{Group, Open, Peer, SpawnSpec};

use crate::HOUR;
use crate::rig::Rig;

#[test]
fn a_held_link_leaves_its_bytes_in_the_pipe() {
    let mut rig = Rig::child();
    rig.hold(true);
    rig.hold(true);
    rig.expect("hold");
    rig.hear(Bytes(b"on its way\n"));
    rig.expect("line on its way");
    rig.hold(false);
    rig.hold(false);
    rig.expect("read");
}

#[test]
fn a_link_can_be_held_before_it_is_open() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.hold(true);
    rig.expect("open");
    rig.hear(Opened(Peer::default()));
    rig.expect("hold, opened");
    rig.hold(false);
    rig.expect("read");

    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.hold(true);
    rig.hold(false);
    rig.hear(Opened(Peer::default()));
    rig.expect("open, opened");
}

#[test]
fn commands_writes_and_standard_error_are_not_held() {
    let mut rig = Rig::child();
    rig.hold(true);
    rig.say(&["a"]);
    rig.hear(Written);
    rig.hear(Stderr(b"e"));
    rig.expect("hold, write a");
    rig.leave();
    rig.expect("read, end stdin");
}

#[test]
fn the_drain_grace_does_not_run_while_held() {
    let mut rig = Rig::child();
    rig.hold(true);
    rig.exit();
    assert_eq!(rig.due(), None);
    rig.pass(HOUR);
    rig.hold(false);
    rig.expect("hold, read");
    rig.hear(Bytes(b"kept\n"));
    rig.expect("line kept");
    rig.tick_in(1000);
    rig.expect("ended, end stdin, probe");
}

#[test]
fn a_hold_after_the_exit_suspends_the_drain_grace() {
    let mut rig = Rig::child();
    rig.exit();
    rig.hold(true);
    assert_eq!(rig.due(), None);
    rig.hold(false);
    rig.expect("hold, read");
    rig.tick_in(1000);
    rig.expect("ended, end stdin, probe");
}

#[test]
fn a_held_link_reads_again_when_it_leaves() {
    let mut rig = Rig::child();
    rig.hold(true);
    rig.exit();
    rig.leave();
    rig.expect("hold, read, end stdin, probe");
    rig.hold(true);
    rig.hear(Bytes(b"x\n"));
    rig.hear(Answer(Group::Gone));
    rig.tick_in(1000);
    rig.expect(r#"close, closed Own Code(0) Gone "", over"#);
}

#[test]
fn a_failed_write_lets_go_of_a_held_link() {
    let mut rig = Rig::child();
    rig.say(&["a"]);
    rig.hold(true);
    rig.hear(WriteFailed);
    rig.expect("write a, hold, read, end stdin");
}
