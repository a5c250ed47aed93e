//! A terminal that a test types into and reads.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::rig::{Leash, PATIENCE};

/// A command in a terminal.
pub(crate) struct Terminal {
    keys: File,
    /// The command's side: while it is open, so is the terminal.
    screen: File,
    shown: Receiver<Vec<u8>>,
    /// What was shown and not yet asked for, without colours and the like.
    seen: String,
    child: Child,
    deadline: Instant,
    _leash: Leash,
}

impl Terminal {
    pub(crate) fn new(command: &mut Command) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&keys).expect("ours");
        unlockpt(&keys).expect("unlocked");
        let name = ptsname(&keys, Vec::new()).expect("a name").into_string().expect("UTF-8");
        let screen = OpenOptions::new().read(true).write(true).open(name).expect("the other side");
        tcsetwinsize(&screen, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
            .expect("a size");
        let side = || screen.try_clone().expect("a descriptor");
        let child = command.env("TERM", "xterm").stdin(side()).stdout(side()).stderr(side()).spawn();
        let keys = File::from(keys);
        let (show, shown) = channel();
        let mut reader = keys.try_clone().expect("a descriptor");
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = reader.read(&mut bytes)
                && show.send(bytes[..read].to_vec()).is_ok()
            {}
        });
        let child = child.expect("it runs");
        let _leash = Leash::of(&child);
        let deadline = Instant::now() + PATIENCE;
        Self { keys, screen, shown, seen: String::new(), child, deadline, _leash }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it takes keys");
    }

    /// What is shown up to that text, and with it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.shown.recv_timeout(left) else { panic!("no {text:?} in {:?}", self.seen) };
            // Each piece is whole: whoever writes here writes lines or single letters.
            let text = String::from_utf8_lossy(&bytes);
            self.seen += &anstream::adapter::strip_str(&text).to_string().replace('\r', "");
        }
    }

    /// How the terminal is set.
    pub(crate) fn settings(&self) -> Termios {
        tcgetattr(&self.screen).expect("settings")
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
