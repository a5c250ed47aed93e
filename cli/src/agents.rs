//! `agentline agent …`: what is installed, what is added, what is on.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::words::{Kind, Language, Phase, Problem, command_line};
use agentline_core::discovery::{Manifest, Origin, Reason, Report, Settings};
use agentline_core::{Change, Store};
use agentline_os::look;
use serde::Serialize;

use crate::args::{Agent, AgentSet, Format, Global, Lang, Switch};
use crate::check;
use crate::find::{self, Found};
use crate::output::{self, Notes, columns, line, object, span};
use crate::plan::DEMO;
use crate::prompt::{self, usage};

pub(crate) fn run(verb: &Agent, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let format = global.format();
    let said = match verb {
        Agent::List { verbose, registry, lang } => {
            let found = find::look(registry.as_deref())?;
            return Ok(list(&found.report, *verbose, (*lang).into(), format, notes));
        }
        Agent::Check(args) => return check::run(args, global, notes),
        Agent::Show { id } => return show(id, format),
        Agent::Add { id, name, command } => add(id, name.as_deref(), command)?,
        Agent::Remove { id } => remove(id)?,
        Agent::Enable { id } => enable(id, true)?,
        Agent::Disable { id } => enable(id, false)?,
        Agent::Default { id: Some(id) } => choose(id)?,
        Agent::Default { id: None } => return chosen(format),
        Agent::Set(set) => remember(set)?,
    };
    // A hub that runs looks again at once: what of it works with that agent is told so.
    crate::hub::look_again();
    Ok(done(&said, format))
}

/// Rows on stdout, and nothing else; what is wrong goes to stderr.
fn list(report: &Report, verbose: bool, language: Language, format: Format, notes: &Notes) -> ExitCode {
    if format == Format::Json {
        let lines = language.lines(report).enumerate();
        return output::print(&lines.map(|(at, entry)| line(&entry, at == 0)).collect::<String>());
    }
    let mut text = match columns(io::stdout()) {
        Some(columns) if !report.agents.is_empty() => table(report, language, columns),
        Some(_) | None => language.rows(report),
    };
    if verbose {
        for line in language.explain(report) {
            text += &format!("  {line}\n");
        }
    }
    let printed = output::print(&text);
    if report.agents.is_empty() {
        notes.line(&language.nothing_found(report));
    }
    for problem in &report.problems {
        notes.line(&format!("✗ {}", language.problem(problem)));
    }
    printed
}

/// For a terminal: aligned, with a header, no line longer than the screen is wide.
fn table(report: &Report, language: Language, columns: usize) -> String {
    let header = match language {
        Language::English => ["ID", "NAME", "ORIGIN", "STATE", "COMMAND"],
        Language::Chinese => ["ID", "名称", "来源", "状态", "命令"],
    };
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(report.agents.iter().map(|agent| language.cells(agent)));
    output::table(&rows, columns)
}

fn show(id: &str, format: Format) -> Result<ExitCode, Problem> {
    #[derive(Serialize)]
    struct Shown<'a> {
        id: &'a str,
        name: &'a str,
        origin: &'static str,
        enabled: bool,
        command: Option<Vec<String>>,
        /// Names of variables that it may have when the hub starts it.
        env: Vec<&'a str>,
        default: bool,
    }
    let found = find::look(None)?;
    let settings = &found.discovery.settings;
    let agent = found.agent(id)?;
    let shown = Shown {
        id: &agent.id,
        name: &agent.name,
        origin: Language::English.origin(&agent.origin),
        enabled: agent.enabled,
        command: agent.launch.as_ref().map(agentline_core::discovery::Launch::argv),
        env: settings.env_names(&agent.id).collect(),
        default: settings.default_agent.as_ref() == Some(&agent.id),
    };
    if format == Format::Json {
        return Ok(output::print(&object("agent", &shown)));
    }
    let [id, name, origin, state, command] = Language::English.cells(agent);
    let mut text =
        format!("id       {id}\nname     {name}\norigin   {origin}\nstate    {state}\ncommand  {command}\n");
    if !shown.env.is_empty() {
        text += &format!("env      {}\n", shown.env.join(", "));
    }
    if shown.default {
        text += "default  yes\n";
    }
    Ok(output::print(&text))
}

