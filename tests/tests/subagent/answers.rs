//! Answers that the application judges before they are the result.

use std::time::Duration;

use agentline_core::acp::ContentBlock;
use agentline_core::problem::{Kind, Phase, RootCause};
use agentline_core::subagent::{Command, Config, Event, Outcome};
use agentline_core::{Exit, Refused};

use crate::moments::{CHUNK, END, GREETING, Hand, SESSION, config};

/// A run whose answers are judged.
fn judged(again: u32) -> Config {
    Config { again: Some(again), ..config() }
}

fn reject() -> Command {
    Command::Reject { why: "no JSON".into(), prompt: vec![ContentBlock::text("again")] }
}

/// The end of the turn that is the request of that number.
fn end(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#)
}

fn prompts(hand: &Hand) -> usize {
    hand.wrote.matches(r#""method":"session/prompt""#).count()
}

/// How often the agent could be asked again, at each answer that was judged.
fn left(hand: &Hand) -> Vec<u32> {
    let answers = hand
        .events
        .iter()
        .filter_map(|event| if let Event::Answered(answered) = event { Some(answered.left) } else { None });
    answers.collect()
}

#[test]
fn an_answer_waits_for_its_judgement_and_is_then_the_result() {
    let mut hand = Hand::after(judged(2), &[GREETING, SESSION, CHUNK]);
    for command in [Command::Accept, reject()] {
        assert_eq!(hand.command(command), Err(Refused::Unknown));
    }
    hand.line(END);
    assert!(hand.finished().is_none());
    let Some(Event::Answered(answered)) = hand.events.last() else { panic!("{:?}", hand.events) };
    assert_eq!((&*answered.message, answered.truncated, answered.left), ("so far", false, 2));
    hand.command(Command::Accept).expect("a judgement");
    let finished = hand.finished().expect("a result");
    assert_eq!((finished.outcome, &*finished.output), (Outcome::Completed, "so far"));
    assert_eq!(hand.command(Command::Accept), Err(Refused::Unknown));
    hand.gone(Exit::Code(0));
    assert!(hand.over);
}

#[test]
fn what_is_rejected_is_asked_for_again_in_the_same_session_as_often_as_it_may() {
    let mut hand = Hand::after(judged(2), &[GREETING, SESSION, CHUNK, END]);
    for id in [3, 4] {
        hand.command(reject()).expect("a judgement");
        assert!(hand.finished().is_none());
        assert!(hand.wrote.ends_with("\"text\":\"again\"}]}}\n"), "{}", hand.wrote);
        hand.line(CHUNK);
        hand.line(&end(id));
    }
    assert_eq!((prompts(&hand), left(&hand)), (3, vec![2, 1, 0]));
    hand.command(reject()).expect("a judgement");
    let failed = hand.failed();
    assert_eq!((failed.kind(), failed.phase), (Kind::Unwanted, Phase::Prompt));
    assert_eq!(failed.cause, RootCause::Unwanted { why: "no JSON".into() });
    assert_eq!(hand.finished().expect("a result").output, "so far");
    assert_eq!((prompts(&hand), hand.wrote.matches("session/new").count()), (3, 1));
}

#[test]
fn where_there_is_nothing_to_say_the_agent_is_not_asked_again() {
    let mut hand = Hand::after(judged(2), &[GREETING, SESSION, CHUNK, END]);
    hand.command(Command::Reject { why: "no".into(), prompt: Vec::new() }).expect("a judgement");
    assert_eq!((hand.failed().kind(), prompts(&hand)), (Kind::Unwanted, 1));
}

#[test]
fn only_what_was_completed_is_judged() {
    for reason in ["refusal", "max_tokens", "cancelled", "unheard_of"] {
        let mut hand = Hand::after(judged(2), &[GREETING, SESSION, CHUNK, &END.replace("end_turn", reason)]);
        assert!(hand.finished().is_some() && left(&hand).is_empty(), "{reason}");
        assert_eq!(hand.command(reject()), Err(Refused::Unknown));
    }
}

#[test]
fn what_ends_the_run_while_an_answer_is_judged_counts_for_more_unless_the_agent_just_goes() {
    let dialogue = [GREETING, SESSION, CHUNK, END];
    for command in [Command::Cancel, Command::Dispose, Command::Hasten] {
        let mut hand = Hand::after(judged(2), &dialogue);
        hand.command(command).expect("a wish");
        assert_eq!(hand.finished().expect("a result").outcome, Outcome::Aborted);
        assert_eq!(hand.command(reject()), Err(Refused::Unknown));
        hand.gone(Exit::Code(0));
        assert!(hand.over && prompts(&hand) == 1);
    }

    let timeout = Some(Duration::from_secs(5));
    let mut hand = Hand::after(Config { timeout, ..judged(2) }, &dialogue);
    hand.wait(Duration::from_secs(5));
    assert_eq!(hand.failed().kind(), Kind::Timeout);

    let mut hand = Hand::after(judged(2), &dialogue);
    hand.gone(Exit::Code(3));
    let finished = hand.finished().expect("a result");
    assert_eq!((finished.outcome, &*finished.output), (Outcome::Completed, "so far"));
    assert!(hand.over);
}

#[test]
fn the_clock_of_the_run_goes_on_while_it_is_asked_again() {
    let timeout = Some(Duration::from_secs(5));
    let mut hand = Hand::after(Config { timeout, ..judged(2) }, &[GREETING, SESSION, CHUNK, END]);
    hand.command(reject()).expect("a judgement");
    hand.wait(Duration::from_secs(5));
    hand.line(&end(3));
    assert_eq!(hand.failed().kind(), Kind::Timeout);
}
