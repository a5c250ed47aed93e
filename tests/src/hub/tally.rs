//! How often each rule was what decided.

use std::collections::BTreeMap;

/// How often each rule was what decided.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// The rule decided once more.
    pub fn count(&mut self, rule: &'static str) {
        *self.0.entry(rule).or_default() += 1;
    }

    /// All of another one as well.
    pub fn add(&mut self, other: &Self) {
        for (rule, count) in &other.0 {
            *self.0.entry(rule).or_default() += count;
        }
    }

    /// How often that rule decided.
    #[must_use]
    pub fn of(&self, rule: &str) -> u64 {
        self.0.get(rule).copied().unwrap_or(0)
    }

    /// Those of `rules` that decided less often than that.
    #[must_use]
    pub fn below(&self, rules: &[&'static str], least: u64) -> Vec<(&'static str, u64)> {
        rules.iter().map(|rule| (*rule, self.of(rule))).filter(|(_, count)| *count < least).collect()
    }
}
