//! `agentline agent check`: whether an agent can be used. BotBus has the same command (`docs/acp-agents.md`,
//! 自查); where this one differs is said in PROTOCOLS.md.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::client::Timeouts;
use agentline_core::check::{passed, plan};
use agentline_core::discovery::{Environment, inherited};
use agentline_core::rules::Rules;
use agentline_core::subagent::env::{Scrubbed, scrub};
use agentline_core::subagent::{Command, Event, Outcome, Run};
use agentline_core::trace::Masks;
use agentline_core::{Secret, SpawnSpec, Stderr};

use crate::agents::absolute;
use crate::args::{Check, Format, Global};
use crate::consent::{self, Row};
use crate::failure::Advice;
use crate::find;
use crate::guard;
use crate::output::{Json, News, Notes, Out, Screen, Sink, Start, line};
use crate::plan::{self, DEMO};
use crate::prompt::{self, Variables, usage};
use crate::scratch::Scratch;
use crate::signals::Signals;
use crate::trace::{Recorded, Trace};
use crate::words::check::{self, Line};
use crate::words::{Ended, Kind, Language, Odd, Phase, Problem, Verb};

/// Checks it. Whatever keeps the agent from being used is a result, and so is a signal.
pub(crate) fn run(args: &Check, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let variables = prompt::variables(&args.environment)?;
    let rules = Rules { own: args.permits.rules.read()?, project: consent::of_project(Path::new("."))? };
    let permissions = if rules.is_empty() { Vec::new() } else { args.permits.table(&rules) };
    if !global.quiet {
        variables.warn(notes);
    }
    let trace = args.record.file()?;
    let chosen = choose(args, variables);
    let mut sheet = Sheet::new(global.format(), args.lang.into(), chosen.as_ref().ok(), permissions, notes);
    let done = chosen.and_then(|mut agent| {
        let inside = agent.id.clone().map_or_else(|| agent.spec.program.clone(), OsString::from);
        agent.spec.env.push((plan::INSIDE.into(), inside.into()));
        drive(agent, trace, args, &mut sheet, notes)
            .map_err(|error| Problem::new(Phase::Spawn, Kind::Internal, error.to_string()))
    });
    if let Err(problem) = done {
        sheet.end(&Ended::nothing(Outcome::Error, Some(problem)));
    }
    Ok(sheet.exit_code())
}

