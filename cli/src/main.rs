//! `agentline`: coding agents from the command line.

mod adapters;
mod agents;
mod approval;
mod args;
mod ask;
mod attach;
mod chat;
mod check;
mod completions;
mod consent;
mod demo;
mod driver;
mod failure;
mod find;
mod gateway;
mod guard;
mod hub;
mod login;
mod mcp;
mod misread;
mod nearest;
mod output;
mod plan;
mod prompt;
mod run;
mod schema;
mod scratch;
mod session;
mod show;
mod signals;
mod trace;
mod visit;
mod words;
mod workspace;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use agentline_core::problem::{Kind, Phase};
use anstream::{AutoStream, ColorChoice};
use clap::error::ErrorKind;
use serde::Serialize;

use args::{Color, Format, Verb};
use output::{Notes, Paint, Sink, object};
use words::Problem;

fn main() -> ExitCode {
    completions::answer();
    let code = obey();
    // Whatever was said is still on its way.
    Sink::ours().settle(None);
    code
}

/// Does what the command line says.
fn obey() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = match misread::parse(&words) {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error, &words),
    };
    let paint = Paint::new(match cli.global.color {
        Color::Auto => AutoStream::choice(&io::stderr()) != ColorChoice::Never,
        Color::Always => true,
        Color::Never => false,
    });
    let notes = Notes::new(paint);
    let done = match &cli.verb {
        Verb::Run(args) => run::run(args, cli.global, &notes),
        Verb::Agent(verb) => agents::run(verb, cli.global, &notes),
        Verb::Chat(args) => chat::run(args, cli.global, &notes),
        Verb::Login(args) => login::run(args, cli.global, &notes),
        Verb::Logout(args) => login::out(args, cli.global, &notes),
        Verb::Attach(verb) => attach::run(verb, cli.global, &notes),
        Verb::Hub(args) => hub::run(args, cli.global, &notes),
        Verb::Session(args) => session::run(args, cli.global, &notes),
        Verb::Approval(args) => approval::run(args, cli.global, &notes),
        Verb::Approve(args) => approval::approve(args, cli.global, &notes),
        Verb::Deny(args) => approval::deny(args, cli.global, &notes),
        Verb::Trace(verb) => trace::run(verb, cli.global, &notes),
        Verb::Host(verb) => hub::hosts(verb, cli.global, &notes),
        Verb::Gateway(verb) => gateway::run(verb, cli.global, &notes),
        Verb::DemoAgent(args) => demo::serve(args),
        Verb::DemoRunner(args) => demo::runner::serve(args, &notes),
        Verb::Guardian => guard::serve(),
        Verb::Completions { shell } => completions::script(*shell)
            .map(|script| output::print(&script))
            .map_err(|error| Problem::new(Phase::Usage, Kind::Internal, error.to_string())),
    };
    done.unwrap_or_else(|problem| report(&problem, cli.global.format(), &notes))
}

/// A command that came to nothing.
fn report(problem: &Problem, format: Format, notes: &Notes) -> ExitCode {
    let code = problem.exit_code();
    match format {
        Format::Text => notes.line(&failure::explain(problem, notes.paint())),
        Format::Json => {
            #[derive(Serialize)]
            #[serde(rename_all = "camelCase")]
            struct Failed<'a> {
                error: &'a Problem,
                exit_code: u8,
            }
            output::print(&object("error", &Failed { error: problem, exit_code: code }));
        }
    }
    ExitCode::from(code)
}

/// Help was asked for, or the command line makes no sense.
fn misunderstood(error: &clap::Error, words: &[OsString]) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A reader that is gone has read enough.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let words: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let ours = words.iter().take_while(|word| *word != "--");
    let ours: Vec<&str> = ours.map(String::as_str).collect();
    let wants_json = ours.iter().any(|word| matches!(*word, "--json" | "--format=json"))
        || ours.windows(2).any(|two| two == ["--format", "json"]);
    let format = if wants_json { Format::Json } else { Format::Text };
    let colours = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    report(&misread::problem(error, &words), format, &Notes::new(Paint::new(colours)))
}
