//! Plays the steps of one turn, on a thread of its own.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use agentline_blocking::Handle;
use agentline_core::acp::agent::{Command, Of, TurnKey};
use agentline_core::acp::services::{Elicit, ServiceRequest};
use agentline_core::acp::update::{
    Cost, Diff, Plan, PlanEntry, PlanPriority, PlanStatus, Speaker, ToolCall, ToolCallUpdate, ToolContent,
    ToolStatus, Usage,
};
use agentline_core::acp::{
    Agent, Json, OptionKind, PermissionOption, PermissionOutcome, SessionId, StopReason, Update,
};
use agentline_core::rpc::{RpcError, code};
use agentline_core::{Refused, Tag};
use serde_json::json;

use super::kept::Kept;
use super::script::{Step, Tool};

/// What a turn is told from outside.
pub(super) enum Note {
    /// It is to end as soon as it can.
    Cancelled,
    /// Its question was answered.
    Answered(PermissionOutcome),
    /// What it wanted of the client was answered.
    Served(Result<Json, RpcError>),
    /// There is room for text again.
    Drained,
}

/// Plays the steps of a script as one turn.
pub(super) struct Player {
    pub(super) agent: Handle<Agent>,
    pub(super) turn: TurnKey,
    pub(super) session: SessionId,
    /// The agent of its own that does the steps.
    pub(super) delegate: Option<Delegate>,
    /// Where the session works.
    pub(super) cwd: String,
    /// For its questions, of which one is open at a time.
    pub(super) tag: Tag,
    pub(super) notes: Receiver<Note>,
    /// How many tools it used.
    pub(super) tools: u32,
    /// Where what it says is kept.
    pub(super) kept: Option<Kept>,
}

/// An agent of the agent.
pub(super) struct Delegate {
    session: SessionId,
    asks_as_its_owner: bool,
}

/// Why the steps do not go on.
pub(super) enum Break {
    Stopped(StopReason),
    Failed(RpcError),
    /// The turn is over, or the client is gone.
    Over,
}

impl Player {
    pub(super) fn play(mut self, steps: &[Step]) {
        let turn = self.turn;
        let end = match self.steps(steps) {
            Ok(()) => Command::EndTurn { turn, stopped: StopReason::EndTurn.into() },
            Err(Break::Stopped(reason)) => Command::EndTurn { turn, stopped: reason.into() },
            Err(Break::Failed(error)) => Command::FailTurn { turn, error },
            Err(Break::Over) => return,
        };
        // Refused only when the turn has ended without us.
        let _ = self.agent.command(end);
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Break> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), Break> {
        match step {
            Step::Say(text) => self.say(Speaker::Agent, text),
            Step::Think(text) => self.say(Speaker::Thought, text),
            Step::Plan(entries) => self.report(Update::Plan(plan(entries))),
            Step::Tool(tool) => {
                let id = self.announce(tool)?;
                self.use_tool(&id, tool)
            }
            Step::Ask { tool, options, allowed, rejected } => {
                let id = self.announce(tool)?;
                if self.ask(&id, tool, options)? {
                    self.use_tool(&id, tool)?;
                    self.steps(allowed)
                } else {
                    self.progress(&id, ToolStatus::Failed)?;
                    self.steps(rejected)
                }
            }
            Step::Form { message, schema } => self.elicit(Elicit {
                message: message.clone(),
                mode: "form".into(),
                requested_schema: Some(schema.clone()),
                ..Elicit::default()
            }),
            Step::Page { message, url } => self.elicit(Elicit {
                message: message.clone(),
                mode: "url".into(),
                elicitation_id: Some("page-1".into()),
                url: Some(url.clone()),
                ..Elicit::default()
            }),
            Step::Term(line) => self.term(line),
            Step::ReadFile(path) => self.read_file(path),
            Step::WriteFile(path, text) => self.write_file(path, text),
            Step::Delegate { title, asks_as_its_owner, steps } => {
                self.delegate(title, *asks_as_its_owner, steps)
            }
            Step::Spend(used, cost) => self.report(Update::Usage(Usage {
                used: *used,
                size: 200_000,
                cost: Some(Cost { amount: *cost, currency: "USD".into() }),
            })),
            Step::Update(raw) => match serde_json::from_str(raw.get()) {
                Ok(update) => self.report(update),
                Err(error) => Err(failed(error)),
            },
            Step::Grumble(text) => {
                // Nobody has to read it.
                let _ = io::stderr().write_all(text.as_bytes());
                Ok(())
            }
            Step::Wait(seconds) => self.wait(*seconds),
            Step::Flood(pieces) => {
                (1..=*pieces).try_for_each(|n| self.say(Speaker::Agent, &format!("{n}\n")))
            }
            Step::Fail(why) => Err(failed(why)),
            Step::Error(error) => Err(Break::Failed(error.clone())),
            Step::Stop(reason) => Err(Break::Stopped(reason.clone())),
            Step::Exit(status) => std::process::exit(*status),
            Step::Hang => loop {
                self.notes.recv().map_err(|_| Break::Over)?;
            },
        }
    }

