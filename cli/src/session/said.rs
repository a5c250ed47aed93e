//! The closed words of the wire, as people are told them.

use std::borrow::Cow;

use agentline_core::hub::api::{By, Reason, Status};

use super::row::word;
use crate::output::plain;

/// Where a session stands, and why: `cancelled: the hub died meanwhile`.
pub(super) fn stands(status: Status, reason: Option<Reason>) -> String {
    let status = match status {
        Status::Error => "failed".to_owned(),
        Status::WaitingApproval => "waiting for an answer".to_owned(),
        Status::Idle
        | Status::Connecting
        | Status::Running
        | Status::Completed
        | Status::Cancelled
        | Status::Archived => word(&status),
    };
    match reason {
        // The status says it.
        None | Some(Reason::Permission | Reason::Question) => status,
        Some(reason) => format!("{status}: {}", why(reason)),
    }
}

/// Why a session stands where it stands, or why its prompts are held.
pub(super) const fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Permission => "a permission is asked for",
        Reason::Question => "the agent asks something",
        Reason::CancelAsked => "it was told to stop, and has not said that it did",
        Reason::Unconfirmed => "how it ended was not confirmed",
        Reason::Interrupted => "the hub died meanwhile",
        Reason::HubStopped => "the hub was stopped meanwhile",
        Reason::LinkLost => "the agent's own program went away",
        Reason::AgentExited => "the agent's process ended",
        Reason::AgentBusy => "the agent is still at work on a turn that was given up",
        Reason::AgentDisabled => "the agent was switched off",
        Reason::AgentRemoved => "the agent is not there any more",
        Reason::AgentChanged => "the agent is started otherwise from here on",
        Reason::Silent => "the agent says nothing",
        Reason::Refusal => "the agent refused",
        Reason::MaxTokens => "the model's output limit came",
        Reason::MaxTurns => "there were too many model requests in one turn",
        Reason::UnknownStop => "the agent ended by a word that nobody knows",
        Reason::NeedsLogin => "the agent wants a login first",
        Reason::StartFailed => "the agent could not be started, or could not open the session",
        Reason::PromptError => "the agent answered with an error",
        Reason::NotSent => "the prompt was never sent",
    }
}

/// Why a prompt that waited is over.
pub(super) fn unsent(reason: &str) -> Cow<'_, str> {
    match reason {
        "withdrawn" => "it was taken back".into(),
        "closed" => "the session was closed".into(),
        "archived" => "the session was archived".into(),
        "deleted" => "the session was deleted".into(),
        "start_failed" => "the agent could not be started, or could not open the session".into(),
        "refused" => "the agent took no prompt".into(),
        "no_prompt" => "the agent's own program takes no prompts from here".into(),
        other => plain(other),
    }
}

/// Why a stream is over.
pub(crate) fn over(reason: &str) -> Cow<'_, str> {
    match reason {
        "archived" => "the session was archived".into(),
        "closed" => "the session was closed".into(),
        "deleted" => "the session was deleted".into(),
        "agent_removed" => "the agent is not there any more".into(),
        "agent_disabled" => "the agent was switched off".into(),
        "link_lost" => "the agent's own program went away".into(),
        "subprocess_exited" => "the agent's process ended".into(),
        "lagging" | "stalled" => "what it said was not read for too long".into(),
        "hub_stopping" => "the hub is stopping".into(),
        other => plain(other),
    }
}

/// By whom a question was answered, or why it was not.
pub(crate) const fn by(by: By) -> &'static str {
    match by {
        By::Client => "by another client",
        By::Policy => "by the session's policy",
        By::Withdrawn => "whoever asked took it back",
        By::TurnEnded => "the turn went on without it",
        By::Cancelled => "the turn was cancelled",
        By::Terminal => "at the agent's own terminal",
        By::Expired => "whoever asked had waited long enough",
        By::Gone => "whoever asked is gone",
    }
}
