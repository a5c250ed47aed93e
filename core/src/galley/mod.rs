//! Galley's runner protocol, version 0.1: a host drives an agent in a child process, JSON lines over its stdio.
//!
//! ```text
//! ← {"kind":"ready","sessionId":"s-1","protocolVersion":"0.1","llmName":"…","availableLLMs":[…],…}
//! → {"kind":"user_message","text":"fix it","images":[]}
//! ← {"kind":"turn_start","sessionId":"s-1","turnIndex":1,…}
//! ← {"kind":"turn_progress","sessionId":"s-1","delta":"I'll run the tests",…}
//! ← {"kind":"tool_call_pending","approvalId":"appr_1","toolName":"code_run","args":{…},"riskLevel":"high",…}
//! → {"kind":"approval_response","approvalId":"appr_1","decision":"allow_once"}
//! ← {"kind":"turn_end","turnIndex":1,"toolCalls":[…],"toolResults":[…],"exitReason":{"result":"CURRENT_TASK_DONE"},…}
//! ← {"kind":"run_complete","exitReason":{"result":"CURRENT_TASK_DONE","data":null},"finalContent":"Done.","totalTurns":1,…}
//! → {"kind":"shutdown"}
//! ```
//!
//! [`Desktop`] is the host's side, [`Bridge`] the runner's. A run is what one message sets going; its steps are
//! called turns here, unlike in the other channels, where a turn is the whole.
//!
//! # What real runners do, and a desktop has to live with
//!
//! * They send no events of single tool calls: what a step did is in its `turn_end`. [`Desktop`] tells tools
//!   alike whichever way it learns of them.
//! * The last pieces of an answer come behind `run_complete`. They open no run again.
//! * They exit with 0 on `shutdown`, at the end of input and when their host is gone, in the middle of a run and
//!   without a word. An open run ends here all the same, once.
//! * At their limit of steps, or when their agent fails, they say nothing ever again. [`desktop::Timeouts`] has
//!   a clock for that.
//! * A second message in a run would never have an end, so it is refused here.
//! * An abort is confirmed late while the model is silent. The run ends here after 5 s; the next message waits
//!   until the runner has caught up ([`desktop::Event::Freed`]).
//! * The step that a question names is the one before. Questions are told apart by their `approvalId` only.
//! * Warnings may come before `ready`. An `error` ends nothing.
//!
//! # Limits
//!
//! | what | default | beyond it |
//! |---|---|---|
//! | a line, either way | 32 MiB | passed over and told; refused as a command |
//! | nesting | 128 | the line is no event, or no command |
//! | unsent, of a peer that takes nothing for 10 s | 40 MiB | it counts as deaf, and the link ends |
//! | open approvals, or the name of one | 1024, 1 KiB | denied |
//! | requests that wait for an answer | 1024 | refused |
//! | from the start to `ready` | 30 s | [`desktop::Fault::NotReady`] |
//! | an approval, at the runner | 600 s | denied, with a warning |
//! | silence in a run | 10 min, 2 h | told, the end |
//!
//! # Where this differs from the document, and why
//!
//! * `tool_call_pending` may carry a `toolCallId`, so that a denied end has something to name. Section 9 allows it.
//! * [`Bridge`] takes a history between runs, as real runners do. [`Desktop`] sends one before the first message
//!   only, as the document says.
//! * [`Bridge`] refuses a message in a run, as later runners do.
//! * A history of the wrong shape is a warning, and none of it is taken.
//! * [`Desktop`] ends a runner that does not leave by SIGTERM before SIGKILL.
//!
//! # Not supported, and why
//!
//! * Repairing a `user_message` that is no JSON: that was a fault of one host.
//! * Starting a runner again, or sending a message again: both are the application's to decide.

pub mod bridge;
mod classify;
mod command;
pub mod desktop;
mod event;
mod event_line;
mod members;
mod status;
mod tags;

pub use bridge::Bridge;
pub use classify::{GATED, NEVER_EVERYWHERE, args_preview, diff, hint, result_preview, risk, runtime_error};
pub use command::{Decision, HistoryMessage, PET_PORT, Rules};
pub use desktop::Desktop;
pub use event::{
    AskUser, Category, Exit, ExitReason, Hint, HistoryLoaded, Llm, LlmChanged, NO_TOOL, PetAttached, Ready,
    Risk, RunComplete, Severity, SystemMessage, Telemetry, ToolCall, ToolCallEnd, ToolCallPending,
    ToolCallProgress, ToolCallStart, ToolResult, ToolStatus, ToolsReinjected, Trouble, TurnEnd, TurnProgress,
    TurnStart, Variant, Visibility,
};
pub use status::{Facts, Kept, Runner, Status, status};
pub use tags::{Piece, Tags};

/// The lines themselves, for whoever records, replays or fuzzes them.
pub mod wire {
    pub use super::command::{
        ApprovalResponse, AskUserResponse, Command, NoCommand, UserMessage, read as read_command,
        write as write_command,
    };
    pub use super::event::Event;
    pub use super::event_line::{NoEvent, read as read_event, write as write_event};
    pub use super::members::NoObject;
}

/// The version of the protocol that is spoken here.
pub const PROTOCOL_VERSION: &str = "0.1";
