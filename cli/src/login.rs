//! `agentline login`: the ways into an agent, as it lists them, and whatever each of them takes.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::time::Duration;

use agentline_core::SpawnSpec;
use agentline_core::acp::session::{AuthMethod, TerminalLogin};
use agentline_core::subagent::{Choice, Errand};
use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use crate::args::{Environment, Format, Global, duration, id};
use crate::ask::typed;
use crate::completions;
use crate::output::{self, In, Notes, Sink, Start, line, object, plain};
use crate::plan::is_interactive;
use crate::prompt::usage;
use crate::visit::Agent;
use crate::words::{Kind, Phase, Problem, command_line};

/// Starts the agent, lists its ways to log in, and takes one: what the agent does itself, or a program that is run in
/// this terminal. Where nobody is asked, --method says which.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  agentline login gemini
  agentline login --method demo -- agentline demo-agent --login /tmp/demo-login

Exit codes: 0 logged in  1 failed  2 usage  3 no such agent  5 agent trouble  130 not done")]
pub(crate) struct Login {
    #[command(flatten)]
    which: Which,
    /// Which way, by the id that the list shows
    #[arg(long, value_name = "ID", value_parser = id)]
    method: Option<String>,
}

/// Asks the agent to forget its login.
#[derive(Debug, Args)]
#[command(after_help = "Example: agentline logout gemini")]
pub(crate) struct Logout {
    #[command(flatten)]
    which: Which,
}

/// Which agent, and what it gets.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("agent").required(true).args(["id", "command"])))]
struct Which {
    /// An agent that `agentline agent list` shows, or `demo`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::agents))]
    id: Option<String>,
    /// The agent's command, instead of an id
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    environment: Environment,
    /// For the handshake
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    init_timeout: Duration,
}

impl Which {
    fn agent(&self) -> Result<Agent, Problem> {
        let Self { id, command, environment, init_timeout } = self;
        Agent::new(id.as_deref(), command, environment, *init_timeout)
    }
}

/// Logs in.
pub(crate) fn run(args: &Login, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let agent = args.which.agent()?;
    let methods = agent.methods(notes)?;
    let is_json = global.format() == Format::Json;
    if is_json {
        output::print(&object(
            "logins",
            &Listed { agent: agent.start.agent.as_deref(), methods: agent.rows(&methods) },
        ));
    }
    let method = match &args.method {
        Some(id) => agent.named(id, &methods)?,
        None if !is_json && is_interactive() && !methods.is_empty() => {
            match choose(&agent.start, &methods, notes) {
                Some(method) => method,
                None => return Ok(ExitCode::from(130)),
            }
        }
        None => return agent.list(&methods, is_json),
    };
    agent.log_in(method, notes)?;
    Ok(done(is_json, &format!("◦ logged in to {}: {}", plain(&agent.start.name), plain(name(method))), notes))
}

/// Logs out.
pub(crate) fn out(args: &Logout, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let agent = args.which.agent()?;
    agent.visit(Choice::Errand(Errand::Logout), notes)?;
    let is_json = global.format() == Format::Json;
    Ok(done(is_json, &format!("◦ logged out of {}", plain(&agent.start.name)), notes))
}

fn done(is_json: bool, said: &str, notes: &Notes) -> ExitCode {
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "result")]
    struct Done {
        ok: bool,
    }
    if is_json {
        return output::print(&line(&Done { ok: true }, true));
    }
    notes.line(said);
    ExitCode::SUCCESS
}

/// Offers a login after an agent wanted one. What to log in by from here on, if somebody took the offer.
pub(crate) fn offer(
    spec: &SpawnSpec,
    start: &Start,
    methods: &[AuthMethod],
    notes: &Notes,
) -> Option<Option<String>> {
    if methods.is_empty() {
        return None;
    }
    let method = choose(start, methods, notes)?;
    match way(method, start) {
        // Done by the agent, in the process that needs it.
        Way::Agent => Some(Some(method.id.clone())),
        Way::Terminal(login) => match in_terminal(&login, spec, notes) {
            Ok(()) => Some(None),
            Err(problem) => {
                notes.line(&crate::failure::explain(&problem, notes.paint()));
                None
            }
        },
        Way::Variable => {
            notes.line(&format!("◦ {}", variables(method)));
            None
        }
    }
}

/// What a login takes.
enum Way {
    /// The agent does it.
    Agent,
    /// A program does it, in this terminal.
    Terminal(TerminalLogin),
    /// A variable that the agent is started with.
    Variable,
}

fn way(method: &AuthMethod, start: &Start) -> Way {
    let runs = |path: &str| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    match method.terminal(start.command.as_deref().unwrap_or_default(), runs) {
        Some(login) => Way::Terminal(login),
        None if method.vars.is_empty() => Way::Agent,
        None => Way::Variable,
    }
}

fn name(method: &AuthMethod) -> &str {
    if method.name.is_empty() { &method.id } else { &method.name }
}

fn variables(method: &AuthMethod) -> String {
    let given = method.vars.iter().map(|variable| format!("-e {}", variable.name));
    format!("pass the key to the agent: {}", plain(&given.collect::<Vec<_>>().join(" ")))
}

/// A way in, as programs read it.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'static str,
    /// What is run in a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// The names of the variables that hold the key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<&'a str>,
}

#[derive(Serialize)]
struct Listed<'a> {
    agent: Option<&'a str>,
    methods: Vec<Row<'a>>,
}

impl Agent {
    /// Its ways to log in.
    fn methods(&self, notes: &Notes) -> Result<Vec<AuthMethod>, Problem> {
        Ok(self.visit(Choice::Nowhere, notes)?.methods)
    }

