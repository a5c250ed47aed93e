//! The session's own life: its files, its start, its end.

use agentline_core::OpenError;
use agentline_core::attach::presence::Attachment;
use agentline_core::attach::server::Why;

use super::*;

#[test]
fn a_session_that_leaves_answers_what_it_took_and_refuses_the_rest() {
    let mut desk = serving();
    let (first, second, idle) = (desk.enter(), desk.enter(), desk.connect());
    desk.prompt(first, 2, "one");
    desk.prompt(second, 3, "two");
    desk.start();
    desk.run([Command::Shutdown]);
    assert_eq!(desk.read(first), PENDING);
    assert_eq!(failed(&desk.read(second)), error("3", -32603));
    assert!(desk.files.is_empty(), "record and token are gone");
    assert!(desk.closed.contains(&LinkId::FIRST));
    assert_eq!(desk.events.pop_front(), Some(Event::Closed(Why::Stopped)));
    for client in [first, second, idle] {
        assert!(desk.shut.contains(&client));
        assert!(!desk.ended);
        desk.heard(client, Heard::Eof);
    }
    assert!(desk.ended);
    assert_eq!(desk.command(Command::TurnStarted), Err(Refused::Closed));
}

#[test]
fn clients_that_do_not_follow_hold_nobody_up() {
    let mut desk = serving();
    desk.enter();
    desk.run([Command::Shutdown]);
    desk.pass(Duration::from_secs(1));
    assert!(desk.ended);
}

#[test]
fn token_and_record_are_there_from_listening_to_stop_only() {
    let mut desk = Desk::<Server>::new(config());
    assert!(desk.files.is_empty());
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    assert_eq!(desk.files[Path::new(TOKEN_FILE)], ("5eb1\n".to_owned(), 0o600));
    let listening = Attachment { attach_socket: SOCKET.to_owned(), peer_id: "0a1b2c3d".to_owned() };
    assert_eq!(desk.events.pop_front(), Some(Event::Listening(Box::new(listening))));
    let record = desk.record();
    assert_eq!(record.as_object().map(serde_json::Map::len), Some(28));
    assert_eq!(record["attach_socket"], SOCKET);
    assert_eq!(record["updated_at"], 1_700_000_000.0);
    assert_eq!(record["busy"], false);
    desk.run([Command::Shutdown]);
    assert!(desk.files.is_empty());
}

#[test]
fn the_record_is_renewed_every_thirty_seconds_and_with_every_turn() {
    let mut desk = serving();
    desk.pass(Duration::from_secs(30));
    assert_eq!(desk.record()["updated_at"], 1_700_000_030.0);
    desk.pass(Duration::from_secs(7));
    desk.run([Command::TurnStarted]);
    assert_eq!(desk.record()["busy"], true);
    assert_eq!(desk.record()["updated_at"], 1_700_000_037.0);
    desk.run([ended("")]);
    assert_eq!(desk.record()["busy"], false);
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let mut desk = Desk::<Server>::new(config());
    desk.heard(LinkId::FIRST, Heard::OpenFailed(OpenError::PathTooLong));
    assert_eq!(desk.events.pop_front(), Some(Event::Closed(Why::ListenFailed(OpenError::PathTooLong))));
    assert!(desk.files.is_empty());
    assert!(desk.ended);
}

#[test]
fn a_session_that_leaves_while_it_starts_leaves_nothing_behind() {
    let mut desk = Desk::<Server>::new(config());
    desk.run([Command::Shutdown]);
    assert!(desk.ended && desk.files.is_empty());
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
}

#[test]
fn without_its_token_file_nobody_is_served() {
    let mut desk = serving();
    let token = desk.stored_as[Path::new(TOKEN_FILE)];
    desk.handle(Input::StoreFailed(token, 30));
    assert_eq!(desk.events.pop_front(), Some(Event::Closed(Why::TokenFailed { errno: 30 })));
    assert!(desk.ended && desk.files.is_empty());
}

#[test]
fn without_its_record_a_session_is_still_served() {
    let mut desk = serving();
    let record = desk.stored_as[Path::new(RECORD)];
    desk.handle(Input::StoreFailed(record, 28));
    assert_eq!(desk.events.pop_front(), Some(Event::PresenceFailed { errno: 28 }));
    let client = desk.enter();
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn a_host_that_miscounts_its_turns_is_told_so() {
    let mut desk = serving();
    assert_eq!(desk.command(ended("")), Err(Refused::Unknown));
    assert_eq!(desk.command(Command::TurnEnded(Turn::cancelled())), Err(Refused::Unknown));
    desk.run([Command::TurnStarted]);
    assert_eq!(desk.command(Command::TurnStarted), Err(Refused::Busy));
    assert_eq!(desk.command(Command::Injected(PromptId(7), Injection::Queued)), Err(Refused::Unknown));
}

#[test]
fn the_token_is_shown_nowhere() {
    let mut desk = Desk::<Server>::new(config());
    let shown = format!("{:?}", desk.machine.machine());
    assert!(!shown.contains(TOKEN), "{shown}");
    desk.machine.handle(desk.now, Input::Link(LinkId::FIRST, Heard::Opened(Peer::default())));
    while let Some(output) = desk.machine.poll() {
        assert!(!format!("{output:?}").contains(TOKEN));
    }
}
