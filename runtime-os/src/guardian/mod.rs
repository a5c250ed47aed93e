//! No child outlives us, however we die: one small process sees off what is left.
//!
//! It leads a session of its own, and is told on its stdin which groups live. A child tells it of itself, after the
//! fork and before it runs its program, so there is no moment in which a program runs and nobody would miss it. Each
//! child holds the line to the guardian up to that moment: it ends when we are dead and nobody is on the way.
//!
//! Then the groups that are left have what they would have had of us: some time to see the end of their input, to
//! clean up and to save; then SIGTERM; then SIGKILL. One that we have seen to its end is not on the list any more.
//!
//! | guardian | started by | finds |
//! |---|---|---|
//! | a shell | [`arm`] | the groups |
//! | our own program, once more | [`arm_with`] | the groups, and on Linux whoever left them, by a [mark](MARK) in its environment |
//!
//! Neither finds who left its group (the shell) or who did that with another environment or another user's rights.

mod serve;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use agentline_core::OpenError;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::birth::{Ear, Image, become_image, say, say_all};
use crate::errno::{errno, open_error, spawn_error};

pub use serve::serve;

/// The variable by which the children of an armed process are known, with a value that no other process uses.
pub const MARK: &str = "AGENTLINE_GUARDIAN";

/// Starts a shell as the guardian of this whole process.
///
/// # Errors
///
/// There is no `/bin/sh`, or the system is short of something: the children of this process are not guarded.
pub fn arm() -> io::Result<()> {
    let args = ["sh", "-c", include_str!("guardian.sh"), "agentline-guardian"];
    lock().arm(Guardian { program: "/bin/sh".into(), args: args.map(OsString::from).into() })
}

/// Starts this program once more, with these arguments, as the guardian of this whole process. There it has to
/// call [`serve`].
///
/// On Linux it is the very file that runs, even when that was replaced or removed.
///
/// # Errors
///
/// It cannot be started: the children of this process are not guarded.
pub fn arm_with(args: &[&str]) -> io::Result<()> {
    let us = Path::new("/proc/self/exe");
    let program = if us.exists() { us.to_owned() } else { std::env::current_exe()? };
    let name = std::env::args_os().next().unwrap_or_default();
    let args = std::iter::once(name).chain(args.iter().map(OsString::from)).collect();
    lock().arm(Guardian { program, args })
}

/// Starts a child that the guardian knows of before it runs its program. `start` hands on where the guardian listens
/// and what the child is marked with, and is called once more if the guardian was gone.
///
/// # Errors
///
/// The child cannot be started, or there is no guardian any more.
pub(crate) fn witness(start: impl Fn(Option<&Post>) -> io::Result<Child>) -> Result<Child, OpenError> {
    let start = |post: Option<&Post>| start(post).map_err(|error| errno(&error));
    let mut guard = lock();
    guard.stand_ready().map_err(unguarded)?;
    let Some(post) = guard.post() else {
        // Nobody guards, so nobody has to wait for others' children.
        drop(guard);
        let child = start(None).map_err(spawn_error)?;
        lock().know(Pid::from_child(&child));
        return Ok(child);
    };
    // Nobody else talks to the guardian meanwhile, and no guardian that takes its place misses a child.
    let started = match start(Some(post)) {
        Err(Errno::PIPE) => start(Some(guard.replace().map_err(unguarded)?)),
        started => started,
    };
    let child = started.map_err(spawn_error)?;
    guard.groups.insert(number(Pid::from_child(&child)));
    Ok(child)
}

/// The group is gone, or will be as soon as the system gets to it.
pub(crate) fn forget(group: Pid) {
    let mut guard = lock();
    guard.groups.remove(&number(group));
    guard.tell('-', group);
}

/// Where a guardian stands.
pub(crate) struct Post {
    pub(crate) ear: Ear,
    /// The value of [`MARK`].
    pub(crate) mark: String,
    process: Child,
}

static GUARD: Mutex<Guard> = Mutex::new(Guard { state: State::Unarmed, groups: BTreeSet::new() });

