//! What the runner says, and what follows from it.

use super::super::PROTOCOL_VERSION;
use super::super::command::{ApprovalResponse, Command as Order, Decision, Rules};
use super::super::event::{
    Event as Said, Exit, Ready, RunComplete, Severity, ToolCallEnd, ToolCallPending, ToolStatus, Trouble,
    TurnEnd, TurnProgress, TurnStart,
};
use super::super::event_line;
use super::api::{Done, Event, Failure, Fault, Over, Progress, RunEnded, Unreadable};
use super::run::Run;
use super::{Asked, Desktop, Stage, What};
use crate::closed::Cause;
use crate::machine::Now;
use crate::rpc::shown;

impl Desktop {
    pub(super) fn text(&mut self, now: Now, line: &str) {
        if self.raw {
            self.wire.tell(Event::Line(line.to_owned()));
        }
        match event_line::read(line, self.limits.depth) {
            Ok(said) => self.said(now, said),
            Err(why) => self.unreadable(&why.to_string(), line),
        }
    }

    pub(super) fn unreadable(&mut self, why: &str, line: &str) {
        let unreadable = Unreadable { why: why.to_owned(), start: shown(line).into_owned() };
        self.wire.tell(Event::Unreadable(Box::new(unreadable)));
    }

    pub(super) fn said(&mut self, now: Now, said: Said) {
        match said {
            Said::TurnProgress(progress) => self.progress(progress),
            Said::Ready(ready) => self.ready(now, ready),
            Said::Error(trouble) => self.trouble(trouble),
            Said::RunComplete(complete) => self.complete(*complete),
            Said::HistoryLoaded(loaded) => {
                self.answer(What::History, Ok(Done::HistoryLoaded(loaded.message_count)));
            }
            Said::LlmChanged(changed) => {
                self.answer(What::Llm, Ok(Done::LlmSet));
                self.wire.tell(Event::LlmChanged(changed));
            }
            Said::ToolsReinjected(tools) => {
                self.answer(What::Tools, Ok(Done::ToolsReinjected(tools.blocks_added)));
            }
            Said::PetAttached(pet) => self.answer(What::Pet, Ok(Done::PetAttached(pet.port))),
            Said::PetDetached => self.answer(What::NoPet, Ok(Done::PetDetached)),
            Said::SystemMessage(message) => self.wire.tell(Event::Message(message)),
            Said::PlanUpdate(plan) => self.wire.tell(Event::Plan(plan)),
            Said::Other(other) => self.wire.tell(Event::Other(other)),
            // What follows belongs to a run. One that has ended here is nobody's business any more.
            _ if matches!(self.run, Run::Unconfirmed) => {}
            Said::TurnStart(start) => self.turn_start(start),
            Said::TurnEnd(end) => self.turn_end(end),
            Said::ToolCallPending(asked) => self.pending(asked),
            Said::ToolCallStart(start) => {
                self.tools.started(&start.tool_call_id, self.limits.peer_requests);
                self.wire.tell(Event::ToolStarted(start));
            }
            Said::ToolCallProgress(progress) => self.wire.tell(Event::ToolSaid(progress)),
            Said::ToolCallEnd(end) => self.tool_end(end),
            Said::AskUser(question) => self.wire.tell(Event::Asked(question)),
        }
    }

    pub(super) fn ready(&mut self, now: Now, ready: Box<Ready>) {
        if !matches!(self.stage, Stage::Starting { .. }) {
            return self.unreadable("ready twice", "");
        }
        if ready.protocol_version != PROTOCOL_VERSION {
            let version = shown(&ready.protocol_version).into_owned();
            return self.shut_down(now, Cause::Fault(Fault::WrongVersion(version)));
        }
        self.stage = Stage::Ready(ready.clone());
        // A runner begins by asking for everything. The order is the protocol's: before the first message.
        if self.rules != Rules::default() {
            let rules = self.rules.clone();
            // Only rules of absurd length are refused, and then the runner asks.
            let _ = self.send(&Order::SetApprovalRules(rules));
        }
        if self.auto_approve {
            let _ = self.send(&Order::SetYoloMode(true));
        }
        self.wire.tell(Event::Ready(ready));
    }

    pub(super) fn turn_start(&mut self, start: TurnStart) {
        let Run::Open(open) = &mut self.run else {
            return self.unreadable("a turn_start without a run", "");
        };
        // Runners say it once when they expect the step, and once when it comes.
        if open.turn != Some(start.turn_index) {
            open.turn = Some(start.turn_index);
            self.wire.tell(Event::TurnStarted(start));
        }
    }

    pub(super) fn progress(&mut self, progress: TurnProgress) {
        let in_run = match self.run {
            Run::Open(_) => true,
            Run::Idle => false,
            Run::Unconfirmed => return,
        };
        let TurnProgress { delta, visibility, .. } = progress;
        self.wire.tell(Event::Progress(Progress { delta, in_run, visibility }));
    }

