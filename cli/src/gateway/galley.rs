//! Galley's desktop in front: any ACP agent where it expects a runner.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentline_core::acp::SessionSetup;
use agentline_core::acp::client::Timeouts;
use agentline_core::galley::{Ready, bridge};
use agentline_core::gateway::{Config, FrontConfig, GalleyConfig};
use agentline_core::rules::Rules;
use agentline_core::session::SourceConfig;
use clap::Args;

use super::{Extras, Plan};
use crate::args::{self, Environment, Spending, duration, id};
use crate::consent;
use crate::output::{Notes, Start};
use crate::plan::{self, Spawn, ourselves};
use crate::prompt;
use crate::words::{Problem, command_line};

/// Galley starts this instead of its own runner, and shows the agent's text, its tools, its permissions and its models. It
/// takes the flags of a runner, and leaves when Galley is gone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  agentline gateway galley --shim ~/bin/gemini-runner --agent gemini    then set that file as Galley's Python
  agentline gateway galley --ga-path / --session-id s-1 -- my-agent --acp

Galley can put nothing behind the flags that it gives its runner. So --shim writes a script that does, with all that stands
here beside it: rules, -e, a budget, and the agent.

Exit codes:
  0 Galley left  1 the agent opens no session  2 usage  3 no such agent  143 terminated")]
pub(crate) struct Galley {
    /// Write the script that Galley starts as its Python, and do nothing else
    #[arg(long, value_name = "FILE")]
    pub(super) shim: Option<PathBuf>,
    /// Said by Galley: the module that it means to start
    #[arg(short = 'm', value_name = "MODULE", hide = true)]
    module: Option<String>,
    /// Said by Galley: where its agent's repository would be
    #[arg(long, value_name = "DIR", required_unless_present = "shim")]
    ga_path: Option<PathBuf>,
    /// Said by Galley: the name of the session, which each event repeats
    #[arg(long, value_name = "ID", required_unless_present = "shim")]
    session_id: Option<String>,
    /// Said by Galley: where its runner would work; the agent does where there is no --workspace-root
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Said by Galley: the project's folder, where the agent works
    #[arg(long, value_name = "DIR")]
    workspace_root: Option<PathBuf>,
    /// Said by Galley: the model to begin with, by its place in the list
    #[arg(long, value_name = "N")]
    llm_no: Option<u32>,
    /// Said by Galley: the model to begin with, by name
    #[arg(long, value_name = "NAME")]
    llm_name: Option<String>,
    /// The agent's command, instead of --agent
    #[arg(last = true, value_name = "CMD", conflicts_with = "agent")]
    command: Vec<OsString>,
    /// An agent that `agentline agent list` shows, or `demo` [default: AGENTLINE_AGENT, else `agent default`]
    #[arg(long, value_name = "ID", value_parser = id)]
    agent: Option<String>,
    /// From the end of the agent's input until SIGTERM
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    leave_grace: Duration,
    #[command(flatten)]
    environment: Environment,
    #[command(flatten)]
    rules: args::Rules,
    #[command(flatten)]
    spending: Spending,
    /// For the handshake with the agent
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    init_timeout: Duration,
    #[command(flatten)]
    pub(super) extras: Extras,
}

impl Galley {
    /// What is started. `notes`: where it is told who answers.
    pub(super) fn plan(&self, notes: Option<&Notes>) -> Result<Plan, Problem> {
        let variables = prompt::variables(&self.environment)?;
        let own = self.rules.read()?;
        if let Some(notes) = notes {
            variables.warn(notes);
        }
        let folder = self.workspace_root.as_deref().or(self.cwd.as_deref());
        let mut start = Start::default();
        let agent = self.agent.as_deref();
        let Spawn { spec, secrets, .. } =
            plan::spawn_of(agent, &self.command, folder, variables, &mut start)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let ready = Ready {
            ga_commit: UNKNOWN.to_owned(),
            ga_commit_date: UNKNOWN.to_owned(),
            ga_path: self.ga_path.as_deref().map(text).unwrap_or_default(),
            llm_name: start.name.clone(),
            cwd: self.cwd.as_deref().map_or_else(|| start.cwd.clone(), text),
            pid: std::process::id(),
            ..Ready::default()
        };
        let bridge = bridge::Config::on_stdio(self.session_id.clone().unwrap_or_default(), ready);
        let setup = SessionSetup::in_directory(&*start.cwd);
        let front = GalleyConfig { bridge, setup, llm: self.llm_no, llm_name: self.llm_name.clone() };
        let rules = Rules { own, project: consent::of_project(&spec.cwd)? };
        let timeouts = Timeouts { initialize: Some(self.init_timeout), ..Timeouts::default() };
        let source = SourceConfig::Acp(Box::new(plan::client(spec, timeouts, self.leave_grace)));
        let config = Config::new(FrontConfig::Galley(Box::new(front)), source);
        Ok(Plan { config: Config { rules, budget: self.spending.budget(), ..config }, secrets })
    }

    /// Galley's own process, without which nobody is there.
    pub(super) fn core() -> Option<u32> {
        std::env::var("GALLEY_CORE_PID").ok().and_then(|pid| pid.parse().ok())
    }
}

/// Writes the script: this command once more, with what Galley says in it.
pub(super) fn write_shim(file: &Path, notes: &Notes) -> Result<(), Problem> {
    let words = std::env::args_os().skip(1);
    let script = shim(&ourselves()?, words.collect());
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(file)
        .and_then(|mut file| file.write_all(script.as_bytes()));
    written.map_err(|error| {
        prompt::usage(format!("{}: {error}; a file that is there is not replaced", file.display()))
    })?;
    notes.line(&format!("◦ {} is written: set it as Galley's Python", file.display()));
    Ok(())
}

/// `words`: those of this command.
fn shim(program: &OsStr, words: Vec<OsString>) -> String {
    let mut words = words.into_iter();
    let (mut before, mut behind) = (vec![program.to_string_lossy().into_owned()], Vec::new());
    while let Some(word) = words.next() {
        let word = word.to_string_lossy().into_owned();
        if !behind.is_empty() || word == "--" {
            behind.push(word);
        } else if word == "--shim" {
            words.next();
        } else if !word.starts_with("--shim=") {
            before.push(word);
        }
    }
    let behind = if behind.is_empty() { String::new() } else { format!(" {}", command_line(&behind)) };
    format!("#!/bin/sh\nexec {} \"$@\"{behind}\n", command_line(&before))
}

/// There is no repository.
const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_says_the_same_with_what_galley_says_in_between() {
        let shim =
            |words: &str| shim("/opt/agentline".as_ref(), words.split(' ').map(OsString::from).collect());
        assert_eq!(
            shim("gateway galley --shim f --reject execute:rm -- my-agent --acp --shim x"),
            "#!/bin/sh\nexec /opt/agentline gateway galley --reject execute:rm \"$@\" -- my-agent --acp --shim x\n"
        );
        assert_eq!(
            shim("gateway galley --agent gemini --shim=f"),
            "#!/bin/sh\nexec /opt/agentline gateway galley --agent gemini \"$@\"\n"
        );
    }
}
