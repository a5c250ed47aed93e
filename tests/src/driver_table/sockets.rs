//! Unix sockets: private places, connections both ways, and what is never touched.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use agentline_core::place::Exposed;
use agentline_core::{Action, Address, LinkId, Open, OpenError};

use super::{A, B, C, Row, Step, Until, check, file, look, open, row, write};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("a listener takes a connection, and both see who is there", |dir| {
            let (listener, path) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(listener.clone())),
                Step::Until(A, Until::Opened),
                look(move |_| {
                    assert_eq!((mode(&path), mode(path.parent().unwrap_or(&path))), (0o600, 0o700));
                }),
                open(B, Open::Accept(A)),
                open(C, Open::Connect(listener)),
                Step::Until(B, Until::Opened),
                Step::Until(C, Until::Opened),
                write(C, "hello"),
                Step::Until(B, Until::Bytes(5)),
                write(B, "world"),
                Step::Until(C, Until::Bytes(5)),
                Step::Do(C, Action::CloseWrite),
                Step::Until(B, Until::Eof),
                // The other half is open still.
                write(B, "!"),
                Step::Until(C, Until::Bytes(6)),
                Step::Do(B, Action::Close),
                Step::Until(C, Until::Eof),
                Step::Do(A, Action::Close),
            ];
            let (_, path) = at(dir, "s/sock");
            let check = check(move |seen| {
                for link in [B, C] {
                    let peer = seen.on(link).opened.expect("a peer");
                    if cfg!(target_os = "linux") {
                        assert_eq!(peer.uid, Some(rustix::process::geteuid().as_raw()));
                        assert_eq!(peer.pid, Some(std::process::id()));
                    }
                }
                assert_eq!((&*seen.on(B).bytes, &*seen.on(C).bytes), (&b"hello"[..], &b"world!"[..]));
                assert!(!path.exists(), "unlinked");
            });
            (script, check)
        }),
        row("an accept waits for its connection, and one after the other is taken", |dir| {
            let (address, _) = at(dir, "s/sock");
            let ids: Vec<LinkId> = (1..=40).map(LinkId::from_number).collect();
            let mut script = vec![open(A, Open::Listen(address.clone()))];
            for pair in ids.chunks_exact(2) {
                script.extend([
                    open(pair[0], Open::Accept(A)),
                    open(pair[1], Open::Connect(address.clone())),
                    Step::Until(pair[0], Until::Opened),
                    Step::Until(pair[1], Until::Opened),
                ]);
            }
            (script, check(|_| ()))
        }),
        row("an accept that is given up takes nobody", |dir| {
            let (address, _) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                open(B, Open::Accept(A)),
                Step::Do(B, Action::Close),
                open(C, Open::Connect(address)),
                Step::Until(C, Until::Opened),
                open(LinkId::from_number(3), Open::Accept(A)),
                Step::Until(LinkId::from_number(3), Until::Opened),
            ];
            (script, check(|seen| assert_eq!(seen.on(B).opened, None)))
        }),
        row("ten megabytes go both ways over a socket at once", |dir| {
            let (address, _) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                open(B, Open::Accept(A)),
                open(C, Open::Connect(address)),
                Step::Until(B, Until::Opened),
                write(B, vec![b'b'; 10 << 20]),
                write(C, vec![b'c'; 10 << 20]),
                Step::Until(B, Until::Bytes(10 << 20)),
                Step::Until(C, Until::Bytes(10 << 20)),
                Step::Until(B, Until::Written(1)),
                Step::Until(C, Until::Written(1)),
            ];
            (script, check(|_| ()))
        }),
        row("a peer that hangs up fails the write", |dir| {
            let (address, _) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                open(B, Open::Accept(A)),
                open(C, Open::Connect(address)),
                Step::Until(B, Until::Opened),
                write(C, vec![b'c'; 10 << 20]),
                Step::Do(B, Action::Close),
                Step::Until(C, Until::WriteFailed),
                Step::Until(C, Until::Eof),
            ];
            (script, check(|_| ()))
        }),
        row("a peer that hangs up is noticed without a write", |dir| {
            let (address, _) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                open(B, Open::Accept(A)),
                open(C, Open::Connect(address)),
                Step::Until(B, Until::Opened),
                write(C, "last words"),
                Step::Do(C, Action::Close),
                Step::Until(B, Until::WriteFailed),
            ];
            let check = check(|seen| {
                let log = seen.on(B);
                assert_eq!((&*log.bytes, log.eof), (&b"last words"[..], true), "the end comes last");
            });
            (script, check)
        }),
        row("a peer that closes one half, and then the other", |dir| {
            let (address, _) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                open(B, Open::Accept(A)),
                open(C, Open::Connect(address)),
                Step::Until(B, Until::Opened),
                Step::Do(C, Action::CloseWrite),
                Step::Until(B, Until::Eof),
                look(|seen| assert!(!seen.on(B).write_failed, "it still reads")),
                write(B, "still there?"),
                Step::Until(C, Until::Bytes(12)),
                look(|seen| assert!(!seen.on(B).write_failed, "it still reads")),
                Step::Do(C, Action::Close),
                Step::Until(B, Until::WriteFailed),
            ];
            (script, check(|_| ()))
        }),
        row("a peer that hangs up behind a held link is noticed when its end is read", |dir| {
            let (address, _) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                open(B, Open::Accept(A)),
                open(C, Open::Connect(address)),
                Step::Until(B, Until::Opened),
                Step::Do(B, Action::Read(false)),
                write(C, "last words"),
                Step::Do(C, Action::Close),
                look(|seen| assert!(!seen.on(B).eof && !seen.on(B).write_failed)),
                Step::Do(B, Action::Read(true)),
                Step::Until(B, Until::WriteFailed),
            ];
            (script, check(|seen| assert_eq!(seen.on(B).bytes, b"last words")))
        }),
        row("a full backlog is busy", |dir| {
            let (address, _) = at(dir, "s/sock");
            let last = LinkId::from_number(400);
            let mut script = vec![open(A, Open::Listen(address.clone()))];
            script.extend((1..=400).map(|n| open(LinkId::from_number(n), Open::Connect(address.clone()))));
            script.push(Step::Until(last, Until::Failed));
            (script, check(move |seen| assert_eq!(seen.on(last).failed, Some(OpenError::Busy))))
        }),
        row("a dead socket of ours is replaced", |dir| {
            let (address, path) = at(dir, "s/sock");
            private(dir);
            drop(UnixListener::bind(path).expect("a socket that stays behind"));
            let script = vec![open(A, Open::Listen(address.clone())), open(B, Open::Connect(address))];
            (until_both(script), check(|_| ()))
        }),
        row("stale-check-unlinks-live: a living listener is left alone", |dir| {
            let (address, path) = at(dir, "s/sock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                open(B, Open::Listen(address.clone())),
                Step::Until(B, Until::Failed),
                open(C, Open::Connect(address)),
                Step::Until(C, Until::Opened),
                look(move |_| assert!(path.exists())),
            ];
            (script, check(|seen| assert_eq!(seen.on(B).failed, Some(OpenError::InUse))))
        }),
        row("a link to a living socket is not followed, and nobody listens at it", |dir| {
            let (address, path) = at(dir, "s/sock");
            let (link, linked) = at(dir, "s/link");
            private(dir);
            symlink(path, &linked).expect("a link");
            let script = vec![
                open(A, Open::Listen(address)),
                open(B, Open::Listen(link.clone())),
                open(C, Open::Connect(link)),
                Step::Until(C, Until::Failed),
            ];
            let check = check(move |seen| {
                assert_eq!(seen.on(B).failed, Some(OpenError::NotASocket));
                assert_eq!(seen.on(C).failed, Some(OpenError::NotPrivate(Exposed::Link)));
                assert!(linked.is_symlink(), "left alone");
            });
            (script, check)
        }),
        row("a socket that is somebody else's by now is not unlinked", |dir| {
            let (address, path) = at(dir, "s/sock");
            let other = path.clone();
            let script = vec![
                open(A, Open::Listen(address)),
                look(move |_| {
                    fs::remove_file(&other).expect("ours");
                    drop(UnixListener::bind(&other).expect("theirs"));
                }),
                Step::Do(A, Action::Close),
            ];
            (script, check(move |_| assert!(path.exists())))
        }),
        row("an open directory is tightened", |dir| {
            let (address, path) = at(dir, "s/sock");
            private(dir);
            fs::set_permissions(dir.join("s"), fs::Permissions::from_mode(0o777)).expect("a mode");
            let script = vec![open(A, Open::Listen(address)), Step::Until(A, Until::Opened)];
            (script, check(move |_| assert_eq!(mode(path.parent().unwrap_or(&path)), 0o700)))
        }),
        row(
            "bind-chmod-window: e2 in a folder that many share the socket is ours alone and nothing else stays",
            |dir| {
                let (address, path) = at(dir, "s/sock");
                mode_of(&private(dir), 0o1777);
                let dead = dir.join("s/sock");
                drop(UnixListener::bind(dead).expect("a socket that stays behind"));
                let folder = dir.join("s");
                let script = vec![
                    open(A, Open::Listen(address.clone())),
                    Step::Until(A, Until::Opened),
                    look(move |_| {
                        assert_eq!((mode(&path), mode(&folder)), (0o600, 0o1777));
                        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
                    }),
                    open(B, Open::Listen(address)),
                    Step::Until(B, Until::Failed),
                ];
                (script, check(|seen| assert_eq!(seen.on(B).failed, Some(OpenError::InUse))))
            },
        ),
        row("two that start in one directory take turns", |dir| {
            let (address, _) = at(dir, "s/sock");
            let lock = fs::File::open(private(dir)).expect("the directory");
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("its lock");
            let script = vec![
                open(A, Open::Listen(address.clone())),
                Step::Until(A, Until::Failed),
                look(move |_| drop(lock)),
                open(B, Open::Listen(address)),
                Step::Until(B, Until::Opened),
            ];
            (script, check(|seen| assert_eq!(seen.on(A).failed, Some(OpenError::Busy))))
        }),
    ];
    rows.extend(refusals());
    rows.extend(exposures());
    rows
}

