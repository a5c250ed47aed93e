//! Is one runner: says what it can do, takes one message at a time, asks before a tool does harm.
//!
//! ```text
//!            warnings, ready             user_message, ask_user_response: turn_start(1)
//!  Opening ──────────────────► Idle ◄───────────────────────────────────────────────────► Running ─┐ EndTurn:
//!                               │      EndRun: turn_end, ask_user?, run_complete             │  ▲    │ turn_end,
//!                               │      abort: run_complete ABORTED                           │  └────┘ turn_start(n+1)
//!                               └── shutdown ──► leaving ◄── the step is over ── Finishing ◄─┘ shutdown
//! ```

mod api;
mod run;

pub use api::{Command, Config, Event, Fault, Prompt, Reply, RequestKey, RunEnd, RunKey, Turn, Verdict};

use std::collections::BTreeMap;
use std::time::Duration;

use super::PROTOCOL_VERSION;
use super::classify::{args_preview, refusal, result_preview, risk};
use super::command::{self, ApprovalResponse, Command as Order, Decision, HistoryMessage, Rules};
use super::event::{
    self, Category, Event as Said, Exit, ExitReason, HistoryLoaded, LlmChanged, NO_TOOL, PetAttached, Ready,
    RunComplete, Severity, ToolCall, ToolCallEnd, ToolCallPending, ToolCallProgress, ToolCallStart,
    ToolStatus, ToolsReinjected, Trouble, TurnEnd, TurnProgress, TurnStart, Visibility,
};
use crate::closed::{Cause, Closed};
use crate::limits::Limits;
use crate::lines::Line;
use crate::machine::{Deadline, Now, Peer, Refused, Tag};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{Json, shown};
use run::{Call, CallState, Run, denial};

/// The runner's side of one session.
#[derive(Debug)]
pub struct Bridge {
    wire: Wire<Event, Fault>,
    stage: Stage,
    run: Option<Run>,
    requests: BTreeMap<RequestKey, Request>,
    pet: Pet,
    rules: Rules,
    auto_approve: bool,
    flow: Flow,
    /// Across all runs: keys, approvals and calls are counted.
    runs: u64,
    calls: u64,
    asked: u64,
    session: String,
    ready: Ready,
    warnings: Vec<Trouble>,
    gated: Vec<String>,
    approval: Duration,
    limits: Limits,
}

#[derive(Debug, Eq, PartialEq)]
enum Stage {
    Opening,
    Serving,
    /// The step that goes on is the last one.
    Finishing,
}

/// What the desktop waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Request {
    History,
    Llm(u32),
    Tools,
    Pet(u16),
    NoPet,
}

impl Request {
    const fn context(self) -> &'static str {
        match self {
            Self::History => "load_history",
            Self::Llm(_) => "set_llm",
            Self::Tools => "reinject_tools",
            Self::Pet(_) => "attach_pet",
            Self::NoPet => "detach_pet",
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Pet {
    None,
    /// Asked for, or up.
    Wanted,
}

/// Whether the desktop keeps up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flow {
    Free,
    Crowded,
}

impl Role for Bridge {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    fn start(now: Now, config: Config) -> Self {
        let Config { open, session, ready, warnings, gated, approval, limits, graces } = config;
        Self {
            wire: Wire::open(now, open, &limits, &graces),
            stage: Stage::Opening,
            run: None,
            requests: BTreeMap::new(),
            pet: Pet::None,
            rules: Rules::default(),
            auto_approve: false,
            flow: Flow::Free,
            runs: 0,
            calls: 0,
            asked: 0,
            session,
            ready: Ready { protocol_version: PROTOCOL_VERSION.to_owned(), ..ready },
            warnings,
            gated,
            approval,
            limits,
        }
    }

    fn wire(&self) -> &Wire<Event, Fault> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Event, Fault> {
        &mut self.wire
    }

