//! What is hosted, and what is told of it.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::acp::SessionId;
use crate::acp::session::ClientCapabilities;
use crate::machine::Exit;
use crate::secret::Secret;

/// What is hosted for an agent. Nothing, unless it says otherwise.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Config {
    /// Commands, and how they are run.
    pub terminals: Option<Terminals>,
    /// Files of the workspace, and how long they may be.
    pub files: Option<Files>,
}

impl Config {
    /// Adds what is hosted to what a client offers.
    pub const fn offer(&self, offers: &mut ClientCapabilities) {
        offers.terminal |= self.terminals.is_some();
        offers.fs.read_text_file |= self.files.is_some();
        offers.fs.write_text_file |= self.files.is_some();
    }
}

/// How commands are run for an agent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminals {
    /// The environment of each command; what the agent gives it comes on top, and `PWD` is its folder.
    #[serde(with = "crate::trace::os_env")]
    pub env: Vec<(OsString, Secret<OsString>)>,
    /// Commands at once, ended ones included until they are released.
    pub most: usize,
    /// Bytes of output that are kept of each, the last ones; an agent may ask for fewer.
    pub output: usize,
}

impl Default for Terminals {
    /// Without any environment; 64 commands, 1 MiB of each: more than a model is ever given to read.
    fn default() -> Self {
        Self { env: Vec::new(), most: 64, output: 1 << 20 }
    }
}

/// How files are read and written for an agent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Files {
    /// Bytes of one file, read or written. 16 MiB: no source is longer, and one fits into a line.
    pub limit: usize,
}

impl Default for Files {
    fn default() -> Self {
        Self { limit: 16 << 20 }
    }
}

/// Something that was done for an agent, or failed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hosted {
    /// The session that it was for.
    #[serde(rename = "sessionId")]
    pub session: SessionId,
    /// What was done.
    #[serde(flatten)]
    pub deed: Deed,
    /// Why it failed, as the agent was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was done for an agent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Deed {
    /// A file was read.
    Read {
        /// As the agent wrote it.
        path: String,
    },
    /// A file was written.
    Wrote {
        /// As the agent wrote it.
        path: String,
        /// Its length.
        bytes: usize,
    },
    /// A command was started.
    Started {
        /// The terminal's id; none if it could not be started.
        terminal_id: Option<String>,
        /// As the agent wrote it: a line for a shell, or a program and its arguments.
        command: Vec<String>,
        /// Where it runs.
        cwd: String,
    },
    /// A command has ended.
    Exited {
        /// The terminal's id.
        terminal_id: String,
        /// Its exit status.
        #[serde(flatten)]
        status: ExitStatus,
    },
}

/// How a command ended: with a status or by a signal. Neither: the system does not say.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitStatus {
    /// The status that it returned.
    pub exit_code: Option<u32>,
    /// The name of the signal that ended it.
    pub signal: Option<String>,
}

impl ExitStatus {
    pub(super) fn of(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self { exit_code: u32::try_from(code).ok(), signal: None },
            Exit::Signal(number) => Self { exit_code: None, signal: Some(signal(number)) },
            Exit::Unknown => Self { exit_code: None, signal: None },
        }
    }
}

/// The name of a signal that has the same number everywhere.
fn signal(number: i32) -> String {
    let known = SIGNALS.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

const SIGNALS: [(i32, &str); 11] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
];
