//! Children: found, started in a session of their own, signalled as a group, reaped.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use agentline_core::{Exit, Group, OpenError, Signal, SpawnSpec, Stderr};
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions};

use crate::birth::{Ear, Image, become_image};
use crate::errno::{errno, spawn_error};
use crate::guardian;

/// Finds a program as a careful shell would.
///
/// A bare name is looked up in `path`, whose empty and relative elements do not count: they would run what
/// lies in the working directory. A name with a slash is relative to *our* directory, not to the child's.
///
/// # Errors
///
/// `NotFound`, or `NotExecutable` if all that was found is no executable file.
pub fn find(program: &OsStr, path: &OsStr) -> Result<PathBuf, OpenError> {
    if program.as_bytes().contains(&b'/') {
        let file = std::path::absolute(program).map_err(|_| OpenError::NotFound)?;
        return executable(&file).map(|()| file);
    }
    if program.is_empty() {
        return Err(OpenError::NotFound);
    }
    let mut failed = OpenError::NotFound;
    for directory in std::env::split_paths(path).filter(|directory| directory.is_absolute()) {
        let file = directory.join(program);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(OpenError::NotFound) => {}
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn executable(file: &Path) -> Result<(), OpenError> {
    let found = fs::metadata(file).map_err(|error| match errno(&error) {
        Errno::ACCESS => OpenError::NotExecutable,
        _ => OpenError::NotFound,
    })?;
    if found.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok() {
        Ok(())
    } else {
        Err(OpenError::NotExecutable)
    }
}

/// A child just started, with our ends of its pipes. They never block.
pub(crate) struct Spawned {
    pub(crate) child: Child,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: Option<OwnedFd>,
    /// Readable when the child has ended.
    pub(crate) exit: OwnedFd,
}

/// Starts a child with exactly the environment given, and the guardian's mark if there is one, at the head of a
/// session of its own: it has no terminal, whoever has ours.
pub(crate) fn spawn(spec: &SpawnSpec) -> Result<Spawned, OpenError> {
    // Before the fork, where each failure can be told from the others: `ENOENT` could be folder, program or
    // interpreter.
    if !can_enter(&spec.cwd) {
        return Err(OpenError::BadDirectory);
    }
    let program = find(&spec.program, search_path(spec))?;
    let shared = (spec.stderr == Stderr::Output).then(io::pipe).transpose();
    let shared = shared.map_err(|error| spawn_error(errno(&error)))?;
    let spawned = guardian::witness(|post| {
        let env = spec.env.iter().map(|(name, value)| (&**name, value.expose().as_os_str()));
        let mark = post.map(|post| (OsStr::new(guardian::MARK), OsStr::new(&post.mark)));
        let args = std::iter::once(&spec.program).chain(&spec.args).map(|arg| &**arg);
        let image = Image::new(program.as_os_str(), args, env.chain(mark))?;
        let mut command = Command::new(&program);
        let (stdout, stderr) = outputs(spec.stderr, shared.as_ref())?;
        command.current_dir(&spec.cwd).stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        become_image(&mut command, image, post.map(|post| Ear::clone(&post.ear)));
        command.spawn()
    });
    let mut process = spawned.map_err(|error| unspawned(error, &spec.cwd, &program))?;
    let (stdin, stderr) = (process.stdin.take(), process.stderr.take());
    let stdout = process.stdout.take().map(OwnedFd::from).or(shared.map(|(ours, _)| ours.into()));
    let child = Child::new(process);
    let pipes = || {
        let exit = exit_of(child.group)?;
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err(Errno::BADF.into()) };
        let (stdin, stderr) = (stdin.into(), stderr.map(OwnedFd::from));
        for pipe in [&stdin, &stdout].into_iter().chain(&stderr) {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        io::Result::Ok((stdin, stdout, stderr, exit))
    };
    // On failure the child goes as it came: dropped, killed and reaped.
    let (stdin, stdout, stderr, exit) = pipes().map_err(|error| spawn_error(errno(&error)))?;
    Ok(Spawned { child, stdin, stdout, stderr, exit })
}

/// Where a child writes: standard output and error. `shared`: the pipe that is both.
fn outputs(stderr: Stderr, shared: Option<&(PipeReader, PipeWriter)>) -> io::Result<(Stdio, Stdio)> {
    if let Some((_, theirs)) = shared {
        return Ok((theirs.try_clone()?.into(), theirs.try_clone()?.into()));
    }
    let stderr = match stderr {
        Stderr::Inherit => Stdio::inherit(),
        Stderr::Pipe => Stdio::piped(),
        Stderr::Null | Stderr::Output => Stdio::null(),
    };
    Ok((Stdio::piped(), stderr))
}

/// Why there is no child. What was there when it was looked for may be gone by now, and the system has one number for
/// all of it.
fn unspawned(error: OpenError, cwd: &Path, program: &Path) -> OpenError {
    if error != OpenError::NoInterpreter {
        return error;
    }
    if !can_enter(cwd) {
        return OpenError::BadDirectory;
    }
    executable(program).err().unwrap_or(error)
}

/// Whether a child can work there.
#[must_use]
pub fn can_enter(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|found| found.is_dir())
        && rustix::fs::access(directory, Access::EXEC_OK).is_ok()
}

fn search_path(spec: &SpawnSpec) -> &OsStr {
    // Of two values the later one counts, as in the child.
    let path = spec.env.iter().rev().find(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(""), |(_, path)| OsString::as_os_str(path.expose()))
}

/// A descriptor that is readable when the child has ended: a pidfd, or a pipe that a waiting thread closes.
fn exit_of(child: Pid) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    if let Ok(fd) = rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty()) {
        return Ok(fd);
    }
    wait_in_a_thread(child)
}

