//! The one vocabulary between what sessions come from and those who read them.
//!
//! A source (an ACP child, a reverse link, a runner, an attached session) is a [`Machine`](crate::Machine) around
//! exactly one machine of its channel, with `Command = (Tag, Wish)` and `Event = Told`. What is wished it asks for at
//! once, by one request, or refuses. It has no queue, no clock of a turn and no policy.
//!
//! ```text
//!           Wish, with a tag
//!  source ◄────────────────── whoever decides ◄──── readers
//!         ──────────────────►                 ────►
//!          Hello, Up, News, Done, Wanted, Noted, Other, Down
//! ```
//!
//! A prompt and its turn share one [`TurnId`] from acceptance on. What a turn asks ends with it, but for
//! [`Question::Words`], which the next prompt answers. A source that is gone has ended its turns before.

mod acp;
mod attach;
mod early;
mod ending;
pub mod galley;
mod reverse;
mod source;

pub use self::acp::Acp;
pub use self::attach::{Attached, Config as AttachedConfig};
pub(crate) use self::early::Early;
pub(crate) use self::ending::why;
pub use self::reverse::Reverse;
pub use self::source::{Source, SourceConfig};

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::acp::services::ServiceRequest;
use crate::acp::session::{
    AuthMethod, ConfigOption, Implementation, SessionList, SessionSetup, SessionState, SystemPromptSupport,
};
use crate::acp::update::{AvailableCommand, Chunk, Patch, Plan, Speaker, ToolCallUpdate, Usage};
use crate::acp::{ContentBlock, Json, PermissionOption, RequestKey, SessionId};
use crate::closed::Closed;
use crate::galley::HistoryMessage;
use crate::host::{FileError, FileWanted, Hosted};
use crate::machine::{Refused, Tag};
use crate::rpc::RpcError;

/// A source's own name of a session.
pub type Name = SessionId;

/// A prompt, from the moment it is said, and the turn that it becomes. Chosen by whoever says it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u64);

/// A source's name of a question; never given twice by one source.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskId(pub u64);

/// What a source can do, on the whole link or, by [`News::Can`], on one session. A value: it outlives the process, and
/// a refusal is known before anything is sent ([`may`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Can {
    /// Open new sessions.
    pub new: bool,
    /// Open new sessions that begin as another one stands.
    pub fork: bool,
    /// Open old sessions with their history.
    pub load: bool,
    /// Open old sessions without their history.
    pub resume: bool,
    /// List its sessions.
    pub list: bool,
    /// Close a session.
    pub close: bool,
    /// Remove a session from its list.
    pub delete: bool,
    /// Forget the login that it has.
    pub logout: bool,
    /// Take prompts, one a session at a time.
    pub prompt: bool,
    /// Take pictures in prompts.
    pub images: bool,
    /// Take sound in prompts.
    pub audio: bool,
    /// Take whole resources in prompts.
    pub embed: bool,
    /// Use MCP servers over HTTP.
    pub mcp_http: bool,
    /// Use MCP servers over SSE.
    pub mcp_sse: bool,
    /// Work in more than one directory.
    pub directories: bool,
    /// Cancel a turn.
    pub cancel: bool,
    /// A cancel ends whatever runs, not only what we began.
    pub cancel_is_wide: bool,
    /// Text is told as it comes.
    pub streams: bool,
    /// Its questions are seen, and can be answered.
    pub asks: bool,
    /// Choose modes, models and options.
    pub set: bool,
    /// The same while a turn runs.
    pub set_while_running: bool,
    /// Take side questions.
    pub aside: bool,
    /// Take rules of approval.
    pub rules: bool,
    /// The link is one session.
    pub single: bool,
    /// Take instructions to the model with a new session, and which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPromptSupport>,
}