    fn opened(&mut self, now: Now, _: Peer) {
        self.stage = Stage::Serving;
        for warning in std::mem::take(&mut self.warnings) {
            self.say(now, &Said::Error(Box::new(Trouble { severity: Severity::Warning, ..warning })));
        }
        self.say(now, &Said::Ready(Box::new(self.ready.clone())));
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Serving => Takes::Now,
            // Commands behind a shutdown are ignored, but an open approval may still be answered.
            Stage::Opening | Stage::Finishing => Takes::Never,
        }
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        let read = match line {
            Line::Text(text) => command::read(text, self.limits.depth).map_err(|why| why.to_string()),
            Line::NotUtf8(_) => Err("Invalid JSON in command: not UTF-8".to_owned()),
            Line::TooLong => Err(format!("Invalid JSON in command: more than {} bytes", self.limits.line)),
        };
        match read {
            Ok(order) => self.ordered(now, order),
            Err(why) => {
                self.refuse(now, Category::Bridge, &why, None);
                self.wire.tell(Event::Unreadable(shown(&why).to_owned()));
            }
        }
        self.watch_unsent(now);
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if self.stage == Stage::Opening && !matches!(command, Command::Shutdown) {
            return Err(Refused::NotReady);
        }
        match command {
            Command::Progress { delta } => self.progress(now, delta),
            Command::CallTool { run, tag, tool, args, reason } => {
                self.call_tool(now, run, tag, tool, args, reason)
            }
            Command::ToolSaid { tag, text } => {
                let tool_call_id = self.running_call(tag)?.id.clone();
                self.say(now, &Said::ToolCallProgress(Box::new(ToolCallProgress { tool_call_id, text })));
                Ok(())
            }
            Command::EndTool { tag, status, result, elapsed_ms } => {
                self.running_call(tag)?;
                self.end_call(now, tag, status, result, Some(elapsed_ms));
                Ok(())
            }
            Command::EndTurn { run, turn } => self.end_turn(now, run, *turn),
            Command::EndRun { run, turn, end } => self.end_run(now, run, *turn, *end),
            Command::Warn(trouble) => self.publish(now, &Said::Error(trouble)),
            Command::Say(message) => self.publish(now, &Said::SystemMessage(message)),
            Command::Plan(plan) => self.plan(now, &plan),
            Command::LlmChanged(changed) => self.publish(now, &Said::LlmChanged(changed)),
            Command::Reply { request, reply } => self.reply(now, request, &reply),
            Command::Fail { request, why } => {
                let request = self.requests.remove(&request).ok_or(Refused::Unknown)?;
                if let Request::Pet(_) = request {
                    self.pet = Pet::None;
                }
                self.refuse(now, Category::Business, &why, Some(request.context()));
                Ok(())
            }
            Command::Shutdown => {
                self.part(now, Cause::Left);
                Ok(())
            }
        }
    }

    fn tick(&mut self, now: Now) {
        while let Some((tag, until)) = self.run.as_ref().and_then(Run::first_pending)
            && until <= now.mono
        {
            let trouble = Trouble {
                severity: Severity::Warning,
                ..refusal(Category::Business, "nobody decided in time: denied", Some("approval_timeout"))
            };
            self.say(now, &Said::Error(Box::new(trouble)));
            self.deny(now, tag, Verdict::Expired, "nobody decided in time");
        }
    }

    fn due(&self) -> Option<Deadline> {
        self.run.as_ref().and_then(Run::first_pending).map(|(_, until)| (until, "approval"))
    }

    fn settle(&mut self, now: Now) {
        self.watch_unsent(now);
        self.watch_flow();
        if self.stage == Stage::Finishing && self.run.is_none() {
            self.part(now, Cause::Left);
        }
    }

    fn parting(&mut self, now: Now, _: &Cause<Fault>) {
        self.withdraw(now);
        if let Some(run) = self.run.take() {
            self.wire.tell(Event::Aborted(run.key));
        }
        self.dismiss_pet();
        self.requests.clear();
    }

    fn last(&mut self, closed: Closed<Fault>) -> Option<Event> {
        Some(Event::Closed(Box::new(closed)))
    }
}

impl Bridge {
    /// The run that is open.
    #[must_use]
    pub fn run(&self) -> Option<RunKey> {
        self.run.as_ref().map(|run| run.key)
    }

