//! Leaving: flush, end of stdin, SIGTERM, SIGKILL.

use agentline_core::Group;
use agentline_core::machine::Heard::{Bytes, Eof, Group as Answer, Written};

use crate::HOUR;
use crate::rig::Rig;

#[test]
fn escalation_flag_wrong_the_ladder_takes_one_rung_after_the_other() {
    let mut rig = Rig::child();
    rig.leave();
    rig.expect("end stdin");
    rig.tick_in(2500);
    rig.expect("term");
    rig.tick_in(2000);
    rig.expect("kill");
    rig.tick_in(5000);
    rig.expect(r#"close, closed Kill - Alive "", over"#);
}

#[test]
fn a3_in_haste_sigterm_comes_at_once_and_sigkill_soon_after() {
    let mut rig = Rig::child();
    rig.say(&["unread"]);
    rig.expect("write unread");
    rig.hasten();
    rig.expect("end stdin, term");
    rig.tick_in(200);
    rig.expect("kill");
    rig.hasten();
    rig.tick_in(5000);
    rig.expect(r#"close, closed Kill - Alive "", over"#);
}

#[test]
fn a3_haste_shortens_what_is_left_of_the_ladder() {
    let mut rig = Rig::child();
    rig.leave();
    rig.expect("end stdin");
    rig.pass(100);
    rig.hasten();
    rig.expect("term");
    rig.pass(50);
    // Once more is no earlier.
    rig.hasten();
    rig.tick_in(150);
    rig.expect("kill");

    let mut rig = Rig::child();
    rig.leave();
    rig.tick_in(2500);
    rig.expect("end stdin, term");
    rig.pass(100);
    rig.hasten();
    rig.tick_in(200);
    rig.expect("kill");
}

#[test]
fn a3_haste_signals_nobody_whose_group_is_gone() {
    let mut rig = Rig::child();
    rig.exit();
    rig.hasten();
    rig.expect("end stdin, probe");
    rig.hear(Answer(Group::Gone));
    rig.hear(Eof);
    rig.expect(r#"close, closed Own Code(0) Gone "", over"#);

    let mut rig = Rig::child();
    rig.exit();
    rig.hasten();
    rig.expect("end stdin, probe");
    rig.hear(Answer(Group::Alive));
    rig.tick_in(15);
    rig.expect("probe");
    rig.hear(Answer(Group::Alive));
    rig.tick_in(15);
    rig.expect("term");
}

#[test]
fn each_rung_counts_from_when_the_last_was_taken() {
    let mut rig = Rig::child();
    rig.leave();
    rig.pass(HOUR);
    rig.tick();
    rig.expect("end stdin, term");
    rig.pass(1999);
    rig.tick();
    rig.expect("");
    rig.pass(HOUR);
    rig.tick();
    rig.expect("kill");
    rig.tick_in(5000);
    rig.expect(r#"close, closed Kill - Alive "", over"#);
}

#[test]
fn early_and_repeated_ticks_are_harmless() {
    let mut rig = Rig::child();
    rig.tick();
    rig.leave();
    rig.expect("end stdin");
    for _ in 0..2 {
        rig.tick();
        rig.pass(1249);
    }
    rig.tick();
    rig.expect("");
    rig.tick_in(2);
    rig.tick();
    rig.expect("term");
}

#[test]
fn a_child_that_leaves_at_the_end_of_its_stdin_costs_no_time() {
    let mut rig = Rig::child();
    rig.say(&["bye"]);
    rig.leave();
    rig.expect("write bye");
    rig.hear(Written);
    rig.expect("end stdin");
    rig.hear(Eof);
    rig.exit();
    rig.expect("probe");
    rig.hear(Answer(Group::Gone));
    rig.expect(r#"close, closed Eof Code(0) Gone "", over"#);
}

#[test]
fn a_child_that_exits_by_itself_is_reported_when_its_stdout_ends() {
    let mut rig = Rig::child();
    rig.exit();
    rig.hear(Bytes(b"last\n"));
    rig.expect("line last");
    rig.hear(Eof);
    rig.expect("ended, end stdin, probe");
    rig.hear(Answer(Group::Gone));
    rig.expect(r#"close, closed Own Code(0) Gone "", over"#);
}

#[test]
fn a_stdout_that_ends_before_the_exit_takes_the_ladder() {
    let mut rig = Rig::child();
    rig.hear(Eof);
    rig.expect("ended, end stdin");
    rig.tick_in(2500);
    rig.expect("term");
    rig.exit();
    rig.expect("probe");
    rig.hear(Answer(Group::Gone));
    rig.expect(r#"close, closed Term Code(0) Gone "", over"#);
}

#[test]
fn leaving_twice_is_leaving_once() {
    let mut rig = Rig::child();
    rig.leave();
    rig.try_leave();
    rig.hear(Eof);
    rig.expect("end stdin");
    assert_eq!(rig.due(), Some(2500));
}

#[test]
fn a_peer_that_reads_nothing_is_waited_for_the_flush_grace() {
    let mut rig = Rig::child();
    rig.say(&["stuck", "queued"]);
    rig.leave();
    rig.expect("write stuck");
    rig.tick_in(1000);
    rig.expect("end stdin");
    assert_eq!((rig.unsent(), rig.due()), (0, Some(2500)));
    rig.hear(Written);
    rig.expect("");
}

#[test]
fn all_that_was_queued_is_written_before_the_end_of_stdin() {
    let mut rig = Rig::child();
    rig.say(&["one", "two", "three"]);
    rig.leave();
    rig.expect("write one+two");
    rig.hear(Written);
    rig.expect("write three");
    rig.hear(Written);
    rig.expect("end stdin");
}

#[test]
fn reap_waits_for_stdin_the_exit_of_a_child_ends_the_wait_for_its_stdin() {
    let mut rig = Rig::child();
    rig.say(&["stuck", "queued"]);
    rig.leave();
    rig.expect("write stuck");
    rig.exit();
    rig.expect("end stdin, probe");
    assert_eq!(rig.unsent(), 0);
    rig.hear(Answer(Group::Gone));
    rig.hear(Eof);
    rig.expect(r#"close, closed Own Code(0) Gone "", over"#);
}

#[test]
fn our_own_stdio_closes_as_soon_as_it_is_flushed() {
    let mut rig = Rig::given();
    rig.say(&["bye"]);
    rig.leave();
    rig.expect("write bye");
    rig.hear(Written);
    rig.expect(r#"end stdin, close, closed Eof - - "", over"#);
}

#[test]
fn a_stream_waits_for_the_end_of_its_peer_at_most_the_grace() {
    let mut rig = Rig::stream();
    rig.leave();
    rig.expect("end stdin");
    rig.hear(Eof);
    rig.expect(r#"close, closed Eof - - "", over"#);

    let mut rig = Rig::stream();
    rig.leave();
    rig.tick_in(2500);
    rig.expect(r#"end stdin, close, closed Eof - - "", over"#);
}
