//! Bytes to lines.

use agentline_core::lines::{Line, Lines};
use agentline_tests::{cases, dice};
use quickcheck::quickcheck;

quickcheck! {
    fn any_chunking_gives_the_lines_of_a_naive_reader(data: Vec<u8>) -> bool {
        cases::lines(&data);
        true
    }
}

#[test]
fn any_chunking_of_long_streams_gives_the_lines_of_a_naive_reader() {
    for seed in 0..20_000 {
        cases::lines(&dice::noise(seed, 120));
    }
}

#[test]
fn a_feed_that_is_dropped_early_leaves_the_next_line_sound() {
    let mut lines = Lines::new(10);
    assert_eq!(lines.feed(b"first ").next(), None);
    assert_eq!(lines.feed(b"one\nrest").next(), Some(Line::Text("first one")));
    assert_eq!(lines.feed(b"second\n").next(), Some(Line::Text("second")));
    assert_eq!(lines.feed(b"\n").next(), None);
}

#[test]
fn a_line_without_an_end_is_finished_once() {
    let mut lines = Lines::new(10);
    assert_eq!(lines.feed(b"last").next(), None);
    assert_eq!(lines.feed(b"\n").next(), Some(Line::Text("last")));
    assert_eq!(lines.feed(b"\n").next(), None);
    assert_eq!(lines.held(), 0);
}

#[test]
fn a_line_of_exactly_the_limit_passes_however_much_follows_it() {
    for limit in [65_535, 65_536, 65_537, 1 << 20] {
        let mut stream = vec![b'x'; limit];
        stream.push(b'\n');
        stream.extend(b"y\n".repeat(1000));
        let mut lines = Lines::new(limit);
        let mut feed = lines.feed(&stream);
        assert!(matches!(feed.next(), Some(Line::Text(text)) if text.len() == limit));
        let mut after = 0;
        while feed.next().is_some() {
            after += 1;
        }
        assert_eq!(after, 1000);
        assert_eq!(Lines::new(limit - 1).feed(&stream).next(), Some(Line::TooLong(&[b'x'; 4096])));
    }
}

#[test]
fn blank_lines_cost_nothing() {
    let mut lines = Lines::new(10);
    let blank = b" \t \n\n\r\n".repeat(1 << 16);
    let mut feed = lines.feed(&blank);
    assert_eq!(feed.next(), None);
    assert_eq!(lines.held(), 0);
}

#[test]
fn quadratic_long_line_each_byte_of_a_long_line_is_looked_at_a_bounded_number_of_times() {
    // 16 MiB in small reads: quadratic work would not end within the patience of any test run.
    let mut lines = Lines::new(32 << 20);
    let chunk = [b'x'; 1460];
    for _ in 0..(16 << 20) / chunk.len() {
        assert_eq!(lines.feed(&chunk).next(), None);
    }
    assert!(matches!(lines.feed(b"\n").next(), Some(Line::Text(text)) if text.len() > 16_000_000));
}
