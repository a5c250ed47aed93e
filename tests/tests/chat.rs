//! A conversation: who may speak when, and what everybody is told.

use std::path::Path;

use agentline_core::attach::{Answer, Canceller, Failure, Stop, Turn, canceller};
use agentline_core::chat::Command;
use agentline_core::problem::{Kind, Phase};
use agentline_core::rpc::RpcError;
use agentline_core::subagent::{Choice, Outcome, Policy, Setting};
use agentline_core::{Machine, Refused};
use agentline_tests::attach::{SOCKET, target};
use agentline_tests::room::{Heard, Room};
use agentline_tests::{Checked, Checks, Dice, Faults, Node, cases, dice};
use quickcheck::quickcheck;

fn answer(heard: &std::rc::Rc<std::cell::RefCell<Heard>>) -> Option<Turn> {
    match heard.borrow().answers.first() {
        Some(Ok(Answer::Turn(turn))) => Some(turn.clone()),
        _ => None,
    }
}

fn ended(answer: &str) -> Option<Turn> {
    Some(Turn { stop: Stop::EndTurn, answer: Some(answer.to_owned()) })
}

/// Cancels from outside, on a connection of its own.
fn cancel(room: &mut Room<'_>) {
    let config = canceller::Config { target: target(), session: Some("s-1".to_owned()) };
    let machine = Checked::around(Canceller::new(room.world.now(), config), Checks::default());
    room.world.add(Node::new(machine, |_, _, _| {}));
    room.settle();
}

#[test]
fn a_line_from_outside_is_shown_before_its_answer() {
    let mut room = Room::quiet(Policy::Ask, true);
    let (_, heard) = room.caller("say PONG");
    assert_eq!(room.news(), ["» say PONG", "PONG", "Completed"]);
    assert_eq!(answer(&heard), ended("PONG"));
}

#[test]
fn whoever_attached_gets_the_text_after_the_last_tool_call() {
    let mut room = Room::quiet(Policy::Ask, true);
    let (_, heard) = room.caller("tool PONG");
    assert_eq!(room.news(), ["» tool PONG", "looking", "tool look", "PONG", "Completed"]);
    assert_eq!(answer(&heard), ended("PONG"));
    assert_eq!(room.finished()[0].output, "looking\nPONG");
}

#[test]
fn lines_of_all_sources_take_turns_in_the_order_they_came() {
    let mut room = Room::quiet(Policy::Ask, true);
    room.types("ask first");
    room.types("say second");
    let (_, heard) = room.caller("say third");
    room.types("say fourth");
    assert_eq!(room.news(), ["› ask first", "? first"]);
    room.decides("yes");
    assert_eq!(
        room.news(),
        [
            "Allowed by User",
            "yes",
            "Completed",
            "› say second (waited)",
            "second",
            "Completed",
            "» say third (waited)",
            "third",
            "Completed",
            "› say fourth (waited)",
            "fourth",
            "Completed"
        ]
    );
    assert_eq!(answer(&heard), ended("third"));
}

#[test]
fn the_keyboard_cancels_a_turn_from_outside() {
    let mut room = Room::quiet(Policy::Ask, true);
    let (_, heard) = room.caller("ask it");
    room.command(Command::Cancel);
    assert_eq!(room.news(), ["» ask it", "? it", "cancelling", "Cancelled by Cancel", "Aborted"]);
    assert_eq!(answer(&heard), Some(Turn { stop: Stop::Cancelled, answer: None }));
    room.types("say on");
    assert_eq!(room.news(), ["› say on", "on", "Completed"]);
}

#[test]
fn a_conversation_begins_in_the_session_that_is_wanted_with_what_is_to_be_set() {
    let mode = || vec![Setting::Mode("code".to_owned())];
    for (session, settings, asked) in [
        (Choice::New, Vec::new(), "new"),
        (Choice::New, mode(), "new, mode code"),
        (Choice::Old("s-7".into()), mode(), "load s-7, mode code"),
        (Choice::Last(Vec::new()), Vec::new(), "list, load s-0"),
    ] {
        let mut room = Room::opened(session, settings);
        room.types("tell");
        assert_eq!(room.news()[1..], ["› tell", asked, "Completed"]);
    }
}

