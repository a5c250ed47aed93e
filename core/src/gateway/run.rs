//! A run of Galley's desktop: its calls, its questions and its end.

use std::collections::BTreeMap;

use super::calls::{Call, merge, result};
use super::front::no_end;
use super::galley::Galley;
use crate::acp::update::{ToolCallUpdate, ToolStatus};
use crate::acp::{ContentBlock, Json, PermissionOption};
use crate::conversation::answer::Answer;
use crate::galley::bridge::{Command, RunEnd, RunKey, Turn};
use crate::galley::{self, AskUser, Exit, ExitReason, Telemetry, Variant, runtime_error};
use crate::machine::{Now, Tag, Time};
use crate::session::{AskId, Asked, Ended, Outcome, Question, Reply, TurnId, Wish};

#[derive(Debug)]
pub(super) struct Run {
    pub(super) key: RunKey,
    pub(super) turn: TurnId,
    /// Until they can be said.
    pub(super) words: Option<Vec<ContentBlock>>,
    pub(super) began: Time,
    pub(super) calls: BTreeMap<String, Known>,
    /// Of what is known of them.
    bytes: usize,
    /// Approvals that wait, by the tag of their call: the question, what can be answered, and the call itself unless
    /// it had begun before.
    pub(super) asks: BTreeMap<Tag, (AskId, Vec<PermissionOption>, Option<String>)>,
    /// All that was said, and what was said behind the last tool.
    pub(super) content: Answer,
    pub(super) answer: Answer,
    pub(super) question: Option<AskUser>,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) tag: Tag,
    call: ToolCallUpdate,
    pub(super) stage: CallStage,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CallStage {
    /// Nobody was told of it.
    Known,
    Asked,
    Running,
    Over,
}

impl Run {
    pub(super) fn new(now: Now, key: RunKey, turn: TurnId, words: Vec<ContentBlock>) -> Self {
        Self {
            key,
            turn,
            words: Some(words),
            began: now.mono,
            calls: BTreeMap::new(),
            bytes: 0,
            asks: BTreeMap::new(),
            content: Answer::new(CONTENT),
            answer: Answer::new(CONTENT),
            question: None,
        }
    }

    /// Whether there are not too many calls for that one.
    fn has_room(&self, id: &str) -> bool {
        self.calls.len() < CALLS || self.calls.contains_key(id)
    }

    /// Adds to what is known of a call, which has that tag if it is new.
    fn note(&mut self, fresh: Tag, news: ToolCallUpdate) -> &mut Known {
        let known = self.calls.entry(news.tool_call_id.clone()).or_insert_with(|| Known {
            tag: fresh,
            call: ToolCallUpdate::default(),
            stage: CallStage::Known,
            bytes: 0,
        });
        merge(&mut known.call, news);
        known
    }

    fn forget(&mut self, id: &str) {
        self.bytes -= self.calls.remove(id).map_or(0, |known| known.bytes);
    }

    /// Once a call was told or asked about, as much of it is kept as fits beside the others: else its kind alone.
    fn settle(&mut self, id: &str) {
        let Some(known) = self.calls.get_mut(id) else { return };
        let bytes = Json::new(&known.call).get().len();
        self.bytes = self.bytes - known.bytes + bytes;
        known.bytes = bytes;
        if self.bytes > CONTENT {
            self.bytes -= bytes;
            let (kind, status) = (known.call.kind, known.call.status);
            known.bytes = 0;
            known.call = ToolCallUpdate { kind, status, ..ToolCallUpdate::default() };
        }
    }
}

impl Galley {
    pub(super) fn tool(&mut self, now: Now, is_new: bool, news: ToolCallUpdate) {
        let id = news.tool_call_id.clone();
        self.tell_tool(now, is_new, news);
        if let Some(run) = &mut self.run {
            run.settle(&id);
        }
    }

