//! `agentline attach send`: words into a session, and the answer of their turn.

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::words::{Kind, Phase, Problem};
use agentline_blocking::Handle;
use agentline_core::Cause;
use agentline_core::attach::caller::{self, Caller};
use agentline_core::attach::client::{self, Failure};
use agentline_core::attach::{Answer, Stop, Turn};
use agentline_core::trace::Tap;
use clap::Args;
use serde::Serialize;

use super::To;
use super::call::{Call, News, internal, leave};
use crate::args::{Format, Global, duration};
use crate::failure::explain;
use crate::output::{self, EXPIRED, Notes, Sink, object, plain, printable};
use crate::prompt::usage;
use crate::signals::{self, Ask};

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

pub(super) fn say(send: &Send, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let began = Instant::now();
    let text = send.text()?;
    let target = send.to.target()?;
    let prompt = client::Command::Prompt { session: send.session.clone(), text };
    let mut call = Call::new(&target, prompt, &send.to.record, notes)?;
    let left = Arc::new(Left::default());
    left.obey(&call.handle(), send.timeout, notes)?;
    let shows_waiting = global.format() == Format::Text && !global.quiet;
    if shows_waiting {
        notes.animate();
        notes.busy("reaching the session");
    }
    let mut shown = None;
    while let Some(news) = call.next() {
        match news {
            News::Sent if shows_waiting => notes.busy("waiting for the end of the turn"),
            News::Sent => {}
            News::Cancelled(Err(failure)) if shown.is_none() => {
                notes.line(&format!("! not cancelled: {}", plain(&Problem::from(&failure).message)));
            }
            News::Cancelled(_) => {}
            News::Refused(problem) => return Err(problem),
            News::Answered(answer) => {
                notes.still();
                leave(&call.handle());
                let told = Told::new(answer, &left, &send.to.cancel(&target));
                let before = left.code();
                let code = told.show(began.elapsed(), global, notes);
                // What ended us while nobody read the answer.
                let late = left.code();
                shown.get_or_insert(if before == 0 && late > 0 { ExitCode::from(late) } else { code });
                // What is said while a cancelled turn winds down nobody would answer: so that is waited for.
                if !left.has_cancelled() {
                    break;
                }
            }
        }
    }
    Ok(shown.unwrap_or(ExitCode::FAILURE))
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

/// Why we stop waiting before the end of the turn, if we do.
#[derive(Debug, Default)]
struct Left {
    /// The exit code of what came first, a signal or the clock; 0: neither.
    code: AtomicU8,
    /// Whether the turn was cancelled for it.
    cancelled: AtomicBool,
}

impl Left {
    /// Cancels when Ctrl-C or SIGTERM says so; leaves at the second one, at SIGHUP, and when the time is over.
    fn obey(
        self: &Arc<Self>,
        call: &Handle<Tap<Caller>>,
        timeout: Option<Duration>,
        notes: &Notes,
    ) -> Result<(), Problem> {
        if let Some(timeout) = timeout {
            let (call, left) = (call.clone(), Arc::clone(self));
            thread::spawn(move || {
                thread::sleep(timeout);
                left.because(EXPIRED);
                Sink::ours().hurry();
                leave(&call);
            });
        }
        let (left, notes) = (Arc::clone(self), notes.clone());
        signals::on_each(call.clone(), move |call, ask| left.asked(call, ask, &notes))
            .map_err(|error| internal(&error))
    }

    fn asked(&self, call: &Handle<Tap<Caller>>, ask: Ask, notes: &Notes) {
        self.because(match ask {
            Ask::Interrupt => 130,
            Ask::Terminate => 143,
            Ask::HangUp => 129,
        });
        // Whoever does not read the answer is not waited for.
        Sink::ours().hurry();
        // Whose terminal is gone has left the room; the turn is shown in another one, and goes on.
        if ask == Ask::HangUp || call.command(caller::Command::Cancel).is_err() {
            return leave(call);
        }
        self.cancelled.store(true, Ordering::Relaxed);
        match ask {
            Ask::Interrupt => notes.over("◦ cancelling; Ctrl-C again does not wait"),
            Ask::Terminate | Ask::HangUp => notes.line("◦ cancelling"),
        }
    }

    /// The first reason counts.
    fn because(&self, code: u8) {
        let _ = self.code.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn code(&self) -> u8 {
        self.code.load(Ordering::Relaxed)
    }

    fn has_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// How the words ended, as far as we saw it.
struct Told {
    outcome: &'static str,
    code: u8,
    stop: Option<Stop>,
    answer: Option<String>,
    problem: Option<Problem>,
    /// For people, where there is no problem.
    note: Option<String>,
}

impl Told {
    /// `cancel`: the command line that ends the turn.
    fn new(answer: Result<Answer, Failure>, left: &Left, cancel: &str) -> Self {
        let failure = match answer {
            Ok(Answer::Turn(turn)) => return Self::of(turn, left.code()),
            Ok(Answer::Session(_) | Answer::Done {}) => Failure::Unreadable,
            Err(failure) => failure,
        };
        let problem = match (&failure, left.code()) {
            (Failure::Unseen(_), EXPIRED) => {
                let said = "the turn took longer than --timeout, and goes on";
                Problem::new(Phase::Prompt, Kind::Timeout, said).prompt_sent().hint(cancel)
            }
            (Failure::Closed(_), EXPIRED) => {
                let said = "the session was not reached within --timeout; nothing was said";
                Problem::new(Phase::Connect, Kind::Timeout, said)
            }
            (Failure::Unseen(Cause::Left), 1..) if left.has_cancelled() => {
                let said = "we left before the session said that the turn is cancelled";
                Problem::new(Phase::Prompt, Kind::Cancelled, said).prompt_sent().hint(cancel)
            }
            (Failure::Unseen(Cause::Left), 1..) => {
                let said = "we left before the end of the turn, which goes on";
                Problem::new(Phase::Prompt, Kind::Cancelled, said).prompt_sent().hint(cancel)
            }
            (Failure::Closed(Cause::Left), 1..) => {
                Problem::new(Phase::Connect, Kind::Cancelled, "we left before anything was said")
            }
            (failure, _) => failure.into(),
        };
        let (outcome, code) = if problem.kind == Kind::Cancelled {
            ("aborted", left.code().max(1))
        } else {
            ("error", problem.exit_code())
        };
        let answer = if let Failure::TurnFailed { answer, .. } = failure { answer } else { None };
        Self { outcome, code, stop: None, answer, problem: Some(problem), note: None }
    }

    fn of(Turn { stop, answer }: Turn, left: u8) -> Self {
        let (outcome, code, note) = match &stop {
            Stop::EndTurn => ("completed", 0, None),
            Stop::Cancelled => {
                ("aborted", if left == 0 { 130 } else { left }, Some("◦ cancelled".to_owned()))
            }
            Stop::Pending => {
                ("pending", 1, Some("! it was taken, but the end of its turn was not seen".to_owned()))
            }
            Stop::Refusal => ("refusal", 1, Some("! the agent refused".to_owned())),
            Stop::MaxTokens => ("max_tokens", 1, Some("! the model's output limit came".to_owned())),
            Stop::MaxTurnRequests => {
                ("error", 1, Some("! too many model requests in one turn (max_turn_requests)".to_owned()))
            }
            Stop::Other(word) => ("error", 1, Some(format!("! it ended as {}", plain(word)))),
        };
        Self { outcome, code, stop: Some(stop), answer, problem: None, note }
    }

    fn show(&self, took: Duration, global: Global, notes: &Notes) -> ExitCode {
        let shown = match global.format() {
            Format::Json => output::print(&object("result", &self.object(took))),
            Format::Text => self.print(global.quiet, notes),
        };
        if shown == ExitCode::SUCCESS { ExitCode::from(self.code) } else { shown }
    }

    fn object(&self, took: Duration) -> impl Serialize {
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
        Outcome {
            outcome: self.outcome,
            stop_reason: self.stop.as_ref().map(Stop::as_str),
            answer: self.answer.as_deref(),
            elapsed_ms: took.as_millis(),
            error: self.problem.as_ref(),
        }
    }

    /// What was answered first, then how it ended.
    fn print(&self, quiet: bool, notes: &Notes) -> ExitCode {
        let printed = self.answer.as_deref().map_or(ExitCode::SUCCESS, |answer| {
            let end = if answer.ends_with('\n') { "" } else { "\n" };
            let answer = if io::stdout().is_terminal() { printable(answer) } else { answer.into() };
            output::print(&format!("{answer}{end}"))
        });
        match (&self.problem, &self.note) {
            (Some(problem), _) => notes.line(&explain(problem, notes.paint())),
            (None, Some(note)) if !quiet => notes.line(note),
            (None, _) => {}
        }
        printed
    }
}
