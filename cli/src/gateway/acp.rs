//! An ACP editor in front.

use std::ffi::OsString;
use std::time::Duration;

use agentline_core::acp::client::Timeouts;
use agentline_core::discovery::Runner;
use agentline_core::galley::desktop;
use agentline_core::gateway::Config;
use agentline_core::hub::RunnerStart;
use agentline_core::rules::Rules;
use agentline_core::session::{AttachedConfig, Name, SourceConfig, galley};
use agentline_core::{Open, SpawnSpec};
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::{Extras, Hidden, Plan, fresh_id};
use crate::args::{self, Child, Spending};
use crate::attach;
use crate::completions;
use crate::consent;
use crate::failure::Whose;
use crate::find;
use crate::hub::errands;
use crate::output::{Notes, Start};
use crate::plan::{self, Spawn};
use crate::prompt;
use crate::words::Problem;

/// An editor starts this instead of the agent. Everything passes both ways as it was written; rules, a budget and a record
/// stand in between.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  agentline gateway acp --agent gemini --permission-rules ~/rules.json
  agentline gateway acp --max-cost 2.00 --trace ~/today.jsonl -- my-agent --acp
  agentline gateway acp --peer proj-7f           a session that runs in another terminal
  agentline gateway acp --runner galley          a Galley runner of the settings
  agentline gateway acp --runner -- python -m runner.workbench_bridge --ga-path ~/GenericAgent

What the agent writes to standard error goes on to ours. An agent that dies is started again by the next prompt, which
goes on with its session where the agent can do that.

Exit codes:
  0 the editor left  2 usage  3 no such agent  143 terminated")]
pub(crate) struct Acp {
    #[command(flatten)]
    child: Child,
    /// Instead of an agent, a session in another terminal: its peer id, session id or name, the beginning of one, or its
    /// socket. It shows no questions and no costs, so there are no rules and no budget; it goes on when the editor leaves
    #[arg(
        long,
        value_name = "WHICH",
        value_parser = args::id,
        add = ArgValueCandidates::new(completions::peers),
        conflicts_with_all = [
            "agent", "command", "runner", "permission_rules", "allow", "ask", "reject", "max_cost", "max_turns_tools"
        ]
    )]
    peer: Option<String>,
    /// Instead of an agent, a Galley runner, which is one session: one that `agentline agent list` shows, or the command
    /// behind --. To a command --session-id is added, and --workspace-root and --ga-path with the workspace where they are
    /// missing
    #[arg(long, value_name = "ID", num_args = 0..=1, value_parser = args::id, conflicts_with = "agent")]
    runner: Option<Option<String>>,
    #[command(flatten)]
    rules: args::Rules,
    #[command(flatten)]
    spending: Spending,
    /// For the handshake with the agent
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "60s")]
    init_timeout: Duration,
    #[command(flatten)]
    pub(super) extras: Extras,
}

impl Acp {
    /// What is started. `notes`: where it is told who answers.
    pub(super) fn plan(&self, notes: Option<&Notes>) -> Result<Plan, Problem> {
        let variables = prompt::variables(&self.child.environment)?;
        let own = self.rules.read()?;
        if let Some(notes) = notes {
            variables.warn(notes);
        }
        if let Some(peer) = &self.peer {
            return Ok(Plan { config: Config::on_stdio(attached(peer)), secrets: Hidden::new() });
        }
        let (listed, command) = match &self.runner {
            Some(Some(_)) if !self.child.command.is_empty() => {
                return Err(prompt::usage("--runner ID and a command: which of both?"));
            }
            Some(Some(id)) => {
                let (runner, command) = listed(id)?;
                (Some(runner), command)
            }
            Some(None) if self.child.command.is_empty() => {
                return Err(prompt::usage("which runner? --runner ID, or a command behind --"));
            }
            Some(None) | None => (None, self.child.command.clone()),
        };
        let (agent, folder) = (self.child.agent.as_deref(), self.child.cwd.as_deref());
        let mut start = Start::unknown(&self.child);
        let Spawn { spec, whose, secrets, .. } =
            plan::spawn_of(agent, &command, folder, variables, &mut start)?;
        if let (Whose::Fallback(_), Some(notes)) = (&whose, notes) {
            notes.line(
                "◦ nobody said which agent: this is the demo agent; --agent ID, or a command behind --",
            );
        }
        let rules = Rules { own, project: consent::of_project(&spec.cwd)? };
        let source = match (listed, &self.runner) {
            (Some(runner), _) => self.listed_runner(&runner, spec)?,
            (None, Some(_)) => self.runner(spec)?,
            (None, None) => self.agent(spec),
        };
        let config = Config { rules, budget: self.spending.budget(), ..Config::on_stdio(source) };
        Ok(Plan { config, secrets })
    }

    fn agent(&self, spec: SpawnSpec) -> SourceConfig {
        let timeouts = Timeouts { initialize: Some(self.init_timeout), ..Timeouts::default() };
        SourceConfig::Acp(Box::new(plan::client(spec, timeouts, self.child.leave_grace)))
    }

    fn runner(&self, mut spec: SpawnSpec) -> Result<SourceConfig, Problem> {
        let folder = spec.cwd.clone();
        let session = fresh_id()?;
        let mut missing = |flag: &str| {
            if !spec.args.iter().any(|arg| arg == flag) {
                spec.args.extend([flag.into(), folder.clone().into_os_string()]);
            }
        };
        missing("--ga-path");
        missing("--workspace-root");
        spec.args.extend(["--session-id".into(), (&*session).into()]);
        Ok(self.desktop(spec, &session))
    }

    fn listed_runner(&self, runner: &Runner, mut spec: SpawnSpec) -> Result<SourceConfig, Problem> {
        let session = fresh_id()?;
        let of_ours = |name: &String| Some((name.into(), std::env::var_os(name)?.into()));
        spec.env.extend(runner.env.iter().filter_map(of_ours));
        let workspace = spec.cwd.to_string_lossy().into_owned();
        let spec =
            errands::runner(runner, spec, RunnerStart { session: session.clone(), workspace, llm: None });
        Ok(self.desktop(spec, &session))
    }

    fn desktop(&self, spec: SpawnSpec, session: &str) -> SourceConfig {
        let mut desktop = desktop::Config::new(Open::spawn(spec));
        desktop.timeouts.ready = Some(self.init_timeout);
        SourceConfig::Runner(Box::new(galley::Config { desktop, session: Name::from(session) }))
    }
}

/// A runner of the settings, and what starts it.
fn listed(id: &str) -> Result<(Runner, Vec<OsString>), Problem> {
    let found = find::look(None)?;
    let agent = found.agent(id)?;
    let (Some(runner), Some(launch)) = (agent.origin.runner(), &agent.launch) else {
        let problem = prompt::usage(format!("the agent {id} is no Galley runner"));
        return Err(problem.hint(format!("agentline gateway acp --agent {id}")));
    };
    let program = launch.found.program.clone().into_os_string();
    let args = launch.args.iter().map(OsString::from);
    Ok((runner.clone(), std::iter::once(program).chain(args).collect()))
}

/// A session behind it. One that is not there is an answer of the gateway, where an editor shows it.
fn attached(peer: &str) -> SourceConfig {
    match attach::target(peer, None) {
        Ok(target) => {
            let name = target.socket.0.file_stem().unwrap_or_default().to_string_lossy();
            let name = Name::from(&*name);
            SourceConfig::Attached(Box::new(AttachedConfig { name, target }))
        }
        Err(problem) => SourceConfig::Missing(problem.message),
    }
}
