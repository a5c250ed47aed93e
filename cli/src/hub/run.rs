//! `hub run`: being the hub. The machine decides; this is the process around it, on one thread.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use agentline_core::acp::session::Implementation;
use agentline_core::control::{Answer, Client, client, server};
use agentline_core::discovery::Folders;
use agentline_core::hub::api::{Health, HubHealth, Method};
use agentline_core::hub::{Command, Config, Errand, Event, Hub, Stored};
use agentline_core::session::Noted;
use agentline_core::{Address, Tag};
use agentline_os::Lock;
use agentline_smol::{Events, Handle};
use serde::Serialize;
use smol::Timer;
use smol::future::or;

use super::Run;
use super::errands::Errands;
use super::log::{Level, Log};
use super::notify::Messenger;
use super::place::{self, Serving};
use super::records;
use crate::args::{Format, Global};
use crate::find;
use crate::guard;
use crate::output::{self, In, Notes, Sink, object, plain};
use crate::signals::{Ask, Signals};
use crate::words::{Kind, Phase, Problem};

pub(super) fn run(args: &Run, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let folders = find::folders()?;
    place::own(&folders)?;
    let Some(_alone) = place::lock(&folders.hub_lock(), GLANCE)? else { return Err(second(&folders)) };
    // What is there speaks of a hub that is gone.
    Serving::remove(&folders);
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let signals = Signals::catch().map_err(|error| internal(&error))?;
    guard::arm(notes);
    let log = Log::new(args.detached.then(|| folders.hub_log()));
    agentline_os::files::raise();
    let mut errands = Errands::new(&folders);
    let config = config(&folders, &mut errands, &log, !args.detached);
    let reverse = (!args.no_reverse && errands.takes_in()).then(|| folders.reverse_socket());
    let config = Config { reverse: reverse.clone().map(Address), ..config };
    let (events, driver) = agentline_smol::spawn::<Hub>(config).map_err(|error| internal(&error))?;
    signals
        .on_each(events.handle(), |hub: &mut Handle<Hub>, _: Ask| {
            // The second one does not wait: what is left is the guardian's.
            if hub.command(Command::Stop).is_err() {
                std::process::exit(HASTY);
            }
        })
        .map_err(|error| internal(&error))?;
    let after = args.leave_after.or(args.detached.then_some(LEAVES));
    let leaving = leave(folders.clone(), after, events.handle());
    let found = stay_found(folders.clone(), reverse.clone(), args.look_every, events.handle());
    let messenger = Messenger::new();
    let detached = args.detached;
    let serves = false;
    let mut hub = Process { folders, reverse, log, global, notes, errands, messenger, detached, serves };
    let rest = async {
        or(driver, or(leaving, found)).await;
        // The last events are still to be taken.
        std::future::pending().await
    };
    let served = smol::block_on(or(hub.serve(events), rest));
    Serving::remove(&hub.folders);
    // What the log says last; a terminal that is not read is not waited for.
    Sink::ours().settle(Some(Instant::now() + MOMENT));
    served
}

fn config(folders: &Folders, errands: &mut Errands, log: &Log, eager: bool) -> Config {
    let (agents, problems) = errands.discover();
    let mut stored = stored(folders, log);
    stored.problems.extend(problems);
    Config {
        pid: std::process::id(),
        version: VERSION.into(),
        info: Some(Implementation { name: "agentline".into(), title: None, version: VERSION.into() }),
        state: Some(folders.state.path.clone()),
        stored,
        home: folders.home.to_string_lossy().into_owned(),
        agents,
        switches: errands.switches(),
        eager,
        ..Config::new(server::Config::new(Address(folders.control_socket())))
    }
}

/// Reads what an earlier hub has left. What is damaged is put aside.
fn stored(folders: &Folders, log: &Log) -> Stored {
    let stored = records::read(folders, |folder, name| {
        log.say(Level::Warn, format_args!("a damaged file is put aside: {name}.bad"));
        let _ = fs::rename(folder.join(name), folder.join(format!("{name}.bad")));
    });
    log.say(
        Level::Info,
        format_args!("{} sessions are stored, {} prompts", stored.records.len(), stored.prompts.len()),
    );
    stored
}

/// The process around the machine.
struct Process<'a> {
    folders: Folders,
    /// Where agents dial in, unless another program serves them there: `health` says so.
    reverse: Option<PathBuf>,
    log: Log,
    global: Global,
    notes: &'a Notes,
    errands: Errands,
    messenger: Messenger,
    detached: bool,
    /// It serves, and that was told.
    serves: bool,
}

