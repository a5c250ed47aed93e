//! From a command line to a run: which agent, where, with what.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::words::Problem;
use agentline_core::acp::Json;
use agentline_core::acp::client::{self, Timeouts};
use agentline_core::acp::content::ContentBlock;
use agentline_core::acp::session::{
    ClientAuth, ClientCapabilities, ClientSessions, Elicitation, Implementation, McpServer, OptionTypes,
    SessionSetup, Setting, SystemPrompt,
};
use agentline_core::conversation;
use agentline_core::discovery::{Environment, Launch};
use agentline_core::host;
use agentline_core::rules::{Rule, Rules};
use agentline_core::subagent::env::{Scrubbed, scrub};
use agentline_core::subagent::{Allow, Choice, Config, Policy, Questions};
use agentline_core::{Graces, Open, Secret, SpawnSpec, Stderr};

use crate::args::{Child, Permission, Run, Session};
use crate::consent;
use crate::failure::Whose;
use crate::find::{self, Found};
use crate::mcp;
use crate::output::{Notes, Start};
use crate::prompt::{self, Variables};
use crate::schema::Schema;
use crate::workspace::Workspace;

/// What a command line says by itself: nothing was looked at yet but the files that it names.
pub(crate) struct Task {
    prompt: Vec<ContentBlock>,
    mcp_servers: Vec<McpServer>,
    setup: Setup,
    rules: Vec<Rule>,
    questions: Questions,
    pub(crate) schema: Option<Rc<Schema>>,
    pub(crate) variables: Variables,
}

/// Everything that a run needs.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) whose: Whose,
    /// What nobody may be shown.
    pub(crate) secrets: Vec<Secret<Vec<u8>>>,
}

/// The agent that was chosen.
struct Agent {
    id: Option<String>,
    name: String,
    whose: Whose,
    program: OsString,
    args: Vec<OsString>,
    /// What it inherits, and the names of what it does not.
    env: Environment,
    withheld: Vec<OsString>,
    /// What its manifest says beside that.
    secrets: Vec<Secret<Vec<u8>>>,
}

impl Task {
    pub(crate) fn new(args: &Run, notes: &Notes) -> Result<Self, Problem> {
        let variables = prompt::variables(&args.child.environment)?;
        let mcp_servers = args.mcp.as_deref().map(mcp::servers).transpose()?.unwrap_or_default();
        let (rules, questions) = (args.consent.permits.rules.read()?, args.consent.questions()?);
        let setup = args.session.setup()?;
        let schema = args.schema.as_deref().map(Schema::read).transpose()?.map(Rc::new);
        let mut prompt = prompt::prompt(args, notes)?;
        prompt.extend(schema.as_ref().map(|schema| ContentBlock::text(schema.wish())));
        Ok(Self { prompt, mcp_servers, setup, rules, questions, schema, variables })
    }

    /// What nobody may be shown, as far as it is known before anything was looked at.
    pub(crate) fn secrets(&self) -> Vec<Secret<Vec<u8>>> {
        let pairs = self.mcp_servers.iter().flat_map(McpServer::pairs);
        let pairs = pairs.map(|pair| pair.value.expose().as_bytes().to_vec().into());
        self.variables.secrets().chain(pairs).collect()
    }