struct Guard {
    state: State,
    /// The groups that live, for a guardian that has to begin anew.
    groups: BTreeSet<i32>,
}

enum State {
    Unarmed,
    /// The last one is gone, and the system had no other for us.
    Vacant(Guardian),
    Standing(Guardian, Post),
}

/// How a guardian is started.
#[derive(Clone)]
struct Guardian {
    program: PathBuf,
    args: Vec<OsString>,
}

impl Guard {
    fn arm(&mut self, guardian: Guardian) -> io::Result<()> {
        if let State::Unarmed = self.state {
            self.state = State::Vacant(guardian);
            if let Err(error) = self.replace() {
                self.state = State::Unarmed;
                return Err(error);
            }
        }
        Ok(())
    }

    fn stand_ready(&mut self) -> io::Result<()> {
        match self.state {
            State::Vacant(_) => self.replace().map(drop),
            State::Unarmed | State::Standing(..) => Ok(()),
        }
    }

    fn post(&self) -> Option<&Post> {
        match &self.state {
            State::Standing(_, post) => Some(post),
            State::Unarmed | State::Vacant(_) => None,
        }
    }

    /// A child that was started when nobody guarded.
    fn know(&mut self, group: Pid) {
        self.groups.insert(number(group));
        self.tell('+', group);
    }

    fn tell(&mut self, what: char, group: Pid) {
        if let Some(post) = self.post()
            && say(&post.ear, what, group).is_err()
        {
            // Where that fails, the next child cannot be started without one.
            let _ = self.replace();
        }
    }

    /// Starts a guardian, in place of one that somebody killed or stopped, and tells it everything.
    fn replace(&mut self) -> io::Result<&Post> {
        let guardian = match std::mem::replace(&mut self.state, State::Unarmed) {
            State::Unarmed => return Err(io::ErrorKind::NotConnected.into()),
            State::Vacant(guardian) => guardian,
            State::Standing(guardian, mut post) => {
                // Before its stdin ends, or it would do its work.
                let _ = post.process.kill();
                let _ = post.process.wait();
                guardian
            }
        };
        self.state = State::Vacant(guardian.clone());
        let post = guardian.start(&self.groups)?;
        self.state = State::Standing(guardian, post);
        self.post().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Guardian {
    fn start(&self, groups: &BTreeSet<i32>) -> io::Result<Post> {
        let (ours, theirs) = UnixStream::pair()?;
        #[cfg(target_vendor = "apple")]
        rustix::net::sockopt::set_socket_nosigpipe(&ours, true)?;
        let args = self.args.iter().map(OsString::as_os_str);
        let image = Image::new(self.program.as_os_str(), args, [])?;
        let mut command = Command::new(&self.program);
        command.current_dir("/").stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        become_image(&mut command, image, None);
        let process = command.spawn()?;
        let post = Post { ear: Arc::new(ours.into()), mark: mark(), process };
        let known = groups.iter().map(|group| format!("+ {group}\n"));
        let all: String = std::iter::once(format!("= {}\n", post.mark)).chain(known).collect();
        match say_all(&post.ear, all.as_bytes()) {
            Ok(()) => Ok(post),
            Err(errno) => {
                let Post { mut process, .. } = post;
                let _ = process.kill();
                let _ = process.wait();
                Err(errno.into())
            }
        }
    }
}

/// One for the whole process: children of a guardian that was replaced still have theirs.
fn mark() -> String {
    static MARK: Mutex<Option<String>> = Mutex::new(None);
    let mut mark = MARK.lock().unwrap_or_else(PoisonError::into_inner);
    let made = mark.get_or_insert_with(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("{}-{:x}", std::process::id(), now.as_nanos())
    });
    made.clone()
}

fn unguarded(error: io::Error) -> OpenError {
    let why = open_error(errno(&error));
    if why.is_transient() { why } else { OpenError::Unguarded }
}

fn number(group: Pid) -> i32 {
    group.as_raw_nonzero().get()
}

fn lock() -> MutexGuard<'static, Guard> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use agentline_core::{SpawnSpec, Stderr};

