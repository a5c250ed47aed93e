//! The book as clients see it.

use std::time::Duration;

use super::api::{
    ApprovalBrief, Class, MessageBrief, Policy, QueueView, Reason, Resolved, Role, SessionBrief, UsageBrief,
    Waiting,
};
use super::book::{Ask, Entry, Session, Sid, Spent};
use super::config::AgentKind;
use crate::acp::update::ToolCallUpdate;
use crate::excerpt::line;
use crate::session::{Can, Question};
use crate::timestamp::Timestamp;

/// RFC 3339.
pub(super) fn time(at: Duration) -> String {
    Timestamp(at).to_string()
}

/// What can be done, in words.
pub(super) fn can(can: Can) -> Vec<String> {
    let all = [
        ("new", can.new),
        ("load", can.load),
        ("resume", can.resume),
        ("list", can.list),
        ("close", can.close),
        ("delete", can.delete),
        ("prompt", can.prompt),
        ("images", can.images),
        ("cancel", can.cancel),
        ("set", can.set),
        ("aside", can.aside),
        ("rules", can.rules),
    ];
    all.into_iter().filter(|(_, can)| *can).map(|(word, _)| word.to_owned()).collect()
}

/// What a row says of a session's agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agent<'a> {
    /// Its name.
    pub(super) label: &'a str,
    /// Whether it can be started.
    pub(super) usable: bool,
    /// What it speaks.
    pub(super) channel: &'static str,
}

/// What an agent of that kind speaks, in a word.
pub(super) const fn channel(kind: AgentKind) -> &'static str {
    match kind {
        AgentKind::Acp => "acp",
        AgentKind::Runner => "galley",
    }
}

/// A session as a row.
pub(super) fn session(
    sid: Sid,
    session: &Session,
    now: Duration,
    since: Duration,
    of: Agent<'_>,
) -> SessionBrief {
    let Agent { label, usable, channel } = of;
    let (status, status_reason) = session.status_at(now);
    let last_error = session.stand().error.clone().filter(|_| session.running().is_none());
    let title = session.story.title().map(str::to_owned);
    let folder = || session.home.cwd.rsplit('/').find(|part| !part.is_empty()).map(str::to_owned);
    let takes = session.can.is_none_or(|can| can.prompt);
    // A process that broke off in a turn is on its way out, and no one to talk to.
    let breaks = session.running().is_none() && session.stand().reason == Some(Reason::AgentExited);
    let opens = (session.driver().is_some() && !breaks) || (usable && session.is_openable());
    let controllable = takes && opens && !session.archived;
    SessionBrief {
        id: sid.to_string(),
        title: title.or_else(folder).unwrap_or_else(|| sid.to_string()),
        status,
        last_activity_at: time(session.active),
        created_at: time(session.created),
        updated_at: time(session.updated),
        turn_count: session.story.turns,
        runtime_kind: "external".to_owned(),
        ga_runtime_kind: "external".to_owned(),
        runtime_label: label.to_owned(),
        status_reason,
        last_error,
        name: session.label.clone(),
        agent: session.home.agent.to_string(),
        channel: channel.to_owned(),
        cwd: session.home.cwd.to_string(),
        agent_session_id: session.name.as_ref().map(ToString::to_string),
        peer_id: None,
        policy: session.policy,
        last_message: session.story.last().map(str::to_owned),
        queued: session.queued().len(),
        held: session.held(),
        questions: session.questions(),
        current_turn: session.running().map(|(turn, _)| turn.0),
        usage: usage(session, since),
        controllable,
        retryable: controllable && session.can_retry(),
        live: session.driver().is_some(),
        can: session.can.map(can).unwrap_or_default(),
        host: None,
    }
}

pub(super) fn usage(session: &Session, since: Duration) -> Option<UsageBrief> {
    let (level, spent) = (session.story.usage(), session.story.spent());
    if level.is_none() && spent.is_none() {
        return None;
    }
    let spent = spent.unwrap_or_default();
    Some(UsageBrief {
        used: level.map(|level| level.used),
        size: level.map(|level| level.size),
        cost: level.and_then(|level| level.cost.clone()),
        input_tokens: spent.input_tokens,
        output_tokens: spent.output_tokens,
        total_tokens: spent.total_tokens,
        since: (spent != Spent::default()).then(|| time(since)),
    })
}

