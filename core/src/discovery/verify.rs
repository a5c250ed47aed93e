//! The first handshake of a registry's agent is its verification (BotBus, `docs/acp-agents.md`,
//! 三种接入方式).
//!
//! ```text
//!  found                  succeeded, hello
//! ───────▶ Untried ──────────────────────────▶ Verified
//!           │   ▲                               ▲  │
//!    failed │   │ name, launch or file changed  │  │ launch or file changed:
//!           ▼   │                               │  │ Untried again
//!          Hidden ──────────────────────────────┘  ▼
//!                  hello
//! ```
//!
//! A timeout, a login that is needed and a launch that we broke off ourselves say nothing about the agent. A
//! manifest's agent is shown whatever happens, and so is one that was verified once. The state lives as long
//! as the hub does.

use std::collections::BTreeMap;

use super::launch::Launch;
use super::{Origin, Report};
use crate::problem::{Failed, Kind, Phase};

/// What the first handshakes of a hub's life showed.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    known: BTreeMap<String, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    name: String,
    launch: Option<Launch>,
    standing: Standing,
}

/// What is known of an agent of a registry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// No handshake ended yet, or none that says anything.
    Untried,
    /// It did speak ACP.
    Verified,
    /// It is not shown, takes no commands and has no place under the cap.
    Hidden(Failure),
}

/// How a handshake failed for good.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// It could not be started.
    CannotStart,
    /// It was gone before it answered.
    Exited,
    /// It answered with an error, or with something that is not ACP.
    NotAcp,
    /// It speaks another version.
    WrongVersion,
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Handshake {
    /// The agent is up.
    Succeeded,
    /// The agent cannot be used.
    Failed(Failure),
    /// No answer in time.
    TimedOut,
    /// The agent wants a login first (-32000).
    NeedsLogin,
    /// We stopped it: disabled, changed or leaving.
    BrokenOff,
}

impl Handshake {
    /// What the way in which a launch came to nothing says about its handshake.
    #[must_use]
    pub const fn of(failed: &Failed) -> Self {
        match (failed.phase, failed.kind()) {
            (Phase::Spawn | Phase::Initialize, Kind::Timeout) => Self::TimedOut,
            (Phase::Spawn, Kind::NotFound | Kind::NotExecutable) => Self::Failed(Failure::CannotStart),
            (Phase::Initialize, Kind::Exited | Kind::Signalled) => Self::Failed(Failure::Exited),
            (Phase::Initialize, Kind::NotAcp | Kind::Protocol | Kind::Rpc) => Self::Failed(Failure::NotAcp),
            (Phase::Initialize, Kind::WrongVersion) => Self::Failed(Failure::WrongVersion),
            (Phase::Initialize, Kind::NeedsLogin) => Self::NeedsLogin,
            (Phase::Authenticate | Phase::Session | Phase::Prompt | Phase::Teardown, _) => Self::Succeeded,
            // A shortage, a cancel, a folder that is not there: ours.
            _ => Self::BrokenOff,
        }
    }
}

impl Verification {
    /// Takes a new report: what is gone is forgotten, what changed gets another chance.
    pub fn sync(&mut self, report: &Report) {
        let mut before = std::mem::take(&mut self.known);
        for agent in report.agents.iter().filter(|agent| agent.origin == Origin::Registry) {
            let standing = match before.remove(&agent.id) {
                Some(Known { launch, .. }) if launch != agent.launch => Standing::Untried,
                Some(Known { name, standing: Standing::Hidden(_), .. }) if name != agent.name => {
                    Standing::Untried
                }
                Some(Known { standing, .. }) => standing,
                None => Standing::Untried,
            };
            let known = Known { name: agent.name.clone(), launch: agent.launch.clone(), standing };
            self.known.insert(agent.id.clone(), known);
        }
    }

    /// A handshake with that agent ended.
    pub fn handshake(&mut self, id: &str, handshake: Handshake) {
        let Some(known) = self.known.get_mut(id) else { return };
        match (known.standing, handshake) {
            (_, Handshake::Succeeded) => known.standing = Standing::Verified,
            (Standing::Untried, Handshake::Failed(failure)) => known.standing = Standing::Hidden(failure),
            (Standing::Verified | Standing::Hidden(_), Handshake::Failed(_))
            | (_, Handshake::TimedOut | Handshake::NeedsLogin | Handshake::BrokenOff) => {}
        }
    }

    /// The agent connected by itself and said who it is: as good as a handshake.
    pub fn hello(&mut self, id: &str) {
        self.handshake(id, Handshake::Succeeded);
    }

    /// What is known of an agent; `None` when no registry has it.
    #[must_use]
    pub fn standing(&self, id: &str) -> Option<Standing> {
        self.known.get(id).map(|known| known.standing)
    }

    /// Whether an agent is hidden.
    #[must_use]
    pub fn is_hidden(&self, id: &str) -> bool {
        matches!(self.standing(id), Some(Standing::Hidden(_)))
    }
}
