//! Whoever attaches in front: any ACP agent as a session in a terminal is, without the terminal.

use std::time::Duration;

use agentline_core::acp::SessionSetup;
use agentline_core::acp::client::Timeouts;
use agentline_core::gateway::{AttachConfig, Config, FrontConfig};
use agentline_core::rules::Rules;
use agentline_core::session::SourceConfig;
use clap::Args;

use super::{Extras, Plan};
use crate::args::{self, Child, Permission, Permits, Spending};
use crate::chat::host;
use crate::consent;
use crate::output::{Notes, Start};
use crate::plan::{self, Spawn};
use crate::prompt;
use crate::words::{Kind, Phase, Problem};

/// The session is found by `agentline attach list` until this ends. It needs no terminal: `&`, `nohup` or a service does.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  agentline gateway attach --name reviewer --agent gemini -p reject &
  agentline attach send reviewer \"look at the last commit\"

The channel has no words for questions: rules and -p decide. It shows no text as it comes: who asks gets the answer. An
agent that dies is started again by the next prompt, which goes on with its session where the agent can do that.

Exit codes:
  0 left  2 usage  3 no such agent  5 the agent opens no session, or nobody could attach  130 Ctrl-C  143 terminated")]
pub(crate) struct Attach {
    #[command(flatten)]
    child: Child,
    /// What others call the session [default: the folder's name and two letters]
    #[arg(long, value_name = "NAME", value_parser = args::id)]
    name: Option<String>,
    #[command(flatten)]
    permits: Permits,
    #[command(flatten)]
    spending: Spending,
    /// For the handshake with the agent
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "60s")]
    init_timeout: Duration,
    #[command(flatten)]
    pub(super) extras: Extras,
}

impl Attach {
    /// What is started. `notes`: where it is told who answers.
    pub(super) fn plan(&self, notes: Option<&Notes>) -> Result<Plan, Problem> {
        if let Some(Permission::Ask | Permission::Hub | Permission::Fail) = self.permits.permission {
            return Err(prompt::usage(
                "nobody can be asked here: -p allow, -p reject, or rules of permission",
            ));
        }
        let variables = prompt::variables(&self.child.environment)?;
        let own = self.permits.rules.read()?;
        if let Some(notes) = notes {
            variables.warn(notes);
        }
        let mut start = Start::unknown(&self.child);
        let Spawn { spec, secrets, .. } = plan::spawn(&self.child, variables, &mut start)?;
        let mut server = host::attach(true, &start.cwd)?.ok_or_else(|| {
            Problem::new(Phase::Connect, Kind::Internal, "there is no place for its socket")
        })?;
        if let Some(name) = &self.name {
            server.record.name.clone_from(name);
        }
        let rules = Rules { own, project: consent::of_project(&spec.cwd)? };
        let timeouts = Timeouts { initialize: Some(self.init_timeout), ..Timeouts::default() };
        let source = SourceConfig::Acp(Box::new(plan::client(spec, timeouts, self.child.leave_grace)));
        let setup = SessionSetup::in_directory(&*start.cwd);
        let front = FrontConfig::Attach(Box::new(AttachConfig { server, setup }));
        let policy = plan::policy(Some(self.permits.permission.unwrap_or(Permission::Reject)));
        let budget = self.spending.budget();
        Ok(Plan { config: Config { rules, policy, budget, ..Config::new(front, source) }, secrets })
    }
}
