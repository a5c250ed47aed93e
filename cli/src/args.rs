//! The command line as it is written: every command, its options, and what `--help` says of them.

mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentline_core::conversation::Budget;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::ArgValueCandidates;

use self::values::amount;
pub(crate) use self::values::{Switch, duration, id, pair};
use crate::completions;

/// Drives coding agents: one prompt, one fresh child, one answer.
#[derive(Debug, Parser)]
#[command(name = "agentline", version, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Example: agentline run \"hello\"")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every command takes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Global {
    /// What stdout carries
    #[arg(long, global = true, help_heading = "Everywhere", value_enum, default_value_t)]
    format: Format,
    /// Short for --format json
    #[arg(long, global = true, help_heading = "Everywhere")]
    json: bool,
    /// When to colour
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        value_enum,
        default_value_t,
        value_name = "WHEN"
    )]
    pub(crate) color: Color,
    /// The answer only
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// For people: the answer on stdout, the rest on stderr
    #[default]
    Text,
    /// For programs: one JSON object a line
    Json,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Give an agent one prompt and print its answer
    Run(Box<Run>),
    /// Find, add and switch agents
    #[command(subcommand)]
    Agent(Agent),
    /// Talk to an agent, line by line
    Chat(Box<crate::chat::Args>),
    /// Log in to an agent
    Login(crate::login::Login),
    /// Log out of an agent, where it offers that
    Logout(crate::login::Logout),
    /// Speak into a session that runs in another terminal
    #[command(subcommand)]
    Attach(crate::attach::Attach),
    /// The process that has all sessions of this machine; any other server of its protocol
    #[command(after_help = "Example: agentline hub")]
    Hub(Box<crate::hub::Hub>),
    /// Sessions that outlive a command, from any terminal
    #[command(visible_alias = "sessions", after_help = "Example: agentline session")]
    Session(Box<crate::session::Sessions>),
    /// Questions of all sessions: what waits, and the answers
    #[command(visible_alias = "approvals", after_help = "Example: agentline approval")]
    Approval(Box<crate::approval::Approvals>),
    /// Allow what a session asks: short for `approval allow`
    #[command(after_help = "Example: agentline approve a7")]
    Approve(Box<crate::approval::Approve>),
    /// Deny what a session asks: short for `approval deny`
    #[command(after_help = "Example: agentline deny a7")]
    Deny(Box<crate::approval::Deny>),
    /// Look at recorded runs
    #[command(subcommand)]
    Trace(crate::trace::Verb),
    /// Other machines, whose hubs are spoken to by `--host`
    #[command(subcommand)]
    Host(crate::hub::HostVerb),
    /// Serve a session of one kind to programs that expect another
    #[command(subcommand)]
    Gateway(crate::gateway::Verb),
    /// Be a scripted agent on stdin and stdout
    DemoAgent(DemoAgent),
    /// A scripted Galley runner, for trying out hosts
    DemoRunner(DemoRunner),
    /// See off the agents of the process that started us, when it has died
    #[command(hide = true, after_help = "Example: none. It is started by each command that starts an agent.")]
    Guardian,
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  source <(agentline completions bash)     in ~/.bashrc
  source <(agentline completions zsh)      in ~/.zshrc
  agentline completions fish | source      in ~/.config/fish/config.fish

Agents and sessions are looked up at each tab. The script belongs to this version of agentline: read it when a shell
starts, and keep no copy of it.")]
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// Starts the agent, sends the prompt, prints the answer, ends the agent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  agentline run \"hello\"                         the built-in demo agent: no key
  agentline run --agent gemini -C ~/proj \"…\"    an agent that is installed
  agentline run -e KEY \"…\" -- ./my-agent --acp  any command that speaks ACP
  git diff | agentline run \"review this\"       what is piped in goes along

Exit codes:
  0 completed  1 failed  2 usage  3 no such agent  5 agent trouble
  6 a permission was refused  7 needs a login  124 a clock expired
  130 cancelled

