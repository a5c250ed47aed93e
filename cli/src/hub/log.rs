//! What a hub says while nobody looks: when, how grave, and what happened. Sizes and kinds, never what was said.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use super::start;
use crate::output::{Sink, Stream};

/// How grave it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Level {
    Info,
    Warn,
    Error,
}

/// Lines on stderr, which of a detached hub is its log.
pub(super) struct Log {
    /// The file that stderr is: a new one is begun when it is long.
    file: Option<PathBuf>,
}

impl Log {
    pub(super) const fn new(file: Option<PathBuf>) -> Self {
        Self { file }
    }

    pub(super) fn say(&self, level: Level, what: impl fmt::Display) {
        if let Some(file) = &self.file
            && fs::metadata(file).is_ok_and(|log| log.len() > start::LOG)
        {
            self.begin_anew(file);
        }
        let level = match level {
            Level::Info => "info ",
            Level::Warn => "warn ",
            Level::Error => "error",
        };
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        // A terminal that is not read holds up nobody, nor does a disk that is full.
        Sink::ours().write(Stream::Err, format!("{now} {level} {what}\n").as_bytes());
    }

    fn begin_anew(&self, file: &std::path::Path) {
        let renewed = start::rotate(file).and_then(|()| start::open(file));
        if let Ok(log) = renewed {
            let _ = rustix::stdio::dup2_stdout(&log);
            let _ = rustix::stdio::dup2_stderr(&log);
        }
    }
}
