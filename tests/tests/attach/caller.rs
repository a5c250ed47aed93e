//! Two connections: one that asks, one that cancels.

use agentline_core::attach::caller::{Command, Event};
use agentline_core::attach::canceller;
use agentline_core::attach::client::{self, Client};
use agentline_core::attach::{Answer, Caller, Canceller, Failure, Stop, Turn};
use agentline_core::{Cause, OpenError};

use super::client::OWNER;
use super::*;

trait Door {
    /// The server lets the next connection in.
    fn admit(&mut self) -> LinkId;
}

impl<M: Machine> Door for Desk<M> {
    fn admit(&mut self) -> LinkId {
        let link = self.connecting.pop_front().expect("a connection was asked for");
        self.heard(link, Heard::Opened(OWNER));
        assert!(self.read(link).contains("authToken"));
        self.send(link, b"{\"id\":1,\"result\":{\"protocolVersion\":1}}\n");
        link
    }
}

/// A caller whose prompt is open.
fn prompting() -> (Desk<Caller>, LinkId) {
    let mut desk = Desk::new(target());
    let link = desk.admit();
    desk.run([prompt("first")]);
    desk.read(link);
    desk.events.clear();
    (desk, link)
}

fn prompt(text: &str) -> Command {
    Command::Ask(client::Command::Prompt { session: Some("sess-1".to_owned()), text: text.to_owned() })
}

fn answered(stop: Stop) -> Option<Event> {
    let turn = Turn { stop, answer: None };
    Some(Event::Said(client::Event::Answered(Ok(Answer::Turn(turn)))))
}

#[test]
fn a_cancel_goes_over_a_connection_of_its_own() {
    let (mut desk, first) = prompting();
    desk.run([Command::Cancel]);
    assert_eq!(desk.read(first), "");
    let second = desk.admit();
    assert_eq!(
        desk.read(second),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"sess-1\"}}\n"
    );
    desk.send(second, b"{\"id\":2,\"result\":{}}\n");
    desk.send(second, b"{\"id\":3,\"result\":{\"busy\":false}}\n");
    assert_eq!(desk.events.pop_front(), Some(Event::Cancelled(Ok(()))));
    assert!(desk.shut.contains(&second));
    desk.send(first, b"{\"id\":2,\"result\":{\"stopReason\":\"cancelled\"}}\n");
    assert_eq!(desk.events.pop_front(), answered(Stop::Cancelled));
    desk.heard(second, Heard::Eof);
    desk.run([prompt("second")]);
    assert!(desk.read(first).contains("second"));
}

#[test]
fn one_cancel_at_a_time_and_only_of_an_open_prompt() {
    let mut desk = Desk::<Caller>::new(target());
    assert_eq!(desk.command(Command::Cancel), Err(Refused::Unknown));
    desk.admit();
    assert_eq!(desk.command(Command::Cancel), Err(Refused::Unknown));
    desk.run([Command::Ask(client::Command::Ping)]);
    assert_eq!(desk.command(Command::Cancel), Err(Refused::Unknown));
    let (mut desk, _) = prompting();
    desk.run([Command::Cancel]);
    assert_eq!(desk.command(Command::Cancel), Err(Refused::Busy));
}