/// Starts the agent in a folder of its own. When this returns, both are gone.
fn drive(
    agent: Agent,
    trace: Option<Trace>,
    args: &Check,
    sheet: &mut Sheet,
    notes: &Notes,
) -> io::Result<()> {
    guard::arm(notes);
    // A signal must not end us while the folder is there.
    let signals = Signals::catch()?;
    let folder = Scratch::new()?;
    let mut config = plan(agent.spec, folder.path(), args.prompt.as_deref());
    config.conversation.client.timeouts = Timeouts {
        initialize: Some(args.init_timeout),
        session: Some(args.session_timeout),
        turn: Some(args.timeout),
        ..config.conversation.client.timeouts
    };
    // What a run offers, since agents list other logins for who offers less.
    config.conversation.client.capabilities = plan::capabilities();
    config.conversation.client.graces = plan::graces(LEAVE);
    let mut driver = Recorded::<Run>::new(config, ("acp", "subagent"), agent.secrets, trace, notes)?;
    let mut end = Some(Command::Dispose);
    signals.on_each(driver.handle(), move |run, _| {
        // Refused when the run is over.
        let _ = run.command(end.take().unwrap_or(Command::Hasten));
        Sink::ours().hurry();
    })?;
    let run = driver.handle();
    Sink::ours().watch(move |news| {
        match news {
            News::Full => run.hold(true),
            News::Room => run.hold(false),
            News::Gone => {
                let _ = run.command(Command::Dispose);
            }
        }
        true
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
    /// Names of variables that it does not get.
    withheld: Vec<String>,
    /// What nobody may be shown of what it is given.
    secrets: Vec<Secret<Vec<u8>>>,
    masks: Rc<Masks>,
}

/// The agent that is meant, with the environment that a run gives it and what is remembered for it. One that is
/// switched off can be checked all the same.
fn choose(args: &Check, variables: Variables) -> Result<Agent, Problem> {
    let Scrubbed { env, withheld } = scrub(std::env::vars_os(), []);
    let mut env: Environment = env.into_iter().collect();
    let mut secrets: Vec<_> = variables.secrets().collect();
    let id = args.id.as_deref();
    let (id, program, words) = match (id, &*args.command) {
        (Some(DEMO), _) => (Some(DEMO.to_owned()), plan::ourselves()?, vec!["demo-agent".to_owned()]),
        (Some(id), _) => {
            let found = find::look(None)?;
            let agent = found.agent(id)?;
            let launch = found.launch(agent)?;
            env = launch.environment(env);
            found.discovery.settings.lay_over(&agent.id, &mut env, &inherited(std::env::vars_os()));
            secrets.extend(plan::secrets_of(launch));
            (Some(agent.id.clone()), launch.found.program.clone().into(), launch.args.clone())
        }
        (None, [program, words @ ..]) => (None, absolute(program)?.into(), words.to_vec()),
        (None, []) => return Err(usage("no agent")),
    };
    let Variables { given, removed, .. } = variables;
    for name in &removed {
        env.remove(name);
    }
    env.extend(given.into_iter().map(|(name, value)| (name, value.into())));
    let withheld = withheld.iter().filter(|name| !env.contains_key(*name));
    let withheld = withheld.map(|name| name.to_string_lossy().into_owned()).collect();
    let spec = SpawnSpec {
        program,
        args: words.iter().map(OsString::from).collect(),
        env: env.into_iter().collect(),
        stderr: Stderr::Pipe,
        ..SpawnSpec::default()
    };
    let masks = Rc::new(Masks::new(&secrets));
    Ok(Agent { id, spec, withheld, secrets, masks })
}

/// What is printed, in either form, and the exit code that follows from it.
struct Sheet<'a> {
    form: Form,
    notes: &'a Notes,
    advice: Rc<Advice>,
    odd: Odd,
    /// Of the result, once that is printed.
    code: Option<u8>,
}

enum Form {
    Lines(Out, Box<check::Lines>),
    Objects {
        json: Json,
        id: Option<String>,
        /// The next object is the first one.
        first: bool,
    },
}

impl<'a> Sheet<'a> {
    fn new(
        format: Format,
        language: Language,
        agent: Option<&Agent>,
        permissions: Vec<Row>,
        notes: &'a Notes,
    ) -> Self {
        let argv = |agent: &Agent| -> Vec<String> {
            let argv = std::iter::once(&agent.spec.program).chain(&agent.spec.args);
            argv.map(|word| agent.masks.text(&word.to_string_lossy()).into_owned()).collect()
        };
        let start = Start {
            command: agent.map(argv),
            withheld: agent.map(|agent| agent.withheld.clone()).unwrap_or_default(),
            name: "the agent".into(),
            permissions,
            ..Start::default()
        };
        let advice = Rc::new(Advice {
            start,
            verb: Verb::Check,
            masks: agent.map(|agent| Rc::clone(&agent.masks)).unwrap_or_default(),
            words: std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
            ..Advice::default()
        });
        let form = match format {
            Format::Text => {
                let (mut out, lines) = (Out::default(), check::Lines::new(language));
                out.write(&lines.permits(&advice.start.permissions));
                Form::Lines(out, Box::new(lines))
            }
            Format::Json => Form::Objects {
                json: Json::new(notes.clone(), true, &advice),
                id: agent.and_then(|agent| agent.id.clone()),
                first: true,
            },
        };
        Self { form, notes, advice, odd: Odd::default(), code: None }
    }

    /// Prints what happened. Nothing follows the result.
    fn tell(&mut self, event: Event) {
        match (event, &mut self.form) {
            _ if self.code.is_some() => {}
            (Event::Finished(finished), _) => {
                let ended = self.advice.ended(*finished);
                self.end(&ended);
            }
            (Event::Noticed(notice), Form::Lines(..)) => self.odd.add(&notice),
            (event, Form::Lines(out, lines)) => out.write(&lines.told(&event)),
            (Event::Ready(ready), Form::Objects { json, id, first }) => {
                let command = self.advice.start.command.as_deref().unwrap_or_default();
                let rows = &self.advice.start.permissions;
                json.write(&line(&Line::check(id.as_deref(), command, &ready, rows), std::mem::take(first)));
            }
            (Event::Noticed(notice), Form::Objects { json, first, .. }) => {
                json.noticed(&notice, std::mem::take(first));
            }
            (event, Form::Objects { json, .. }) => json.told(event),
        }
    }

    /// Prints the result.
    fn end(&mut self, ended: &Ended) {
        // An id that means several agents is a wrong command line.
        let is_wrong = |problem: &Problem| (problem.kind, problem.phase) == (Kind::Usage, Phase::Discovery);
        self.code = Some(match &ended.problem {
            Some(problem) if is_wrong(problem) => 2,
            Some(_) | None => u8::from(!passed(&ended.finished)),
        });
        let odd = self.odd.take();
        match &mut self.form {
            Form::Lines(out, lines) => {
                out.write(&lines.ended(&ended.finished));
                if out.flush().is_ok() {
                    let failure = lines.failure(ended, &self.advice);
                    let odd = odd.map(|text| self.advice.masks.text(&text).into_owned());
                    odd.into_iter().chain(failure).for_each(|text| self.notes.line(&text));
                }
            }
            Form::Objects { json, first, .. } => {
                json.write(&line(&Line::result(ended), std::mem::take(first)));
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
