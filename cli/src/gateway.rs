//! `agentline gateway`: a session of one channel, served on another.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use agentline_blocking::Given;
use agentline_core::Secret;
use agentline_core::acp::client::Timeouts;
use agentline_core::gateway::{Command, Config, Event, Gateway};
use agentline_core::rules::{Rule, Rules};
use agentline_core::session::{AttachedConfig, Name, Noted, SourceConfig};
use agentline_core::trace::{Masks, Recording, Tap, Tapped, Traced};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use crate::args::{self, Child, Global, Runtime, Spending};
use crate::attach;
use crate::completions;
use crate::consent;
use crate::driver::{Driver, Handle};
use crate::failure::Whose;
use crate::guard;
use crate::output::{Foreign, Notes, Start, plain};
use crate::plan::{self, Spawn};
use crate::prompt::{self, Variables};
use crate::signals::{Ask, Signals};
use crate::trace::Trace;
use crate::words::{Kind, Phase, Problem};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve an editor over ACP on stdin and stdout, with an agent or a session behind
    Acp(Box<Acp>),
}

/// An editor starts this instead of the agent. Everything passes both ways as it was written; rules, a budget and a record
/// stand in between.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  agentline gateway acp --agent gemini --permission-rules ~/rules.json
  agentline gateway acp --max-cost 2.00 --trace ~/today.jsonl -- my-agent --acp
  agentline gateway acp --peer proj-7f           a session that runs in another terminal

What the agent writes to standard error goes on to ours. An agent that dies is started again by the next prompt, which
goes on with its session where the agent can do that.

Exit codes:
  0 the editor left  2 usage  3 no such agent  143 terminated")]
pub(crate) struct Acp {
    #[command(flatten)]
    child: Child,
    /// Instead of an agent, a session in another terminal: its peer id, session id or name, the beginning of one, or its
    /// socket. It shows no questions and no costs, so there are no rules and no budget; it goes on when the editor leaves
    #[arg(
        long,
        value_name = "WHICH",
        value_parser = args::id,
        add = ArgValueCandidates::new(completions::peers),
        conflicts_with_all = [
            "agent", "command", "permission_rules", "allow", "ask", "reject", "max_cost", "max_turns_tools"
        ]
    )]
    peer: Option<String>,
    #[command(flatten)]
    rules: args::Rules,
    #[command(flatten)]
    spending: Spending,
    /// For the handshake with the agent
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "60s")]
    init_timeout: Duration,
    /// Record everything that is said, in a new file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// With --trace: replace a file that is there
    #[arg(long, requires = "trace")]
    force: bool,
    /// What drives it. For measurements, nothing else differs
    #[arg(long, value_enum, default_value_t, hide = true)]
    runtime: Runtime,
}

/// Runs it.
pub(crate) fn run(verb: &Verb, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let Verb::Acp(args) = verb;
    let variables = prompt::variables(&args.child.environment)?;
    let own = args.rules.read()?;
    let mut trace = args.trace.as_deref().map(|file| Trace::new(file, args.force)).transpose()?;
    if !global.quiet {
        variables.warn(notes);
    }
    let (config, secrets) = match &args.peer {
        Some(peer) => (Config::on_stdio(session(peer)), Vec::new()),
        None => agent(args, variables, own, (!global.quiet).then_some(notes))?,
    };
    if io::stdin().is_terminal() {
        notes.line(
            "◦ this speaks ACP on stdin and stdout, for an editor; to talk to an agent: agentline chat",
        );
    }
    let masks = Rc::new(Masks::new(&secrets));
    let recording =
        trace.is_some().then(|| Recording { channel: "acp".into(), role: "gateway".into(), secrets });
    let internal = |error: io::Error| Problem::new(Phase::Spawn, Kind::Internal, error.to_string());
    guard::arm(notes);
    let signals = Signals::catch().map_err(internal)?;
    let tapped = Tapped { config, recording };
    let mut driver =
        Driver::<Tap<Gateway>>::with_given(args.runtime, tapped, [Given::stdio()]).map_err(internal)?;
    let ends = Arc::new(AtomicU8::new(0));
    obey_signals(signals, driver.handle(), Arc::clone(&ends)).map_err(internal)?;
    let foreign = Foreign::of(notes.clone(), Rc::clone(&masks), true);
    let mut screen = Screen { notes, masks, foreign, quiet: global.quiet };
    while let Some(told) = driver.next() {
        let broken = match (told, &mut trace) {
            (Traced::Event(event), _) => {
                screen.show(event);
                None
            }
            (Traced::Line(line), Some(trace)) => trace.write(&line),
            (Traced::Line(_), None) => None,
        };
        screen.warn(broken);
        if !driver.is_ready() {
            screen.warn(trace.as_mut().and_then(Trace::flush));
        }
    }
    screen.foreign.end();
    Ok(ExitCode::from(ends.load(Ordering::Relaxed)))
}

