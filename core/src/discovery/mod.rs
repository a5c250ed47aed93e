//! Which agents are on this machine: manifests of the user's, and what is installed of a registry.
//!
//! Nothing here touches a file. [`Discovery::resolve`] says what it has to know, whoever can look tells a
//! [`Snapshot`], and after three rounds at most there is a [`Report`]:
//!
//! ```
//! use agentline_core::discovery::{Discovery, Look, Names, Registry, Settings, Snapshot, Step, Unfit};
//!
//! let discovery = Discovery::new("/home/me".into(), &|_| None, Registry::bundled(), Settings::default());
//! let mut seen = Snapshot::default();
//! let report = loop {
//!     match discovery.resolve(&seen) {
//!         Step::Done(report) => break report,
//!         Step::Look(looks) => {
//!             for look in looks {
//!                 match look {
//!                     // A very empty machine.
//!                     Look::Folder(path) => seen.folder(path, Names::Missing),
//!                     Look::File { path, .. } => seen.file(path, None),
//!                     Look::Trust { path, .. } => seen.trust(path, Ok(())),
//!                     Look::Program(path) => seen.program(path, Err(Unfit::Missing)),
//!                 }
//!             }
//!         }
//!     }
//! };
//! assert!(report.agents.is_empty());
//! assert_eq!(report.manifests.chosen_by, "the password file");
//! ```
//!
//! What rules, by PROTOCOLS.md: BotBus's pages, and what was reported of programs like it.
//!
//! | rule | source |
//! |---|---|
//! | a manifest wins over a registry's agent of the same id; one that does not count shadows nothing | BotBus, 三种接入方式 |
//! | [`RESERVED`] ids are refused in manifests and skipped in registries | BotBus, 三种接入方式 |
//! | an agent of an npm package counts only if its real path is inside that package; every file of the name is tried | BotBus, 三种接入方式; the second half is ours |
//! | what may not be executed never shadows a good file further down | field reports |
//! | the environment that finds an agent starts it: [`Launch::environment`] | BotBus, 清单 |
//! | all are on until switched off, and switches are kept while an agent is absent | BotBus, 三种接入方式 |
//! | 11 agents at most, by display name | BotBus's help page |
//! | a registry's agent is hidden when its first handshake fails: [`Verification`] | BotBus, 三种接入方式 |

mod folders;
mod json;
mod launch;
mod look;
mod manifest;
mod registry;
mod report;
mod runner;
mod search;
mod settings;
mod verify;

pub use folders::{Env, Folder, Folders};
pub use json::Position;
pub use launch::{Environment, Launch, inherited};
pub use look::{File, Look, Names, Snapshot, Unfit};
pub use manifest::{Manifest, RESERVED, Reason};
pub use registry::{Entry, NotARegistry, Refusal, Registry, Way};
pub use report::{Agent, Origin, Problem, Report, Skip, Skipped, Unfound};
pub use runner::Runner;
pub use search::{Found, Search};
pub use settings::{BadName, BadSettings, Host, Settings};
pub use verify::{Failure, Handshake, Standing, Verification};

use std::ffi::OsString;
use std::path::PathBuf;

use look::Eyes;
use search::locate;

/// Everything that decides which agents there are, but the file system.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The folders that are read, and which variable chose each.
    pub folders: Folders,
    /// Where programs are searched.
    pub search: Search,
    /// What may be installed.
    pub registry: Registry,
    /// What the user switched.
    pub settings: Settings,
    /// Sizes and counts that bound what is read.
    pub limits: Limits,
}

/// What discovery has come to.
#[derive(Clone, Debug)]
pub enum Step {
    /// The snapshot lacks these.
    Look(Vec<Look>),
    /// The snapshot tells all there is to know.
    Done(Report),
}

/// Numbers that bound discovery.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Agents that BotBus takes. 11, by its help page. Our hub takes all.
    pub agents: usize,
    /// Characters of a display name. 40: where BotBus cuts it (清单).
    pub name: usize,
    /// Manifests that are read. Nobody writes a thousand by hand.
    pub manifests: usize,
    /// Bytes of a manifest. A thousand times what one takes.
    pub manifest: usize,
    /// Bytes of an `.npmrc`.
    pub npmrc: usize,
    /// Bytes of a registry. The official one has 100 KiB.
    pub registry: usize,
    /// Bytes of the settings.
    pub settings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            agents: 11,
            name: 40,
            manifests: 1000,
            manifest: 256 << 10,
            npmrc: 64 << 10,
            registry: 8 << 20,
            settings: 4 << 20,
        }
    }
}

impl Discovery {
    /// Discovery for the user whose home that is.
    #[must_use]
    pub fn new(home: PathBuf, env: Env<'_>, registry: Registry, settings: Settings) -> Self {
        Self {
            search: Search::new(home.clone(), env),
            folders: Folders::new(home, env),
            registry,
            settings,
            limits: Limits::default(),
        }
    }

