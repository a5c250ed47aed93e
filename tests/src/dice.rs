//! Decisions from bytes.

use std::time::Duration;

/// Reads decisions from bytes, each at its position. When the bytes run out every decision is zero, and zero
/// means the dull choice: so any input is a complete scenario, and cutting or zeroing bytes makes it simpler.
///
/// A change here gives every committed corpus another meaning.
#[derive(Clone, Debug)]
pub struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    /// Dice that read these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether only zeros are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `n`, or zero: from one byte when `n` is at most 256, else from four.
    pub fn below(&mut self, n: usize) -> usize {
        match n {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % n,
            _ => {
                let bytes: [u8; 4] = std::array::from_fn(|_| self.byte());
                usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(0) % n
            }
        }
    }

    /// True once in `n`; never when the bytes have run out.
    pub fn once_in(&mut self, n: usize) -> bool {
        n > 0 && self.below(n) == n - 1 && n > 1
    }

    /// One of several.
    ///
    /// # Panics
    ///
    /// There is nothing to pick from.
    pub fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        from.get(self.below(from.len())).expect("something to pick from")
    }

    /// Up to `max` bytes.
    pub fn bytes(&mut self, max: usize) -> &'a [u8] {
        let take = self.below(max + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(take);
        self.0 = rest;
        taken
    }

    /// Text of up to `max` characters, with what breaks careless readers among them.
    pub fn text(&mut self, max: usize) -> String {
        const LETTERS: [char; 16] = [
            'a', 'b', ' ', '"', '\\', '\n', '\r', '\t', '\0', 'é', '中', '🎉', '\u{2028}', '\u{feff}', '{',
            '—',
        ];
        let length = self.below(max + 1);
        (0..length).map(|_| *self.pick(&LETTERS)).collect()
    }

    /// A word that nobody may see, and that occurs nowhere else.
    pub fn secret(&mut self) -> String {
        (0..4).fold("hush-".to_owned(), |word, _| format!("{word}{:02x}", self.byte()))
    }

    /// Such a word for some worlds and none for most, and no decision spent: to look for it everywhere is slow.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let mut dice = self.clone();
        if dice.once_in(16) { vec![dice.secret()] } else { Vec::new() }
    }

    /// A pause: mostly none, at most 3.6 s, crowded at the short end.
    pub fn pause(&mut self) -> Duration {
        const STEP: Duration = Duration::from_millis(400);
        let factor = self.below(4) * self.below(4);
        STEP * u32::try_from(factor).unwrap_or(0)
    }

    /// Rising positions at which `length` bytes are cut, at most `max` of them.
    pub fn cuts(&mut self, length: usize, max: usize) -> Vec<usize> {
        let mut cuts: Vec<usize> = (0..self.below(max + 1)).map(|_| self.below(length + 1)).collect();
        cuts.sort_unstable();
        cuts
    }

    /// What is left, all of it.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// Bytes for dice from a number: as good as random, the same everywhere (splitmix64).
#[must_use]
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_mean_the_dull_choice() {
        let mut dice = Dice::new(&[]);
        assert_eq!((dice.below(7), dice.below(7000), dice.once_in(2)), (0, 0, false));
        assert_eq!((dice.bytes(9), dice.text(9), dice.pause()), (&[][..], String::new(), Duration::ZERO));
        assert!(dice.cuts(10, 5).is_empty());
    }

    #[test]
    fn decisions_stay_within_their_bounds() {
        let bytes = noise(1, 4096);
        let mut dice = Dice::new(&bytes);
        while !dice.is_empty() {
            assert!(dice.below(3) < 3);
            assert!(dice.below(1000) < 1000);
            assert!(dice.bytes(5).len() <= 5);
            assert!(dice.cuts(4, 3).iter().is_sorted());
        }
    }

    #[test]
    fn noise_is_the_same_everywhere() {
        assert_eq!(noise(0, 4), [0xAF, 0xCD, 0x1D, 0x7B]);
        assert_eq!(noise(0, 8)[..4], noise(0, 4));
    }
}
