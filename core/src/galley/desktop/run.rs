//! One run: from a message until its one end, with its steps, tools and approvals.

use std::collections::{BTreeMap, BTreeSet};

use super::super::classify::{NEVER_EVERYWHERE, args_preview, result_preview};
use super::super::command::Decision;
use super::super::event::{
    NO_TOOL, Telemetry, ToolCall, ToolCallEnd, ToolCallPending, ToolCallStart, ToolStatus, TurnEnd,
};
use super::super::members::Members;
use crate::link::Listened;
use crate::machine::{Refused, Tag};

/// Where the runner stands.
#[derive(Debug)]
pub(super) enum Run {
    /// No run is open.
    Idle,
    /// A run is open.
    Open(Open),
    /// The run has ended here, and the runner has not said so: until it does, what it says belongs to that run,
    /// and a message would never have an end.
    Unconfirmed,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) tag: Tag,
    /// The step that goes on.
    pub(super) turn: Option<u32>,
    pub(super) halt: Halt,
    /// From the last step.
    pub(super) telemetry: Option<Telemetry>,
    pub(super) silence_told: bool,
}

/// Whether the run was told to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Halt {
    No,
    /// And counts as over then.
    Aborted {
        until: Option<Listened>,
    },
}

impl Open {
    pub(super) const fn new(tag: Tag) -> Self {
        Self { tag, turn: None, halt: Halt::No, telemetry: None, silence_told: false }
    }
}

/// Approvals that wait for a decision.
#[derive(Debug, Default)]
pub(super) struct Approvals(BTreeMap<String, Approval>);

#[derive(Debug)]
struct Approval {
    tool: String,
    call: Option<String>,
}

impl Approvals {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn open(&mut self, asked: &ToolCallPending) {
        let approval = Approval { tool: asked.tool_name.clone(), call: asked.tool_call_id.clone() };
        self.0.insert(asked.approval_id.clone(), approval);
    }

    /// Takes out the one that is decided, and says which tool it is about.
    ///
    /// # Errors
    ///
    /// There is none of that name, or it cannot be decided like that.
    pub(super) fn decide(&mut self, id: &str, decision: &Decision) -> Result<String, Refused> {
        let approval = self.0.get(id).ok_or(Refused::Unknown)?;
        if *decision == Decision::AlwaysAllowGlobal && approval.tool == NEVER_EVERYWHERE {
            return Err(Refused::Invalid("this tool may not be allowed everywhere"));
        }
        let tool = approval.tool.clone();
        self.0.remove(id);
        Ok(tool)
    }

    /// Takes out the one of a call that is over.
    pub(super) fn of_call(&mut self, call: &str) -> Option<String> {
        let id = self.0.iter().find(|(_, approval)| approval.call.as_deref() == Some(call))?.0.clone();
        self.0.remove_entry(&id).map(|(id, _)| id)
    }

    pub(super) fn pop(&mut self) -> Option<String> {
        self.0.pop_first().map(|(id, _)| id)
    }
}

/// The tools of the step that goes on, so that they are told alike whether the runner tells each call, or only
/// what it did in the step.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Calls that have begun and not ended.
    open: BTreeSet<String>,
    /// Whether this runner tells each call.
    told: bool,
    /// Steps that ended, across runs: part of the names that are made up.
    steps: u64,
}

impl Tools {
    /// Remembers a call, up to so many.
    pub(super) fn started(&mut self, call: &str, most: usize) {
        self.told = true;
        if self.open.len() < most {
            self.open.insert(call.to_owned());
        }
    }

    pub(super) fn ended(&mut self, call: &str) {
        self.told = true;
        self.open.remove(call);
    }

    /// A step is over: the calls that nobody told of yet.
    pub(super) fn step(&mut self, end: &TurnEnd) -> Vec<(ToolCallStart, ToolCallEnd)> {
        self.steps += 1;
        if std::mem::take(&mut self.told) {
            return Vec::new();
        }
        let calls = end.tool_calls.iter().filter(|call| call.tool_name != NO_TOOL);
        calls.enumerate().map(|(at, call)| self.told_of(end, at, call)).collect()
    }

    fn told_of(&self, end: &TurnEnd, at: usize, call: &ToolCall) -> (ToolCallStart, ToolCallEnd) {
        let tool_call_id = format!("{}.{}", self.steps, at + 1);
        // Results have no name that a call has; they are in the order of the calls.
        let result = end.tool_results.get(at).map_or("", |result| &result.content);
        let start = ToolCallStart {
            tool_call_id: tool_call_id.clone(),
            turn_index: end.turn_index,
            absolute_turn_index: end.absolute_turn_index,
            tool_name: call.tool_name.clone(),
            args: call.args.clone(),
            args_preview: args_preview(&call.args),
        };
        let (status, result_preview) = (status_of(result), result_preview(result));
        (start, ToolCallEnd { tool_call_id, status, result_preview, elapsed_ms: None })
    }

    /// The run is over: calls whose end nobody will tell.
    pub(super) fn left_open(&mut self) -> BTreeSet<String> {
        self.told = false;
        std::mem::take(&mut self.open)
    }
}

/// How a call went, from the JSON that most tools answer with.
fn status_of(result: &str) -> ToolStatus {
    let status = Members::read(result, 64).ok().and_then(|members| members.some_text("status"));
    match status.as_deref() {
        Some("denied") => ToolStatus::Denied,
        Some("cancelled" | "aborted") => ToolStatus::Cancelled,
        Some("error" | "failed" | "failure") => ToolStatus::Failed,
        Some(_) | None => ToolStatus::Success,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::event::ToolResult;
    use super::*;
    use crate::rpc::Json;

    #[test]
    fn a_result_says_how_its_call_went() {
        for (result, status) in [
            (r#"{"status":"denied","msg":"no"}"#, ToolStatus::Denied),
            (r#"{"status":"error"}"#, ToolStatus::Failed),
            (r#"{"status":"success","exit_code":0}"#, ToolStatus::Success),
            ("[FILE] 268 lines", ToolStatus::Success),
            ("", ToolStatus::Success),
        ] {
            assert_eq!(status_of(result), status, "{result}");
        }
    }

    #[test]
    fn calls_without_events_of_their_own_are_told_at_the_end_of_their_step() {
        let call = |name: &str| ToolCall { tool_name: name.to_owned(), args: Json::new(&()) };
        let result = |content: &str| ToolResult { tool_use_id: String::new(), content: content.to_owned() };
        let end = TurnEnd {
            turn_index: 1,
            tool_calls: vec![call("file_read"), call("ask_user")],
            tool_results: vec![result("[FILE]")],
            ..TurnEnd::default()
        };
        let mut tools = Tools::default();
        let told = tools.step(&end);
        let names: Vec<_> = told
            .iter()
            .map(|(start, end)| (&*start.tool_call_id, &*start.tool_name, &*end.result_preview))
            .collect();
        assert_eq!(names, [("1.1", "file_read", "[FILE]"), ("1.2", "ask_user", "")]);
        let nothing = TurnEnd { tool_calls: vec![call(NO_TOOL)], ..TurnEnd::default() };
        assert_eq!(tools.step(&nothing), []);
        tools.started("tc_1", 10);
        tools.ended("tc_1");
        assert_eq!(tools.step(&end), []);
        assert_eq!(tools.step(&end).len(), 2);
    }
}