    /// The approval that will have waited long enough first.
    #[must_use]
    pub fn approval(&self) -> Option<&str> {
        self.run.as_ref().and_then(Run::first_approval)
    }
}

/// What the desktop wants.
impl Bridge {
    fn ordered(&mut self, now: Now, order: Order) {
        match order {
            Order::UserMessage(message) if Order::is_aside(&message.text) => {
                self.wire.tell(Event::AskedAside(message.text));
            }
            Order::UserMessage(message) => {
                let (text, images) = (message.text, message.images);
                self.begin(
                    now,
                    "user_message",
                    text,
                    images,
                    message.visibility,
                    message.absolute_turn_index,
                );
            }
            Order::AskUserResponse(answer) => {
                let (text, visibility) = (answer.text, Visibility::Visible);
                self.begin(
                    now,
                    "ask_user_response",
                    text,
                    Vec::new(),
                    visibility,
                    answer.absolute_turn_index,
                );
            }
            Order::ApprovalResponse(response) => self.decided(now, *response),
            Order::Abort => self.abort(now),
            Order::LoadHistory(messages) => self.history(now, &messages),
            Order::SetApprovalRules(rules) => {
                self.rules = rules;
                self.wire.tell(Event::RulesSet(self.rules.clone(), self.auto_approve));
            }
            Order::SetYoloMode(on) => {
                self.auto_approve = on;
                self.wire.tell(Event::RulesSet(self.rules.clone(), on));
            }
            Order::SetLlm(index) => self.set_llm(now, index),
            Order::ReinjectTools => self.ask(now, Request::Tools, Event::ToolsWanted),
            Order::AttachPet(port) => {
                self.dismiss_pet();
                self.pet = Pet::Wanted;
                self.ask(now, Request::Pet(port), |key| Event::PetWanted(key, port));
            }
            Order::DetachPet if self.pet == Pet::None => self.say(now, &Said::PetDetached),
            Order::DetachPet => self.ask(now, Request::NoPet, |key| Event::PetUnwanted(Some(key))),
            Order::Shutdown => {
                self.withdraw(now);
                self.dismiss_pet();
                self.stage = Stage::Finishing;
                self.wire.tell(Event::ShutdownAsked);
            }
        }
    }

    fn begin(
        &mut self,
        now: Now,
        context: &str,
        text: String,
        images: Vec<String>,
        visibility: Visibility,
        first: Option<u64>,
    ) {
        if self.run.is_some() {
            return self.refuse(
                now,
                Category::Business,
                "a run is open: wait for its end, or abort it",
                Some(context),
            );
        }
        self.runs += 1;
        let run = RunKey(self.runs);
        self.run = Some(Run::new(run, visibility, first));
        self.turn_start(now);
        self.wire.tell(Event::Told(Box::new(Prompt { run, text, images, visibility })));
    }

    fn decided(&mut self, now: Now, response: ApprovalResponse) {
        let ApprovalResponse { approval_id, decision } = response;
        let Some(call) = self.run.as_mut().and_then(|run| run.pending(&approval_id)) else {
            let why = format!("Unknown approvalId: {}", shown(&approval_id));
            return self.refuse(now, Category::Bridge, &why, Some("approval_response"));
        };
        let (tag, tool) = (call.tag, call.tool.clone());
        match decision {
            Decision::AllowOnce => {}
            Decision::AlwaysAllowProject => self.rules.project.push(tool),
            Decision::AlwaysAllowGlobal => self.rules.global.push(tool),
            Decision::Deny => return self.deny(now, tag, Verdict::Denied, "User denied this action"),
            Decision::Other(word) => {
                let why = format!("Unknown decision '{}': denied", shown(&word));
                return self.deny(now, tag, Verdict::Unclear, &why);
            }
        }
        self.run_call(now, tag, Verdict::Allowed);
    }

    /// Nothing is said of it between runs.
    fn abort(&mut self, now: Now) {
        self.withdraw(now);
        if let Some(run) = self.run.take() {
            self.complete(now, &run, ExitReason::new(&Exit::Aborted), String::new(), run.turn - 1);
            self.wire.tell(Event::Aborted(run.key));
        }
    }

