//! `agentline session …`: sessions that outlive a command, from any terminal.

mod attach;
mod change;
mod fresh;
mod list;
mod row;
mod said;
mod screen;
mod show;
mod stored;
mod talk;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use agentline_core::hub::api::{Policy, SessionBrief, SessionsList, Status};
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;

use crate::args::{Global, duration, id};
use crate::completions;
use crate::hub::{Link, To};
use crate::output::Notes;
use crate::words::{Kind, Phase, Problem};

pub(crate) use row::{age, called};
pub(crate) use said::{by, over};
pub(crate) use screen::frame_line;

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(flatten)]
    to: To,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a session, which goes on when this command is over
    #[command(after_help = "\
Examples:
  agentline session new --agent gemini -n login \"fix the flaky login test\"
  id=$(agentline session new -q \"…\") && agentline session wait \"$id\"
  agentline session new --follow \"…\"            and watch it until it ends

Prints its id and nothing else. A hub is started if none runs. Without text, what is piped in is the prompt; without
either, the session is only opened.

Exit codes: 0 it runs  2 usage  4 no hub  5 agent trouble  7 needs a login; with --follow those of `session wait`")]
    New(Box<New>),
    /// Show the sessions of this machine; without a hub, those that are stored
    #[command(
        alias = "ls",
        after_help = "\
Examples:
  agentline session list
  agentline session list --here --status running
  agentline session list --host all
  agentline session list --fresh --agent gemini"
    )]
    List(List),
    /// Join a session: what was said last, and then as in a chat
    #[command(
        alias = "join",
        after_help = "\
Examples:
  agentline session attach            the newest session of this folder
  agentline session attach s3

A line is a prompt, and waits while a turn runs. /cancel, /queue and /quit are commands; Ctrl-C cancels the turn, Ctrl-D
leaves, and the session goes on."
    )]
    Attach(One),
    /// Say something to a session; it waits its turn
    #[command(after_help = "\
Examples:
  agentline session send s3 \"and now the docs\"
  git diff | agentline session send last -
  agentline session send login \"…\" --follow

Held prompts are released. Where the agent has asked for words, this is the answer.")]
    Send(Box<Send>),
    /// Watch sessions as they run: one, several, or all
    #[command(after_help = "\
Examples:
  agentline session watch
  agentline session watch s3 --tail 20

Ctrl-C stops looking; the sessions go on.")]
    Watch(Watch),
    /// Print the messages of a session
    #[command(after_help = "\
Examples:
  agentline session show s3
  agentline session show s3 --last >answer.md")]
    Show(Show),
    /// Wait until a session has nothing to do
    #[command(
        alias = "await",
        after_help = "\
Example: agentline session wait s3 --timeout 30m

Exit codes:
  0 completed, or it never ran  1 failed, or only held prompts wait  3 not found  4 the hub is gone
  5 agent trouble  7 needs a login  8 a question waits for an answer  124 --timeout  130 cancelled"
    )]
    Wait(Wait),
    /// Cancel what runs; prompts that wait are held
    #[command(aliases = ["stop", "kill"], after_help = "Example: agentline session cancel s3")]
    Cancel(One),
    /// Say the last prompt once more, if it failed, was cancelled, or never was sent
    #[command(after_help = "Example: agentline session retry s3")]
    Retry(Retry),
    /// End the session in its agent; its row stays, and the next prompt opens it again
    #[command(after_help = "Example: agentline session close s3")]
    Close(Named),
    /// Close a session and take it out of the lists
    #[command(after_help = "Example: agentline session archive s3")]
    Archive(Named),
    /// Put an archived session back
    #[command(after_help = "Example: agentline session restore s3")]
    Restore(Named),
    /// Forget a session, here and where its agent can
    #[command(
        alias = "rm",
        after_help = "\
Examples:
  agentline session delete s3
  agentline session delete --fresh --agent gemini 0f9c…"
    )]
    Delete(Delete),
    /// Begin a new session as another one stands, at its agent
    #[command(after_help = "Example: agentline session fork --fresh --agent claude-code 0f9c…")]
    Fork(Fork),
    /// Give a session a name
    #[command(after_help = "Example: agentline session rename s3 login")]
    Rename(Rename),
    /// Choose a model, a mode, an option, or who answers its permissions
    #[command(after_help = "\
