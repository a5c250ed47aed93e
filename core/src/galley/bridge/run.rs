//! One run of a bridge: its steps and their tools.

use super::super::event::{Risk, ToolCall, ToolResult, ToolStatus, Visibility};
use super::api::RunKey;
use crate::machine::{Tag, Time};
use crate::rpc::Json;

#[derive(Debug)]
pub(super) struct Run {
    pub(super) key: RunKey,
    pub(super) visibility: Visibility,
    /// The step that goes on, from 1.
    pub(super) turn: u32,
    /// The number of the first step across the session.
    first: Option<u64>,
    /// Calls of the step that goes on, in the order they came.
    pub(super) calls: Vec<Call>,
}

/// A call of the step that goes on.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tag: Tag,
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) args: Json,
    pub(super) state: CallState,
}

/// Whether a call waits for an approval, unless a rule allows it: how much may go wrong, and why it is asked.
#[derive(Debug)]
pub(super) enum Gate {
    Open,
    Asks(Risk, String),
}

#[derive(Debug)]
pub(super) enum CallState {
    /// Waits for that approval, until then.
    Pending {
        approval: String,
        until: Time,
    },
    Running,
    Ended(String),
}

impl Run {
    pub(super) const fn new(key: RunKey, visibility: Visibility, first: Option<u64>) -> Self {
        Self { key, visibility, turn: 1, first, calls: Vec::new() }
    }

    /// The number of the step that goes on across the session.
    pub(super) fn absolute(&self) -> Option<u64> {
        self.first.map(|first| first + u64::from(self.turn.saturating_sub(1)))
    }

    pub(super) fn call(&mut self, tag: Tag) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.tag == tag)
    }

    /// The call that waits for that approval.
    pub(super) fn pending(&mut self, id: &str) -> Option<&mut Call> {
        let waits =
            |call: &&mut Call| matches!(&call.state, CallState::Pending { approval, .. } if approval == id);
        self.calls.iter_mut().find(waits)
    }

    /// The first call that waits for an approval, and until when.
    pub(super) fn first_pending(&self) -> Option<(Tag, Time)> {
        let waits = self.calls.iter().filter_map(|call| match call.state {
            CallState::Pending { until, .. } => Some((call.tag, until)),
            CallState::Running | CallState::Ended(_) => None,
        });
        waits.min_by_key(|(_, until)| *until)
    }

    /// The approval of that call.
    pub(super) fn first_approval(&self) -> Option<&str> {
        let (first, _) = self.first_pending()?;
        self.calls.iter().find(|call| call.tag == first).and_then(|call| match &call.state {
            CallState::Pending { approval, .. } => Some(approval.as_str()),
            CallState::Running | CallState::Ended(_) => None,
        })
    }

    /// The account of the step, which is over.
    pub(super) fn account(&mut self) -> (Vec<ToolCall>, Vec<ToolResult>) {
        let calls = std::mem::take(&mut self.calls);
        let mut results = Vec::new();
        let calls = calls.into_iter().map(|Call { id, tool, args, state, .. }| {
            let content = match state {
                CallState::Ended(result) => result,
                CallState::Pending { .. } | CallState::Running => String::new(),
            };
            results.push(ToolResult { tool_use_id: id, content });
            ToolCall { tool_name: tool, args }
        });
        (calls.collect(), results)
    }
}

/// What a tool that was not allowed answers the model.
pub(super) fn denial(why: &str) -> (ToolStatus, String) {
    (ToolStatus::Denied, serde_json::json!({ "status": "denied", "msg": why }).to_string())
}