/// What is wanted of a source: one request of its channel each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Let a source in that has said hello. Then it is up.
    Accept,
    /// Do not, for that reason. Then it is down.
    Refuse(String),
    /// Open a session. Told as [`Done::Opened`], and then as [`News::Opened`].
    Open(Open, Box<SessionSetup>),
    /// One page of the sessions that it knows.
    List {
        /// Only those of this workspace.
        cwd: Option<String>,
        /// From the page before.
        cursor: Option<String>,
    },
    /// Begin a turn. It ends in one [`News::Ended`] of that turn.
    Prompt {
        /// On this session.
        session: Name,
        /// Its name from here on.
        turn: TurnId,
        /// What is said.
        words: Vec<ContentBlock>,
    },
    /// Cancel the turn that runs.
    Cancel {
        /// On this session.
        session: Name,
    },
    /// Answer a question.
    Answer {
        /// The question, by the name that it was asked with.
        ask: AskId,
        /// The answer; one that does not fit the question counts as none.
        reply: Reply,
    },
    /// Serve what was wanted.
    Serve {
        /// Which.
        ask: AskId,
        /// The result as its channel has it, or why there is none.
        answer: Result<Json, RpcError>,
    },
    /// Say how a file was read or written: what it holds, or nothing.
    FileDone {
        /// Which, from [`Told::File`].
        request: RequestKey,
        /// As whoever has the files says it.
        done: Result<String, FileError>,
    },
    /// Choose a mode, a model or an option.
    Set {
        /// On this session.
        session: Name,
        /// What is set, and to which value.
        setting: Setting,
    },
    /// Ask beside the conversation.
    Aside {
        /// On this session.
        session: Name,
        /// What is asked, in the person's words.
        question: String,
    },
    /// Rules of approval, as written.
    Rules(Json),
    /// What only a Galley runner has.
    OfRunner(OfRunner),
    /// Close a session.
    Close {
        /// The session; it can be opened again where it is kept.
        session: Name,
    },
    /// Remove a session.
    Delete {
        /// The session, which need not be open.
        session: Name,
    },
    /// Log in by a method that the source itself does.
    Login {
        /// The id of the method.
        method: String,
    },
    /// Forget the login.
    Logout,
    /// No wish: what was seen beside the link, such as a presence record.
    Seen(Sighting),
    /// End the link; open turns and questions end with it.
    Leave,
}

/// What only a Galley runner can be asked for.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfRunner {
    /// The conversation so far, before its first prompt: it keeps none itself.
    History(Vec<HistoryMessage>),
    /// Whether no tool needs an approval, from the next call on.
    AutoApprove(bool),
    /// Describe its tools to the model again.
    DescribeTools,
    /// Show the session as a desktop pet, which listens at that local port; `None`: as none any more.
    Pet(Option<u16>),
}

/// What stands in a record about a session whose link tells no turns.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// Whether a turn runs there.
    pub busy: bool,
    /// When it was written, since the Unix epoch.
    pub at: Duration,
}

pub use crate::acp::client::Which as Open;
pub use crate::acp::session::Request as Setting;

/// An answer to a question.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// An offered option, by id.
    Choose(String),
    /// A form is filled in, or a page is agreed to, which has no content.
    Accept(Option<Json>),
    /// The person has said no.
    Decline,
    /// No answer: the turn is over or cancelled.
    Cancel,
    /// We have no answer and somebody else may have one.
    NotMe,
}

/// What a source tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// It came by itself, and wants to be let in: [`Wish::Accept`] or [`Wish::Refuse`]. Of who it is and what it can do this
    /// is its own word.
    Hello(Box<Up>),
    /// It can be wished something.
    Up(Box<Up>),
    /// About a session.
    News(Item),
    /// What came of a wish. A prompt that was taken ends as [`News::Ended`].
    Done(Tag, Box<Result<Done, Trouble>>),
    /// It wants a file or a terminal of whoever offered that, and no person. Wants one [`Wish::Serve`].
    Wanted(AskId, Box<ServiceRequest>),
    /// It wants a file that we host. Wants one [`Wish::FileDone`].
    File(Box<FileWanted>),
    /// Worth knowing, needs no reaction.
    Noted(Box<Noted>),
    /// A word of the channel that has no place here: method and parameters, as written.
    Other(Box<(String, Option<Json>)>),
    /// The link is over; every turn was ended before. Nothing follows.
    Down(Box<Closed<String>>),
}

/// A source introduces itself.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Up {
    /// Who it is.
    pub who: Option<Implementation>,
    /// What it can do.
    pub can: Can,
    /// How to log in.
    pub logins: Vec<AuthMethod>,
    /// What it says of itself beyond its channel, as written.
    pub meta: Option<Json>,
}

