//! A terminal that a test types into and looks at.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::rig::{Leash, PATIENCE};

/// A command in a terminal, and what is on its screen.
pub(crate) struct Terminal {
    keys: File,
    /// The command's side: while it is open, so is the terminal.
    screen: File,
    shown: Receiver<Vec<u8>>,
    model: vt100::Parser,
    written: Vec<u8>,
    child: Child,
    deadline: Instant,
    _leash: Leash,
}

/// Both sides of a new terminal.
fn pair(columns: u16, rows: u16) -> (File, File) {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&keys).expect("ours");
    unlockpt(&keys).expect("unlocked");
    let name = ptsname(&keys, Vec::new()).expect("a name").into_string().expect("UTF-8");
    let screen = OpenOptions::new().read(true).write(true).open(name).expect("the other side");
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).expect("a size");
    (keys.into(), screen)
}

/// A command in a terminal that nobody looks at: it takes a few thousand bytes, and then nothing.
pub(crate) fn unread(command: &mut Command) -> (File, Child) {
    let (keys, screen) = pair(80, 24);
    let side = || screen.try_clone().expect("a descriptor");
    let child = command.env("TERM", "xterm").stdin(side()).stdout(side()).stderr(side()).spawn();
    (keys, child.expect("it runs"))
}

impl Terminal {
    pub(crate) fn new(command: &mut Command) -> Self {
        Self::sized(command, 80, 24)
    }

    pub(crate) fn sized(command: &mut Command, columns: u16, rows: u16) -> Self {
        let (keys, screen) = pair(columns, rows);
        let side = || screen.try_clone().expect("a descriptor");
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm");
        }
        // As a shell starts it: in a group of its own, so that it can be stopped and continued.
        let child = command.process_group(0).stdin(side()).stdout(side()).stderr(side()).spawn();
        let child = child.expect("it runs");
        let (show, shown) = channel();
        let mut reader = keys.try_clone().expect("a descriptor");
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = reader.read(&mut bytes)
                && show.send(bytes[..read].to_vec()).is_ok()
            {}
        });
        let _leash = Leash::of(&child);
        let (deadline, model) = (Instant::now() + PATIENCE, vt100::Parser::new(rows, columns, 10_000));
        Self { keys, screen, shown, model, written: Vec::new(), child, deadline, _leash }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it takes keys");
    }

    /// What somebody else writes to the terminal, as a shell does.
    pub(crate) fn prints(&mut self, text: &str) {
        self.screen.write_all(text.as_bytes()).expect("it takes text");
    }

    /// Presses that key again and again until that text is on the screen: what comes too early is no answer.
    pub(crate) fn presses(&mut self, key: &str, text: &str) {
        let before = self.all().matches(text).count();
        while self.all().matches(text).count() == before {
            assert!(Instant::now() < self.deadline, "no {text:?} in\n{}", self.all());
            self.types(key);
            let patience = Instant::now() + PRESSES;
            while self.all().matches(text).count() == before
                && let Ok(bytes) = self.shown.recv_timeout(patience.saturating_duration_since(Instant::now()))
            {
                self.take(&bytes);
            }
        }
    }

    /// Waits until that text is on the screen, or was: all of what is and was there.
    pub(crate) fn until(&mut self, text: &str) -> String {
        self.until_times(text, 1)
    }

    /// The same with so many of them.
    pub(crate) fn until_times(&mut self, text: &str, times: usize) -> String {
        self.until_seen(text, |all| all.matches(text).count() >= times)
    }

    /// Waits until it looks as it is meant.
    pub(crate) fn until_seen(&mut self, what: &str, is_meant: impl Fn(&str) -> bool) -> String {
        loop {
            let all = self.all();
            if is_meant(&all) {
                return all;
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.shown.recv_timeout(left) else { panic!("no {what:?} in\n{all}") };
            self.take(&bytes);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
        self.model.process(bytes);
    }

    /// What is on the screen, and above it: row by row, without trailing blanks.
    pub(crate) fn all(&mut self) -> String {
        while let Ok(bytes) = self.shown.try_recv() {
            self.take(&bytes);
        }
        let screen = self.model.screen_mut();
        let (_, columns) = screen.size();
        let mut rows = Vec::new();
        screen.set_scrollback(usize::MAX);
        for above in (1..=screen.scrollback()).rev() {
            screen.set_scrollback(above);
            rows.extend(screen.rows(0, columns).next());
        }
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, columns));
        let text: String = rows.iter().map(|row| row.trim_end().to_owned() + "\n").collect();
        text.trim_end().to_owned() + "\n"
    }

    /// All that was written to the terminal so far.
    pub(crate) fn written(&self) -> &[u8] {
        &self.written
    }

    /// How many escape sequences the command has written.
    pub(crate) fn escapes(&self) -> usize {
        self.written.iter().filter(|byte| **byte == 0x1b).count()
    }

    /// Whether anything on the screen has a colour, or is bold or dim.
    pub(crate) fn is_coloured(&self) -> bool {
        let screen = self.model.screen();
        let (rows, columns) = screen.size();
        let cells = (0..rows).flat_map(|row| (0..columns).filter_map(move |column| screen.cell(row, column)));
        cells.into_iter().any(|cell| cell.fgcolor() != vt100::Color::Default || cell.bold() || cell.dim())
    }

    /// How the terminal is set.
    pub(crate) fn settings(&self) -> Termios {
        tcgetattr(&self.screen).expect("settings")
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.screen, size).expect("a size");
        self.model.screen_mut().set_size(rows, columns);
        self.signal(Signal::WINCH);
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }

    /// Waits until the command is stopped.
    pub(crate) fn until_stopped(&mut self) {
        let pid = WaitId::Pid(Pid::from_child(&self.child));
        // The leash ends it, and then it is no child that could be stopped.
        let status = waitid(pid, WaitIdOptions::STOPPED);
        assert!(
            matches!(&status, Ok(Some(status)) if status.stopped()),
            "not stopped: {status:?}\n{}",
            self.all()
        );
    }

    /// Waits for the command's end; all that was shown.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        // What it wrote is in the terminal: a mark behind it says that all was seen.
        if self.screen.write_all(END.as_bytes()).is_err() {
            // It was the terminal of a session that is over.
            return (status, self.all());
        }
        let all = self.until_seen("the end", |all| all.contains(END));
        (status, all.replace(END, "").trim_end().to_owned() + "\n")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Between two presses of a key.
const PRESSES: std::time::Duration = std::time::Duration::from_millis(400);
/// Nobody else writes this.
const END: &str = "‡‡‡";
