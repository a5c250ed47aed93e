//! What streams carry: one event in each frame.

use serde::{Deserialize, Serialize};

use super::{ApprovalBrief, LastError, MessageBrief, Origin, Reason, Resolved, SessionBrief, Status};
use crate::acp::update::{PlanEntry, ToolCallUpdate};
use crate::acp::{ContentBlock, session::ConfigOption};
use crate::host::Deed;
use crate::rpc::Json;

/// The `data` of a frame: `{"kind":"turn_progress","sessionId":"s12","turn":34,"timestamp":…,"delta":"hello"}`.
///
/// A stream begins with the present state, then says `synced`, then tells what happens. After `lagged` the state comes
/// again.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The session's handle; absent where it is about none.
    pub session_id: Option<String>,
    /// The prompt that it belongs to.
    pub turn: Option<u64>,
    /// When the hub heard of it, RFC 3339.
    pub timestamp: Option<String>,
    /// What it is.
    pub what: Happening,
    /// The agent's own words of it: the `update`, or else the `params`. Only where asked for.
    pub raw: Option<Json>,
}

macro_rules! happenings {
    ($($(#[$doc:meta])* $kind:literal $name:ident;)*) => {
        /// One thing that happened. The names are Galley's, as far as it has them.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Happening {
            $(
                $(#[$doc])*
                $name(Box<$name>),
            )*
            /// A kind that is not known: its name.
            Other(String),
        }

        impl Happening {
            /// The name on the wire.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => $kind,)*
                    Self::Other(kind) => kind,
                }
            }

            fn write(&self, head: Head<'_>) -> Json {
                match self {
                    $(Self::$name(body) => Json::new(&Whole { head, body: Some(&**body) }),)*
                    Self::Other(_) => Json::new(&Whole::<()> { head, body: None }),
                }
            }

            fn read(kind: String, text: &str) -> Result<Self, serde_json::Error> {
                Ok(match &*kind {
                    $($kind => Self::$name(serde_json::from_str(text)?),)*
                    _ => Self::Other(kind),
                })
            }
        }

        $(
            impl From<$name> for Happening {
                fn from(body: $name) -> Self {
                    Self::$name(Box::new(body))
                }
            }
        )*
    };
}

happenings! {
    /// A session as it is now: at the start, and whenever its status, name, title or policy changes.
    "session" SessionBrief;
    /// The present state is told; what follows happens from here on.
    "synced" Synced;
    /// A message of before.
    "message" MessageBrief;
    /// Frames were lost.
    "lagged" Lagged;
    /// A prompt waits.
    "queued" QueuedAt;
    /// A prompt that waited is over without having been sent.
    "not_sent" NotSent;
    /// A prompt begins.
    "user_message" UserMessage;
    /// A step of a turn begins.
    "turn_start" TurnStart;
    /// A piece of the agent's answer.
    "turn_progress" TurnProgress;
    /// A piece of the agent's thoughts.
    "thought" Thought;
    /// A picture or the like.
    "block" Block;
    /// A tool call begins.
    "tool_call_start" ToolCallStart;
    /// News of a tool call.
    "tool_call_progress" ToolCallProgress;
    /// A tool call is over.
    "tool_call_end" ToolCallEnd;
    /// A permission is asked for.
    "tool_call_pending" ToolCallPending;
    /// The agent asks for words.
    "ask_user" AskUser;
    /// The agent asks for a form or a page.
    "question" AskForm;
    /// On a stream of questions: one is open.
    "asked" ApprovalBrief;
    /// A question is over.
    "resolved" Resolved;
    /// The agent's plan; it replaces the one before.
    "plan" PlanNow;
    /// How much is used; it replaces what was told before.
    "usage" UsageNow;
    /// The mode is another one.
    "mode" ModeNow;
    /// The settings that there are; they replace the ones before.
    "options" OptionsNow;
    /// Something went wrong, and the turn goes on.
    "error" Warned;
    /// A word of the source to people.
    "system_message" SystemMessage;
    /// Something was done for the agent, which has no files or terminals of its own, or failed.
    "hosted" HostedNow;
    /// A step of a turn is over.
    "turn_end" TurnEnd;
    /// A turn is over.
    "run_complete" RunComplete;
    /// Something that only the agent's own words tell.
    "update" Update;
}

