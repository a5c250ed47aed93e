//! Properties as functions of bytes: property tests, fuzz targets and committed corpora call the same ones.
//! Each panics when its property does not hold.

mod acp;
mod attach;
mod control;
mod files;
mod galley;
mod reverse;
mod trace;

pub use acp::{acp_agent, acp_client, acp_pair, one_pass};
pub use attach::{attach_caller, attach_server};
pub use files::{manifest, presence, records, registry, rules, settings};
pub use galley::{PairLog, galley_bridge, galley_desktop, galley_pair, pair};
pub use reverse::{DialledLog, dialled, doors, reverse_acceptor, reverse_agent, reverse_pair};
pub use trace::trace;

pub use crate::hub::siege::run as hub_control;
pub use crate::room::faulty as chat;

use agentline_core::lines::{Line, Lines};
use agentline_core::rpc::{self, Flaw, Frame, Id, Json, RpcError};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::dice::Dice;

pub use control::{control_client, control_server, control_world};

/// The book of a hub agrees with its model in any order of things, and loses nothing when it is killed.
pub fn hub_book(data: &[u8]) {
    let _ = crate::hub::ledger::run(data);
}

/// A hub in a faulty world: each prompt and each question ends once, and nobody is left behind.
pub fn hub_world(data: &[u8]) {
    let _ = crate::hub::city::run(data, crate::world::Faults::ALL);
}

/// Lines are the same for every chunking, are those of a naive reader, and are never held beyond the limit.
pub fn lines(data: &[u8]) {
    let mut dice = Dice::new(data);
    let limit = *dice.pick(&[10, 0, 1, 3, 64, 1000]);
    let cuts: Vec<usize> = (0..dice.below(24)).map(|_| dice.below(64)).collect();
    let stream = if dice.once_in(4) { dice.rest().to_vec() } else { stream(&mut dice) };

    let expected = naive_lines(limit, &stream);
    let mut steps: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    steps.sort_unstable();
    assert_eq!(cut_lines(limit, &stream, &[]), expected, "whole: {stream:?}");
    assert_eq!(cut_lines(limit, &stream, &steps), expected, "cut at {steps:?}: {stream:?}");
    let bytes: Vec<usize> = (1..stream.len()).collect();
    assert_eq!(cut_lines(limit, &stream, &bytes), expected, "byte by byte: {stream:?}");
    assert_eq!(stopped_lines(limit, &stream), expected, "stopped after each line: {stream:?}");
}

