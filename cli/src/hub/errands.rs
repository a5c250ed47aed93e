//! What the hub's machine wants to know of the outside: folders, agents and how they are started, who calls.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use agentline_core::discovery::{
    Discovery, Environment, Folders, Launch, Origin, Registry, Runner, Settings,
};
use agentline_core::galley::desktop;
use agentline_core::host;
use agentline_core::hub::api::{HubProblem, Variables, Who};
use agentline_core::hub::{AgentKind, AgentSpec, Caller, Errand, Found, RunnerStart, Switches};
use agentline_core::subagent::env::{Scrubbed, scrub};
use agentline_core::{SpawnSpec, Stderr};
use agentline_os::file;
use agentline_os::process::can_enter;
use agentline_os::workspace;

use crate::find;
use crate::plan::{DEMO, INSIDE, ourselves};
use crate::prompt;
use crate::words::Language;

/// Does errands for a hub.
pub(super) struct Errands {
    folders: Folders,
    /// Our own program, as it was when we started: it may be replaced while we run.
    program: OsString,
    /// The settings as they were when they could be read last.
    settings: Settings,
    agents: BTreeMap<String, Launch>,
    runners: BTreeMap<String, Runner>,
    problem: Option<HubProblem>,
    /// Where agents may be installed, besides the manifests.
    searched: Vec<PathBuf>,
    /// How all of that stood when it was looked at last.
    stamp: Vec<Stamp>,
}

/// When a file changed last, and how long it was; `None`: it is not there.
type Stamp = Option<(SystemTime, u64)>;

