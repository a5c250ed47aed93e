//! What passes by itself is asked again, as long as nothing came of it.

use std::time::Duration;

use agentline_core::Exit;
use agentline_core::conversation::Config as Talk;
use agentline_core::problem::passing::Passing;
use agentline_core::problem::{Kind, Phase, RootCause};
use agentline_core::subagent::{Command, Config, Event, Outcome, Policy, Retrying};

use crate::moments::{CHUNK, GREETING, Hand, PERMISSION, SESSION, of, talk};

fn retrying(retries: u32) -> Config {
    of(Talk { retries, ..talk() })
}

/// The answer to the request of that number.
fn refused(id: u32, message: &str, data: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"{message}","data":{data}}}}}"#)
}

fn overloaded(id: u32) -> String {
    refused(id, "Overloaded", "null")
}

fn end(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#)
}

fn prompts(hand: &Hand) -> usize {
    hand.wrote.matches(r#""method":"session/prompt""#).count()
}

fn told(hand: &Hand) -> Vec<&Retrying> {
    let told = hand.events.iter();
    told.filter_map(|event| if let Event::Retrying(it) = event { Some(&**it) } else { None }).collect()
}

#[test]
fn an_overloaded_agent_is_asked_again_each_time_after_twice_as_long() {
    let mut hand = Hand::after(retrying(8), &[GREETING, SESSION]);
    for (at, seconds) in [1, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
        let (id, asked) = (u32::try_from(at).expect("few") + 2, at + 1);
        hand.line(&overloaded(id));
        let wait = Duration::from_secs(seconds);
        let last = told(&hand).last().map(|it| (it.attempt as usize, it.most, it.after, it.why));
        assert_eq!(last, Some((asked, 8, wait, Passing::Overloaded)));
        hand.wait(wait - Duration::from_millis(1));
        assert_eq!(prompts(&hand), asked);
        hand.wait(Duration::from_millis(1));
        assert_eq!(prompts(&hand), asked + 1);
    }
    hand.line(CHUNK);
    hand.line(&end(10));
    let finished = hand.finished().expect("a result");
    assert_eq!((finished.outcome, &*finished.output), (Outcome::Completed, "so far"));
}

#[test]
fn after_the_last_time_the_failure_is_the_end_and_says_that_it_passes() {
    let mut hand = Hand::after(retrying(1), &[GREETING, SESSION, &overloaded(2)]);
    hand.wait(Duration::from_secs(1));
    hand.line(&overloaded(3));
    let failed = hand.failed();
    assert_eq!((failed.kind(), failed.phase, failed.is_retryable()), (Kind::Rpc, Phase::Prompt, true));
    assert_eq!((prompts(&hand), told(&hand).len()), (2, 1));
}

#[test]
fn the_agents_own_time_counts_and_one_that_is_too_far_off_is_not_waited_for() {
    let mut hand = Hand::after(retrying(2), &[GREETING, SESSION]);
    hand.line(&refused(2, "fetch failed", r#"{"retryAfterMs":250}"#));
    assert_eq!(told(&hand)[0].after, Duration::from_millis(250));
    assert_eq!(told(&hand)[0].why, Passing::Network);
    hand.wait(Duration::from_millis(250));
    assert_eq!(prompts(&hand), 2);
    hand.line(&refused(3, "Overloaded", r#"{"retryAfter":601}"#));
    assert_eq!(hand.failed().kind(), Kind::Rpc);
}

#[test]
fn nothing_is_asked_again_once_something_came_of_it_or_where_it_is_no_use() {
    let tool = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
        {"sessionUpdate":"tool_call","toolCallId":"t","title":"look"}}}"#;
    let thought = CHUNK.replace("agent_message_chunk", "agent_thought_chunk");
    for (before, message, again) in [
        (CHUNK, "Overloaded", false),
        (tool, "Overloaded", false),
        (PERMISSION, "Overloaded", false),
        (&thought, "Overloaded", true),
        (&thought, "Internal error", false),
        (&thought, "401: overloaded", false),
        (&thought, "You exceeded your current quota", false),
    ] {
        let mut hand = Hand::after(retrying(3), &[GREETING, SESSION, before, &refused(2, message, "null")]);
        assert_eq!((told(&hand).len(), hand.finished().is_none()), (usize::from(again), again), "{message}");
        hand.wait(Duration::from_secs(1));
        assert_eq!(prompts(&hand), 1 + usize::from(again), "{before} {message}");
    }
    let hand = Hand::after(retrying(0), &[GREETING, SESSION, &overloaded(2)]);
    assert!(hand.finished().is_some() && told(&hand).is_empty());
}

#[test]
fn a_request_on_the_way_to_the_session_is_asked_again_too() {
    let mut hand = Hand::after(retrying(1), &[GREETING, &overloaded(1)]);
    assert_eq!(told(&hand)[0].failed.phase, Phase::Session);
    hand.wait(Duration::from_secs(1));
    assert_eq!(hand.wrote.matches("session/new").count(), 2);
    hand.line(&SESSION.replace(r#""id":1"#, r#""id":2"#));
    // Each request has its own.
    hand.line(&overloaded(3));
    hand.wait(Duration::from_secs(1));
    hand.line(CHUNK);
    hand.line(&end(4));
    assert_eq!(hand.finished().expect("a result").outcome, Outcome::Completed);
    assert_eq!((prompts(&hand), told(&hand).len()), (2, 2));
}

#[test]
fn whoever_ends_the_wait_ends_the_run_at_once() {
    for lines in [&[GREETING, &overloaded(1)][..], &[GREETING, SESSION, &overloaded(2)]] {
        for command in [Command::Cancel, Command::Dispose, Command::Hasten] {
            let mut hand = Hand::after(retrying(3), lines);
            hand.command(command.clone()).expect("a wish");
            hand.gone(Exit::Code(0));
            hand.wait(Duration::from_secs(600));
            assert_eq!(hand.finished().expect("a result").outcome, Outcome::Aborted, "{command:?}");
            assert!(hand.over && prompts(&hand) <= 1 && !hand.wrote.contains("session/cancel"));
        }
        let timeout = Some(Duration::from_millis(500));
        let mut hand = Hand::after(Config { timeout, ..retrying(3) }, lines);
        hand.wait(Duration::from_secs(600));
        assert_eq!(hand.failed().kind(), Kind::Timeout);

        let mut hand = Hand::after(retrying(3), lines);
        hand.gone(Exit::Code(3));
        assert_eq!(hand.failed().cause, RootCause::Gone(Some(Exit::Code(3))));
        assert!(hand.over);
    }
}

#[test]
fn a_permission_that_a_policy_answered_is_something_that_came_of_it() {
    let config = of(Talk { retries: 3, policy: Policy::Allow(Default::default()), ..talk() });
    let hand = Hand::after(config, &[GREETING, SESSION, PERMISSION, &overloaded(2)]);
    assert!(hand.finished().is_some() && told(&hand).is_empty());
}
