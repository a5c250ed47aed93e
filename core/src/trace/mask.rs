//! Hides given byte strings, and makes one placeholder of all again.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use memchr::{memchr2_iter, memmem, memrchr};
use serde_json::value::{RawValue, to_raw_value};

use crate::excerpt::MARK;
use crate::secret::{PLACEHOLDER, Secret};

/// Byte strings that nobody may see, in the spellings that programs give them: as they are, in JSON once or twice,
/// with `\\uXXXX` or short escapes, percent-encoded, or with one blank for several; not in base64 or anything else
/// that is computed. Of one that was cut, as an [excerpt](crate::excerpt) tells, no piece of four bytes is seen.
#[derive(Debug, Default)]
pub struct Masks(Vec<Mask>);

/// One spelling of one secret. Never holds a line end, so what is hidden or waited for is within a line.
#[derive(Debug)]
struct Mask {
    bytes: Secret<Vec<u8>>,
    number: usize,
}

impl Masks {
    /// Hides these. What is shorter than four bytes is everywhere, and stays.
    #[must_use]
    pub fn new(secrets: &[Secret<Vec<u8>>]) -> Self {
        let mut masks = Vec::new();
        for (number, secret) in (1..).zip(secrets) {
            for line in secret.expose().split(|byte| matches!(byte, b'\n' | b'\r')) {
                let spellings = std::iter::successors(Some(line.to_vec()), |plain| escaped(plain))
                    .take(DEPTHS)
                    .chain(on_one_line(line));
                masks.extend(
                    spellings
                        .filter(|bytes| bytes.len() >= LEAST)
                        .map(|bytes| Mask { bytes: bytes.into(), number }),
                );
            }
        }
        Self(masks)
    }

    /// The text with a numbered placeholder for each secret.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.apply(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Bytes at the end of a text that may be the start of a secret whose rest is to come.
    #[must_use]
    pub fn unfinished(&self, text: &str) -> usize {
        let from = text.len() - self.open_end(text.as_bytes());
        text.len() - text.floor_char_boundary(from)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes with each secret replaced.
    pub(super) fn apply<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let found = self.found(bytes);
        if found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut shown = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for (place, number) in found {
            shown.extend_from_slice(bytes.get(from..place.start).unwrap_or_default());
            let placeholder =
                number.map_or_else(|| CUT.to_owned(), |number| format!("{NUMBERED}{number}{CLOSE}"));
            shown.extend_from_slice(placeholder.as_bytes());
            from = place.end;
        }
        shown.extend_from_slice(bytes.get(from..).unwrap_or_default());
        Cow::Owned(shown)
    }

    /// How many bytes at the end may be the start of a secret.
    pub(super) fn open_end(&self, bytes: &[u8]) -> usize {
        let line = memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let from = self.whole(bytes).last().map_or(line, |(place, _)| place.end.max(line));
        let rest = bytes.get(from..).unwrap_or_default();
        let open = |mask: &Mask| {
            let secret = mask.bytes.expose();
            let is_start = |len: &usize| secret.get(..*len).is_some_and(|start| rest.ends_with(start));
            let literal = (1..secret.len()).rev().find(is_start);
            let first = rest.len().saturating_sub(secret.len() * LONGEST);
            let places = memchr2_iter(b'\\', b'%', rest).flat_map(|at| mask.starts_before(rest, at));
            let escaped = places.filter(|at| *at >= first && mask.at(rest, *at) == Spelled::Unfinished).min();
            literal.max(escaped.map(|at| rest.len() - at))
        };
        self.0.iter().filter_map(open).max().unwrap_or(0)
    }

    /// Where secrets are, and what was left of one where a text was cut.
    fn found(&self, bytes: &[u8]) -> Vec<(Range<usize>, Option<usize>)> {
        let mut all: Vec<_> =
            self.whole(bytes).into_iter().map(|(place, number)| (place, Some(number))).collect();
        for cut in memmem::find_iter(bytes, MARK) {
            let pieces = [self.piece_before(bytes, cut), self.piece_after(bytes, cut + MARK.len())];
            all.extend(pieces.into_iter().flatten().map(|place| (place, None)));
        }
        without_overlap(all)
    }

