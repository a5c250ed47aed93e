//! What goes into an agent and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::acp::peer::{Fault, Notice, Notified, RequestKey};
use crate::acp::permission::{PermissionOption, PermissionOutcome};
use crate::acp::services::ServiceRequest;
use crate::acp::session::{
    AgentCapabilities, AuthMethod, ClientCapabilities, ConfigOption, ConfigValue, Implementation,
    SessionList, SessionSetup, SessionState,
};
use crate::acp::turn::Stopped;
use crate::acp::update::{Speaker, ToolCallUpdate, Update};
use crate::acp::{ContentBlock, Json, SessionId};
use crate::closed::Closed;
use crate::limits::{Graces, Limits};
use crate::machine::{Open, Tag};
use crate::rpc::RpcError;

/// What an agent starts from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How to reach the client; our own stdio as a rule.
    pub open: Open,
    /// Our name and version for the handshake, as the peer may show them. `None`: not sent.
    #[serde(default)]
    pub info: Option<Implementation>,
    /// What we offer. Requests for anything else are answered "method not found".
    #[serde(default)]
    pub capabilities: AgentCapabilities,
    /// How to log in. Methods of the type `terminal` are told to clients that can run them.
    #[serde(default)]
    pub auth_methods: Vec<AuthMethod>,
    /// Requests of extensions that the application answers, by method.
    #[serde(default)]
    pub extensions: Vec<String>,
    /// Whether `initialize` waits for [`Command::Greet`]: for whoever finds out what it can offer only when it knows
    /// what the client offers.
    #[serde(default)]
    pub greets_late: bool,
    /// Sizes and counts that bound what the peer can make us keep.
    #[serde(default)]
    pub limits: Limits,
    /// Steps of the teardown. Clients signal 100 ms after the end of our stdin: the flush must be done by then.
    #[serde(default)]
    pub graces: Graces,
}

impl Config {
    /// An agent on its own stdio with the default limits that offers the baseline.
    #[must_use]
    pub fn on_stdio() -> Self {
        Self {
            open: Open::Given(0),
            info: None,
            capabilities: AgentCapabilities::default(),
            auth_methods: Vec::new(),
            extensions: Vec::new(),
            greets_late: false,
            limits: Limits::default(),
            graces: Graces { flush: Duration::from_millis(100), ..Graces::default() },
        }
    }
}

/// What the application may ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Answer `initialize`, where [`Config::greets_late`] says that it waits for this.
    Greet(Box<Greeting>),
    /// Answer a request of the client.
    Reply {
        /// The key of the question, from [`Event::Requested`].
        request: RequestKey,
        /// The kind that the request wants; any other is refused.
        reply: Reply,
    },
    /// Answer a request of the client with an error.
    Fail {
        /// The key of the question, from [`Event::Requested`].
        request: RequestKey,
        /// Its `code` and `message` are the peer's to read, and perhaps to show.
        error: RpcError,
    },
    /// A piece of text of a turn.
    Say {
        /// A turn that has not ended.
        turn: TurnKey,
        /// Whether it is the answer or the reasoning behind it.
        speaker: Speaker,
        /// To be appended to what was said before, without anything between.
        text: String,
    },
    /// A piece of text of a session, in a turn or not.
    Tell {
        /// A session that is open or being loaded, or that of a subagent of it that the client was told of.
        session: SessionId,
        /// Whose words they are.
        speaker: Speaker,
        /// To be appended to what was said before, without anything between.
        text: String,
        /// Pieces of one id are one message.
        message: Option<Arc<str>>,
    },
    /// Any other update of a turn.
    Report {
        /// A turn that has not ended.
        turn: TurnKey,
        /// One of a kind that the client takes; any other is refused.
        update: Update,
    },
    /// An update outside of a turn: the history of a session that is being loaded, its commands, its title; or what a
    /// subagent does.
    Announce {
        /// A session that is open or being loaded, or that of a subagent of it that the client was told of.
        session: SessionId,
        /// One of a kind that the client takes; any other is refused.
        update: Update,
    },
    /// Ask for permission. Answered by [`Event::PermissionAnswered`].
    AskPermission {
        /// Comes back with the answer.
        tag: Tag,
        /// In a turn, or in a session.
        of: Of,
        /// The tool call that it is about.
        tool_call: ToolCallUpdate,
        /// What can be answered, the most likely first.
        options: Vec<PermissionOption>,
        /// Extension data, `_meta` on the wire.
        meta: Option<Json>,
    },
    /// Ask for a file, a terminal or the user. Answered by [`Event::Served`].
    Request {
        /// Comes back with the answer.
        tag: Tag,
        /// Something that the client has offered.
        wanted: ServiceRequest,
    },
    /// Give a request of ours up (`$/cancel_request`). It is answered all the same.
    Withdraw {
        /// The tag of the request that is given up.
        tag: Tag,
    },
    /// End a turn. A cancelled one ends as cancelled, whatever is said here.
    EndTurn {
        /// A turn that has not ended.
        turn: TurnKey,
        /// Why, and what it cost.
        stopped: Stopped,
    },
    /// End a turn with an error. A cancelled one ends as cancelled, as the protocol wants it.
    FailTurn {
        /// A turn that has not ended.
        turn: TurnKey,
        /// What the prompt is answered with; the session goes on.
        error: RpcError,
    },
    /// A notification of an extension. Its method begins with `_`.
    Notify {
        /// The name of the method, on the wire as it is here.
        method: String,
        /// Its parameters, an object.
        params: Json,
    },
    /// What the user was sent to a page for is done.
    CompleteElicitation {
        /// The id that the elicitation had.
        elicitation: String,
    },
    /// Leave: open turns end as cancelled, what is unsent is sent, and that is the end within the flush grace.
    Shutdown,
}