    /// A call is told when it begins, or is over; one that waits may yet be asked about.
    fn tell_tool(&mut self, now: Now, is_new: bool, news: ToolCallUpdate) {
        let Some(run) = &mut self.run else { return };
        run.answer.take();
        run.content.interrupt();
        let id = news.tool_call_id.clone();
        if is_new && run.calls.get(&id).is_some_and(|known| known.stage == CallStage::Over) {
            run.forget(&id);
        }
        if !run.has_room(&id) {
            return;
        }
        self.next += 1;
        let known = run.note(Tag(self.next), news);
        let (Some(status), stage, tag) = (known.call.status, known.stage, known.tag) else { return };
        if status == ToolStatus::Pending || stage == CallStage::Over {
            return;
        }
        if stage == CallStage::Asked {
            // The agent has not waited for the answer.
            return if status.is_final() {
                self.obey(now, Command::WithdrawTool { tag })
            };
        }
        if stage == CallStage::Known {
            known.stage = CallStage::Running;
            let Call { tool, args, .. } = Call::of(&known.call);
            let run = run.key;
            self.obey(now, Command::BeginTool { run, tag, tool, args });
        }
        if status.is_final() {
            let Some(known) = self.run.as_mut().and_then(|run| run.calls.get_mut(&id)) else { return };
            known.stage = CallStage::Over;
            // It is told, and nothing is asked of it any more.
            let call = std::mem::take(&mut known.call);
            let status = match status {
                ToolStatus::Completed => galley::ToolStatus::Success,
                ToolStatus::Pending | ToolStatus::InProgress | ToolStatus::Failed => {
                    galley::ToolStatus::Failed
                }
            };
            self.end_tool(now, tag, status, result(&call));
        }
    }

    pub(super) fn end_tool(&mut self, now: Now, tag: Tag, status: galley::ToolStatus, result: String) {
        self.obey(now, Command::EndTool { tag, status, result, elapsed_ms: 0 });
    }

    pub(super) fn asked(&mut self, now: Now, Asked { ask, question, .. }: Asked) {
        match (question, &mut self.run) {
            (Question::Permission { call, options, why, .. }, Some(run)) => {
                let (id, key) = (call.tool_call_id.clone(), run.key);
                self.next += 1;
                let fresh = Tag(self.next);
                let mut known = run.has_room(&id).then(|| run.note(fresh, call.clone()));
                let own = known.as_mut().filter(|known| known.stage == CallStage::Known);
                let (tag, is_own) = own.map_or((fresh, false), |known| (known.tag, true));
                let call = known.map_or(&call, |known| &known.call);
                let reason = why.or_else(|| call.title.clone()).unwrap_or_default();
                let Call { tool, args, risk } = Call::of(call);
                let asks = Command::AskTool { run: key, tag, tool, args, risk, reason };
                let asked = self.tell(now, asks).is_ok();
                let Some(run) = &mut self.run else { return };
                run.settle(&id);
                if !asked {
                    self.wish(Wish::Answer { ask, reply: Reply::NotMe });
                    return;
                }
                if let Some(known) = run.calls.get_mut(&id).filter(|_| is_own) {
                    known.stage = CallStage::Asked;
                }
                run.asks.insert(tag, (ask, options, is_own.then_some(id)));
            }
            (Question::Words { text, candidates }, Some(run)) => {
                run.question = Some(AskUser { question: text, candidates });
            }
            (Question::Form { text, .. } | Question::Page { text, .. }, _) => {
                self.warn(
                    now,
                    format!("the agent asks for more than words, which nobody here can answer: {text}"),
                );
                self.wish(Wish::Answer { ask, reply: Reply::NotMe });
            }
            (Question::Permission { .. }, None) => {
                self.wish(Wish::Answer { ask, reply: Reply::NotMe });
            }
            (Question::Words { text, .. }, None) => self.say(now, text, Variant::System),
        }
    }

