//! `agentline run`: one prompt, one fresh child, one answer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use crate::words::{Kind, Phase, Problem, Verb};
use agentline_core::Open;
use agentline_core::acp::session::AuthMethod;
use agentline_core::subagent::{Command, Event, Policy, Questions, Run};
use agentline_core::trace::{Masks, Recording, Tap, Tapped, Traced};
use agentline_os::workspace;

use crate::approval::{self, Elsewhere};
use crate::args::Permission;
use crate::args::{self, Format, Global};
use crate::ask::{Answer, Asker};
use crate::driver::{Driver, Handle};
use crate::failure::Advice;
use crate::guard;
use crate::login;
use crate::output::{Json, News, Notes, Screen, Sink, Start, Text};
use crate::plan::{self, Plan, Task, about};
use crate::show::Show;
use crate::signals::{Ask, Calls, Signals};
use crate::trace::Trace;

/// Runs it. A problem that is returned is one of the command line; all others are part of the result.
pub(crate) fn run(args: &args::Run, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let began = Instant::now();
    let task = Task::new(args, notes)?;
    let trace = if args.dry_run { None } else { args.record.file()? };
    if !global.quiet {
        task.variables.warn(notes);
    }
    let mut start = Start::unknown(&args.child);
    let known = task.secrets();
    let schema = task.schema.clone();
    let plan = task.plan(args, global.format() == Format::Json, &mut start);
    let masks = Rc::new(Masks::new(plan.as_ref().map_or(&known, |plan| &plan.secrets)));
    let bare = start.clone();
    start.mask(&masks);
    let advice = Rc::new(Advice {
        whose: plan.as_ref().map(|plan| plan.whose.clone()).unwrap_or_default(),
        verb: Verb::Run,
        start: start.clone(),
        policy: about(args.consent.permits.permission),
        by_default: args.consent.permits.permission.is_none(),
        guards: plan::guards(args.consent.permits.permission),
        verbose: args.child.verbose,
        last: args.last || schema.is_some(),
        schema,
        masks,
        words: std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
    });
    let attempt = Attempt { args, global, notes, advice, start, began };
    // A trace is of one child.
    let offers = trace.is_none() && plan::is_interactive() && global.format() == Format::Text;
    let again = plan.as_ref().ok().filter(|_| offers).cloned();
    let (code, end) = attempt.make(plan, trace);
    if let Some(End { logins, calls }) = end
        && let Some(mut plan) = again
        && let Open::Spawn(spec) = &plan.config.conversation.client.open
        && let Some(login) = login::offer(spec, &bare, &logins, notes)
    {
        calls.end();
        let conversation = &mut plan.config.conversation;
        conversation.login = login.or(conversation.login.take());
        return Ok(attempt.make(Ok(plan), None).0);
    }
    Ok(code)
}

/// One child that is given the task.
struct Attempt<'a> {
    args: &'a args::Run,
    global: Global,
    notes: &'a Notes,
    advice: Rc<Advice>,
    start: Start,
    began: Instant,
}

impl Attempt<'_> {
    /// The exit code, and how it ended if there was a child.
    fn make(&self, plan: Result<Plan, Problem>, trace: Option<Trace>) -> (ExitCode, Option<End>) {
        let Self { args, global, notes, advice, start, began } = self;
        let screen: Box<dyn Screen> = match global.format() {
            Format::Json => Box::new(Json::new((*notes).clone(), global.quiet, advice)),
            Format::Text => Box::new(Text::new((*notes).clone(), global.quiet, Rc::clone(advice))),
        };
        let mut show = Show::new(screen, Rc::clone(advice), start.clone(), *began);
        let ends = Arc::default();
        let mut end = None;
        let asks_elsewhere = args.consent.permits.permission == Some(Permission::Hub) && !args.dry_run;
        let plan = plan.and_then(|plan| match asks_elsewhere {
            true => approval::begin(notes).map(|()| plan),
            false => Ok(plan),
        });
        match plan {
            Err(problem) => show.failed(problem),
            Ok(_) if args.dry_run => show.dry_run(),
            Ok(plan) => match drive(args, plan, trace, notes, &ends, &mut show) {
                Ok(ended) => end = Some(ended),
                Err(error) => show.failed(Problem::new(Phase::Spawn, Kind::Internal, error.to_string())),
            },
        }
        (show.exit_code(&ends, args.timeout.map(|timeout| *began + timeout), notes), end)
    }
}

/// How a child ended.
struct End {
    /// The ways to log in, if that is what was missing.
    logins: Vec<AuthMethod>,
    /// Who obeys signals.
    calls: Calls,
}