    fn history(&mut self, now: Now, messages: &[Json]) {
        if self.run.is_some() {
            return self.refuse(now, Category::Business, "a run is open", Some("load_history"));
        }
        let read: Result<Vec<HistoryMessage>, _> =
            messages.iter().map(|message| serde_json::from_str(message.get())).collect();
        match read {
            Ok(messages) => self.ask(now, Request::History, |key| Event::HistoryGiven(key, messages)),
            Err(_) => {
                let why = "a message of the history has no role or content: none was taken";
                let trouble = Trouble {
                    severity: Severity::Warning,
                    ..refusal(Category::Business, why, Some("load_history"))
                };
                self.say(now, &Said::Error(Box::new(trouble)));
            }
        }
    }

    fn set_llm(&mut self, now: Now, index: i64) {
        let known = u32::try_from(index).ok().filter(|index| self.llm(*index).is_some());
        match known {
            _ if self.run.is_some() => self.refuse(now, Category::Business, "a run is open", Some("set_llm")),
            None => {
                let why = format!(
                    "llmIndex {index} is out of range: there are {}",
                    self.ready.available_llms.len()
                );
                self.refuse(now, Category::Business, &why, Some("set_llm"));
            }
            Some(index) => self.ask(now, Request::Llm(index), |key| Event::LlmWanted(key, index)),
        }
    }

    fn llm(&self, index: u32) -> Option<&event::Llm> {
        self.ready.available_llms.iter().find(|llm| llm.index == index)
    }

    /// Passes a request on to the application.
    fn ask(&mut self, now: Now, request: Request, event: impl FnOnce(RequestKey) -> Event) {
        if self.requests.len() >= self.limits.peer_requests {
            return self.refuse(
                now,
                Category::Business,
                "too many requests at once",
                Some(request.context()),
            );
        }
        self.asked += 1;
        let key = RequestKey(self.asked);
        self.requests.insert(key, request);
        self.wire.tell(event(key));
    }

    fn dismiss_pet(&mut self) {
        if std::mem::replace(&mut self.pet, Pet::None) == Pet::Wanted {
            self.requests.retain(|_, request| !matches!(request, Request::Pet(_)));
            self.wire.tell(Event::PetUnwanted(None));
        }
    }
}

/// What the application does.
impl Bridge {
    fn progress(&mut self, now: Now, delta: String) -> Result<(), Refused> {
        if self.flow == Flow::Crowded {
            return Err(Refused::Crowded);
        }
        let visibility = self.run.as_ref().map_or(Visibility::Visible, |run| run.visibility);
        let progress = TurnProgress { delta, source: "workbench".to_owned(), visibility };
        self.publish(now, &Said::TurnProgress(progress))
    }