/// What a question is about.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// A turn, and it ends with it.
    Turn(TurnKey),
    /// A session, also a subagent's; it ends with the turn that runs there, or where the subagent works, if one does.
    Session(SessionId),
}

impl From<TurnKey> for Of {
    fn from(turn: TurnKey) -> Self {
        Self::Turn(turn)
    }
}

/// What `initialize` is answered with.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Greeting {
    /// Our name and version for the handshake, as the peer may show them. `None`: not sent.
    pub info: Option<Implementation>,
    /// Everything that requests of the client are checked against.
    pub capabilities: AgentCapabilities,
    /// How to log in.
    pub auth_methods: Vec<AuthMethod>,
}

/// Names a turn until it has ended.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnKey(pub(crate) u64);

/// What a request of the client is answered with.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done; there is nothing to say. For logins, modes, closing and deleting.
    Done,
    /// A session is open: the new one's id, or the old one's again. Options of a type that the client does not
    /// take are left out, here and wherever else options are given.
    SessionOpened {
        /// Its id: opaque to the client, and in use once.
        session: SessionId,
        /// Its modes and options.
        state: SessionState,
    },
    /// One page of sessions.
    Sessions(SessionList),
    /// All settings, after one of them was set.
    Options(Vec<ConfigOption>),
    /// The answer of an extension.
    Called(Json),
}

/// What the application is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A client has introduced itself. It was answered from the config, or waits for [`Command::Greet`].
    Initialized(Box<Initialized>),
    /// The client asks for something. Wants exactly one [`Command::Reply`] or [`Command::Fail`].
    Requested(Box<Requested>),
    /// A turn begins. It ends by [`Command::EndTurn`] or [`Command::FailTurn`].
    Prompted(Box<Prompted>),
    /// The turn is to end as soon as it can: told once.
    Cancelled(TurnKey),
    /// The turn was ended for us: its session was closed, or we are leaving.
    TurnOver(TurnKey),
    /// A request needs no answer any more: the client gave it up, and was told so.
    Withdrawn(RequestKey),
    /// The answer to a permission request; `cancelled` also for every way in which there was none.
    PermissionAnswered(Tag, PermissionOutcome),
    /// The answer to any other request of ours.
    Served(Tag, Result<Json, RpcError>),
    /// So much is unsent that text is refused from here on, until [`Event::Drained`] or the end.
    Crowded,
    /// There is room again.
    Drained,
    /// The client sent a notification that is not part of the protocol.
    Notified(Box<Notified>),
    /// Something about the client that is worth knowing and needs no reaction.
    Noticed(Box<Notice>),
    /// The connection is over; nothing follows.
    Closed(Box<Closed<Fault>>),
}

/// What a client said of itself in the handshake.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialized {
    /// The version that it asked for; 1 is spoken.
    pub protocol_version: u16,
    /// Its name and version, if it gave them.
    pub client_info: Option<Implementation>,
    /// What may be asked of it, and which updates it takes.
    pub capabilities: ClientCapabilities,
}

/// A request of the client.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Requested {
    /// Its key, until it is answered or withdrawn.
    pub request: RequestKey,
    /// What it asks for, checked against what we offer.
    pub wanted: Wanted,
}

/// What a client may want.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// To log in by this method. Answer [`Reply::Done`].
    Authenticate(String),
    /// To log out. Answer [`Reply::Done`].
    Logout,
    /// A new session. Answer [`Reply::SessionOpened`].
    NewSession(SessionSetup),
    /// An old session with its history, which is to be announced before the answer.
    LoadSession(SessionId, SessionSetup),
    /// An old session without its history.
    ResumeSession(SessionId, SessionSetup),
    /// One page of sessions. Answer [`Reply::Sessions`].
    ListSessions {
        /// Only those of this workspace.
        cwd: Option<String>,
        /// From the page before. One that is not known is an error.
        cursor: Option<String>,
    },
    /// To end a session. Its turn was told to cancel before. Answer [`Reply::Done`].
    CloseSession(SessionId),
    /// To remove a session. Answer [`Reply::Done`], also when it is not there.
    DeleteSession(SessionId),
    /// Another mode. Answer [`Reply::Done`].
    SetMode(SessionId, String),
    /// Another value of a setting. Answer [`Reply::Options`] with all of them.
    SetOption(SessionId, String, ConfigValue),
    /// A method of an extension that the config names. Answer [`Reply::Called`].
    Extension(String, Option<Json>),
}

/// A turn that begins.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Prompted {
    /// Its key, until it has ended.
    pub turn: TurnKey,
    /// The session that it belongs to; one turn at a time.
    pub session: SessionId,
    /// What the user says.
    pub prompt: Vec<ContentBlock>,
    /// The client's own name of the message.
    #[serde(rename = "messageId", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}