impl Frame {
    /// The JSON of a frame.
    #[must_use]
    pub fn to_json(&self) -> Json {
        // These name their session themselves, and an object has a name once.
        let named = matches!(self.what, Happening::MessageBrief(_) | Happening::ApprovalBrief(_));
        self.what.write(Head {
            kind: self.what.kind().into(),
            session_id: self.session_id.as_deref().filter(|_| !named).map(Into::into),
            turn: self.turn,
            timestamp: self.timestamp.as_deref().map(Into::into),
            raw: self.raw.clone(),
        })
    }

    /// Reads a frame.
    ///
    /// # Errors
    ///
    /// It is no object with a `kind`, or a kind that is known lacks a member.
    pub fn read(data: &Json) -> Result<Self, serde_json::Error> {
        let head: Head<'_> = serde_json::from_str(data.get())?;
        Ok(Self {
            what: Happening::read(head.kind.into_owned(), data.get())?,
            session_id: head.session_id.map(Into::into),
            turn: head.turn,
            timestamp: head.timestamp.map(Into::into),
            raw: head.raw,
        })
    }
}

impl Serialize for Frame {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let data = Json::deserialize(deserializer)?;
        Self::read(&data).map_err(serde::de::Error::custom)
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_id: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<Json>,
}

#[derive(Serialize)]
struct Whole<'a, T> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    body: Option<&'a T>,
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field:meta])* $member:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub struct $name {
                $(
                    $(#[$field])*
                    pub $member: $type,
                )*
            }
        )*
    };
}

/// Something was done for the agent, which has no files or terminals of its own, or failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostedNow {
    /// What was done.
    #[serde(flatten)]
    pub deed: Deed,
    /// Why it failed, as the agent was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

