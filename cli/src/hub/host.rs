//! `agentline host …`: the other machines whose hubs are spoken to from here.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentline_core::discovery::{Host, Settings};
use agentline_core::hub::api::{AgentsList, HubHealth};
use clap::Subcommand;
use serde::Serialize;

use super::client::{Far, Link, Wants};
use super::reach::{ALL, LOCAL, Route, host, hosts};
use crate::args::{Format, Global};
use crate::find;
use crate::output::{self, In, Notes, line, object, plain, span};
use crate::prompt::usage;
use crate::words::{Kind, Phase, Problem, command_line};

#[derive(Debug, Subcommand)]
pub(crate) enum HostVerb {
    /// Remember a machine, so that `--host all` asks it too
    #[command(after_help = "\
Examples:
  agentline host add devbox                              by ssh, as ~/.ssh/config has it
  agentline host add devbox -- ssh -T me@10.0.0.7 /opt/bin/agentline hub pipe --start
  agentline host add box -- docker exec -i box agentline hub pipe --start

A command is used as it is: its stdin and stdout have to be those of `agentline hub pipe` there.")]
    Add {
        /// What it is called here; without a command, what ssh calls it
        name: String,
        /// The command that leads there
        #[arg(last = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// Show the machines that are remembered
    #[command(after_help = "Example: agentline host list")]
    List,
    /// Forget a machine
    #[command(after_help = "Example: agentline host remove devbox")]
    Remove {
        /// Its name
        name: String,
    },
    /// See whether a machine can be reached, and what is there
    #[command(after_help = "\
Example: agentline host check devbox

Exit codes: 0 it can be reached  4 it cannot")]
    Check {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(verb: &HostVerb, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    match verb {
        HostVerb::Add { name, command } => add(name, command, global, notes),
        HostVerb::List => list(global, notes),
        HostVerb::Remove { name } => remove(name, global, notes),
        HostVerb::Check { name } => check(name, global, notes),
    }
}

fn add(name: &str, command: &[String], global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._@:-".contains(letter);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
        return Err(usage("a host's name has letters, digits and . _ @ : - and begins with no -"));
    }
    if matches!(name, ALL | LOCAL) {
        return Err(usage(format!("{name} has a meaning of its own")).hint("agentline host add devbox"));
    }
    let how = match command {
        [] => Host::Ssh(Default::default()),
        words => Host::Command(words.to_vec()),
    };
    change(|settings| settings.hosts.insert(name.to_owned(), how))?;
    said(
        &format!("{name} is added; to see whether it can be reached: agentline host check {name}"),
        global,
        notes,
    )
}

fn remove(name: &str, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    match change(|settings| settings.hosts.remove(name))? {
        Some(_) => said(&format!("{name} is removed"), global, notes),
        None => {
            let message = format!("no host {name} is remembered");
            Err(Problem::new(Phase::Discovery, Kind::NotFound, message).hint("agentline host list"))
        }
    }
}

fn change<T>(what: impl FnOnce(&mut Settings) -> T) -> Result<T, Problem> {
    find::change_settings(&find::folders()?, what)
}

fn said(text: &str, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    #[derive(Serialize)]
    struct Done<'a> {
        message: &'a str,
    }
    Ok(match global.format() {
        Format::Json => output::print(&object("ok", &Done { message: text })),
        Format::Text => {
            if !global.quiet {
                notes.line(&format!("{} {text}", In(notes.paint().dim, "◦")));
            }
            ExitCode::SUCCESS
        }
    })
}

fn list(global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    #[derive(Serialize)]
    struct Row {
        #[serde(rename = "type")]
        kind: &'static str,
        name: String,
        command: Vec<String>,
    }
    let rows = hosts()?.into_iter().map(|(name, how)| {
        let route = Route::Host { name: name.clone(), how };
        Row { kind: "host", name, command: route.command(false) }
    });
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        notes.line("◦ no other machine is remembered: agentline host add NAME");
    }
    Ok(output::print(&match global.format() {
        Format::Json => rows.iter().enumerate().map(|(at, row)| line(row, at == 0)).collect::<String>(),
        Format::Text => {
            rows.iter().map(|row| format!("{}\t{}\n", row.name, plain(&command_line(&row.command)))).collect()
        }
    }))
}

/// What is there.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    host: String,
    version: String,
    /// Whether a hub runs there.
    hub: bool,
    agents: Vec<String>,
    elapsed_ms: u128,
}

fn check(name: &str, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let began = Instant::now();
    let mut checked = Checked { host: name.to_owned(), ..Checked::default() };
    let wants = Wants { patience: Some(PATIENCE), ..Wants::default() };
    match Link::host(&host(name, false)?, false, PATIENCE, wants)? {
        Far::Hub(mut link) => {
            checked.hub = true;
            checked.version = link.ask(&HubHealth {})?.version;
            let agents = link.ask(&AgentsList {})?.agents;
            checked.agents = agents.into_iter().filter(|agent| agent.enabled).map(|agent| agent.id).collect();
        }
        Far::NoHub { version, agents, .. } => (checked.version, checked.agents) = (version, agents),
    }
    checked.elapsed_ms = began.elapsed().as_millis();
    if global.format() == Format::Json {
        return Ok(output::print(&object("host", &checked)));
    }
    let mut parts = vec![format!("agentline {}", plain(&checked.version))];
    parts.push(if checked.hub { "hub running" } else { "hub not running" }.into());
    parts.extend(checked.agents.iter().map(|id| plain(id).into_owned()));
    let took = span(began.elapsed());
    let mark = In(notes.paint().good, "✓");
    Ok(output::print(&format!("{mark} {name}: {} ({took})\n", parts.join(", "))))
}

/// For the other machine to say that it is there.
const PATIENCE: Duration = Duration::from_secs(10);