/// What came of a wish.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// A session is open, with all that there is to choose from.
    Opened(Name, Box<SessionState>),
    /// One page of sessions.
    Listed(Box<SessionList>),
    /// All settings, after one was set.
    Set(Vec<ConfigOption>),
    /// Done; there is nothing to say.
    Fine,
}

/// Why a wish came to nothing: code, text and data, since a reader of the same wire wants them as they were.
pub type Trouble = RpcError;

/// Something about a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Noted {
    /// The child wrote to its standard error.
    Stderr(String),
    /// A peculiarity of the peer, as its channel tells it.
    Odd(Json),
}

/// News about one session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The session that it is news of.
    pub session: Name,
    /// Whether it is of a turn, of history, or of neither.
    pub moment: Moment,
    /// What has happened.
    pub news: News,
    /// The same as it was written, where there is more to it than a text.
    #[serde(skip)]
    pub raw: Option<Json>,
}

pub use crate::acp::client::Moment;

/// What happens on a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// It is open.
    Opened,
    /// It is there without our doing.
    Announced(Box<Announced>),
    /// What it can do.
    Can(Box<Can>),
    /// A turn runs from here on.
    Began(By),
    /// Whether a turn runs, where its beginning and end are not told. It keeps nobody waiting.
    Busy(bool),
    /// A step of a turn.
    Step(Box<Step>),
    /// A piece of text.
    Text {
        /// Whose words they are.
        speaker: Speaker,
        /// Pieces of one id are one message.
        message: Option<Arc<str>>,
        /// The piece, as it came.
        text: String,
    },
    /// A piece of a message that is more than text.
    Block(Box<(Speaker, Chunk)>),
    /// News about a tool call.
    Tool {
        /// Whether it is announced, or changes.
        is_new: bool,
        /// What is known of it.
        call: Box<ToolCallUpdate>,
    },
    /// The whole plan.
    Plan(Box<Plan>),
    /// All slash commands.
    Commands(Vec<AvailableCommand>),
    /// It asks a person, and waits.
    Asked(Box<Asked>),
    /// A question needs no answer any more. Not told of those that were answered here.
    Settled(AskId, Settled),
    /// Its title or time.
    Info {
        /// The new title, if that changed.
        title: Box<Patch>,
        /// When it changed last.
        updated_at: Box<Patch>,
    },
    /// The mode is another one.
    Mode(String),
    /// All config options; they replace the ones before.
    Options(Vec<ConfigOption>),
    /// How much of the context is used, and the cost so far: it replaces the one before.
    Usage(Box<Usage>),
    /// Something went wrong, and the turn goes on.
    Warned(Box<Warning>),
    /// A word of the source to people.
    Note(String),
    /// Something was done for it that we host.
    Hosted(Box<Hosted>),
    /// A turn is over.
    Ended(Box<Ended>),
    /// The source is gone from this session.
    Closed,
    /// A kind of update that has no place here: its name.
    Other(String),
}

/// Who began a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// We did, by that prompt.
    Us(TurnId),
    /// Somebody at the source's own end.
    There,
}

/// A session that is there without our doing.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Announced {
    /// The absolute path of its workspace.
    pub cwd: String,
    /// What it is about, for people.
    pub title: Option<String>,
}

/// A step of a turn.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Step {
    /// The first step of a turn is 1.
    pub index: u32,
    /// What came of it, once it is over.
    pub ended: Option<String>,
}

/// Something that went wrong on the way.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Warning {
    /// What went wrong, for people.
    pub text: String,
    /// What to try.
    pub hint: Option<String>,
    /// Whether the same again may go through.
    pub retryable: bool,
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// What its answer calls it.
    pub ask: AskId,
    /// What is asked.
    pub question: Question,
    /// The session of the agent's own that asks, a subagent's.
    pub of: Option<Name>,
    /// When the source gives it up.
    pub expires: Option<Duration>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Whether a tool may be used. Ends with its turn.
    Permission {
        /// The call that it is about, with what was known of it before.
        call: ToolCallUpdate,
        /// What can be answered.
        options: Vec<PermissionOption>,
        /// The reason, where there is one.
        why: Option<String>,
        /// Extension data of the request, `_meta` on the wire, as it was written.
        meta: Option<Json>,
    },
    /// Free words. It outlives its turn; the next prompt answers it.
    Words {
        /// What is asked, for people.
        text: String,
        /// Answers that the source thinks likely.
        candidates: Vec<String>,
    },
    /// A form. Ends with its turn.
    Form {
        /// What is asked, for people.
        text: String,
        /// Its fields, as written.
        schema: Option<Json>,
    },
    /// A page to visit: agreed to first, done later. [`News::Settled`] says when.
    Page {
        /// What is asked, for people.
        text: String,
        /// The address, not to be opened without consent.
        url: String,
        /// The source's name of it.
        id: String,
    },
}

