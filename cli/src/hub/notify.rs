//! What waits or is over while nobody looks: the user's own command is told.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use agentline_core::hub::{Notice, NoticeKind};
use agentline_core::subagent::env::scrub;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::find;
use crate::output::{Notes, span};
use crate::prompt::usage;
use crate::words::{Problem, command_line};

/// Runs the user's command, once for each notice, one at a time.
#[derive(Default)]
pub(super) struct Messenger(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<VecDeque<(Vec<String>, Notice)>>,
    more: Condvar,
}

impl Messenger {
    /// The thread comes with the first notice.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Of several notices of one session only the newest is worth a word.
    pub(super) fn tell(&self, command: &[String], notice: Notice) {
        if command.is_empty() {
            return;
        }
        let mut waiting = self.0.lock();
        waiting.retain(|(_, other)| other.session_id.is_none() || other.session_id != notice.session_id);
        if waiting.len() >= MOST {
            waiting.pop_front();
        }
        waiting.push_back((command.to_vec(), notice));
        self.0.more.notify_one();
        if Arc::strong_count(&self.0) == 1 {
            let shared = Arc::clone(&self.0);
            let _ = thread::Builder::new().name("agentline-notify".into()).spawn(move || shared.serve());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Vec<String>, Notice)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        loop {
            let mut waiting = self.lock();
            let (command, notice) = loop {
                match waiting.pop_front() {
                    Some(next) => break next,
                    None => waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(waiting);
            // What goes wrong there is the command's, and it is tried out with --test.
            let _ = run(&command, &notice);
        }
    }
}

/// Runs the command with a notice on its stdin: nothing of an agent is in its arguments or its environment.
fn run(command: &[String], notice: &Notice) -> io::Result<ExitStatus> {
    let [program, args @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
    let env = scrub(std::env::vars_os(), []).env;
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value.expose())))
        .current_dir(std::env::home_dir().unwrap_or_else(|| "/".into()))
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let mut line = serde_json::to_vec(notice)?;
        line.push(b'\n');
        // Less than a pipe holds: a command that does not read holds up nobody.
        let _ = stdin.write_all(&line);
    }
    wait(&mut child)
}

/// A command that takes too long is killed with all that it started.
fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    child.wait()
}

/// `hub notify --test`: what would be told, how it went, and how long it took.
pub(super) fn test(notes: &Notes) -> Result<ExitCode, Problem> {
    let folders = find::folders()?;
    let command = find::read_settings(&folders.settings())?.notify;
    if command.is_empty() {
        let line = r#""notify": ["ntfy-send"]"#;
        return Err(usage(format!("no command is told: put {line} into {}", folders.settings().display())));
    }
    find::trusted(&folders)?;
    let notice = Notice {
        kind: NoticeKind::Approval,
        session_id: Some("s0".into()),
        approval_id: Some("a0".into()),
        title: "a test".into(),
        agent: "demo".into(),
        text: "this is what a question looks like".into(),
    };
    notes.line(&format!(
        "◦ {} is told: {}",
        command_line(&command),
        serde_json::to_string(&notice).unwrap_or_default()
    ));
    let began = Instant::now();
    let status = run(&command, &notice)
        .map_err(|error| usage(format!("{} cannot be started: {error}", command[0])))?;
    notes.line(&format!("◦ {status}, after {}", span(began.elapsed())));
    Ok(ExitCode::from(u8::from(!status.success())))
}

/// Notices that wait.
const MOST: usize = 100;
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
