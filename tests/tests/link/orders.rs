//! Whatever comes in whatever order.

use agentline_core::machine::Heard::{Bytes, Eof, Group as Answer, Opened, Stderr, WriteFailed, Written};
use agentline_core::{Group, Peer};

use crate::HOUR;
use crate::rig::Rig;

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
    rig.pass(HOUR);
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