    fn named<'a>(&self, id: &str, methods: &'a [AuthMethod]) -> Result<&'a AuthMethod, Problem> {
        methods.iter().find(|method| method.id == id).ok_or_else(|| {
            let problem = usage(format!("{} has no login {id}", self.start.name));
            match &*methods.iter().map(|method| &*method.id).collect::<Vec<_>>() {
                [] => problem.hint("it lists none: log in by its own program"),
                ids => problem.hint(format!("one of {}", ids.join(", "))),
            }
        })
    }

    fn log_in(&self, method: &AuthMethod, notes: &Notes) -> Result<(), Problem> {
        match way(method, &self.start) {
            Way::Agent => self.visit(Choice::Errand(Errand::Login(method.id.clone())), notes).map(drop),
            Way::Terminal(login) if is_interactive() => in_terminal(&login, &self.spec, notes),
            Way::Terminal(login) => Err(usage(format!("{} needs a terminal", name(method)))
                .hint(format!("in a terminal: {}", command_line(&login.command)))),
            Way::Variable => {
                Err(usage(format!("{} is a variable, and no login to do", name(method)))
                    .hint(variables(method)))
            }
        }
    }

    /// Where nobody is asked, and nothing was chosen.
    fn list(&self, methods: &[AuthMethod], is_json: bool) -> Result<ExitCode, Problem> {
        if methods.is_empty() {
            let problem = Problem::new(
                Phase::Authenticate,
                Kind::NotFound,
                format!("{} lists no login", self.start.name),
            );
            return Err(problem.hint("start it by hand and log in there, if it wants a login at all"));
        }
        if is_json {
            return Ok(ExitCode::SUCCESS);
        }
        let rows = self.rows(methods).into_iter().map(|row| {
            let about = row.command.map(|command| command_line(&command));
            let about = about.unwrap_or_else(|| row.variables.join(" "));
            format!("{}\n", [row.id, row.kind, row.name, &about].map(plain).join("\t").trim_end())
        });
        Ok(output::print(&rows.collect::<String>()))
    }

    fn rows<'a>(&self, methods: &'a [AuthMethod]) -> Vec<Row<'a>> {
        let rows = methods.iter().map(|method| {
            let (kind, command) = match way(method, &self.start) {
                Way::Agent => ("agent", None),
                Way::Terminal(login) => ("terminal", Some(login.command)),
                Way::Variable => ("env_var", None),
            };
            let variables = method.vars.iter().map(|variable| &*variable.name).collect();
            let (id, description) = (&*method.id, method.description.as_deref());
            Row { id, name: name(method), description, kind, command, variables }
        });
        rows.collect()
    }
}

/// Lets a person choose; nothing, if it is none of them.
fn choose<'a>(start: &Start, methods: &'a [AuthMethod], notes: &Notes) -> Option<&'a AuthMethod> {
    let paint = notes.paint();
    let mut lines = vec![format!(
        "  {} {}",
        In(paint.ask, "?"),
        In(paint.strong, format!("Log in to {}", plain(&start.name)))
    )];
    for (at, method) in methods.iter().enumerate() {
        let about = match way(method, start) {
            Way::Agent => method.description.clone().unwrap_or_default(),
            Way::Terminal(login) => command_line(&login.command),
            Way::Variable => variables(method),
        };
        let about =
            if about.is_empty() { String::new() } else { format!("  {}", In(paint.dim, plain(&about))) };
        lines.push(format!("      {}  {}{about}", In(paint.strong, at + 1), plain(name(method))));
    }
    lines.push(format!("      {}  No", In(paint.strong, "n")));
    let keys = if methods.len() == 1 { "1".to_owned() } else { format!("1 to {}", methods.len()) };
    let call = format!("{keys} or n, then Enter");
    let chosen = loop {
        let Some(typed) = typed(&lines, &format!("    {call} › "), notes) else { break None };
        match &*typed {
            "n" | "no" => break None,
            number => {
                match number.parse::<usize>().ok().and_then(|number| methods.get(number.checked_sub(1)?)) {
                    Some(method) => break Some(method),
                    None => {
                        notes.line(&format!("! not an answer: type {call}"));
                        lines.clear();
                    }
                }
            }
        }
    };
    notes.still();
    chosen
}

/// Runs the program of a login in this terminal, once a person has agreed to it.
fn in_terminal(login: &TerminalLogin, spec: &SpawnSpec, notes: &Notes) -> Result<(), Problem> {
    let env = login.env.iter().map(|(name, value)| format!("{name}={value}"));
    let words: Vec<String> = env.chain(login.command.iter().cloned()).collect();
    let call = "    y or n, then Enter › ";
    let question = format!("  {} run {}", In(notes.paint().ask, "?"), plain(&command_line(&words)));
    let agreed = matches!(typed(&[question], call, notes).as_deref(), Some("y" | "yes"));
    notes.still();
    let failed = |kind, why: String| Problem::new(Phase::Authenticate, kind, why);
    if !agreed {
        return Err(failed(Kind::Cancelled, "not logged in: the program was not run".into()));
    }
    let [program, args @ ..] = &*login.command else { return Err(usage("the login has no command")) };
    // What we said comes before what it says.
    Sink::ours().settle(None);
    let _ = io::stderr().flush();
    let given = spec.env.iter().map(|(name, value)| (name, value.expose()));
    let status = process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(given)
        .envs(&login.env)
        .current_dir(&spec.cwd)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(Kind::Exited, format!("{program} did not log in: {status}"))),
        Err(error) => Err(failed(Kind::NotExecutable, format!("{program} cannot be started: {error}"))),
    }
}
