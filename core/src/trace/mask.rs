//! Hides given byte strings, and makes one placeholder of all again.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use memchr::{memmem, memrchr};
use serde_json::value::{RawValue, to_raw_value};

use crate::secret::{PLACEHOLDER, Secret};

/// The byte strings to hide.
#[derive(Debug)]
pub(super) struct Masks(Vec<Mask>);

/// One spelling of one secret. Never holds a line end, so what is hidden or waited for is within a line.
#[derive(Debug)]
struct Mask {
    bytes: Secret<Vec<u8>>,
    number: usize,
}

impl Masks {
    pub(super) fn new(secrets: &[Secret<Vec<u8>>]) -> Self {
        let mut masks = Vec::new();
        for (number, secret) in (1..).zip(secrets) {
            for line in secret.expose().split(|byte| matches!(byte, b'\n' | b'\r')) {
                let spellings =
                    std::iter::successors(Some(line.to_vec()), |plain| escaped(plain)).take(DEPTHS);
                masks.extend(
                    spellings
                        .filter(|bytes| bytes.len() >= LEAST)
                        .map(|bytes| Mask { bytes: bytes.into(), number }),
                );
            }
        }
        Self(masks)
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
            shown.extend_from_slice(format!("{NUMBERED}{number}{CLOSE}").as_bytes());
            from = place.end;
        }
        shown.extend_from_slice(bytes.get(from..).unwrap_or_default());
        Cow::Owned(shown)
    }

    /// How many bytes at the end may be the start of a secret.
    pub(super) fn open_end(&self, bytes: &[u8]) -> usize {
        let line = memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let from = self.found(bytes).last().map_or(line, |(place, _)| place.end.max(line));
        let rest = bytes.get(from..).unwrap_or_default();
        let open = |mask: &Mask| {
            let secret = mask.bytes.expose();
            (1..secret.len()).rev().find(|len| secret.get(..*len).is_some_and(|start| rest.ends_with(start)))
        };
        self.0.iter().filter_map(open).max().unwrap_or(0)
    }

    /// Where secrets are, in order; those that overlap count as one.
    fn found(&self, bytes: &[u8]) -> Vec<(Range<usize>, usize)> {
        let mut all = Vec::new();
        for mask in &self.0 {
            let secret = mask.bytes.expose();
            all.extend(memmem::find_iter(bytes, secret).map(|at| (at..at + secret.len(), mask.number)));
        }
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
}

/// The start of a secret that its stream's end has cut off.
pub(super) fn cut_off(start: &[u8]) -> &[u8] {
    if start.len() < LEAST { start } else { CUT.as_bytes() }
}

/// A body of JSON with each secret replaced; one that is no JSON any more is hidden as a whole.
pub(super) fn json(value: Box<RawValue>, replace: impl Fn(&[u8]) -> Cow<'_, [u8]>) -> Box<RawValue> {
    match replace(value.get().as_bytes()) {
        Cow::Borrowed(_) => value,
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .ok()
            .and_then(|text| RawValue::from_string(text).ok())
            .or_else(|| to_raw_value(PLACEHOLDER).ok())
            .unwrap_or_default(),
    }
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

const NUMBERED: &str = "‹secret ";
const CLOSE: &str = "›";
/// Not the whole secret: a replayed machine must not take it for one.
const CUT: &str = "‹cut secret›";
/// Shorter strings are everywhere, and hiding them tells where they are.
const LEAST: usize = 4;
/// As it is, in a JSON string, and in a line of JSON that is itself shown in one.
const DEPTHS: usize = 3;