However it ends, the agent's process group is gone afterwards, even if agentline is killed. Tools that left
the group are found after a kill (Linux), but not those of sudo or with another environment.")]
pub(crate) struct Run {
    /// The task, with what is piped in behind it; `-`, or nothing, reads it all from stdin
    #[arg(conflicts_with = "prompt_file")]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) child: Child,
    #[command(flatten)]
    pub(crate) consent: Consent,
    /// Print the last message of the answer only, when it is there
    #[arg(long)]
    pub(crate) last: bool,
    /// The last message must be JSON that fits this JSON Schema; it alone is printed
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// With --schema: how often the agent is asked again, with the reason
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u32).range(0..=20))]
    pub(crate) schema_tries: u32,
    /// Read the task from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Send a picture along (PNG, JPEG, GIF, WebP)
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    /// Send a file along
    #[arg(long, value_name = "FILE")]
    pub(crate) resource: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) session: Session,
    /// MCP servers for the session: a JSON array as in ACP, or the object of servers of an .mcp.json
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp: Option<PathBuf>,
    /// For the whole run, such as 10s, 5m; a bare number is seconds [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// For the handshake
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) init_timeout: Duration,
    /// For silence during the turn, while our output is read [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub(crate) idle_timeout: Option<Duration>,
    /// For the agent's answer to a cancel
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) cancel_grace: Duration,
    #[command(flatten)]
    pub(crate) record: crate::trace::Record,
    /// Show what would be started, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What drives it. For measurements, nothing else differs
    #[arg(long, value_enum, default_value_t, hide = true)]
    pub(crate) runtime: Runtime,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Runtime {
    #[default]
    Blocking,
    Smol,
}

/// Who answers what the agent asks.
#[derive(Debug, Args)]
pub(crate) struct Consent {
    #[command(flatten)]
    pub(crate) permits: Permits,
    /// Fill in the agent's forms from a JSON object, field to value [default: ask on a terminal, else decline]
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<PathBuf>,
}

/// What decides about permissions.
#[derive(Debug, Args)]
pub(crate) struct Permits {
    /// Who answers permission requests [default: ask on a terminal, else reject]
    #[arg(short, long, value_enum, value_name = "WHO")]
    pub(crate) permission: Option<Permission>,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// What is decided before anybody is asked.
#[derive(Debug, Args)]
pub(crate) struct Rules {
    /// Rules of permission, which come before anybody is asked: {"rules": [{"kind": "read", "then": "allow"}, …]}, where
    /// the first that fits counts; tests are kind, tool, command and path
    #[arg(long, value_name = "FILE")]
    pub(crate) permission_rules: Option<PathBuf>,
    /// Allow calls of a kind, as in read,search or execute:git; once each
    #[arg(long, value_name = "KIND[:PATTERN]", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
    /// Ask about calls of a kind, as in edit or '*:src'; comes before --allow
    #[arg(long, value_name = "KIND[:PATTERN]", value_delimiter = ',')]
    pub(crate) ask: Vec<String>,
    /// Reject calls of a kind, as in execute:rm; comes before --ask
    #[arg(long, value_name = "KIND[:PATTERN]", value_delimiter = ',')]
    pub(crate) reject: Vec<String>,
}

/// What an agent may spend.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Spending {
    /// The most that the session may cost, in the agent's unit; then the turn is cancelled
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    max_cost: Option<u64>,
    /// The most tools that a turn may call; then it is cancelled
    #[arg(long, value_name = "N")]
    max_turns_tools: Option<u32>,
}

/// Which session, and what is set in it.
#[derive(Debug, Args)]
pub(crate) struct Session {
    /// Log in by this method, should the agent want a login: `agentline login` lists them
    #[arg(long, value_name = "METHOD", value_parser = id)]
    pub(crate) login: Option<String>,
    /// Choose a model
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) model: Option<String>,
    /// Choose a mode
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) mode: Option<String>,
    /// Set another option of the session
    #[arg(long, value_name = "OPTION=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Go on with an old session
    #[arg(long, value_name = "ID|last", value_parser = id)]
    pub(crate) resume: Option<String>,
    /// Another folder that the agent may work in
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Run commands for an agent that asks for it; rules of kind execute decide about them, else they may
    #[arg(long)]
    pub(crate) host_terminal: bool,
    /// Read and write files of the workspace for an agent that asks for it; rules of kind read and edit decide
    #[arg(long)]
    pub(crate) host_files: bool,
    /// Instructions that the agent adds to its own
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) append_file: Vec<PathBuf>,
    /// How often to ask again where the agent's model is overloaded or cannot be reached; never once a tool was called or a
    /// word of the answer said [default: 0]
    #[arg(long, value_name = "N", default_value_t, hide_default_value = true, value_parser = value_parser!(u32).range(0..=100))]
    pub(crate) retry: u32,
    #[command(flatten)]
    pub(crate) spending: Spending,
}

