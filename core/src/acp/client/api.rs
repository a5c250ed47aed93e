//! What goes into a client and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::acp::peer::{Fault, Notice, Notified, RequestKey};
use crate::acp::permission::{PermissionOutcome, PermissionRequest};
use crate::acp::services::ServiceRequest;
use crate::acp::session::{
    AgentCapabilities, AuthMethod, ClientCapabilities, ConfigOption, ConfigValue, Implementation,
    SessionList, SessionSetup, SessionState,
};
use crate::acp::turn::Stopped;
use crate::acp::update::{Speaker, Update};
use crate::acp::{ContentBlock, Json, SessionId};
use crate::closed::Closed;
use crate::limits::{Graces, Limits};
use crate::machine::{Open, Tag};
use crate::rpc::RpcError;

/// What a client starts from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How to reach the agent.
    pub open: Open,
    /// Our name and version for the handshake, as the peer may show them. `None`: not sent.
    #[serde(default)]
    pub info: Option<Implementation>,
    /// What we offer. Requests for anything else are answered "method not found".
    #[serde(default)]
    pub capabilities: ClientCapabilities,
    /// Requests of extensions that the application answers, by method.
    #[serde(default)]
    pub extensions: Vec<String>,
    /// Tell each line of the agent before what it means.
    #[serde(default)]
    pub raw: bool,
    /// Tell a text that has annotations or `_meta` as an [`Updated`], for whoever passes on all of it. Else it is a
    /// [`Text`] like any other, without them.
    #[serde(default)]
    pub whole: bool,
    /// How long the agent may take.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Sizes and counts that bound what the peer can make us keep.
    #[serde(default)]
    pub limits: Limits,
    /// Steps of the teardown.
    #[serde(default)]
    pub graces: Graces,
}

impl Config {
    /// A client with the default limits that offers nothing.
    #[must_use]
    pub fn new(open: Open) -> Self {
        Self {
            open,
            info: None,
            capabilities: ClientCapabilities::default(),
            extensions: Vec::new(),
            raw: false,
            whole: false,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            graces: Graces::default(),
        }
    }
}

/// How long the agent may take. The protocol itself has no clocks; `None` waits for ever.
///
/// All of them stand still while our reader is full ([`Input::Hold`](crate::Input::Hold)): what the agent says then
/// lies in the pipe, unread.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Timeouts {
    /// For `initialize`. The slowest measured agent needs 11 s on a busy machine.
    pub initialize: Option<Duration>,
    /// For opening a session, since the agent's last word: some start their engine only then, or fetch their tools.
    pub session: Option<Duration>,
    /// For a login: a person may have to visit a page.
    pub authenticate: Option<Duration>,
    /// For every other request but a prompt.
    pub request: Option<Duration>,
    /// For a whole turn, its open questions included.
    pub turn: Option<Duration>,
    /// Silence during a turn; not counted while a question of the agent is open, or while whoever takes our events is
    /// full: what the agent said may lie in the pipe.
    pub silence: Option<Duration>,
    /// For the end of a turn that was cancelled.
    pub cancel: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            initialize: Some(Duration::from_secs(60)),
            session: Some(Duration::from_secs(60)),
            authenticate: Some(Duration::from_secs(600)),
            request: Some(Duration::from_secs(60)),
            turn: None,
            silence: None,
            cancel: Some(Duration::from_secs(5)),
        }
    }
}

impl Timeouts {
    /// What a clock stands at.
    #[must_use]
    pub const fn of(&self, clock: Clock) -> Option<Duration> {
        match clock {
            Clock::Initialize => self.initialize,
            Clock::Session => self.session,
            Clock::Authenticate => self.authenticate,
            Clock::Request => self.request,
            Clock::Turn => self.turn,
            Clock::Silence => self.silence,
            Clock::Cancel => self.cancel,
            Clock::Run => None,
        }
    }
}

/// What an agent may take too long for: a clock of [`Timeouts`], by the name of its field, or that of a whole run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The handshake took too long.
    Initialize,
    /// Opening a session, without a word of the agent.
    Session,
    /// A login took too long.
    Authenticate,
    /// Any other request took too long.
    Request,
    /// A turn took too long.
    Turn,
    /// The agent said nothing during a turn.
    Silence,
    /// A cancelled turn did not end.
    Cancel,
    /// All of it took too long. No clock of the client, but of who runs it.
    Run,
}

impl Clock {
    /// The name of its field.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Session => "session",
            Self::Authenticate => "authenticate",
            Self::Request => "request",
            Self::Turn => "turn",
            Self::Silence => "silence",
            Self::Cancel => "cancel",
            Self::Run => "run",
        }
    }
}

