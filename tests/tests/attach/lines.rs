//! Framing, envelopes, ids.

use super::*;

#[test]
fn raw_newline_in_json_string_a_line_that_is_not_json_is_answered_without_an_id() {
    let mut desk = serving();
    for client in [desk.connect(), desk.enter()] {
        for line in [
            &b"junk"[..],
            b"{\"id\":1,\"method\":\"ping\"} x",
            b"{\"id\":1,\"method\":\"ping\"}{\"id\":2,\"method\":\"ping\"}",
            b"{\"id\":1,\"method\":\"pi\xff\"}",
            b"{\"id\":NaN,\"method\":\"ping\"}",
            b"{\"id\":1",
            b"\xfe",
        ] {
            desk.send(client, &[line, b"\n"].concat());
            let id = if line.ends_with(b"\xff\"}") { "1" } else { "null" };
            assert_eq!(failed(&desk.read(client)), error(id, -32700), "{line:?}");
        }
        desk.send(client, b"{\"id\":1,\"method\":\"pi\nng\"}\n");
        assert_eq!(desk.read(client).matches("-32700").count(), 2, "a raw line end cuts the object");
        assert!(desk.ask(client, HELLO).contains("result"));
    }
}

#[test]
fn nesting_without_end_is_not_json_and_the_connection_stays() {
    let mut desk = serving();
    let client = desk.enter();
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(failed(&desk.ask(client, &format!("{open}{close}"))), error("null", -32700));
    let line = format!(r#"{{"id":9,"method":"ping","params":{open}{close}}}"#);
    assert_eq!(failed(&desk.ask(client, &line)), error("9", -32700));
    assert_eq!(desk.ask(client, PING), PONG);
}

#[test]
fn batch_array_json_that_is_no_object_is_no_request() {
    let mut desk = serving();
    for client in [desk.connect(), desk.enter()] {
        for line in ["[]", "5", "\"x\"", "null", "true", &format!("[{PING},{PING}]")] {
            assert_eq!(failed(&desk.ask(client, line)), error("null", -32600), "{line}");
        }
    }
}

#[test]
fn an_object_without_a_method_is_refused_under_its_id() {
    let mut desk = serving();
    let client = desk.enter();
    for (line, id) in [
        (r#"{"jsonrpc":"2.0","id":3}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":7}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":"x","method":null}"#, "\"x\""),
        (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"x"}}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"result":1,"error":{}}"#, "3"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","result":1}"#, "3"),
        (r#"{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":null,"result":1}"#, "null"),
        ("{}", "null"),
    ] {
        assert_eq!(failed(&desk.ask(client, line)), error(id, -32600), "{line}");
    }
}

