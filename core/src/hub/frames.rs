//! News and facts as frames.

use std::time::Duration;

use super::api::{
    ApprovalBrief, AskForm, AskUser, Block, ExitReason, Frame, Happening, HostedNow, ModeNow, NotSent,
    OptionsNow, PlanNow, QueuedAt, Role, RunComplete, Status, SystemMessage, Thought, ToolCallEnd,
    ToolCallPending, ToolCallProgress, ToolCallStart, TurnEnd, TurnProgress, TurnStart, Update, UsageNow,
    UserMessage, Warned,
};
use super::book::{self, Ask, Fact, Session, Sid};
use super::show;
use crate::acp::update::{Speaker, ToolCallUpdate, ToolContent};
use crate::excerpt;
use crate::rpc::Json;
use crate::session::{Item, News, Outcome, Question};

/// A frame about a session.
pub(super) fn frame(sid: Sid, turn: Option<u64>, at: Duration, what: Happening) -> Frame {
    Frame { session_id: Some(sid.to_string()), turn, timestamp: Some(show::time(at)), what, raw: None }
}

/// What a source's news is to readers; nothing where the book says it better.
pub(super) fn news(item: &Item, session: &Session, now: Duration, since: Duration) -> Option<Happening> {
    Some(match &item.news {
        News::Text { speaker: Speaker::Agent, message, text } => {
            let message_id = message.as_deref().map(str::to_owned);
            TurnProgress { delta: text.clone(), source: SOURCE.to_owned(), message_id }.into()
        }
        News::Text { speaker: Speaker::Thought, message, text } => {
            Thought { delta: text.clone(), message_id: message.as_deref().map(str::to_owned) }.into()
        }
        News::Text { speaker: Speaker::User, text, .. } => {
            UserMessage { text: text.clone(), images: 0, by: None }.into()
        }
        News::Block(block) => return piece(block.0, &block.1),
        News::Tool { is_new, call } => {
            let began = session.story.transcript.began(&call.tool_call_id);
            tool(*is_new, call, now.saturating_sub(began.unwrap_or(now)))
        }
        News::Plan(plan) => PlanNow { entries: plan.entries.clone() }.into(),
        News::Usage(_) => UsageNow { usage: show::usage(session, since).unwrap_or_default() }.into(),
        News::Mode(mode) => ModeNow { mode_id: mode.clone() }.into(),
        News::Options(options) => OptionsNow { options: options.clone() }.into(),
        News::Warned(warning) => Warned {
            message: warning.text.clone(),
            category: "business".to_owned(),
            severity: "warning".to_owned(),
            retryable: warning.retryable,
            hint: warning.hint.clone(),
        }
        .into(),
        News::Note(content) => {
            SystemMessage { content: content.clone(), variant: "system".to_owned() }.into()
        }
        News::Hosted(hosted) => HostedNow { deed: hosted.deed.clone(), error: hosted.error.clone() }.into(),
        News::Step(step) => match &step.ended {
            None => TurnStart { turn_index: step.index }.into(),
            Some(summary) => {
                TurnEnd { turn_index: step.index, summary: summary.clone(), response_content: String::new() }
                    .into()
            }
        },
        News::Commands(_) => Update { name: "available_commands_update".to_owned() }.into(),
        News::Info { .. } => Update { name: "session_info_update".to_owned() }.into(),
        News::Other(name) => Update { name: name.clone() }.into(),
        News::Opened
        | News::Announced(_)
        | News::Can(_)
        | News::Began(_)
        | News::Busy(_)
        | News::Asked(_)
        | News::Settled(..)
        | News::Ended(_)
        | News::Closed => return None,
    })
}

/// Whether only those who ask for it get to see it.
pub(super) const fn is_thought(what: &Happening) -> bool {
    matches!(what, Happening::Thought(_))
}

/// Whether it says nothing but by the agent's own words.
pub(super) const fn is_raw(what: &Happening) -> bool {
    matches!(what, Happening::Update(_))
}