    pub(super) fn say(&self, speaker: Speaker, text: &str) -> Result<(), Break> {
        let Some(Delegate { session, .. }) = &self.delegate else {
            self.kept.iter().for_each(|kept| kept.add(&self.session, speaker, text));
            return self.tell(|turn| Command::Say { turn, speaker, text: text.into() });
        };
        self.tell(|_| Command::Tell { session: session.clone(), speaker, text: text.into(), message: None })
    }

    pub(super) fn report(&self, update: Update) -> Result<(), Break> {
        self.offer(update).map(drop)
    }

    /// Whether the client takes updates of that kind.
    fn offer(&self, update: Update) -> Result<bool, Break> {
        self.tell_if_taken(|turn| match &self.delegate {
            Some(Delegate { session, .. }) => {
                Command::Announce { session: session.clone(), update: update.clone() }
            }
            None => Command::Report { turn, update: update.clone() },
        })
    }

    /// An agent of its own does these steps; where the client wants to know of none, it does them itself.
    fn delegate(&mut self, title: &str, asks_as_its_owner: bool, steps: &[Step]) -> Result<(), Break> {
        let session = SessionId::from(&*format!("{}-{title}", self.session));
        let state = |state: &str| {
            let news = json!({"sessionUpdate": "subagent_update", "sessionId": session, "title": title,
                "state": {"state": state}});
            serde_json::from_str::<Update>(&news.to_string()).map_err(failed)
        };
        if !self.offer(state("running")?)? {
            return self.steps(steps);
        }
        let before = self.delegate.replace(Delegate { session: session.clone(), asks_as_its_owner });
        let done = self.steps(steps);
        self.delegate = before;
        done?;
        self.report(state("idle")?)
    }

    fn tell(&self, command: impl Fn(TurnKey) -> Command) -> Result<(), Break> {
        self.tell_if_taken(command).map(drop)
    }

    /// Waits while the client reads more slowly than we write.
    fn tell_if_taken(&self, command: impl Fn(TurnKey) -> Command) -> Result<bool, Break> {
        loop {
            match self.agent.command(command(self.turn)) {
                Ok(()) => return Ok(true),
                Err(Refused::NotOffered(_)) => return Ok(false),
                Err(Refused::Crowded) => match self.notes.recv().map_err(|_| Break::Over)? {
                    Note::Cancelled => return Err(Break::Stopped(StopReason::Cancelled)),
                    Note::Drained | Note::Answered(_) | Note::Served(_) => {}
                },
                Err(Refused::Limit(what)) => return Err(failed(format_args!("too long: {what}"))),
                Err(_) => return Err(Break::Over),
            }
        }
    }