Examples:
  agentline session set s3 --model big
  agentline session set s3 -p allow")]
    Set(Set),
    /// Show the prompts that wait, take some back, or let them go
    #[command(after_help = "\
Examples:
  agentline session queue s3
  agentline session queue s3 --drop 12
  agentline session queue s3 --go")]
    Queue(Queue),
    /// Open a session again that an agent has stored
    #[command(after_help = "\
Examples:
  agentline session load s3
  agentline session load --agent gemini 0f9c… -C ~/proj")]
    Load(Load),
}

#[derive(Debug, Args)]
struct New {
    #[command(flatten)]
    talk: Talk,
    /// The agent [default: AGENTLINE_AGENT, else `agent default`]
    #[arg(long, value_name = "ID", value_parser = id, add = ArgValueCandidates::new(completions::agents))]
    agent: Option<String>,
    /// The workspace [default: the current directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// A name for it
    #[arg(short, long, value_name = "NAME", value_parser = id)]
    name: Option<String>,
    /// Who answers its permission requests [default: ask]
    #[arg(short, long, value_enum, value_name = "WHO")]
    permission: Option<Who>,
    /// Choose a model
    #[arg(long, value_name = "ID", value_parser = id)]
    model: Option<String>,
    /// Join it at once
    #[arg(long, conflicts_with = "follow")]
    attach: bool,
    /// The first prompt; `-` reads it from stdin
    text: Option<String>,
}

#[derive(Debug, Args)]
struct Send {
    #[command(flatten)]
    talk: Talk,
    /// The session: id, name, or `last`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: String,
    /// The words; `-`, or nothing, reads them from stdin
    text: Option<String>,
}

/// What goes with a prompt.
#[derive(Debug, Args)]
struct Talk {
    /// Watch it until this prompt is over
    #[arg(long)]
    follow: bool,
    /// Send a picture along (PNG, JPEG, GIF, WebP)
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// A variable for the agent's next start; NAME alone passes ours on
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<std::ffi::OsString>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Who {
    /// You, from any terminal
    Ask,
    /// The hub allows, once each time; what has no such option is asked
    Allow,
    /// The hub rejects
    Reject,
}

impl From<Who> for Policy {
    fn from(who: Who) -> Self {
        match who {
            Who::Ask => Self::Ask,
            Who::Allow => Self::Allow,
            Who::Reject => Self::Reject,
        }
    }
}

#[derive(Debug, Default, Args)]
struct List {
    /// Archived ones and those of more than 7 days ago as well
    #[arg(short, long)]
    all: bool,
    /// Those of that agent
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(completions::agents))]
    agent: Option<String>,
    /// Ask that agent itself, in a fresh process, and no hub
    #[arg(long, requires = "agent", conflicts_with_all = ["all", "status"])]
    fresh: bool,
    /// Those that stand there: running, waiting_approval, completed, error, …
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<Status>,
    /// Those of this folder
    #[arg(long)]
    here: bool,
    /// At most so many [default: 50 on a terminal]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, Args)]
struct One {
    /// The session: id, name, or `last` [default: last, the newest of this folder]
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: Option<String>,
}

#[derive(Debug, Args)]
struct Named {
    /// The session: id, name, or `last`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: String,
}

#[derive(Debug, Args)]
struct Watch {
    /// The sessions [default: all]
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: Vec<String>,
    /// The agents' thoughts as well
    #[arg(long)]
    thoughts: bool,
    /// With --json: the agent's own words of each event as well
    #[arg(long)]
    raw: bool,
    /// So many of the last messages first
    #[arg(long, value_name = "N", default_value_t)]
    tail: usize,
}