/// What nobody may be shown.
type Hidden = Vec<Secret<Vec<u8>>>;

/// An agent behind it, and what nobody may be shown of what that is given.
fn agent(
    args: &Acp,
    variables: Variables,
    own: Vec<Rule>,
    notes: Option<&Notes>,
) -> Result<(Config, Hidden), Problem> {
    let Spawn { spec, whose, secrets, .. } =
        plan::spawn(&args.child, variables, &mut Start::unknown(&args.child))?;
    if let (Whose::Fallback(_), Some(notes)) = (&whose, notes) {
        notes.line("◦ nobody said which agent: this is the demo agent; --agent ID, or a command behind --");
    }
    let rules = Rules { own, project: consent::of_project(&spec.cwd)? };
    let timeouts = Timeouts { initialize: Some(args.init_timeout), ..Timeouts::default() };
    let source = SourceConfig::Acp(Box::new(plan::client(spec, timeouts, args.child.leave_grace)));
    Ok((Config { rules, budget: args.spending.budget(), ..Config::on_stdio(source) }, secrets))
}

/// A session behind it. One that is not there is an answer of the gateway, where an editor shows it.
fn session(peer: &str) -> SourceConfig {
    match attach::target(peer, None) {
        Ok(target) => {
            let name = target.socket.0.file_stem().unwrap_or_default().to_string_lossy();
            let name = Name::from(&*name);
            SourceConfig::Attached(Box::new(AttachedConfig { name, target }))
        }
        Err(problem) => SourceConfig::Missing(problem.message),
    }
}

/// Any signal ends it. Whoever is told twice kills us, and then our guardian sees off the agent.
fn obey_signals(signals: Signals, gateway: Handle<Tap<Gateway>>, ends: Arc<AtomicU8>) -> io::Result<()> {
    signals.on_each(gateway, move |gateway, ask| {
        ends.store(
            match ask {
                Ask::Interrupt => 130,
                Ask::Terminate => 143,
                Ask::HangUp => 129,
            },
            Ordering::Relaxed,
        );
        // Refused when it is leaving already.
        let _ = gateway.command(Command::Shutdown);
    })
}

/// Stderr: what the agent writes there, and lines of ours.
struct Screen<'a> {
    notes: &'a Notes,
    masks: Rc<Masks>,
    foreign: Foreign,
    quiet: bool,
}

impl Screen<'_> {
    fn show(&mut self, event: Event) {
        match event {
            Event::Noted(noted) => {
                if let Noted::Stderr(text) = *noted {
                    self.foreign.write(&text);
                }
            }
            Event::Ruled(ruled) => {
                let done = if ruled.allowed { "allowed" } else { "rejected" };
                self.say(&format!("◦ {done} by {}: {}", ruled.rule, ruled.title));
            }
            Event::Overspent(session, overspent) => {
                self.say(&format!("! session {session}: {overspent}; it is cancelled, and takes no prompt"));
            }
            Event::Ended(Some(why)) => self.say(&format!("! {why}")),
            Event::Started | Event::Ended(None) | Event::Closed => {}
        }
    }

    fn say(&mut self, text: &str) {
        if !self.quiet {
            self.foreign.end();
            self.notes.line(&plain(&self.masks.text(text)));
        }
    }

    fn warn(&mut self, broken: Option<String>) {
        if let Some(why) = broken {
            self.foreign.end();
            self.notes.line(&format!("! {why}"));
        }
    }
}