    pub(super) fn pending(&mut self, asked: Box<ToolCallPending>) {
        if self.approvals.len() >= self.limits.peer_requests || asked.approval_id.len() > NAME {
            // It blocks until it is answered.
            let response = ApprovalResponse { approval_id: asked.approval_id, decision: Decision::Deny };
            let _ = self.send(&Order::ApprovalResponse(Box::new(response)));
            return self.unreadable("too many approvals, or one of too long a name: denied", "");
        }
        self.approvals.open(&asked);
        self.wire.tell(Event::ApprovalAsked(asked));
    }

    pub(super) fn tool_end(&mut self, end: Box<ToolCallEnd>) {
        if let Some(approval) = self.approvals.of_call(&end.tool_call_id) {
            self.wire.tell(Event::ApprovalOver(approval, Over::Withdrawn));
        }
        self.tools.ended(&end.tool_call_id);
        self.wire.tell(Event::ToolEnded(end));
    }

    pub(super) fn turn_end(&mut self, end: Box<TurnEnd>) {
        for (start, ended) in self.tools.step(&end) {
            self.wire.tell(Event::ToolStarted(Box::new(start)));
            self.wire.tell(Event::ToolEnded(Box::new(ended)));
        }
        if let Run::Open(open) = &mut self.run {
            open.telemetry = end.telemetry.or(open.telemetry);
        }
        self.wire.tell(Event::TurnEnded(end));
    }

    pub(super) fn complete(&mut self, complete: RunComplete) {
        let RunComplete { exit_reason, final_content, total_turns, .. } = complete;
        match std::mem::replace(&mut self.run, Run::Idle) {
            Run::Open(open) => {
                self.run_is_over();
                self.wire.tell(Event::RunEnded(Box::new(RunEnded {
                    tag: open.tag,
                    end: Ok(exit_reason.exit()),
                    reason: Some(exit_reason),
                    final_content,
                    total_turns,
                    telemetry: open.telemetry,
                })));
            }
            Run::Unconfirmed => self.wire.tell(Event::Freed),
            Run::Idle => self.unreadable("a run_complete without a run", ""),
        }
    }

    /// The run has an end that the runner did not say.
    pub(super) fn end_run(&mut self, end: Result<Exit, Failure>, next: Run) {
        let Run::Open(open) = std::mem::replace(&mut self.run, next) else { return };
        self.run_is_over();
        self.wire.tell(Event::RunEnded(Box::new(RunEnded {
            tag: open.tag,
            end,
            reason: None,
            final_content: String::new(),
            total_turns: 0,
            telemetry: open.telemetry,
        })));
    }

    /// What a run leaves open ends with it.
    pub(super) fn run_is_over(&mut self) {
        while let Some(approval) = self.approvals.pop() {
            self.wire.tell(Event::ApprovalOver(approval, Over::Withdrawn));
        }
        for tool_call_id in self.tools.left_open() {
            let status = ToolStatus::Cancelled;
            let end = ToolCallEnd { tool_call_id, status, ..ToolCallEnd::default() };
            self.wire.tell(Event::ToolEnded(Box::new(end)));
        }
    }

    /// An error ends neither a run nor the runner. It may be the answer to a request, though.
    pub(super) fn trouble(&mut self, trouble: Box<Trouble>) {
        let asked =
            self.asked.iter().position(|asked| Some(asked.what.context()) == trouble.context.as_deref());
        if let Some(at) = asked.filter(|_| trouble.severity == Severity::Error)
            && let Some(Asked { tag, .. }) = self.asked.remove(at)
        {
            self.wire.tell(Event::Done(tag, Box::new(Err(Failure::Refused(trouble.clone())))));
        }
        if trouble.context.as_deref() == Some("approval_timeout")
            && let Some(approval) = self.approvals.pop()
        {
            // It does not say which. Real runners have one at a time.
            self.wire.tell(Event::ApprovalOver(approval, Over::Expired));
        }
        if trouble.severity == Severity::Error {
            let traceback = trouble.traceback.as_deref().map(|text| shown(text).into_owned());
            let message = shown(&trouble.message).into_owned();
            self.last_error = Some(Box::new(Trouble { traceback, message, ..(*trouble).clone() }));
        }
        self.wire.tell(Event::Warned(trouble));
    }

    /// The answer to the oldest request of that kind. Without one it is news all the same.
    pub(super) fn answer(&mut self, what: What, done: Result<Done, Failure>) {
        if let Some(at) = self.asked.iter().position(|asked| asked.what == what)
            && let Some(Asked { tag, .. }) = self.asked.remove(at)
        {
            self.wire.tell(Event::Done(tag, Box::new(done)));
        }
    }

    pub(super) fn answer_next(&mut self, done: Result<Done, Failure>) {
        if let Some(Asked { tag, .. }) = self.asked.pop_front() {
            self.wire.tell(Event::Done(tag, Box::new(done)));
        }
    }
}

/// Bytes of a name that a peer chose and that is kept.
const NAME: usize = 1024;