    /// Nobody is asked where a rule allows it. The order of the rules is the protocol's.
    fn call_tool(
        &mut self,
        now: Now,
        key: RunKey,
        tag: Tag,
        tool: String,
        args: Json,
        reason: String,
    ) -> Result<(), Refused> {
        let finishing = self.stage == Stage::Finishing;
        let is_free = self.auto_approve
            || !self.gated.contains(&tool)
            || self.rules.global.contains(&tool)
            || self.rules.project.contains(&tool);
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
                risk_level: risk(&tool),
                tool_name: tool,
                args,
                reason,
            };
            self.say(now, &Said::ToolCallPending(Box::new(asked)));
        }
        Ok(())
    }

    /// The call may run.
    fn run_call(&mut self, now: Now, tag: Tag, verdict: Verdict) {
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
    fn deny(&mut self, now: Now, tag: Tag, verdict: Verdict, why: &str) {
        let (status, result) = denial(why);
        self.end_call(now, tag, status, result, None);
        self.wire.tell(Event::Decided(tag, verdict));
    }

    fn end_call(&mut self, now: Now, tag: Tag, status: ToolStatus, result: String, elapsed_ms: Option<u64>) {
        let Some(call) = self.run.as_mut().and_then(|run| run.call(tag)) else { return };
        let result_preview = result_preview(&result);
        call.state = CallState::Ended(result);
        let end = ToolCallEnd { tool_call_id: call.id.clone(), status, result_preview, elapsed_ms };
        self.say(now, &Said::ToolCallEnd(Box::new(end)));
    }

    /// Nobody waits for a decision any more.
    fn withdraw(&mut self, now: Now) {
        while let Some((tag, _)) = self.run.as_ref().and_then(Run::first_pending) {
            self.deny(now, tag, Verdict::Withdrawn, "the run is over");
        }
    }

    fn running_call(&mut self, tag: Tag) -> Result<&Call, Refused> {
        let call = self.run.as_mut().and_then(|run| run.call(tag)).ok_or(Refused::Unknown)?;
        match call.state {
            CallState::Running => Ok(call),
            CallState::Pending { .. } => Err(Refused::NotReady),
            CallState::Ended(_) => Err(Refused::Unknown),
        }
    }

    fn end_turn(&mut self, now: Now, key: RunKey, turn: Turn) -> Result<(), Refused> {
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

    fn end_run(&mut self, now: Now, key: RunKey, turn: Turn, end: RunEnd) -> Result<(), Refused> {
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
    fn turn_over(
        &mut self,
        now: Now,
        key: RunKey,
        turn: Turn,
        exit: Option<(ExitReason, Option<event::Telemetry>)>,
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

    fn plan(&mut self, now: Now, plan: &Json) -> Result<(), Refused> {
        let members: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(plan.get()).map_err(|_| Refused::Invalid("a plan is an object"))?;
        let mut line = serde_json::Map::new();
        line.insert("kind".to_owned(), "plan_update".into());
        line.insert("sessionId".to_owned(), self.session.clone().into());
        line.extend(members);
        let timestamp = crate::timestamp::Timestamp(now.unix).to_string();
        line.insert("timestamp".to_owned(), timestamp.into());
        self.publish(now, &Said::PlanUpdate(Json::new(&line)))
    }

    fn reply(&mut self, now: Now, key: RequestKey, reply: &Reply) -> Result<(), Refused> {
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

    fn set_current(&mut self, index: u32) -> LlmChanged {
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

/// What is written.
impl Bridge {
    fn turn_start(&mut self, now: Now) {
        let Some(run) = &self.run else { return };
        let (turn_index, visibility, absolute_turn_index) = (run.turn, run.visibility, run.absolute());
        self.say(now, &Said::TurnStart(TurnStart { turn_index, visibility, absolute_turn_index }));
    }

    fn complete(
        &mut self,
        now: Now,
        run: &Run,
        exit_reason: ExitReason,
        final_content: String,
        total_turns: u32,
    ) {
        let visibility = run.visibility;
        let complete = RunComplete { exit_reason, final_content, total_turns, visibility };
        self.say(now, &Said::RunComplete(Box::new(complete)));
    }

    fn refuse(&mut self, now: Now, category: Category, why: &str, context: Option<&str>) {
        self.say(now, &Said::Error(Box::new(refusal(category, why, context))));
    }

    /// Writes what the application chose the size of.
    fn publish(&mut self, now: Now, said: &Said) -> Result<(), Refused> {
        let (session, line) = (&self.session, self.limits.line);
        self.wire.link.line_within(line, |buf| event::write(buf, session, now.unix, said))
    }

    fn say(&mut self, now: Now, said: &Said) {
        let session = &self.session;
        self.wire.link.line(|buf| event::write(buf, session, now.unix, said));
    }

    /// Looked at after each line: what came in one read can ask for many times its size.
    fn watch_unsent(&mut self, now: Now) {
        if self.wire.link.unsent() > self.limits.unsent_hard {
            self.part(now, Cause::Fault(Fault::NotReading));
        }
    }

    fn watch_flow(&mut self) {
        let unsent = self.wire.link.unsent();
        match self.flow {
            Flow::Free if unsent > self.limits.unsent_soft => {
                self.flow = Flow::Crowded;
                self.wire.tell(Event::Crowded);
            }
            Flow::Crowded if unsent <= self.limits.unsent_soft / 2 => {
                self.flow = Flow::Free;
                self.wire.tell(Event::Drained);
            }
            Flow::Free | Flow::Crowded => {}
        }
    }
}