    /// Looks at the workspace and for the agent. `transcript`: the history of an old session is shown. `start` is filled in as far as it gets.
    pub(crate) fn plan(self, args: &Run, transcript: bool, start: &mut Start) -> Result<Plan, Problem> {
        let mut secrets = self.secrets();
        let Spawn { spec, whose, secrets: more, spellings } = spawn(&args.child, self.variables, start)?;
        secrets.extend(more);
        let rules = Rules { own: self.rules, project: consent::of_project(&spec.cwd)? };
        if args.dry_run || !rules.is_empty() {
            start.permissions = args.consent.permits.table(&rules);
        }
        let setup = self.setup.within(start.cwd.clone(), self.mcp_servers);
        let timeouts = Timeouts {
            initialize: Some(args.init_timeout),
            silence: args.idle_timeout,
            cancel: Some(args.cancel_grace),
            ..Timeouts::default()
        };
        let conversation = conversation::Config {
            session: args.session.choice(spellings),
            transcript,
            login: args.session.login.clone(),
            settings: args.session.settings(),
            policy: policy(args.consent.permits.permission),
            rules,
            questions: self.questions,
            budget: args.session.spending.budget(),
            host: args.session.host(start),
            retries: args.session.retry,
            ..conversation::Config::new(client(spec, timeouts, args.child.leave_grace), setup)
        };
        start.offers = args.dry_run.then(|| {
            let mut offers = conversation.client.capabilities.clone();
            conversation.host.offer(&mut offers);
            offers
        });
        let again = self.schema.is_some().then_some(args.schema_tries);
        let config = Config { conversation, prompt: self.prompt, timeout: args.timeout, again };
        Ok(Plan { config, whose, secrets })
    }
}

/// A child to be started.
pub(crate) struct Spawn {
    pub(crate) spec: SpawnSpec,
    pub(crate) whose: Whose,
    /// What nobody may be shown of what the agent is given.
    pub(crate) secrets: Vec<Secret<Vec<u8>>>,
    /// Other spellings of the workspace.
    pub(crate) spellings: Vec<String>,
}

/// Looks at the workspace and for the agent. `start` is filled in as far as it gets.
pub(crate) fn spawn(args: &Child, variables: Variables, start: &mut Start) -> Result<Spawn, Problem> {
    spawn_of(args.agent.as_deref(), &args.command, args.cwd.as_deref(), variables, start)
}

/// The same for an agent by id or by command, in that folder.
pub(crate) fn spawn_of(
    agent: Option<&str>,
    command: &[OsString],
    cwd: Option<&Path>,
    variables: Variables,
    start: &mut Start,
) -> Result<Spawn, Problem> {
    let Workspace { path: cwd, spellings } = Workspace::of(cwd)?;
    start.cwd = cwd.to_string_lossy().into_owned();
    let Agent { id, name, whose, program, args, mut env, withheld, mut secrets } = choose(agent, command)?;
    start.agent = id;
    start.name = name;
    let argv = std::iter::once(&program).chain(&args);
    start.command = Some(argv.map(|word| word.to_string_lossy().into_owned()).collect());

    secrets.extend(variables.secrets());
    let Variables { given, removed, .. } = variables;
    for name in &removed {
        env.remove(name);
    }
    // Some agents go by it rather than by the folder they are in.
    if let Some(shell) = env.get_mut(OsStr::new("PWD")) {
        *shell = cwd.clone().into_os_string().into();
    }
    let is_given = |name: &OsStr| given.iter().any(|(over, _)| over == name);
    let withheld = withheld.iter().filter(|name| !is_given(name));
    start.withheld = withheld.map(|name| name.to_string_lossy().into_owned()).collect();
    env.extend(given.into_iter().map(|(name, value)| (name, value.into())));
    env.insert(INSIDE.into(), OsString::from(start.inside()).into());
    let env = env.into_iter().collect();
    Ok(Spawn { spec: SpawnSpec { program, args, cwd, env, stderr: Stderr::Pipe }, whose, secrets, spellings })
}

impl Start {
    /// What its programs know it by.
    fn inside(&self) -> &str {
        self.agent.as_deref().unwrap_or(&self.name)
    }

    /// What can be said before anything was looked at.
    pub(crate) fn unknown(args: &Child) -> Self {
        let cwd = args.cwd.as_deref().unwrap_or(Path::new("."));
        Self {
            agent: args.agent.clone(),
            command: None,
            cwd: cwd.to_string_lossy().into_owned(),
            withheld: Vec::new(),
            permissions: Vec::new(),
            offers: None,
            name: args.agent.clone().unwrap_or_else(|| "the agent".into()),
        }
    }
}

