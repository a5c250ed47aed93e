//! `agentline trace`: recorded runs, written and looked at.

mod file;
mod kind;
mod reading;
mod said;
mod show;
mod span;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(crate) use file::Trace;

use self::kind::Kind;
use self::reading::{Reading, Row};
use crate::args::{Global, id};
use crate::output::Notes;
use crate::prompt;
use crate::words::Problem;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Print a recorded run, one line for each thing that happened
    #[command(after_help = "\
Examples:
  agentline run --trace run.trace \"fix it\" && agentline trace show run.trace
  agentline trace show run.trace --kind turn,tool,permission
  agentline trace show run.trace --json | jq 'select(.took > 1000000)'

The columns: seconds since the start, who is spoken to, what was said. `app` is the application that drives the machine,
`peer` the agent, client or server at the other end.")]
    Show(Show),
    /// Write a recorded run as one page for a browser
    #[command(after_help = "\
Examples:
  agentline trace view run.trace            writes run.trace.html
  agentline trace view run.trace -o run.html --session s1

The page is complete in itself: no network, nothing to install. It holds what the trace holds, so give it to those
only who may read that.")]
    View(View),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// What `--trace` has written
    trace: PathBuf,
    #[command(flatten)]
    choice: Choice,
}

#[derive(Debug, Args)]
pub(crate) struct View {
    /// What `--trace` has written
    trace: PathBuf,
    /// The page [default: the trace's name and .html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    choice: Choice,
}

/// What of a trace is wanted.
#[derive(Debug, Args)]
struct Choice {
    /// Of these sessions only
    #[arg(long, value_name = "ID", value_parser = id, value_delimiter = ',')]
    session: Vec<String>,
    /// Of these kinds only [default: all but flow]
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<Kind>,
}

impl Choice {
    fn is_wanted(&self, row: &Row) -> bool {
        let of_kind = if self.kind.is_empty() { row.kind.is_shown() } else { self.kind.contains(&row.kind) };
        of_kind && self.is_of_session(row)
    }

    fn is_of_session(&self, row: &Row) -> bool {
        self.session.is_empty() || row.session.as_ref().is_some_and(|id| self.session.contains(id))
    }

    /// The same for a page, which can show and hide by itself: without a choice all of it.
    fn is_listed(&self, row: &Row) -> bool {
        self.is_wanted(row) || self.kind.is_empty() && !row.kind.is_shown() && self.is_of_session(row)
    }

    /// What it was chosen from, for whoever has chosen nothing.
    fn all(&self, rows: usize) -> String {
        let kinds =
            if self.kind.is_empty() { "; --kind flow shows how bytes are read and written" } else { "" };
        format!("{rows} rows{kinds}")
    }
}

/// Does it.
pub(crate) fn run(verb: &Verb, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    match verb {
        Verb::Show(args) => show::run(args, global, notes),
        Verb::View(args) => view::run(args, global, notes),
    }
}

/// The bytes of a trace, and what they say.
fn read(path: &Path) -> Result<(Vec<u8>, Reading), Problem> {
    let file = prompt::read("trace", path, LARGEST)?;
    let reading = Reading::new(&file).map_err(|damage| {
        let hint = "agentline run --trace FILE \"hello\" writes one";
        prompt::of_file("trace", path, format_args!("is no trace: {damage}")).hint(hint)
    })?;
    Ok((file, reading))
}

/// Bytes of a trace that is looked at: what fits into memory a few times.
const LARGEST: usize = 1 << 30;