#[derive(Debug, Args)]
struct Show {
    /// The session: id, name, or `last` [default: last]
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: Option<String>,
    /// Only so many of the last messages
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    /// The agent's last message and nothing else
    #[arg(long, conflicts_with = "tail")]
    last: bool,
    /// Only what the hub remembers: no agent is started for what it does not
    #[arg(long)]
    no_load: bool,
}

#[derive(Debug, Args)]
struct Wait {
    /// The session: id, name, or `last` [default: last]
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: Option<String>,
    /// At most so long [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Go on waiting while a question is open
    #[arg(long)]
    through_questions: bool,
}

#[derive(Debug, Args)]
struct Retry {
    /// The session: id, name, or `last`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: String,
    /// Watch it until it is over
    #[arg(long)]
    follow: bool,
}

#[derive(Debug, Args)]
struct Delete {
    /// The session: id or name
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: String,
    /// Ask nothing
    #[arg(short, long)]
    yes: bool,
    /// Ask --agent itself, in a fresh process, and no hub; the session goes by the agent's own id
    #[arg(long, requires = "agent")]
    fresh: bool,
    /// With --fresh: which agent
    #[arg(long, value_name = "ID", requires = "fresh", add = ArgValueCandidates::new(completions::agents))]
    agent: Option<String>,
}

#[derive(Debug, Args)]
struct Fork {
    /// The session, by the agent's own id
    #[arg(value_parser = id)]
    id: String,
    /// Ask the agent itself, in a fresh process
    #[arg(long, required = true)]
    fresh: bool,
    /// Which agent
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(completions::agents))]
    agent: String,
}

#[derive(Debug, Args)]
struct Rename {
    /// The session: id, name, or `last`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: String,
    /// The new name
    #[arg(value_parser = id)]
    name: String,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["model", "mode", "set", "permission"])))]
struct Set {
    /// The session: id, name, or `last`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: String,
    /// Choose a model
    #[arg(long, value_name = "ID", value_parser = id)]
    model: Option<String>,
    /// Choose a mode
    #[arg(long, value_name = "ID", value_parser = id)]
    mode: Option<String>,
    /// Set another option
    #[arg(long, value_name = "OPTION=VALUE", value_parser = crate::args::pair)]
    set: Option<(String, String)>,
    /// Who answers its permission requests from here on
    #[arg(short, long, value_enum, value_name = "WHO")]
    permission: Option<Who>,
}

#[derive(Debug, Args)]
struct Queue {
    /// The session: id, name, or `last`
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::sessions))]
    id: String,
    /// Take prompts back: one by its number, or `all`
    #[arg(long, value_name = "N|all", conflicts_with = "go")]
    drop: Option<String>,
    /// Send them, oldest first
    #[arg(long)]
    go: bool,
}