/// Writes the manifest, if the agent can be used then. What is not given is as it was.
fn add(id: &str, name: Option<&str>, command: &[String]) -> Result<String, Problem> {
    let [program, args @ ..] = command else { return Err(usage("no command")) };
    let again = |id: &str| {
        let words = ["agentline", "agent", "add", id, "--"].map(str::to_owned);
        command_line(&[&words[..], command].concat())
    };
    if id == DEMO {
        return Err(usage("demo is the demo agent: no other can have that id").hint(again("my-demo")));
    }
    let found = find::look(None)?;
    let before = found.report.agents.iter().find(|agent| agent.id == id && agent.origin == Origin::Manifest);
    let manifest = Manifest {
        id: id.into(),
        name: name.or(before.map(|agent| &*agent.name)).unwrap_or(id).into(),
        command: Some(absolute(program)?),
        args: args.to_vec(),
        env: before
            .and_then(|agent| agent.launch.as_ref())
            .map(|launch| launch.env.clone())
            .unwrap_or_default(),
    };
    let store = manifest.add(&found.discovery.folders).map_err(|reason| {
        let problem = usage(Language::English.reason(&reason));
        if reason == Reason::BadId {
            problem.hint(again(&slug(id)))
        } else if let Reason::ReservedId { .. } = reason {
            problem.hint(again(&format!("my-{id}")))
        } else {
            problem
        }
    })?;
    let Change::Put { bytes, .. } = &store.change else { return Err(usage("nothing to write")) };
    let report = look::with_manifest(&found.discovery, &store.path, bytes.expose());
    if let Some(problem) = report.problems.iter().find(|problem| problem.file == store.path) {
        let why = Language::English.reason(&problem.reason);
        let words = ["agentline", "agent", "add", id, "--", "/path/to/program"].map(str::to_owned);
        let hint = command_line(&[&words[..], args].concat());
        return Err(usage(format!("{id} is not added: {why}")).hint(hint));
    }
    carry_out(&store)?;
    Ok(format!("{id} is added: {}", store.path.display()))
}

/// The id that somebody may have meant.
fn slug(id: &str) -> String {
    let letters = id.trim().chars().map(|letter| letter.to_ascii_lowercase());
    let letters = letters.map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let slug: String = letters.take(32).collect();
    if slug.trim_matches('-').is_empty() { "my-agent".into() } else { slug }
}

/// A path stays good wherever we are; a bare name is searched for each time.
pub(crate) fn absolute(program: &str) -> Result<String, Problem> {
    if !program.contains('/') || program.starts_with('~') {
        return Ok(program.into());
    }
    let path = std::path::absolute(program).map_err(|error| usage(format!("{program}: {error}")))?;
    path.into_os_string().into_string().map_err(|_| usage("the path of the command is not UTF-8"))
}

fn remove(id: &str) -> Result<String, Problem> {
    let found = find::look(None)?;
    let folders = &found.discovery.folders;
    let store = Manifest::remove(id, folders).map_err(|reason| usage(Language::English.reason(&reason)))?;
    if !store.path.exists() {
        let problem = not_found(format!("there is no {}", store.path.display()));
        let is_here = found.agent(id).is_ok();
        return Err(if is_here { problem.hint(format!("agentline agent disable {id}")) } else { problem });
    }
    carry_out(&store)?;
    let is_gone = || find::look(None).map(|found| found.report.agents.iter().all(|agent| agent.id != id));
    if found.discovery.settings.default_agent.as_deref() == Some(id) && is_gone()? {
        find::change_settings(folders, |settings| settings.default_agent = None)?;
        return Ok(format!("{id} is removed, and is the default no more: the demo agent is"));
    }
    Ok(format!("{id} is removed"))
}

fn enable(id: &str, on: bool) -> Result<String, Problem> {
    let found = find::look(None)?;
    let id = known(&found, id)?;
    let word = if on { "on" } else { "off" };
    let changed = find::change_settings(&found.discovery.folders, |settings| settings.enable(&id, on))?;
    Ok(if changed { format!("{id} is {word}") } else { format!("{id} is {word} already") })
}

fn choose(id: &str) -> Result<String, Problem> {
    let found = find::look(None)?;
    let id = if id == DEMO { DEMO.into() } else { found.startable(id)?.id.clone() };
    find::change_settings(&found.discovery.folders, |settings| settings.default_agent = Some(id.clone()))?;
    Ok(format!("{id} runs when no agent is named"))
}

