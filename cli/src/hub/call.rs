//! `hub call`: one command to any server of the control protocol, and its answer as it comes.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use agentline_blocking::{Driver, Handle};
use agentline_core::control::client::{Command, Config, Event, Greeting};
use agentline_core::control::{Answer, Client, Failure, Fault, Request, galley_socket};
use agentline_core::discovery::Folders;
use agentline_core::rpc::Json;
use agentline_core::{Address, Cause, OpenError, Refused, Tag};
use clap::Args;

use super::client::far;
use super::place::{Serving, unreachable};
use super::reach::{Route, To};
use crate::args::{Format, Global, duration};
use crate::output::{In, News, Notes, Out, Sink, plain, printable, span, unwritten};
use crate::prompt::usage;
use crate::signals::{self, Ask};
use crate::words::{Kind, Phase, Problem, quote};

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
    let server = Server { route: to.route()?, timeout: args.timeout };
    let request = Request { command: args.command.clone(), args: Some(args.args.clone()) };
    let config = Config {
        answer: Some(args.timeout),
        tells_lines: global.format() == Format::Json,
        ..server.config(to)?
    };
    let greeted = config.greeted;
    let ends = Arc::default();
    let mut driver = start(config, &ends)
        .map_err(|error| Problem::new(Phase::Connect, Kind::Internal, error.to_string()))?;
    if !greeted {
        ask(&driver, &request)?;
    }
    let mut show = Show { out: Out::default(), is_terminal: io::stdout().is_terminal(), global, notes };
    while let Some(event) = driver.next() {
        let done = match event {
            Event::Greeted(greeting) => {
                let Greeting { hub, reason, .. } = *greeting;
                if hub == 0 {
                    let why = reason.unwrap_or_else(|| "no hub runs there".into());
                    return Err(unreachable(plain(&why)));
                }
                ask(&driver, &request)?;
                None
            }
            Event::Line(line) => {
                show.out.write(&format!("{line}\n"));
                None
            }
            Event::Answered(_, answer) => show.answer(&answer),
            Event::Lost(_, Cause::Left) => Some(ends.load(Ordering::Relaxed)),
            Event::Lost(_, lost) => {
                // What came before is shown before the problem; that nobody reads it is no other problem.
                let _ = show.out.flush();
                return Err(server.lost(&lost));
            }
            Event::Unexpected { .. } if global.format() == Format::Json => None,
            Event::Unexpected { why, line } => {
                notes.line(&format!("! {why}: {}", plain(&quote(&line))));
                None
            }
            Event::Closed(closed) => match closed.cause {
                Cause::Failed(_) => return Err(server.lost(&closed.cause)),
                Cause::Gone | Cause::Fault(_) if server.route.is_far() => {
                    return Err(far(
                        &server.route.name(),
                        closed.obituary.exit,
                        &closed.obituary.stderr_tail,
                    ));
                }
                Cause::Left | Cause::Gone | Cause::Fault(_) => None,
            },
        };
        let flushed = if done.is_some() || !driver.is_ready() { show.out.flush() } else { Ok(()) };
        match (done, flushed) {
            (_, Err(error)) => return Ok(unwritten(&error, ends.load(Ordering::Relaxed), notes)),
            (Some(code), Ok(())) => return Ok(read(code, &mut show, &ends)),
            (None, Ok(())) => {}
        }
    }
    Ok(read(0, &mut show, &ends))
}

fn ask(driver: &Driver<Client>, request: &Request) -> Result<(), Problem> {
    match driver.command(Command::Call(Tag::default(), request.clone())) {
        // Where nobody listens it is over already, and the last event says so.
        Ok(()) | Err(Refused::Closed) => Ok(()),
        Err(refused) => Err(usage(refused.to_string())),
    }
}

/// Waits until all is read. The exit code, unless a signal or a stdout that fails has another one.
fn read(code: u8, show: &mut Show<'_>, ends: &AtomicU8) -> ExitCode {
    let flushed = show.out.flush();
    Sink::ours().settle(None);
    let signal = ends.load(Ordering::Relaxed);
    match (flushed.and_then(|()| show.out.flush()), signal) {
        (Err(error), _) => unwritten(&error, signal, show.notes),
        (Ok(()), 0) => ExitCode::from(code),
        (Ok(()), 1..) => ExitCode::from(signal),
    }
}

/// Connects. `ends`: the exit code, if a signal ends us: closing the connection is how a stream is cancelled.
fn start(config: Config, ends: &Arc<AtomicU8>) -> io::Result<Driver<Client>> {
    let driver = Driver::<Client>::new(config)?;
    let ends = Arc::clone(ends);
    signals::on_each(driver.handle(), move |client: &mut Handle<Client>, ask| {
        let code = match ask {
            Ask::Interrupt => 130,
            Ask::Terminate => 143,
            Ask::HangUp => 129,
        };
        ends.store(code, Ordering::Relaxed);
        // Refused when it is over, and what we wait for is that stdout is read.
        let _ = client.command(Command::Close);
        Sink::ours().hurry();
    })?;
    let client = driver.handle();
    Sink::ours().watch(move |news| match news {
        News::Full => client.hold(true),
        News::Room => client.hold(false),
        News::Gone => {
            let _ = client.command(Command::Close);
        }
    });
    Ok(driver)
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

/// Whom we talk to.
struct Server {
    route: Route,
    timeout: Duration,
}

impl Server {
    fn config(&self, to: &To) -> Result<Config, Problem> {
        match &self.route {
            Route::Own(folders) => match Serving::read(folders) {
                Some(serving) => Ok(Config::connect(Address(serving.here()?.control))),
                None => Err(no_hub(folders)),
            },
            Route::Socket(path) => Ok(Config::connect(Address(path.clone()))),
            Route::Host { .. } => to.far_config(&self.route, false),
        }
    }

    /// Why no answer comes, and what to try.
    fn lost(&self, lost: &Cause<Fault>) -> Problem {
        let absent = matches!(lost, Cause::Failed(OpenError::NotFound | OpenError::Refused));
        match (&self.route, lost) {
            (Route::Own(folders), Cause::Failed(_)) if absent => no_hub(folders),
            (route, Cause::Failed(error)) => {
                unreachable(format!("cannot connect to {}: {error}", route.name()))
            }
            (_, Cause::Fault(Fault::TimedOut)) => {
                let limit = span(self.timeout);
                unreachable(format!("the server does not answer within {limit} (--timeout)"))
            }
            (_, Cause::Left | Cause::Gone | Cause::Fault(_)) => unreachable(Failure::from(lost).message),
        }
    }
}

/// Nobody was chosen, and nobody is there: the user may have meant another one.
fn no_hub(folders: &Folders) -> Problem {
    let us = rustix::process::getuid().as_raw();
    let galley = galley_socket(std::env::var_os("TMPDIR").as_deref(), us);
    unreachable(format!("no hub runs in {}", folders.state.path.display())).hint(match galley.exists() {
        true => format!("--socket {}, the Galley that is there", galley.display()),
        false => "agentline hub start, or --socket PATH of any server of the control protocol".to_owned(),
    })
}
