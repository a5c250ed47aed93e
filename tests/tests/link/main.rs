//! The life of one link, rule by rule, through the smallest machine that has one.

mod rig;
mod worlds;

use agentline_core::machine::Heard::{
    Bytes, Eof, Exited, Group as Answer, OpenFailed, Opened, Stderr, WriteFailed, Written,
};
use agentline_core::{Address, Exit, Group, Open, OpenError, Peer, SpawnSpec};
use rig::Rig;

const HOUR: u64 = 3_600_000;

// Leaving.

#[test]
fn the_ladder_takes_one_rung_after_the_other() {
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
fn the_exit_of_a_child_ends_the_wait_for_its_stdin() {
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

// The end of a child.

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
fn nobody_is_signalled_who_was_not_seen_alive_after_the_exit() {
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
    rig.expect(r#"ended, end stdin, probe, close, closed Own Code(0) Gone "🎉é!?", over"#);
}

// Writing.

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
    rig.say(&["1234", "6789", "x", "longer than any write", "y", "123456789"]);
    for write in ["1234+6789", "x", "longer than any write", "y", "123456789"] {
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
fn a_failed_write_stops_writing_only() {
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

// Holding.

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

// Opening.

#[test]
fn a_child_that_is_left_before_it_is_there_is_awaited_and_ended() {
    let mut rig = Rig::opening(Open::spawn(SpawnSpec::default()));
    rig.say(&["never sent"]);
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
    for how in [Open::Connect(Address("s".into())), Open::Given] {
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
    let mut asked = 0;
    while !rig.is_over() {
        rig.hear(OpenFailed(OpenError::Busy));
        asked += rig.outputs().iter().filter(|output| *output == "open").count();
        if let Some(due) = rig.due() {
            rig.tick_in(due);
        }
    }
    assert_eq!(asked, 50);
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

// All orders.

#[test]
fn there_is_one_way_down_in_every_order_of_news() {
    const NEWS: [&str; 6] = ["leave", "exit", "eof", "written", "write failed", "hold"];
    for start in [Rig::child, Rig::stream, Rig::given] {
        for group in [Group::Gone, Group::Alive] {
            for pause in [0, 20, 3000] {
                permutations(&NEWS, &mut |order| one_way_down(start(), order, group, pause));
            }
        }
    }
}

/// Tells the news in this order, each after a pause, then only lets time pass. The watch around the machine
/// sees to it that `close` is the last action; here it is that it comes.
fn one_way_down(mut rig: Rig, order: &[&str], group: Group, pause: u64) {
    let (mut seen, mut stderr) = (Vec::new(), String::new());
    rig.say(&["a"]);
    rig.say(&["b"]);
    for news in order {
        match *news {
            "leave" => rig.try_leave(),
            "exit" => rig.exit(),
            "eof" => rig.hear(Eof),
            "written" => rig.hear(Written),
            "write failed" => rig.hear(WriteFailed),
            _ => rig.hold(true),
        }
        answer(&mut rig, group, &mut seen);
        if !rig.is_over() {
            rig.hear(Stderr(b"."));
            stderr.push('.');
        }
        rig.pass(pause);
        rig.tick();
        answer(&mut rig, group, &mut seen);
    }
    for _ in 0..100 {
        let Some(due) = rig.due() else { break };
        rig.tick_in(due);
        answer(&mut rig, group, &mut seen);
    }
    assert!(rig.is_over(), "{order:?} ends in {seen:?}");
    assert_eq!(seen.iter().filter(|word| *word == "close").count(), 1, "{seen:?}");
    let last_words = seen.iter().find(|word| word.starts_with("closed")).expect("last words");
    assert!(last_words.ends_with(&format!("{stderr:?}")), "{last_words} after {stderr}");
    for news in [Opened(Peer::default()), Bytes(b"x\n"), Eof, Written, WriteFailed, Answer(Group::Alive)] {
        rig.hear(news);
    }
    rig.exit();
    rig.tick();
    rig.expect("");
}

fn answer(rig: &mut Rig, group: Group, seen: &mut Vec<String>) {
    loop {
        let words = rig.outputs();
        let asked = words.iter().any(|word| word == "probe");
        seen.extend(words);
        if !asked {
            return;
        }
        rig.hear(Answer(group));
    }
}

fn permutations<'a>(items: &[&'a str], each: &mut impl FnMut(&[&'a str])) {
    fn go<'a>(items: &mut Vec<&'a str>, from: usize, each: &mut impl FnMut(&[&'a str])) {
        if from == items.len() {
            return each(items);
        }
        for at in from..items.len() {
            items.swap(from, at);
            go(items, from + 1, each);
            items.swap(from, at);
        }
    }
    go(&mut items.to_vec(), 0, each);
}
