//! `hub call`: one command to any server of the control protocol, and its answer as it comes.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use agentline_core::control::{Answer, Request, galley_socket};
use agentline_core::rpc::Json;
use clap::Args;

use super::client::{Arrival, Stream, Wants};
use super::place;
use super::reach::{Route, To};
use crate::args::{Format, Global, duration};
use crate::output::{In, Notes, Out, Sink, plain, printable, unwritten};
use crate::words::{Kind, Problem, quote};

/// What `--help` says after the options.
pub(super) const HELP: &str = "\
Examples:
  agentline hub call health
  agentline hub call --socket /tmp/galley-501.sock sessions.list '{\"archived\":false}'
  agentline hub call session.watch '{\"sessionId\":\"s1\"}'

Prints the result, or the data of each frame; with --json the server's own lines.

Exit codes:
  0 answered  1 failed  2 wrong arguments  3 not found  4 cannot reach the server
  5 runner trouble  130 ended by Ctrl-C";

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// A dotted name
    command: String,
    /// Its arguments
    #[arg(value_name = "JSON", default_value = "{}", value_parser = json)]
    args: Json,
    /// How long to wait for the answer, or for the first frame of a stream
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "120s")]
    timeout: Duration,
}

fn json(text: &str) -> Result<Json, serde_json::Error> {
    serde_json::from_str(text)
}

/// Sends one request, and shows its answer until that is complete.
pub(super) fn run(args: &Call, to: &To, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let route = to.route()?;
    let wants = Wants { patience: Some(args.timeout), lines: global.format() == Format::Json };
    let link = to.connect(&route, wants).map_err(|problem| match &route {
        Route::Own(_) if place::is_absent(&problem) => problem.hint(others()),
        Route::Own(_) | Route::Socket(_) | Route::Host { .. } => problem,
    })?;
    let request = Request { command: args.command.clone(), args: Some(args.args.clone()) };
    let mut stream = link.heeding()?.call(request)?;
    let mut show = Show { out: Out::default(), is_terminal: io::stdout().is_terminal(), global, notes };
    loop {
        let done = match stream.heard() {
            Ok(Arrival::Line(line)) => {
                show.out.write(&format!("{line}\n"));
                None
            }
            Ok(Arrival::Answer(answer)) => show.answer(&answer),
            Ok(Arrival::Noise(..)) if global.format() == Format::Json => None,
            Ok(Arrival::Noise(why, line)) => {
                notes.line(&format!("! {why}: {}", plain(&quote(&line))));
                None
            }
            Err(problem) if problem.kind == Kind::Cancelled => Some(problem.exit_code()),
            Err(problem) => {
                // What came before is shown before the problem; that nobody reads it is no other problem.
                let _ = show.out.flush();
                return Err(problem);
            }
        };
        let flushed = if done.is_some() || !stream.is_ready() { show.out.flush() } else { Ok(()) };
        match (done, flushed) {
            (_, Err(error)) => return Ok(unwritten(&error, stream.link.signal().unwrap_or(0), notes)),
            (Some(code), Ok(())) => return Ok(read(code, &mut show, &stream)),
            (None, Ok(())) => {}
        }
    }
}

/// Waits until all is read. The exit code, unless a signal or a stdout that fails has another one.
fn read(code: u8, show: &mut Show<'_>, stream: &Stream) -> ExitCode {
    let flushed = show.out.flush();
    Sink::ours().settle(None);
    let signal = stream.link.signal();
    match flushed.and_then(|()| show.out.flush()) {
        Err(error) => unwritten(&error, signal.unwrap_or(0), show.notes),
        Ok(()) => ExitCode::from(signal.unwrap_or(code)),
    }
}

/// Shows answers and frames as they come.
struct Show<'a> {
    out: Out,
    is_terminal: bool,
    global: Global,
    notes: &'a Notes,
}

impl Show<'_> {
    /// Shows one, and returns the exit code if it was the last.
    fn answer(&mut self, answer: &Answer) -> Option<u8> {
        match (self.global.format(), answer) {
            // Its line was shown as it came.
            (Format::Json, _) => {}
            (Format::Text, Answer::Reply(json) | Answer::Frame(json)) => {
                let json = if self.is_terminal { printable(json.get()) } else { json.get().into() };
                self.out.write(&format!("{json}\n"));
            }
            (Format::Text, Answer::Fail(failure)) => {
                let cross = In(self.notes.paint().bad, "✗");
                let said = quote(&failure.message);
                self.notes.line(&format!("{cross} {} ({})", plain(&said), plain(failure.tag.as_str())));
            }
            (Format::Text, Answer::End(_)) if self.global.quiet => {}
            (Format::Text, Answer::End(reason)) => {
                self.notes.line(&format!("◦ the stream has ended: {}", plain(&quote(reason))));
            }
        }
        match answer {
            Answer::Reply(_) | Answer::End(_) => Some(0),
            Answer::Fail(failure) => Some(failure.tag.exit_code()),
            Answer::Frame(_) => None,
        }
    }
}

/// Nobody was chosen, and nobody is there: the user may have meant another one.
fn others() -> String {
    let us = rustix::process::getuid().as_raw();
    let galley = galley_socket(std::env::var_os("TMPDIR").as_deref(), us);
    match galley.exists() {
        true => format!("--socket {}, the Galley that is there", galley.display()),
        false => "agentline hub start, or --socket PATH of any server of the control protocol".to_owned(),
    }
}
