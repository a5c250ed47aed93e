//! A listener and its seats, driven by hand.

use std::time::Duration;

use agentline_core::machine::Heard as News;
use agentline_core::{Action, Input, LinkId, Machine, Now, Open, OpenError, Output, Peer, Refused, Time};
use agentline_tests::Checked;

use crate::CHECKS;
use crate::session::{Command, Event, Place, Session};

const LISTENER: LinkId = LinkId::FIRST;

struct Rig {
    machine: Checked<Session>,
    now: Now,
}

impl Rig {
    fn listening(seats: usize) -> Self {
        let now = Now::default();
        let machine = Checked::new(now, (CHECKS, Place("s", seats))).and_refusals();
        let mut rig = Self { machine, now };
        rig.expect("0 listen");
        rig.hear(LISTENER, News::Opened(Peer::default()));
        rig.expect("1 accept 0");
        rig
    }

    fn hear(&mut self, link: LinkId, news: News<'_>) {
        self.machine.handle(self.now, Input::Link(link, news));
    }

    fn take(&mut self, link: u32) {
        self.hear(LinkId::from_number(link), News::Opened(Peer::default()));
    }

    fn tick_in(&mut self, millis: u64) {
        let at = self.machine.deadline().map(|(at, _)| at);
        assert_eq!(at, Some(self.now.mono + Duration::from_millis(millis)));
        self.now.mono = at.unwrap_or(Time::ZERO);
        self.machine.handle(self.now, Input::Tick);
    }

    fn expect(&mut self, words: &str) {
        let outputs: Vec<_> = std::iter::from_fn(|| self.machine.poll()).map(word).collect();
        assert_eq!(outputs.join(", "), words);
    }
}

fn word(output: Output<Event>) -> String {
    match output {
        Output::Do(link, Action::Open(Open::Listen(_))) => format!("{} listen", link.number()),
        Output::Do(link, Action::Open(Open::Accept(from))) => {
            format!("{} accept {}", link.number(), from.number())
        }
        Output::Do(link, Action::Write(bytes)) => {
            format!("{} write {}", link.number(), String::from_utf8_lossy(&bytes).trim_end())
        }
        Output::Do(link, Action::CloseWrite) => format!("{} end", link.number()),
        Output::Do(link, Action::Close) => format!("{} close", link.number()),
        Output::Do(link, action) => format!("{} {action:?}", link.number()),
        Output::Store(_, store) => panic!("{store:?}"),
        Output::Tell(event) => format!("{event:?}"),
        Output::End => "over".to_owned(),
    }
}

#[test]
fn there_are_no_more_connections_than_seats() {
    let mut rig = Rig::listening(2);
    rig.take(1);
    rig.expect("2 accept 0");
    rig.take(2);
    rig.expect("");
    rig.hear(LinkId::from_number(1), News::Eof);
    rig.expect("1 end, 1 close, 3 accept 0");
}

#[test]
fn an_answer_that_nobody_waits_for_is_refused_and_changes_nothing() {
    let mut rig = Rig::listening(2);
    rig.take(1);
    rig.expect("2 accept 0");
    let answer = Command::Answer("hm".into());
    assert_eq!(rig.machine.command(rig.now, answer), Err(Refused::Unknown));
    rig.expect("");
}

#[test]
fn a_failed_accept_is_tried_again_after_a_while() {
    let mut rig = Rig::listening(2);
    rig.hear(LinkId::from_number(1), News::OpenFailed(OpenError::TooManyFiles));
    rig.expect("1 close");
    rig.tick_in(1000);
    rig.expect("2 accept 0");
}

#[test]
fn a_listener_that_fails_is_closed_once() {
    let machine = Checked::new(Now::default(), (CHECKS, Place("s", 1)));
    let mut rig = Rig { machine, now: Now::default() };
    rig.hear(LISTENER, News::OpenFailed(OpenError::InUse));
    rig.expect("0 listen, 0 close, ListenFailed(InUse)");
    assert_eq!(rig.machine.command(rig.now, Command::Close), Ok(()));
    rig.expect("over");
}

#[test]
fn a_listener_that_the_system_had_no_room_for_is_opened_again() {
    let machine = Checked::new(Now::default(), (CHECKS, Place("s", 1)));
    let mut rig = Rig { machine, now: Now::default() };
    rig.expect("0 listen");
    for error in [OpenError::TooManyFiles, OpenError::Busy] {
        rig.hear(LISTENER, News::OpenFailed(error));
        rig.expect("");
        rig.tick_in(200);
        rig.expect("0 listen");
    }
    rig.hear(LISTENER, News::Opened(Peer::default()));
    rig.expect("1 accept 0");
}

#[test]
fn a_listener_that_never_opens_is_told_so_within_the_grace() {
    let machine = Checked::new(Now::default(), (CHECKS, Place("s", 1)));
    let mut rig = Rig { machine, now: Now::default() };
    rig.expect("0 listen");
    rig.tick_in(10_000);
    rig.expect("0 close, ListenFailed(TimedOut)");
}

#[test]
fn closing_gives_up_the_accept_and_lets_connections_finish() {
    let mut rig = Rig::listening(3);
    rig.take(1);
    rig.hear(LinkId::from_number(1), News::Bytes(b"hello\n"));
    rig.expect("2 accept 0, Asked(\"hello\")");
    assert_eq!(rig.machine.command(rig.now, Command::Close), Ok(()));
    rig.expect("2 close, 0 close, 1 end");
    rig.take(2);
    rig.hear(LISTENER, News::Eof);
    rig.expect("");
    rig.hear(LinkId::from_number(1), News::Eof);
    rig.expect("1 close, over");
    rig.take(1);
    rig.expect("");
}