/// Which agent, where it works, and what it gets.
#[derive(Debug, Args)]
pub(crate) struct Child {
    /// All that the agent writes to standard error, and not its first lines only
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// The agent's command, instead of --agent
    #[arg(last = true, value_name = "CMD", conflicts_with = "agent")]
    pub(crate) command: Vec<OsString>,
    /// An agent that `agentline agent list` shows, or `demo` [default: AGENTLINE_AGENT, else `agent default`]
    #[arg(long, value_name = "ID", value_parser = id, add = ArgValueCandidates::new(completions::agents))]
    pub(crate) agent: Option<String>,
    /// The workspace [default: the current directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// From the end of the agent's input until SIGTERM
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    pub(crate) leave_grace: Duration,
    #[command(flatten)]
    pub(crate) environment: Environment,
}

/// What an agent gets beside what it inherits.
#[derive(Debug, Args)]
pub(crate) struct Environment {
    /// Lay a variable over the agent's environment; NAME alone passes ours on, NAME- leaves it out
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// The same from a file, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Permission {
    /// You, at the terminal
    Ask,
    /// Allow: once if that is offered
    Allow,
    /// Reject: once if that is offered
    Reject,
    /// Reject, end the run, and exit with 6
    Fail,
    /// Whoever answers in the hub: agentline approval list --watch
    Hub,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Agent {
    /// Show the agents of this machine; starts nothing
    #[command(after_help = "Example: agentline agent list -v")]
    List {
        /// Also where was looked, and what was passed over
        #[arg(short, long)]
        verbose: bool,
        /// An official registry.json instead of the built-in list
        #[arg(long, value_name = "FILE")]
        registry: Option<PathBuf>,
        /// The language of the texts
        #[arg(long, value_enum, default_value_t)]
        lang: Lang,
    },
    /// Start an agent and see whether it can be used
    Check(Box<Check>),
    /// Show one agent
    #[command(after_help = "Example: agentline agent show gemini")]
    Show {
        /// Its id, or the beginning of it
        #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
        id: String,
    },
    /// Add an agent of your own, or replace it
    #[command(
        after_help = "Example: agentline agent add claude-code --name \"Claude Code\" -- claude-agent-acp"
    )]
    Add {
        /// Lower-case letters, digits and `-`
        #[arg(value_parser = id)]
        id: String,
        /// The name to show [default: the id]
        #[arg(long)]
        name: Option<String>,
        /// The command that starts it
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// Take an agent of your own away
    #[command(after_help = "Example: agentline agent remove claude-code")]
    Remove {
        /// Its id
        #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
        id: String,
    },
    /// Switch an agent on
    #[command(after_help = "Example: agentline agent enable gemini")]
    Enable {
        /// Its id
        #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
        id: String,
    },
    /// Switch an agent off
    #[command(after_help = "Example: agentline agent disable gemini")]
    Disable {
        /// Its id
        #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
        id: String,
    },
    /// Choose the agent that runs when none is named
    #[command(after_help = "Example: agentline agent default gemini")]
    Default {
        /// Its id, or `demo`; without, the one that is chosen is shown
        #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
        id: Option<String>,
    },
    /// Remember a setting of an agent
    #[command(after_help = "\
Examples:
  agentline agent set gemini --env GEMINI_API_KEY
  agentline agent set gemini --env-file ~/.gemini.env --init-timeout 60s
  agentline agent set mine --host-terminal on --host-files on")]
    Set(AgentSet),
}

/// What is remembered of an agent.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["env", "env_file", "init_timeout", "host_terminal", "host_files"])))]
pub(crate) struct AgentSet {
    /// Its id
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
    pub(crate) id: String,
    /// A variable that it may have where it is started by its id alone; only the name is kept
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Variables with their values, one NAME=VALUE a line, which the hub reads whenever it starts the agent: yours alone
    /// (mode 600)
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// For the handshake with the hub [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) init_timeout: Option<Duration>,
    /// Whether the hub runs commands for it, as --host-terminal of a run does
    #[arg(long, value_name = "on|off")]
    pub(crate) host_terminal: Option<Switch>,
    /// Whether the hub reads and writes files of a session's workspace for it, as --host-files of a run does
    #[arg(long, value_name = "on|off")]
    pub(crate) host_files: Option<Switch>,
}