    pub(super) fn ended(&mut self, now: Now, ended: Ended) {
        if ended.turn.is_some() && ended.turn == self.aborted {
            self.aborted = None;
            return;
        }
        if self.run.as_ref().is_none_or(|run| Some(run.turn) != ended.turn) {
            return;
        }
        // The calls are gone through while the run is still there: what they are told depends on it.
        let run = self.run.iter();
        let known = run.clone().flat_map(|run| run.calls.values());
        let running: Vec<Tag> =
            known.filter(|known| known.stage == CallStage::Running).map(|known| known.tag).collect();
        let asks: Vec<Tag> = run.flat_map(|run| run.asks.keys().copied()).collect();
        for tag in asks {
            self.obey(now, Command::WithdrawTool { tag });
        }
        let status = match ended.how {
            Outcome::Completed => galley::ToolStatus::Success,
            Outcome::Cancelled => galley::ToolStatus::Cancelled,
            Outcome::MaxTokens
            | Outcome::Refused
            | Outcome::Failed
            | Outcome::Lost
            | Outcome::Unseen
            | Outcome::NotSent => galley::ToolStatus::Failed,
        };
        for tag in running {
            self.end_tool(now, tag, status, String::new());
        }
        let Some(mut run) = self.run.take() else { return };
        let exit = self.exit(now, &ended, run.question.is_some());
        let mut telemetry = spent(ended.spent.as_ref());
        telemetry.elapsed_ms = u64::try_from(now.mono.since(run.began).as_millis()).ok();
        let (content, answer) = (run.content.take().text, run.answer.take().text);
        let summary = answer.trim().lines().next().unwrap_or_default().chars().take(SUMMARY).collect();
        let end = RunEnd {
            reason: ExitReason { data: Json::new(&ended.word), ..ExitReason::new(&exit) },
            final_content: answer,
            telemetry: Some(telemetry),
            question: run.question.take(),
        };
        let turn = Box::new(Turn { summary, content });
        self.obey(now, Command::EndRun { run: run.key, turn, end: Box::new(end) });
    }

    /// The word of the protocol for the end of a run; why it failed is told before.
    fn exit(&mut self, now: Now, ended: &Ended, asks: bool) -> Exit {
        let trouble = ended.trouble.as_ref().map(|trouble| trouble.message.clone());
        match (ended.how, ended.word.as_deref()) {
            (Outcome::Completed, _) if asks => Exit::Exited,
            (Outcome::Completed, _) => Exit::Done,
            (Outcome::Cancelled, _) => Exit::Aborted,
            (Outcome::Failed, Some("max_turn_requests")) if trouble.is_none() => Exit::MaxTurns,
            (Outcome::MaxTokens | Outcome::Refused, _) => Exit::Exited,
            (how @ (Outcome::Failed | Outcome::Lost | Outcome::Unseen | Outcome::NotSent), _) => {
                let why = trouble.unwrap_or_else(|| no_end(how).to_owned());
                let error = runtime_error(&why, "user_message", None);
                self.obey(now, Command::Warn(Box::new(error)));
                Exit::Exited
            }
        }
    }
}

/// What a turn took, as far as the agent says it in the words of the draft.
fn spent(spent: Option<&Json>) -> Telemetry {
    let spent: serde_json::Value =
        spent.and_then(|spent| serde_json::from_str(spent.get()).ok()).unwrap_or_default();
    let count = |name: &str| spent.get(name).and_then(serde_json::Value::as_u64);
    Telemetry {
        input_tokens: count("inputTokens"),
        output_tokens: count("outputTokens"),
        cache_create_tokens: count("cachedWriteTokens"),
        cache_read_tokens: count("cachedReadTokens"),
        ..Telemetry::default()
    }
}

/// Calls of a run that are told.
const CALLS: usize = 1000;
/// Characters of the line that says what a run was.
const SUMMARY: usize = 100;
/// Bytes of an answer that are kept, and of all calls together.
const CONTENT: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_so_many_calls_and_so_much_of_them() {
        let mut run = Run::new(Now::default(), RunKey(0), TurnId(1), Vec::new());
        let call = |number: usize| ToolCallUpdate {
            tool_call_id: format!("c{number}"),
            raw_input: Some(Json::new(&"x".repeat(16 << 10))),
            ..ToolCallUpdate::default()
        };
        for number in 0..2 * CALLS {
            let id = format!("c{number}");
            assert_eq!(run.has_room(&id), number < CALLS);
            if run.has_room(&id) {
                run.note(Tag(0), call(number));
                run.settle(&id);
            }
        }
        let kept =
            |run: &Run| run.calls.values().map(|known| Json::new(&known.call).get().len()).sum::<usize>();
        assert_eq!(run.calls.len(), CALLS);
        assert!(run.bytes <= CONTENT && kept(&run) <= CONTENT + CALLS * 64, "{}", kept(&run));
        // One that is forgotten makes room.
        run.forget("c0");
        assert!(run.has_room("new"));
        run.note(Tag(0), call(0));
        run.settle("c0");
        assert_eq!(run.bytes, run.calls.values().map(|known| known.bytes).sum::<usize>());
        assert!(run.calls["c0"].call.raw_input.is_some());
    }
}