/// Starts the child, and shows what happens until it is gone. `ends`: the exit code, if a signal ends us.
fn drive(
    args: &args::Run,
    plan: Plan,
    mut trace: Option<Trace>,
    notes: &Notes,
    ends: &Arc<AtomicU8>,
    show: &mut Show,
) -> io::Result<End> {
    let Plan { config, secrets, .. } = plan;
    let cwd = config.conversation.setup.cwd.clone();
    let mut logins = Vec::new();
    let asks = config.conversation.policy == Policy::Ask || config.conversation.questions == Questions::Ask;
    let recording =
        trace.is_some().then(|| Recording { channel: "acp".into(), role: "subagent".into(), secrets });
    guard::arm(notes);
    // Before a child is there: from here on a signal is a wish, and not our end.
    let signals = Signals::catch()?;
    let calls = signals.calls();
    let mut driver = Driver::<Tap<Run>>::new(args.runtime, Tapped { config, recording })?;
    obey_signals(signals, driver.handle(), notes.clone(), Arc::clone(ends))?;
    obey_reader(driver.handle());
    if args.consent.permits.permission == Some(Permission::Hub) {
        // Refused when the question is moot by now.
        let run = Arc::new(driver.handle());
        let answer = move |request, answer: Answer| {
            let _ = run.command(answer.of_run(request));
        };
        let asker =
            Elsewhere::new(cwd, notes, answer).map_err(|problem| io::Error::other(problem.message))?;
        show.ask(Box::new(asker));
    } else if asks {
        show.ask(Box::new(asker(args, notes, driver.handle())?));
    }
    while let Some(told) = driver.next() {
        if let Traced::Event(Event::Finished(finished)) = &told {
            logins = finished.logins().to_vec();
        }
        match (told, &mut trace) {
            (Traced::Event(Event::FileWanted(wanted)), _) => {
                let (request, done) = (wanted.request, workspace::carry_out(&wanted));
                // Refused when nobody waits for it any more.
                let _ = driver.command(Command::FileDone { request, done });
            }
            (Traced::Event(event @ Event::Finished(_)), Some(trace)) => {
                show.warn(trace.flush());
                show.told(event);
            }
            (Traced::Event(Event::Answered(answered)), _) => {
                // Refused when the run has ended meanwhile.
                let _ = driver.handle().command(show.judge(&answered));
            }
            (Traced::Event(event), _) => show.told(event),
            (Traced::Line(line), Some(trace)) => show.warn(trace.write(&line)),
            (Traced::Line(_), None) => {}
        }
        if show.is_urgent() || !driver.is_ready() {
            show.flush();
        }
    }
    show.warn(trace.and_then(|mut trace| trace.flush()));
    Ok(End { logins, calls })
}

/// Ctrl-C cancels, and once more it does not wait; what else wants our end gets it.
fn obey_signals(
    signals: Signals,
    run: Handle<Tap<Run>>,
    notes: Notes,
    ends: Arc<AtomicU8>,
) -> io::Result<()> {
    let mut first = true;
    signals.on_each(run, move |run, ask| {
        // Refused when the run is over.
        let _ = match ask {
            Ask::Interrupt if std::mem::take(&mut first) && run.command(Command::Cancel).is_ok() => {
                Sink::ours().press(true);
                notes.over("◦ cancelling; Ctrl-C again does not wait for the agent");
                Ok(())
            }
            // Also when there is nothing to cancel any more, and the agent takes its time.
            Ask::Interrupt => {
                // The end must be heard, whoever reads.
                Sink::ours().press(true);
                notes.over("◦ ending the agent");
                run.command(Command::Hasten).inspect_err(|_| {
                    // It is over, and nobody reads the rest.
                    if Sink::ours().abandon() {
                        ends.store(130, Ordering::Relaxed);
                    }
                })
            }
            Ask::Terminate | Ask::HangUp => {
                ends.store(if ask == Ask::Terminate { 143 } else { 129 }, Ordering::Relaxed);
                Sink::ours().hurry();
                run.command(Command::Dispose)
            }
        };
    })
}

/// A reader that is behind is waited for, and one that is gone cancels.
fn obey_reader(run: Handle<Tap<Run>>) {
    Sink::ours().watch(move |news| {
        match news {
            News::Full => run.hold(true),
            News::Room => run.hold(false),
            News::Gone => {
                // Refused when the run is over, and then there is nothing to cancel.
                let _ = run.command(Command::Cancel);
            }
        }
        true
    });
}

/// Asks at our stdin, or at the terminal where stdin is the prompt.
fn asker(args: &args::Run, notes: &Notes, run: Handle<Tap<Run>>) -> io::Result<Asker> {
    let input: OwnedFd = if args.reads_stdin() {
        File::open("/dev/tty").or_else(|_| File::open("/dev/null"))?.into()
    } else {
        io::stdin().as_fd().try_clone_to_owned()?
    };
    Asker::new(notes.clone(), input, move |request, answer| {
        // Refused when the question is moot by now.
        let _ = run.command(answer.of_run(request));
    })
}
