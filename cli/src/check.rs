//! `agentline agent check`: whether an agent can be used. BotBus has the same command (`docs/acp-agents.md`,
//! 自查); where this one differs is said in PROTOCOLS.md.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::time::Duration;

use agentline_blocking::Driver;
use agentline_core::acp::client::Timeouts;
use agentline_core::check::{self, Line};
use agentline_core::discovery::{Environment, Language, inherited};
use agentline_core::problem::{Kind, Phase, Problem};
use agentline_core::subagent::{Command, Event, Outcome, Run};
use agentline_core::{SpawnSpec, Stderr};

use crate::agents::absolute;
use crate::args::{Check, Format, Global};
use crate::failure::Advice;
use crate::find;
use crate::guard;
use crate::output::{Json, News, Notes, Out, Screen, Sink, line};
use crate::plan::{self, DEMO};
use crate::prompt::usage;
use crate::scratch::Scratch;
use crate::show::nothing;
use crate::signals::Signals;

/// Checks it. Whatever keeps the agent from being used is a result, and so is a signal.
pub(crate) fn run(args: &Check, global: Global, notes: &Notes) -> ExitCode {
    let chosen = choose(args);
    let mut sheet = Sheet::new(global.format(), args.lang.into(), chosen.as_ref().ok(), notes);
    let done = chosen.and_then(|mut agent| {
        let inside = agent.id.clone().map_or_else(|| agent.spec.program.clone(), OsString::from);
        agent.spec.env.push((plan::INSIDE.into(), inside.into()));
        drive(agent.spec, args, &mut sheet, notes)
            .map_err(|error| Problem::new(Phase::Spawn, Kind::Internal, error.to_string()))
    });
    if let Err(problem) = done {
        sheet.tell(Event::Finished(Box::new(nothing(Outcome::Error, Some(problem)))));
    }
    sheet.exit_code()
}

/// Starts the agent in a folder of its own. When this returns, both are gone.
fn drive(agent: SpawnSpec, args: &Check, sheet: &mut Sheet, notes: &Notes) -> io::Result<()> {
    guard::arm(notes);
    // A signal must not end us while the folder is there.
    let signals = Signals::catch()?;
    let folder = Scratch::new()?;
    let mut config = check::plan(agent, folder.path(), args.prompt.as_deref());
    config.client.timeouts = Timeouts {
        initialize: Some(args.init_timeout),
        session: Some(args.session_timeout),
        turn: Some(args.timeout),
        ..config.client.timeouts
    };
    config.client.graces = plan::graces(LEAVE);
    let mut driver = Driver::<Run>::new(config)?;
    let mut end = Some(Command::Dispose);
    signals.on_each(driver.handle(), move |run, _| {
        // Refused when the run is over.
        let _ = run.command(end.take().unwrap_or(Command::Hasten));
        Sink::ours().hurry();
    })?;
    let run = driver.handle();
    Sink::ours().watch(move |news| match news {
        News::Full => run.hold(true),
        News::Room => run.hold(false),
        News::Gone => {
            let _ = run.command(Command::Dispose);
        }
    });
    while let Some(event) = driver.next() {
        let is_result = matches!(event, Event::Finished(_));
        sheet.tell(event);
        if (is_result || !driver.is_ready()) && sheet.flush().is_err() {
            let _ = driver.command(Command::Dispose);
        }
    }
    if let Err(error) = folder.close() {
        notes.line(&format!("! {error}"));
    }
    Ok(())
}

/// From the end of the agent's input until SIGTERM.
const LEAVE: Duration = Duration::from_millis(500);

/// The agent that is checked.
struct Agent {
    id: Option<String>,
    spec: SpawnSpec,
}

/// The agent that is meant, as the hub would start it. One that is switched off can be checked all the same.
fn choose(args: &Check) -> Result<Agent, Problem> {
    let ours = inherited(std::env::vars_os());
    match (args.id.as_deref(), &*args.command) {
        (Some(DEMO), _) => {
            Ok(Agent { id: Some(DEMO.into()), spec: spec(plan::ourselves()?, &["demo-agent".into()], ours) })
        }
        (Some(id), _) => installed(id, ours),
        (None, [program, args @ ..]) => Ok(Agent { id: None, spec: spec(absolute(program)?, args, ours) }),
        (None, []) => Err(usage("no agent")),
    }
}

fn installed(id: &str, ours: Environment) -> Result<Agent, Problem> {
    let found = find::look(None)?;
    let agent = found.agent(id)?;
    let launch = found.launch(agent)?;
    let mut env = launch.environment(ours.clone());
    found.discovery.settings.lay_over(&agent.id, &mut env, &ours);
    Ok(Agent { id: Some(agent.id.clone()), spec: spec(&launch.found.program, &launch.args, env) })
}

fn spec(program: impl Into<OsString>, args: &[String], env: Environment) -> SpawnSpec {
    SpawnSpec {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: env.into_iter().collect(),
        stderr: Stderr::Pipe,
        ..SpawnSpec::default()
    }
}

/// What is printed.
struct Sheet<'a> {
    form: Form,
    notes: &'a Notes,
    /// Of the result, once that is printed.
    code: Option<u8>,
}

enum Form {
    Lines(Out, Language),
    Objects {
        json: Json,
        id: Option<String>,
        command: Vec<String>,
        /// The next object is the first one.
        first: bool,
    },
}

impl<'a> Sheet<'a> {
    fn new(format: Format, language: Language, agent: Option<&Agent>, notes: &'a Notes) -> Self {
        let argv = |agent: &Agent| -> Vec<String> {
            let argv = std::iter::once(&agent.spec.program).chain(&agent.spec.args);
            argv.map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let form = match format {
            Format::Text => Form::Lines(Out::default(), language),
            Format::Json => Form::Objects {
                json: Json::new(notes.clone(), true, &Advice::default()),
                id: agent.and_then(|agent| agent.id.clone()),
                command: agent.map(argv).unwrap_or_default(),
                first: true,
            },
        };
        Self { form, notes, code: None }
    }

    /// Prints what happened. Nothing follows the result.
    fn tell(&mut self, event: Event) {
        if self.code.is_some() {
            return;
        }
        if let Event::Finished(finished) = &event {
            // An id that means several agents is a wrong command line.
            let is_wrong = finished
                .error
                .as_ref()
                .is_some_and(|problem| (problem.kind, problem.phase) == (Kind::Usage, Phase::Discovery));
            self.code = Some(if is_wrong { 2 } else { check::exit_code(finished) });
        }
        match &mut self.form {
            Form::Lines(out, language) => {
                out.write(&check::text(&event, *language));
                if let Event::Finished(finished) = event
                    && out.flush().is_ok()
                    && !check::passed(&finished)
                {
                    self.notes.line(check::failure(&finished, *language).trim_end());
                }
            }
            Form::Objects { json, id, command, first } => {
                if let Event::Ready(ready) = event {
                    json.write(&line(&Line::check(id.as_deref(), command, &ready), std::mem::take(first)));
                } else if let Event::Finished(finished) = event {
                    json.write(&line(&Line::result(&finished), std::mem::take(first)));
                } else {
                    json.told(event);
                }
            }
        }
    }

    /// Brings it to where it is read. After an error nobody reads any more.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.form {
            Form::Lines(out, _) => out.flush(),
            Form::Objects { json, .. } => json.flush(),
        }
    }

    fn exit_code(mut self) -> ExitCode {
        match self.flush() {
            Ok(()) => ExitCode::from(self.code.unwrap_or(1)),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => {
                self.notes.line(&format!("✗ stdout cannot be written: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}