#[test]
fn lines_wait_until_everything_is_set_and_nobody_speaks_in_before() {
    let mut room = Room::new(Dice::new(&[]), Faults::NONE, Policy::Ask, true);
    room.types("tell");
    assert_eq!(room.news().last().map(String::as_str), Some("Completed"));
    let mut room = Room::opened(Choice::New, vec![Setting::Mode("nosuch".to_owned())]);
    room.world.run();
    let finished = room.finished();
    let problem = finished[0].error.as_ref().expect("a problem");
    assert!(problem.to_string().contains("no such mode"), "{problem}");
    assert!(room.files().is_empty() && room.news().iter().all(|news| !news.starts_with("listening")));
    let mut room = Room::opened(Choice::New, vec![Setting::Option("nosuch".to_owned(), "x".to_owned())]);
    room.world.run();
    assert_eq!((room.finished()[0].outcome, room.finished().len(), room.closed()), (Outcome::Error, 1, 1));
    let mut room = Room::opened(Choice::Nowhere, Vec::new());
    room.world.run();
    assert_eq!((room.news(), room.world.processes()), (vec!["closed".to_owned()], 0));
}

#[test]
fn c2_typed_lines_that_wait_can_be_taken_back() {
    let mut room = Room::quiet(Policy::Ask, true);
    room.types("ask first");
    room.types("say second");
    let (_, heard) = room.caller("say third");
    room.types("say fourth");
    room.news();
    room.command(Command::Recall);
    assert_eq!(room.news(), ["taken back: say second, say fourth"]);
    assert_eq!(room.recalled(), ["say second", "say fourth"]);
    room.command(Command::Recall);
    room.decides("yes");
    let news = room.news();
    assert_eq!(news[news.len() - 3..], ["» say third (waited)", "third", "Completed"]);
    assert_eq!(answer(&heard), ended("third"));
}

#[test]
fn who_does_not_wait_for_the_end_of_a_cancelled_turn_leaves() {
    let mut room = Room::quiet(Policy::Ask, false);
    room.types("deaf");
    room.command(Command::Cancel);
    assert_eq!(room.news(), ["› deaf", "cancelling"]);
    assert_eq!(room.world.command(room.chat, Command::Cancel), Err(Refused::Busy));
    room.command(Command::Shutdown);
    room.world.run();
    assert_eq!(room.news(), ["Aborted", "closed"]);
}

#[test]
fn a_cancel_is_told_once_for_each_who_wishes_it() {
    let mut room = Room::quiet(Policy::Ask, true);
    room.types("deaf");
    cancel(&mut room);
    cancel(&mut room);
    room.command(Command::Cancel);
    cancel(&mut room);
    assert_eq!(room.news(), ["› deaf", "cancelling (from outside)", "cancelling"]);
}

#[test]
fn a_cancel_from_outside_ends_the_turn_and_takes_back_what_waits_outside() {
    let mut room = Room::quiet(Policy::Ask, true);
    room.types("hang");
    room.types("say typed");
    let (_, heard) = room.caller("say from outside");
    cancel(&mut room);
    let cancelled = ["› hang", "cancelling (from outside)", "Aborted"];
    assert_eq!(room.news(), [&cancelled[..], &["› say typed (waited)", "typed", "Completed"]].concat());
    assert_eq!(answer(&heard), Some(Turn { stop: Stop::Cancelled, answer: None }));
}

#[test]
fn a_cancel_while_nothing_runs_does_nothing() {
    let mut room = Room::quiet(Policy::Ask, true);
    cancel(&mut room);
    assert_eq!(room.world.command(room.chat, Command::Cancel), Err(Refused::Unknown));
    room.types("say on");
    assert_eq!(room.news(), ["› say on", "on", "Completed"]);
}

#[test]
fn a_turn_that_fails_is_not_the_end() {
    let mut room = Room::quiet(Policy::Ask, true);
    let (_, heard) = room.caller("fail");
    assert!(matches!(heard.borrow().answers[..], [Err(Failure::TurnFailed { answer: None, .. })]));
    assert_eq!(room.finished()[0].error.as_ref().map(|failed| failed.kind()), Some(Kind::Rpc));
    room.types("say on");
    assert_eq!(room.finished()[1].outcome, Outcome::Completed);
}

#[test]
fn c12_whoever_attached_learns_how_a_turn_ended() {
    for (word, stop) in [
        ("refusal", Stop::Refusal),
        ("max_tokens", Stop::MaxTokens),
        ("max_turn_requests", Stop::MaxTurnRequests),
    ] {
        let mut room = Room::quiet(Policy::Ask, true);
        let (_, heard) = room.caller(&format!("stop {word}"));
        assert_eq!(answer(&heard), Some(Turn { stop, answer: Some("so far".to_owned()) }), "{word}");
    }
    for (words, why) in [("break it", "asked to fail"), ("stop by_magic", "the agent stopped: by_magic")] {
        let mut room = Room::quiet(Policy::Ask, true);
        let (_, heard) = room.caller(words);
        let heard = heard.borrow();
        let [Err(Failure::TurnFailed { error, answer })] = &heard.answers[..] else {
            panic!("{words}: {:?}", heard.answers)
        };
        assert!(error.message.contains(why), "{words}: {error}");
        assert!(answer.is_some(), "{words}: what was answered before is carried along");
    }
}

