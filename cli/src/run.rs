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
use agentline_core::problem::{Kind, Phase, Problem};
use agentline_core::subagent::{Command, Event, Finished, Outcome, Policy, Run};
use agentline_core::trace::{Recording, Tap, Tapped, Traced};

use crate::args::{self, Format, Global};
use crate::ask::Asker;
use crate::failure::{Advice, Whose};
use crate::output::{Json, Notes, Screen, Start, Text};
use crate::plan::{Plan, Task, about};
use crate::signals::{self, Ask};

/// Runs it. A problem that is returned is one of the command line; all others are part of the result.
pub(crate) fn run(args: &args::Run, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let began = Instant::now();
    let task = Task::new(args)?;
    let trace = args.trace.as_deref().map(|file| Trace::new(file, notes)).transpose()?;
    if !global.quiet {
        for name in &task.variables.unset {
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
        && let Some(steps) = advice.next_steps()
    {
        notes.line(&format!("◦ demo agent (built in: no model, no key); try: {}", steps.join(" · ")));
    }
    let mut show = Show { screen, advice, start: Some(start), asker: None, began, gone: None };
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
    let ends = Arc::new(AtomicU8::new(0));
    let asker = asks.then(|| asker(args, notes, driver.handle())).transpose();
    let ready = asker.and_then(|asker| {
        show.asker = asker;
        obey_signals(driver.handle(), notes.clone(), Arc::clone(&ends))
    });
    if let Err(error) = ready {
        return Ok(show.failed(internal(&error)));
    }
    let code = show.drive(driver, trace);
    Ok(show.exit_code(code, ends.load(Ordering::Relaxed), notes))
}

/// A run as it is shown.
struct Show {
    screen: Box<dyn Screen>,
    advice: Rc<Advice>,
    /// Until it is shown.
    start: Option<Start>,
    asker: Option<Asker>,
    began: Instant,
    /// Why nobody reads any more.
    gone: Option<io::Error>,
}

impl Show {
    /// Shows what happens until the child is gone; the exit code of the result.
    fn drive(&mut self, mut driver: Driver<Tap<Run>>, mut trace: Option<Trace>) -> u8 {
        let mut code = 0;
        while let Some(told) = driver.next() {
            match told {
                Traced::Event(Event::Finished(finished)) => {
                    code = finished.exit_code();
                    self.finished(*finished);
                    self.flush(&driver);
                }
                Traced::Event(event) => self.told(event),
                Traced::Line(line) => {
                    if let Some(trace) = &mut trace {
                        trace.write(&line);
                    }
                }
            }
            if !driver.is_ready() || self.screen.is_full() {
                self.flush(&driver);
            }
        }
        code
    }

    fn told(&mut self, event: Event) {
        match event {
            Event::Started(peer) => return self.started(peer.pid),
            Event::PermissionAsked(asked) => {
                self.screen.before_question();
                if let Some(asker) = &mut self.asker {
                    asker.ask(*asked);
                }
                return;
            }
            Event::Updated(ref updated) => {
                if let Some(asker) = &mut self.asker {
                    asker.learn(&updated.update);
                }
            }
            Event::PermissionDecided(ref decision) => {
                if let Some(asker) = &mut self.asker {
                    asker.decided(decision.request);
                }
            }
            Event::Ready(_)
            | Event::SessionOpened(_)
            | Event::Line(_)
            | Event::Text(_)
            | Event::Stderr(_)
            | Event::Noticed(_)
            | Event::Finished(_)
            | Event::Closed(_) => {}
        }
        self.screen.told(event);
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
            self.advice.improve(problem);
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
fn obey_signals(run: Handle<Tap<Run>>, notes: Notes, ends: Arc<AtomicU8>) -> io::Result<()> {
    let mut says =
        ["◦ cancelling; Ctrl-C again does not wait for the agent", "◦ ending the agent"].into_iter();
    signals::on_each(run, move |run, ask| {
        // Refused when the run is over.
        let _ = match ask {
            Ask::Interrupt => {
                notes.over(says.next().unwrap_or_default());
                run.command(Command::Cancel)
            }
            Ask::Terminate | Ask::HangUp => {
                ends.store(if ask == Ask::Terminate { 143 } else { 129 }, Ordering::Relaxed);
                run.command(Command::Dispose)
            }
        };
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
