//! Secrets in whatever spelling.

use agentline_core::excerpt::{self, MARK};
use agentline_core::trace::Masks;
use quickcheck::quickcheck;

fn masks(secrets: &[&str]) -> Masks {
    Masks::new(&secrets.iter().map(|secret| secret.as_bytes().to_vec().into()).collect::<Vec<_>>())
}

#[test]
fn g3_a_secret_is_hidden_in_any_spelling() {
    let masks = masks(&["pa/ss\"wö🎉%d"]);
    for spelled in [
        r#"pa/ss"wö🎉%d"#,
        r#"pa/ss\"wö🎉%d"#,
        r#"pa\/ss\"w\u00f6\ud83c\udf89%d"#,
        r#"\u0070\u0061\u002F\u0073\u0073\u0022\u0077\u00F6\uD83C\uDF89\u0025\u0064"#,
        "pa%2Fss%22w%C3%B6%F0%9F%8E%89%25d",
        "%70a/s%73%22w%c3%b6%f0%9f%8e%89%25d",
    ] {
        assert_eq!(masks.text(&format!("<{spelled}>")), "<‹secret 1›>", "{spelled}");
        for (cut, _) in spelled.char_indices().skip(1) {
            let start = &spelled[..cut];
            assert_eq!(masks.unfinished(&format!("<{start}")), cut, "{start}");
        }
    }
    assert_eq!(masks.text(r#"pa/ss\x"w 100% \"#), r#"pa/ss\x"w 100% \"#);
}

#[test]
fn g3_what_a_cut_left_of_a_secret_is_hidden() {
    let secret = r#"pa/ss"wö🎉%d\x"#;
    let masks = masks(&[secret, "two  blanks"]);
    let spellings = [
        secret,
        r#"pa/ss\"wö🎉%d\\x"#,
        r#"\u0070\u0061\u002F\u0073\u0073\u0022\u0077\u00F6\uD83C\uDF89\u0025\u0064\u005c\u0078"#,
        "%70a/s%73%22w%c3%b6%f0%9f%8e%89%25d%5cx",
    ];
    for spelled in spellings {
        for (at, _) in spelled.char_indices().skip(1) {
            let (start, end) = spelled.split_at(at);
            for text in
                [format!("a {start}{MARK}"), format!("{MARK}{end} b"), format!("a {start}{MARK}{end}")]
            {
                let shown = masks.text(&text).into_owned();
                for piece in [start, end] {
                    let leaks = text.contains(piece) && piece.len() >= 36 && shown.contains(piece);
                    assert!(!leaks, "{text}: {shown}");
                }
                for piece in [
                    "pa/s",
                    "a/ss",
                    "/ss\"",
                    "ss\"w",
                    "s\"wö",
                    "wö🎉",
                    "🎉%d",
                    "\\u0070\\u0061\\u002F\\u0073",
                    "%70a",
                ] {
                    assert!(!shown.contains(piece), "{text}: {shown}");
                }
            }
        }
    }
    assert_eq!(masks.text("pa… …\\x …b"), "pa… …\\x …b");
    assert_eq!(masks.text(&excerpt::line("my two \t blanks", 99)), "my ‹secret 2›");
}

#[test]
fn g3_a_secret_at_the_edge_of_an_excerpt() {
    let masks = masks(&["sk-0123456789"]);
    let said = "no account for sk-0123456789 here";
    assert_eq!(masks.text(&excerpt::start(said, 22)), "no account for ‹cut secret›…");
    assert_eq!(masks.text(&excerpt::line(said, 28)), "no account for ‹secret 1›…");
    let mut end = said.to_owned();
    excerpt::keep_end(&mut end, 12);
    assert_eq!(masks.text(&end), "…‹cut secret› here");
    assert_eq!(masks.text("nobody cut 23456789 or sk-0123"), "nobody cut 23456789 or sk-0123");
}

quickcheck! {
    fn g3_whatever_the_text_is(before: String, secret: String, picks: Vec<u8>, after: String) -> bool {
        let secret = secret.replace(['\n', '\r'], "-") + "-end-";
        let mut picks = picks.into_iter().cycle();
        let spelled: String = secret.chars().map(|letter| match picks.next().unwrap_or(0) % 3 {
            // What escapes anything escapes its own marks.
            0 if !matches!(letter, '\\' | '%') => letter.to_string(),
            0 | 1 => letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            _ => letter.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02x}")).collect(),
        }).collect();
        let shown = masks(&[&secret]).text(&format!("{before}{spelled}{after}")).into_owned();
        !shown.contains(&spelled)
    }
}