#[test]
fn the_version_of_the_envelope_may_be_missing_but_not_wrong() {
    let mut desk = serving();
    let client = desk.enter();
    assert_eq!(desk.ask(client, r#"{"id":9,"method":"ping"}"#), PONG);
    assert_eq!(failed(&desk.ask(client, r#"{"jsonrpc":"1.0","id":9,"method":"ping"}"#)), error("9", -32600));
}

#[test]
fn duplicate_keys_a_member_that_is_there_twice_is_refused() {
    let mut desk = serving();
    let client = desk.enter();
    let line = r#"{"id":9,"method":"ping","method":"session/cancel"}"#;
    assert_eq!(failed(&desk.ask(client, line)), error("null", -32600));
    let line = r#"{"id":9,"method":"session/prompt","params":{"prompt":"a","prompt":"b"}}"#;
    assert_eq!(failed(&desk.ask(client, line)), error("9", -32602));
    assert!(desk.events.is_empty());
}

#[test]
fn notifications_are_obeyed_and_never_answered() {
    let mut desk = serving();
    let client = desk.connect();
    for line in [
        r#"{"method":"ping"}"#,
        r#"{"method":"initialize","params":{"authToken":"wrong"}}"#,
        r#"{"method":"initialize","params":{"authToken":"5eb1"}}"#,
        r#"{"method":"ping"}"#,
        r#"{"method":"nonsense"}"#,
        r#"{"method":"session/load"}"#,
        r#"{"method":"session/prompt"}"#,
        r#"{"method":"session/cancel"}"#,
    ] {
        assert_eq!(desk.ask(client, line), "", "{line}");
    }
    assert_eq!(desk.events.pop_front(), Some(Event::CancelReceived));
    assert_eq!(desk.ask(client, PING), PONG, "it was let in");
}

#[test]
fn string_id_echo_id_above_2p53_and_lone_surrogate_ids_come_back_as_they_were_written() {
    let mut desk = serving();
    let client = desk.enter();
    let digits = "7".repeat(41);
    let many = "1".repeat(1024);
    for id in [
        "null",
        "\"\"",
        "\"x\"",
        "-1",
        "0",
        "1.5",
        "1.0",
        "1e400",
        "9007199254740993",
        &digits,
        &many,
        r#""\u0000""#,
        "\"🎉é\"",
        r#""\u00e9""#,
        r#""\ud800""#,
    ] {
        let answer = desk.ask(client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!(answer, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"status\":\"ok\"}}}}\n"));
    }
}

#[test]
fn odd_ids_null_float_bool_other_ids_are_refused_with_an_answer_that_is_json() {
    let mut desk = serving();
    let client = desk.enter();
    let endless = "1".repeat(5000);
    for id in ["true", "{}", "[1]", &endless] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!(failed(&desk.ask(client, &line)), error("null", -32600), "{id}");
    }
}

#[test]
fn blank_and_whitespace_lines_and_a_bom_first_line_are_passed_over() {
    let mut desk = serving();
    let client = desk.enter();
    desk.send(client, format!("\n  \n\t\n\r\n\u{feff}{PING}\r\n\n").as_bytes());
    assert_eq!(desk.read(client), PONG);
}

#[test]
fn two_requests_in_one_write_are_answered_in_order() {
    let mut desk = serving();
    let client = desk.connect();
    let load = r#"{"id":8,"method":"session/load"}"#;
    desk.send(client, format!("{HELLO}\n{load}\n{PING}\n{load}\n").as_bytes());
    let answers = desk.read(client);
    let ids: Vec<_> = answers.lines().map(|line| line.split(',').nth(1).unwrap_or_default()).collect();
    assert_eq!(ids, ["\"id\":0", "\"id\":8", "\"id\":9", "\"id\":8"]);
}

#[test]
fn utf8_split_chunk_bytes_may_come_one_by_one() {
    let mut desk = serving();
    let client = desk.connect();
    for byte in format!("{HELLO}\n{PING}\n").bytes() {
        desk.send(client, &[byte]);
    }
    assert!(desk.read(client).ends_with(PONG));
}

#[test]
fn a_line_without_its_end_waits() {
    let mut desk = serving();
    let client = desk.enter();
    desk.send(client, PING.as_bytes());
    desk.pass(Duration::from_secs(86_400));
    assert_eq!(desk.read(client), "");
    desk.send(client, b"\n");
    assert_eq!(desk.read(client), PONG);
}

/// A ping whose line, with its line end, has that length.
fn long_ping(length: usize) -> Vec<u8> {
    let mut line = PING.trim_end_matches('}').as_bytes().to_vec();
    line.extend_from_slice(b",\"params\":\"");
    line.resize(length - 3, b'x');
    line.extend_from_slice(b"\"}\n");
    assert_eq!(line.len(), length);
    line
}

#[test]
fn limit_is_per_line_not_buffer_a_line_of_eight_mib_is_taken_whatever_follows_it() {
    let mut desk = serving();
    let client = desk.enter();
    desk.send(client, &long_ping(EIGHT_MIB));
    assert_eq!(desk.read(client), PONG);
    let burst = [long_ping(EIGHT_MIB), format!("{PING}\n").repeat(1000).into_bytes()].concat();
    for chunk in burst.chunks(64 << 10) {
        desk.send(client, chunk);
    }
    assert_eq!(desk.read(client), PONG.repeat(1001));
}

#[test]
fn a_longer_line_is_refused_and_ends_the_connection() {
    for admitted in [false, true] {
        for length in [EIGHT_MIB + 1, EIGHT_MIB + (1 << 20)] {
            let mut desk = serving();
            let client = if admitted { desk.enter() } else { desk.connect() };
            let burst = [long_ping(length), format!("{PING}\n").into_bytes()].concat();
            for chunk in burst.chunks(64 << 10) {
                desk.send(client, chunk);
            }
            let answer = desk.read(client);
            assert_eq!(failed(&answer), error("9", -32600));
            assert!(answer.contains("a line over the limit"));
            assert!(desk.shut.contains(&client));
            desk.heard(client, Heard::Eof);
            assert!(desk.closed.contains(&client));
            assert!(desk.accepting.is_some(), "others can come");
        }
    }
}

#[test]
fn no_newline_flood_a_flood_without_a_line_end_is_cut_off_and_hits_nobody_else() {
    let mut desk = serving();
    let (flood, other) = (desk.connect(), desk.enter());
    let chunk = [b'x'; 64 << 10];
    for _ in 0..1000 {
        desk.send(flood, &chunk);
    }
    assert_eq!(failed(&desk.read(flood)), error("null", -32600));
    assert!(desk.shut.contains(&flood));
    assert_eq!(desk.ask(other, PING), PONG);
}

/// With its line end.
const EIGHT_MIB: usize = 8 << 20;
