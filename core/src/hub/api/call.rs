//! Which commands there are.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    AgentList, AgentsEnable, AgentsList, ApprovalAsk, ApprovalBrief, ApprovalRespond, ApprovalsList,
    ApprovalsWatch, Changed, Deleted, Dispatch, Frame, Health, HubHealth, HubStop, LlmSet, MessageBrief,
    Ping, Pong, QueueView, Responded, RulesList, Schema, Sent, SessionBrief, SessionBtw, SessionLoad,
    SessionNew, SessionQueue, SessionRename, SessionSend, SessionSet, SessionSetPolicy, SessionShow,
    SessionWait, SessionWatch, SessionsList, SessionsWatch, Shown, Started, Stopping, ToolRules, Version,
    Waited,
};
use crate::control::{Failure, Request};
use crate::rpc::Json;

/// A command, named by the type of its arguments.
pub trait Method: Serialize + DeserializeOwned {
    /// Its name on the wire.
    const NAME: &'static str;
    /// Whether the answer is a stream of [`Frame`]s.
    const STREAMS: bool;
    /// What comes back; of a stream, each time.
    type Result;

    /// The request of a client.
    fn request(&self) -> Request {
        Request { command: Self::NAME.to_owned(), args: Some(Json::new(self)) }
    }
}

macro_rules! methods {
    ($($name:literal $method:ident -> $result:ty, $streams:literal;)*) => {
        /// A request, read.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Call {
            $(
                #[doc = concat!("`", $name, "`")]
                $method($method),
            )*
        }

        impl Call {
            /// Every name that is known.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Reads a request.
            ///
            /// # Errors
            ///
            /// `unknown_command`, or `invalid_args` with the reason.
            pub fn read(request: &Request) -> Result<Self, Failure> {
                match &*request.command {
                    $($name => arguments(request).map(Self::$method),)*
                    other => Err(Failure::unknown_command(other)),
                }
            }
        }

        $(
            impl Method for $method {
                const NAME: &'static str = $name;
                const STREAMS: bool = $streams;
                type Result = $result;
            }
        )*
    };
}

methods! {
    "ping" Ping -> Pong, false;
    "version" Version -> Schema, false;
    "health" HubHealth -> Health, false;
    "hub.stop" HubStop -> Stopping, false;
    "agents.list" AgentsList -> AgentList, false;
    "agents.enable" AgentsEnable -> Changed, false;
    "sessions.list" SessionsList -> Vec<SessionBrief>, false;
    "sessions.watch" SessionsWatch -> Frame, true;
    "session.new" SessionNew -> Started, false;
    "session.load" SessionLoad -> Shown, false;
    "session.send" SessionSend -> Started, false;
    "session.retry" SessionRetry -> Started, false;
    "session.queue" SessionQueue -> QueueView, false;
    "session.stop" SessionStop -> Dispatch, false;
    "session.watch" SessionWatch -> Frame, true;
    "session.show" SessionShow -> Vec<MessageBrief>, false;
    "session.wait" SessionWait -> Waited, false;
    "session.close" SessionClose -> Shown, false;
    "session.archive" SessionArchive -> Shown, false;
    "session.restore" SessionRestore -> Shown, false;
    "session.delete" SessionDelete -> Deleted, false;
    "session.rename" SessionRename -> Shown, false;
    "session.set" SessionSet -> Shown, false;
    "llm.set" LlmSet -> Shown, false;
    "session.set_policy" SessionSetPolicy -> Shown, false;
    "session.btw" SessionBtw -> Sent, false;
    "session.shutdown_runner" SessionShutdownRunner -> Sent, false;
    "rules.list" RulesList -> ToolRules, false;
    "rules.set" ToolRules -> ToolRules, false;
    "approvals.list" ApprovalsList -> Vec<ApprovalBrief>, false;
    "approvals.watch" ApprovalsWatch -> Frame, true;
    "approval.respond" ApprovalRespond -> Responded, false;
    "approval.ask" ApprovalAsk -> Frame, true;
}

fn arguments<T: DeserializeOwned>(request: &Request) -> Result<T, Failure> {
    let empty = request.args.as_ref().is_none_or(|args| args.get() == "null");
    let read = if empty { serde_json::from_str("{}") } else { return request.decode() };
    read.map_err(|error| Failure::invalid_args(error.to_string()))
}

macro_rules! of_a_session {
    ($($(#[$doc:meta])* $method:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
            #[serde(rename_all = "camelCase")]
            pub struct $method {
                /// The session.
                pub session_id: String,
            }

            impl $method {
                /// For that session.
                #[must_use]
                pub fn of(session_id: impl Into<String>) -> Self {
                    Self { session_id: session_id.into() }
                }
            }
        )*
    };
}

of_a_session! {
    /// The last prompt once more, if it ended as error, cancelled or not sent, and nothing runs. It releases a held
    /// queue.
    SessionRetry;
    /// Cancels what runs; what waits is held. Answers at once: `abort_sent`, or `already_stopped` when nothing runs.
    SessionStop;
    /// Ends the session in its agent: a turn is cancelled, prompts that wait end as not sent. The row stays, and the next
    /// prompt opens it again.
    SessionClose;
    /// Ends the process of a runner: what runs is aborted, and it has 3 s. The next prompt starts another one.
    SessionShutdownRunner;
    /// Takes the session out of the lists, and closes it first.
    SessionArchive;
    /// Puts an archived session back, as it was.
    SessionRestore;
    /// Closes the session, removes it at its agent where that is offered, and forgets it.
    SessionDelete;
}