/// What a listener and a caller refuse, and leave as it is.
fn refusals() -> Vec<Row> {
    let case = |name, listen, connect, make: fn(&Path) -> PathBuf| {
        row(name, |dir| {
            let path = make(dir);
            let before = kind(&path);
            let script = vec![
                open(A, Open::Listen(Address(path.clone()))),
                open(B, Open::Connect(Address(path.clone()))),
                Step::Until(A, Until::Failed),
                Step::Until(B, Until::Failed),
            ];
            let check = check(move |seen| {
                assert_eq!((seen.on(A).failed, seen.on(B).failed), (Some(listen), Some(connect)));
                assert_eq!(kind(&path), before, "left alone");
            });
            (script, check)
        })
    };
    use OpenError::{NotASocket, NotFound, NotPrivate, PathTooLong};
    let is_root = rustix::process::geteuid().is_root();
    let foreign = NotPrivate(Exposed::FolderOwner(if is_root { NOBODY } else { 0 }));
    vec![
        case("not-a-socket-at-path: a regular file is no socket", NotASocket, NotASocket, |dir| {
            file(private(dir).join("sock"), "a user's file", 0o600)
        }),
        case("a directory is no socket", NotASocket, NotASocket, private),
        case("a link that leads nowhere is no socket", NotASocket, NotPrivate(Exposed::Link), |dir| {
            let path = private(dir).join("sock");
            symlink("none", &path).expect("a link");
            path
        }),
        case("a link to a dead socket is no socket", NotASocket, NotPrivate(Exposed::Link), |dir| {
            let path = private(dir).join("sock");
            drop(UnixListener::bind(dir.join("s/dead")).expect("a socket that stays behind"));
            symlink("dead", &path).expect("a link");
            path
        }),
        case("sun-path-too-long: a path that does not fit is refused", PathTooLong, PathTooLong, |dir| {
            dir.join("x".repeat(108))
        }),
        case("an empty path is refused", NotFound, NotFound, |_| PathBuf::new()),
        case("abstract-socket: an abstract name is refused", NotFound, NotFound, |_| PathBuf::from("\0name")),
        case("a directory that is a link is not private", NotPrivate(Exposed::FolderLink), NotFound, |dir| {
            private(dir);
            symlink("s", dir.join("link")).expect("a link");
            dir.join("link/sock")
        }),
        case(
            "g9: a directory below one that others can change is not private",
            NotPrivate(Exposed::Above),
            NotFound,
            |dir| {
                fs::create_dir_all(dir.join("open/s")).expect("a directory");
                fs::set_permissions(dir.join("open"), fs::Permissions::from_mode(0o777)).expect("ours");
                dir.join("open/s/sock")
            },
        ),
        case("another user's directory is not private", foreign, NotFound, |dir| {
            // Root can give a directory away, others find one of root's.
            let given = chown(private(dir), Some(NOBODY), None);
            if given.is_ok() { dir.join("s/sock") } else { PathBuf::from("/usr/sock") }
        }),
    ]
}

