//! Processor time of a control request beside links that nothing happens on: `idle_links [IDLE]`, on either runtime.

#![allow(missing_docs, unreachable_pub, clippy::print_stdout)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use agentline_core::Address;
use agentline_core::control::Answer;
use agentline_core::control::server::{Command, Config, Event};
use rustix::time::{ClockId, clock_gettime};

const WARM: usize = 1_000;
const MEASURED: usize = 20_000;

/// Serves one client that asks, and many that do not.
pub struct Bench {
    idle: usize,
    socket: PathBuf,
    answered: usize,
    since: Duration,
}

impl Bench {
    pub fn from_args() -> (Self, Config) {
        let idle = std::env::args().nth(1).map_or(0, |idle| idle.parse().expect("how many idle links"));
        let socket = std::env::temp_dir().join(format!("agentline-idle-{}", std::process::id())).join("s");
        let config = Config { connections: idle + 8, ..Config::new(Address(socket.clone())) };
        (Self { idle, socket, answered: 0, since: Duration::ZERO }, config)
    }

    pub fn on(&mut self, event: Event) -> Option<Command> {
        match event {
            Event::Listening => {
                let (socket, idle) = (self.socket.clone(), self.idle);
                thread::spawn(move || ask(&socket, idle));
                None
            }
            Event::Requested(key, _) => {
                self.answered += 1;
                if self.answered == WARM {
                    self.since = cpu();
                } else if self.answered == WARM + MEASURED {
                    self.report();
                    return Some(Command::Shutdown("measured".to_owned()));
                }
                Some(Command::Answer(key, Answer::reply("ok")))
            }
            Event::CaughtUp(..) | Event::Abandoned(_) | Event::Closed(_) => None,
        }
    }

    fn report(&self) {
        let each = (cpu() - self.since).as_secs_f64() * 1e6 / MEASURED as f64;
        println!("{} idle links: {each:.1} µs a request", self.idle);
    }
}

/// Asks until nobody answers any more.
fn ask(socket: &Path, idle: usize) {
    let connect = || UnixStream::connect(socket).expect("it listens");
    let _idle: Vec<UnixStream> = (0..idle).map(|_| connect()).collect();
    let mut asks = connect();
    let mut answers = BufReader::new(asks.try_clone().expect("a descriptor is left"));
    let mut line = String::new();
    while asks.write_all(b"{\"command\":\"ping\"}\n").is_ok()
        && answers.read_line(&mut line).is_ok_and(|bytes| bytes > 0)
    {
        line.clear();
    }
}

/// Of the thread that drives.
fn cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
