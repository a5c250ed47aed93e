//! Which agents are here, and which of them is meant.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use agentline_core::discovery::{
    self, Discovery, Folders, Launch, Registry, Report, Settings, Skip, Unfound,
};
use agentline_core::problem::{Kind, Phase, Problem};

/// Everything that is known without starting anything.
pub(crate) struct Found {
    pub(crate) discovery: Discovery,
    pub(crate) report: Report,
}

/// Looks at the files of this user. `registry`: instead of the built-in one.
pub(crate) fn look(registry: Option<&Path>) -> Result<Found, Problem> {
    let folders = folders()?;
    let registry = registry.map_or_else(|| Ok(Registry::bundled()), read_registry)?;
    let settings = read_settings(&folders.settings())?;
    let discovery = Discovery::new(folders.home, &env, registry, settings);
    let report = agentline_os::look::discover(&discovery);
    Ok(Found { discovery, report })
}

/// The folders of this user.
pub(crate) fn folders() -> Result<Folders, Problem> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| trouble("HOME names no folder", Some("set HOME")))?;
    Ok(Folders::new(home, &env))
}

fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl Found {
    /// The agent that is meant by an id or the beginning of one.
    pub(crate) fn agent(&self, id: &str) -> Result<&discovery::Agent, Problem> {
        self.report.find(id).map_err(|unfound| match unfound {
            Unfound::Ambiguous(_) => {
                Problem::new(Phase::Discovery, Kind::Usage, format!("{id} is {unfound}"))
            }
            Unfound::Unknown => self.not_found(id),
        })
    }

    /// The same, if it can be started and was not switched off.
    pub(crate) fn startable(&self, id: &str) -> Result<&discovery::Agent, Problem> {
        let agent = self.agent(id)?;
        let id = &agent.id;
        if !agent.enabled {
            return Err(missing(format!("the agent {id} is switched off"))
                .hint(format!("agentline agent enable {id}")));
        }
        self.launch(agent)?;
        Ok(agent)
    }

    /// How that agent is started.
    pub(crate) fn launch<'a>(&self, agent: &'a discovery::Agent) -> Result<&'a Launch, Problem> {
        agent.launch.as_ref().ok_or_else(|| {
            let socket = self.discovery.folders.reverse_socket();
            let id = &agent.id;
            missing(format!("the agent {id} has no command: it can only connect to {}", socket.display()))
        })
    }

    fn not_found(&self, id: &str) -> Problem {
        let file = self.discovery.folders.manifest(id);
        // What is wrong with its folder is wrong with it.
        let concerns = |broken: &Path| broken == file || file.parent() == Some(broken);
        if let Some(broken) = self.report.problems.iter().find(|problem| concerns(&problem.file)) {
            return missing(broken.text(discovery::Language::English).trim_start_matches("✗ ").to_owned())
                .hint("mend the manifest");
        }
        let problem = missing(format!("no agent {id} is installed"));
        let skipped = self.report.skipped.iter().find(|skipped| skipped.id == id);
        match skipped.map(|skipped| &skipped.why) {
            Some(Skip::NotInstalled(Some(fetch))) => problem.hint(discovery::command_line(fetch)),
            Some(
                Skip::NotInstalled(None)
                | Skip::File { .. }
                | Skip::Overridden
                | Skip::Refused(_)
                | Skip::TooMany,
            ) => problem.hint("agentline agent list -v"),
            None => problem.hint("agentline agent list"),
        }
    }
}

/// The settings as they are on disk.
pub(crate) fn read_settings(file: &Path) -> Result<Settings, Problem> {
    match fs::read(file) {
        Ok(bytes) => Settings::parse(&bytes).map_err(|error| {
            trouble(&format!("{}: {error}", file.display()), Some("mend or remove the file"))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Settings::default()),
        Err(error) => Err(trouble(&format!("{}: {error}", file.display()), None)),
    }
}

fn read_registry(file: &Path) -> Result<Registry, Problem> {
    let usage = |why: String| Problem::new(Phase::Usage, Kind::Usage, format!("{}: {why}", file.display()));
    let limit = discovery::Limits::default().registry;
    let bytes = agentline_os::look::read(file, limit).ok_or_else(|| usage("cannot be read".into()))?;
    let platform =
        format!("{}-{}", if cfg!(target_os = "macos") { "darwin" } else { "linux" }, std::env::consts::ARCH);
    Registry::official(&bytes, &platform).map_err(|error| usage(error.to_string()))
}

fn missing(message: String) -> Problem {
    Problem::new(Phase::Discovery, Kind::NotFound, message)
}

fn trouble(message: &str, hint: Option<&str>) -> Problem {
    let problem = Problem::new(Phase::Discovery, Kind::Internal, message);
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The agents that run without more ado, by id.
pub(crate) fn installed(report: &Report) -> Vec<String> {
    let ready = report.agents.iter().filter(|agent| agent.enabled && agent.launch.is_some());
    ready.map(|agent| agent.id.clone()).collect()
}

/// A folder that can be worked in, made absolute.
pub(crate) fn workspace(given: Option<&Path>) -> Result<PathBuf, Problem> {
    let wrong = |path: &Path, why: &str| {
        Problem::new(Phase::Usage, Kind::Usage, format!("the workspace {} {why}", path.display()))
    };
    let path = match given {
        Some(given) => {
            std::path::absolute(given).map_err(|_| wrong(given, "is no folder: the name is empty"))?
        }
        None => {
            std::env::current_dir().map_err(|error| wrong(Path::new("."), &format!("is gone: {error}")))?
        }
    };
    let facts = fs::metadata(&path).map_err(|error| wrong(&path, &format!("cannot be used: {error}")))?;
    if !facts.is_dir() {
        return Err(wrong(&path, "is not a folder"));
    }
    if !agentline_os::process::can_enter(&path) {
        return Err(wrong(&path, "may not be entered"));
    }
    if path.to_str().is_none() {
        return Err(wrong(&path, "has a name that is not UTF-8, which the protocol needs"));
    }
    Ok(path)
}
