//! Children: pipes, exits, groups, and every way in which one cannot be started.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use agentline_core::{Action, Exit, Group, OpenError, Secret, Signal, SpawnSpec, Stderr};

use super::{A, Row, Script, Step, Until, Witness, check, file, look, row, sh, spawn, write};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("a child reads and writes, sees the end of its input and exits", |dir| {
            let script = vec![
                spawn(A, sh(dir, "cat; exit 7")),
                Step::Until(A, Until::Opened),
                write(A, "hello\n"),
                Step::Until(A, Until::Bytes(6)),
                Step::Until(A, Until::Written(1)),
                Step::Do(A, Action::CloseWrite),
                Step::Until(A, Until::Eof),
                Step::Until(A, Until::Exited),
                Step::UntilGone(A),
            ];
            let check = check(|seen| {
                let log = seen.on(A);
                assert!(log.opened.is_some_and(|peer| peer.pid.is_some_and(|pid| pid > 1)));
                assert_eq!((&*log.bytes, log.exit), (&b"hello\n"[..], Some(Exit::Code(7))));
            });
            (script, check)
        }),
        row("last words and the exit both arrive", |dir| {
            (
                ended(sh(dir, "printf last; printf words >&2; kill -9 $$")),
                says(b"last", b"words", Exit::Signal(9)),
            )
        }),
        row("a1: a child leads a session and a process group of its own", |dir| {
            let script = "read -r pid name state parent group session rest </proc/$$/stat
                [ $pid = $group ] && [ $pid = $session ] && echo leads";
            (ended(sh(dir, script)), says(b"leads\n", b"", Exit::Code(0)))
        }),
        row("wrapper-orphans-real-agent: SIGTERM reaches the whole group", |dir| {
            // The trap ends the first wait; the second one ends with the grandchild only.
            let script = vec![
                spawn(A, sh(dir, "trap 'echo bye' TERM; sh -c 'echo up; sleep 1000' & wait; wait; exit 3")),
                Step::Until(A, Until::Bytes(3)),
                Step::Do(A, Action::Signal(Signal::Term)),
                Step::Until(A, Until::Exited),
                Step::Until(A, Until::Eof),
                Step::UntilGone(A),
            ];
            (script, says(b"up\nbye\n", b"", Exit::Code(3)))
        }),
        row("a grandchild outlives its parent until the group is killed", |dir| {
            let script = vec![
                spawn(A, sh(dir, "sleep 1000 & echo up")),
                Step::Until(A, Until::Bytes(3)),
                Step::Until(A, Until::Exited),
                Step::Do(A, Action::Probe),
                Step::Until(A, Until::Group),
                look(|seen| assert_eq!((seen.on(A).group, seen.on(A).eof), (Some(Group::Alive), false))),
                Step::Do(A, Action::Signal(Signal::Kill)),
                Step::UntilGone(A),
                Step::Until(A, Until::Eof),
                // Harmless, whoever has the number by now.
                Step::Do(A, Action::Signal(Signal::Kill)),
            ];
            (script, says(b"up\n", b"", Exit::Code(0)))
        }),
        row("closing the link of a living child kills its group", |dir| {
            let witness = Witness::new(&dir.join("witness"));
            let script = vec![
                spawn(
                    A,
                    sh(dir, "trap '' TERM HUP; exec 9>witness; echo held >&9; echo up; sleep 1000 & wait"),
                ),
                Step::Until(A, Until::Bytes(3)),
                Step::Do(A, Action::Close),
            ];
            (script, check(|_| assert_eq!(witness.last_words(), "held\n")))
        }),
        row("closing the link of an exited child kills what is left of its group", |dir| {
            let witness = Witness::new(&dir.join("witness"));
            let script = vec![
                spawn(A, sh(dir, "exec 9>witness; echo held >&9; sleep 1000 & exit 0")),
                Step::Until(A, Until::Exited),
                Step::Do(A, Action::Close),
            ];
            (script, check(|_| assert_eq!(witness.last_words(), "held\n")))
        }),
        row("stderr-not-drained: a megabyte of stderr before the first answer blocks nobody", |dir| {
            let script = ended(sh(dir, "head -c 1048576 /dev/zero >&2; echo done"));
            let check = check(|seen| {
                assert_eq!((&*seen.on(A).bytes, seen.on(A).stderr.len()), (&b"done\n"[..], 1 << 20));
            });
            (script, check)
        }),
        row("the last words on stderr are heard before the exit", |dir| {
            let script = vec![
                spawn(A, sh(dir, "head -c 600000 /dev/zero >&2")),
                Step::Until(A, Until::Exited),
                look(|seen| assert_eq!(seen.on(A).stderr.len(), 600_000)),
                Step::UntilGone(A),
            ];
            (script, check(|_| {}))
        }),
        row("stderr that is thrown away is thrown away", |dir| {
            let spec = SpawnSpec { stderr: Stderr::Null, ..sh(dir, "echo lost >&2; echo kept") };
            (ended(spec), says(b"kept\n", b"", Exit::Code(0)))
        }),
        row("stderr that goes where stdout goes keeps its place", |dir| {
            let spec = SpawnSpec { stderr: Stderr::Output, ..sh(dir, "echo a; echo b >&2; echo c; exit 4") };
            (ended(spec), says(b"a\nb\nc\n", b"", Exit::Code(4)))
        }),
        row("a write to a dead child fails, and again", |dir| {
            let script = vec![
                spawn(A, sh(dir, "exit 0")),
                Step::Until(A, Until::Exited),
                write(A, "anybody?\n"),
                Step::Until(A, Until::WriteFailed),
                write(A, "anybody?\n"),
            ];
            (script, check(|seen| assert_eq!(seen.on(A).written, 0)))
        }),
        row("a write fails while it waits for a reader that dies", |dir| {
            let script = vec![
                spawn(A, sh(dir, "echo up; sleep 1000")),
                Step::Until(A, Until::Bytes(3)),
                write(A, vec![b'x'; 1 << 20]),
                Step::Do(A, Action::Signal(Signal::Kill)),
                Step::Until(A, Until::WriteFailed),
            ];
            (script, check(|seen| assert_eq!(seen.on(A).written, 0)))
        }),
        row("a child that closes its stdout can still be written to", |dir| {
            let script = vec![
                spawn(A, sh(dir, "exec >&-; read -r code; exit $code")),
                Step::Until(A, Until::Eof),
                write(A, "5\n"),
                Step::Until(A, Until::Exited),
            ];
            (script, check(|seen| assert_eq!(seen.on(A).exit, Some(Exit::Code(5)))))
        }),
        row("closing our half gives up what is unwritten", |dir| {
            let script = vec![
                // It reads only when told to, and then finds what the pipe held.
                spawn(
                    A,
                    sh(
                        dir,
                        "trap 'wc -c; exit 0' TERM; echo up; while :; do sleep 1000 >&- 2>&- & wait; done",
                    ),
                ),
                Step::Until(A, Until::Bytes(3)),
                write(A, vec![b'x'; 1 << 20]),
                Step::Do(A, Action::CloseWrite),
                Step::Do(A, Action::Signal(Signal::Term)),
                Step::Until(A, Until::Exited),
                Step::Until(A, Until::Eof),
            ];
            let check = check(|seen| {
                let log = seen.on(A);
                let read: usize = String::from_utf8_lossy(&log.bytes[3..]).trim().parse().expect("a count");
                assert!(read > 0 && read < 1 << 20, "{read}");
                assert_eq!((log.written, log.write_failed), (0, false));
            });
            (script, check)
        }),
        row("a held link leaves the bytes in the pipe and still hears of the rest", |dir| {
            let held = "echo begun >&2; head -c 300000 /dev/zero; echo done >&2";
            let script = vec![
                spawn(A, sh(dir, held)),
                Step::Until(A, Until::Opened),
                Step::Do(A, Action::Read(false)),
                Step::Until(A, Until::Stderr(6)),
                write(A, "x"),
                Step::Until(A, Until::Written(1)),
                look(|seen| assert_eq!((seen.on(A).bytes.len(), seen.on(A).stderr.len()), (0, 6))),
                Step::Do(A, Action::Read(true)),
                Step::Until(A, Until::Stderr(11)),
                Step::Until(A, Until::Eof),
            ];
            (script, check(|seen| assert_eq!(seen.on(A).bytes.len(), 300_000)))
        }),
        row("an exit is heard while the link is held, and the bytes afterwards", |dir| {
            let script = vec![
                spawn(A, sh(dir, "echo words")),
                Step::Until(A, Until::Opened),
                Step::Do(A, Action::Read(false)),
                Step::Until(A, Until::Exited),
                look(|seen| assert_eq!((seen.on(A).bytes.len(), seen.on(A).eof), (0, false))),
                Step::Do(A, Action::Read(true)),
                Step::Until(A, Until::Eof),
            ];
            (script, says(b"words\n", b"", Exit::Code(0)))
        }),
        row("two-way-pipe-deadlock: ten megabytes go both ways at once", |dir| {
            let script = vec![
                spawn(A, sh(dir, "cat")),
                write(A, vec![b'x'; 10 << 20]),
                Step::Until(A, Until::Written(1)),
                Step::Do(A, Action::CloseWrite),
                Step::Until(A, Until::Eof),
                Step::Until(A, Until::Exited),
            ];
            (script, check(|seen| assert_eq!(seen.on(A).bytes.len(), 10 << 20)))
        }),
        row(
            "env-clear-forgotten: arguments and environment arrive exactly, and nothing beside them",
            |dir| {
                let mut spec = sh(dir, "printf '%s|' \"$0\" \"$@\"; exec /usr/bin/env");
                spec.args.extend(["a b", "", "'", "--x=1 2"].map(OsString::from));
                spec.env = env([("A", "1"), ("EMPTY", ""), ("PATH", "/usr/bin:/bin"), ("Q", "a\nb")]);
                let check = check(|seen| {
                    let text = String::from_utf8_lossy(&seen.on(A).bytes).into_owned();
                    let (args, env) = text.rsplit_once('|').expect("arguments");
                    assert_eq!(args, "a b||'|--x=1 2");
                    let mut lines: Vec<&str> = env.lines().filter(|line| !line.starts_with("PWD=")).collect();
                    lines.sort_unstable();
                    lines.retain(|line| !line.starts_with("SHLVL=") && !line.starts_with("_="));
                    assert_eq!(lines, ["A=1", "EMPTY=", "PATH=/usr/bin:/bin", "Q=a", "b"]);
                });
                (ended(spec), check)
            },
        ),
        row(
            "g9: a bare name is found in the child's PATH, past relative folders and files that cannot be executed",
            |dir| {
                for sub in ["plain", "folder/tool", "good", "late"] {
                    fs::create_dir_all(dir.join(sub)).expect("a directory");
                }
                file(dir.join("tool"), "#!/bin/sh\necho from the working directory\n", 0o755);
                file(dir.join("plain/tool"), "#!/bin/sh\necho plain\n", 0o644);
                file(dir.join("good/tool"), "#!/bin/sh\necho good\n", 0o755);
                file(dir.join("late/tool"), "#!/bin/sh\necho late\n", 0o755);
                let path = ["plain", "folder", "missing", "good", "late"]
                    .map(|sub| dir.join(sub).display().to_string());
                // From where we are, which is not where the child is.
                let up = "../".repeat(std::env::current_dir().expect("a directory").components().count());
                let relative = format!("{up}{}", dir.join("late").display());
                let path = format!(":.:..:good:{relative}::{}", path.join(":"));
                let spec = SpawnSpec { program: "tool".into(), env: env([("PATH", &path)]), ..bare(dir) };
                (ended(spec), says(b"good\n", b"", Exit::Code(0)))
            },
        ),
    ];
    rows.extend(refusals());
    rows
}

