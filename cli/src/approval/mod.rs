//! `agentline approval …`: the questions of all sessions, answered from any terminal.

mod answer;
mod elsewhere;
mod keys;
mod list;
mod question;
mod watch;

use std::process::ExitCode;

use agentline_core::hub::api::{ApprovalBrief, ApprovalsList};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use crate::args::{Global, id};
use crate::completions;
use crate::hub::{Link, Route, To};
use crate::output::{Notes, plain};
use crate::prompt::usage;
use crate::words::{Kind, Phase, Problem};

pub(crate) use elsewhere::{Elsewhere, begin};
pub(crate) use question::{asked, heading, question, respond};

#[derive(Debug, Args)]
pub(crate) struct Approvals {
    #[command(flatten)]
    to: To,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the questions that are open
    #[command(
        alias = "ls",
        after_help = "\
Examples:
  agentline approval list
  agentline approval list --watch                stays, and takes answers by one key
  agentline approval list --watch --host all"
    )]
    List(List),
    /// Show all of a question: the command, the change, what can be chosen
    #[command(after_help = "Example: agentline approval show a7")]
    Show {
        /// The question [default: the only open one]
        #[arg(value_parser = id, add = ArgValueCandidates::new(completions::approvals))]
        id: Option<String>,
    },
    /// Allow: once, if that is offered
    #[command(after_help = "\
Examples:
  agentline approval allow a7
  agentline approval allow a7 --always

Exit codes: 0 answered  1 somebody was first, or it cannot be allowed  2 usage  3 no such question  4 no hub")]
    Allow(Allow),
    /// Deny: once, if that is offered
    #[command(after_help = "Example: agentline approval deny a7")]
    Deny(Ids),
    /// Answer a question of words
    #[command(after_help = "Example: agentline approval answer a8 \"the second one\"")]
    Answer {
        /// The question
        #[arg(value_parser = id, add = ArgValueCandidates::new(completions::approvals))]
        id: String,
        /// The words; of a form, a JSON object
        text: String,
    },
}

#[derive(Debug, Default, Args)]
struct List {
    /// Stay, and show what comes; on a terminal, one key answers
    #[arg(short, long)]
    watch: bool,
    /// Those of the last 24 hours that are over
    #[arg(long, conflicts_with = "watch")]
    answered: bool,
    /// Those of one session
    #[arg(long, value_name = "ID", value_parser = id, conflicts_with = "watch", add = ArgValueCandidates::new(completions::sessions))]
    session: Option<String>,
}

#[derive(Debug, Args)]
struct Allow {
    #[command(flatten)]
    ids: Ids,
    /// Exactly that option, by its id
    #[arg(long, value_name = "ID", value_parser = id, conflicts_with = "always")]
    option: Option<String>,
    /// For good, if that is offered
    #[arg(long)]
    always: bool,
}

#[derive(Debug, Args)]
struct Ids {
    /// The questions [default: the only open one]
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::approvals))]
    id: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    allow: Allow,
}

#[derive(Debug, Args)]
pub(crate) struct Deny {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    ids: Ids,
}

pub(crate) fn run(args: &Approvals, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let desk = Desk { to: &args.to, global, notes };
    match &args.verb {
        None => desk.list(&List::default()),
        Some(Verb::List(args)) if args.watch => watch::run(&desk),
        Some(Verb::List(args)) => desk.list(args),
        Some(Verb::Show { id }) => desk.show(id.as_deref()),
        Some(Verb::Allow(args)) => desk.allow(args),
        Some(Verb::Deny(args)) => desk.deny(args),
        Some(Verb::Answer { id, text }) => desk.words(id, text),
    }
}

pub(crate) fn approve(args: &Approve, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    Desk { to: &args.to, global, notes }.allow(&args.allow)
}

pub(crate) fn deny(args: &Deny, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    Desk { to: &args.to, global, notes }.deny(&args.ids)
}

/// What every verb of these has.
pub(crate) struct Desk<'a> {
    to: &'a To,
    global: Global,
    notes: &'a Notes,
}

impl Desk<'_> {
    /// The question that is named, or the only open one, at its hub.
    fn find(&self, id: Option<&str>) -> Result<(Link, ApprovalBrief), Problem> {
        let (route, id) = match id {
            Some(id) => self.to.of(id).map(|(route, id)| (route, Some(id)))?,
            None => (self.to.route()?, None),
        };
        let mut link = self.to.reach(&route, SHORT)?;
        link.tell_version(self.notes);
        let open = link.ask(&ApprovalsList::default())?;
        let found = match &id {
            Some(id) => open.into_iter().find(|asked| asked.approval_id == *id),
            None => only(open, &route)?,
        };
        match (found, id) {
            (Some(asked), _) => Ok((link, asked)),
            // It is over, or never was: the hub says which.
            (None, Some(id)) => Ok((link, ApprovalBrief { approval_id: id, ..ApprovalBrief::default() })),
            (None, None) => Err(Problem::new(Phase::Session, Kind::NotFound, "no question is open")
                .hint("agentline session list")),
        }
    }
}

/// The only one, if there is only one.
fn only(open: Vec<ApprovalBrief>, route: &Route) -> Result<Option<ApprovalBrief>, Problem> {
    if open.len() > 1 {
        let ids: Vec<String> = open
            .iter()
            .map(|asked| format!("{} ({})", route.handle(&plain(&asked.approval_id)), plain(&asked.title)))
            .collect();
        let problem = usage(format!("{} questions are open: {}", open.len(), ids.join(", ")));
        return Err(problem.hint("agentline approval list --watch"));
    }
    Ok(open.into_iter().next())
}

/// For an answer that needs no agent.
const SHORT: Option<std::time::Duration> = Some(std::time::Duration::from_secs(30));