/// What the application may ask. Everything but `Shutdown` waits for [`Event::Ready`].
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Log in by one of the agent's methods, but not by one of the type `terminal`: that is a program to run.
    Authenticate {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// The id of one of [`Ready::auth_methods`].
        method: String,
    },
    /// Log out of the agent. What becomes of the sessions that are open is the agent's to say.
    Logout {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
    },
    /// Open a session; [`Answer::SessionOpened`] has its id. The longest idle one gives way when there is no room.
    OpenSession {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// A new one or an old one.
        which: Which,
        /// Where, and with what.
        setup: SessionSetup,
    },
    /// One page of the sessions that the agent knows.
    ListSessions {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// Only those of this workspace.
        cwd: Option<String>,
        /// From the page before.
        cursor: Option<String>,
    },
    /// End a session and free what it holds.
    CloseSession {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// A session that is open on this connection.
        session: SessionId,
    },
    /// Remove a session from the agent's list.
    DeleteSession {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// A session that is open on this connection.
        session: SessionId,
    },
    /// Put a session into one of the modes that it lists, at any time.
    SetMode {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// A session that is open on this connection.
        session: SessionId,
        /// The id of one of the session's modes.
        mode: String,
    },
    /// Choose a model of an agent that has them beside its config options.
    SetModel {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// A session that is open on this connection.
        session: SessionId,
        /// The id of one of the session's models.
        model: String,
    },
    /// Set one config option of a session, at any time. [`Answer::OptionSet`] has all of them.
    SetOption {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// A session that is open on this connection.
        session: SessionId,
        /// The id of one of the session's config options.
        option: String,
        /// The id of one of its values, or on and off.
        value: ConfigValue,
    },
    /// Begin a turn. One at a time per session; it ends in exactly one [`Event::TurnEnded`].
    Prompt {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// A session that is open on this connection.
        session: SessionId,
        /// What the user says. One block that the agent does not take refuses the whole prompt.
        prompt: Vec<ContentBlock>,
    },
    /// Cancel the turn of a session. Its open permissions are answered `cancelled`. Harmless when repeated.
    Cancel {
        /// A session that is open on this connection.
        session: SessionId,
    },
    /// Answer a permission request.
    Answer {
        /// The key of the question, from the event that brought it.
        request: RequestKey,
        /// An offered option, or `cancelled`.
        outcome: PermissionOutcome,
    },
    /// Answer any other request of the agent.
    Reply {
        /// The key of the question, from the event that brought it.
        request: RequestKey,
        /// The result, an object.
        result: Json,
    },
    /// Answer a request of the agent with an error.
    Fail {
        /// The key of the question, from the event that brought it.
        request: RequestKey,
        /// Its `code` and `message` are the peer's to read, and perhaps to show.
        error: RpcError,
    },
    /// A request of an extension. Its method begins with `_`.
    Call {
        /// Comes back in [`Event::Answered`] or [`Event::Failed`].
        tag: Tag,
        /// The name of the method, on the wire as it is here.
        method: String,
        /// Its parameters, an object.
        params: Json,
    },
    /// A notification of an extension. Its method begins with `_`.
    Notify {
        /// The name of the method, on the wire as it is here.
        method: String,
        /// Its parameters, an object.
        params: Json,
    },
    /// Ask the agent to give a request up (`$/cancel_request`). It is answered all the same. For a prompt it is
    /// [`Command::Cancel`].
    Withdraw {
        /// The tag of the request that is given up.
        tag: Tag,
    },
    /// Leave: open questions are answered, open turns and requests fail, and the teardown begins at once.
    Shutdown,
    /// The same, and the child is not waited for: SIGTERM at once, SIGKILL 0.2 s later. Also taken while we leave.
    Hasten,
}

/// Which session to open.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// A session that begins empty.
    New,
    /// A new one that begins as that one stands, which need not be open.
    Fork(SessionId),
    /// An old one whose history the agent replays.
    Load(SessionId),
    /// An old one without its history.
    Resume(SessionId),
}

/// What the application is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The handshake is done.
    Ready(Box<Ready>),
    /// A line of the agent, before what it means; only when the config asks.
    Line(String),
    /// A piece of text of a session.
    Text(Text),
    /// Anything else about a session.
    Updated(Box<Updated>),
    /// The agent asks for permission. Wants exactly one [`Command::Answer`].
    PermissionAsked(Box<PermissionAsked>),
    /// The agent asks for something that was offered. Wants one [`Command::Reply`] or [`Command::Fail`].
    Requested(Box<Requested>),
    /// A question needs no answer any more: it was cancelled by us or by the agent.
    Withdrawn(RequestKey),
    /// The agent sent any other notification: one of an extension, or `elicitation/complete`.
    Notified(Box<Notified>),
    /// A request was answered.
    Answered(Tag, Box<Answer>),
    /// A request of ours came to nothing.
    Failed(Tag, Box<Failure>),
    /// A turn is over.
    TurnEnded(Box<TurnEnded>),
    /// The child wrote to its standard error.
    Stderr(String),
    /// Something about the agent that is worth knowing and needs no reaction.
    Noticed(Box<Notice>),
    /// The connection is over; nothing follows.
    Closed(Box<Closed<Fault>>),
}

