//! How often each rule was what decided.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::path::Path;

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

/// One rule a line, with how often it decided.
impl Display for Tally {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(rule, count)| writeln!(out, "{count:>10}  {rule}"))
    }
}

/// Many worlds, each of which is decided by its number: as many as `AGENTLINE_RUNS` says, from number `AGENTLINE_FIRST`
/// on, and then each rule has to decide a hundred times; else `few`, and once. How often each did is written to
/// `folder/NAME-FIRST.txt` as it goes on.
///
/// # Panics
///
/// A rule hardly ever decided, or something broke in a world.
pub fn campaign(folder: &Path, name: &str, few: u64, rules: &[&'static str], world: impl Fn(u64) -> Tally) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (long, first) = (number("AGENTLINE_RUNS"), number("AGENTLINE_FIRST").unwrap_or(0));
    let (worlds, least) = (long.unwrap_or(few), if long.is_some() { 100 } else { 1 });
    let mut tally = Tally::default();
    for run in 1..=worlds {
        let number = Number(first + run - 1);
        tally.add(&world(number.0));
        if run == worlds || run % 1000 == 0 {
            let report = format!("{run} worlds from number {first}\n{tally}");
            std::fs::write(folder.join(format!("{name}-{first}.txt")), report).expect("a report");
        }
    }
    assert_eq!(tally.below(rules, least), [], "rules that hardly ever decided:\n{tally}");
}

/// Whoever finds a fault wants to know in which world.
struct Number(u64);

impl Drop for Number {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "world {}", self.0);
        }
    }
}
