//! What one turn leaves behind: the answer, and how permission requests were decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::{Answer, Said};
use super::api::{By, Decision, Decisions, Event, Finished, Outcome, Policy, Verdict};
use super::judge::{Judge, Ruling};
use crate::acp::client::{self, Moment, PermissionAsked, Text, Updated};
use crate::acp::update::{Speaker, Update};
use crate::acp::{
    Json, PermissionOption, PermissionOutcome, PermissionRequest, RequestKey, StopReason, Stopped,
};
use crate::problem::{Failed, Phase, RootCause};
use crate::rpc::cut;

/// A turn so far. One after the other may use it.
#[derive(Debug)]
pub(crate) struct Turn {
    judge: Judge,
    output: Answer,
    open: BTreeMap<RequestKey, Asked>,
    decisions: Decided,
    counts: Decisions,
    /// A person or a policy has refused something.
    refused: bool,
    /// We told the agent to stop.
    cancelled: bool,
}

/// What is kept of a question: the client bounds how many are open and how long their ids are.
#[derive(Debug)]
struct Asked {
    tool_call_id: String,
    title: Option<String>,
    options: Vec<PermissionOption>,
    /// The rule that had a say.
    rule: Option<Arc<str>>,
}

impl Asked {
    fn of(asked: &PermissionRequest) -> Self {
        let cut = |text: &str| cut(text, TEXT).to_owned();
        let options = asked.options.iter();
        Self {
            tool_call_id: cut(&asked.tool_call.tool_call_id),
            title: asked.tool_call.title.as_deref().map(cut),
            options: options
                .map(|option| PermissionOption {
                    option_id: option.option_id.clone(),
                    name: cut(&option.name),
                    kind: option.kind.known(),
                })
                .collect(),
            rule: None,
        }
    }
}

/// The decisions of a turn: the first of them, within a budget, and how many more there were.
#[derive(Debug, Default)]
struct Decided {
    kept: Vec<Decision>,
    bytes: usize,
    dropped: usize,
}

impl Decided {
    fn add(&mut self, decision: &Decision) {
        let options =
            decision.options.iter().map(|option| ENTRY + option.option_id.len() + option.name.len());
        let title = decision.title.as_ref().map_or(0, String::len);
        let size = ENTRY + decision.tool_call_id.len() + title + options.sum::<usize>();
        // What comes after a gap is left out as well: the list is the beginning of what was decided.
        if self.dropped > 0 || self.bytes + size > BYTES {
            self.dropped += 1;
        } else {
            self.bytes += size;
            self.kept.push(decision.clone());
        }
    }
}

/// How a turn ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) stop_reason: Option<String>,
    usage: Option<Json>,
    pub(crate) error: Option<Failed>,
}

impl Ending {
    /// By the agent's word.
    pub(crate) fn of_stop(Stopped { reason, usage, .. }: Stopped) -> Self {
        let outcome = match &reason {
            StopReason::EndTurn => Outcome::Completed,
            StopReason::MaxTokens => Outcome::MaxTokens,
            StopReason::Refusal => Outcome::Refusal,
            StopReason::Cancelled => Outcome::Aborted,
            StopReason::MaxTurnRequests | StopReason::Other(_) => Outcome::Error,
        };
        let error = (outcome == Outcome::Error)
            .then(|| Failed::new(Phase::Prompt, RootCause::Stopped(reason.clone())));
        Self { outcome, stop_reason: Some(reason.as_str().to_owned()), usage, error }
    }

    /// Without a word of the agent.
    pub(crate) const fn failed(failed: Failed) -> Self {
        Self { outcome: Outcome::Error, stop_reason: None, usage: None, error: Some(failed) }
    }

    /// As it was to end, and the agent has no word for it.
    pub(crate) const fn plain(outcome: Outcome) -> Self {
        Self { outcome, stop_reason: None, usage: None, error: None }
    }
}

impl Turn {
    /// Keeps so many bytes of the answer.
    pub(crate) fn new(judge: Judge, output: usize) -> Self {
        Self {
            judge,
            output: Answer::new(output),
            open: BTreeMap::new(),
            decisions: Decided::default(),
            counts: Decisions::default(),
            refused: false,
            cancelled: false,
        }
    }

    /// Whether a refusal is the end of it.
    pub(crate) const fn ends_by_refusal(&self) -> bool {
        matches!(self.judge.policy, Policy::Fail)
    }

    /// Whether we have told the agent to stop.
    pub(crate) const fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// A piece of text: part of the answer, or not.
    pub(crate) fn heard(&mut self, text: &Text) {
        if is_answer(text) {
            self.output.add(&text.text, text.message.as_ref());
        } else if text.moment == Moment::Turn {
            self.output.interrupt();
        }
    }

    /// Anything else of the session: a new call or plan stands between two messages.
    pub(crate) const fn updated(&mut self, updated: &Updated) {
        if matches!(updated.update, Update::ToolCall(_) | Update::Plan(_)) {
            self.output.interrupt();
        }
    }

    /// We have told the agent to stop, so that its word for it is no news.
    pub(crate) const fn cancelled(&mut self) {
        self.cancelled = true;
    }