fn wait_in_a_thread(child: Pid) -> io::Result<OwnedFd> {
    let (ended, end) = io::pipe()?;
    thread::Builder::new().name("agentline-exit".into()).spawn(move || {
        // The child is left to be reaped by its owner.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(rustix::process::waitid(WaitId::Pid(child), ended), Err(Errno::INTR)) {}
        drop(end);
    })?;
    Ok(ended.into())
}

/// A child and its group. Dropped, it is killed with its group and reaped in the background.
pub(crate) struct Child {
    group: Pid,
    life: Life,
}

enum Life {
    Running(std::process::Child),
    /// The leader was reaped; others of the group may live.
    Reaped,
    /// Nobody is left; the number may be somebody else's by now.
    Gone,
}

impl Child {
    fn new(process: std::process::Child) -> Self {
        let group = Pid::from_child(&process);
        Self { group, life: Life::Running(process) }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        u32::try_from(self.group.as_raw_nonzero().get()).ok()
    }

    /// How the child ended, when it has: told once.
    pub(crate) fn reap(&mut self) -> Option<Exit> {
        let Life::Running(process) = &mut self.life else { return None };
        let exit = match process.try_wait() {
            Ok(status) => told(status?),
            // Somebody else reaped it: whoever ignores SIGCHLD in our process.
            Err(_) => Exit::Unknown,
        };
        self.life = Life::Reaped;
        Some(exit)
    }

    /// Signals the whole group, unless it is known to be gone.
    pub(crate) fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        match self.life {
            // ESRCH is no news, and EPERM (another user's by now) is beyond help.
            Life::Running(_) | Life::Reaped => drop(rustix::process::kill_process_group(self.group, signal)),
            Life::Gone => {}
        }
    }

    /// Whether anybody of the group lives. Zombies do not count.
    pub(crate) fn probe(&mut self) -> Group {
        match self.life {
            Life::Running(_) => Group::Alive,
            Life::Reaped if lives(self.group) => Group::Alive,
            Life::Reaped => {
                self.life = Life::Gone;
                guardian::forget(self.group);
                Group::Gone
            }
            Life::Gone => Group::Gone,
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(Signal::Kill);
        match std::mem::replace(&mut self.life, Life::Gone) {
            Life::Running(process) => bury(process),
            Life::Reaped => {}
            Life::Gone => return,
        }
        guardian::forget(self.group);
    }
}

fn told(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

fn lives(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group) != Err(Errno::SRCH) && !only_zombies(group)
}

/// `false` where there is no `/proc`.
fn only_zombies(group: Pid) -> bool {
    members().is_some_and(|mut members| members.all(|(_, of)| of != group))
}

/// Everybody who is no zombie, and the group of each; `None` where there is no `/proc`.
pub(crate) fn members() -> Option<impl Iterator<Item = (Pid, Pid)>> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    // Who is being reaped just then has group -1.
    let pid = |text: &str| text.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let mut members = processes.filter_map(move |process| {
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        // pid (name) state ppid pgrp …, and the name may hold anything.
        let mut fields = stat.rsplit(") ").next()?.split(' ');
        let (state, group) = (fields.next()?, pid(fields.nth(1)?)?);
        Some((pid(process.file_name().to_str()?)?, group)).filter(|_| !matches!(state, "Z" | "X"))
    });
    // A `/proc` without processes is none, such as the one of a system that has another by that name.
    let first = members.next()?;
    Some(std::iter::once(first).chain(members))
}

/// Reaps a child that was killed. One thread for all of them, and only while there are any.
fn bury(mut process: std::process::Child) {
    static DYING: Mutex<Option<Vec<std::process::Child>>> = Mutex::new(None);
    if let Ok(Some(_)) = process.try_wait() {
        return;
    }
    let mut dying = DYING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(dying) = &mut *dying {
        return dying.push(process);
    }
    let reaper = thread::Builder::new().name("agentline-reaper".into()).spawn(|| {
        loop {
            let mut dying = DYING.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(mut process) = dying.as_mut().and_then(Vec::pop) else {
                *dying = None;
                return;
            };
            drop(dying);
            let _ = process.wait();
        }
    });
    match reaper {
        Ok(_) => *dying = Some(vec![process]),
        Err(_) => drop(process.wait()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn where_there_is_no_pidfd_a_thread_tells_the_exit_and_leaves_the_child_to_its_owner() {
        let mut child = Child::new(Command::new("/bin/sh").args(["-c", "exit 3"]).spawn().unwrap());
        let ended = wait_in_a_thread(child.group).unwrap();
        assert_eq!(fs::File::from(ended).read(&mut [0]).unwrap(), 0);
        assert_eq!((child.reap(), child.reap()), (Some(Exit::Code(3)), None));
    }

    #[test]
    fn c6_what_went_away_between_the_look_and_the_start_is_named() {
        let (here, gone) = (Path::new("/"), Path::new("/no/such/folder"));
        let shell = Path::new("/bin/sh");
        for (cwd, program, why) in [
            (gone, shell, OpenError::BadDirectory),
            (here, gone, OpenError::NotFound),
            (here, Path::new("/etc"), OpenError::NotExecutable),
            (here, shell, OpenError::NoInterpreter),
        ] {
            assert_eq!(unspawned(OpenError::NoInterpreter, cwd, program), why);
        }
    }
}
