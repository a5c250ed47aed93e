//! `agentline trace`: recorded runs, written and looked at.

mod file;
mod import;
mod kind;
mod reading;
mod recorded;
mod replay;
mod said;
mod show;
mod span;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agentline_core::trace::Damage;
use clap::{Args, Subcommand, ValueEnum};

pub(crate) use file::Trace;
pub(crate) use recorded::{Record, Recorded};

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
    /// Run a recorded run again, in no time and with nothing started, and name the first difference
    #[command(after_help = "\
Examples:
  agentline trace replay run.trace
  agentline trace replay run.trace --line 120     no further than there

The machine of the run gets what it got, and must do what it did. So a trace of an older agentline tells what
this one does otherwise, and a trace of a bug becomes a test.

Exit codes: 0 no difference  1 a difference  2 usage, no trace, or one of a machine that is not known here")]
    Replay(Replay),
    /// Make a trace of a plain capture
    #[command(after_help = "\
Examples:
  agentline trace import capture.ndjson -o run.trace && agentline trace view run.trace

A capture is an object a line: {\"t\": milliseconds, \"dir\": \"in\" | \"out\" | \"err\", \"line\": text}, where `in` goes
to the agent and `out` comes from it. It holds no inputs of ours beside that, so it can be looked at, and not replayed.")]
    Import(Import),
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// What `--trace` has written
    trace: PathBuf,
    /// Up to that line of the file
    #[arg(long, value_name = "N")]
    line: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The capture
    capture: PathBuf,
    /// The trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
    /// The channel that is spoken
    #[arg(long, value_name = "NAME", default_value = "acp", value_parser = id)]
    channel: String,
    /// Which direction is what we said: `in` to look at it as the client of an agent, `out` as the agent
    #[arg(long, value_enum, value_name = "DIR", default_value_t)]
    own: Side,
    /// When it began, in seconds since 1970
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = import::start)]
    start: Duration,
}

/// A direction of a capture.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Side {
    #[default]
    In,
    Out,
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
        Verb::Replay(args) => replay::run(args, global, notes),
        Verb::Import(args) => import::run(args, global, notes),
    }
}

/// The bytes of a trace, and what they say.
fn read(path: &Path) -> Result<(Vec<u8>, Reading), Problem> {
    let file = prompt::read("trace", path, LARGEST)?;
    let reading = Reading::new(&file).map_err(|damage| no_trace(path, &damage))?;
    Ok((file, reading))
}

fn no_trace(path: &Path, damage: &Damage) -> Problem {
    let hint = "agentline run --trace FILE \"hello\" writes one";
    prompt::of_file("trace", path, format_args!("is no trace: {damage}")).hint(hint)
}

/// Bytes of a trace that is looked at: what fits into memory a few times.
const LARGEST: usize = 1 << 30;
