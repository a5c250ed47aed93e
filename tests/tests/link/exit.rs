//! The end of a child: its last bytes, its exit, its group.

use agentline_core::machine::Heard::{Bytes, Eof, Exited, Group as Answer, Stderr};
use agentline_core::{Exit, Group};

use crate::rig::Rig;

#[test]
fn bytes_between_the_exit_and_the_end_are_delivered() {
    let mut rig = Rig::child();
    rig.exit();
    rig.hear(Bytes(b"an error re"));
    rig.hear(Bytes(b"ply\nrest"));
    rig.hear(Eof);
    rig.expect("line too long, line rest, ended, end stdin, probe");
}

#[test]
fn a_grandchild_that_holds_the_pipe_is_waited_for_the_drain_grace() {
    let mut rig = Rig::child();
    rig.exit();
    rig.tick_in(1000);
    rig.expect("ended, end stdin, probe");
    rig.hear(Bytes(b"too late\n"));
    rig.hear(Answer(Group::Gone));
    rig.expect(r#"close, closed Own Code(0) Gone "", over"#);
}

#[test]
fn whoever_talks_after_the_exit_is_heard_until_we_leave() {
    let mut rig = Rig::child();
    rig.exit();
    for _ in 0..5 {
        rig.pass(999);
        rig.hear(Bytes(b"x\n"));
    }
    rig.expect("line x, line x, line x, line x, line x");
    rig.leave();
    rig.expect("end stdin, probe");
    rig.hear(Answer(Group::Gone));
    rig.pass(600);
    rig.hear(Bytes(b"x\n"));
    rig.tick_in(400);
    rig.expect(r#"close, closed Own Code(0) Gone "", over"#);
}

#[test]
fn a_group_that_outlives_its_leader_takes_the_ladder() {
    let mut rig = Rig::child();
    rig.exit();
    rig.hear(Eof);
    rig.expect("ended, end stdin, probe");
    let mut outputs = Vec::new();
    while !rig.is_over() {
        rig.hear(Answer(Group::Alive));
        let due = rig.due().expect("it goes on");
        rig.tick_in(due);
        outputs.extend(rig.outputs().into_iter().filter(|output| output != "probe"));
    }
    assert_eq!(outputs, ["term", "kill", "close", r#"closed Kill Code(0) Alive """#, "over"]);
}

#[test]
fn the_group_is_looked_for_ever_less_often() {
    let mut rig = Rig::child();
    rig.leave();
    rig.hear(Eof);
    rig.exit();
    rig.expect("end stdin, probe");
    for pause in [15, 30, 60, 120, 240, 480, 480, 480] {
        rig.hear(Answer(Group::Alive));
        rig.tick_in(pause);
        rig.expect("probe");
    }
}

#[test]
fn killpg_after_reap_nobody_is_signalled_who_was_not_seen_alive_after_the_exit() {
    // The exit comes at the very moment of the next rung.
    let mut rig = Rig::child();
    rig.leave();
    rig.pass(2500);
    rig.exit();
    rig.expect("end stdin, probe");
    rig.hear(Answer(Group::Gone));
    rig.expect("");
    rig.hear(Eof);
    rig.expect(r#"close, closed Eof Code(0) Gone "", over"#);

    let mut rig = Rig::child();
    rig.leave();
    rig.pass(2500);
    rig.exit();
    rig.expect("end stdin, probe");
    rig.hear(Answer(Group::Alive));
    rig.tick_in(15);
    rig.hear(Answer(Group::Alive));
    rig.tick_in(15);
    assert_eq!(rig.outputs().iter().filter(|output| *output == "term").count(), 1);
}

#[test]
fn nobody_is_signalled_once_the_group_is_gone() {
    let mut rig = Rig::child();
    rig.leave();
    rig.exit();
    rig.hear(Answer(Group::Gone));
    rig.expect("end stdin, probe");
    // A process outside of the group holds the pipe.
    rig.tick_in(1000);
    rig.expect(r#"close, closed Eof Code(0) Gone "", over"#);
}

#[test]
fn nobody_is_signalled_once_the_group_is_gone_though_the_rung_comes_before_the_drain_grace_ends() {
    let mut rig = Rig::child();
    rig.leave();
    rig.pass(2400);
    rig.exit();
    rig.hear(Answer(Group::Gone));
    rig.expect("end stdin, probe");
    rig.tick_in(1000);
    rig.expect(r#"close, closed Eof Code(0) Gone "", over"#);
}

#[test]
fn what_a_child_did_not_read_dies_with_it() {
    let mut rig = Rig::child();
    rig.say(&["stuck"]);
    rig.say(&["queued"]);
    rig.exit();
    rig.hear(Eof);
    rig.expect("write stuck, ended, end stdin, probe");
    assert_eq!(rig.unsent(), 0);
}

#[test]
fn the_first_exit_counts() {
    let mut rig = Rig::child();
    rig.hear(Exited(Exit::Signal(11)));
    rig.hear(Exited(Exit::Code(0)));
    rig.hear(Eof);
    rig.hear(Answer(Group::Gone));
    rig.expect(r#"ended, end stdin, probe, close, closed Own Signal(11) Gone "", over"#);
}

#[test]
fn the_end_of_standard_error_is_kept_in_whole_characters() {
    let mut rig = Rig::child();
    rig.hear(Stderr(b"only the end "));
    rig.hear(Stderr("of 中🎉é".as_bytes()));
    rig.hear(Stderr(b"!"));
    rig.exit();
    rig.hear(Stderr(b"?"));
    rig.hear(Eof);
    rig.hear(Answer(Group::Gone));
    rig.expect(r#"ended, end stdin, probe, close, closed Own Code(0) Gone "…🎉é!?", over"#);
}
