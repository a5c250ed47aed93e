//! An ACP editor in front.

use std::time::Duration;

use agentline_core::acp::client::Timeouts;
use agentline_core::galley::desktop;
use agentline_core::gateway::Config;
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
    /// The command is no ACP agent but a Galley runner, which is one session. --session-id, and where they are missing
    /// --workspace-root and --ga-path with the workspace, are put behind it
    #[arg(long, requires = "command", conflicts_with = "agent")]
    runner: bool,
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
        let Spawn { spec, whose, secrets, .. } =
            plan::spawn(&self.child, variables, &mut Start::unknown(&self.child))?;
        if let (Whose::Fallback(_), Some(notes)) = (&whose, notes) {
            notes.line(
                "◦ nobody said which agent: this is the demo agent; --agent ID, or a command behind --",
            );
        }
        let rules = Rules { own, project: consent::of_project(&spec.cwd)? };
        let source = if self.runner { self.runner(spec)? } else { self.agent(spec) };
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
        let mut desktop = desktop::Config::new(Open::spawn(spec));
        desktop.timeouts.ready = Some(self.init_timeout);
        Ok(SourceConfig::Runner(Box::new(galley::Config { desktop, session: Name::from(&*session) })))
    }
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