    /// The start of a secret that ends there.
    fn piece_before(&self, bytes: &[u8], cut: usize) -> Option<Range<usize>> {
        let longest = self.0.iter().map(|mask| mask.bytes.expose().len() * LONGEST).max()?;
        let open = self.open_end(bytes.get(cut.saturating_sub(longest)..cut)?);
        (open >= LEAST).then(|| cut - open..cut)
    }

    /// The end of a secret that begins there, or behind the rest of an escape.
    fn piece_after(&self, bytes: &[u8], cut: usize) -> Option<Range<usize>> {
        let of_escape = |byte: &&u8| byte.is_ascii_hexdigit() || matches!(byte, b'u' | b'\\');
        let rest = bytes.get(cut..)?.iter().take(ESCAPE).take_while(of_escape).count();
        let pieces =
            (cut..=cut + rest).flat_map(|at| self.0.iter().filter_map(move |mask| mask.end_at(bytes, at)));
        pieces.max().map(|end| cut..end)
    }

    /// Where whole secrets are, in order; those that overlap count as one.
    fn whole(&self, bytes: &[u8]) -> Vec<(Range<usize>, usize)> {
        let mut all = Vec::new();
        for mask in &self.0 {
            let secret = mask.bytes.expose();
            all.extend(memmem::find_iter(bytes, secret).map(|at| (at..at + secret.len(), mask.number)));
            // A spelling of its own has an escape somewhere; what comes before the first one is as it is.
            for escape in memchr2_iter(b'\\', b'%', bytes) {
                for at in mask.starts_before(bytes, escape) {
                    if let Spelled::Whole(len) = mask.at(bytes, at) {
                        all.push((at..at + len, mask.number));
                    }
                }
            }
        }
        without_overlap(all)
    }
}

fn without_overlap<N: Copy + Ord>(mut all: Vec<(Range<usize>, N)>) -> Vec<(Range<usize>, N)> {
    all.sort_by_key(|(place, number)| (place.start, Reverse(place.end), *number));
    all.dedup_by(|next, kept| {
        let overlap = next.0.start < kept.0.end;
        if overlap {
            kept.0.end = kept.0.end.max(next.0.end);
        }
        overlap
    });
    all
}

/// Whether a secret stands somewhere.
#[derive(Debug, Eq, PartialEq)]
enum Spelled {
    /// It does, in so many bytes.
    Whole(usize),
    /// As far as the bytes go.
    Unfinished,
    No,
}

impl Mask {
    /// Where a secret could begin whose first escape is there.
    fn starts_before(&self, bytes: &[u8], escape: usize) -> impl Iterator<Item = usize> {
        let secret = self.bytes.expose();
        let before = bytes.get(..escape).unwrap_or_default();
        let lengths = 0..=before.len().min(secret.len());
        let fits = move |len: &usize| secret.get(..*len).is_some_and(|start| before.ends_with(start));
        lengths.filter(fits).map(move |len| escape - len)
    }

    /// Where the longest end of the secret ends that stands there.
    fn end_at(&self, bytes: &[u8], start: usize) -> Option<usize> {
        let secret = self.bytes.expose();
        let ends = (1..=secret.len().saturating_sub(LEAST)).filter_map(|from| secret.get(from..));
        let spelled = |end| match Self::spelled(end, bytes, start) {
            Spelled::Whole(len) => Some(start + len),
            Spelled::Unfinished | Spelled::No => None,
        };
        ends.filter_map(spelled).next()
    }

    fn at(&self, bytes: &[u8], start: usize) -> Spelled {
        Self::spelled(self.bytes.expose(), bytes, start)
    }

