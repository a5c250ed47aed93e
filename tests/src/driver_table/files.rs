//! Stored files, and streams that are given.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use agentline_core::{Action, Change, Open, Store, StoreId};
use rustix::fs::OFlags;

use super::{A, Check, Row, Script, Step, Until, check, file, look, open, row, sh, spawn, write};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("a file is stored before the next output", |dir| {
            let script = vec![
                put(dir.join("new/deep/record"), "content", 0o640),
                spawn(A, sh(dir, "cat new/deep/record; ls -A new/deep")),
                Step::Until(A, Until::Eof),
            ];
            let path = dir.join("new/deep/record");
            let check = check(move |seen| {
                assert_eq!(String::from_utf8_lossy(&seen.on(A).bytes), "contentrecord\n");
                let mode = fs::metadata(path).expect("the file").permissions().mode();
                assert_eq!((mode & 0o7777, &*seen.stores_failed), (0o640, &[][..]));
            });
            (script, check)
        }),
        row("a stored file replaces a link, and what it led to stays", |dir| {
            file(dir.join("target"), "theirs", 0o600);
            symlink("target", dir.join("record")).expect("a link");
            // Somebody laid a link where the temporary file will be.
            symlink("target", dir.join(format!(".record.{}", std::process::id()))).expect("a link");
            let script = vec![put(dir.join("record"), "ours", 0o600)];
            let dir = dir.to_owned();
            let check = check(move |seen| {
                let read = |name| fs::read_to_string(dir.join(name)).expect("a file");
                assert_eq!(
                    (read("record"), read("target"), &*seen.stores_failed),
                    ("ours".into(), "theirs".into(), &[][..])
                );
                assert!(!fs::symlink_metadata(dir.join("record")).expect("a file").is_symlink());
            });
            (script, check)
        }),
        row("a stored file is removed, and a missing one is fine", |dir| {
            let path = file(dir.join("record"), "old", 0o600);
            let remove = |path: &Path| {
                Step::Store(StoreId::FIRST, Store { path: path.into(), change: Change::Remove })
            };
            let script = vec![remove(&path), remove(&path)];
            let check = check(move |seen| assert!(!path.exists() && seen.stores_failed.is_empty()));
            (script, check)
        }),
        row("a file grows at its end, and what is no file of ours does not", |dir| {
            symlink("target", dir.join("link")).expect("a link");
            let add = |id, name: &str, content: &str| {
                let change = Change::Append { bytes: content.as_bytes().to_vec().into(), mode: 0o600 };
                Step::Store(StoreId::from_number(id), Store { path: dir.join(name), change })
            };
            let script = vec![
                add(1, "new/record", "a\n"),
                add(1, "new/record", "b\n"),
                add(2, "link", "c"),
                look(|_| ()),
            ];
            let dir = dir.to_owned();
            let check = check(move |seen| {
                let path = dir.join("new/record");
                let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
                assert_eq!((fs::read_to_string(path).expect("text"), mode), ("a\nb\n".to_owned(), 0o600));
                let failed = (StoreId::from_number(2), rustix::io::Errno::LOOP.raw_os_error());
                assert_eq!(seen.stores_failed, [failed]);
                assert!(!dir.join("target").exists());
            });
            (script, check)
        }),
        row("a store that fails says why and leaves nothing behind", |dir| {
            let folder = dir.join("folder");
            fs::create_dir(&folder).expect("a directory");
            let script = vec![
                put_as(StoreId::from_number(7), folder, "x", 0o600),
                put_as(StoreId::from_number(3), file(dir.join("file"), "", 0o600).join("x"), "x", 0o600),
                look(|_| ()),
            ];
            let dir = dir.to_owned();
            let check = check(move |seen| {
                let expected = [(7, rustix::io::Errno::ISDIR), (3, rustix::io::Errno::NOTDIR)];
                let expected = expected.map(|(id, errno)| (StoreId::from_number(id), errno.raw_os_error()));
                assert_eq!(seen.stores_failed, expected);
                assert_eq!(fs::read_dir(dir).expect("a directory").count(), 2);
            });
            (script, check)
        }),
        given("pipes that are given are read and written, and given back as they were", |_| {
            let ((input, mut to), (mut from, output)) = pipes();
            let kept: Vec<OwnedFd> = [&input, &output].map(|fd| fd.try_clone().expect("a copy")).into();
            let probe = kept[0].try_clone().expect("a copy");
            to.write_all(b"hello").expect("room");
            drop(to);
            let script = vec![
                open(A, Open::Given(0)),
                Step::Until(A, Until::Opened),
                look(move |_| assert!(is_nonblocking(&probe))),
                Step::Until(A, Until::Bytes(5)),
                Step::Until(A, Until::Eof),
                write(A, "world"),
                Step::Until(A, Until::Written(1)),
            ];
            let check = check(move |_| {
                assert!(!kept.iter().any(is_nonblocking));
                drop(kept);
                let mut said = String::new();
                from.read_to_string(&mut said).expect("what was written");
                assert_eq!(said, "world");
            });
            ((input, output), script, check)
        }),
        given("the end of our output is seen while the input is open", |_| {
            let ((input, to), (mut from, output)) = pipes();
            let script = vec![
                open(A, Open::Given(0)),
                write(A, "last"),
                Step::Do(A, Action::CloseWrite),
                look(move |_| {
                    let mut said = String::new();
                    from.read_to_string(&mut said).expect("what was written");
                    assert_eq!(said, "last");
                    drop(to);
                }),
                Step::Until(A, Until::Eof),
            ];
            ((input, output), script, check(|_| ()))
        }),
        given("a socket that is given has two halves", |_| {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let output = ours.try_clone().expect("a copy").into();
            let script = vec![
                open(A, Open::Given(0)),
                write(A, "last"),
                Step::Do(A, Action::CloseWrite),
                look(move |_| {
                    let mut said = String::new();
                    theirs.read_to_string(&mut said).expect("what was written");
                    theirs.write_all(said.as_bytes()).expect("room");
                }),
                Step::Until(A, Until::Bytes(4)),
                Step::Until(A, Until::Eof),
            ];
            ((ours.into(), output), script, check(|_| ()))
        }),
        given("regular files are read and written in order", |dir| {
            let input = File::open(file(dir.join("input"), &"x".repeat(1 << 20), 0o600)).expect("a file");
            let output = File::create(dir.join("output")).expect("a file");
            let mut script = vec![open(A, Open::Given(0)), Step::Until(A, Until::Eof)];
            for n in 1..=100 {
                script.extend([write(A, format!("{n}\n")), Step::Until(A, Until::Written(n))]);
            }
            let path = dir.join("output");
            let check = check(move |seen| {
                let expected: String = (1..=100).map(|n| format!("{n}\n")).collect();
                assert_eq!(
                    (seen.on(A).bytes.len(), fs::read_to_string(path).expect("a file")),
                    (1 << 20, expected)
                );
            });
            ((input.into(), output.into()), script, check)
        }),
        given("a file that takes nothing fails the write", |dir| {
            let input = File::open(file(dir.join("input"), "", 0o600)).expect("a file");
            // Opened for reading only: every write to it fails.
            let output = File::open(dir.join("input")).expect("a file");
            let script = vec![open(A, Open::Given(0)), write(A, "x"), Step::Until(A, Until::WriteFailed)];
            ((input.into(), output.into()), script, check(|_| ()))
        }),
        given("eagain-partial-write: a terminal is read and written without touching its flags", |_| {
            let (mut screen, terminal) = terminal();
            let output = terminal.try_clone().expect("a copy");
            let probe = terminal.try_clone().expect("a copy");
            screen.write_all(b"typed\n").expect("room");
            let script = vec![
                open(A, Open::Given(0)),
                Step::Until(A, Until::Bytes(6)),
                write(A, "shown"),
                Step::Until(A, Until::Written(1)),
                look(move |_| assert!(!is_nonblocking(&probe))),
            ];
            let check = check(move |seen| {
                assert_eq!(seen.on(A).bytes, b"typed\n");
                // The terminal echoes what was typed.
                let mut shown = [0; 12];
                screen.read_exact(&mut shown).expect("the screen");
                assert_eq!(&shown, b"typed\r\nshown");
            });
            ((terminal, output), script, check)
        }),
    ]
}