/// Everything that cannot be started, and what is said of it.
fn refusals() -> Vec<Row> {
    let case = |name, expected, spec: fn(&Path) -> SpawnSpec| {
        row(name, |dir| {
            let script = vec![spawn(A, spec(dir)), Step::Until(A, Until::Failed)];
            let check = check(move |seen| assert_eq!(seen.on(A).failed, Some(expected)));
            (script, check)
        })
    };
    vec![
        case("a missing path is not found", OpenError::NotFound, |dir| SpawnSpec {
            program: dir.join("none").into(),
            ..bare(dir)
        }),
        case("a bare name that is nowhere is not found", OpenError::NotFound, |dir| SpawnSpec {
            program: "no-such-program".into(),
            ..sh(dir, "")
        }),
        case("a bare name without PATH is not found", OpenError::NotFound, |dir| SpawnSpec {
            env: Vec::new(),
            ..sh(dir, "")
        }),
        case("an empty name is not found", OpenError::NotFound, bare),
        case("a directory is not executable", OpenError::NotExecutable, |dir| SpawnSpec {
            program: dir.into(),
            ..bare(dir)
        }),
        case("a file without the permission is not executable", OpenError::NotExecutable, |dir| SpawnSpec {
            program: file(dir.join("plain"), "#!/bin/sh\n", 0o644).into(),
            ..bare(dir)
        }),
        case("enoexec-stub: a stub without `#!` is no program", OpenError::NotAProgram, |dir| SpawnSpec {
            program: file(dir.join("stub"), "echo placeholder\n", 0o755).into(),
            ..bare(dir)
        }),
        case("a stub that PATH leads to is no program", OpenError::NotAProgram, |dir| {
            file(dir.join("stub"), "echo placeholder\n", 0o755);
            let path = dir.display().to_string();
            SpawnSpec { program: "stub".into(), env: env([("PATH", &path)]), ..bare(dir) }
        }),
        case("an empty file is no program", OpenError::NotAProgram, |dir| SpawnSpec {
            program: file(dir.join("empty"), "", 0o755).into(),
            ..bare(dir)
        }),
        case(
            "found-but-shebang-needs-path: a script without its interpreter says so",
            OpenError::NoInterpreter,
            |dir| SpawnSpec {
                program: file(dir.join("script"), "#!/no/such/interpreter\n", 0o755).into(),
                ..bare(dir)
            },
        ),
        case("a missing working directory is named", OpenError::BadDirectory, |dir| SpawnSpec {
            cwd: dir.join("none"),
            ..sh(dir, "")
        }),
        case("a working directory that is a file is named", OpenError::BadDirectory, |dir| SpawnSpec {
            cwd: file(dir.join("file"), "", 0o644),
            ..sh(dir, "")
        }),
        case("three megabytes of arguments are too long", OpenError::TooLong, |dir| SpawnSpec {
            args: vec!["x".repeat(3 << 20).into()],
            ..sh(dir, "")
        }),
    ]
}

/// A child without a name.
fn bare(dir: &Path) -> SpawnSpec {
    SpawnSpec { cwd: dir.into(), ..SpawnSpec::default() }
}

fn env<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(OsString, Secret<OsString>)> {
    pairs.map(|(name, value)| (name.into(), OsString::from(value).into())).into()
}

/// Starts a child and waits for all that ends with it.
fn ended(spec: SpawnSpec) -> Script {
    vec![
        spawn(A, spec),
        Step::Until(A, Until::Opened),
        Step::Until(A, Until::Eof),
        Step::Until(A, Until::Exited),
        Step::UntilGone(A),
    ]
}

fn says(bytes: &'static [u8], stderr: &'static [u8], exit: Exit) -> super::Check {
    check(move |seen| {
        let log = seen.on(A);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!((text(&log.bytes), text(&log.stderr)), (text(bytes), text(stderr)));
        assert_eq!(log.exit, Some(exit));
    })
}
