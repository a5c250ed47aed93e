//! `agentline gateway`: a session of one channel, served on another.

mod acp;
mod attach;
mod galley;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use agentline_blocking::Given;
use agentline_core::Secret;
use agentline_core::gateway::{Command, Config, Event, Gateway};
use agentline_core::session::Noted;
use agentline_core::trace::{Masks, Recording, Tap, Tapped, Traced};
use clap::{Args, Subcommand};

use self::acp::Acp;
use self::attach::Attach;
use self::galley::Galley;
use crate::args::{Global, Runtime};
use crate::attach::is_running;
use crate::chat::host::random;
use crate::driver::{Driver, Handle};
use crate::guard;
use crate::output::{Foreign, Notes, plain};
use crate::signals::{Ask, Signals};
use crate::trace::Trace;
use crate::words::{Kind, Phase, Problem};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve an editor over ACP on stdin and stdout, with an agent or a session behind
    Acp(Box<Acp>),
    /// Serve whoever attaches, with an agent behind
    Attach(Box<Attach>),
    /// Serve Galley's desktop on stdin and stdout, with an agent behind
    Galley(Box<Galley>),
}

/// What each gateway can be asked for.
#[derive(Debug, Args)]
struct Extras {
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

/// How the other side is reached, and when it ends.
struct Front {
    given: Vec<Given>,
    /// A process without which nobody is there.
    leaves_with: Option<u32>,
    /// The exit code where there is nothing to serve.
    unserved: u8,
}

impl Front {
    fn at_stdio() -> Self {
        Self { given: vec![Given::stdio()], leaves_with: None, unserved: AGENT_TROUBLE }
    }
}

/// The exit code of agent trouble.
const AGENT_TROUBLE: u8 = 5;

/// What is to be run.
struct Plan {
    config: Config,
    secrets: Hidden,
}

/// What nobody may be shown.
type Hidden = Vec<Secret<Vec<u8>>>;

/// Runs it.
pub(crate) fn run(verb: &Verb, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let told = (!global.quiet).then_some(notes);
    match verb {
        Verb::Acp(args) => {
            let trace = args.extras.trace()?;
            let plan = args.plan(told)?;
            if io::stdin().is_terminal() {
                notes.line(
                    "◦ this speaks ACP on stdin and stdout, for an editor; to talk to an agent: agentline chat",
                );
            }
            serve(plan, trace, &args.extras, Front::at_stdio(), global, notes)
        }
        Verb::Attach(args) => {
            let trace = args.extras.trace()?;
            let front = Front { given: Vec::new(), leaves_with: None, unserved: AGENT_TROUBLE };
            serve(args.plan(told)?, trace, &args.extras, front, global, notes)
        }
        Verb::Galley(args) => {
            if let Some(file) = &args.shim {
                return galley::write_shim(file, notes).map(|()| ExitCode::SUCCESS);
            }
            let trace = args.extras.trace()?;
            let front = Front { leaves_with: Galley::core(), unserved: 1, ..Front::at_stdio() };
            serve(args.plan(told)?, trace, &args.extras, front, global, notes)
        }
    }
}

fn serve(
    plan: Plan,
    mut trace: Option<Trace>,
    extras: &Extras,
    front: Front,
    global: Global,
    notes: &Notes,
) -> Result<ExitCode, Problem> {
    let Plan { config, secrets } = plan;
    let Front { given, leaves_with, unserved } = front;
    let masks = Rc::new(Masks::new(&secrets));
    let recording =
        trace.is_some().then(|| Recording { channel: "acp".into(), role: "gateway".into(), secrets });
    let internal = |error: io::Error| Problem::new(Phase::Spawn, Kind::Internal, error.to_string());
    guard::arm(notes);
    let signals = Signals::catch().map_err(internal)?;
    let tapped = Tapped { config, recording };
    let mut driver = Driver::<Tap<Gateway>>::with_given(extras.runtime, tapped, given).map_err(internal)?;
    let ends = Arc::new(AtomicU8::new(0));
    obey_signals(signals, driver.handle(), Arc::clone(&ends)).map_err(internal)?;
    if let Some(core) = leaves_with {
        follow(core, driver.handle());
    }
    let foreign = Foreign::of(notes.clone(), Rc::clone(&masks), true);
    let mut screen = Screen { notes, masks, foreign, quiet: global.quiet, unserved: false };
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
    Ok(ExitCode::from(if screen.unserved { unserved } else { ends.load(Ordering::Relaxed) }))
}

impl Extras {
    fn trace(&self) -> Result<Option<Trace>, Problem> {
        self.trace.as_deref().map(|file| Trace::new(file, self.force)).transpose()
    }
}

/// A name that nobody else has.
fn fresh_id() -> Result<String, Problem> {
    let internal = |error: io::Error| Problem::new(Phase::Spawn, Kind::Internal, error.to_string());
    Ok(format!("{:032x}", u128::from_le_bytes(random().map_err(internal)?)))
}

/// It leaves with its host, which may die without a word.
fn follow(core: u32, gateway: Handle<Tap<Gateway>>) {
    thread::spawn(move || {
        while is_running(core) {
            thread::sleep(LOOK);
        }
        let _ = gateway.command(Command::Shutdown);
    });
}

/// How often it is looked whether Galley is there. Its own runners do the same.
const LOOK: Duration = Duration::from_secs(2);

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
    /// There was nothing to serve.
    unserved: bool,
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
                let by = ruled.rule.as_deref().unwrap_or("--permission, since nobody can be asked here");
                self.say(&format!("◦ {done} by {by}: {}", ruled.title));
            }
            Event::Overspent(session, overspent) => {
                self.say(&format!("! session {session}: {overspent}; it is cancelled, and takes no prompt"));
            }
            Event::Ended(Some(why)) => self.say(&format!("! {why}")),
            Event::Listening(at) => {
                self.say(&format!("◦ others can speak to it: agentline attach send {} \"…\"", at.peer_id));
            }
            Event::PresenceFailed { errno } => {
                let error = io::Error::from_raw_os_error(errno);
                self.say(&format!("! others may not find it: its record could not be written: {error}"));
            }
            Event::Unserved(why) => {
                self.unserved = true;
                self.foreign.end();
                self.notes.line(&format!("✗ {}", plain(&self.masks.text(&why))));
            }
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