    /// The report, or what is still to be looked at.
    #[must_use]
    pub fn resolve(&self, seen: &Snapshot) -> Step {
        let mut eyes = Eyes::new(seen);
        let mut report = Report {
            manifests: Folder { path: self.folders.manifests(), ..self.folders.botbus },
            searched: self.search.folders(&mut eyes, &self.limits),
            agents: Vec::new(),
            problems: Vec::new(),
            skipped: Vec::new(),
        };
        self.read_manifests(&mut eyes, &mut report);
        for entry in &self.registry.entries {
            self.find_installed(entry, &mut eyes, &mut report);
        }
        self.read_runners(&mut eyes, &mut report);
        let refused = self.registry.refused.iter();
        let refused = refused.map(|(id, why)| Skipped { id: id.clone(), why: Skip::Refused(*why) });
        report.skipped.extend(refused);

        let unseen = eyes.unseen();
        if !unseen.is_empty() {
            return Step::Look(unseen);
        }
        for agent in &mut report.agents {
            agent.enabled = self.settings.is_enabled(&agent.id);
        }
        report.arrange(self.limits.agents);
        Step::Done(report)
    }

    fn read_manifests(&self, eyes: &mut Eyes<'_>, report: &mut Report) {
        let folder = &report.manifests.path;
        if let Err(untrusted) = eyes.trust(folder, &self.folders.home) {
            let reason = Reason::Untrusted(untrusted);
            report.problems.push(Problem { file: folder.clone(), reason });
            return;
        }
        let mut names: Vec<&OsString> = match eyes.folder(folder) {
            Some(Names::Of(names)) => names.iter().filter(|name| manifest::is_manifest(name)).collect(),
            Some(Names::Unreadable) => {
                report.problems.push(Problem { file: folder.clone(), reason: Reason::Unreadable });
                return;
            }
            Some(Names::Missing) | None => return,
        };
        names.sort();
        let place =
            manifest::Place { folders: &self.folders, search: &report.searched, limits: &self.limits };
        for (at, name) in names.into_iter().enumerate() {
            let id = name.to_string_lossy().into_owned();
            if at >= self.limits.manifests {
                report.skipped.push(Skipped { id, why: Skip::TooMany });
                continue;
            }
            let file = folder.join(name);
            let mut passed = Vec::new();
            match manifest::resolve(eyes, &place, &file, &mut passed) {
                Ok(agent) => report.agents.push(agent),
                Err(reason) => report.problems.push(Problem { file, reason }),
            }
            skip_files(&id, passed, &mut report.skipped);
        }
    }

    fn read_runners(&self, eyes: &mut Eyes<'_>, report: &mut Report) {
        let searched = report.searched.clone();
        let place = manifest::Place { folders: &self.folders, search: &searched, limits: &self.limits };
        for (id, entry) in &self.settings.runners {
            let mut passed = Vec::new();
            let taken = report.agents.iter().any(|agent| agent.id == *id);
            let found = match taken {
                true => Err(Reason::TakenId { id: id.clone() }),
                false => runner::resolve(eyes, &place, id, entry, &mut passed),
            };
            match found {
                Ok(agent) => report.agents.push(agent),
                Err(why) => {
                    let reason = Reason::OfRunner { id: id.clone(), why: Box::new(why) };
                    report.problems.push(Problem { file: self.folders.settings(), reason });
                }
            }
            skip_files(id, passed, &mut report.skipped);
        }
    }

    fn find_installed(&self, entry: &Entry, eyes: &mut Eyes<'_>, report: &mut Report) {
        let id = entry.id.clone();
        if report.agents.iter().any(|agent| agent.id == id) {
            report.skipped.push(Skipped { id, why: Skip::Overridden });
            return;
        }
        let mut passed = Vec::new();
        let launch = entry.ways.iter().find_map(|way| {
            let package = way.npm_package.as_deref();
            let mut names = way.binaries.iter();
            let found = names.find_map(|name| locate(eyes, &report.searched, name, package, &mut passed))?;
            let env = way.env.iter().map(|(name, value)| (name.clone(), value.clone().into()));
            Some(Launch { found, args: way.args.clone(), env: env.collect() })
        });
        skip_files(&id, passed, &mut report.skipped);
        if launch.is_none() {
            let fetch = entry.ways.iter().find_map(|way| way.fetch.clone());
            report.skipped.push(Skipped { id, why: Skip::NotInstalled(fetch) });
            return;
        }
        let name = entry.name.trim().chars().take(self.limits.name).collect();
        let origin = Origin::Registry;
        report.agents.push(Agent { id, name, origin, launch, enabled: true, over_cap: false });
    }
}

fn skip_files(id: &str, passed: Vec<(PathBuf, Unfit)>, skipped: &mut Vec<Skipped>) {
    let files = passed.into_iter().map(|(path, why)| Skip::File { path, why });
    skipped.extend(files.map(|why| Skipped { id: id.into(), why }));
}

/// As the manifest's table has it: `^[a-z0-9-]{1,32}$`.
fn is_id(id: &str) -> bool {
    (1..=32).contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}