/// A text that came with more is still a text.
fn piece(speaker: Speaker, chunk: &crate::acp::update::Chunk) -> Option<Happening> {
    let message_id = chunk.message_id.clone();
    let role = match (speaker, chunk.content.as_text()) {
        (Speaker::Agent, Some(text)) => {
            let (delta, source) = (text.to_owned(), SOURCE.to_owned());
            return Some(TurnProgress { delta, source, message_id }.into());
        }
        (Speaker::Thought, Some(text)) => {
            return Some(Thought { delta: text.to_owned(), message_id }.into());
        }
        (Speaker::User, Some(text)) => {
            return Some(UserMessage { text: text.to_owned(), images: 0, by: None }.into());
        }
        (Speaker::Thought, None) => return None,
        (Speaker::Agent, None) => Role::Agent,
        (Speaker::User, None) => Role::User,
    };
    Some(Block { role, block: chunk.content.clone() }.into())
}

fn tool(is_new: bool, call: &ToolCallUpdate, elapsed: Duration) -> Happening {
    let tool_call_id = call.tool_call_id.clone();
    let over = call.status.filter(|status| status.is_final());
    let told = Some(call.clone());
    match over {
        Some(status) if !is_new => ToolCallEnd {
            tool_call_id,
            status: match status {
                crate::acp::update::ToolStatus::Failed => "failed".to_owned(),
                crate::acp::update::ToolStatus::Pending
                | crate::acp::update::ToolStatus::InProgress
                | crate::acp::update::ToolStatus::Completed => "success".to_owned(),
            },
            result_preview: result(call),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            call: told,
        }
        .into(),
        Some(_) | None if is_new => ToolCallStart {
            tool_call_id,
            turn_index: 1,
            tool_name: show::tool_name(call),
            args: call.raw_input.clone(),
            args_preview: preview(call.raw_input.as_ref()),
            call: told,
        }
        .into(),
        Some(_) | None => {
            ToolCallProgress { tool_call_id, text: call.title.clone().unwrap_or_default(), call: told }.into()
        }
    }
}

fn result(call: &ToolCallUpdate) -> String {
    let text = |content: &ToolContent| match content {
        ToolContent::Content(block) => block.as_text().map(str::to_owned),
        ToolContent::Diff(_) | ToolContent::Terminal(_) | ToolContent::Unknown(_) => None,
    };
    let texts: Vec<String> = call.content.iter().flatten().filter_map(text).collect();
    texts.join("\n").chars().take(500).collect()
}

fn preview(args: Option<&Json>) -> String {
    args.map_or_else(String::new, |args| excerpt::line(args.get(), 200))
}

/// What the book says is to readers of that session. The question that it is about, if it is about one; whether a prompt
/// that is over could be tried again.
pub(super) fn fact(
    fact: &Fact,
    ask: Option<&Ask>,
    session: Option<&Session>,
    retryable: bool,
) -> Vec<Happening> {
    match fact {
        Fact::Queued(_, position, prompt) => {
            vec![QueuedAt { position: *position, text: prompt.text(), by: prompt.by.clone() }.into()]
        }
        Fact::Began(_, prompt) => {
            let words = prompt.as_ref().map(|prompt| {
                let (text, images) = (prompt.text(), prompt.attachments());
                UserMessage { text, images, by: prompt.by.clone() }.into()
            });
            words.into_iter().chain([TurnStart { turn_index: 1 }.into()]).collect()
        }
        Fact::Ended(end) => ended(end, session, retryable),
        Fact::NotSent(_, reason) => vec![NotSent { reason: (*reason).to_owned() }.into()],
        Fact::Asked(_) => ask.map(asked).into_iter().collect(),
        Fact::Settled(_) => ask.and_then(show::resolved).map(Into::into).into_iter().collect(),
        Fact::Changed => Vec::new(),
    }
}

/// The prompt that a fact belongs to.
pub(super) const fn turn_of(fact: &Fact) -> Option<u64> {
    match fact {
        Fact::Queued(turn, ..) | Fact::Began(turn, _) | Fact::NotSent(turn, _) => Some(turn.0),
        Fact::Ended(end) => Some(end.turn.0),
        Fact::Asked(_) | Fact::Settled(_) | Fact::Changed => None,
    }
}

