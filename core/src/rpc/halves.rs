//! Strings with half a character in them. JavaScript's are made of 16-bit units, and whoever cuts one can cut a
//! character that takes two; `JSON.stringify` writes the halves as escapes, which no other language takes for text.

/// The same JSON with U+FFFD in the place of each half that stands alone; `None`: there is none.
pub(crate) fn mend(json: &str) -> Option<String> {
    let mut rest = json;
    let mut mended: Option<String> = None;
    while let Some((before, half, after)) = next_lone(rest) {
        let mended = mended.get_or_insert_with(|| String::with_capacity(json.len()));
        mended.push_str(before);
        mended.push_str(REPLACEMENT);
        debug_assert_eq!(half.len(), REPLACEMENT.len());
        rest = after;
    }
    mended.map(|mended| mended + rest)
}

/// The halves with which a string begins and ends, of a JSON string token.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Halves {
    /// The second half of a character whose first one may have ended the text before.
    pub(crate) second: Option<u16>,
    /// The first half of a character whose second one may begin the next text.
    pub(crate) first: Option<u16>,
}

impl Halves {
    /// Looks at both ends of a token, quotes included.
    pub(crate) fn of(token: &str) -> Self {
        let text = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
        let (mut rest, mut halves) = (text, Self::default());
        while let Some((before, half, after)) = next_lone(rest) {
            let unit = unit(half.as_bytes()).unwrap_or_default();
            if rest.len() == text.len() && before.is_empty() && is_second(unit) {
                halves.second = Some(unit);
            }
            if after.is_empty() && is_first(unit) {
                halves.first = Some(unit);
            }
            rest = after;
        }
        halves
    }
}

/// The character that two halves make.
pub(crate) fn join(first: u16, second: u16) -> Option<char> {
    char::decode_utf16([first, second]).next()?.ok().filter(|_| is_first(first) && is_second(second))
}

/// The first half that stands alone, with what is before and behind it.
fn next_lone(json: &str) -> Option<(&str, &str, &str)> {
    let bytes = json.as_bytes();
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'\\', bytes.get(from..)?) {
        let at = from + at;
        let Some(unit) = unit(bytes.get(at..)?).filter(|unit| is_first(*unit) || is_second(*unit)) else {
            // An escaped backslash begins no other escape.
            from = at + 2;
            continue;
        };
        let next = bytes.get(at + ESCAPE..).and_then(self::unit);
        if is_first(unit) && next.is_some_and(is_second) {
            from = at + 2 * ESCAPE;
            continue;
        }
        return Some((json.get(..at)?, json.get(at..at + ESCAPE)?, json.get(at + ESCAPE..)?));
    }
    None
}

/// The unit of the escape with which the bytes begin.
fn unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    let digits = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

const fn is_first(unit: u16) -> bool {
    matches!(unit, 0xD800..=0xDBFF)
}

const fn is_second(unit: u16) -> bool {
    matches!(unit, 0xDC00..=0xDFFF)
}

const ESCAPE: usize = REPLACEMENT.len();
const REPLACEMENT: &str = "\\ufffd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_that_stand_alone_are_replaced() {
        let table = [
            (r#""\ud83c""#, Some(r#""\ufffd""#)),
            (r#""\udf89 x\uD83C""#, Some(r#""\ufffd x\ufffd""#)),
            (r#""\ud83c\ud83c\udf89\udf89""#, Some(r#""\ufffd\ud83c\udf89\ufffd""#)),
            (r#""\ud83c\n""#, Some(r#""\ufffd\n""#)),
            (r#"{"a":"\ud800","b":["\udfff"]}"#, Some(r#"{"a":"\ufffd","b":["\ufffd"]}"#)),
            (r#""\ud83c\udf89""#, None),
            (r#""\\ud83c""#, None),
            (r#""\\\\ud83c""#, None),
            (r#""\\\ud83c""#, Some(r#""\\\ufffd""#)),
            (r#""\u00e9 é""#, None),
            (r#""\ud8""#, None),
            (r#""\u+800""#, None),
            ("\\", None),
            ("", None),
        ];
        for (json, expected) in table {
            assert_eq!(mend(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn the_halves_at_both_ends_are_told() {
        let halves = |second, first| Halves { second, first };
        let table = [
            (r#""\ud83c""#, halves(None, Some(0xD83C))),
            (r#""\udf89""#, halves(Some(0xDF89), None)),
            (r#""\udf89 \ud83c""#, halves(Some(0xDF89), Some(0xD83C))),
            (r#""x\udf89\ud83cx""#, halves(None, None)),
            (r#""\ud83c\udf89""#, halves(None, None)),
            ("7", halves(None, None)),
        ];
        for (token, expected) in table {
            assert_eq!(Halves::of(token), expected, "{token}");
        }
        assert_eq!(join(0xD83C, 0xDF89), Some('🎉'));
        assert_eq!(join(0x41, 0x42), None);
    }
}