/// Every line is a frame; a frame that is printed and read again is the same; ids come back as they were.
pub fn rpc(data: &[u8]) {
    let mut dice = Dice::new(data);
    let line =
        if dice.once_in(4) { String::from_utf8_lossy(dice.rest()).into_owned() } else { envelope(&mut dice) };
    let frame = rpc::parse(&line, DEPTH);
    agrees_with_serde(&line, &frame);

    let mut printed = Vec::new();
    let same = match &frame {
        Frame::Notification { method, params } => {
            rpc::notification(&mut printed, method, params);
            show(&frame)
        }
        Frame::Request { id, method, params } => {
            if let Some(number) = id.number().filter(|number| *id.token() == number.to_string()) {
                rpc::request(&mut printed, number, method, params);
                show(&frame)
            } else if *id == Id::null() {
                // The answer names no request, so nobody but the asker can read it.
                rpc::reply(&mut printed, id, &());
                return assert!(text(&printed).contains(r#""id":null"#), "{line}");
            } else {
                rpc::reply(&mut printed, id, &());
                reply(id, "null")
            }
        }
        Frame::Response { id, outcome: Ok(result) } => {
            rpc::reply(&mut printed, id, result);
            show(&frame)
        }
        Frame::Response { id, outcome: Err(error) } => {
            rpc::reply_error(&mut printed, id, error);
            show(&frame)
        }
        Frame::Complaint(error) => {
            rpc::reply_error(&mut printed, &Id::null(), error);
            show(&frame)
        }
        Frame::Malformed(Flaw { answer: None, .. }) => return,
        Frame::Malformed(Flaw { answer: Some(code), id, why, .. }) => {
            rpc::reply_error(&mut printed, id, &RpcError::new(*code, *why));
            match rpc::parse(text(&printed), DEPTH) {
                Frame::Response { id: answered, outcome: Err(error) } => {
                    assert_eq!((&answered, error.code), (id, *code), "{line}");
                }
                Frame::Complaint(error) => assert_eq!((&Id::null(), error.code), (id, *code), "{line}"),
                other @ (Frame::Request { .. }
                | Frame::Notification { .. }
                | Frame::Response { .. }
                | Frame::Malformed(_)) => panic!("{line} answered by {other:?}"),
            }
            return;
        }
    };
    assert_eq!(show(&rpc::parse(text(&printed), DEPTH)), same, "{line}");
}

/// Less than what `serde_json` decodes, so that it can be asked too.
const DEPTH: usize = 100;

/// A stream with what breaks careless readers in it.
fn stream(dice: &mut Dice<'_>) -> Vec<u8> {
    const PIECES: [&[u8]; 18] = [
        b"a",
        b"{",
        b"\nContent-length: 7\r\n",
        b"\n",
        b"\r\n",
        b"\n",
        b" ",
        b"\t \n",
        "中".as_bytes(),
        "🎉".as_bytes(),
        "\u{feff}".as_bytes(),
        b"\xff",
        b"\xe4\xb8",
        b"0123456789",
        b"\n\n",
        b"\r",
        b"\0",
        "\u{2028}".as_bytes(),
    ];
    (0..dice.below(40)).flat_map(|_| *dice.pick(&PIECES)).copied().collect()
}

/// Lines as a reader with no limit on its memory finds them.
fn naive_lines(limit: usize, stream: &[u8]) -> Vec<String> {
    let mut begun = false;
    let line = |raw: &[u8]| {
        if raw.len() > limit {
            return Some(format!("{:?}", Line::TooLong(&raw[..limit.min(4096)])));
        }
        let raw = raw.strip_prefix("\u{feff}".as_bytes()).unwrap_or(raw);
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        if raw.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let line = match std::str::from_utf8(raw) {
            Ok(text) if !begun && text.to_ascii_lowercase().starts_with("content-length:") => {
                Line::Header(text)
            }
            Ok(text) => {
                begun |= text.trim_ascii_start().starts_with('{');
                Line::Text(text)
            }
            Err(_) => Line::NotUtf8(raw),
        };
        Some(format!("{line:?}"))
    };
    stream.split(|byte| *byte == b'\n').filter_map(line).collect()
}

fn cut_lines(limit: usize, stream: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut lines = Lines::new(limit);
    let mut seen = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([stream.len()]) {
        let mut feed = lines.feed(&stream[from..to]);
        while let Some(line) = feed.next() {
            seen.push(format!("{line:?}"));
        }
        assert!(lines.held() <= limit, "{} bytes held", lines.held());
        from = to;
    }
    seen.extend(lines.feed(b"\n").next().map(|line| format!("{line:?}")));
    assert!(lines.feed(b"\n").next().is_none(), "a last line that comes twice");
    seen
}

/// The lines of a reader that stops after each and feeds the rest again.
fn stopped_lines(limit: usize, stream: &[u8]) -> Vec<String> {
    let mut lines = Lines::new(limit);
    let mut seen = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let mut feed = lines.feed(rest);
        seen.extend(feed.next().map(|line| format!("{line:?}")));
        let left = feed.stop();
        rest = &rest[rest.len() - left..];
    }
    seen.extend(lines.feed(b"\n").next().map(|line| format!("{line:?}")));
    seen
}

/// An envelope with members of all sorts in any order, now and then broken.
fn envelope(dice: &mut Dice<'_>) -> String {
    const VALUES: [&str; 24] = [
        "1",
        "null",
        "\"a\"",
        "{}",
        "[]",
        "true",
        "0",
        "-1",
        "1.5",
        "1e2",
        "1e999",
        "18446744073709551616",
        "\"\\u00e9\"",
        "\"\\ud800\"",
        "\"2.0\"",
        "{\"code\":-32000,\"message\":\"m\",\"data\":{\"a\": [1]}}",
        "{\"code\":1}",
        "{\"code\":1.5,\"message\":2}",
        "\"\u{2028}\"",
        "{\r\"a\":\t1}",
        "\"a/b\"",
        "[[[[]]]]",
        "\"\\\\\"",
        "\"session/update\"",
    ];
    const KEYS: [&str; 9] =
        ["method", "id", "params", "result", "error", "jsonrpc", "_meta", "\\u006dethod", "\\ud800"];
    let mut members: Vec<String> = Vec::new();
    if !dice.once_in(3) {
        members.push("\"jsonrpc\":\"2.0\"".to_owned());
    }
    for key in &KEYS[..5] {
        if dice.once_in(2) {
            members.push(format!("\"{key}\":{}", dice.pick(&VALUES)));
        }
    }
    if dice.once_in(2) {
        members.push(format!("\"{}\": {}", dice.pick(&KEYS), dice.pick(&VALUES)));
    }
    let mut line = format!("{{{}}}", members.join(","));
    if dice.once_in(8) {
        let at = (0..=dice.below(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        match dice.below(3) {
            0 => line.truncate(at),
            1 => line.insert_str(at, dice.pick::<&str>(&VALUES)),
            _ => line.insert_str(at, &"[".repeat(dice.below(300))),
        }
    }
    line
}

/// What is called no JSON is none, and what is called something else is.
fn agrees_with_serde(line: &str, frame: &Frame<'_>) {
    match frame {
        // Found before the rest is read.
        Frame::Malformed(Flaw { why: "nested too deeply" | "a member is there twice", .. }) => {}
        Frame::Malformed(Flaw { why: "not JSON", .. }) => {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_err(), "{line}");
        }
        Frame::Request { .. }
        | Frame::Notification { .. }
        | Frame::Response { .. }
        | Frame::Complaint(_)
        | Frame::Malformed(_) => assert!(serde_json::from_str::<IgnoredAny>(line).is_ok(), "{line}"),
    }
}

fn show(frame: &Frame<'_>) -> String {
    match frame {
        Frame::Request { id, method, params } => {
            format!("request {} {method} {}", one_line(id.token()), raw(*params))
        }
        Frame::Notification { method, params } => format!("notification {method} {}", raw(*params)),
        Frame::Response { id, outcome: Ok(result) } => reply(id, &raw(Some(*result))),
        Frame::Response { id, outcome: Err(error) } => {
            format!("error {} {}", one_line(id.token()), shown_error(error))
        }
        Frame::Complaint(error) => format!("complaint {}", shown_error(error)),
        Frame::Malformed(flaw) => format!("{flaw:?}"),
    }
}

fn reply(id: &Id, result: &str) -> String {
    format!("result {} {result}", one_line(id.token()))
}

fn shown_error(error: &RpcError) -> String {
    let data = error.data.as_ref().map(Json::get).filter(|data| *data != "null");
    format!("{} {:?} {}", error.code, error.message, one_line(data.unwrap_or("-")))
}

fn raw(value: Option<&RawValue>) -> String {
    one_line(value.map_or("-", RawValue::get))
}

/// Raw JSON as it is when it was put on one line.
fn one_line(json: &str) -> String {
    json.replace(['\r', '\n'], " ").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn text(line: &[u8]) -> &str {
    assert!(!line.contains(&b'\n'), "a line end in a line");
    std::str::from_utf8(line).expect("lines are text")
}
