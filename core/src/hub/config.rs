//! What goes into a hub and what comes out of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::api::{HubProblem, Policy, ToolRules, Transcripts, Variables, Who};
use super::book::{Counters, Prompt, Record, Sid};
use crate::acp::session::Implementation;
use crate::control::server;
use crate::host::{self, FileError, FileWanted};
use crate::machine::{Address, OpenError, SpawnSpec, Tag};
use crate::secret::Secret;
use crate::session::{Noted, TurnId};

/// What a hub starts from.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its control socket.
    pub control: server::Config,
    /// Where agents that run already dial in. `None`: nowhere.
    pub reverse: Option<Address>,
    /// Its process, as `health` tells it.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Who it is, for agents.
    pub info: Option<Implementation>,
    /// The folder of its records, absolute. `None`: nothing is kept.
    pub state: Option<PathBuf>,
    /// What is in that folder.
    pub stored: Stored,
    /// The user's home: the workspace of a session that is given none.
    pub home: String,
    /// The policy of a session that is given none.
    pub policy: Policy,
    /// What else the user's settings say.
    pub switches: Switches,
    /// The agents that there are.
    pub agents: Vec<AgentSpec>,
    /// Whether the sessions of agents are listed all the time. Else only while somebody looks, and an agent is started
    /// only when a session of it is wanted.
    pub eager: bool,
    /// Clocks.
    pub timeouts: Timeouts,
}

impl Config {
    /// A hub at that socket, which keeps nothing and knows no agent.
    #[must_use]
    pub fn new(control: server::Config) -> Self {
        Self {
            control,
            reverse: None,
            pid: 0,
            version: String::new(),
            info: None,
            state: None,
            stored: Stored::default(),
            home: "/".to_owned(),
            policy: Policy::Ask,
            switches: Switches::default(),
            agents: Vec::new(),
            eager: false,
            timeouts: Timeouts::default(),
        }
    }
}

/// What the user's settings say besides agents.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Switches {
    /// Of which conversations the hub keeps what was said.
    pub transcripts: Transcripts,
    /// The tools that runners need not ask about.
    pub rules: ToolRules,
}

/// The clocks of a hub, beside those of its agents' connections.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// For `initialize`, where the agent's settings say nothing. 10 s: BotBus's.
    pub initialize: Duration,
    /// How long a client waits for the start of a session before it is told how far that is. 100 s: clients give up
    /// after 120.
    pub start: Duration,
    /// An agent that had nothing to do for so long is closed. 10 min: BotBus's.
    pub idle: Duration,
    /// Between two lists of an agent that runs. 60 s: BotBus's.
    pub list: Duration,
    /// Between two lists of an agent that has to be started for it. 10 min: BotBus's.
    pub list_start: Duration,
    /// How long after somebody listed sessions they are kept up to date. 10 min.
    pub looked: Duration,
    /// Until something that could not be stored is tried again. 30 s.
    pub store: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            initialize: Duration::from_secs(10),
            start: Duration::from_secs(100),
            idle: Duration::from_secs(600),
            list: Duration::from_secs(60),
            list_start: Duration::from_secs(600),
            looked: Duration::from_secs(600),
            store: Duration::from_secs(30),
        }
    }
}

/// What a hub finds in its folder.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The numbers that may have been given.
    pub counters: Counters,
    /// The sessions.
    pub records: Vec<Record>,
    /// The prompts that wait or can be tried again.
    pub prompts: Vec<(Sid, TurnId, Prompt)>,
    /// What could not be read.
    pub problems: Vec<HubProblem>,
}

/// An agent, as far as a hub has to know it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// What it is called by.
    pub id: Arc<str>,
    /// Its name, for people.
    pub name: String,
    /// `manifest`, `registry`, `runner` or `built-in`.
    pub origin: String,
    /// Whether the user left it on.
    pub enabled: bool,
    /// Whether it is the agent of a session that is given none: of several the first.
    pub default: bool,
    /// What starts it, in any form: two that are equal start the same file in the same way. `None`: it cannot be started.
    pub launch: Option<String>,
    /// For its `initialize`, where that is not as usual.
    pub initialize: Option<Duration>,
    /// What it speaks, and with that how many processes it has.
    #[serde(default)]
    pub kind: AgentKind,
    /// Files and terminals that its next process is offered. Those who look are shown what it does with them, and nobody is
    /// asked.
    #[serde(default)]
    pub host: host::Config,
}

