//! `hub pipe`: the hub's control socket on stdin and stdout, for whoever comes over ssh.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;

use agentline_core::control::client::Greeting;
use agentline_os::socket;
use rustix::event::{PollFd, PollFlags};

use super::client::Link;
use super::place::Serving;
use super::reach::{Route, To};
use crate::find;
use crate::output::Notes;
use crate::prompt::usage;
use crate::words::Problem;

pub(super) fn run(to: &To, start: bool, notes: &Notes) -> Result<ExitCode, Problem> {
    match connect(to, start, notes) {
        Ok((greeting, hub)) => {
            greet(&greeting);
            carry(&hub);
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            let (hub, version, pid) = (0, env!("CARGO_PKG_VERSION").to_owned(), std::process::id());
            let agents = find::look(None).map(|found| found.report.agents).unwrap_or_default();
            let agents = agents.into_iter().filter(|agent| agent.enabled).map(|agent| agent.id).collect();
            greet(&Greeting { hub, version, pid, home: None, reason: Some(problem.message.clone()), agents });
            Err(problem)
        }
    }
}

fn connect(to: &To, start: bool, notes: &Notes) -> Result<(Greeting, UnixStream), Problem> {
    let (path, version, pid) = match to.route()? {
        Route::Own(folders) => {
            let route = Route::Own(folders.clone());
            let link: Link = if start { to.start(&route, None, notes)? } else { to.reach(&route, None)? };
            let serving =
                Serving::read(&folders).ok_or_else(|| super::place::unreachable("the hub has just left"))?;
            (serving.control, link.version.clone().unwrap_or_default(), serving.pid)
        }
        Route::Socket(path) => (path, String::new(), 0),
        Route::Host { .. } => return Err(usage("a pipe leads to the hub of this machine, not to another's")),
    };
    let hub = socket::stream(&path).map_err(|error| {
        super::place::unreachable(format!("cannot connect to {}: {error}", path.display()))
    })?;
    let home = find::home().ok().map(|home| home.to_string_lossy().into_owned());
    Ok((Greeting { hub: 1, version, pid, home, reason: None, agents: Vec::new() }, hub))
}

fn greet(greeting: &Greeting) {
    let mut line = serde_json::to_vec(greeting).unwrap_or_default();
    line.push(b'\n');
    // Whoever is not there to hear it is not there for the rest.
    let _ = write(&line);
}

/// Both ways until the hub has said its last byte, or nobody is there to hear it.
fn carry(hub: &UnixStream) {
    if let Ok(to_hub) = hub.try_clone() {
        thread::spawn(move || {
            let _ = pass(io::stdin().lock(), &to_hub);
            let _ = to_hub.shutdown(Shutdown::Write);
        });
    }
    if let Ok(hub) = hub.try_clone() {
        thread::spawn(move || {
            wait_hang_up(&io::stdout());
            let _ = hub.shutdown(Shutdown::Both);
        });
    }
    let mut buffer = vec![0; CHUNK];
    let mut hub = hub;
    while let Ok(read @ 1..) = hub.read(&mut buffer) {
        if write(&buffer[..read]).is_err() {
            return;
        }
    }
}

/// Passes on what comes, when it comes.
fn pass(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            read => to.write_all(&buffer[..read])?,
        }
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Waits until the reader of a pipe is gone.
fn wait_hang_up(out: &impl AsFd) {
    loop {
        let mut gone = [PollFd::new(out, PollFlags::empty())];
        match rustix::event::poll(&mut gone, None) {
            Ok(_) if gone[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => {
                return;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Bytes that are carried at once.
const CHUNK: usize = 64 << 10;
