//! What is easily got wrong about a turn: the reason that comes behind the end, the question of a session that nobody
//! opened, the line that means nothing.

use agentline_core::acp::PermissionOutcome;
use agentline_core::conversation::Config as Talk;
use agentline_core::problem::{AgentExit, RootCause};
use agentline_core::subagent::{By, Command, Event, Policy, Verdict};
use agentline_core::{Exit, Group, Heard};

use crate::moments::{CHUNK, END, GREETING, Hand, PERMISSION, SESSION, config, of, talk};

#[test]
fn the_reason_of_a_crash_is_in_the_result_in_whatever_order_it_comes() {
    let eof = Heard::Eof;
    let exit = Heard::Exited(Exit::Code(3));
    for crash in [[eof, exit], [exit, eof]] {
        let mut hand = Hand::after(config(), &[GREETING, SESSION, CHUNK]);
        for heard in crash {
            hand.hear(heard);
            assert!(hand.finished().is_none(), "the child is not gone yet");
        }
        hand.hear(Heard::Group(Group::Gone));
        let failed = hand.failed();
        assert_eq!(failed.cause, RootCause::Gone(Some(Exit::Code(3))));
        assert_eq!(failed.agent_exit, Some(AgentExit::Code(3)));
        assert!(matches!(&hand.events[..], [.., Event::Finished(_), Event::Closed(_)]), "{:?}", hand.events);
    }
}

#[test]
fn the_question_of_a_session_of_the_agents_own_is_one_of_the_turn_and_ends_with_it() {
    let theirs = PERMISSION.replace(r#""sessionId":"s""#, r#""sessionId":"of the agent's own""#);
    let mut hand = Hand::after(of(Talk { policy: Policy::Ask, ..talk() }), &[GREETING, SESSION, &theirs]);
    let asked = hand.events.iter().find_map(|event| {
        let Event::PermissionAsked(asked) = event else { return None };
        Some(asked.request)
    });
    let request = asked.expect("a question");
    hand.command(Command::Cancel).expect("a turn runs");
    assert!(hand.wrote.contains(r#"{"outcome":{"outcome":"cancelled"}}"#), "{}", hand.wrote);
    let late = Command::Answer { request, outcome: PermissionOutcome::selected("n") };
    assert!(hand.command(late).is_err());
    hand.line(END);
    let [decision] = &hand.finished().expect("a result").permissions[..] else { panic!("one decision") };
    assert_eq!((decision.decision, decision.by), (Verdict::Cancelled, By::Cancel));
}

#[test]
fn each_line_comes_before_what_it_means_and_one_without_a_meaning_alone() {
    let mut config = config();
    config.conversation.client.raw = true;
    let mut hand = Hand::after(config, &[GREETING, SESSION]);
    hand.events.clear();
    let chunk = CHUNK.replace('\n', " ");
    let unknown = r#"{"jsonrpc":"2.0","method":"_theirs","params":{}}"#;
    hand.hear(Heard::Bytes(format!("{chunk}\n{unknown}\n{chunk}\n").as_bytes()));
    let word = |event: &Event| {
        if let Event::Line(line) = event {
            return if line == unknown { "unknown" } else { "line" };
        }
        if let Event::Text(_) = event { "text" } else { "other" }
    };
    let words: Vec<&str> = hand.events.iter().map(word).collect();
    assert_eq!(words, ["line", "text", "unknown", "line", "text"]);
}