/// What an agent speaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// ACP: one process for all of its sessions.
    #[default]
    Acp,
    /// Galley's runner protocol: one process for each session.
    Runner,
}

/// What a runner is started for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RunnerStart {
    /// The name of its session, which it repeats.
    pub session: String,
    /// The project's folder.
    pub workspace: String,
    /// The model to begin with, by name; without, the one of the settings.
    pub llm: Option<String>,
}

/// Something that only the outside can find out or do. Each is answered once, by [`Command::Done`].
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Errand {
    /// Whether that folder exists: [`Found::Folder`].
    Folder(String),
    /// Which agents there are now: [`Found::Agents`].
    Discover,
    /// How to start an agent now, with these variables on top: [`Found::Launch`].
    Launch {
        /// The agent's id.
        agent: Arc<str>,
        /// Variables that clients named for it. In no log.
        #[serde(skip)]
        env: Variables,
        /// For which session, if it is a runner.
        runner: Option<RunnerStart>,
    },
    /// Switch an agent on or off in the settings: [`Found::Enabled`].
    Enable {
        /// The agent's id.
        agent: String,
        /// Whether it is on from here on.
        on: bool,
    },
    /// Keep these rules in the settings: [`Found::Kept`].
    Rules(ToolRules),
    /// What is in that file, at most 65 MiB of it; one that is missing is empty: [`Found::Read`].
    Read(PathBuf),
    /// Who that process is: [`Found::Who`].
    Who(u32),
    /// A file for an agent: [`Found::File`].
    File {
        /// Which, and what it will hold. In no log.
        #[serde(skip)]
        wanted: Box<FileWanted>,
    },
}

/// The answer to an errand.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// Whether the folder exists.
    Folder(bool),
    /// The agents, and the files that should name one and do not.
    Agents(Vec<AgentSpec>, Vec<HubProblem>),
    /// How to start it, or why it cannot be, for people.
    Launch(Result<Box<SpawnSpec>, String>),
    /// Whether that changed anything, or why it could not be written.
    Enabled(Result<bool, String>),
    /// It is written, or why not.
    Kept(Result<(), String>),
    /// The bytes of a file, or why it cannot be read.
    Read(Result<Secret<Vec<u8>>, String>),
    /// A process.
    Who(Caller),
    /// What a file holds, or nothing if it was written; or why not.
    File(Result<String, FileError>),
}

/// A process that talks to the hub.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Caller {
    /// For people.
    pub who: Who,
    /// Its parents, nearest first, itself included.
    pub ancestors: Vec<u32>,
    /// Its environment carries the mark that children of a hub get.
    pub marked: bool,
}

/// What a hub may be told by whoever drives it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// An errand is done. Refused: `Unknown`, nobody waits for it.
    Done(Tag, Found),
    /// The settings say something else.
    Switches(Switches),
    /// The agents are others.
    Agents(Vec<AgentSpec>),
    /// Listen anew: somebody has removed the names of the sockets. What is connected stays. Refused: `Closed`.
    Listen,
    /// Leave: turns end, what waits is kept, agents are stopped. Refused: `Closed`, it is leaving.
    Stop,
}

/// What a hub tells whoever drives it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Clients can connect from here on.
    Listening,
    /// Something to find out or to do.
    Errand(Tag, Errand),
    /// Something waits or is over, and nobody looks.
    Notify(Box<Notice>),
    /// An agent is started.
    Started(Arc<str>),
    /// Something about an agent's connection, for a log that keeps no content.
    Noted(Arc<str>, Box<Noted>),
    /// An agent's process is over; why, for a log.
    Ended(Arc<str>, String),
    /// The last event. The reason, if the socket could not be had.
    Closed(Option<OpenError>),
}

/// Something that a person may want to know.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// What.
    pub kind: NoticeKind,
    /// The session's handle.
    pub session_id: Option<String>,
    /// The question's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// The user's name of the session, else its title.
    pub title: String,
    /// The agent's id.
    pub agent: String,
    /// What is asked, or how it ended; at most 200 characters, on one line.
    pub text: String,
}

/// What a person may want to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A permission is asked for.
    Approval,
    /// The agent asks.
    Question,
    /// A turn is over.
    Finished,
    /// A turn went wrong.
    Failed,
}
