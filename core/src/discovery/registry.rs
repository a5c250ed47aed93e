//! Registries: agents that appear as soon as they are installed. One is built in; any official
//! `registry.json` can take its place. Nothing is ever fetched.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{self, Position};
use super::manifest::RESERVED;

/// Agents that may be installed, by id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registry {
    /// What can be looked for, each id once.
    pub entries: Vec<Entry>,
    /// What cannot, and why, in the file's order.
    pub refused: Vec<(String, Refusal)>,
}

/// One agent of a registry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// What the agent is called by.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// How it may be installed; the first that is counts.
    pub ways: Vec<Way>,
}

/// One way in which an agent may be installed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Way {
    /// Names of its executable, the likeliest first.
    pub binaries: Vec<String>,
    /// The npm package whose file it has to be.
    pub npm_package: Option<String>,
    /// Arguments that make it speak ACP.
    pub args: Vec<String>,
    /// Variables to lay over the environment that it inherits.
    pub env: BTreeMap<String, String>,
    /// The command that downloads and starts it: for people, never run unasked.
    pub fetch: Option<Vec<String>>,
}

/// Why an entry of a registry is not looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It is not of the registry's form.
    Malformed,
    /// Its id is no id.
    BadId,
    /// Its id belongs to a built-in agent.
    Reserved,
    /// The id came before.
    Repeated,
    /// There is no build for this platform.
    NoBuild,
}

/// Why a file is no registry.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not an ACP registry: no list of agents that can be read ({0})")]
pub struct NotARegistry(pub Position);

impl Registry {
    /// The one that is built in: names of executables are known, nothing is guessed.
    #[must_use]
    pub fn bundled() -> Self {
        let list: Vec<Installed> =
            serde_json::from_str(include_str!("registry.json")).expect("the bundled registry is tested");
        let mut registry = Self::empty();
        for Installed { id, name, binaries, args, npm_package } in list {
            let way = Way { binaries, npm_package, args, env: BTreeMap::new(), fetch: None };
            registry.take(Entry { id, name, ways: vec![way] });
        }
        registry
    }

    /// A `registry.json` as the ACP registry publishes it (agentclientprotocol.com/get-started/registry). `platform` is a key of its binary
    /// distributions, like `linux-x86_64`. An entry that cannot be used is refused alone.
    ///
    /// # Errors
    ///
    /// The file as a whole is of another form.
    pub fn official(bytes: &[u8], platform: &str) -> Result<Self, NotARegistry> {
        let index: Index = json::object(bytes).map_err(NotARegistry)?;
        let bundled = Self::bundled();
        let mut registry = Self::empty();
        for raw in index.agents {
            match serde_json::from_str::<Official>(raw.get()) {
                Ok(entry) => {
                    let ways = entry.distribution.ways(&entry.id, platform, &bundled);
                    registry.take(Entry { id: entry.id, name: entry.name, ways });
                }
                Err(_) => registry.refuse(id_of(&raw), Refusal::Malformed),
            }
        }
        Ok(registry)
    }

    const fn empty() -> Self {
        Self { entries: Vec::new(), refused: Vec::new() }
    }

    fn take(&mut self, entry: Entry) {
        let refusal = if !super::is_id(&entry.id) {
            Refusal::BadId
        } else if RESERVED.contains(&entry.id.as_str()) {
            Refusal::Reserved
        } else if self.entries.iter().any(|taken| taken.id == entry.id) {
            Refusal::Repeated
        } else if entry.name.trim().is_empty() {
            Refusal::Malformed
        } else if entry.ways.is_empty() {
            Refusal::NoBuild
        } else {
            self.entries.push(entry);
            return;
        };
        self.refuse(entry.id, refusal);
    }

    fn refuse(&mut self, id: String, refusal: Refusal) {
        self.refused.push((id, refusal));
    }

    /// The executables that a package is known to install.
    fn binaries(&self, package: &str) -> Option<&[String]> {
        let ways = self.entries.iter().flat_map(|entry| &entry.ways);
        let way = ways.into_iter().find(|way| way.npm_package.as_deref() == Some(package))?;
        Some(&way.binaries)
    }
}

/// An entry of the built-in registry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    id: String,
    name: String,
    binaries: Vec<String>,
    args: Vec<String>,
    npm_package: Option<String>,
}

#[derive(Deserialize)]
struct Index {
    agents: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Official {
    id: String,
    name: String,
    distribution: Distribution,
}

#[derive(Deserialize)]
struct Distribution {
    #[serde(default)]
    binary: BTreeMap<String, Build>,
    npx: Option<Package>,
    uvx: Option<Package>,
}

#[derive(Deserialize)]
struct Build {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Package {
    package: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl Distribution {
    /// A program of its own before a package of npm or of Python: it starts without either being there.
    fn ways(self, id: &str, platform: &str, known: &Registry) -> Vec<Way> {
        let Self { mut binary, npx, uvx } = self;
        let own = binary.remove(platform).and_then(Build::way);
        let npm = npx.map(|package| package.npx(id, known));
        let python = uvx.map(Package::uvx);
        own.into_iter().chain(npm).chain(python).collect()
    }
}

impl Build {
    fn way(self) -> Option<Way> {
        let binary = self.cmd.rsplit(['/', '\\']).next().unwrap_or_default();
        // An interpreter says nothing about what it would interpret.
        let named = !binary.is_empty() && !INTERPRETERS.contains(&binary);
        named.then(|| Way {
            binaries: vec![binary.into()],
            npm_package: None,
            args: self.args,
            env: self.env,
            fetch: None,
        })
    }
}

impl Package {
    fn npx(self, id: &str, known: &Registry) -> Way {
        let name = npm_name(&self.package);
        let leaf = name.rsplit('/').next().unwrap_or(name);
        let binaries = known.binaries(name).map_or_else(|| each_once([id, leaf]), <[String]>::to_vec);
        Way { binaries, npm_package: Some(name.into()), ..self.way(&["npx", "--yes"]) }
    }

    fn uvx(self) -> Way {
        let name = self.package.split(['=', '<', '>', '@', '[']).next().unwrap_or_default().trim();
        Way { binaries: vec![name.into()], ..self.way(&["uvx"]) }
    }

    fn way(self, fetcher: &[&str]) -> Way {
        let words = fetcher.iter().map(|word| (*word).to_owned());
        let fetch = words.chain([self.package]).chain(self.args.iter().cloned()).collect();
        Way { binaries: Vec::new(), npm_package: None, args: self.args, env: self.env, fetch: Some(fetch) }
    }
}

/// The package without its version: `@scope/name@1.2.3` and `name@1.2.3`.
fn npm_name(package: &str) -> &str {
    let at = package.char_indices().skip(1).find(|(_, letter)| *letter == '@');
    at.and_then(|(at, _)| package.get(..at)).unwrap_or(package)
}

fn each_once<const N: usize>(names: [&str; N]) -> Vec<String> {
    let mut each: Vec<String> = Vec::new();
    for name in names {
        if !each.iter().any(|taken| taken == name) {
            each.push(name.into());
        }
    }
    each
}

fn id_of(entry: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    serde_json::from_str(entry.get()).map_or_else(|_| "?".into(), |Id { id }| id)
}

/// Programs that a `cmd` may name instead of an agent's own: those that the registry's own checks look up in
/// `PATH`.
const INTERPRETERS: [&str; 5] = ["node", "python", "python3", "java", "ruby"];
