//! What the agent does: its answer, its tools, its steps.

use super::super::classify::{args_preview, result_preview};
use super::super::event::{
    Event as Said, Exit, ExitReason, HistoryLoaded, LlmChanged, NO_TOOL, PetAttached, Telemetry, ToolCall,
    ToolCallEnd, ToolCallPending, ToolCallStart, ToolStatus, ToolsReinjected, TurnEnd, TurnProgress,
    Visibility,
};
use super::api::{Event, Reply, RequestKey, RunEnd, RunKey, Turn, Verdict};
use super::run::{Call, CallState, Gate, Run, denial};
use super::{Bridge, Pet, Request, Stage};
use crate::machine::{Now, Refused, Tag};
use crate::rpc::Json;
use crate::timestamp::Timestamp;

impl Bridge {
    pub(super) fn progress(&mut self, now: Now, delta: String) -> Result<(), Refused> {
        self.wire.has_room()?;
        let visibility = self.run.as_ref().map_or(Visibility::Visible, |run| run.visibility);
        let progress = TurnProgress { delta, source: "workbench".to_owned(), visibility };
        self.publish(now, &Said::TurnProgress(progress))
    }

    /// Nobody is asked where a rule allows it. The order of the rules is the protocol's.
    pub(super) fn call_tool(
        &mut self,
        now: Now,
        key: RunKey,
        tag: Tag,
        tool: String,
        args: Json,
        gate: Gate,
    ) -> Result<(), Refused> {
        let finishing = self.stage == Stage::Finishing;
        let is_free =
            self.auto_approve || self.rules.global.contains(&tool) || self.rules.project.contains(&tool);
        let run = self.run.as_mut().filter(|run| run.key == key).ok_or(Refused::Unknown)?;
        if run.call(tag).is_some() {
            return Err(Refused::Busy);
        }
        if run.calls.len() >= self.limits.own_requests {
            return Err(Refused::Limit("tool calls of one step"));
        }
        self.calls += 1;
        let (id, approval) = (format!("tc_{}", self.calls), format!("appr_{:012x}", self.calls));
        let until = now.mono + self.approval;
        let state = CallState::Pending { approval: approval.clone(), until };
        let (turn_index, absolute_turn_index) = (run.turn, run.absolute());
        run.calls.push(Call { tag, id: id.clone(), tool: tool.clone(), args: args.clone(), state });
        let Gate::Asks(risk_level, reason) = gate else {
            self.run_call(now, tag, Verdict::Free);
            return Ok(());
        };
        if is_free {
            self.run_call(now, tag, Verdict::Free);
        } else if finishing {
            self.deny(now, tag, Verdict::Withdrawn, "the runner leaves");
        } else {
            let asked = ToolCallPending {
                approval_id: approval,
                tool_call_id: Some(id),
                turn_index,
                absolute_turn_index,
                args_preview: args_preview(&args),
                risk_level,
                tool_name: tool,
                args,
                reason,
            };
            self.say(now, &Said::ToolCallPending(Box::new(asked)));
        }
        Ok(())
    }

    /// The call may run.
    pub(super) fn run_call(&mut self, now: Now, tag: Tag, verdict: Verdict) {
        let Some(run) = &mut self.run else { return };
        let (turn_index, absolute_turn_index) = (run.turn, run.absolute());
        let Some(call) = run.call(tag) else { return };
        call.state = CallState::Running;
        let start = ToolCallStart {
            tool_call_id: call.id.clone(),
            turn_index,
            absolute_turn_index,
            tool_name: call.tool.clone(),
            args: call.args.clone(),
            args_preview: args_preview(&call.args),
        };
        self.say(now, &Said::ToolCallStart(Box::new(start)));
        self.wire.tell(Event::Decided(tag, verdict));
    }

    /// The call may not run: it has an end and no start.
    pub(super) fn deny(&mut self, now: Now, tag: Tag, verdict: Verdict, why: &str) {
        let (status, result) = denial(why);
        self.end_call(now, tag, status, result, None);
        self.wire.tell(Event::Decided(tag, verdict));
    }

    pub(super) fn end_call(
        &mut self,
        now: Now,
        tag: Tag,
        status: ToolStatus,
        result: String,
        elapsed_ms: Option<u64>,
    ) {
        let Some(call) = self.run.as_mut().and_then(|run| run.call(tag)) else { return };
        let result_preview = result_preview(&result);
        call.state = CallState::Ended(result);
        let end = ToolCallEnd { tool_call_id: call.id.clone(), status, result_preview, elapsed_ms };
        self.say(now, &Said::ToolCallEnd(Box::new(end)));
    }

    /// Nobody waits for a decision any more.
    pub(super) fn withdraw(&mut self, now: Now) {
        while let Some((tag, _)) = self.run.as_ref().and_then(Run::first_pending) {
            self.deny(now, tag, Verdict::Withdrawn, "the run is over");
        }
    }

