//! Galley's desktop with a real runner, as a list of what happened.
#![expect(clippy::wildcard_enum_match_arm, reason = "a flow is about few of the events")]

use agentline_core::Tag;
use agentline_core::galley::Decision;
use agentline_core::galley::desktop::{Command, Config, Desktop, Event, Message};

use crate::runtimes::Runtime;

/// A message to the runner.
#[must_use]
pub fn say(tag: u64, text: &str) -> Command {
    Command::Say { tag: Tag(tag), message: Box::new(Message::text(text)) }
}

/// What happened, in words; `answer` says what the host does at it.
pub fn play<R: Runtime>(config: Config, mut answer: impl FnMut(&Event) -> Vec<Command>) -> Vec<String> {
    let mut told = Vec::new();
    R::run::<Desktop>(config, vec![], |event, say| {
        say.extend(answer(&event));
        told.push(match event {
            Event::Ready(ready) => format!("ready {}", ready.llm_name),
            Event::TurnStarted(start) => format!("step {}", start.turn_index),
            Event::ApprovalAsked(asked) => format!("asked {} {:?}", asked.tool_name, asked.risk_level),
            Event::ApprovalOver(..) => "approval over".to_owned(),
            Event::ToolStarted(start) => format!("started {}", start.tool_name),
            Event::ToolSaid(said) => said.text,
            Event::ToolEnded(end) => format!("ended {:?}", end.status),
            Event::TurnEnded(end) => format!("step over {}", end.turn_index),
            Event::Asked(question) => format!("question {}", question.question),
            Event::RunEnded(ended) => format!("run {} {:?}", ended.tag.0, ended.end),
            Event::Done(Tag(tag), done) => format!("done {tag} {}", done.is_ok()),
            Event::Closed(closed) => {
                format!("closed {:?} {:?}", closed.closed.cause, closed.closed.obituary.exit)
            }
            _ => return,
        });
    });
    told
}

/// The approval flow of the protocol's document: that word makes the runner ask.
#[must_use]
pub fn approvals<R: Runtime>(config: Config, word: &str, decision: &Decision) -> Vec<String> {
    play::<R>(config, |event| match event {
        Event::Ready(_) => vec![say(1, word)],
        Event::ApprovalAsked(asked) => {
            vec![Command::Decide { approval: asked.approval_id.clone(), decision: decision.clone() }]
        }
        Event::RunEnded(_) => vec![Command::Close],
        _ => vec![],
    })
}