bodies! {
    /// The present state is told.
    Synced {}

    /// Frames were lost in this place.
    Lagged {
        /// How many.
        lost: u64,
    }

    /// A prompt waits.
    QueuedAt {
        /// Its place, from 1.
        position: usize,
        /// Its text.
        text: String,
        /// Who said it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Origin>,
    }

    /// A prompt is over without having been sent.
    NotSent {
        /// Why: `withdrawn`, `closed`, `archived`, `deleted`, `start_failed` and the like.
        reason: String,
    }

    /// A prompt begins: its words.
    UserMessage {
        /// The text.
        text: String,
        /// Pictures beside it.
        #[serde(skip_serializing_if = "super::is_zero")]
        images: usize,
        /// Who said it; absent where the agent's own end did.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Origin>,
    }

    /// A step of a turn begins.
    TurnStart {
        /// From 1; the only one where the agent tells no steps.
        turn_index: u32,
    }

    /// A piece of the agent's answer.
    TurnProgress {
        /// To be added to what came before.
        delta: String,
        /// `workbench`, as Galley has it for everything that an agent says.
        source: String,
        /// Pieces of one id are one message.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    }

    /// A piece of the agent's thoughts.
    Thought {
        /// To be added to what came before.
        delta: String,
        /// Pieces of one id are one thought.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    }

    /// A tool call begins.
    ToolCallStart {
        /// Unique in the session.
        tool_call_id: String,
        /// The step it belongs to.
        turn_index: u32,
        /// The tool's own name, or its kind.
        tool_name: String,
        /// What goes into it.
        args: Option<Json>,
        /// The same on one line, at most 200 characters.
        args_preview: String,
        /// All that the agent told of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<ToolCallUpdate>,
    }

    /// News of a tool call.
    ToolCallProgress {
        /// Unique in the session.
        tool_call_id: String,
        /// What it does now.
        text: String,
        /// What changed; absent members are as they were.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<ToolCallUpdate>,
    }

    /// A tool call is over.
    ToolCallEnd {
        /// Unique in the session.
        tool_call_id: String,
        /// `success` or `failed`.
        status: String,
        /// What came out of it, at most 500 characters.
        result_preview: String,
        /// Milliseconds since it began.
        elapsed_ms: u64,
        /// What changed; absent members are as they were.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<ToolCallUpdate>,
    }

    /// A permission is asked for.
    ToolCallPending {
        /// The question: `a7`.
        approval_id: String,
        /// The step it belongs to.
        turn_index: u32,
        /// The tool's own name, or its kind.
        tool_name: String,
        /// What goes into it.
        args: Option<Json>,
        /// The same on one line, at most 200 characters.
        args_preview: String,
        /// `low`, `medium` or `high`.
        risk_level: String,
        /// Why it is asked.
        reason: String,
        /// All of the question.
        approval: ApprovalBrief,
    }

    /// The agent asks for words; the next prompt is the answer.
    AskUser {
        /// The question: `a7`.
        approval_id: String,
        /// What is asked.
        question: String,
        /// Likely answers.
        candidates: Vec<String>,
    }

    /// The agent asks for a form or a page.
    AskForm {
        /// All of the question.
        approval: ApprovalBrief,
    }

    /// The agent's plan.
    PlanNow {
        /// Every entry.
        entries: Vec<PlanEntry>,
    }

    /// How much is used.
    UsageNow {
        /// As in the session's row.
        usage: super::UsageBrief,
    }

    /// The mode of the session.
    ModeNow {
        /// Its id.
        mode_id: String,
    }

    /// The settings of the session.
    OptionsNow {
        /// Every option.
        options: Vec<ConfigOption>,
    }

    /// Something went wrong, and the turn goes on.
    Warned {
        /// What.
        message: String,
        /// `business`.
        category: String,
        /// `warning`.
        severity: String,
        /// Whether the same again may go through.
        retryable: bool,
        /// What to try.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    }

    /// A word of the source to people.
    SystemMessage {
        /// The word.
        content: String,
        /// `system`.
        variant: String,
    }

    /// A step of a turn is over.
    TurnEnd {
        /// From 1.
        turn_index: u32,
        /// What came of it.
        summary: String,
        /// What the agent said in it, at most 64 KiB.
        response_content: String,
    }

    /// A turn is over.
    RunComplete {
        /// Galley's word for it.
        exit_reason: ExitReason,
        /// The agent's last message.
        final_content: String,
        /// Steps of the turn.
        total_turns: u32,
        /// Where the session stands now.
        status: Status,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::known")]
        status_reason: Option<Reason>,
        /// How it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_error: Option<LastError>,
        /// What the turn cost, as the agent wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        spent: Option<Json>,
        /// Whether its prompt can be tried again: it did not end well, and the agent can still open the session.
        #[serde(skip_serializing_if = "super::is_false")]
        retryable: bool,
    }

    /// Galley's word for the end of a turn.
    ExitReason {
        /// `CURRENT_TASK_DONE`, `ABORTED`, `MAX_TURNS_EXCEEDED` or `EXITED`.
        result: String,
        /// The agent's own word.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    }

    /// Something that only the agent's own words tell.
    Update {
        /// Its name.
        name: String,
    }
}

/// A picture or the like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Whose.
    pub role: super::Role,
    /// What.
    pub block: ContentBlock,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(what: Happening) -> Frame {
        let (session_id, timestamp) = (Some("s1".to_owned()), Some("2026-05-07T13:51:00+00:00".to_owned()));
        Frame { session_id, turn: Some(3), timestamp, what, raw: None }
    }

    #[test]
    fn a_frame_is_one_object_and_comes_back_as_it_was() {
        let start = ToolCallStart {
            tool_call_id: "c".to_owned(),
            turn_index: 1,
            args: Some(Json::new(&[1])),
            call: Some(ToolCallUpdate {
                tool_call_id: "c".to_owned(),
                raw_input: Some(Json::new(&[1])),
                ..ToolCallUpdate::default()
            }),
            ..ToolCallStart::default()
        };
        let block = Block { role: super::super::Role::Agent, block: ContentBlock::text("x") };
        for what in [
            Happening::from(TurnProgress { delta: "hello".to_owned(), ..TurnProgress::default() }),
            start.into(),
            block.into(),
            Synced::default().into(),
            SessionBrief { id: "s1".to_owned(), ..SessionBrief::default() }.into(),
            MessageBrief { session_id: "s1".to_owned(), ..MessageBrief::default() }.into(),
            ApprovalBrief { session_id: Some("s1".to_owned()), ..ApprovalBrief::default() }.into(),
            Happening::Other("later".to_owned()),
        ] {
            let told = frame(what);
            assert_eq!(Frame::read(&told.to_json()).unwrap(), told, "{:?}", told.to_json());
        }
    }

    #[test]
    fn the_bytes_of_a_frame() {
        let told = frame(Synced::default().into());
        let bytes = r#"{"kind":"synced","sessionId":"s1","turn":3,"timestamp":"2026-05-07T13:51:00+00:00"}"#;
        assert_eq!(told.to_json().get(), bytes);
        let told = Frame {
            timestamp: None,
            turn: None,
            raw: Some(Json::new(&7)),
            ..frame(Lagged { lost: 2 }.into())
        };
        assert_eq!(told.to_json().get(), r#"{"kind":"lagged","sessionId":"s1","raw":7,"lost":2}"#);
    }
}