impl Process<'_> {
    async fn serve(&mut self, mut events: Events<Hub>) -> Result<ExitCode, Problem> {
        while let Some(event) = events.next().await {
            match event {
                Event::Listening if self.serves => {
                    self.log.say(Level::Warn, "a socket was removed, and is bound again");
                    self.write_place();
                }
                Event::Listening => self.listening(),
                Event::Errand(tag, errand) => {
                    if matches!(errand, Errand::Who(_))
                        && let Some(agents) = self.errands.look_again()
                    {
                        self.log.say(Level::Info, format_args!("{} agents", agents.len()));
                        let _ = events.command(Command::Agents(agents));
                        let _ = events.command(Command::Switches(self.errands.switches()));
                    }
                    let found = self.errands.run(errand);
                    // Refused when nobody waits for it any more.
                    let _ = events.command(Command::Done(tag, found));
                }
                Event::Notify(notice) => self.messenger.tell(self.errands.notify(), *notice),
                Event::Started(agent) => self.log.say(Level::Info, format_args!("{agent} is started")),
                Event::Noted(agent, noted) => {
                    let what = match *noted {
                        Noted::Stderr(text) => format!("{} bytes on stderr", text.len()),
                        Noted::Odd(json) => format!("something odd, {} bytes", json.get().len()),
                    };
                    self.log.say(Level::Info, format_args!("{agent}: {what}"));
                }
                Event::Ended(agent, why) => {
                    self.log.say(Level::Info, format_args!("{agent} has ended: {}", plain(&why)));
                }
                Event::Closed(Some(error)) => {
                    let path = self.folders.control_socket();
                    let message = format!("the hub cannot serve at {}: {error}", path.display());
                    return Err(place::unreachable(message));
                }
                Event::Closed(None) => {}
            }
        }
        self.log.say(Level::Info, "stopped");
        Ok(ExitCode::SUCCESS)
    }

    /// Lets everybody know where it serves.
    fn write_place(&mut self) -> Serving {
        self.serves = true;
        let control = self.folders.control_socket();
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let serving = Serving {
            host: place::host(),
            pid: std::process::id(),
            control,
            reverse: self.reverse.clone(),
            version: VERSION.into(),
            started_at: now.replace('Z', "+00:00"),
        };
        if let Err(errno) = serving.write(&self.folders) {
            self.log.say(Level::Error, format_args!("hub.json cannot be written: {errno}"));
        }
        serving
    }

    fn listening(&mut self) {
        let serving = self.write_place();
        let control = serving.control.clone();
        self.log.say(Level::Info, format_args!("{VERSION} serves, pid {}", serving.pid));
        if self.global.format() == Format::Json {
            #[derive(Serialize)]
            struct Listening {
                control: PathBuf,
                reverse: Option<PathBuf>,
                pid: u32,
            }
            let Serving { reverse, pid, .. } = serving;
            // It is a server: who reads that is no business of its.
            let _ = output::print(&object("listening", &Listening { control, reverse, pid }));
        } else if !self.detached {
            let dim = self.notes.paint().dim;
            self.notes.line(&format!(
                "{} the hub serves at {}; Ctrl-C stops it",
                In(dim, "◦"),
                control.display()
            ));
        }
    }
}

/// Sees to it that the hub can be found: sockets whose names somebody has removed, as at a logout, are bound again, and
/// where they are is written again. Never ends.
async fn stay_found(folders: Folders, reverse: Option<PathBuf>, every: Duration, hub: Handle<Hub>) {
    let names: Vec<PathBuf> = [folders.control_socket(), folders.hub()].into_iter().chain(reverse).collect();
    // The first two are ours. Agents may never have been able to dial in: another program serves them, or nobody may.
    let mut seen = [true, true, false];
    // Looks until it is tried again: it takes a moment, and a client that has just connected would be put off.
    let mut pause = 0;
    loop {
        Timer::after(every).await;
        let is_there: Vec<bool> = names.iter().map(|path| path.exists()).collect();
        let is_gone = seen.iter().zip(&is_there).any(|(seen, is_there)| *seen && !is_there);
        pause = match (is_gone, pause) {
            (false, _) => 0,
            (true, 0) if place::own(&folders).is_ok() => {
                let _ = hub.command(Command::Listen);
                LOOKS
            }
            (true, pause) => pause.saturating_sub(1),
        };
        seen.iter_mut().zip(is_there).for_each(|(seen, is_there)| *seen |= is_there);
    }
}

/// Leaves when nobody has needed the hub for so long. Never ends otherwise.
async fn leave(folders: Folders, after: Option<Duration>, hub: Handle<Hub>) {
    let Some(after) = after else { return std::future::pending().await };
    let mut idle = 0;
    loop {
        Timer::after(after / LOOKS).await;
        idle = if is_idle(&folders).await { idle + 1 } else { 0 };
        if idle < LOOKS {
            continue;
        }
        // Whoever starts a hub just now finds this one, or none.
        let Ok(Some(_starting)) = Lock::take(&folders.start_lock()) else { continue };
        Serving::remove(&folders);
        let _ = hub.command(Command::Stop);
        return std::future::pending().await;
    }
}

/// Whether nothing runs, nothing is asked, and nobody but us is there.
async fn is_idle(folders: &Folders) -> bool {
    let config = client::Config::connect(Address(folders.control_socket()));
    let Ok((mut events, driver)) = agentline_smol::spawn::<Client>(config) else { return false };
    let ask = async {
        let _ = events.command(client::Command::Call(Tag::default(), HubHealth {}.request()));
        while let Some(event) = events.next().await {
            if let client::Event::Answered(_, Answer::Reply(health)) = event {
                let health: Health = serde_json::from_str(health.get()).unwrap_or_default();
                return health.running == 0
                    && health.questions == 0
                    && health.links == 0
                    && health.clients == 1;
            }
        }
        false
    };
    or(ask, async {
        driver.await;
        false
    })
    .await
}

/// There is one hub for one folder of records.
fn second(folders: &Folders) -> Problem {
    let who = Serving::read(folders).map_or_else(String::new, |serving| {
        format!(" (pid {} on {}, at {})", serving.pid, serving.host, serving.control.display())
    });
    let message = format!("a hub runs already in {}{who}", folders.state.path.display());
    Problem::new(Phase::Connect, Kind::Busy, message).code(1).hint("agentline hub status")
}

fn internal(error: &std::io::Error) -> Problem {
    Problem::new(Phase::Connect, Kind::Internal, error.to_string()).code(1)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// For what is said last.
const MOMENT: Duration = Duration::from_secs(1);
/// Whoever only looks whether the lock is taken has it for a moment.
const GLANCE: Duration = Duration::from_secs(1);
/// A hub that another command started leaves after so long without work.
const LEAVES: Duration = Duration::from_secs(3600);
/// How often it looks whether there is work, in that time.
const LOOKS: u32 = 6;
/// The exit code of a hub that was told twice to stop.
const HASTY: i32 = 143;
