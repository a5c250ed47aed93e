//! Runtimes seen from outside: our own stdin and stdout in every condition, and a sudden death.

use std::fs::File;
use std::io::{Write, pipe};
use std::process::{Command, Stdio};
use std::thread;

use agentline_tests::driver_table::{RUNTIMES, Release, Witness};
use tempfile::TempDir;

fn host(runtime: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_driver_host"));
    command.arg(runtime).args(args);
    command
}

#[test]
fn every_kind_of_stdin_is_read_to_its_end() {
    for (runtime, _) in RUNTIMES {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("input"), "x".repeat(100_000)).unwrap();
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"input").unwrap();
        drop(writer);
        let (socket, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.write_all(b"input").unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let socket = std::os::fd::OwnedFd::from(socket);
        for (kind, stdin) in [
            ("a file", File::open(dir.path().join("input")).unwrap().into()),
            ("nothing", Stdio::null()),
            ("a pipe", reader.into()),
            ("a socket", socket.into()),
        ] {
            let output = host(runtime, &["answers"]).stdin(stdin).output().unwrap();
            assert_eq!(
                (output.status.code(), &*output.stdout),
                (Some(0), &b"answer\n"[..]),
                "{runtime}: {kind}"
            );
        }
        let mut closed = Command::new("/bin/sh");
        closed.args(["-c", "exec \"$0\" \"$@\" <&-", env!("CARGO_BIN_EXE_driver_host"), runtime, "answers"]);
        let output = closed.output().unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"answer\n"[..]), "{runtime}: closed");
    }
}

#[test]
fn a_closed_stdout_fails_the_write_and_kills_nobody() {
    for (runtime, _) in RUNTIMES {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let status = host(runtime, &["unheard"]).stdin(Stdio::null()).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{runtime}");
    }
}

#[test]
fn a_full_stdout_fails_the_write() {
    for (runtime, _) in RUNTIMES {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = host(runtime, &["unheard"]).stdin(Stdio::null()).stdout(full).status().unwrap();
        assert_eq!(status.code(), Some(0), "{runtime}");
    }
}

#[test]
fn a2_host_gone_without_eof_no_child_outlives_a_sudden_death() {
    thread::scope(|scope| {
        for (runtime, _) in RUNTIMES {
            scope.spawn(move || {
                let dir = TempDir::new().unwrap();
                let _release = Release::new(dir.path());
                let witnesses = ["witness", "second"].map(|name| Witness::new(&dir.path().join(name)));
                let status = host(runtime, &["sudden-death", dir.path().to_str().unwrap()])
                    .stdin(Stdio::null())
                    .status()
                    .unwrap();
                assert_eq!(status.code(), None, "{runtime}");
                assert_eq!(witnesses.map(Witness::last_words), ["held\n"; 2], "{runtime}");
            });
        }
    });
}

#[test]
fn b1_wake_with_full_pipe_is_silence_after_a_stop_what_lies_in_the_pipe_comes_before_the_deadline() {
    for (runtime, _) in RUNTIMES {
        let status = host(runtime, &["stopped"]).stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{runtime}");
    }
}
