//! Text as JavaScript cuts it: strings of 16-bit units, in which a character can be two.

use std::io::Write;
use std::process::{Command as Program, Stdio};

use agentline_core::acp::Update;
use agentline_tests::dice::{Dice, noise};

use super::*;

/// `JSON.stringify` of a string: halves that stand alone are escaped, everything else is written as it is.
fn stringify(units: &[u16]) -> String {
    let written = char::decode_utf16(units.iter().copied()).map(|decoded| match decoded {
        Ok('"') => "\\\"".to_owned(),
        Ok('\\') => "\\\\".to_owned(),
        Ok('\u{8}') => "\\b".to_owned(),
        Ok('\u{c}') => "\\f".to_owned(),
        Ok('\n') => "\\n".to_owned(),
        Ok('\r') => "\\r".to_owned(),
        Ok('\t') => "\\t".to_owned(),
        Ok(control @ '\0'..'\u{20}') => format!("\\u{:04x}", u32::from(control)),
        Ok(character) => character.to_string(),
        Err(half) => format!("\\u{:04x}", half.unpaired_surrogate()),
    });
    format!("\"{}\"", written.collect::<String>())
}

/// Units that meet in every way: halves, whole characters, plain text.
fn units(dice: &mut Dice<'_>) -> Vec<u16> {
    const UNITS: [u16; 12] =
        [0xD83C, 0xDF89, 0xD83C, 0xDF89, 0xD800, 0xDFFF, 0x61, 0x5C, 0x22, 0xFFFD, 0xE9, 0x4E2D];
    (0..dice.below(24)).map(|_| *dice.pick(&UNITS)).collect()
}

fn chunk(speaker: &str, text: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"{speaker}","content":{{"type":"text","text":{text}}}{more}}}}}}}"#
    )
}

fn said(rig: &mut Rig<Client>) -> String {
    let text = |event| if let Event::Text(text) = event { Some(text.text) } else { None };
    rig.told().into_iter().filter_map(text).collect()
}

#[test]
fn g4_lone_surrogate_however_a_text_is_cut_it_arrives_whole() {
    fn prop(data: Vec<u8>) {
        let mut dice = Dice::new(&data);
        let units = units(&mut dice);
        let mut rig = one_session();
        rig.command(prompt(7)).unwrap();
        let mut rest = &units[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(1 + dice.below(rest.len()));
            let more = if dice.once_in(3) { r#","_meta":{}"# } else { "" };
            rig.hear(&chunk("agent_message_chunk", &stringify(piece), more));
            rest = behind;
        }
        rig.hear(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
        assert_eq!(said(&mut rig), String::from_utf16_lossy(&units), "{units:x?}");
    }
    quickcheck::quickcheck(prop as fn(Vec<u8>));
}

#[test]
fn g4_a_half_whose_other_half_never_comes_is_told_before_what_comes_instead() {
    let half = chunk("agent_message_chunk", r#""a\ud83c""#, "");
    let plan = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}"#;
    for (next, expected) in [
        (chunk("agent_message_chunk", r#""\udf89b""#, ""), "a 🎉b "),
        (chunk("agent_message_chunk", r#""b""#, ""), "a \u{fffd} b "),
        (chunk("agent_thought_chunk", r#""\udf89b""#, ""), "a \u{fffd} \u{fffd}b "),
        (chunk("agent_message_chunk", r#""\udf89b""#, r#","messageId":"2""#), "a \u{fffd} \u{fffd}b "),
        (chunk("agent_message_chunk", r#""\ud83c""#, ""), "a \u{fffd} "),
        (plan.to_owned(), "a \u{fffd} plan "),
        (r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#.to_owned(), "a \u{fffd} end "),
    ] {
        let mut rig = one_session();
        rig.command(prompt(7)).unwrap();
        rig.hear(&half);
        rig.hear(&next);
        let told = rig.told().into_iter().map(|event| {
            if let Event::Text(text) = event {
                return text.text + " ";
            }
            let plan = matches!(&event, Event::Updated(updated) if matches!(updated.update, Update::Plan(_)));
            (if plan { "plan " } else { "end " }).to_owned()
        });
        assert_eq!(told.collect::<String>(), expected, "{next}");
    }
    // The end of the connection is the end of the text.
    let mut rig = one_session();
    rig.hear(&half);
    rig.link(Heard::Eof);
    assert_eq!(said(&mut rig), "a\u{fffd}");
}

/// What node writes, and how it sees the whole, for the same units. Where there is no node, `stringify` stands for it.
#[test]
fn g4_javascript_writes_strings_as_this_suite_does() {
    const SCRIPT: &str = "for (const line of require('fs').readFileSync(0, 'utf8').trim().split('\\n')) {\
        const text = String.fromCharCode(...line.split(' ').map(Number));\
        process.stdout.write(JSON.stringify(text) + '\\n') }";
    let child =
        Program::new("node").args(["-e", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return };
    let mut asked = String::new();
    let mut expected = String::new();
    for seed in 0..2000_u32 {
        let mut units = units(&mut Dice::new(&noise(seed.into(), 60)));
        units.push(u16::try_from(seed % 0x80).expect("it is small"));
        asked += &units.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        asked.push('\n');
        expected += &stringify(&units);
        expected.push('\n');
    }
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().expect("node ends");
    writer.join().unwrap().expect("node reads");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