    pub(super) fn running_call(&mut self, tag: Tag) -> Result<&Call, Refused> {
        let call = self.run.as_mut().and_then(|run| run.call(tag)).ok_or(Refused::Unknown)?;
        match call.state {
            CallState::Running => Ok(call),
            CallState::Pending { .. } => Err(Refused::NotReady),
            CallState::Ended(_) => Err(Refused::Unknown),
        }
    }

    pub(super) fn end_turn(&mut self, now: Now, key: RunKey, turn: Turn) -> Result<(), Refused> {
        if self.stage == Stage::Finishing {
            let reason = ExitReason::new(&Exit::Exited);
            let end = RunEnd { reason, final_content: String::new(), telemetry: None, question: None };
            self.end_run(now, key, turn, end)?;
            self.wire.tell(Event::Aborted(key));
            return Ok(());
        }
        self.turn_over(now, key, turn, None)?;
        if let Some(run) = &mut self.run {
            run.turn += 1;
        }
        self.turn_start(now);
        Ok(())
    }

    pub(super) fn end_run(&mut self, now: Now, key: RunKey, turn: Turn, end: RunEnd) -> Result<(), Refused> {
        let RunEnd { reason, final_content, telemetry, question } = end;
        self.turn_over(now, key, turn, Some((reason.clone(), telemetry)))?;
        let Some(run) = self.run.take() else { return Err(Refused::Unknown) };
        if let Some(question) = question {
            self.say(now, &Said::AskUser(Box::new(question)));
        }
        self.complete(now, &run, reason, final_content, run.turn);
        Ok(())
    }

    /// The account of a step. Its tools have ended; one that waits for a decision keeps it open.
    pub(super) fn turn_over(
        &mut self,
        now: Now,
        key: RunKey,
        turn: Turn,
        exit: Option<(ExitReason, Option<Telemetry>)>,
    ) -> Result<(), Refused> {
        let run = self.run.as_mut().filter(|run| run.key == key).ok_or(Refused::Unknown)?;
        if run.calls.iter().any(|call| !matches!(call.state, CallState::Ended(_))) {
            return Err(Refused::Busy);
        }
        let (mut tool_calls, tool_results) = run.account();
        if tool_calls.is_empty() {
            let args = Json::new(&serde_json::Map::new());
            tool_calls.push(ToolCall { tool_name: NO_TOOL.to_owned(), args });
        }
        let (exit_reason, telemetry) =
            exit.map_or((None, None), |(reason, telemetry)| (Some(reason), telemetry));
        let end = TurnEnd {
            turn_index: run.turn,
            summary: turn.summary,
            tool_calls,
            tool_results,
            response_content: turn.content,
            exit_reason,
            telemetry,
            visibility: run.visibility,
            absolute_turn_index: run.absolute(),
        };
        self.say(now, &Said::TurnEnd(Box::new(end)));
        Ok(())
    }

    pub(super) fn plan(&mut self, now: Now, plan: &Json) -> Result<(), Refused> {
        let members: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(plan.get()).map_err(|_| Refused::Invalid("a plan is an object"))?;
        let mut line = serde_json::Map::new();
        line.insert("kind".to_owned(), "plan_update".into());
        line.insert("sessionId".to_owned(), self.session.clone().into());
        line.extend(members);
        let timestamp = Timestamp(now.unix).to_string();
        line.insert("timestamp".to_owned(), timestamp.into());
        self.publish(now, &Said::PlanUpdate(Json::new(&line)))
    }

    pub(super) fn reply(&mut self, now: Now, key: RequestKey, reply: &Reply) -> Result<(), Refused> {
        let said = match (*self.requests.get(&key).ok_or(Refused::Unknown)?, reply) {
            (Request::History, Reply::HistoryLoaded(count)) => {
                Said::HistoryLoaded(HistoryLoaded { message_count: *count })
            }
            (Request::Llm(index), Reply::LlmSet) => Said::LlmChanged(Box::new(self.set_current(index))),
            (Request::Tools, Reply::ToolsReinjected(count)) => {
                Said::ToolsReinjected(ToolsReinjected { blocks_added: *count })
            }
            (Request::Pet(port), Reply::PetAttached) => Said::PetAttached(PetAttached { port }),
            (Request::NoPet, Reply::PetDetached) => {
                self.pet = Pet::None;
                Said::PetDetached
            }
            _ => return Err(Refused::Invalid("that is no reply to this request")),
        };
        self.requests.remove(&key);
        self.publish(now, &said)
    }

    pub(super) fn set_current(&mut self, index: u32) -> LlmChanged {
        let mut changed = LlmChanged { index, ..LlmChanged::default() };
        for llm in &mut self.ready.available_llms {
            llm.is_current = llm.index == index;
            if llm.is_current {
                changed.name.clone_from(&llm.name);
                changed.display_name.clone_from(&llm.display_name);
            }
        }
        changed
    }
}