#[derive(Debug, Args)]
struct Load {
    /// The session of the hub, or with --agent the agent's own id of it
    #[arg(value_parser = id)]
    id: String,
    /// The agent that has it
    #[arg(long, value_name = "ID", value_parser = id, add = ArgValueCandidates::new(completions::agents))]
    agent: Option<String>,
    /// Its workspace, with --agent [default: the current directory]
    #[arg(short = 'C', long, value_name = "DIR", requires = "agent")]
    cwd: Option<PathBuf>,
    /// A variable for the agent's next start; NAME alone passes ours on
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: &Sessions, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let to = &args.to;
    let done = Desk { to, global, notes };
    match &args.verb {
        None => done.list(&List::default()),
        Some(Verb::List(List { fresh: true, agent: Some(agent), here, limit, .. })) => {
            done.list_fresh(agent, *here, *limit)
        }
        Some(Verb::List(args)) => done.list(args),
        Some(Verb::New(args)) => done.open(args),
        Some(Verb::Send(args)) => done.send(args),
        Some(Verb::Retry(args)) => done.retry(args),
        Some(Verb::Load(args)) => done.load(args),
        Some(Verb::Attach(One { id })) => attach::run(&done, id.as_deref()),
        Some(Verb::Watch(args)) => done.watch(args),
        Some(Verb::Show(args)) => done.show(args),
        Some(Verb::Wait(args)) => done.wait(args),
        Some(Verb::Cancel(One { id })) => done.cancel(id.as_deref()),
        Some(Verb::Close(Named { id })) => done.close(id),
        Some(Verb::Archive(Named { id })) => done.archive(id),
        Some(Verb::Restore(Named { id })) => done.restore(id),
        Some(Verb::Delete(Delete { fresh: true, agent: Some(agent), id, .. })) => {
            done.delete_fresh(agent, id)
        }
        Some(Verb::Delete(args)) => done.delete(args),
        Some(Verb::Fork(Fork { agent, id, .. })) => done.fork_fresh(agent, id),
        Some(Verb::Rename(args)) => done.rename(args),
        Some(Verb::Set(args)) => done.set(args),
        Some(Verb::Queue(args)) => done.queue(args),
    }
}

/// What every verb of these has.
pub(crate) struct Desk<'a> {
    pub(crate) to: &'a To,
    pub(crate) global: Global,
    pub(crate) notes: &'a Notes,
}

/// A session, at its hub.
pub(crate) struct At {
    pub(crate) link: Link,
    pub(crate) id: String,
}

impl Desk<'_> {
    /// The hub of a session that is named, or the newest of this folder. `starts`: a hub is started if none runs.
    fn at(&self, id: Option<&str>, patience: Option<Duration>, starts: bool) -> Result<At, Problem> {
        let (route, id) = self.to.of(id.unwrap_or(LAST))?;
        let mut link = match starts {
            true => self.to.start(&route, patience, self.notes)?,
            false => self.to.reach(&route, patience)?,
        };
        link.tell_version(self.notes);
        let id = if id == LAST { last(&mut link)? } else { id };
        Ok(At { link, id })
    }
}

/// The newest session of this folder.
fn last(link: &mut Link) -> Result<String, Problem> {
    let cwd = folder(link, None)?;
    let rows: Vec<SessionBrief> =
        link.ask(&SessionsList { cwd: Some(cwd.clone()), limit: Some(1), ..SessionsList::default() })?;
    rows.into_iter().next().map(|row| row.id).ok_or_else(|| {
        let message = format!("no session in {cwd}");
        Problem::new(Phase::Session, Kind::NotFound, message).hint("agentline session list")
    })
}

/// A workspace as the hub is told of it: here the real path, and on another machine the same place below its home.
pub(crate) fn folder(link: &Link, given: Option<&std::path::Path>) -> Result<String, Problem> {
    if !link.route.is_far() {
        let path = crate::workspace::Workspace::of(given)?.path;
        return Ok(path.to_string_lossy().into_owned());
    }
    if let Some(given) = given {
        return Ok(given.to_string_lossy().into_owned());
    }
    let here = crate::workspace::Workspace::of(None)?.path;
    let home = crate::find::home()?;
    let home = home.canonicalize().unwrap_or(home);
    let there = match (here.strip_prefix(&home), &link.home) {
        (Ok(rest), Some(home)) => std::path::Path::new(home).join(rest),
        (Ok(_) | Err(_), _) => here.clone(),
    };
    Ok(there.to_string_lossy().trim_end_matches('/').to_owned())
}

fn status(text: &str) -> Result<Status, String> {
    serde_json::from_value(text.replace('-', "_").into()).map_err(|_| {
        "it is none of idle, connecting, running, waiting_approval, completed, cancelled, error, archived"
            .into()
    })
}

/// The newest session of this folder, as it is typed.
const LAST: &str = "last";
/// For an answer that needs no agent.
const SHORT: Option<Duration> = Some(Duration::from_secs(30));