    use super::*;
    use crate::process::{Spawned, spawn};

    /// A guardian that we listen for; the one that takes its place is a program that ends at once.
    fn listen() -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let guardian = Guardian { program: "/bin/cat".into(), args: vec!["cat".into()] };
        let process = Command::new("/bin/true").spawn().unwrap();
        lock().state = State::Standing(guardian, Post { ear: Arc::new(ours.into()), mark: mark(), process });
        theirs
    }

    fn heard(mut theirs: &UnixStream) -> String {
        let mut bytes = Vec::new();
        let _ = theirs.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn child(program: &str) -> Result<Spawned, OpenError> {
        let spec = SpawnSpec {
            program: program.into(),
            cwd: "/".into(),
            stderr: Stderr::Null,
            ..SpawnSpec::default()
        };
        spawn(&spec)
    }

    fn pid(spawned: &Spawned) -> u32 {
        spawned.child.pid().unwrap()
    }

    /// Runs that test again as the only one of a process, which has one guardian for all its threads.
    fn alone(name: &str, test: fn()) {
        const ALONE: &str = "AGENTLINE_TEST_ALONE";
        if std::env::var_os(ALONE).is_some() {
            return test();
        }
        let us = std::env::current_exe().unwrap();
        let ran = Command::new(us).args(["--exact", name, "--nocapture"]).env(ALONE, "").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    #[test]
    fn g6_a_guardian_hears_of_each_child_before_its_program_runs() {
        let name = "guardian::tests::g6_a_guardian_hears_of_each_child_before_its_program_runs";
        alone(name, guardian_hears_of_each_child);
    }

    fn guardian_hears_of_each_child() {
        let theirs = listen();
        let (first, second) = (child("/bin/cat").unwrap(), child("/bin/cat").unwrap());
        // Each child holds the line until it is its program, so what it says was said before.
        let (one, two) = (pid(&first), pid(&second));
        assert_eq!(heard(&theirs), format!("+ {one}\n+ {two}\n"));
        drop(first);
        assert_eq!(heard(&theirs), format!("- {one}\n"));

        // A child that becomes nothing is not on the list.
        let stub = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(child(stub.to_str().unwrap()).err(), Some(OpenError::NotAProgram));
        let told = heard(&theirs);
        let (came, went) = told.split_once('\n').unwrap();
        assert_eq!(went, format!("{}\n", came.replace('+', "-")));

        // A guardian that is gone is replaced, and told of those who live.
        drop(theirs);
        let third = child("/bin/cat").unwrap();
        let three = i32::try_from(pid(&third)).unwrap();
        let two = i32::try_from(two).unwrap();
        assert_eq!(lock().groups, [two, three].into());
        assert!(matches!(lock().state, State::Standing(..)));

        // So is one that does not listen any more, however full its ear is; and where there is no other, no child
        // is started that nobody would miss.
        let deaf = listen();
        if let State::Standing(guardian, post) = &mut lock().state {
            guardian.program = "/no/such/program".into();
            while rustix::net::send(&post.ear, b"+ 4194304\n", rustix::net::SendFlags::DONTWAIT).is_ok() {}
        }
        for _ in 0..2 {
            assert_eq!(child("/bin/cat").err(), Some(OpenError::Unguarded));
            assert!(matches!(lock().state, State::Vacant(_)));
        }
        drop(deaf);
        lock().state = State::Unarmed;
    }

    #[test]
    fn nothing_is_lost_on_a_full_line() {
        const MANY: i32 = 10_000;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ear: OwnedFd = ours.into();
        let reader = thread::spawn(move || BufReader::new(theirs).lines().map_while(Result::ok).count());
        for group in 2..MANY + 2 {
            say(&ear, '+', Pid::from_raw(group).unwrap()).unwrap();
        }
        drop(ear);
        assert_eq!(reader.join().unwrap(), MANY as usize);
    }
}
