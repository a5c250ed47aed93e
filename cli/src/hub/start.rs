//! Starting a hub where none runs: as with tmux, nobody has to do that first.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use agentline_core::discovery::Folders;
use agentline_core::subagent::env::is_marker;
use agentline_os::{detached, guardian};

use super::client::{Link, Wants};
use super::place::{self, lock, unreachable};
use crate::output::{In, Notes, plain};
use crate::plan::{INSIDE, ourselves};
use crate::words::Problem;

/// Why no hub may be started from here, if none may.
pub(crate) fn forbidden(no_start: bool) -> Option<String> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if no_start {
        return Some("--no-start".into());
    }
    if is_set("AGENTLINE_NO_START") {
        return Some("AGENTLINE_NO_START is set".into());
    }
    // What an agent starts would have the agent's environment, and live on when it is gone.
    let marks = std::env::vars_os()
        .map(|(name, _)| name)
        .find(|name| name == INSIDE || name == guardian::MARK || is_marker(name));
    marks.map(|name| format!("an agent started us ({} is set)", name.display()))
}

/// Starts the hub of these folders, unless somebody else was faster.
pub(crate) fn start(folders: &Folders, wants: Wants, notes: &Notes) -> Result<Link, Problem> {
    place::own(folders)?;
    let Some(_starting) = lock(&folders.start_lock(), PATIENCE)? else {
        return Err(unreachable("somebody else has been starting or stopping the hub for 10 s")
            .hint("agentline hub status"));
    };
    if let Some(link) = Link::own(folders, wants)? {
        return Ok(link);
    }
    let log = folders.hub_log();
    let mut hub = launch(&log).map_err(|error| unreachable(format!("the hub cannot be started: {error}")))?;
    let link = ready(&mut hub, folders, wants, &log)?;
    let dim = notes.paint().dim;
    notes.line(&format!("{} hub started (pid {}; agentline hub stop)", In(dim, "◦"), hub.id()));
    Ok(link)
}

fn launch(log: &Path) -> io::Result<Child> {
    let program = ourselves().map_err(|problem| io::Error::other(problem.message))?;
    detached::start(Command::new(program).args(["hub", "run", "--detached"]), open(log)?)
}

/// Waits until the hub answers, has ended, or took too long.
fn ready(hub: &mut Child, folders: &Folders, wants: Wants, log: &Path) -> Result<Link, Problem> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(link) = Link::own(folders, wants)? {
            return Ok(link);
        }
        if let Ok(Some(_)) = hub.try_wait() {
            let said = last_line(log);
            let why = said.as_deref().unwrap_or("it says nothing");
            return Err(unreachable(format!("the hub ended at once: {}", plain(why))).hint(tail(log)));
        }
        thread::sleep(PAUSE);
    }
    Err(unreachable(format!("the hub (pid {}) does not answer within 10 s", hub.id())).hint(tail(log)))
}

fn tail(log: &Path) -> String {
    format!("tail {}", log.display())
}

/// The log, to be written at its end. What it was before is kept once.
pub(crate) fn open(log: &Path) -> io::Result<File> {
    if fs::metadata(log).is_ok_and(|log| log.len() > LOG) {
        rotate(log)?;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(log)
}

/// From here on a log begins anew.
pub(crate) fn rotate(log: &Path) -> io::Result<()> {
    let mut before = log.as_os_str().to_owned();
    before.push(".1");
    fs::rename(log, before)
}

/// What a program said last.
fn last_line(log: &Path) -> Option<String> {
    let text = fs::read(log).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// How long a hub has until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes of a log, after which another one begins.
pub(crate) const LOG: u64 = 1 << 20;
