//! What survives: a small record of each session, and the prompts that wait or can be tried again.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::listing::{DAY, WEEK};
use super::session::Queued;
use super::{Book, Counters, Home, Prompt, Session, Sid, Stand};
use crate::hub::api::{Policy, Reason, Status};
use crate::machine::Now;
use crate::session::{Can, Name, TurnId};

/// What has to be kept, or need not be any more.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// The numbers that may have been given.
    Counters(Counters),
    /// The session's record is another one: [`Book::record`].
    Session(Sid),
    /// The session is gone.
    Gone(Sid),
    /// A prompt was accepted.
    Prompt(Sid, TurnId, Arc<Prompt>),
    /// A prompt need not be kept.
    NoPrompt(Sid, TurnId),
}

/// What is kept of a session: no word of an agent but the title.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// 1. Another one is left alone.
    pub version: u32,
    /// Its handle's number.
    pub session: Sid,
    /// The agent's id.
    pub agent: Arc<str>,
    /// The workspace.
    pub cwd: Arc<str>,
    /// The agent's name of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<Name>,
    /// The user's name of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What answers its permissions.
    #[serde(default)]
    pub policy: Policy,
    /// The model that its next process begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it is out of the lists.
    #[serde(default)]
    pub archived: bool,
    /// Where it stands; running, where a turn runs.
    #[serde(flatten)]
    pub stand: Stand,
    /// The prompt that ran last, while it can be tried again. Every other one that is kept waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<TurnId>,
    /// What its source can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub can: Option<Can>,
    /// When it came into the book, since the Unix epoch.
    pub created: Duration,
    /// The newest of prompt, word and end.
    pub active: Duration,
    /// Whether a list of its agent's had it.
    #[serde(default)]
    pub listed: bool,
}

/// How long after its start a hub forgets no session for their number.
const SPARED: Duration = Duration::from_secs(600);

impl Record {
    /// The version that is written and read.
    pub const VERSION: u32 = 1;
}

impl Book {
    /// What to keep of a session.
    #[must_use]
    pub fn record(&self, sid: Sid) -> Option<Record> {
        let session = self.get(sid)?;
        let stand = if session.runs() { Stand::new(Status::Running, None) } else { session.stand.clone() };
        Some(Record {
            version: Record::VERSION,
            session: sid,
            agent: Arc::clone(&session.home.agent),
            cwd: Arc::clone(&session.home.cwd),
            agent_session_id: session.name.clone(),
            name: session.label.clone(),
            title: session.story.title().map(str::to_owned),
            policy: session.policy,
            model: session.model.clone(),
            archived: session.archived,
            stand,
            last: session.last.as_ref().map(|(turn, _)| *turn),
            can: session.can,
            created: session.created,
            active: session.active,
            listed: session.listed,
        })
    }

    /// Takes up a session of before, with its prompts. What ran was cut short; what waited is held.
    pub fn take_up(&mut self, now: Now, record: Record, prompts: Vec<(TurnId, Arc<Prompt>)>) -> Sid {
        let sid = record.session;
        self.given.sessions = self.given.sessions.max(sid.0);
        self.reserved.sessions = self.reserved.sessions.max(sid.0);
        let mut session = Session::new(now, Home { agent: record.agent, cwd: record.cwd });
        let cut = record.stand.status == Status::Running;
        session.stand = record.stand;
        if cut {
            let message = "the hub died meanwhile; it is not known whether the agent got the prompt";
            session.stand = Stand::new(Status::Cancelled, Some(Reason::Interrupted)).because("lost", message);
        }
        session.label = record.name;
        session.policy = record.policy;
        session.model = record.model;
        session.archived = record.archived;
        session.can = record.can;
        (session.created, session.active, session.listed) = (record.created, record.active, record.listed);
        record.title.iter().for_each(|title| session.story.listed(title));
        for (turn, prompt) in prompts {
            self.given.turns = self.given.turns.max(turn.0);
            if record.last == Some(turn) {
                session.last = Some((turn, prompt));
            } else {
                session.queue.push_back(Queued { turn, prompt, said_to: None });
            }
        }
        session.hold(Reason::Interrupted);
        self.newest = self.newest.max(record.active);
        // A clock that is far ahead may be wrong, and those that are soon wanted are not known yet.
        let ahead = now.unix.saturating_sub(self.newest) > WEEK;
        self.spared = now.mono + if ahead { DAY } else { SPARED };
        self.insert(sid, session);
        if let Some(name) = record.agent_session_id {
            self.name(sid, name);
        }
        self.show(now, sid);
        sid
    }
}