/// Shows which agent runs when none is named.
fn chosen(format: Format) -> Result<ExitCode, Problem> {
    #[derive(Serialize)]
    struct Default<'a> {
        agent: &'a str,
        /// Whether somebody has chosen it.
        chosen: bool,
    }
    let found = find::look(None)?;
    let default = found.discovery.settings.default_agent.as_deref();
    let agent = default.unwrap_or(DEMO);
    Ok(output::print(&match (format, default) {
        (Format::Json, _) => object("default", &Default { agent, chosen: default.is_some() }),
        (Format::Text, Some(id)) => format!("{id}\n"),
        (Format::Text, None) => format!("{DEMO} (none is chosen: agentline agent default ID)\n"),
    }))
}

fn remember(set: &AgentSet) -> Result<String, Problem> {
    let AgentSet { env, env_file, init_timeout, host_terminal, host_files, .. } = set;
    let found = find::look(None)?;
    let id = known(&found, &set.id)?;
    let file = env_file.as_deref().map(std::path::absolute).transpose();
    let file = file.map_err(|error| usage(format!("--env-file: {error}")))?;
    // Whoever names it finds out now what is wrong with it, and not when the agent starts.
    file.as_deref().map(prompt::own_variables).transpose()?;
    let remember = |settings: &mut Settings| {
        file.iter().for_each(|file| settings.set_env_file(&id, file.clone()));
        init_timeout.iter().for_each(|limit| settings.set_init_timeout(&id, *limit));
        host_terminal.iter().for_each(|to| settings.set_host_terminal(&id, *to == Switch::On));
        host_files.iter().for_each(|to| settings.set_host_files(&id, *to == Switch::On));
        env.iter().try_for_each(|name| {
            settings.remember_env(&id, name).map(drop).map_err(|error| {
                let name = name.split('=').next().filter(|name| !name.is_empty()).unwrap_or("API_KEY");
                usage(format!("{error}, and only the name is kept"))
                    .hint(format!("agentline agent set {id} --env {name}"))
            })
        })
    };
    find::change_settings(&found.discovery.folders, remember)??;
    let names = (!env.is_empty()).then(|| {
        format!("{} where it is started by its id alone, as agent check does; run wants -e", env.join(", "))
    });
    let file = file.map(|file| format!("what is in {} from the hub", file.display()));
    let limit = init_timeout.map(|limit| format!("{} for its handshake with the hub", span(limit)));
    let gets: Vec<String> = names.into_iter().chain(file).chain(limit).collect();
    let gets = (!gets.is_empty()).then(|| format!("{id} gets {}", gets.join(", and ")));
    let hosts = [(host_terminal, "runs its commands"), (host_files, "reads and writes files for it")];
    let hosts = hosts.into_iter().filter_map(|(switch, what)| {
        let not = if (*switch)? == Switch::On { "" } else { "no longer " };
        Some(format!("the hub {not}{what}, from its next start on"))
    });
    Ok(gets.into_iter().chain(hosts).collect::<Vec<_>>().join("; "))
}

/// An agent that is here, or one of the registry that may come back: its switches are kept.
fn known(found: &Found, id: &str) -> Result<String, Problem> {
    let entries = &found.discovery.registry.entries;
    match found.agent(id) {
        Ok(agent) => Ok(agent.id.clone()),
        Err(_) if entries.iter().any(|entry| entry.id == id) => Ok(id.into()),
        Err(problem) => Err(problem),
    }
}

fn carry_out(store: &Store) -> Result<(), Problem> {
    agentline_os::store::carry_out(store).map_err(|errno| cannot_write(&store.path, io::Error::from(errno)))
}

fn cannot_write(path: &Path, error: io::Error) -> Problem {
    Problem::new(Phase::Discovery, Kind::Internal, format!("cannot write {}: {error}", path.display()))
}

fn not_found(message: String) -> Problem {
    Problem::new(Phase::Discovery, Kind::NotFound, message)
}

fn done(said: &str, format: Format) -> ExitCode {
    #[derive(Serialize)]
    struct Done<'a> {
        message: &'a str,
    }
    output::print(&match format {
        Format::Text => format!("{said}\n"),
        Format::Json => object("ok", &Done { message: said }),
    })
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::En => Self::English,
            Lang::Zh => Self::Chinese,
        }
    }
}
