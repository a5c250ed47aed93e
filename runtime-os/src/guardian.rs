//! No child outlives us, however we die: one small shell per process kills what is left.
//!
//! It sits in a process group of its own, deaf to the terminal, and is told on its stdin which groups live.
//! When we die, be it by SIGKILL, its stdin ends, and it kills the groups on its list.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

/// Switches the guardian on for this whole process. The shell starts with the first child.
pub fn arm() {
    let mut guard = lock();
    if !std::mem::replace(&mut guard.armed, true) {
        guard.tell_all();
    }
}

pub(crate) fn watch(group: Pid) {
    let mut guard = lock();
    guard.groups.insert(group.as_raw_nonzero().get());
    guard.tell('+', group);
}

pub(crate) fn forget(group: Pid) {
    let mut guard = lock();
    guard.groups.remove(&group.as_raw_nonzero().get());
    guard.tell('-', group);
}

static GUARD: Mutex<Guard> = Mutex::new(Guard { armed: false, shell: None, groups: BTreeSet::new() });

struct Guard {
    armed: bool,
    shell: Option<Child>,
    /// The groups that live.
    groups: BTreeSet<i32>,
}

impl Guard {
    fn tell(&mut self, what: char, group: Pid) {
        let line = format!("{what} {}\n", group.as_raw_nonzero());
        if self.armed && self.say(&line).is_err() {
            self.tell_all();
        }
    }

    /// Starts a shell, in place of one that somebody killed or stopped, and tells it everything.
    fn tell_all(&mut self) {
        if let Some(mut deaf) = self.shell.take() {
            // Before its stdin ends, or it would do its work.
            let _ = deaf.kill();
            let _ = deaf.wait();
        }
        if self.groups.is_empty() {
            return;
        }
        let list: String = self.groups.iter().map(|group| format!("+ {group}\n")).collect();
        self.shell = start().ok();
        // Without a shell there is no guardian: the ladder and the drop of a link still end every child.
        let _ = self.say(&list);
    }

    fn say(&mut self, lines: &str) -> io::Result<()> {
        let stdin = self.shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        stdin.ok_or(io::ErrorKind::NotConnected)?.write_all(lines.as_bytes())
    }
}

fn start() -> io::Result<Child> {
    let shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "agentline-guardian"])
        .current_dir("/")
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(stdin) = &shell.stdin {
        rustix::io::ioctl_fionbio(stdin, true)?;
    }
    Ok(shell)
}

fn lock() -> MutexGuard<'static, Guard> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The list of groups is `$@`. `kill -s KILL -- -N` is what dash, bash and busybox all take.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
set --
while read -r what group; do
  case $what in
    +) set -- "$@" "$group" ;;
    -) rest=; for g; do [ "$g" = "$group" ] || rest="$rest $g"; done; set -- $rest ;;
  esac
done
for g; do kill -s KILL -- "-$g"; done
"#;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_guardian_that_was_killed_is_replaced_and_told_everything() {
        let sleeper = || Command::new("/bin/sleep").arg("1000").process_group(0).spawn().unwrap();
        let (mut first, mut second, mut spared) = (sleeper(), sleeper(), sleeper());
        arm();
        watch(Pid::from_child(&first));
        watch(Pid::from_child(&spared));
        lock().shell.as_mut().map(Child::kill).unwrap().unwrap();
        lock().shell.as_mut().map(Child::wait).unwrap().unwrap();
        watch(Pid::from_child(&second));
        forget(Pid::from_child(&spared));
        // As if we died.
        drop(lock().shell.take().unwrap().stdin.take());
        let killed = [&mut first, &mut second].map(|child| child.wait().unwrap().signal());
        assert_eq!(killed, [Some(9); 2]);
        assert_eq!(spared.try_wait().unwrap(), None);
        spared.kill().unwrap();
        spared.wait().unwrap();
    }
}