    fn spelled(mut secret: &[u8], bytes: &[u8], start: usize) -> Spelled {
        let mut at = start;
        while let Some(next) = secret.first() {
            let rest = bytes.get(at..).unwrap_or_default();
            let (of_secret, of_bytes) = match Escape::of(rest) {
                Escape::Letter(letter, len) if secret.starts_with(letter.as_bytes()) => (letter.len, len),
                Escape::Letter(..) | Escape::None if rest.first() == Some(next) => (1, 1),
                // The last bytes may be what they are, or the start of an escape.
                Escape::Unfinished => {
                    let after = secret.get(1..).filter(|_| rest.first() == Some(next));
                    return match after.map(|after| Self::spelled(after, bytes, at + 1)) {
                        Some(Spelled::Whole(len)) => Spelled::Whole(at + 1 + len - start),
                        Some(Spelled::Unfinished | Spelled::No) | None => Spelled::Unfinished,
                    };
                }
                Escape::Letter(..) | Escape::None => return Spelled::No,
            };
            secret = secret.get(of_secret..).unwrap_or_default();
            at += of_bytes;
        }
        Spelled::Whole(at - start)
    }
}

/// What some bytes begin with.
enum Escape {
    /// What stands for this, and its length.
    Letter(Letter, usize),
    None,
    /// What may become one.
    Unfinished,
}

/// What an escape stands for: at most one letter, of which a percent escape is one byte.
struct Letter {
    bytes: [u8; 4],
    len: usize,
}

impl Letter {
    const fn byte(byte: u8) -> Self {
        Self { bytes: [byte, 0, 0, 0], len: 1 }
    }

