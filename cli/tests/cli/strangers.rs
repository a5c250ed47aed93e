//! Another user at the other end of a socket: as root, who alone can let a process be somebody else. What keeps others
//! away by their own means, folders and modes, is taken away first; what is left is who the peer is.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::chat::open;
use crate::hub_process::Home;
use crate::rig::{Bench, Running, done, text};

const NOBODY: u32 = 65534;

/// Connects, says something, and tells what it hears until the end.
const CALLS: &str = r"
s.connect(path)
try: s.sendall(b'{}\n')
except OSError: pass
heard = b''
try:
    while piece := s.recv(4096): heard += piece
except OSError: pass
print('heard', heard.decode())
";

/// Listens, and tells what the first who comes says.
const LISTENS: &str = r"
s.bind(path)
s.listen()
print('listening', flush=True)
s.settimeout(20)
try:
    peer, _ = s.accept()
    heard = b''
    while piece := peer.recv(4096): heard += piece
    print('heard', heard.decode())
except TimeoutError: print('alone')
";

/// A process of user nobody. `None`: we are not root, or there is no Python.
fn stranger(script: &str, path: &Path) -> Option<Command> {
    let is_there = Command::new("python3").arg("--version").output().is_ok();
    if !rustix::process::geteuid().is_root() || !is_there {
        return None;
    }
    let head = format!(
        "import os, socket\nos.setgroups([])\nos.setgid({NOBODY})\nos.setuid({NOBODY})\npath = {:?}\n\
         s = socket.socket(socket.AF_UNIX)\ns.settimeout(20)\n",
        text(path)
    );
    let mut stranger = Command::new("python3");
    stranger.args(["-c", &(head + script)]).stdin(Stdio::null());
    Some(stranger)
}

/// Anybody may come as far as the socket, and connect.
fn open_up(bench: &Bench, socket: &Path) {
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    mode(socket, 0o666);
    let (top, above) = (bench.path(""), socket.ancestors().skip(1));
    above.take_while(|folder| folder.starts_with(&top)).for_each(|folder| mode(folder, 0o755));
}

#[test]
fn e3_another_user_who_connects_is_told_nothing() {
    let home = Home::new();
    let bench = &home.bench;
    let (_chat, attach) = open(bench, &[]);
    assert_eq!(home.run(&["hub", "start"]).code, Some(0));
    let control = home.state("control.sock");
    let reverse = bench.path("home/.botbus/run/acp.sock");
    for socket in [&attach, &control, &reverse] {
        let Some(mut stranger) = stranger(CALLS, socket) else { return };
        let modes: Vec<_> = [&**socket, socket.parent().expect("a folder")]
            .map(|path| (path.to_owned(), fs::metadata(path).expect("it is there").permissions()))
            .into();
        open_up(bench, socket);
        let heard = done(&mut stranger);
        assert_eq!((&*heard.out, heard.code), ("heard \n", Some(0)), "{}: {heard:?}", socket.display());
        // Who is at home goes on, for us.
        for (path, mode) in modes {
            fs::set_permissions(path, mode).expect("ours");
        }
        assert!(UnixStream::connect(socket).is_ok());
    }
    assert_eq!(home.run(&["hub", "status"]).code, Some(0));
    assert_eq!(home.run(&["attach", "ping", text(&attach)]).code, Some(0));
}

#[test]
fn e3_another_user_who_listens_is_sent_nothing() {
    // Who calls, and at which socket of a home.
    type Calls = fn(&Bench, &Path) -> Command;
    let callers: [(&str, Calls, i32); 3] = [
        ("sockets/a.sock", |bench, at| bench.agentline(&["hub", "call", "--socket", text(at), "x"]), 4),
        (
            "sockets/b.sock",
            |bench, at| {
                let token = bench.file("token", "5eb1");
                fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("ours");
                bench.agentline(&["attach", "ping", text(at), "--token-file", text(&token)])
            },
            4,
        ),
        ("home/.botbus/run/acp.sock", |bench, _| bench.agentline(&["chat", "--announce", "-q"]), 0),
    ];
    for (name, calls, code) in callers {
        // The file belongs to whoever listens, or has been given to us by a way that we do not know.
        for is_ours in [false, true] {
            let bench = Bench::new();
            let socket = bench.path(name);
            let folder = socket.parent().expect("a folder");
            fs::create_dir_all(folder).expect("a folder");
            let Some(mut stranger) = stranger(LISTENS, &socket) else { return };
            fs::write(&socket, "").expect("a file, to be opened up");
            open_up(&bench, &socket);
            fs::remove_file(&socket).expect("ours");
            lchown(folder, Some(NOBODY), None).expect("as root");
            let mut listens = Running::new(&mut stranger);
            listens.until_line("listening");
            if is_ours {
                lchown(folder, Some(0), None).expect("as root");
                lchown(&socket, Some(0), None).expect("as root");
                fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).expect("ours");
            }
            let refused = done(&mut calls(&bench, &socket));
            let why = if is_ours { "is at the other end" } else { "belongs to user 65534" };
            assert_eq!(refused.code, Some(code), "{name}: {refused:?}");
            assert!(code == 0 || refused.err.contains(why), "{name}: {refused:?}");
            // Where it was reached it was sent nothing; where it was not, it is told that nobody comes.
            if !is_ours {
                drop(UnixStream::connect(&socket));
            }
            let (_, heard, _) = listens.end();
            assert_eq!(heard, "heard \n", "{name}");
        }
    }
}

#[test]
fn e3_a_record_that_another_user_wrote_is_not_used_and_named() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    let (_chat, socket) = open(&bench, &[]);
    let list = || done(&mut bench.agentline(&["attach", "list", "--json"]));
    let listed = list().objects();
    let id = listed[0]["peerId"].as_str().expect("a peer").to_owned();
    let ping = || done(&mut bench.agentline(&["attach", "ping", &id]));
    assert_eq!(ping().code, Some(0));
    let live = fs::read_dir(bench.path("home/.agentica/cache/peers/live")).expect("a folder").flatten();
    let record =
        live.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(&id)).expect("a record");
    // The socket is ours and answers; the record is not, and could name any other.
    lchown(&record, Some(NOBODY), None).expect("as root");
    let (listed, pinged) = (list(), ping());
    let why = format!("{} belongs to user {NOBODY} and is not used", record.display());
    assert_eq!((&*listed.out, listed.code), ("", Some(0)), "{listed:?}");
    assert!(listed.err.contains(&why), "{listed:?}");
    assert_eq!(pinged.code, Some(3), "{pinged:?}");
    assert!(pinged.err.contains(&why), "{pinged:?}");
    assert_eq!(done(&mut bench.agentline(&["attach", "ping", text(&socket)])).code, Some(0));
}
