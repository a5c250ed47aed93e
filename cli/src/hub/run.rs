//! `hub run`: being the hub.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use agentline_core::Address;
use agentline_core::control::server::{Command, Config, Event, Key};
use agentline_core::control::{Answer, Failure, Request, Server};
use agentline_core::discovery::Folders;
use agentline_core::hub::api::{Call, Health, Pong, Schema, Stopping};
use agentline_smol::{Events, Handle};
use serde::Serialize;
use smol::future::or;

use super::Run;
use super::log::{Level, Log};
use super::place::{self, Serving};
use crate::args::{Format, Global};
use crate::find;
use crate::output::{self, In, Notes, object};
use crate::signals;
use crate::words::{Kind, Phase, Problem};

pub(super) fn run(args: &Run, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let folders = find::folders()?;
    place::own(&folders)?;
    let Some(_alone) = place::lock(&folders.hub_lock(), GLANCE)? else { return Err(second(&folders)) };
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let log = Log::new(args.detached.then(|| folders.hub_log()));
    let began = Instant::now();
    let config = Config::new(Address(folders.control_socket()));
    let (events, driver) = agentline_smol::spawn::<Server>(config).map_err(|error| internal(&error))?;
    signals::on_each(events.handle(), |hub: &mut Handle<Server>, _| {
        // Refused when it is stopping already.
        let _ = hub.command(Command::Shutdown(STOPPING.into()));
    })
    .map_err(|error| internal(&error))?;
    let hub = Hub { folders, log, global, notes, began, detached: args.detached };
    let served = smol::block_on(or(hub.serve(events), async {
        driver.await;
        std::future::pending().await
    }));
    Serving::remove(&hub.folders);
    served
}

/// The process around the machine.
struct Hub<'a> {
    folders: Folders,
    log: Log,
    global: Global,
    notes: &'a Notes,
    began: Instant,
    detached: bool,
}

impl Hub<'_> {
    async fn serve(&self, mut events: Events<Server>) -> Result<ExitCode, Problem> {
        while let Some(event) = events.next().await {
            match event {
                Event::Listening => self.listening(),
                Event::Requested(key, request) => self.answer(&events, key, &request),
                Event::Closed(Some(error)) => {
                    let path = self.folders.control_socket();
                    return Err(place::unreachable(format!(
                        "the hub cannot serve at {}: {error}",
                        path.display()
                    )));
                }
                Event::CaughtUp(_, lost) => {
                    self.log.say(Level::Warn, format_args!("a client was too slow: {lost} frames lost"));
                }
                Event::Abandoned(_) | Event::Closed(None) => {}
            }
        }
        self.log.say(Level::Info, "stopped");
        Ok(ExitCode::SUCCESS)
    }

    fn listening(&self) {
        let control = self.folders.control_socket();
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let serving = Serving {
            host: place::host(),
            pid: std::process::id(),
            control: control.clone(),
            reverse: None,
            version: env!("CARGO_PKG_VERSION").into(),
            started_at: now.replace('Z', "+00:00"),
        };
        if let Err(errno) = serving.write(&self.folders) {
            self.log.say(Level::Error, format_args!("hub.json cannot be written: {errno}"));
        }
        self.log.say(Level::Info, format_args!("{} serves, pid {}", serving.version, serving.pid));
        if self.global.format() == Format::Json {
            #[derive(Serialize)]
            struct Listening {
                control: PathBuf,
                reverse: Option<PathBuf>,
                pid: u32,
            }
            let _ =
                output::print(&object("listening", &Listening { control, reverse: None, pid: serving.pid }));
        } else if !self.detached {
            let dim = self.notes.paint().dim;
            self.notes.line(&format!(
                "{} the hub serves at {}; Ctrl-C stops it",
                In(dim, "◦"),
                control.display()
            ));
        }
    }

    fn answer(&self, events: &Events<Server>, key: Key, request: &Request) {
        let answer = match Call::read(request) {
            Ok(Call::Ping(_)) => Answer::reply(&Pong { pong: true }),
            Ok(Call::Version(_)) => Answer::reply(&Schema { schema_version: 1 }),
            Ok(Call::HubHealth(_)) => Answer::reply(&self.health()),
            Ok(Call::HubStop(_)) => {
                let stopping = Answer::reply(&Stopping { stopping: true, running: 0 });
                let _ = events.command(Command::Answer(key, stopping));
                let _ = events.command(Command::Shutdown(STOPPING.into()));
                return;
            }
            Ok(_) => Answer::Fail(Failure::unknown_command(&request.command)),
            Err(failure) => Answer::Fail(failure),
        };
        // A client that is gone asks no more.
        let _ = events.command(Command::Answer(key, answer));
    }

    fn health(&self) -> Health {
        Health {
            ok: true,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            ..Health::default()
        }
    }
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

/// Whoever only looks whether the lock is taken has it for a moment.
const GLANCE: Duration = Duration::from_secs(1);
/// Why streams end.
const STOPPING: &str = "hub_stopping";