/// What a caller refuses though somebody of ours listens there.
fn exposures() -> Vec<Row> {
    let case = |name, why, expose: fn(&Path)| {
        row(name, move |dir| {
            let path = private(dir).join("sock");
            let listener = UnixListener::bind(&path).expect("a socket");
            mode_of(&path, 0o600);
            expose(dir);
            let script = vec![open(A, Open::Connect(Address(path))), Step::Until(A, Until::Failed)];
            let check = check(move |seen| {
                assert_eq!(seen.on(A).failed, Some(OpenError::NotPrivate(why)));
                drop(listener);
            });
            (script, check)
        })
    };
    let mut rows = vec![
        case("e3 a socket that others may write to is not reached", Exposed::Mode(0o666), |dir| {
            mode_of(&dir.join("s/sock"), 0o666);
        }),
        case("e3 a socket in a folder of everybody is not reached", Exposed::FolderMode(0o777), |dir| {
            mode_of(&dir.join("s"), 0o777);
        }),
        case("e3 a link to a socket is not followed", Exposed::Link, |dir| {
            fs::rename(dir.join("s/sock"), dir.join("s/real")).expect("a name");
            symlink("real", dir.join("s/sock")).expect("a link");
        }),
    ];
    // Only root can give something away.
    if rustix::process::geteuid().is_root() {
        rows.extend([
            case("tmp-preclaim: e3 a socket of another user is not reached", Exposed::Owner(NOBODY), |dir| {
                chown(dir.join("s/sock"), Some(NOBODY), None).expect("we are root");
            }),
            case(
                "e3 a socket in another user's folder is not reached",
                Exposed::FolderOwner(NOBODY),
                |dir| {
                    chown(dir.join("s"), Some(NOBODY), None).expect("we are root");
                },
            ),
        ]);
    }
    rows
}

fn mode_of(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

/// A user that we are not, whoever we are.
const NOBODY: u32 = 65534;

fn until_both(mut script: Vec<Step>) -> Vec<Step> {
    script.extend([Step::Until(A, Until::Opened), Step::Until(B, Until::Opened)]);
    script
}

fn at(dir: &Path, name: &str) -> (Address, PathBuf) {
    (Address(dir.join(name)), dir.join(name))
}

fn private(dir: &Path) -> PathBuf {
    let path = dir.join("s");
    fs::DirBuilder::new().mode(0o700).create(&path).expect("a directory");
    path
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).map_or(0, |found| found.permissions().mode() & 0o7777)
}

fn kind(path: &Path) -> Option<(bool, bool, bool, u32)> {
    let found = fs::symlink_metadata(path).ok()?;
    let kind = found.file_type();
    Some((kind.is_file(), kind.is_dir(), kind.is_socket(), found.permissions().mode()))
}
