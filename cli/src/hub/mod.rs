//! `agentline hub …`: the one process of a user that has all sessions of a machine, and any other server of the control
//! protocol from outside.

mod call;
mod client;
pub(crate) mod errands;
mod feed;
mod host;
mod log;
mod manage;
mod notify;
mod pipe;
mod place;
mod reach;
pub(crate) mod records;
mod run;
mod start;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::{Global, duration};
use crate::output::Notes;
use crate::words::Problem;

pub(crate) use call::Call;

pub(crate) use client::{Close, Link, Said, Stream, Wants};
pub(crate) use feed::{Again, Heard, follow, is_loss};
pub(crate) use host::{HostVerb, run as hosts};
pub(crate) use manage::{counted, look_again, yes};
pub(crate) use place::is_absent;
pub(crate) use reach::{Route, To};
pub(crate) use worker::{Job, Worker};

#[derive(Debug, Args)]
pub(crate) struct Hub {
    #[command(flatten)]
    to: To,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show how the hub is, which is what `agentline hub` alone does
    #[command(after_help = "\
Example: agentline hub status

Exit codes: 0 it runs  4 it does not")]
    Status,
    /// Start the hub of this user, where none runs; commands that need one do that by themselves
    #[command(after_help = "Example: agentline hub start")]
    Start,
    /// Stop the hub: turns end, prompts that wait stay stored, agents leave
    #[command(after_help = "\
Examples:
  agentline hub stop
  agentline hub stop --when-idle

On a terminal it names the turns that would be cut short, and asks. Where none runs there is nothing to do.")]
    Stop(Stop),
    /// Stop the hub and start it again, with the environment of this shell
    #[command(after_help = "Example: agentline hub restart --when-idle")]
    Restart(Stop),
    /// Be the hub, in this terminal
    #[command(after_help = "\
Examples:
  agentline hub run
  agentline hub run --json | head -1           where it serves, once it does

Ctrl-C stops it, a second one does not wait for the agents.")]
    Run(Run),
    /// The command that is told when something waits and nobody looks: `notify` in the settings
    #[command(after_help = "Example: agentline hub notify --test")]
    Notify {
        /// Tell it something now
        #[arg(long, required = true)]
        test: bool,
    },
    /// Send one command and print what is answered; a stream is followed to its end
    #[command(after_help = call::HELP)]
    Call(Call),
    /// Carry the hub's control protocol on stdin and stdout: the far end of `--host`
    #[command(after_help = "\
Example: ssh devbox agentline hub pipe

Says first, on one line, who is there: {\"hub\":1,\"version\":\"…\",\"pid\":…}, or {\"hub\":0,\"reason\":\"…\"}.")]
    Pipe {
        /// Start a hub where none runs
        #[arg(long)]
        start: bool,
    },
}

#[derive(Clone, Copy, Debug, Args)]
struct Stop {
    /// Wait until no turn runs; prompts wait meanwhile
    #[arg(long)]
    when_idle: bool,
    /// Ask nothing
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct Run {
    /// Leave by itself after that time without work and without clients
    #[arg(long, value_name = "TIME", value_parser = duration)]
    leave_after: Option<Duration>,
    /// Do not take in agents that run already and show themselves, as `chat --announce` does [default: as `reverse` of the
    /// settings says]
    #[arg(long)]
    no_reverse: bool,
    /// How often it looks whether its sockets are there
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s", hide = true)]
    look_every: Duration,
    /// Started by another command: stderr is the log
    #[arg(long, hide = true)]
    detached: bool,
}

pub(crate) fn run(args: &Hub, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let to = &args.to;
    match &args.verb {
        None | Some(Verb::Status) => manage::status(to, global, notes),
        Some(Verb::Start) => manage::start(to, global, notes),
        Some(Verb::Stop(stop)) => manage::stop(to, *stop, global, notes),
        Some(Verb::Restart(stop)) => manage::restart(to, *stop, global, notes),
        Some(Verb::Run(run)) => run::run(run, global, notes),
        Some(Verb::Notify { .. }) => notify::test(notes),
        Some(Verb::Call(args)) => call::run(args, to, global, notes),
        Some(Verb::Pipe { start }) => pipe::run(to, *start, notes),
    }
}