/// `--agent` or a command, else `AGENTLINE_AGENT`, else the default, else the demo agent.
fn choose(agent: Option<&str>, command: &[OsString]) -> Result<Agent, Problem> {
    if let [program, rest @ ..] = command {
        let Scrubbed { env, withheld } = scrub(std::env::vars_os(), []);
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        let (program, args, env) = (program.clone(), rest.to_vec(), env.into_iter().collect());
        let whose = Whose::Theirs;
        return Ok(Agent { id: None, name, whose, program, args, env, withheld, secrets: Vec::new() });
    }
    let agent = agent.map(str::to_owned);
    let named = agent.or_else(|| std::env::var("AGENTLINE_AGENT").ok().filter(|id| !id.is_empty()));
    if named.as_deref() == Some(DEMO) {
        return demo(Whose::Demo);
    }
    let found = find::look(None)?;
    match named.or_else(|| found.discovery.settings.default_agent.clone()) {
        None => demo(Whose::Fallback(find::installed(&found.report))),
        Some(id) if id == DEMO => demo(Whose::Demo),
        Some(id) => installed(&found, &id),
    }
}

fn installed(found: &Found, id: &str) -> Result<Agent, Problem> {
    let agent = found.startable(id)?;
    let Scrubbed { env, withheld } = scrub(std::env::vars_os(), []);
    let launch = found.launch(agent)?;
    let env = launch.environment(env.into_iter().collect());
    Ok(Agent {
        id: Some(agent.id.clone()),
        name: agent.name.clone(),
        whose: Whose::Theirs,
        program: launch.found.program.clone().into(),
        args: launch.args.iter().map(OsString::from).collect(),
        withheld: withheld.into_iter().filter(|name| !env.contains_key(name)).collect(),
        secrets: secrets_of(launch),
        env,
    })
}

fn demo(whose: Whose) -> Result<Agent, Problem> {
    let Scrubbed { env, withheld } = scrub(std::env::vars_os(), []);
    Ok(Agent {
        id: Some(DEMO.into()),
        name: "demo agent".into(),
        whose,
        program: ourselves()?,
        args: vec!["demo-agent".into()],
        env: env.into_iter().collect(),
        withheld,
        secrets: Vec::new(),
    })
}

/// The values that a manifest gives its agent.
pub(crate) fn secrets_of(launch: &Launch) -> Vec<Secret<Vec<u8>>> {
    launch.env.values().map(|value| value.expose().as_bytes().to_vec().into()).collect()
}

/// The program that the demo agent is part of.
pub(crate) fn ourselves() -> Result<OsString, Problem> {
    let program = std::env::current_exe();
    Ok(program.map_err(|error| prompt::usage(format!("this program cannot find itself: {error}")))?.into())
}

/// A client that starts that child.
pub(crate) fn client(spec: SpawnSpec, timeouts: Timeouts, leave: Duration) -> client::Config {
    client::Config {
        info: Some(Implementation {
            name: "agentline".into(),
            title: None,
            version: env!("CARGO_PKG_VERSION").into(),
        }),
        capabilities: capabilities(),
        timeouts,
        graces: graces(leave),
        ..client::Config::new(Open::spawn(spec))
    }
}

/// What is offered to an agent: logins in a terminal, in the standard's form and the one before it, forms and pages,
/// options that are on or off, subagents, notices, compaction, and plans by id.
pub(crate) fn capabilities() -> ClientCapabilities {
    let session =
        ClientSessions { config_options: OptionTypes { boolean: true }, notices: true, compaction: true };
    ClientCapabilities {
        plan: true,
        subagents: true,
        auth: ClientAuth { terminal: true },
        elicitation: Elicitation { form: true, url: true },
        session,
        meta: Some(Json::new(&serde_json::json!({ "terminal-auth": true }))),
        ..ClientCapabilities::default()
    }
}

/// How long a child has to leave; that long from the end of its stdin until SIGTERM.
pub(crate) fn graces(leave: Duration) -> Graces {
    Graces { eof: leave, term: TERM, ..Graces::default() }
}

/// What goes with a session beside its workspace.
pub(crate) struct Setup {
    directories: Vec<String>,
    system: Option<SystemPrompt>,
}

