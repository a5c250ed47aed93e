//! What discovery found: agents, what is wrong with manifests, and what was passed over.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::path::PathBuf;
use std::str::Chars;

use super::folders::Folder;
use super::launch::Launch;
use super::look::Unfit;
use super::manifest::Reason;
use super::registry::Refusal;
use super::runner::Runner;

/// The agents of this machine, and what kept others from being among them. The same files give the same
/// report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// The folder that was read for manifests, and the variable that chose it.
    pub manifests: Folder,
    /// The folders that were searched for programs, in order.
    pub searched: Vec<PathBuf>,
    /// What was found, by display name as people sort, then by id.
    pub agents: Vec<Agent>,
    /// Manifests that do not count, by file name.
    pub problems: Vec<Problem>,
    /// What else was passed over: manifests' programs by file name, then the registry in its own order.
    pub skipped: Vec<Skipped>,
}

/// An agent that is here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Agent {
    /// What the agent is called by.
    pub id: String,
    /// Its display name, at most 40 characters.
    pub name: String,
    /// Who says that it is one.
    pub origin: Origin,
    /// What starts it; without, it has to connect by itself.
    pub launch: Option<Launch>,
    /// Whether the user left it on.
    pub enabled: bool,
    /// Whether it is past the number of agents that a hub takes.
    pub over_cap: bool,
}

/// Where an agent comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A manifest of the user's.
    Manifest,
    /// An entry of a registry that is installed here.
    Registry,
    /// An entry of the user's settings: it speaks Galley's runner protocol, and only a hub has sessions of it. All paths
    /// are absolute, and all of them are there.
    Runner(Box<Runner>),
}

impl Origin {
    /// What the settings say, if it is a runner.
    #[must_use]
    pub const fn runner(&self) -> Option<&Runner> {
        match self {
            Self::Runner(runner) => Some(runner),
            Self::Manifest | Self::Registry => None,
        }
    }
}

/// A manifest, or an entry of the settings, that does not count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The path of the manifest, or of the settings.
    pub file: PathBuf,
    /// The first thing that is wrong with it.
    pub reason: Reason,
}

/// Something that was passed over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Skipped {
    /// The agent's id, or the file name of a manifest.
    pub id: String,
    /// Why it does not count.
    pub why: Skip,
}

/// Why something was passed over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Skip {
    /// A file of the right name that is not the program.
    File {
        /// The path of the file that was passed over.
        path: PathBuf,
        /// What is wrong with it.
        why: Unfit,
    },
    /// No searched folder has it. With the command that would fetch it, if there is one.
    NotInstalled(Option<Vec<String>>),
    /// A manifest has the same id.
    Overridden,
    /// The registry's entry cannot be used.
    Refused(Refusal),
    /// There are more manifests than are read.
    TooMany,
}

/// Why an id names no agent.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unfound {
    /// No id begins like that.
    #[error("no such agent")]
    Unknown,
    /// Several ids begin so; these.
    #[error("ambiguous: {}", .0.join(", "))]
    Ambiguous(Vec<String>),
}

impl Report {
    /// The agent of that id, or the only one whose id begins so. No word is the beginning of none.
    ///
    /// # Errors
    ///
    /// None does, or several.
    pub fn find(&self, id: &str) -> Result<&Agent, Unfound> {
        if id.is_empty() {
            return Err(Unfound::Unknown);
        }
        if let Some(agent) = self.agents.iter().find(|agent| agent.id == id) {
            return Ok(agent);
        }
        let alike: Vec<_> = self.agents.iter().filter(|agent| agent.id.starts_with(id)).collect();
        match *alike {
            [] => Err(Unfound::Unknown),
            [agent] => Ok(agent),
            [..] => Err(Unfound::Ambiguous(alike.iter().map(|agent| agent.id.clone()).collect())),
        }
    }

    /// The agents that BotBus takes: at most `cap`, in order of display name, hidden ones not counted.
    pub fn published(&self, cap: usize, is_hidden: impl Fn(&str) -> bool) -> impl Iterator<Item = &Agent> {
        let speaks_acp = |agent: &&Agent| agent.origin.runner().is_none();
        self.agents.iter().filter(speaks_acp).filter(move |agent| !is_hidden(&agent.id)).take(cap)
    }

    /// Sorts the agents and marks those past the cap.
    pub(super) fn arrange(&mut self, cap: usize) {
        self.agents.sort_by(|a, b| natural(&a.name, &b.name).then_with(|| a.id.cmp(&b.id)));
        let acp = self.agents.iter_mut().filter(|agent| agent.origin.runner().is_none());
        for agent in acp.skip(cap) {
            agent.over_cap = true;
        }
    }
}

/// Order of names as people sort them: without regard to case, numbers by value.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.chars().peekable(), b.chars().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) if l.is_ascii_digit() && r.is_ascii_digit() => {
                let (l, r) = (number(&mut left), number(&mut right));
                l.len().cmp(&r.len()).then_with(|| l.cmp(&r))
            }
            (Some(_), Some(_)) => fold(&mut left).cmp(&fold(&mut right)),
            (l, r) => return l.is_some().cmp(&r.is_some()).then_with(|| a.cmp(b)),
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The digits at the front, without leading zeros.
fn number(text: &mut Peekable<Chars<'_>>) -> String {
    let digits: String = std::iter::from_fn(|| text.next_if(char::is_ascii_digit)).collect();
    digits.trim_start_matches('0').into()
}

fn fold(text: &mut Peekable<Chars<'_>>) -> String {
    text.next().map(|letter| letter.to_lowercase().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_as_people_do() {
        let sorted =
            ["", "9", "Agent 2", "agent 10", "Agent 010", "goose", "Kimi CLI", "kimi Code", "Ökonom", "中"];
        for (at, a) in sorted.iter().enumerate() {
            for (than, b) in sorted.iter().enumerate() {
                if !(a.contains("10") && b.contains("10")) {
                    assert_eq!(natural(a, b), at.cmp(&than), "{a} {b}");
                }
            }
        }
        assert_eq!(natural("agent 10", "Agent 010"), "agent 10".cmp("Agent 010"));
    }

    #[test]
    fn the_order_is_total() {
        let names: Vec<String> = ["a", "A", "1", "01", "b", ""]
            .iter()
            .flat_map(|a| ["", "2", "10", "B"].iter().map(move |b| format!("{a}{b}")))
            .collect();
        for a in &names {
            for b in &names {
                assert_eq!(natural(a, b), natural(b, a).reverse(), "{a} {b}");
                assert_eq!(natural(a, b).is_eq(), a == b, "{a} {b}");
                for c in &names {
                    let rises = natural(a, b).is_lt() && natural(b, c).is_lt();
                    assert!(!rises || natural(a, c).is_lt(), "{a} {b} {c}");
                }
            }
        }
    }
}
