//! Lines to frames.

use agentline_core::rpc::{self, Frame, Id};
use agentline_tests::transcripts::{Direction, captures};
use agentline_tests::{cases, dice};
use quickcheck::quickcheck;

quickcheck! {
    fn every_line_is_a_frame_that_prints_and_reads_back(data: Vec<u8>) -> bool {
        cases::rpc(&data);
        true
    }
}

#[test]
fn every_envelope_is_a_frame_that_prints_and_reads_back() {
    for seed in 0..50_000 {
        cases::rpc(&dice::noise(seed, 40));
    }
}

#[test]
fn every_line_of_every_capture_is_a_frame() {
    let mut sound = 0;
    for capture in captures("acp") {
        for line in capture.lines.iter().filter(|line| line.dir != Direction::Err) {
            match rpc::parse(&line.line, 128) {
                Frame::Request { .. } | Frame::Notification { .. } | Frame::Response { .. } => sound += 1,
                // Agents print banners; the captures of bad input hold it on purpose.
                Frame::Complaint(_) | Frame::Malformed(_) => {}
            }
            let mut bytes = line.line.clone().into_bytes();
            bytes.insert(0, 3);
            cases::rpc(&bytes);
        }
    }
    assert!(sound > 3500, "{sound}");
}

#[test]
fn an_id_that_is_no_token_is_no_id() {
    for text in ["\"open", "\"", "\"a\"b\"", "\"\n\"", "01", "-01", "-0x", "\"\\x\"", "+1", " 1"] {
        assert_eq!(Id::from_token(text), None, "{text:?}");
    }
}