impl Setup {
    /// For that workspace.
    pub(crate) fn within(self, cwd: String, mcp_servers: Vec<McpServer>) -> SessionSetup {
        SessionSetup {
            mcp_servers,
            additional_directories: self.directories,
            system_prompt: self.system,
            ..SessionSetup::in_directory(cwd)
        }
    }
}

impl Session {
    /// What goes with it, as far as that is written in options and files.
    pub(crate) fn setup(&self) -> Result<Setup, Problem> {
        let directory = |folder: &PathBuf| {
            let Workspace { path, .. } = Workspace::of(Some(folder))
                .map_err(|problem| prompt::usage(format!("--add-dir: {problem}")))?;
            path.into_os_string().into_string().map_err(|_| prompt::usage("--add-dir: its path is not UTF-8"))
        };
        let directories = self.add_dir.iter().map(directory).collect::<Result<Vec<String>, Problem>>()?;
        let files = self.append_file.iter().map(|file| prompt::text_of("--append-file", file));
        let texts =
            self.system.clone().map(Ok).into_iter().chain(files).collect::<Result<Vec<String>, Problem>>()?;
        let content: Vec<ContentBlock> = texts.into_iter().map(ContentBlock::text).collect();
        let system = (!content.is_empty()).then(|| SystemPrompt { mode: "append".into(), content });
        Ok(Setup { directories, system })
    }

    /// What is hosted for the agent. Its commands get what is ours, without credentials, and nothing that only the agent
    /// itself is given.
    pub(crate) fn host(&self, start: &Start) -> host::Config {
        let env = || {
            let inside = (INSIDE.into(), start.inside().into());
            scrub(std::env::vars_os(), [inside]).env
        };
        host::Config {
            terminals: self.host_terminal.then(|| host::Terminals { env: env(), ..Default::default() }),
            files: self.host_files.then(host::Files::default),
        }
    }

    /// Which one. `spellings`: others of the workspace.
    pub(crate) fn choice(&self, spellings: Vec<String>) -> Choice {
        match self.resume.as_deref() {
            None => Choice::New,
            Some("last") => Choice::Last(spellings),
            Some(id) => Choice::Old(id.into()),
        }
    }

    /// What is set before anything is said.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mode = self.mode.iter().cloned().map(Setting::Mode);
        let model = self.model.iter().cloned().map(Setting::Model);
        let set = self.set.iter().map(|(option, to)| Setting::Option(option.clone(), to.clone()));
        mode.chain(model).chain(set).collect()
    }
}

pub(crate) fn policy(permission: Option<Permission>) -> Policy {
    match permission {
        Some(Permission::Ask | Permission::Hub) => Policy::Ask,
        Some(Permission::Allow) => Policy::Allow(Allow::OnceFirst),
        Some(Permission::Reject) => Policy::Reject,
        Some(Permission::Fail) => Policy::Fail,
        None if is_interactive() => Policy::Ask,
        None => Policy::Reject,
    }
}

/// Whether somebody sits here who can be asked.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// How a policy is spoken of.
pub(crate) const fn about(permission: Option<Permission>) -> &'static str {
    match permission {
        Some(Permission::Allow) => "--permission allow",
        Some(Permission::Fail) => "--permission fail",
        Some(Permission::Hub) => "--permission hub",
        Some(Permission::Reject | Permission::Ask) => "--permission reject",
        None => "nobody to ask here; to decide otherwise: --permission allow|fail",
    }
}

/// Whether somebody chose to have permissions refused.
pub(crate) const fn guards(permission: Option<Permission>) -> bool {
    matches!(permission, Some(Permission::Reject | Permission::Fail))
}

/// The variable by which a program knows that an agent started it, and which.
pub(crate) const INSIDE: &str = "AGENTLINE_INSIDE";
/// The id of the demo agent.
pub(crate) const DEMO: &str = "demo";
/// From SIGTERM until SIGKILL. 2 s: busy agents leave within 1.2 s of SIGTERM.
const TERM: Duration = Duration::from_secs(2);
