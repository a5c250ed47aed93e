//! Clients that go, or do not read.

use super::*;

#[test]
fn a_client_that_vanishes_blocks_nobody() {
    let mut desk = serving();
    let (gone, next) = (desk.enter(), desk.enter());
    desk.prompt(gone, 1, "one");
    desk.start();
    desk.prompt(next, 2, "two");
    assert!(desk.events.is_empty());
    desk.heard(gone, Heard::Eof);
    let (prompt, text) = desk.received();
    assert_eq!(text, "two", "the turn of the first goes on, and nobody waits for it");
    desk.run([Command::Injected(prompt, Injection::Queued), ended("one done"), Command::TurnStarted]);
    desk.heard(gone, Heard::WriteFailed);
    desk.run([ended("two done")]);
    assert!(desk.read(next).contains("two done"));
    desk.pass(Duration::from_secs(5));
    assert!(desk.closed.contains(&gone));
}

#[test]
fn the_turn_of_a_client_that_is_gone_is_not_taken_for_that_of_the_next() {
    let mut desk = serving();
    let (gone, next) = (desk.enter(), desk.enter());
    for (client, text) in [(gone, "one"), (next, "two")] {
        desk.prompt(client, 2, text);
        let (prompt, received) = desk.received();
        assert_eq!(received, text);
        desk.run([Command::Injected(prompt, Injection::Queued)]);
        if client == gone {
            desk.heard(gone, Heard::WriteFailed);
            desk.heard(gone, Heard::Eof);
            assert!(desk.closed.contains(&gone));
        }
    }
    desk.run([Command::TurnStarted, ended("one done")]);
    assert_eq!(desk.read(next), "");
    desk.run([Command::TurnStarted, ended("two done")]);
    assert!(desk.read(next).contains("two done"));
}

#[test]
fn clients_that_are_gone_cannot_fill_the_host() {
    let mut config = config();
    config.limits.connections = 3;
    let mut desk = serving_with(config);
    for n in 0..5 {
        let client = desk.enter();
        desk.prompt(client, n, "x");
        desk.heard(client, Heard::WriteFailed);
        desk.heard(client, Heard::Eof);
    }
    assert_eq!(desk.events.len(), 3);
}

#[test]
fn a_client_that_only_stops_sending_still_gets_its_answer() {
    let mut desk = serving();
    let client = desk.enter();
    desk.prompt(client, 2, "x");
    desk.heard(client, Heard::Eof);
    desk.start();
    desk.run([ended("done")]);
    assert!(desk.read(client).contains("done"));
    assert!(desk.closed.contains(&client), "and then the end");
    assert_eq!(desk.now.mono, Time::ZERO);
}

#[test]
fn a_client_that_says_everything_at_once_and_stops_is_served() {
    let mut desk = serving();
    let client = desk.connect();
    desk.send(client, format!("{HELLO}\n{}\n{PING}", prompt(2, &json!("x"))).as_bytes());
    desk.heard(client, Heard::Eof);
    desk.start();
    desk.run([ended("done")]);
    let answers = desk.read(client);
    assert!(answers.contains("done") && answers.ends_with(PONG), "{answers}");
    assert!(desk.closed.contains(&client));
}

#[test]
fn a_client_that_stuffs_its_connection_behind_a_prompt_is_left_in_the_pipe_and_blocks_nobody() {
    let mut desk = serving();
    let (client, next) = (desk.enter(), desk.enter());
    desk.prompt(client, 1, "one");
    desk.start();
    desk.prompt(next, 2, "two");
    let pings = format!("{PING}\n").repeat(2000);
    desk.send(client, pings.as_bytes());
    assert!(desk.held[&client], "no more is read");
    assert_eq!(desk.received().1, "two");
    desk.run([ended("done")]);
    assert!(!desk.held[&client]);
    assert!(desk.read(client).ends_with(&PONG.repeat(2000)));
}

#[test]
fn a_client_that_does_not_read_is_not_read() {
    let mut desk = serving();
    let client = desk.enter();
    desk.deaf.insert(client);
    desk.send(client, format!("{PING}\n").repeat(2000).as_bytes());
    assert!(desk.held[&client]);
    let first = desk.read(client);
    assert!(first.len() <= 64 << 10, "one write");
    desk.deaf.clear();
    desk.heard(client, Heard::Written);
    assert!(!desk.held[&client]);
    assert_eq!(first + &desk.read(client), PONG.repeat(2000));
}

#[test]
fn a_waiting_prompt_whose_connection_broke_is_not_delivered() {
    let mut desk = serving();
    let (first, second) = (desk.enter(), desk.enter());
    desk.prompt(first, 1, "one");
    desk.prompt(second, 2, "two");
    desk.start();
    desk.heard(second, Heard::WriteFailed);
    desk.heard(second, Heard::Eof);
    desk.run([ended("done")]);
    assert!(desk.events.is_empty());
}

#[test]
fn no_more_clients_than_seats_are_accepted() {
    let mut config = config();
    (config.limits.connections, config.limits.strangers) = (1, 1);
    let mut desk = serving_with(config);
    let first = desk.enter();
    desk.enter();
    assert_eq!(desk.accepting, None);
    desk.heard(first, Heard::Eof);
    assert!(desk.accepting.is_some());
}

#[test]
fn a_full_host_is_handed_nothing_more() {
    let mut desk = serving();
    let client = desk.enter();
    desk.handle(Input::Hold(true));
    assert!(desk.held[&client]);
    desk.handle(Input::Hold(false));
    assert!(!desk.held[&client]);
}

#[test]
fn a_client_that_comes_while_the_host_is_full_is_not_read_either() {
    let mut desk = serving();
    desk.handle(Input::Hold(true));
    let client = desk.connect();
    assert!(desk.held[&client]);
    let lines = format!("{HELLO}\n{}\n", prompt(2, &json!("hello")));
    desk.send(client, lines.as_bytes());
    assert!(desk.events.is_empty(), "what was read before it took effect is not told yet");
    desk.handle(Input::Hold(false));
    assert!(!desk.held[&client]);
    assert_eq!(desk.received().1, "hello");
}