#[test]
fn cancel_hits_next_prompt_a_cancel_that_was_not_sent_is_given_up_when_the_turn_ends() {
    let (mut desk, first) = prompting();
    desk.run([Command::Cancel]);
    let second = desk.connecting.pop_front().expect("it connects");
    desk.heard(second, Heard::Opened(OWNER));
    desk.send(first, b"{\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    assert_eq!(desk.events.pop_front(), answered(Stop::EndTurn));
    assert_eq!(desk.events.pop_front(), Some(Event::Cancelled(Err(Failure::Closed(Cause::Left)))));
    desk.run([prompt("second")]);
    desk.send(second, b"{\"id\":1,\"result\":{\"protocolVersion\":1}}\n");
    assert!(!desk.read(second).contains("session/cancel"));
    desk.run([Command::Cancel]);
    assert_ne!(desk.admit(), second, "a connection of its own");
}

#[test]
fn cancel_hits_next_prompt_the_next_prompt_waits_until_a_cancel_that_was_sent_is_over() {
    let (mut desk, first) = prompting();
    desk.run([Command::Cancel]);
    let second = desk.admit();
    desk.send(first, b"{\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    assert_eq!(desk.command(prompt("second")), Err(Refused::Busy));
    desk.send(second, b"{\"id\":2,\"result\":{}}\n");
    desk.send(second, b"{\"id\":3,\"result\":{\"busy\":false}}\n");
    desk.run([prompt("second")]);
}

#[test]
fn e5_the_next_prompt_waits_until_the_cancelled_turn_has_wound_down() {
    let (mut desk, first) = prompting();
    desk.run([Command::Cancel]);
    let second = desk.admit();
    desk.send(second, b"{\"id\":2,\"result\":{}}\n");
    desk.send(first, b"{\"id\":2,\"result\":{\"stopReason\":\"cancelled\"}}\n");
    assert_eq!(desk.events.pop_front(), answered(Stop::Cancelled));
    for id in 3..6 {
        assert!(desk.read(second).ends_with("\"method\":\"session/load\",\"params\":{}}\n"), "{id}");
        assert_eq!(desk.command(prompt("second")), Err(Refused::Busy));
        desk.send(second, format!("{{\"id\":{id},\"result\":{{\"busy\":true}}}}\n").as_bytes());
        assert!(desk.events.is_empty());
        desk.pass(Duration::from_millis(100));
    }
    desk.send(second, b"{\"id\":6,\"result\":{\"busy\":false}}\n");
    assert_eq!(desk.events.pop_front(), Some(Event::Cancelled(Ok(()))));
    desk.run([prompt("second")]);
}

#[test]
fn e5_a_session_that_stays_busy_or_says_nothing_is_not_waited_for_without_end() {
    for answers in [true, false] {
        let (mut desk, _) = prompting();
        desk.run([Command::Cancel]);
        let second = desk.admit();
        desk.send(second, b"{\"id\":2,\"result\":{}}\n");
        for id in 3..60 {
            if answers {
                desk.send(second, format!("{{\"id\":{id},\"result\":{{\"busy\":true}}}}\n").as_bytes());
            }
            desk.pass(Duration::from_millis(100));
        }
        assert_eq!(desk.events.pop_front(), Some(Event::Cancelled(Ok(()))));
    }
}

#[test]
fn a_cancel_that_cannot_connect_says_so_and_the_prompt_goes_on() {
    let (mut desk, first) = prompting();
    desk.run([Command::Cancel]);
    let second = desk.connecting.pop_front().expect("it connects");
    desk.heard(second, Heard::OpenFailed(OpenError::Refused));
    let failed = Failure::Closed(Cause::Failed(OpenError::Refused));
    assert_eq!(desk.events.pop_front(), Some(Event::Cancelled(Err(failed))));
    desk.send(first, b"{\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    assert_eq!(desk.events.pop_front(), answered(Stop::EndTurn));
}

#[test]
fn a_caller_ends_once_both_connections_are_over() {
    let (mut desk, first) = prompting();
    desk.run([Command::Cancel]);
    let second = desk.admit();
    desk.heard(first, Heard::Eof);
    assert!(!desk.ended);
    desk.heard(second, Heard::Eof);
    assert!(desk.ended);
    desk.handle(Input::Tick);
    assert_eq!(desk.command(Command::Cancel), Err(Refused::Closed));
    let lost = Failure::Closed(Cause::Gone);
    assert!(desk.events.contains(&Event::Cancelled(Err(lost))));
    assert_eq!(desk.events.iter().filter(|event| matches!(event, Event::Cancelled(_))).count(), 1);
}

#[test]
fn a_canceller_says_once_what_came_of_it() {
    let config = canceller::Config { target: target(), session: None };
    let mut desk = Desk::<Canceller>::new(config);
    let link = desk.admit();
    assert!(desk.read(link).ends_with("\"method\":\"session/cancel\",\"params\":{}}\n"));
    assert_eq!(desk.command(canceller::GiveUp), Err(Refused::Busy));
    desk.send(link, b"{\"id\":2,\"error\":{\"code\":-32000,\"message\":\"another session\"}}\n");
    assert!(matches!(desk.events.pop_front(), Some(Err(Failure::Refused(_)))));
    desk.heard(link, Heard::Eof);
    assert_eq!(desk.events.pop_front(), None);
    assert!(desk.ended);
}

/// The real machines at both ends: what one writes the other reads.
#[test]
fn our_client_and_our_server_understand_each_other() {
    let (mut session, mut caller) = (serving(), Desk::<Client>::new(target()));
    let seat = session.connect();
    caller.heard(LinkId::FIRST, Heard::Opened(OWNER));
    let exchange = |session: &mut Desk<Server>, caller: &mut Desk<Client>| {
        let asked = caller.read(LinkId::FIRST);
        session.send(seat, asked.as_bytes());
        let answered = session.read(seat);
        caller.send(LinkId::FIRST, answered.as_bytes());
    };
    exchange(&mut session, &mut caller);
    caller.run([client::Command::Load { session: Some("sess-1".to_owned()) }]);
    exchange(&mut session, &mut caller);
    caller.run([client::Command::Ping]);
    exchange(&mut session, &mut caller);
    caller.run([client::Command::Prompt { session: None, text: "hi \u{2028}".to_owned() }]);
    exchange(&mut session, &mut caller);
    session.start();
    session.run([ended("hello")]);
    exchange(&mut session, &mut caller);
    let answers: Vec<_> = caller
        .events
        .into_iter()
        .filter_map(|event| match event {
            client::Event::Answered(answer) => Some(answer.expect("answered")),
            client::Event::Ready(_) | client::Event::Noticed(_) | client::Event::Closed(_) => None,
        })
        .collect();
    let turn = Turn { stop: Stop::EndTurn, answer: Some("hello".to_owned()) };
    assert!(
        matches!(&answers[..], [Answer::Session(_), Answer::Done {}, Answer::Turn(last)] if *last == turn)
    );
}