fn given(name: &'static str, build: impl FnOnce(&Path) -> ((OwnedFd, OwnedFd), Script, Check)) -> Row {
    let mut halves = None;
    let row = row(name, |dir| {
        let (stream, script, check) = build(dir);
        halves = Some(stream);
        (script, check)
    });
    Row { given: halves, ..row }
}

fn put(path: PathBuf, content: &str, mode: u32) -> Step {
    put_as(StoreId::FIRST, path, content, mode)
}

fn put_as(id: StoreId, path: PathBuf, content: &str, mode: u32) -> Step {
    Step::Store(id, Store { path, change: Change::Put { bytes: content.as_bytes().to_vec().into(), mode } })
}

/// The stream that is given, each half with its other end.
fn pipes() -> ((OwnedFd, io::PipeWriter), (io::PipeReader, OwnedFd)) {
    let (input, to) = io::pipe().expect("a pipe");
    let (from, output) = io::pipe().expect("a pipe");
    ((input.into(), to), (from, output.into()))
}

/// The two sides of a terminal.
fn terminal() -> (File, OwnedFd) {
    let screen = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY);
    let screen = screen.expect("a terminal");
    rustix::pty::grantpt(&screen).expect("its other side");
    rustix::pty::unlockpt(&screen).expect("its other side");
    let name = rustix::pty::ptsname(&screen, Vec::new()).expect("its name");
    let terminal = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, rustix::fs::Mode::empty());
    (screen.into(), terminal.expect("its other side"))
}

fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).expect("flags").contains(OFlags::NONBLOCK)
}
