//! One write at a time.

use agentline_core::machine::Heard::{Bytes, Eof, Group as Answer, Opened, WriteFailed, Written};
use agentline_core::{Group, Open, Peer, SpawnSpec};

use crate::rig::Rig;

#[test]
fn a_step_is_one_write_and_the_rest_follows_its_acknowledgement() {
    let mut rig = Rig::child();
    rig.say(&["a", "bc", "d"]);
    rig.expect("write a+bc+d");
    rig.say(&["e"]);
    rig.say(&["f"]);
    rig.expect("");
    rig.hear(Written);
    rig.expect("write e+f");
    rig.hear(Written);
    rig.expect("");
}

#[test]
fn a_write_is_within_the_limit_or_one_line() {
    let mut rig = Rig::child();
    rig.say(&["the longest comes first", "1234", "6789", "x", "longer than any write", "y", "12345678"]);
    let writes = ["the longest comes first", "1234+6789", "x", "longer than any write", "y", "12345678"];
    for write in writes {
        rig.expect(&format!("write {write}"));
        rig.hear(Written);
    }
    rig.expect("");
}

#[test]
fn what_is_unsent_is_counted_until_it_is_written() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.say(&["12", "3"]);
    assert_eq!(rig.unsent(), 5);
    rig.hear(Opened(Peer::default()));
    rig.expect("open, opened, write 12+3");
    rig.say(&["4"]);
    assert_eq!(rig.unsent(), 7);
    rig.hear(Written);
    assert_eq!(rig.unsent(), 2);
    rig.hear(Written);
    assert_eq!(rig.unsent(), 0);
}

#[test]
fn a_peer_that_never_reads_is_left_at_the_hard_limit() {
    let mut rig = Rig::child();
    for _ in 0..10 {
        rig.say(&["123456789"]);
    }
    rig.expect("write 123456789");
    rig.say(&["1"]);
    rig.expect("deaf");
    rig.tick_in(1000);
    rig.expect("end stdin");
}

#[test]
fn epipe_on_child_stdin_a_failed_write_stops_writing_only() {
    let mut rig = Rig::child();
    rig.say(&["lost"]);
    rig.hear(WriteFailed);
    rig.expect("write lost, end stdin");
    assert_eq!(rig.unsent(), 0);
    rig.hear(Bytes(b"still\n"));
    rig.expect("line still");
    rig.hear(Bytes(b"here\n"));
    rig.hear(Eof);
    rig.expect("line here, ended");
    rig.tick_in(2500);
    rig.expect("term");
}

#[test]
fn a_failed_write_of_a_dead_child_costs_no_time() {
    let mut rig = Rig::child();
    rig.say(&["lost"]);
    rig.hear(WriteFailed);
    rig.exit();
    rig.hear(Eof);
    rig.hear(Answer(Group::Gone));
    rig.expect(r#"write lost, end stdin, probe, ended, close, closed Eof Code(0) Gone "", over"#);
}