/// A question, as the vocabulary of turns has it.
pub(super) fn asked(ask: &Ask) -> Happening {
    let approval = ApprovalBrief { resolved: None, ..show::approval(ask) };
    let approval_id = approval.approval_id.clone();
    match &ask.asked.question {
        Question::Permission { call, why, .. } => ToolCallPending {
            approval_id,
            turn_index: 1,
            tool_name: show::tool_name(call),
            args: call.raw_input.clone(),
            args_preview: preview(call.raw_input.as_ref()),
            risk_level: approval.risk_level.clone().unwrap_or_else(|| "medium".to_owned()),
            reason: why.clone().unwrap_or_else(|| approval.title.clone()),
            approval,
        }
        .into(),
        Question::Words { text, candidates } => {
            AskUser { approval_id, question: text.clone(), candidates: candidates.clone() }.into()
        }
        Question::Form { .. } | Question::Page { .. } => AskForm { approval }.into(),
    }
}

fn ended(end: &book::TurnEnd, session: Option<&Session>, retryable: bool) -> Vec<Happening> {
    let said = session.map(|session| session.story.transcript.answer()).unwrap_or_default();
    let said = tail(&said, 64 << 10).to_owned();
    let complete = RunComplete {
        exit_reason: ExitReason { result: galley(end).to_owned(), data: end.word().map(str::to_owned) },
        final_content: said.clone(),
        total_turns: 1,
        status: end.stand.status,
        status_reason: end.stand.reason,
        last_error: end.stand.error.clone(),
        spent: end.spent().cloned(),
        retryable,
    };
    let step = TurnEnd { turn_index: 1, summary: String::new(), response_content: said };
    vec![step.into(), complete.into()]
}

/// Galley's word for an end.
fn galley(end: &book::TurnEnd) -> &'static str {
    match (end.how, end.stand.status) {
        (Outcome::Completed, _) => "CURRENT_TASK_DONE",
        (Outcome::Failed, _) if end.word() == Some("max_turn_requests") => "MAX_TURNS_EXCEEDED",
        (Outcome::Cancelled, _) | (_, Status::Cancelled) => "ABORTED",
        (
            Outcome::MaxTokens
            | Outcome::Refused
            | Outcome::Failed
            | Outcome::Lost
            | Outcome::Unseen
            | Outcome::NotSent,
            _,
        ) => "EXITED",
    }
}

/// The end of a text, at most so many bytes of it.
pub(super) fn tail(text: &str, most: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.get(from..).unwrap_or_default()
}

/// The turn that runs, from its first word: what a watcher missed who comes in the middle of it.
pub(super) fn so_far(session: &Session) -> Vec<Happening> {
    let Some((_, prompt)) = session.running() else { return Vec::new() };
    let transcript = &session.story.transcript;
    let mut frames = Vec::new();
    if let Some(prompt) = prompt {
        let (text, images) = (prompt.text(), prompt.attachments());
        frames.push(UserMessage { text, images, by: prompt.by.clone() }.into());
    }
    frames.push(TurnStart { turn_index: 1 }.into());
    let own = transcript.entries().filter(|entry| entry.turn == transcript.turn());
    let mut room = SO_FAR;
    let mut kept: Vec<Happening> = Vec::new();
    for entry in own.rev() {
        let text = tail(&entry.text, room);
        room -= text.len();
        match entry.role {
            Role::Agent if !text.is_empty() => {
                let (delta, source) = (text.to_owned(), SOURCE.to_owned());
                kept.push(TurnProgress { delta, source, message_id: None }.into());
            }
            Role::Tool => kept.push(known_tool(entry)),
            Role::Agent | Role::User | Role::System => {}
        }
    }
    kept.reverse();
    frames.extend(kept);
    frames
}

fn known_tool(entry: &book::Entry) -> Happening {
    let tool_call_id = entry.id.strip_prefix("tool-").unwrap_or(&entry.id).to_owned();
    let call = ToolCallUpdate {
        tool_call_id: tool_call_id.clone(),
        title: Some(entry.text.clone()),
        status: entry.tool,
        ..ToolCallUpdate::default()
    };
    let tool_name = "tool".to_owned();
    let start = ToolCallStart { tool_call_id, turn_index: 1, tool_name, ..ToolCallStart::default() };
    ToolCallStart { call: Some(call), ..start }.into()
}

/// What Galley calls everything that an agent says.
const SOURCE: &str = "workbench";
/// Bytes of a turn that runs which are told to a new watcher.
const SO_FAR: usize = 256 << 10;
