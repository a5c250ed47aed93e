//! Which agents are here, and which of them is meant.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use crate::words::{Kind, Language, Phase, Problem, command_line};
use agentline_core::discovery::{
    self, Discovery, Folders, Launch, Registry, Report, Settings, Skip, Unfound,
};
use agentline_os::{Lock, file};

use crate::adapters::{self, Adapter};
use crate::nearest;
use crate::prompt::of_file;

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
    Ok(Folders::new(home()?, &env))
}

/// The home of this user: `HOME`, or what the password file says.
pub(crate) fn home() -> Result<std::path::PathBuf, Problem> {
    let home = std::env::home_dir();
    let home = home.ok_or_else(|| {
        trouble("neither HOME nor the password file names a home", Some("HOME=/path/to/home agentline …"))
    })?;
    if home.is_absolute() {
        return Ok(home);
    }
    let message = format!("HOME is no absolute path: {}", home.display());
    Err(trouble(&message, Some("HOME=/path/to/home agentline …")))
}

fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl Found {
    /// The agent that is meant by an id or the beginning of one.
    pub(crate) fn agent(&self, id: &str) -> Result<&discovery::Agent, Problem> {
        self.report.find(id).map_err(|unfound| match unfound {
            Unfound::Ambiguous(ref ids) => {
                let first = ids.first().map_or(id, String::as_str);
                Problem::new(Phase::Discovery, Kind::Usage, format!("{id} is {unfound}"))
                    .hint(format!("agentline agent show {first}"))
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
        if agent.origin.runner().is_some() {
            let id = &agent.id;
            return Err(missing(format!("the agent {id} is a Galley runner: only a hub has sessions of it"))
                .hint(format!("agentline session new --agent {id}")));
        }
        agent.launch.as_ref().ok_or_else(|| {
            let socket = self.discovery.folders.reverse_socket();
            let id = &agent.id;
            missing(format!("the agent {id} has no command: it can only connect to {}", socket.display()))
        })
    }

    /// Why there is no such agent, and how to get it.
    fn not_found(&self, id: &str) -> Problem {
        let file = self.discovery.folders.manifest(id);
        // What is wrong with its folder is wrong with it.
        let concerns = |broken: &Path| broken == file || file.parent() == Some(broken);
        if let Some(broken) = self.report.problems.iter().find(|problem| concerns(&problem.file)) {
            let why = Language::English.problem(broken);
            return missing(format!("the manifest of {id} does not count: {why}"))
                .hint("agentline agent list");
        }
        if let Some(adapter) = adapters::of(id) {
            return missing(format!("no agent {id} is installed: {} needs an adapter", adapter.name))
                .hint(self.how_to_add(adapter));
        }
        let skipped: Vec<&Skip> = self.skips(id).collect();
        if let Some(Skip::File { path, why }) = skipped.iter().find(|skip| matches!(skip, Skip::File { .. }))
        {
            let why = Language::English.unfit(why);
            return missing(format!("the agent {id} is passed over: {} {why}", path.display()))
                .hint("agentline agent list -v");
        }
        let problem = missing(format!("no agent {id} is installed"));
        if let Some(install) = self.how_to_install(id) {
            return problem.hint(install);
        }
        if !skipped.is_empty() {
            return problem.hint("agentline agent list -v");
        }
        match self.nearest(id) {
            Some((near, true)) => {
                missing(format!("no agent {id} is installed; {near} is")).hint(format!("--agent {near}"))
            }
            Some((near, false)) => {
                let install = self.how_to_install(&near);
                missing(format!("no agent {id} is known; {near} is"))
                    .hint(install.unwrap_or_else(|| "agentline agent list -v".into()))
            }
            None => problem.hint("agentline agent list"),
        }
    }

    fn skips(&self, id: &str) -> impl Iterator<Item = &Skip> {
        self.report.skipped.iter().filter(move |skipped| skipped.id == id).map(|skipped| &skipped.why)
    }

    /// A line that installs an agent of the registry, where that is known.
    fn how_to_install(&self, id: &str) -> Option<String> {
        if !self.skips(id).any(|skip| matches!(skip, Skip::NotInstalled(_))) {
            return None;
        }
        let entry = self.discovery.registry.entries.iter().find(|entry| entry.id == id)?;
        let way = entry.ways.first()?;
        Some(match (&way.npm_package, &way.fetch) {
            (Some(package), _) => format!("npm install -g {package}"),
            (None, Some(fetch)) => command_line(fetch),
            (None, None) => format!("install {}, and look: agentline agent list", way.binaries.first()?),
        })
    }

    fn how_to_add(&self, adapter: &Adapter) -> String {
        let folders = self.report.searched.iter();
        let is_here = folders.map(|folder| folder.join(adapter.program)).any(|program| program.is_file());
        if is_here { adapter.add() } else { format!("{} && {}", adapter.install, adapter.add()) }
    }

    /// The id that is most like this one, and whether its agent is here.
    fn nearest(&self, id: &str) -> Option<(String, bool)> {
        let here = self.report.agents.iter().map(|agent| agent.id.as_str());
        if let Some(near) = nearest::of(id, here.chain([crate::plan::DEMO])) {
            return Some((near.to_owned(), true));
        }
        let known = self.discovery.registry.entries.iter().map(|entry| entry.id.as_str());
        nearest::of(id, known).map(|near| (near.to_owned(), false))
    }
}

/// The settings as they are on disk.
pub(crate) fn read_settings(path: &Path) -> Result<Settings, Problem> {
    match file::read(path, discovery::Limits::default().settings) {
        Ok(bytes) => Settings::parse(&bytes).map_err(|error| {
            trouble(&format!("{}: {error}", path.display()), Some("mend or remove the file"))
        }),
        Err(error) if error.is_missing() => Ok(Settings::default()),
        Err(error) => {
            Err(trouble(&format!("the settings {} {error}", path.display()), Some("mend or remove the file")))
        }
    }
}

/// Refuses settings whose commands somebody else could have written.
pub(crate) fn trusted(folders: &Folders) -> Result<(), Problem> {
    agentline_os::trust::check(&folders.settings(), Some(&folders.home)).map_err(|untrusted| {
        crate::prompt::usage(format!("the commands of the settings do not count: {untrusted}"))
            .hint(format!("chmod go-w {}", untrusted.path.display()))
    })
}

/// Changes the settings as they are on disk. Nobody else changes them meanwhile.
pub(crate) fn change_settings<T>(
    folders: &Folders,
    change: impl FnOnce(&mut Settings) -> T,
) -> Result<T, Problem> {
    let locked = folders.settings_lock();
    let written =
        |why: String| trouble(&format!("cannot write {}: {why}", folders.settings().display()), None);
    let folder = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folders.config.path);
    folder.map_err(|error| written(error.to_string()))?;
    let lock = Lock::wait(&locked, PATIENCE).map_err(|error| written(error.to_string()))?;
    let _lock = lock.ok_or_else(|| written(format!("somebody has held {} for 5 s", locked.display())))?;
    let mut settings = read_settings(&folders.settings())?;
    let changed = change(&mut settings);
    agentline_os::store::carry_out(&settings.store(folders))
        .map_err(|errno| written(std::io::Error::from(errno).to_string()))?;
    Ok(changed)
}

/// How long somebody else may take to change the settings.
const PATIENCE: Duration = Duration::from_secs(5);

fn read_registry(path: &Path) -> Result<Registry, Problem> {
    let bytes = crate::prompt::read("--registry", path, discovery::Limits::default().registry)?;
    let platform =
        format!("{}-{}", if cfg!(target_os = "macos") { "darwin" } else { "linux" }, std::env::consts::ARCH);
    Registry::official(&bytes, &platform)
        .map_err(|error| of_file("--registry", path, format_args!("is {error}")))
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
    let ready = report
        .agents
        .iter()
        .filter(|agent| agent.enabled && agent.launch.is_some() && agent.origin.runner().is_none());
    ready.map(|agent| agent.id.clone()).collect()
}
