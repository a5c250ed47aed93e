//! The guardian as a program: what the shell does, faster, and it finds who left its group.

use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::number;
use crate::process::members;

/// Is the guardian of whoever started us: hears on stdin which groups live, and when that ends, sees them off. To be
/// called by the program that [`arm_with`](super::arm_with) starts, which should not die of a signal meanwhile.
pub fn serve() {
    let mut known = Known::default();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        known.hear(&line);
    }
    known.see_off();
}

/// Whom the guardian was told of.
#[derive(Debug, Default, PartialEq)]
struct Known {
    groups: BTreeSet<i32>,
    mark: Option<String>,
}

impl Known {
    fn hear(&mut self, line: &str) {
        let Some((what, value)) = line.split_once(' ') else { return };
        // Group 0 is our own, and 1 is everybody's.
        match (what, value.parse::<i32>().ok().filter(|group| *group > 1)) {
            ("+", Some(group)) => drop(self.groups.insert(group)),
            ("-", Some(group)) => drop(self.groups.remove(&group)),
            ("=", _) => self.mark = Some(value.to_owned()),
            _ => {}
        }
    }

    /// When all have left before us, there is nothing to do, and who left its group meant to stay.
    fn see_off(mut self) {
        if self.groups.is_empty() {
            return;
        }
        for (signal, grace) in LADDER {
            let mut left = self.left();
            if let Some(signal) = signal {
                left.signal(signal);
            }
            let until = Instant::now() + grace;
            let mut pause = FIRST_LOOK;
            while !left.is_empty() && Instant::now() < until {
                thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
                pause = (pause * 2).min(LAST_LOOK);
                left = self.left();
            }
            if left.is_empty() {
                return;
            }
        }
    }

    /// Who is still there. A group that is gone stays gone: its number may be somebody else's by the next look.
    fn left(&mut self) -> Left {
        let Some(processes) = members() else {
            let lives = |group: &i32| {
                Pid::from_raw(*group)
                    .is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
            };
            self.groups.retain(lives);
            return Left { groups: self.groups.clone(), strays: Vec::new() };
        };
        let mut groups = BTreeSet::new();
        let mut strays = Vec::new();
        for (process, group) in processes {
            if self.groups.contains(&number(group)) {
                groups.insert(number(group));
            } else if let Some(mark) = &self.mark {
                strays.extend(stray::find(process, mark));
            }
        }
        self.groups.clone_from(&groups);
        Left { groups, strays }
    }
}

/// Who is still there.
struct Left {
    groups: BTreeSet<i32>,
    strays: Vec<stray::Stray>,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.strays.is_empty()
    }

    fn signal(&self, signal: Signal) {
        for group in self.groups.iter().copied().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
        self.strays.iter().for_each(|stray| stray.signal(signal));
    }
}

#[cfg(target_os = "linux")]
mod stray {
    use std::fs;
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, Signal};

    use crate::guardian::MARK;

    /// A process that left its group. Held, its number is nobody else's.
    pub(super) struct Stray(OwnedFd);

    pub(super) fn find(process: Pid, mark: &str) -> Option<Stray> {
        let stray = Stray(rustix::process::pidfd_open(process, PidfdFlags::empty()).ok()?);
        let environment = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).ok()?;
        let is_ours = |pair: &[u8]| {
            pair.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
                == Some(mark.as_bytes())
        };
        environment.split(|byte| *byte == 0).any(is_ours).then_some(stray)
    }

    impl Stray {
        pub(super) fn signal(&self, signal: Signal) {
            let _ = rustix::process::pidfd_send_signal(&self.0, signal);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod stray {
    use rustix::process::{Pid, Signal};

    /// Nobody is found there.
    pub(super) enum Stray {}

    pub(super) fn find(_: Pid, _: &str) -> Option<Stray> {
        None
    }

    impl Stray {
        pub(super) fn signal(&self, _: Signal) {
            match *self {}
        }
    }
}

/// What the groups get, and how long it is waited for. Four of five real agents have cleaned up 3.2 s after the end of
/// their input.
const LADDER: [(Option<Signal>, Duration); 3] = [
    (None, Duration::from_secs(4)),
    (Some(Signal::TERM), Duration::from_secs(2)),
    (Some(Signal::KILL), Duration::from_secs(1)),
];
/// The pause after the first look; each further one doubles it.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// The longest pause between two looks.
const LAST_LOOK: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guardian_knows_whom_it_was_told_of_and_nobody_else() {
        let mut known = Known::default();
        for line in ["+ 5", "= mark", "+ 7", "- 5", "+ 0", "+ 1", "+ -1", "+", "", "? 9", "+ x", "- 9"] {
            known.hear(line);
        }
        assert_eq!(known, Known { groups: [7].into(), mark: Some("mark".to_owned()) });
    }
}