impl Errands {
    pub(super) fn new(folders: &Folders) -> Self {
        let program = ourselves().unwrap_or_else(|_| "agentline".into());
        let (folders, settings) = (folders.clone(), Settings::default());
        let (agents, runners, searched, stamp) = (BTreeMap::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Self { folders, program, settings, agents, runners, problem: None, searched, stamp }
    }

    /// Whether agents that run already may dial in.
    pub(super) fn takes_in(&self) -> bool {
        self.settings.reverse.unwrap_or(true)
    }

    /// What else the settings say.
    pub(super) fn switches(&self) -> Switches {
        let transcripts = self.settings.transcripts.unwrap_or_default();
        // What allows something has to be the user's own word.
        let own = find::trusted(&self.folders).is_ok();
        let rules = self.settings.runner_rules.clone().filter(|_| own).unwrap_or_default();
        Switches { transcripts, rules }
    }

    /// The command that is told of what nobody sees.
    pub(super) fn notify(&self) -> &[String] {
        match find::trusted(&self.folders) {
            Ok(()) => &self.settings.notify,
            Err(_) => &[],
        }
    }

    /// The agents, if anything has changed since they were looked for: what somebody asks for may be new.
    pub(super) fn look_again(&mut self) -> Option<Vec<AgentSpec>> {
        (self.stamp() != self.stamp).then(|| self.discover().0)
    }

    fn stamp(&self) -> Vec<Stamp> {
        let manifests = self.folders.manifests();
        let files = fs::read_dir(&manifests).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = files.collect();
        files.sort();
        files.extend([manifests, self.folders.settings()]);
        let stamp = |path: &PathBuf| {
            let facts = fs::metadata(path).ok()?;
            Some((facts.modified().ok()?, facts.len()))
        };
        files.iter().chain(&self.searched).map(stamp).collect()
    }

    pub(super) fn run(&mut self, errand: Errand) -> Found {
        match errand {
            Errand::Folder(path) => Found::Folder(can_enter(Path::new(&path))),
            Errand::Discover => {
                let (agents, problems) = self.discover();
                Found::Agents(agents, problems)
            }
            Errand::Launch { agent, env, runner } => {
                let spec = self.launch(&agent, &env);
                let spec = spec.and_then(|spec| self.for_session(&agent, spec, runner));
                Found::Launch(spec.map(Box::new))
            }
            Errand::Enable { agent, on } => {
                let changed = find::change_settings(&self.folders, |settings| settings.enable(&agent, on));
                self.read_settings();
                Found::Enabled(changed.map_err(|problem| problem.message))
            }
            Errand::Rules(rules) => {
                let kept =
                    find::change_settings(&self.folders, |settings| settings.runner_rules = Some(rules));
                self.read_settings();
                Found::Kept(kept.map_err(|problem| problem.message))
            }
            Errand::Read(path) => Found::Read(match file::read(&path, TRANSCRIPT) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) if error.is_missing() => Ok(Vec::new().into()),
                Err(error) => Err(error.to_string()),
            }),
            Errand::Who(pid) => Found::Who(caller(pid)),
            Errand::File { wanted } => Found::File(workspace::carry_out(&wanted)),
        }
    }

    /// Looks at the folders again.
    pub(super) fn discover(&mut self) -> (Vec<AgentSpec>, Vec<HubProblem>) {
        self.read_settings();
        let env = |name: &str| std::env::var_os(name);
        let home = self.folders.home.clone();
        let discovery = Discovery::new(home, &env, Registry::bundled(), self.settings.clone());
        let report = agentline_os::look::discover(&discovery);
        self.searched.clone_from(&report.searched);
        self.stamp = self.stamp();
        let mut agents = vec![self.demo()];
        self.agents.clear();
        self.runners.clear();
        for agent in report.agents {
            let runner = agent.origin.runner().map(|runner| format!(" {runner:?}")).unwrap_or_default();
            let launch = agent.launch.as_ref().map(|launch| format!("{launch:?}{runner}"));
            agents.push(AgentSpec {
                id: agent.id.as_str().into(),
                name: agent.name,
                kind: match agent.origin {
                    Origin::Manifest | Origin::Registry => AgentKind::Acp,
                    Origin::Runner(_) => AgentKind::Runner,
                },
                origin: Language::English.origin(&agent.origin).into(),
                enabled: agent.enabled,
                default: self.is_default(&agent.id),
                launch,
                initialize: self.settings.init_timeout(&agent.id),
                host: self.host(&agent.id),
            });
            self.runners.extend(agent.origin.runner().map(|runner| (agent.id.clone(), runner.clone())));
            self.agents.extend(agent.launch.map(|launch| (agent.id, launch)));
        }
        let problems = report.problems.iter().map(|problem| HubProblem {
            id: format!("manifest:{}", problem.file.display()),
            text: Language::English.problem(problem),
            next: Some("agentline agent list".into()),
            ..HubProblem::default()
        });
        let problems = problems.chain(self.problem.clone()).collect();
        (agents, problems)
    }

    /// Whether the user chose it for what names none.
    fn is_default(&self, id: &str) -> bool {
        self.settings.default_agent.as_deref() == Some(id)
    }

    fn demo(&self) -> AgentSpec {
        AgentSpec {
            id: DEMO.into(),
            name: "demo agent".into(),
            origin: "built-in".into(),
            enabled: self.settings.is_enabled(DEMO),
            default: self.is_default(DEMO),
            launch: Some("demo-agent".into()),
            initialize: self.settings.init_timeout(DEMO),
            kind: AgentKind::Acp,
            host: self.host(DEMO),
        }
    }

    /// What is hosted for an agent, where nobody else could have said so. Its commands get what is ours, without credentials,
    /// and nothing that only the agent itself is given.
    fn host(&self, id: &str) -> host::Config {
        let (terminal, files) = (self.settings.hosts_terminal(id), self.settings.hosts_files(id));
        if !(terminal || files) || find::trusted(&self.folders).is_err() {
            return host::Config::default();
        }
        let env = || {
            let mut env = inherited();
            env.insert(INSIDE.into(), OsString::from(id).into());
            env.into_iter().collect()
        };
        host::Config {
            terminals: terminal.then(|| host::Terminals { env: env(), ..Default::default() }),
            files: files.then(host::Files::default),
        }
    }

    /// A file that is damaged changes nothing until it is mended.
    fn read_settings(&mut self) {
        match find::read_settings(&self.folders.settings()) {
            Ok(settings) => (self.settings, self.problem) = (settings, None),
            Err(problem) => {
                self.problem = Some(HubProblem {
                    id: "settings".into(),
                    text: problem.message,
                    next: problem.hint,
                    ..HubProblem::default()
                });
            }
        }
    }

    /// The same for one session, where each has a process of its own.
    fn for_session(
        &self,
        id: &str,
        spec: SpawnSpec,
        start: Option<RunnerStart>,
    ) -> Result<SpawnSpec, String> {
        match (start, self.runners.get(id)) {
            (Some(start), Some(of)) => Ok(runner(of, spec, start)),
            (None, None) => Ok(spec),
            (Some(_), None) => Err(format!("{id} is no runner any more")),
            (None, Some(_)) => Err(format!("{id} is a runner by now")),
        }
    }

    /// How an agent is started: nothing of whoever started the hub that looks like a key, then what was named for it.
    fn launch(&mut self, id: &str, named: &Variables) -> Result<SpawnSpec, String> {
        if id != DEMO && !self.agents.contains_key(id) {
            self.discover();
        }
        let mut env = inherited();
        let (program, args) = if id == DEMO {
            (self.program.clone(), vec!["demo-agent".into()])
        } else {
            let launch = self.agents.get(id).ok_or_else(|| format!("the agent {id} has no command here"))?;
            env = launch.environment(env);
            (launch.found.program.clone().into(), launch.args.iter().map(OsString::from).collect())
        };
        for (name, value) in &named.0 {
            env.insert(name.into(), OsString::from(value.expose()).into());
        }
        if let Some(file) = self.settings.env_file(id) {
            let variables = prompt::own_variables(file).map_err(|problem| problem.message)?;
            env.extend(variables.given.into_iter().map(|(name, value)| (name, value.into())));
        }
        let cwd = self.folders.home.clone();
        env.insert("PWD".into(), cwd.clone().into_os_string().into());
        env.insert(INSIDE.into(), OsString::from(id).into());
        Ok(SpawnSpec { program, args, cwd, env: env.into_iter().collect(), stderr: Stderr::Pipe })
    }
}

