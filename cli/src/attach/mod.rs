//! `agentline attach …`: speak into a session that runs in another terminal.

pub(crate) mod leftovers;
mod peer;

use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agentline_blocking::{Driver, Handle};
use agentline_core::Cause;
use agentline_core::attach::caller::{self, Caller};
use agentline_core::attach::canceller::{self, Canceller};
use agentline_core::attach::client::{self, Failure};
use agentline_core::attach::{Answer, Session, Stop, Target, Turn};
use agentline_core::problem::{Kind, Phase, Problem};
use agentline_core::rpc::to_json;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::args::{Format, Global, duration, id};
use crate::failure::explain;
use crate::output::{self, EXPIRED, In, Notes, Sink, columns, object, plain, table};
use crate::prompt::usage;
use crate::signals::{self, Ask};
pub(crate) use peer::Peers;

#[derive(Debug, Subcommand)]
pub(crate) enum Attach {
    /// Show the sessions of this machine
    #[command(after_help = "Example: agentline attach list")]
    List,
    /// Say something, wait for the turn, print its answer
    #[command(after_help = "\
Example: agentline attach send proj-7f \"run the tests\"

Exit codes: 0 answered, 1 not answered in time or refused, 2 usage, 3 no such session, 4 cannot be reached,
124 --timeout expired, 130 cancelled.")]
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
    /// Its peer id or the beginning of it, its name, its socket, or `-` for a notify event on stdin
    #[arg(value_parser = id)]
    peer: String,
    /// Where its token is [default: beside its socket]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    #[command(flatten)]
    to: To,
    /// The words; `-`, or nothing when stdin is no terminal, reads them from stdin
    text: Option<String>,
    /// The session's own id, to be sure that it is the one that is meant
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// How long to wait for the answer; the turn goes on [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

pub(crate) fn run(verb: &Attach, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    match verb {
        Attach::List => list(global.format(), notes),
        Attach::Send(send) => say(send, global, notes),
        Attach::Cancel(to) => cancel(&to.target()?).map(|()| done(global.format())),
        Attach::Load(to) => load(&to.target()?, global.format()),
        Attach::Ping(to) => {
            let call = Call::new(&to.target()?, client::Command::Ping)?;
            call.answer()?;
            Ok(done(global.format()))
        }
    }
}

impl To {
    fn target(&self) -> Result<Target, Problem> {
        peer::target(&self.peer, self.token_file.as_deref())
    }
}

fn list(format: Format, notes: &Notes) -> Result<ExitCode, Problem> {
    let peers = Peers::look()?;
    if peers.iter().next().is_none() {
        notes.line(&format!("{} {}", In(notes.paint().dim, "◦"), peers.nothing()));
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

fn load(target: &Target, format: Format) -> Result<ExitCode, Problem> {
    let call = Call::new(target, client::Command::Load { session: None })?;
    match call.answer()? {
        Answer::Session(session) => Ok(output::print(&match format {
            Format::Json => object("session", &session),
            Format::Text => {
                let Session { session_id, cwd, busy } = &*session;
                let busy = if *busy { "yes" } else { "no" };
                format!("session  {}\ncwd      {}\nbusy     {busy}\n", plain(session_id), plain(cwd))
            }
        })),
        Answer::Turn(_) | Answer::Done {} => Err(Failure::Unreadable.problem()),
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

fn cancel(target: &Target) -> Result<(), Problem> {
    let config = canceller::Config { target: target.clone(), session: None };
    let driver = Driver::<Canceller>::new(config).map_err(|error| internal(&error))?;
    driver.last().unwrap_or(Err(Failure::Closed(Cause::Gone))).map_err(|failure| failure.problem())
}

/// What came of what was said.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    outcome: &'static str,
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a str>,
    elapsed_ms: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Problem>,
}

fn say(send: &Send, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let began = Instant::now();
    let text = send.text()?;
    let prompt = client::Command::Prompt { session: send.session.clone(), text };
    let call = Call::new(&send.to.target()?, prompt)?;
    let ends = call.obey(send.timeout, notes)?;
    let answer = call.answer();

    let ended = ends.load(Ordering::Relaxed);
    let (turn, problem) = match answer {
        Ok(Answer::Turn(turn)) => (Some(turn), None),
        Ok(Answer::Session(_) | Answer::Done {}) => (None, Some(Failure::Unreadable.problem())),
        Err(_) if ended == EXPIRED => (None, Some(expired())),
        Err(problem) => (None, Some(problem).filter(|problem| problem.kind != Kind::Cancelled)),
    };
    let (outcome, code) = match (turn.as_ref().map(|turn| &turn.stop), &problem) {
        (Some(Stop::EndTurn), _) => ("completed", 0),
        (Some(Stop::Cancelled), _) => ("aborted", 130),
        (Some(Stop::Pending), _) => ("pending", 1),
        (Some(Stop::Other(_)), _) => ("error", 1),
        (None, Some(problem)) => ("error", problem.exit_code()),
        (None, None) => ("aborted", ended),
    };
    let shown = match global.format() {
        Format::Json => output::print(&object(
            "result",
            &Outcome {
                outcome,
                stop_reason: turn.as_ref().map(|turn| turn.stop.as_str()),
                answer: turn.as_ref().and_then(|turn| turn.answer.as_deref()),
                elapsed_ms: began.elapsed().as_millis(),
                error: problem.as_ref(),
            },
        )),
        Format::Text => show(turn.as_ref(), problem.as_ref(), global.quiet, notes),
    };
    // What ended us while nobody read the answer.
    let late = Some(ends.load(Ordering::Relaxed)).filter(|late| ended == 0 && *late > 0);
    Ok(match late {
        Some(late) => ExitCode::from(late),
        None if shown == ExitCode::SUCCESS => ExitCode::from(code),
        None => shown,
    })
}

fn expired() -> Problem {
    let said = "the turn took longer than --timeout, and goes on";
    Problem::new(Phase::Prompt, Kind::Timeout, said).hint("agentline attach cancel")
}

fn show(turn: Option<&Turn>, problem: Option<&Problem>, quiet: bool, notes: &Notes) -> ExitCode {
    let note = match (turn.map(|turn| &turn.stop), problem) {
        (_, Some(problem)) => Some(explain(problem, notes.paint())),
        (Some(Stop::EndTurn), None) => None,
        (Some(Stop::Cancelled) | None, None) => Some("◦ cancelled".to_owned()),
        (Some(Stop::Pending), None) => {
            Some("! it was taken, but the end of its turn was not seen".to_owned())
        }
        (Some(Stop::Other(word)), None) => Some(format!("! it ended as {}", plain(word))),
    };
    if let Some(note) = note
        && !(quiet && problem.is_none())
    {
        notes.line(&note);
    }
    match turn.and_then(|turn| turn.answer.as_deref()) {
        Some(answer) if answer.ends_with('\n') => output::print(answer),
        Some(answer) => output::print(&format!("{answer}\n")),
        None => ExitCode::SUCCESS,
    }
}

impl Send {
    fn text(&self) -> Result<String, Problem> {
        let text = match self.text.as_deref() {
            Some(text) if text != "-" => text.to_owned(),
            _ if self.to.peer == "-" => {
                return Err(usage("stdin holds the event, so the words must be given"));
            }
            None if io::stdin().is_terminal() => return Err(usage("nothing to say")),
            Some(_) | None => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).map_err(|error| usage(format!("stdin: {error}")))?;
                text
            }
        };
        if text.trim().is_empty() { Err(usage("nothing to say")) } else { Ok(text) }
    }
}

/// One request on a connection of its own.
struct Call {
    driver: Driver<Caller>,
    ask: Option<client::Command>,
}

impl Call {
    fn new(target: &Target, ask: client::Command) -> Result<Self, Problem> {
        let driver = Driver::<Caller>::new(target.clone()).map_err(|error| internal(&error))?;
        Ok(Self { driver, ask: Some(ask) })
    }

    /// Leaves when the time is over or a signal says so. The exit code of that, once it happened.
    fn obey(&self, timeout: Option<Duration>, notes: &Notes) -> Result<Arc<AtomicU8>, Problem> {
        let ends = Arc::new(AtomicU8::new(0));
        let (end, notes) = (Arc::clone(&ends), notes.clone());
        signals::on_each(self.driver.handle(), move |call, ask| match ask {
            Ask::Interrupt if call.command(caller::Command::Cancel).is_ok() => {
                notes.over("◦ cancelling; Ctrl-C again does not wait");
            }
            Ask::Interrupt => leave(call, 130, &end),
            Ask::Terminate => leave(call, 143, &end),
            Ask::HangUp => leave(call, 129, &end),
        })
        .map_err(|error| internal(&error))?;
        if let Some(timeout) = timeout {
            let (call, end) = (self.driver.handle(), Arc::clone(&ends));
            thread::spawn(move || {
                thread::sleep(timeout);
                leave(&call, EXPIRED, &end);
            });
        }
        Ok(ends)
    }

    fn answer(self) -> Result<Answer, Problem> {
        let Self { mut driver, mut ask } = self;
        let mut answered = None;
        while let Some(event) = driver.next() {
            match event {
                caller::Event::Said(client::Event::Ready(_)) => {
                    let asked = ask.take().map(|ask| driver.command(caller::Command::Ask(ask)));
                    if let Some(Err(refused)) = asked {
                        answered.get_or_insert(Err(usage(refused.to_string())));
                        leave_now(&driver.handle());
                    }
                }
                caller::Event::Said(client::Event::Answered(answer)) => {
                    answered.get_or_insert(answer.map_err(|failure| failure.problem()));
                    leave_now(&driver.handle());
                }
                caller::Event::Said(client::Event::Closed(closed)) => {
                    answered.get_or_insert(Err(closed.cause.problem()));
                }
                caller::Event::Said(client::Event::Noticed(_)) | caller::Event::Cancelled(_) => {}
            }
        }
        answered.unwrap_or_else(|| Err(Cause::Gone.problem()))
    }
}

fn leave(call: &Handle<Caller>, code: u8, ends: &AtomicU8) {
    // The first reason counts.
    let _ = ends.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    Sink::ours().hurry();
    leave_now(call);
}

/// Refused when it is leaving already.
fn leave_now(call: &Handle<Caller>) {
    let _ = call.command(caller::Command::Ask(client::Command::Shutdown));
}

fn internal(error: &io::Error) -> Problem {
    Problem::new(Phase::Connect, Kind::Internal, error.to_string())
}
