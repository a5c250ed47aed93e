//! What holds for any sequence of bytes, clients and turns.

use agentline_tests::{cases, dice};
use quickcheck::quickcheck;

use super::*;

quickcheck! {
    fn everybody_is_answered_once_and_in_order(data: Vec<u8>) -> bool {
        cases::attach_server(&data);
        true
    }

    fn each_request_and_each_cancel_has_one_outcome(data: Vec<u8>) -> bool {
        cases::attach_caller(&data);
        true
    }

    fn no_bytes_make_a_server_panic_or_write_anything_but_json(admitted: bool, chunks: Vec<Vec<u8>>) -> bool {
        let mut desk = serving();
        let client = if admitted { desk.enter() } else { desk.connect() };
        for chunk in chunks {
            desk.send(client, &chunk);
        }
        desk.heard(client, Heard::Eof);
        desk.read(client).lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
    }
}

#[test]
fn both_ends_keep_their_word_in_many_cases() {
    for seed in 0..2000 {
        cases::attach_server(&dice::noise(seed, 400));
        cases::attach_caller(&dice::noise(seed, 400));
    }
}

#[test]
fn any_cut_of_a_clients_bytes_gives_the_same_answers() {
    let prompt = prompt(2, &json!("x"));
    let script =
        format!("{HELLO}\r\n{prompt}\n{PING}\n\nno\n{{\"id\":3,\"method\":\"session/load\"}}\n{PING}");
    let seen = |cuts: [usize; 2]| {
        let mut desk = serving();
        let client = desk.connect();
        let (mut from, bytes) = (0, script.as_bytes());
        for to in cuts.into_iter().chain([bytes.len()]) {
            desk.send(client, &bytes[from..to]);
            from = to;
        }
        desk.heard(client, Heard::Eof);
        desk.start();
        desk.run([ended("done")]);
        assert!(desk.closed.contains(&client));
        desk.read(client)
    };
    let whole = seen([0, 0]);
    assert_eq!(whole.lines().count(), 6);
    for first in (0..=script.len()).step_by(2) {
        for second in first..=script.len() {
            assert_eq!(seen([first, second]), whole, "{first} {second}");
        }
    }
}