    fn char(letter: char) -> Self {
        let mut bytes = [0; 4];
        let len = letter.encode_utf8(&mut bytes).len();
        Self { bytes, len }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Escape {
    fn of(bytes: &[u8]) -> Self {
        match bytes {
            [b'%', high, low, ..] => {
                let byte = hex(&[*high, *low]).and_then(|value| u8::try_from(value).ok());
                byte.map_or(Self::None, |byte| Self::Letter(Letter::byte(byte), 3))
            }
            [b'\\', b'u', digits @ ..] => Self::of_unit(digits),
            [b'\\', letter, ..] => match letter {
                b'n' => Self::Letter(Letter::byte(b'\n'), 2),
                b't' => Self::Letter(Letter::byte(b'\t'), 2),
                b'r' => Self::Letter(Letter::byte(b'\r'), 2),
                b'b' => Self::Letter(Letter::byte(8), 2),
                b'f' => Self::Letter(Letter::byte(12), 2),
                b'"' | b'\'' | b'\\' | b'/' => Self::Letter(Letter::byte(*letter), 2),
                _ => Self::None,
            },
            [b'%' | b'\\', ..] | [] => Self::Unfinished,
            _ => Self::None,
        }
    }

    /// After `\u`: one unit of UTF-16, or two.
    fn of_unit(digits: &[u8]) -> Self {
        let Some(unit) = digits.get(..4) else { return Self::Unfinished };
        let Some(unit) = hex(unit) else { return Self::None };
        if let Some(letter) = char::from_u32(unit) {
            return Self::Letter(Letter::char(letter), 6);
        }
        let (Some(mark), Some(low)) = (digits.get(4..6), digits.get(6..10)) else { return Self::Unfinished };
        match hex(low) {
            Some(low @ 0xdc00..=0xdfff) if mark == b"\\u" && unit < 0xdc00 => {
                let letter = char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
                letter.map_or(Self::None, |letter| Self::Letter(Letter::char(letter), 12))
            }
            Some(_) | None => Self::None,
        }
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + value(digit)?))
}

/// The start of a secret that its stream's end has cut off.
pub(super) fn cut_off(start: &[u8]) -> &[u8] {
    if start.len() < LEAST { start } else { CUT.as_bytes() }
}

/// A body of JSON with each secret replaced; one that is no JSON any more is hidden as a whole.
pub(super) fn json(value: Box<RawValue>, replace: impl Fn(&[u8]) -> Cow<'_, [u8]>) -> Box<RawValue> {
    let texts = texts(value.get(), &replace);
    let text = texts.as_deref().unwrap_or(value.get());
    let whole = match replace(text.as_bytes()) {
        Cow::Borrowed(_) => texts,
        Cow::Owned(bytes) => Some(String::from_utf8(bytes).unwrap_or_default()),
    };
    let Some(text) = whole else { return value };
    RawValue::from_string(text).or_else(|_| to_raw_value(PLACEHOLDER)).unwrap_or_default()
}

/// JSON with what is replaced in its texts, each as it reads: a line of a peer's is such a text, and has escapes of the
/// peer's choice. `None`: nothing is replaced.
fn texts(json: &str, replace: impl Fn(&[u8]) -> Cow<'_, [u8]>) -> Option<String> {
    let (mut shown, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(token) = json.get(at..).and_then(token) {
        let range = at + token.start..at + token.end;
        at = range.end;
        let token = json.get(range.clone()).unwrap_or_default();
        if !token.contains('\\') {
            continue;
        }
        let text: String = serde_json::from_str(token).unwrap_or_default();
        if let Cow::Owned(hidden) = replace(text.as_bytes()) {
            shown += json.get(copied..range.start).unwrap_or_default();
            shown += &serde_json::to_string(&String::from_utf8_lossy(&hidden)).unwrap_or_default();
            copied = range.end;
        }
    }
    (copied > 0).then(|| shown + json.get(copied..).unwrap_or_default())
}

/// Where the first text of some JSON stands, quotes included.
fn token(json: &str) -> Option<Range<usize>> {
    let start = json.find('"')?;
    let mut escaped = false;
    let length = json.get(start + 1..)?.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some(start..start + length + 2)
}

/// Placeholders without their numbers: what a replay compares, and what its machine is given for each secret.
pub(super) fn plain(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut shown = Vec::new();
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, NUMBERED.as_bytes()) {
        let (before, placeholder) = rest.split_at(at);
        let (_, after) = placeholder.split_at(NUMBERED.len());
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (_, end) = after.split_at(digits);
        shown.extend_from_slice(before);
        match end.strip_prefix(CLOSE.as_bytes()) {
            Some(end) if digits > 0 => {
                shown.extend_from_slice(PLACEHOLDER.as_bytes());
                rest = end;
            }
            _ => {
                shown.extend_from_slice(NUMBERED.as_bytes());
                rest = after;
            }
        }
    }
    if shown.is_empty() && rest.len() == bytes.len() {
        return Cow::Borrowed(bytes);
    }
    shown.extend_from_slice(rest);
    Cow::Owned(shown)
}

/// The spelling within a JSON string, if it is another one.
fn escaped(plain: &[u8]) -> Option<Vec<u8>> {
    let quoted = serde_json::to_string(std::str::from_utf8(plain).ok()?).ok()?;
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (inner.as_bytes() != plain).then(|| inner.into())
}

/// The spelling on a line on which one blank stands for several, if it is another one.
fn on_one_line(plain: &[u8]) -> Option<Vec<u8>> {
    let words: Vec<&str> = std::str::from_utf8(plain).ok()?.split_whitespace().collect();
    Some(words.join(" ").into_bytes()).filter(|line| line != plain)
}

const NUMBERED: &str = "‹secret ";
const CLOSE: &str = "›";
/// Not the whole secret: a replayed machine must not take it for one.
const CUT: &str = "‹cut secret›";
/// Shorter strings are everywhere, and hiding them tells where they are.
const LEAST: usize = 4;
/// As it is, in a JSON string, and in a line of JSON that is itself shown in one.
const DEPTHS: usize = 3;
/// Bytes of the longest spelling of one.
const LONGEST: usize = 6;
/// Bytes of the longest escape but its first.
const ESCAPE: usize = 11;
