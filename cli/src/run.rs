//! `agentline run`: one prompt, one fresh child, one answer.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use agentline_blocking::{Driver, Handle, guardian};
use agentline_core::acp::Update;
use agentline_core::problem::{Kind, Phase, Problem};
use agentline_core::subagent::{Command, Event, Finished, Outcome, Policy, Run};
use agentline_core::trace::{Recording, Tap, Tapped, Traced};

use crate::args::{self, Format, Global};
use crate::ask::Asker;
use crate::failure::{Advice, Whose};
use crate::output::{Json, Notes, Screen, Start, Text, Tools};
use crate::plan::{Plan, Task, about};
use crate::signals::{self, Ask};

/// Runs it. A problem that is returned is one of the command line; all others are part of the result.
pub(crate) fn run(args: &args::Run, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let began = Instant::now();
    let task = Task::new(args)?;
    let trace = args.trace.as_deref().map(|file| Trace::new(file, notes)).transpose()?;
    if !global.quiet {
        for name in &task.unset {
            notes.line(&format!("! {} is not set here: the agent does not get it", name.display()));
        }
    }
    let mut start = Start::unknown(args);
    let plan = task.plan(args, &mut start);
    let (whose, plan) = match plan {
        Ok(Plan { whose, config, secrets }) => (whose, Ok((config, secrets))),
        Err(problem) => (Whose::Theirs, Err(problem)),
    };
    let advice = Rc::new(Advice {
        whose,
        withheld: start.withheld.clone(),
        policy: about(args.permission),
        words: std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
    });
    let screen: Box<dyn Screen> = match global.format() {
        Format::Json => Box::new(Json::new(notes.clone(), global.quiet)),
        Format::Text => Box::new(Text::new(notes.clone(), global.quiet, Rc::clone(&advice))),
    };
    if global.format() == Format::Json
        && !global.quiet
        && let Some(line) = advice.next_steps()
    {
        notes.line(&format!("◦ demo agent (built in: no model, no key); {line}"));
    }
    let mut show = Show { screen, advice, start: Some(start), logins: Vec::new(), began, gone: None };
    let (config, secrets) = match plan {
        Ok(plan) => plan,
        Err(problem) => return Ok(show.failed(problem)),
    };
    if args.dry_run {
        return Ok(show.dry_run());
    }
    let asks = config.policy == Policy::Ask;
    let recording =
        trace.is_some().then(|| Recording { channel: "acp".into(), role: "subagent".into(), secrets });
    guardian::arm();
    let driver = match Driver::<Tap<Run>>::new(Tapped { config, recording }) {
        Ok(driver) => driver,
        Err(error) => return Ok(show.failed(internal(&error))),
    };
    let asker = asks.then(|| asker(args, notes, driver.handle())).transpose();
    let ends = Arc::new(AtomicU8::new(0));
    match (asker, obey_signals(driver.handle(), Arc::clone(&ends))) {
        (Ok(asker), Ok(())) => {
            let finished = show.drive(driver, asker, trace);
            Ok(show.exit_code(finished, ends.load(Ordering::Relaxed), notes))
        }
        (Err(error), _) | (_, Err(error)) => Ok(show.failed(internal(&error))),
    }
}

/// A run as it is shown.
struct Show {
    screen: Box<dyn Screen>,
    advice: Rc<Advice>,
    /// Until it is shown.
    start: Option<Start>,
    /// The agent's own ways to log in.
    logins: Vec<String>,
    began: Instant,
    /// Why nobody reads any more.
    gone: Option<io::Error>,
}

impl Show {
    /// Shows what happens until the child is gone; the exit code of the result.
    fn drive(&mut self, mut driver: Driver<Tap<Run>>, mut asker: Option<Asker>, mut trace: Option<Trace>) -> u8 {
        let mut tools = Tools::default();
        let mut code = 0;
        while let Some(told) = driver.next() {
            let event = match told {
                Traced::Event(event) => event,
                Traced::Line(line) => {
                    if let Some(trace) = &mut trace {
                        trace.write(&line);
                    }
                    continue;
                }
            };
            let mut urgent = false;
            match event {
                Event::Started(peer) => self.started(peer.pid),
                Event::PermissionAsked(asked) => {
                    self.screen.told(Event::PermissionAsked(asked.clone()));
                    self.flush(&driver);
                    if let Some(asker) = &mut asker {
                        let known = tools.get(&asked.asked.tool_call.tool_call_id);
                        asker.ask(*asked, known);
                    }
                }
                Event::Finished(finished) => {
                    code = finished.exit_code();
                    self.finished(*finished);
                    urgent = true;
                }
                event => {
                    match (&event, &mut asker) {
                        (Event::PermissionDecided(decision), Some(asker)) => asker.decided(decision.request),
                        (Event::Updated(updated), Some(_)) => learn(&mut tools, &updated.update),
                        (Event::Ready(ready), _) => self.logins = Advice::logins(ready),
                        _ => {}
                    }
                    self.screen.told(event);
                }
            }
            if urgent || !driver.is_ready() || self.screen.is_full() {
                self.flush(&driver);
            }
        }
        code
    }