    /// Takes a permission request: what to tell of it, and the policy's answer unless the user is asked.
    pub(crate) fn asked(&mut self, asked: Box<PermissionAsked>) -> (Event, Option<client::Command>) {
        let PermissionAsked { request, asked: about } = &*asked;
        let Ruling { option, by, rule } = match self.judge.decide(about) {
            Ok(ruling) => ruling,
            Err(rule) => return (self.wait(rule, asked), None),
        };
        let outcome = option
            .map_or(PermissionOutcome::Cancelled, |option| PermissionOutcome::selected(&*option.option_id));
        let answer = client::Command::Answer { request: *request, outcome };
        let asked = Asked { rule, ..Asked::of(about) };
        (self.decided(*request, asked, option, by), Some(answer))
    }

    /// Takes what the agent wants to have done by us: what to tell of it, and whether it may be, unless the user is asked.
    pub(crate) fn asked_of_host(&mut self, asked: Box<PermissionAsked>) -> (Option<Event>, Option<bool>) {
        let PermissionAsked { request, asked: about } = &*asked;
        let Ruling { option, by, rule } = match self.judge.decide_of_host(about) {
            None => return (None, Some(true)),
            Some(Ok(ruling)) => ruling,
            Some(Err(rule)) => return (Some(self.wait(rule, asked)), None),
        };
        let allowed = option.is_some_and(|option| option.kind.allows());
        let asked = Asked { rule, ..Asked::of(about) };
        (Some(self.decided(*request, asked, option, by)), Some(allowed))
    }

    /// The user is asked.
    fn wait(&mut self, rule: Option<Arc<str>>, asked: Box<PermissionAsked>) -> Event {
        self.open.insert(asked.request, Asked { rule, ..Asked::of(&asked.asked) });
        Event::PermissionAsked(asked)
    }

    /// Whether that is an answer to an open question.
    pub(crate) fn offers(&self, request: RequestKey, option_id: &str) -> bool {
        let asked = self.open.get(&request);
        asked.is_some_and(|asked| asked.options.iter().any(|option| option.option_id == option_id))
    }

    /// The user has answered.
    pub(crate) fn answered(&mut self, request: RequestKey, outcome: &PermissionOutcome) -> Option<Event> {
        let asked = self.open.remove(&request)?;
        let option = match outcome {
            PermissionOutcome::Selected { option_id } => {
                asked.options.iter().find(|option| option.option_id == *option_id).cloned()
            }
            PermissionOutcome::Cancelled => None,
        };
        Some(self.decided(request, asked, option.as_ref(), By::User))
    }

    /// The question is moot; nobody may answer it any more.
    pub(crate) fn withdrawn(&mut self, request: RequestKey) -> Option<Event> {
        let asked = self.open.remove(&request)?;
        Some(self.decided(request, asked, None, By::Cancel))
    }

    /// The result, last. A question that nobody answered is part of it. What comes next is of another turn.
    pub(crate) fn end(&mut self, ending: Ending) -> Vec<Event> {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut told: Vec<Event> =
            open.map(|(request, asked)| self.decided(request, asked, None, By::Cancel)).collect();
        let Said { text: output, truncated: output_truncated, starts } = self.output.take();
        let Ending { outcome, stop_reason, usage, error } = ending;
        let Decided { kept: permissions, dropped: permissions_dropped, .. } =
            std::mem::take(&mut self.decisions);
        let decisions = std::mem::take(&mut self.counts);
        let (refused, cancelled) = (std::mem::take(&mut self.refused), std::mem::take(&mut self.cancelled));
        // Some agents call it cancelled when they may not go on.
        let is_theirs = outcome == Outcome::Aborted && stop_reason.is_some() && !cancelled;
        let outcome = if is_theirs && refused { Outcome::Rejected } else { outcome };
        told.push(Event::Finished(Box::new(Finished {
            outcome,
            stop_reason,
            output,
            output_truncated,
            starts,
            permissions,
            permissions_dropped,
            decisions,
            usage,
            error,
        })));
        told
    }

    fn decided(
        &mut self,
        request: RequestKey,
        Asked { tool_call_id, title, options, rule }: Asked,
        option: Option<&PermissionOption>,
        by: By,
    ) -> Event {
        let decision = Decision {
            request,
            tool_call_id,
            title,
            options,
            decision: match option {
                Some(option) if option.kind.allows() => Verdict::Allowed,
                Some(_) => Verdict::Rejected,
                None => Verdict::Cancelled,
            },
            option_id: option.map(|option| option.option_id.clone()),
            by,
            rule,
        };
        self.counts.add(decision.decision);
        self.refused |= decision.decision != Verdict::Allowed && by != By::Cancel;
        self.decisions.add(&decision);
        Event::PermissionDecided(Box::new(decision))
    }
}

/// Whether a piece of text is one of the answer: neither a thought nor history.
pub(crate) fn is_answer(text: &Text) -> bool {
    text.moment == Moment::Turn && text.speaker == Speaker::Agent
}

/// Whether an update is something that would come twice if its turn began anew: a tool, what is shown as an answer, or
/// what a subagent did.
pub(crate) const fn bears(updated: &Updated) -> bool {
    let is_of_turn = matches!(updated.moment, Moment::Turn);
    let is_of_subagent = updated.of.is_some();
    is_of_turn
        && (is_of_subagent
            || matches!(
                updated.update,
                Update::ToolCall(_) | Update::ToolCallUpdate(_) | Update::Message(Speaker::Agent, _)
            ))
}

/// Bytes of the decisions that the result lists. Each was told when it was made.
const BYTES: usize = 256 << 10;
/// Bytes of a title, an id or the name of an option that are kept.
const TEXT: usize = 4 << 10;
/// What a decision or an option costs beside its texts.
const ENTRY: usize = 128;