/// The child to start for one session of a runner.
pub(crate) fn runner(runner: &Runner, spec: SpawnSpec, start: RunnerStart) -> SpawnSpec {
    let cwd = runner.cwd.clone().unwrap_or_else(|| spec.cwd.clone());
    let launch = desktop::Launch {
        ga_path: runner.ga_path.clone().unwrap_or_else(|| cwd.clone()),
        spawn: SpawnSpec { cwd, ..spec },
        session: start.session,
        workspace_root: Some(start.workspace.into()),
        llm: None,
        llm_name: start.llm.or_else(|| runner.llm_name.clone()),
        core: Some(std::process::id()),
    };
    launch.spec()
}

/// What our children get of our environment: nothing that looks like a key, and no terminal.
fn inherited() -> Environment {
    let Scrubbed { env, .. } = scrub(std::env::vars_os(), []);
    env.into_iter().filter(|(name, _)| !TERMINALS.iter().any(|of| name == of)).collect()
}

/// Who a process is, as far as the system tells.
fn caller(pid: u32) -> Caller {
    let Some(process) = Process::look(pid) else { return Caller::default() };
    let mut ancestors = vec![pid];
    let mut parent = process.parent;
    while let Some(next) = parent.filter(|next| *next > 1 && ancestors.len() < DEEPEST) {
        ancestors.push(next);
        parent = Process::look(next).and_then(|process| process.parent);
    }
    let environ = fs::read(process.folder.join("environ")).unwrap_or_default();
    let marks = environ.split(|byte| *byte == 0).filter(|pair| pair.starts_with(b"AGENTLINE_INSIDE="));
    let mut marks =
        marks.map(|pair| String::from_utf8_lossy(&pair["AGENTLINE_INSIDE=".len()..]).into_owned());
    let agent = marks.next();
    let marked = agent.is_some();
    let terminal = fs::read_link(process.folder.join("fd/0")).ok();
    let terminal = terminal.and_then(|path| Some(path.to_str()?.strip_prefix("/dev/")?.to_owned()));
    let terminal = terminal.filter(|name| name.starts_with("pts/") || name.starts_with("tty"));
    Caller { who: Who { program: process.name, pid: Some(pid), terminal, agent }, ancestors, marked }
}

struct Process {
    folder: PathBuf,
    name: Option<String>,
    parent: Option<u32>,
}

impl Process {
    /// `None` where there is no `/proc`, or no such process.
    fn look(pid: u32) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        // pid (name) state ppid …, and the name may hold anything.
        let (front, rest) = stat.rsplit_once(") ")?;
        let parent = rest.split(' ').nth(1).and_then(|parent| parent.parse().ok());
        Some(Self { folder, name: front.split_once('(').map(|(_, name)| name.to_owned()), parent })
    }
}

/// Bytes of a conversation's file: more are never written.
const TRANSCRIPT: usize = 65 << 20;
/// What says which terminal somebody sits at is no business of an agent's.
const TERMINALS: [&str; 6] = ["TERM", "TMUX", "TMUX_PANE", "STY", "SSH_TTY", "SSH_CONNECTION"];
/// Parents that are looked at.
const DEEPEST: usize = 64;