/// Starts the agent in an empty folder that is removed afterwards, shakes hands, and with --prompt runs one turn.
/// It gets no MCP servers, and what it asks permission for is cancelled. What a run in this folder would permit is shown
/// where there are rules: those of the project, and of these options.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["id", "command"])))]
#[command(after_help = "\
Examples:
  agentline agent check gemini
  agentline agent check --prompt \"hi\" -- ./my-agent --acp

Exit codes: 0 it can be used  1 it cannot  2 usage")]
pub(crate) struct Check {
    /// An agent that `agentline agent list` shows, or `demo`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
    pub(crate) id: Option<String>,
    /// The agent's command, instead of an id
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
    /// Give it a task as well
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) permits: Permits,
    #[command(flatten)]
    pub(crate) environment: Environment,
    /// For the handshake: a slow start is not a broken agent
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) init_timeout: Duration,
    /// For opening a session
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) session_timeout: Duration,
    /// For the task
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub(crate) timeout: Duration,
    /// The language of the texts
    #[arg(long, value_enum, default_value_t)]
    pub(crate) lang: Lang,
    #[command(flatten)]
    pub(crate) record: crate::trace::Record,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Lang {
    #[default]
    En,
    Zh,
}

/// A scripted agent that speaks ACP on stdin and stdout. No model, no key.
#[derive(Debug, Args)]
#[command(after_help = "\
Prompts: hello, ask, options, form, page, spend N, json, overload N, news, team, settings, where, diff N, noisy, fail, refuse, slow N, flood N, crash N,
hang; anything else is echoed.
Example: agentline run \"slow 3\" -- agentline demo-agent")]
pub(crate) struct DemoAgent {
    /// What to play for which prompt: a JSON object, prompt word to list of steps
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Misbehave, for tests of clients
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) fault: Option<crate::demo::Fault>,
    /// Want a login before a session; the one by a terminal is remembered in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) login: Option<PathBuf>,
    /// Know two sessions from before
    #[arg(long)]
    pub(crate) stored: bool,
    /// Keep what is said in this folder, so that a later process can load the session
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Log in: what `agentline login` runs in a terminal
    #[arg(long, requires = "login", hide = true)]
    pub(crate) log_in: bool,
}

/// A scripted runner that speaks Galley's runner protocol on stdin and stdout. No model, no key.
#[derive(Debug, Args)]
#[command(after_help = "\
Messages: code, patch, read, ask, fail, history, where, slow N, crash N, hang; anything else is echoed.
Example: echo '{\"kind\":\"shutdown\"}' | agentline demo-runner --ga-path / --session-id s-1")]
pub(crate) struct DemoRunner {
    /// Where the agent's repository would be
    #[arg(long, value_name = "DIR")]
    pub(crate) ga_path: PathBuf,
    /// The name of the session; each event repeats it
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: String,
    /// The working directory that it tells
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The project's folder
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace_root: Option<PathBuf>,
    /// The model to begin with, by its place in the list
    #[arg(long, value_name = "N", default_value_t)]
    pub(crate) llm_no: u32,
    /// The model to begin with, by name
    #[arg(long, value_name = "NAME")]
    pub(crate) llm_name: Option<String>,
}

impl Run {
    /// Whether what is piped in answers questions, and is no part of the prompt.
    pub(crate) fn stdin_answers(&self) -> bool {
        self.consent.permits.permission == Some(Permission::Ask)
    }

    /// Whether stdin is the prompt, so that nobody can be asked there.
    pub(crate) fn reads_stdin(&self) -> bool {
        match (&self.prompt, &self.prompt_file) {
            (Some(prompt), _) => prompt == "-",
            (None, file) => file.is_none(),
        }
    }
}

impl Spending {
    pub(crate) const fn budget(self) -> Budget {
        Budget { cost: self.max_cost, tools: self.max_turns_tools }
    }
}

impl Global {
    pub(crate) fn format(self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_command_shows_an_example() {
        fn check(command: &clap::Command) {
            if command.has_subcommands() {
                command.get_subcommands().for_each(check);
            } else {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "{}", command.get_name());
            }
        }
        check(&Cli::command());
    }
}
