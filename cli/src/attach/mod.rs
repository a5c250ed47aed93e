//! `agentline attach …`: speak into a session that runs in another terminal.

mod call;
pub(crate) mod leftovers;
mod peer;
mod send;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::words::{Problem, command_line};
use agentline_core::Cause;
use agentline_core::attach::canceller::{self, Canceller};
use agentline_core::attach::client::{self, Failure};
use agentline_core::attach::{Answer, Session, Target};
use agentline_core::rpc::to_json;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use crate::args::{Format, Global, id};
use crate::completions;
use crate::output::{self, In, Notes, columns, object, plain, table};
use crate::trace::{Record, Recorded};
use call::{Call, internal};
pub(crate) use peer::{Peers, is_running, target};
use send::Send;

#[derive(Debug, Subcommand)]
pub(crate) enum Attach {
    /// Show the sessions of this machine
    #[command(after_help = "Example: agentline attach list")]
    List,
    /// Say something, wait for the turn, print its answer
    #[command(after_help = "\
Example: agentline attach send proj-7f \"run the tests\"

Ctrl-C and SIGTERM cancel the turn, a second one does not wait for that; without its terminal (SIGHUP) it leaves
and the turn goes on.

Exit codes: 0 answered, 1 the turn failed, was refused or its end was not seen, 2 usage, 3 no such session,
4 cannot be reached, 124 --timeout expired, 130 cancelled.")]
    Send(Send),
    /// Cancel the turn that runs
    #[command(after_help = "Example: agentline attach cancel proj-7f")]
    Cancel(To),
    /// Show what the session says of itself
    #[command(after_help = "Example: agentline attach load proj-7f")]
    Load(To),
    /// Ask whether the session is there
    #[command(after_help = "Example: agentline attach ping proj-7f")]
    Ping(To),
}

/// Which session.
#[derive(Debug, Args)]
pub(crate) struct To {
    /// Its peer id, session id (8 letters of it are enough) or name, the beginning of one, its socket, or `-` for a
    /// notify event on stdin
    #[arg(value_parser = id, add = ArgValueCandidates::new(completions::peers))]
    peer: String,
    /// Where its token is [default: beside its socket]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    record: Record,
}

pub(crate) fn run(verb: &Attach, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    match verb {
        Attach::List => list(global.format(), notes),
        Attach::Send(send) => send::say(send, global, notes),
        Attach::Cancel(to) => cancel(to, notes).map(|()| done(global.format())),
        Attach::Load(to) => load(to, global.format(), notes),
        Attach::Ping(to) => {
            let call = Call::new(&to.target()?, client::Command::Ping, &to.record, notes)?;
            call.answer()?;
            Ok(done(global.format()))
        }
    }
}

impl To {
    fn target(&self) -> Result<Target, Problem> {
        target(&self.peer, self.token_file.as_deref())
    }

    /// The command line that cancels its turn.
    fn cancel(&self, target: &Target) -> String {
        let peer = match &*self.peer {
            "-" => target.socket.0.to_string_lossy().into_owned(),
            peer => peer.to_owned(),
        };
        let mut words = ["agentline", "attach", "cancel", &peer].map(str::to_owned).to_vec();
        if let Some(file) = &self.token_file {
            words.extend(["--token-file".to_owned(), file.to_string_lossy().into_owned()]);
        }
        command_line(&words)
    }
}

fn list(format: Format, notes: &Notes) -> Result<ExitCode, Problem> {
    let peers = Peers::look()?;
    if peers.iter().next().is_none() {
        notes.line(&format!("{} {}", In(notes.paint().dim, "◦"), peers.nothing()));
    } else {
        peers.foreign().for_each(|theirs| notes.line(&format!("! {theirs}")));
    }
    Ok(output::print(&match (format, columns(io::stdout())) {
        (Format::Json, _) => {
            peers.iter().enumerate().map(|(at, peer)| json("peer", at == 0, &peer)).collect()
        }
        (Format::Text, Some(columns)) if peers.iter().next().is_some() => {
            let header = ["ID", "NAME", "STATE", "PID", "CWD", "SOCKET"].map(str::to_owned);
            table(&[vec![header], peers.rows()].concat(), columns)
        }
        (Format::Text, _) => peers.rows().iter().map(|row| row.join("\t") + "\n").collect(),
    }))
}

/// One of several objects.
fn json<T: Serialize>(kind: &'static str, first: bool, body: &T) -> String {
    #[derive(Serialize)]
    struct Next<'a, T> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        body: &'a T,
    }
    if first { object(kind, body) } else { to_json(&Next { kind, body }) + "\n" }
}

fn load(to: &To, format: Format, notes: &Notes) -> Result<ExitCode, Problem> {
    let call = Call::new(&to.target()?, client::Command::Load { session: None }, &to.record, notes)?;
    match call.answer()? {
        Answer::Session(session) => Ok(output::print(&match format {
            Format::Json => object("session", &session),
            Format::Text => {
                let Session { session_id, cwd, busy } = &*session;
                let busy = if *busy { "yes" } else { "no" };
                format!("session  {}\ncwd      {}\nbusy     {busy}\n", plain(session_id), plain(cwd))
            }
        })),
        Answer::Turn(_) | Answer::Done {} => Err(Problem::from(&Failure::Unreadable)),
    }
}

fn done(format: Format) -> ExitCode {
    #[derive(Serialize)]
    struct Nothing {}
    output::print(&match format {
        Format::Json => object("ok", &Nothing {}),
        Format::Text => "ok\n".to_owned(),
    })
}

fn cancel(to: &To, notes: &Notes) -> Result<(), Problem> {
    let config = canceller::Config { target: to.target()?, session: None };
    let secrets = vec![config.target.secret()];
    let trace = to.record.file()?;
    let driver = Recorded::<Canceller>::new(config, ("attach", "canceller"), secrets, trace, notes)
        .map_err(|error| internal(&error))?;
    driver.last().unwrap_or(Err(Failure::Closed(Cause::Gone))).map_err(|failure| Problem::from(&failure))
}