    fn started(&mut self, pid: Option<u32>) {
        if let Some(start) = self.start.take() {
            self.screen.started(&start, pid);
        }
    }

    fn finished(&mut self, mut finished: Finished) {
        // There is no result without a start.
        self.started(None);
        if let Some(problem) = &mut finished.error {
            self.advice.improve(problem, &self.logins);
        }
        self.screen.finished(&finished, self.began.elapsed());
    }

    /// The run came to nothing before anything was started.
    fn failed(mut self, problem: Problem) -> ExitCode {
        let finished = ended(Outcome::Error, Some(problem));
        let code = finished.exit_code();
        self.finished(finished);
        self.gone = self.screen.flush().err();
        ExitCode::from(code)
    }

    fn dry_run(mut self) -> ExitCode {
        if let Some(start) = self.start.take() {
            self.screen.dry_run(&start);
        }
        match self.screen.flush() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::FAILURE,
            Ok(()) | Err(_) => ExitCode::SUCCESS,
        }
    }

    /// Cancels the run once nobody reads it any more.
    fn flush(&mut self, driver: &Driver<Tap<Run>>) {
        if let Err(error) = self.screen.flush()
            && self.gone.is_none()
        {
            self.gone = Some(error);
            // Refused when the run is over, and then there is nothing to cancel.
            let _ = driver.command(Command::Cancel);
        }
    }

    /// A signal counts for more than a reader that is gone, and that for more than the result.
    fn exit_code(&self, finished: u8, signal: u8, notes: &Notes) -> ExitCode {
        match (signal, &self.gone) {
            (1.., _) => ExitCode::from(signal),
            (0, None) => ExitCode::from(finished),
            (0, Some(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            (0, Some(error)) => {
                notes.line(&format!("✗ stdout cannot be written: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}

fn learn(tools: &mut Tools, update: &Update) {
    let id = match update {
        Update::ToolCall(call) => {
            tools.learn(call.clone().into());
            &call.tool_call_id
        }
        Update::ToolCallUpdate(news) => {
            tools.learn(news.clone());
            &news.tool_call_id
        }
        Update::Message(..)
        | Update::Plan(_)
        | Update::AvailableCommands(_)
        | Update::CurrentMode(_)
        | Update::ConfigOptions(_)
        | Update::SessionInfo(_)
        | Update::Usage(_)
        | Update::Other(_) => return,
    };
    tools.ended(id);
}

fn asker(args: &args::Run, notes: &Notes, run: Handle<Tap<Run>>) -> io::Result<Asker> {
    let input: OwnedFd = if args.reads_stdin() {
        File::open("/dev/tty").or_else(|_| File::open("/dev/null"))?.into()
    } else {
        io::stdin().as_fd().try_clone_to_owned()?
    };
    Asker::new(notes.clone(), input, move |request, outcome| {
        // Refused when the question is moot by now.
        let _ = run.command(Command::Answer { request, outcome });
    })
}

/// Ctrl-C cancels, and once more it does not wait; what else wants our end gets it.
fn obey_signals(run: Handle<Tap<Run>>, ends: Arc<AtomicU8>) -> io::Result<()> {
    signals::on_each(run, move |run, ask| {
        let (command, code) = match ask {
            Ask::Interrupt => (Command::Cancel, 0),
            Ask::Terminate => (Command::Dispose, 143),
            Ask::HangUp => (Command::Dispose, 129),
        };
        if code != 0 {
            ends.store(code, Ordering::Relaxed);
        }
        // Refused when the run is over.
        let _ = run.command(command);
    })
}

fn ended(outcome: Outcome, error: Option<Problem>) -> Finished {
    Finished {
        outcome,
        stop_reason: None,
        output: String::new(),
        output_truncated: false,
        permissions: Vec::new(),
        usage: None,
        error,
    }
}

fn internal(error: &io::Error) -> Problem {
    Problem::new(Phase::Spawn, Kind::Internal, error.to_string())
}

/// The file of `--trace`. Only we may read it: masks or not, it holds what was said.
struct Trace {
    file: BufWriter<File>,
    notes: Notes,
    broken: bool,
}

impl Trace {
    fn new(path: &Path, notes: &Notes) -> Result<Self, Problem> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = file.map_err(|error| crate::prompt::usage(format!("{}: {error}", path.display())))?;
        Ok(Self { file: BufWriter::new(file), notes: notes.clone(), broken: false })
    }

    fn write(&mut self, line: &str) {
        if !self.broken
            && let Err(error) = writeln!(self.file, "{line}")
        {
            self.broken = true;
            self.notes.line(&format!("! the trace ends here: {error}"));
        }
    }
}