/// What an agent said of itself.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// The version that is spoken: 1.
    pub protocol_version: u16,
    /// Its name and version, if it gave them.
    pub agent_info: Option<Implementation>,
    /// What may be asked of it. Everything else is refused here.
    pub capabilities: AgentCapabilities,
    /// How to log in. An empty list does not prove that no login is needed.
    pub auth_methods: Vec<AuthMethod>,
    /// The whole answer as it was written.
    #[serde(skip)]
    pub raw: Json,
}

/// A piece of text.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Text {
    /// The session that the agent names; also a subagent's own.
    pub session: SessionId,
    /// Whose words they are.
    pub speaker: Speaker,
    /// Whether it belongs to a turn, to history, or to neither.
    pub moment: Moment,
    /// The text. Pieces of one message are to be joined without anything between them.
    pub text: String,
    /// Pieces of one id are one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

/// When an update came.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// During a turn of this session.
    Turn,
    /// While the session was being loaded: history.
    Replay,
    /// At any other time, also before a new session's id is known.
    Between,
}

/// News about a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Updated {
    /// The session that the agent names.
    pub session: SessionId,
    /// The session that it works for, if this one is of an agent of the agent: it was told by a `subagent_update`. Its text
    /// comes as updates too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<SessionId>,
    /// Whether it belongs to a turn, to history, or to neither; of a subagent, the turn of the session that it works for.
    pub moment: Moment,
    /// The update, as far as it is understood.
    pub update: Update,
    /// The update as it was written: what a gateway passes on.
    #[serde(skip)]
    pub raw: Json,
}

/// A permission request that waits for its answer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PermissionAsked {
    /// Its key, until it is answered or withdrawn.
    pub request: RequestKey,
    /// The tool call, and the options to choose from.
    pub asked: PermissionRequest,
}

/// A request of the agent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Requested {
    /// Its key, until it is answered or withdrawn.
    pub request: RequestKey,
    /// One of the things that were offered.
    pub wanted: ServiceRequest,
}

/// What came of a request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The login is done; what failed for the lack of it may be asked again.
    Authenticated,
    /// The agent has forgotten the login.
    LoggedOut,
    /// A session is open.
    SessionOpened {
        /// The id that everything about it goes by.
        session: SessionId,
        /// Its modes and options.
        state: SessionState,
    },
    /// One page of sessions.
    Sessions(SessionList),
    /// A session is closed.
    SessionClosed,
    /// A session is deleted.
    SessionDeleted,
    /// The mode is set.
    ModeSet,
    /// The model is set.
    ModelSet,
    /// A setting is set; these are all of them.
    OptionSet(Vec<ConfigOption>),
    /// The answer of an extension, as written.
    Called(Json),
}

/// Why a request or a turn came to nothing.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// The agent answered with an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// The agent's answer makes no sense.
    #[error("the agent's answer cannot be read: {0}")]
    Unreadable(String),
    /// The agent took too long to answer: that clock ran out, which stood at so much.
    #[error("the agent did not answer within {after:?}")]
    TimedOut {
        /// The clock, as it is set by [`Timeouts`].
        clock: Clock,
        /// What it stood at.
        after: Duration,
    },
    /// The agent said nothing during the turn for longer than [`Timeouts::silence`].
    #[error("the agent was silent for {after:?}")]
    Silent {
        /// What the clock stood at.
        after: Duration,
    },
    /// The turn was cancelled, and the agent did not confirm it within [`Timeouts::cancel`].
    #[error("cancelled, and the agent did not confirm it within {after:?}")]
    Unconfirmed {
        /// What the clock stood at.
        after: Duration,
    },
    /// The connection ended first.
    #[error("the connection ended")]
    Disconnected,
    /// We left before the answer came.
    #[error("shut down")]
    Shutdown,
}

/// The end of a turn.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct TurnEnded {
    /// The session that the agent names; also a subagent's own.
    pub session: SessionId,
    /// The tag that its [`Command::Prompt`] had.
    pub tag: Tag,
    /// How. All updates of the turn came before.
    pub end: Result<Stopped, Failure>,
}
