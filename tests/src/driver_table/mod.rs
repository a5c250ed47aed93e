//! What each action does to the operating system: one table of rows, the same for every runtime.
//!
//! A row is a script. Its machine emits one action after the other, waits for what the script says it must
//! hear, and keeps what it heard. The runtime under test only drives it.

mod children;
mod files;
mod runtimes;
mod script;
mod sockets;
pub mod stopped;
pub mod whole;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentline_blocking::Given;
use agentline_core::{Action, LinkId, Open, SpawnSpec, Stderr};
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

pub use runtimes::{Drive, RUNTIMES};
pub use script::{Log, Script, Scripted, Seen, Step, Until};

/// One row of the table.
pub struct Row {
    name: &'static str,
    script: Script,
    given: Option<(OwnedFd, OwnedFd)>,
    check: Check,
    _dir: TempDir,
}

type Check = Box<dyn FnOnce(&Seen)>;

/// All rows.
#[must_use]
pub fn rows() -> Vec<Row> {
    [children::rows(), sockets::rows(), files::rows()].into_iter().flatten().collect()
}

impl Row {
    /// Lets `drive` play the script, with a stream for [`Open::Given`] if the row has one, and compares what
    /// was seen with what is expected.
    ///
    /// # Panics
    ///
    /// When they differ.
    pub fn run(self, drive: Drive) {
        let name = self.name;
        let given = self.given.map(|(input, output)| Given::pair(input, output));
        let seen = drive(self.script, given).unwrap_or_else(|| panic!("{name}: ended without a word"));
        assert_eq!(seen.stuck, None, "{name}: stuck at that step; {seen:?}");
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.check)(&seen)));
        assert!(looked.is_ok(), "{name}: {seen:?}");
    }
}

/// A row; `build` gets a directory of its own.
fn row(name: &'static str, build: impl FnOnce(&Path) -> (Script, Check)) -> Row {
    let dir = TempDir::with_prefix("al").expect("a temporary directory");
    let (script, check) = build(dir.path());
    Row { name, script, given: None, check, _dir: dir }
}

fn check(check: impl FnOnce(&Seen) + 'static) -> Check {
    Box::new(check)
}

/// A shell script as a child.
#[must_use]
pub fn sh(dir: &Path, script: &str) -> SpawnSpec {
    SpawnSpec {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: dir.into(),
        env: vec![("PATH".into(), std::ffi::OsString::from("/usr/bin:/bin").into())],
        stderr: Stderr::Pipe,
    }
}

fn open(link: LinkId, open: Open) -> Step {
    Step::Do(link, Action::Open(open))
}

fn spawn(link: LinkId, spec: SpawnSpec) -> Step {
    open(link, Open::spawn(spec))
}

fn write(link: LinkId, bytes: impl Into<Vec<u8>>) -> Step {
    Step::Do(link, Action::Write(bytes.into()))
}

fn look(look: impl FnOnce(&Seen) + Send + 'static) -> Step {
    Step::Look(Box::new(look))
}

/// A file with these permissions. Another process writes it: a descriptor of ours, copied into a child that
/// another thread happens to start, would keep it from being executed.
fn file(path: PathBuf, content: &str, mode: u32) -> PathBuf {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "umask 077; cat >\"$0\" && chmod \"$1\" \"$0\""])
        .args([path.as_os_str(), format!("{mode:o}").as_ref()])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    writer.stdin.take().expect("a pipe").write_all(content.as_bytes()).expect("room");
    assert!(writer.wait().expect("its end").success());
    path
}

/// The witness of a process: it holds the writing end of a pipe by name, and the reading end sees when the
/// last holder is gone.
#[derive(Debug)]
pub struct Witness(File);

impl Witness {
    /// Makes the pipe. A shell holds it with `exec 9>PATH`.
    ///
    /// # Panics
    ///
    /// When the system is short of something.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        fifo(path);
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        Self(fd.expect("its reading end").into())
    }

    /// Waits for that many bytes from a holder.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    pub fn wait_for(&mut self, bytes: usize) {
        rustix::io::ioctl_fionbio(&self.0, false).expect("a blocking pipe");
        let mut held = rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN);
        rustix::event::poll(std::slice::from_mut(&mut held), None).expect("a holder");
        self.0.read_exact(&mut vec![0; bytes]).expect("words");
    }

    /// Waits until that text was said, and returns all of it up to there.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    pub fn wait_for_text(&mut self, text: &str) -> String {
        let mut said = Vec::new();
        while !said.ends_with(text.as_bytes()) {
            self.wait_for(0);
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("words");
            said.extend(byte);
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Waits until nobody holds it, and returns what was said.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    #[must_use]
    pub fn last_words(mut self) -> String {
        rustix::io::ioctl_fionbio(&self.0, false).expect("a blocking pipe");
        let mut words = String::new();
        self.0.read_to_string(&mut words).expect("words");
        words
    }
}

/// A pipe by the name `release` that children wait at: whoever should be dead is let go, so that a test fails of one
/// that is not, and does not hang.
#[derive(Debug)]
pub struct Release(File);

impl Release {
    /// Makes the pipe.
    ///
    /// # Panics
    ///
    /// When the system is short of something.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let path = dir.join("release");
        fifo(&path);
        // With both ends it is there before and after any reader.
        Self(File::options().read(true).write(true).open(path).expect("a pipe"))
    }

    /// Lets everybody go who waits.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn let_go(&self) {
        (&self.0).write_all(&b"go\n".repeat(100)).expect("a line each");
    }
}

fn fifo(path: &Path) {
    let made =
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0);
    made.expect("a named pipe");
}

/// The first link of a script.
pub const A: LinkId = LinkId::FIRST;
/// The second.
pub const B: LinkId = LinkId::from_number(1);
/// The third.
pub const C: LinkId = LinkId::from_number(2);