/// Why a question needs no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Answered at the source's own end.
    Elsewhere,
    /// The source gave it up.
    Withdrawn,
    /// Its turn is over, or another one began.
    TurnOver,
    /// Its time was over.
    Expired,
    /// The link is gone.
    Lost,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// Which; `None`: the one that runs, the source cannot say.
    pub turn: Option<TurnId>,
    /// What came of it.
    pub how: Outcome,
    /// The agent's own word for it.
    pub word: Option<String>,
    /// Why, where the agent has no word for it: its error, or ours.
    pub trouble: Option<Box<Trouble>>,
    /// What this turn cost, as written. It adds to the turns before.
    pub spent: Option<Json>,
    /// What goes with it beyond its channel, as written.
    pub meta: Option<Json>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent is done.
    Completed,
    /// The model's output limit came.
    MaxTokens,
    /// The agent will not.
    Refused,
    /// It was cancelled.
    Cancelled,
    /// It went wrong.
    Failed,
    /// The link ended first.
    Lost,
    /// The words were taken; how it ended was not seen.
    Unseen,
    /// It never was the agent's.
    NotSent,
}

/// Whether a source can be wished that, before a byte is written.
///
/// # Errors
///
/// It does not offer it, or not while a turn runs on that session.
pub fn may(can: Can, wish: &Wish, running: bool) -> Result<(), Refused> {
    let offered = |yes: bool, what| if yes { Ok(()) } else { Err(Refused::NotOffered(what)) };
    match wish {
        Wish::Open(Open::New, _) => offered(can.new, "new sessions"),
        Wish::Open(Open::Fork(_), _) => offered(can.fork, "forking sessions"),
        Wish::Open(Open::Load(_), _) => offered(can.load, "loading sessions"),
        Wish::Open(Open::Resume(_), _) => offered(can.resume, "resuming sessions"),
        Wish::List { .. } => offered(can.list, "a list of sessions"),
        Wish::Prompt { .. } if running && !can.cancel_is_wide => Err(Refused::Busy),
        Wish::Prompt { words, .. } => {
            offered(can.prompt, "prompts")?;
            words.iter().try_for_each(|block| match block {
                ContentBlock::Image(_) => offered(can.images, "images"),
                ContentBlock::Audio(_) => offered(can.audio, "audio"),
                ContentBlock::Resource(_) => offered(can.embed, "embedded resources"),
                ContentBlock::Text(_) | ContentBlock::ResourceLink(_) | ContentBlock::Unknown(_) => Ok(()),
            })
        }
        Wish::Cancel { .. } => offered(can.cancel, "cancelling"),
        Wish::Answer { .. } => offered(can.asks, "questions"),
        Wish::Set { .. } if can.set && running && !can.set_while_running => Err(Refused::Busy),
        Wish::Set { .. } => offered(can.set, "settings"),
        Wish::Aside { .. } => offered(can.aside, "side questions"),
        Wish::Rules(_) => offered(can.rules, "rules of approval"),
        Wish::OfRunner(_) => offered(can.rules, "what runners have"),
        Wish::Close { .. } => offered(can.close, "closing sessions"),
        Wish::Delete { .. } => offered(can.delete, "deleting sessions"),
        Wish::Logout => offered(can.logout, "logout"),
        Wish::Accept
        | Wish::Refuse(_)
        | Wish::Serve { .. }
        | Wish::FileDone { .. }
        | Wish::Login { .. }
        | Wish::Seen(_)
        | Wish::Leave => Ok(()),
    }
}
