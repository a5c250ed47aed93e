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
mod orders;
mod run;
mod work;

pub use api::{Command, Config, Event, Fault, Prompt, Reply, RequestKey, RunEnd, RunKey, Turn, Verdict};

use std::collections::BTreeMap;
use std::time::Duration;

use super::PROTOCOL_VERSION;
use super::classify::{refusal, risk};
use super::command::{self, Rules};
use super::event::{
    Category, Event as Said, ExitReason, Ready, RunComplete, Severity, ToolCallProgress, Trouble, TurnStart,
};
use super::event_line;
use crate::closed::{Cause, Closed};
use crate::limits::Limits;
use crate::lines::Line;
use crate::machine::{Deadline, Now, Peer, Refused};
use crate::role::{Role, Takes, Wire};
use crate::rpc::shown;
use run::{CallState, Gate, Run};

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

impl Role for Bridge {
    type Config = Config;
    type Command = Command;
    type Event = Event;
    type Fault = Fault;

    const DEAF: Option<Fault> = Some(Fault::NotReading);

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
            Line::Header(_) => Err("Invalid JSON in command: a header".to_owned()),
            Line::TooLong(_) => Err(format!("Invalid JSON in command: more than {} bytes", self.limits.line)),
        };
        match read {
            Ok(order) => self.ordered(now, order),
            Err(why) => {
                self.refuse(now, Category::Bridge, &why, None);
                self.wire.tell(Event::Unreadable(shown(&why).into_owned()));
            }
        }
    }

    fn obey(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if self.stage == Stage::Opening && !matches!(command, Command::Shutdown) {
            return Err(Refused::NotReady);
        }
        match command {
            Command::Progress { delta } => self.progress(now, delta),
            Command::CallTool { run, tag, tool, args, reason } => {
                let gate =
                    if self.gated.contains(&tool) { Gate::Asks(risk(&tool), reason) } else { Gate::Open };
                self.call_tool(now, run, tag, tool, args, gate)
            }
            Command::BeginTool { run, tag, tool, args } => {
                self.call_tool(now, run, tag, tool, args, Gate::Open)
            }
            Command::AskTool { run, tag, tool, args, risk, reason } => {
                self.call_tool(now, run, tag, tool, args, Gate::Asks(risk, reason))
            }
            Command::WithdrawTool { tag } => {
                let call = self.run.as_mut().and_then(|run| run.call(tag)).ok_or(Refused::Unknown)?;
                if !matches!(call.state, CallState::Pending { .. }) {
                    return Err(Refused::Unknown);
                }
                self.deny(now, tag, Verdict::Withdrawn, "nobody waits for it any more");
                Ok(())
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

    fn crowded(&mut self, crowded: bool) {
        self.wire.tell(if crowded { Event::Crowded } else { Event::Drained });
    }

    fn settle(&mut self, now: Now) {
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
        self.wire.link.line_within(line, |buf| event_line::write(buf, session, now.unix, said))
    }

    fn say(&mut self, now: Now, said: &Said) {
        let session = &self.session;
        self.wire.link.line(|buf| event_line::write(buf, session, now.unix, said));
    }
}
