//! What a runtime does to the process as a whole. Each runs alone in its process.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use agentline_core::{Action, Address, Exit, LinkId, Open, OpenError};
use rustix::process::{Resource, Rlimit, WaitId, WaitIdOptions, getrlimit, setrlimit};

use super::{A, B, C, Drive, Script, Step, Until, look, open, sh, spawn};

/// A thousand children come and go, and as many are left living, and nothing is left of them: no descriptor,
/// no thread, no zombie.
///
/// # Panics
///
/// When something is left.
pub fn nothing_is_left(drive: Drive) {
    let short = |dir: &Path| {
        vec![spawn(A, sh(dir, "exit 3")), Step::Until(A, Until::Eof), Step::Until(A, Until::Exited)]
    };
    let living =
        |dir: &Path| vec![spawn(A, sh(dir, "echo up; exec sleep 1000")), Step::Until(A, Until::Bytes(3))];
    let dir = Path::new("/");
    drive(living(dir), None);
    settle();
    let (files, threads) = (count("/proc/self/fd"), count("/proc/self/task"));
    for _ in 0..1000 {
        let seen = drive(short(dir), None).expect("a log");
        assert_eq!((seen.stuck, seen.on(A).exit), (None, Some(Exit::Code(3))));
    }
    for _ in 0..100 {
        drive(living(dir), None);
    }
    settle();
    assert_eq!((count("/proc/self/fd"), count("/proc/self/task")), (files, threads));
}

/// Without a descriptor left, whatever is opened says so, and goes through when there are some again.
///
/// # Panics
///
/// When it does not.
pub fn a_shortage_passes(dir: &Path, drive: Drive) {
    let limit = getrlimit(Resource::Nofile);
    let allow = move |current| {
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("a lower limit");
    };
    let address = Address(dir.join("s/sock"));
    let [again, accept, caller] = [10, 11, 12].map(LinkId::from_number);
    let other = Address(dir.join("s/other"));
    let opens = [Open::spawn(sh(dir, "exit 3")), Open::Connect(other.clone()), Open::Listen(address)];
    let mut script = vec![open(again, Open::Listen(other.clone())), Step::Until(again, Until::Opened)];
    script.extend([
        open(caller, Open::Connect(other)),
        Step::Until(caller, Until::Opened),
        look(move |_| allow(next_descriptor())),
        open(accept, Open::Accept(again)),
        Step::Until(accept, Until::Failed),
    ]);
    for (link, how) in [A, B, C].into_iter().zip(opens) {
        script.extend([open(link, how), Step::Until(link, Until::Failed)]);
    }
    script.extend([
        look(move |_| allow(limit.current)),
        open(accept, Open::Accept(again)),
        Step::Until(accept, Until::Opened),
        spawn(A, sh(dir, "exit 3")),
        Step::Until(A, Until::Exited),
    ]);
    let seen = drive(script, None).expect("a log");
    let failed = [A, B, C, accept].map(|link| seen.on(link).failed);
    assert_eq!((seen.stuck, failed), (None, [Some(OpenError::TooManyFiles); 4]));
}

/// A child that holds the witness of that name, hard to kill, once it is there. Whoever writes a line into the pipe
/// `release` lets it say `survived` and end.
#[must_use]
pub fn stubborn(dir: &Path) -> Script {
    held(A, dir, "witness")
}

/// Two of them, the second with the witness `second`; then this process kills itself.
#[must_use]
pub fn sudden_death(dir: &Path) -> Script {
    let mut script = stubborn(dir);
    script.extend(held(B, dir, "second"));
    script.push(look(|_| {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }));
    script
}

fn held(link: LinkId, dir: &Path, witness: &str) -> Script {
    let script = format!(
        "trap '' TERM HUP INT; exec 8<>release 9>{witness}; echo held >&9; echo up; read -r _ <&8; echo survived >&9"
    );
    vec![spawn(link, sh(dir, &script)), Step::Until(link, Until::Bytes(3))]
}

/// Reads its given input to the end, then answers.
#[must_use]
pub fn answers() -> Script {
    vec![
        open(A, Open::Given(0)),
        Step::Until(A, Until::Eof),
        super::write(A, "answer\n"),
        Step::Until(A, Until::Written(1)),
        Step::Do(A, Action::CloseWrite),
    ]
}

/// Writes to a given output that nobody reads.
#[must_use]
pub fn unheard() -> Script {
    vec![open(A, Open::Given(0)), super::write(A, "anybody?\n"), Step::Until(A, Until::WriteFailed)]
}

/// Waits until no child is left, and no thread that reaps them.
fn settle() {
    // Blocks while a child lives, returns at once for a zombie.
    while rustix::process::waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_ok() {
        thread::yield_now();
    }
    while reaps() {
        thread::yield_now();
    }
}

/// The number that the next descriptor would get.
fn next_descriptor() -> Option<u64> {
    u64::try_from(rustix::io::dup(rustix::stdio::stdin()).ok()?.as_raw_fd()).ok()
}

fn reaps() -> bool {
    let names = fs::read_dir("/proc/self/task").expect("the proc file system");
    // One that ends meanwhile has no name any more.
    names
        .flatten()
        .any(|task| fs::read(task.path().join("comm")).is_ok_and(|name| name.starts_with(b"agentline-reap")))
}

fn count(dir: &str) -> usize {
    fs::read_dir(dir).expect("the proc file system").count()
}