/// A message.
pub(super) fn message(sid: Sid, entry: &Entry) -> MessageBrief {
    MessageBrief {
        id: entry.id.clone(),
        session_id: sid.to_string(),
        role: entry.role,
        content: entry.text.clone(),
        created_at: time(entry.at),
        turn_index: (entry.turn > 0).then_some(entry.turn),
        attachments: entry.attachments,
        origin: entry.by.clone(),
        tool_status: entry.tool.map(|status| status.as_str().to_owned()),
    }
}

/// The last messages, oldest first.
pub(super) fn messages(sid: Sid, session: &Session, tail: Option<usize>) -> Vec<MessageBrief> {
    let entries = session.story.transcript.entries();
    let skip = entries.len().saturating_sub(tail.unwrap_or(usize::MAX));
    entries.skip(skip).map(|entry| message(sid, entry)).collect()
}

/// The newest message of the agent's.
pub(super) fn last_message(sid: Sid, session: &Session) -> Option<MessageBrief> {
    let mut entries = session.story.transcript.entries().rev();
    entries.find(|entry| entry.role == Role::Agent).map(|entry| message(sid, entry))
}

/// What waits.
pub(super) fn queue(session: &Session) -> QueueView {
    let queued = session.queued().map(|(turn, prompt)| Waiting {
        turn: turn.0,
        text: prompt.text(),
        at: time(prompt.at),
    });
    QueueView { queued: queued.collect(), held: session.held() }
}

/// How a question ended.
pub(super) fn resolved(ask: &Ask) -> Option<Resolved> {
    let settled = ask.settled.as_ref()?;
    Some(Resolved {
        approval_id: ask.id.to_string(),
        option_id: settled.option.clone(),
        by: settled.by,
        who: settled.who.clone(),
        at: time(settled.at),
    })
}

/// A question.
pub(super) fn approval(ask: &Ask) -> ApprovalBrief {
    let brief = ApprovalBrief {
        approval_id: ask.id.to_string(),
        session_id: ask.sid.map(|sid| sid.to_string()),
        agent: Some(ask.asker.to_string()),
        created_at: time(ask.at),
        expires_at: ask.asked.expires.map(|after| time(ask.at + after)),
        resolved: resolved(ask),
        ..ApprovalBrief::default()
    };
    match &ask.asked.question {
        Question::Permission { call, options, why, meta: _ } => ApprovalBrief {
            title: title(call, why.as_deref()),
            tool_name: Some(tool_name(call)),
            class: Class::of(call.kind),
            args: call.raw_input.clone(),
            call: Some(call.clone()),
            options: options.clone(),
            ..brief
        },
        Question::Words { text, candidates } => ApprovalBrief {
            title: line(text, TITLE),
            class: Class::Question,
            candidates: candidates.clone(),
            ..brief
        },
        Question::Form { text, schema } => ApprovalBrief {
            title: line(text, TITLE),
            class: Class::Question,
            schema: schema.clone(),
            ..brief
        },
        Question::Page { text, url, .. } => ApprovalBrief {
            title: line(text, TITLE),
            class: Class::Question,
            url: Some(url.clone()),
            ..brief
        },
    }
}

/// What a call is called: its own name, else its kind.
pub(super) fn tool_name(call: &ToolCallUpdate) -> String {
    call.name.clone().unwrap_or_else(|| call.kind.map_or("tool", |kind| kind.as_str()).to_owned())
}

fn title(call: &ToolCallUpdate, why: Option<&str>) -> String {
    let title = call.title.as_deref().filter(|title| !title.trim().is_empty()).or(why);
    title.map_or_else(|| tool_name(call), |title| line(title, TITLE))
}

/// The kind that an option of a question has.
pub(super) fn option_kind(ask: &Ask, option: &str) -> Option<String> {
    let chosen = ask.options().iter().find(|offered| offered.option_id == option)?;
    Some(chosen.kind.as_str().to_owned())
}

/// Characters of a title.
const TITLE: usize = 200;

/// What answers the permissions of a new session decides something, unless it is a person.
pub(super) const fn decides(policy: Policy) -> bool {
    !matches!(policy, Policy::Ask)
}