#[test]
fn whoever_does_not_ask_answers_by_policy() {
    let mut room = Room::quiet(Policy::Reject, false);
    room.types("ask it");
    assert_eq!(room.news(), ["› ask it", "Rejected by Policy", "no", "Completed"]);
    assert_eq!(room.finished()[0].permissions.len(), 1);
}

#[test]
fn who_does_not_let_others_in_opens_nothing_and_writes_nothing() {
    let mut room = Room::quiet(Policy::Ask, false);
    let (_, heard) = room.caller("say hello");
    assert_eq!((heard.borrow().asked, heard.borrow().closed), (0, 1), "nobody listens");
    room.types("say hello");
    assert_eq!(room.news(), ["› say hello", "hello", "Completed"]);
    assert!(room.files().is_empty());
}

#[test]
fn the_session_can_be_found_while_it_is_open() {
    let mut room = Room::new(Dice::new(&[]), Faults::NONE, Policy::Ask, true);
    assert!(room.files().is_empty());
    room.settle();
    assert_eq!(room.news(), [format!("listening at {}", SOCKET)]);
    let files = room.files();
    assert_eq!(files.len(), 2);
    let record = room.world.file(&files[1]).expect("the record");
    assert!(String::from_utf8_lossy(record).contains(r#""session_id":"s-1""#));
    room.command(Command::Shutdown);
    assert_eq!(room.news(), ["detached: Stopped", "closed"]);
    assert!(room.files().is_empty() && room.world.is_over(room.chat));
}

#[test]
fn whoever_says_something_in_time_is_answered_though_nothing_more_is_typed() {
    let mut room = Room::new(Dice::new(&[]), Faults::NONE, Policy::Ask, false);
    for text in ["say one", "say two"] {
        assert_eq!(room.world.command(room.chat, Command::Say(text.to_owned())), Ok(()));
    }
    room.command(Command::Finish);
    assert_eq!(
        room.news(),
        ["› say one (waited)", "one", "Completed", "› say two (waited)", "two", "Completed", "closed"]
    );
    assert_eq!(room.world.command(room.chat, Command::Say("late".into())), Err(Refused::Closed));
}

#[test]
fn who_leaves_owes_those_outside_what_they_were_promised() {
    let mut room = Room::quiet(Policy::Ask, true);
    let (_, first) = room.caller("hang");
    let (_, second) = room.caller("say more");
    room.command(Command::Shutdown);
    assert_eq!(answer(&first), Some(Turn { stop: Stop::Pending, answer: None }));
    let refused = RpcError::new(-32603, "the session is leaving; nothing was delivered");
    assert_eq!(second.borrow().answers, [Err(Failure::Refused(Box::new(refused)))]);
    assert_eq!(room.news(), ["» hang", "detached: Stopped", "Aborted", "closed"]);
}

#[test]
fn an_agent_that_cannot_be_started_leaves_nothing_behind() {
    // The first die lets the spawn fail, the second says why.
    let mut room = Room::new(Dice::new(&[11, 1]), Faults { refuse: true, ..Faults::NONE }, Policy::Ask, true);
    room.types("say hello");
    room.world.run();
    let finished = room.finished();
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0].error.as_ref().map(|failed| failed.phase), Some(Phase::Spawn));
    assert!(room.files().is_empty() && room.begun().is_empty() && room.closed() == 1);
}

#[test]
fn what_cannot_be_said_is_refused() {
    let mut room = Room::quiet(Policy::Ask, false);
    let mut says = |text: &str| room.world.command(room.chat, Command::Say(text.into()));
    assert_eq!(says(" \t"), Err(Refused::Invalid("the line holds no text")));
    for text in ["hang", "1", "2", "3"] {
        assert_eq!(says(text), Ok(()));
    }
    assert_eq!(says("4"), Err(Refused::Limit("lines that wait")));
    room.command(Command::Shutdown);
    assert_eq!(room.world.command(room.chat, Command::Cancel), Err(Refused::Closed));
    assert!(room.world.file(Path::new(SOCKET)).is_none());
}

quickcheck! {
    fn each_line_has_one_end_in_a_faulty_world(data: Vec<u8>) -> bool {
        cases::chat(&data);
        true
    }
}

#[test]
fn each_line_has_one_end_in_many_faulty_worlds() {
    for seed in 0..1000 {
        cases::chat(&dice::noise(seed, 500));
    }
}