    fn wait(&self, seconds: f64) -> Result<(), Break> {
        let span = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
        let until = Instant::now() + span;
        loop {
            match self.notes.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Break::Over),
                Ok(Note::Cancelled) => return Err(Break::Stopped(StopReason::Cancelled)),
                Ok(Note::Drained | Note::Answered(_) | Note::Served(_)) => {}
            }
        }
    }

    pub(super) fn announce(&mut self, tool: &Tool) -> Result<String, Break> {
        self.tools += 1;
        let id = format!("call-{}", self.tools);
        self.report(Update::ToolCall(ToolCall {
            tool_call_id: id.clone(),
            title: tool.title.clone(),
            kind: tool.kind,
            content: content(tool),
            raw_input: tool.command.as_ref().map(|command| Json::new(&json!({ "command": command }))),
            ..ToolCall::default()
        }))?;
        Ok(id)
    }

    fn use_tool(&self, id: &str, tool: &Tool) -> Result<(), Break> {
        self.progress(id, ToolStatus::InProgress)?;
        self.wait(tool.seconds)?;
        self.progress(id, ToolStatus::Completed)
    }

    pub(super) fn progress(&self, id: &str, status: ToolStatus) -> Result<(), Break> {
        let status = Some(status);
        let update = ToolCallUpdate { tool_call_id: id.into(), status, ..ToolCallUpdate::default() };
        self.report(Update::ToolCallUpdate(update))
    }

    /// Whether the tool may be used.
    fn ask(&self, id: &str, tool: &Tool, options: &[(String, String, OptionKind)]) -> Result<bool, Break> {
        let options = options.iter().cloned();
        let options: Vec<PermissionOption> =
            options.map(|(option_id, name, kind)| PermissionOption { option_id, name, kind }).collect();
        let own = self.delegate.as_ref().filter(|delegate| !delegate.asks_as_its_owner);
        self.tell(|turn| Command::AskPermission {
            tag: self.tag,
            of: own.map_or_else(|| turn.into(), |delegate| Of::Session(delegate.session.clone())),
            tool_call: ToolCallUpdate {
                tool_call_id: id.into(),
                title: Some(tool.title.clone()),
                ..ToolCallUpdate::default()
            },
            options: options.clone(),
            meta: None,
        })?;
        loop {
            match self.notes.recv().map_err(|_| Break::Over)? {
                Note::Answered(PermissionOutcome::Selected { option_id }) => {
                    let mut options = options.iter();
                    return Ok(options.any(|option| option.option_id == option_id && option.kind.allows()));
                }
                Note::Answered(PermissionOutcome::Cancelled) => return Ok(false),
                Note::Cancelled => return Err(Break::Stopped(StopReason::Cancelled)),
                Note::Drained | Note::Served(_) => {}
            }
        }
    }

    /// Asks the user by a form or a page, and says what came back.
    fn elicit(&self, elicit: Elicit) -> Result<(), Break> {
        let page = elicit.elicitation_id.clone();
        let wanted = ServiceRequest::Elicit(Elicit { session_id: Some(self.session.clone()), ..elicit });
        match self.request(&wanted)? {
            Some(Ok(answer)) => {
                self.say(Speaker::Agent, &format!("You answered {}\n", answer.get()))?;
                if let Some(elicitation) = page {
                    self.tell(|_| Command::CompleteElicitation { elicitation: elicitation.clone() })?;
                }
                Ok(())
            }
            Some(Err(error)) => self.say(Speaker::Agent, &format!("You cannot be asked: {error}\n")),
            None => self.say(Speaker::Agent, "You cannot be asked: this client offers no such thing.\n"),
        }
    }

    /// Asks the client for something; nothing, where it does not offer that.
    pub(super) fn request(&self, wanted: &ServiceRequest) -> Result<Option<Result<Json, RpcError>>, Break> {
        match self.agent.command(Command::Request { tag: self.tag, wanted: wanted.clone() }) {
            Ok(()) => {}
            Err(Refused::NotOffered(_)) => return Ok(None),
            Err(refused) => return Err(failed(refused)),
        }
        loop {
            match self.notes.recv().map_err(|_| Break::Over)? {
                Note::Served(answer) => return Ok(Some(answer)),
                Note::Cancelled => return Err(Break::Stopped(StopReason::Cancelled)),
                Note::Drained | Note::Answered(_) => {}
            }
        }
    }
}

fn failed(why: impl Display) -> Break {
    Break::Failed(RpcError::new(code::INTERNAL_ERROR, why.to_string()))
}

fn content(tool: &Tool) -> Vec<ToolContent> {
    let diff = tool.diff.as_ref().map(|(path, old, new)| Diff {
        path: path.clone(),
        old_text: Some(old.clone()),
        new_text: new.clone(),
        meta: None,
    });
    diff.map(ToolContent::Diff).into_iter().collect()
}

fn plan(entries: &[String]) -> Plan {
    let entry = |content: &String| PlanEntry {
        content: content.clone(),
        priority: PlanPriority::Medium,
        status: PlanStatus::Pending,
        meta: None,
    };
    Plan { entries: entries.iter().map(entry).collect(), meta: None }
}

/// A day: no script means more.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
