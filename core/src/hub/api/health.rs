//! The hub itself, and its agents.

use serde::{Deserialize, Serialize};

use super::is_false;
use crate::hub::config::AgentKind;

/// Whether anybody is there.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Ping {}

/// Somebody is.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Pong {
    /// `true`.
    pub pong: bool,
}

/// Which version of the commands is spoken.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Version {}

/// The version of the commands.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    /// 1.
    pub schema_version: u32,
}

/// How the hub is.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct HubHealth {}

/// How a hub is. Times are RFC 3339.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Whether there are no problems.
    pub ok: bool,
    /// Its process.
    #[serde(default)]
    pub pid: u32,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Milliseconds since it started.
    #[serde(default)]
    pub uptime_ms: u64,
    /// Programs that connected by themselves.
    #[serde(default)]
    pub links: usize,
    /// Sessions in the book, archived ones too.
    #[serde(default)]
    pub sessions: usize,
    /// Sessions in which a turn runs.
    #[serde(default)]
    pub running: usize,
    /// Questions that are open.
    #[serde(default)]
    pub questions: usize,
    /// Agents whose process lives.
    #[serde(default)]
    pub agents: usize,
    /// Clients that are connected, this one too.
    #[serde(default)]
    pub clients: usize,
    /// The socket for agents that connect by themselves; null without one.
    #[serde(default)]
    pub reverse: Option<String>,
    /// Of which conversations what was said is written to disk.
    #[serde(default)]
    pub transcripts: Transcripts,
    /// What is wrong; a row goes when it is mended.
    #[serde(default)]
    pub problems: Vec<HubProblem>,
}

/// Of which conversations a hub writes what was said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transcripts {
    /// Of none. A runner that is started again remembers nothing.
    None,
    /// Of those with Galley runners, which keep none themselves.
    #[default]
    Runners,
}

/// Something that is wrong with a hub.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct HubProblem {
    /// Its name: the same thing has the same one.
    pub id: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Stops the hub: turns end, what waits stays stored, agents leave.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubStop {
    /// When no turn runs. Prompts wait until then, and are held by the next hub.
    #[serde(default, skip_serializing_if = "is_false")]
    pub when_idle: bool,
}

/// The hub is stopping.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// `true`.
    pub stopping: bool,
    /// Turns that are cut short, or waited for.
    #[serde(default)]
    pub running: usize,
}

/// The agents of this machine. The folders are looked at again first.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct AgentsList {}

/// Which agents there are, and which files name none.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct AgentList {
    /// By display name.
    pub agents: Vec<AgentBrief>,
    /// Files that should name an agent, and do not.
    #[serde(default)]
    pub problems: Vec<HubProblem>,
}

/// An agent.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentBrief {
    /// What it is called by.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// `manifest`, `registry`, `runner` or `built-in`.
    #[serde(default)]
    pub origin: String,
    /// What it speaks: `acp`, or `runner` for Galley's runner protocol.
    #[serde(default)]
    pub kind: AgentKind,
    /// Whether the user left it on.
    #[serde(default)]
    pub enabled: bool,
    /// Whether its process lives.
    #[serde(default)]
    pub running: bool,
    /// Whether it cannot be used and is not offered: its first start failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// How its last start or life ended, where that was not as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it can do, as far as that is known: the words of [`SessionBrief::can`](super::SessionBrief::can).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub can: Vec<String>,
    /// Sessions that are known of it.
    #[serde(default)]
    pub sessions: usize,
}

/// Switches an agent on or off. Off: its turns are cancelled, its process ends, prompts that wait are held.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct AgentsEnable {
    /// The agent.
    pub id: String,
    /// Whether it is on from here on.
    pub enabled: bool,
}

/// Whether something is different now.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// It is.
    pub changed: bool,
}
