//! Questions: each is asked once and settled once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{ApprovalId, Book, Do, Fact, No, Prompt, Sid, SourceId, Taken};
use crate::acp::form::Form;
use crate::acp::permission::first_of;
use crate::acp::update::ToolCallUpdate;
use crate::acp::{ContentBlock, OptionKind, PermissionOption};
use crate::hub::api::{By, Decision, Policy, Who};
use crate::machine::Now;
use crate::rpc::Json;
use crate::session::{AskId, Asked, Question, Reply, Wish};

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Its number.
    pub id: ApprovalId,
    /// The session it belongs to; none where a program asks, or an agent outside of its sessions.
    pub sid: Option<Sid>,
    /// The agent, or the program that asks.
    pub asker: Arc<str>,
    /// What is asked.
    pub asked: Asked,
    /// When, since the Unix epoch.
    pub at: Duration,
    /// How it ended.
    pub settled: Option<Settlement>,
    source: Option<SourceId>,
}

/// How a question ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settlement {
    /// The option that was chosen.
    pub option: Option<String>,
    /// By whom, or why not.
    pub by: By,
    /// The program that answered.
    pub who: Option<Who>,
    /// When, since the Unix epoch.
    pub at: Duration,
}

/// An answer of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// By kind.
    Decision(Decision),
    /// Exactly that option.
    Option(String),
    /// Words, or the content of a form.
    Content(Json),
}

/// What a form is filled with.
type Members = serde_json::Map<String, serde_json::Value>;

#[derive(Debug, Default)]
pub(super) struct Asks {
    open: BTreeMap<ApprovalId, Ask>,
    by_source: BTreeMap<(SourceId, AskId), ApprovalId>,
    settled: VecDeque<Ask>,
}

/// Bytes of a call's input, and of its content, that a question shows. 256 KiB: it goes to every client that looks, three
/// times in a frame, and no frame may be so large that a watcher is left without it.
const SHOWN: usize = 256 << 10;
/// Questions that are over and remembered, for how long, and with how much of their calls.
const REMEMBERED: usize = 1000;
const REMEMBERED_BYTES: usize = 4 << 10;
const REMEMBER: Duration = Duration::from_secs(24 * 3600);

impl Asks {
    pub(super) fn open(&self) -> impl Iterator<Item = &Ask> {
        self.open.values()
    }

    pub(super) fn settled(&self) -> impl Iterator<Item = &Ask> {
        self.settled.iter()
    }

    pub(super) fn get(&self, id: ApprovalId) -> Option<&Ask> {
        self.open.get(&id).or_else(|| self.settled.iter().rev().find(|ask| ask.id == id))
    }

    pub(super) fn by_source(&self, source: SourceId, ask: AskId) -> Option<ApprovalId> {
        self.by_source.get(&(source, ask)).copied()
    }

    fn insert(&mut self, ask: Ask) {
        if let Some(source) = ask.source {
            self.by_source.insert((source, ask.asked.ask), ask.id);
        }
        self.open.insert(ask.id, ask);
    }

    /// Settles a question; what it was about, to be looked at.
    fn close(&mut self, id: ApprovalId, settlement: Settlement) -> Option<&Ask> {
        let mut ask = self.open.remove(&id)?;
        if let Some(source) = ask.source {
            self.by_source.remove(&(source, ask.asked.ask));
        }
        let old = settlement.at.saturating_sub(REMEMBER);
        let is_old = |ask: &Ask| ask.settled.as_ref().is_some_and(|settled| settled.at < old);
        while self.settled.len() >= REMEMBERED || self.settled.front().is_some_and(is_old) {
            self.settled.pop_front();
        }
        if let Question::Permission { call, .. } = &mut ask.asked.question {
            lighten(call, REMEMBERED_BYTES);
        }
        ask.settled = Some(settlement);
        self.settled.push_back(ask);
        self.settled.back()
    }
}

/// Leaves out input and content of more than so many bytes each.
fn lighten(call: &mut ToolCallUpdate, most: usize) {
    call.raw_input.take_if(|input| input.get().len() > most);
    let is_large = |content: &mut Vec<_>| serde_json::to_vec(&*content).is_ok_and(|json| json.len() > most);
    call.content.take_if(is_large);
}

impl Ask {
    /// The source that asks; none where a program does.
    #[must_use]
    pub const fn source(&self) -> Option<SourceId> {
        self.source
    }

    /// Whether the next prompt answers it.
    #[must_use]
    pub const fn is_words(&self) -> bool {
        matches!(self.asked.question, Question::Words { .. })
    }

    /// What can be chosen.
    #[must_use]
    pub fn options(&self) -> &[PermissionOption] {
        match &self.asked.question {
            Question::Permission { options, .. } => options,
            Question::Words { .. } | Question::Form { .. } | Question::Page { .. } => &[],
        }
    }

    /// The option of the first of these kinds that is offered: never by its place, never by its name.
    fn first(&self, kinds: &[OptionKind]) -> Option<String> {
        first_of(self.options(), kinds).map(|option| option.option_id.clone())
    }

    /// What a policy answers. A policy is narrower than a person: it allows nothing for ever.
    fn by_policy(&self, policy: Policy) -> Option<Reply> {
        let Question::Permission { .. } = &self.asked.question else { return None };
        match policy {
            Policy::Ask => None,
            Policy::Allow => self.first(&[OptionKind::AllowOnce]).map(Reply::Choose),
            Policy::Reject => {
                let option = self.first(&[OptionKind::RejectOnce, OptionKind::RejectAlways]);
                Some(option.map_or(Reply::Cancel, Reply::Choose))
            }
        }
    }

    fn reply(&self, answer: &Answer) -> Option<Reply> {
        let allow = [OptionKind::AllowOnce, OptionKind::AllowAlways];
        let deny = [OptionKind::RejectOnce, OptionKind::RejectAlways];
        match (&self.asked.question, answer) {
            (Question::Permission { .. }, Answer::Decision(Decision::Allow)) => {
                self.first(&allow).map(Reply::Choose)
            }
            (Question::Permission { .. }, Answer::Decision(Decision::Deny)) => {
                self.first(&deny).map(Reply::Choose)
            }
            (Question::Permission { options, .. }, Answer::Option(id)) => {
                let offered = options.iter().any(|option| option.option_id == *id);
                offered.then(|| Reply::Choose(id.clone()))
            }
            (Question::Form { schema, .. }, Answer::Content(content)) => {
                let form = schema.as_ref().map(Form::read).unwrap_or_default();
                let members: Members = serde_json::from_str(content.get()).ok()?;
                form.check(&members).is_ok().then(|| Reply::Accept(Some(content.clone())))
            }
            (Question::Page { .. }, Answer::Content(content)) => {
                let members: Members = serde_json::from_str(content.get()).ok()?;
                members.is_empty().then_some(Reply::Accept(None))
            }
            (Question::Page { .. }, Answer::Decision(Decision::Allow)) => Some(Reply::Accept(None)),
            (Question::Form { .. } | Question::Page { .. }, Answer::Decision(Decision::Deny)) => {
                Some(Reply::Decline)
            }
            (
                Question::Permission { .. }
                | Question::Words { .. }
                | Question::Form { .. }
                | Question::Page { .. },
                _,
            ) => None,
        }
    }
}

impl Book {
    /// A program that is no source asks. It is told the end as [`Fact::Settled`].
    pub fn ask_for(&mut self, now: Now, program: Arc<str>, question: Question) -> ApprovalId {
        let asked = Asked { ask: AskId(0), question, of: None, expires: None };
        let id = self.open_ask(now, None, None, program, asked);
        self.out.push_back(Do::Tell(None, Fact::Asked(id)));
        id
    }

    /// An agent asks outside of the sessions that the book knows: one of its own, a subagent's. While several turns run
    /// there it is nobody's in particular; while none does it is answered at once.
    pub fn ask_beside(&mut self, now: Now, source: SourceId, agent: Arc<str>, asked: Asked) {
        let works = self.at(source).any(|sid| self.get(sid).is_some_and(|it| it.turn_at() == Some(source)));
        // Words are the next prompt's to say, and there is no session to say it to.
        if !works || matches!(asked.question, Question::Words { .. }) {
            let wish = Wish::Answer { ask: asked.ask, reply: Reply::Cancel };
            return self.out.push_back(Do::Answer(source, wish));
        }
        let id = self.open_ask(now, None, Some(source), agent, asked);
        self.out.push_back(Do::Tell(None, Fact::Asked(id)));
    }

    /// Whoever asked takes it back.
    pub fn take_back(&mut self, now: Now, id: ApprovalId, by: By) {
        self.settle_ask(now, id, None, None, by, None);
    }

    /// The first answer counts.
    ///
    /// # Errors
    ///
    /// The question is over, was never asked, or takes no such answer; it is open as before.
    pub fn respond(&mut self, now: Now, id: ApprovalId, answer: &Answer, who: Option<Who>) -> Result<(), No> {
        let Some(ask) = self.asks.open.get(&id) else {
            let by = self.asks.get(id).and_then(|ask| Some(ask.settled.as_ref()?.by));
            let given = id.0 > 0 && id.0 <= self.given.approvals;
            return Err(if given { No::Answered(by.unwrap_or(By::Gone)) } else { No::Question });
        };
        let sid = ask.sid;
        if let (true, Some(sid), Answer::Content(content)) = (ask.is_words(), sid, answer) {
            return self.say(now, sid, content).map(drop);
        }
        let reply = ask.reply(answer).ok_or(No::NotOffered)?;
        let option = if let Reply::Choose(option) = &reply { Some(option.clone()) } else { None };
        self.settle_ask(now, id, Some(reply), option, By::Client, who);
        if let Some(sid) = sid {
            self.settle(now, sid);
        }
        Ok(())
    }

    /// An answer as it goes to the source. Whoever gives it has seen that it fits.
    ///
    /// # Errors
    ///
    /// The question is not open, or the next prompt answers it.
    pub fn reply(&mut self, now: Now, id: ApprovalId, reply: Reply, by: By) -> Result<(), No> {
        let ask = self.asks.open.get(&id).filter(|ask| !ask.is_words()).ok_or(No::Question)?;
        let sid = ask.sid;
        let option = if let Reply::Choose(option) = &reply { Some(option.clone()) } else { None };
        self.settle_ask(now, id, Some(reply), option, by, None);
        if let Some(sid) = sid {
            self.settle(now, sid);
        }
        Ok(())
    }

    fn say(&mut self, now: Now, sid: Sid, content: &Json) -> Result<Taken, No> {
        let text: String = serde_json::from_str(content.get()).map_err(|_| No::NotOffered)?;
        let prompt = Prompt { words: vec![ContentBlock::text(text)], by: None, at: now.unix };
        self.prompt(now, sid, prompt)
    }

    /// A session asks.
    pub(super) fn asked(&mut self, now: Now, sid: Sid, source: SourceId, asked: &Asked) {
        self.supersede(now, sid, source, asked);
        let Some(session) = self.sessions.get(&sid) else { return };
        let (policy, ours) = (session.policy, session.turn.as_ref().is_some_and(|it| it.prompt.is_some()));
        let agent = Arc::clone(&session.home.agent);
        let id = self.open_ask(now, Some(sid), Some(source), agent, asked.clone());
        self.tell(sid, Fact::Asked(id));
        let reply = self.asks.open.get(&id).filter(|_| ours).and_then(|ask| ask.by_policy(policy));
        if let Some(reply) = reply {
            let option = if let Reply::Choose(option) = &reply { Some(option.clone()) } else { None };
            self.settle_ask(now, id, Some(reply), option, By::Policy, None);
        }
    }

    /// What a new question makes superfluous: the same call asked again, or other words.
    fn supersede(&mut self, now: Now, sid: Sid, source: SourceId, asked: &Asked) {
        let call = |asked: &Asked| match &asked.question {
            Question::Permission { call, .. } => Some(call.tool_call_id.clone()),
            Question::Words { .. } | Question::Form { .. } | Question::Page { .. } => None,
        };
        if let Question::Words { .. } = asked.question
            && let Some(old) = self.sessions.get(&sid).and_then(|session| session.words)
        {
            return self.settle_ask(now, old, None, None, By::Withdrawn, None);
        }
        let Some(same) = call(asked) else { return };
        let old = self.asks.open.values().find(|ask| {
            ask.source == Some(source) && ask.sid == Some(sid) && call(&ask.asked).as_ref() == Some(&same)
        });
        if let Some(old) = old.map(|ask| ask.id) {
            self.settle_ask(now, old, Some(Reply::Cancel), None, By::Withdrawn, None);
        }
    }

    fn open_ask(
        &mut self,
        now: Now,
        sid: Option<Sid>,
        source: Option<SourceId>,
        asker: Arc<str>,
        asked: Asked,
    ) -> ApprovalId {
        self.given.approvals += 1;
        self.reserve();
        let id = ApprovalId(self.given.approvals);
        let mut asked = asked;
        if let (Question::Permission { call, .. }, false) = (&mut asked.question, self.forgets) {
            lighten(call, SHOWN);
        }
        let ask = Ask { id, sid, asker, asked, at: now.unix, settled: None, source };
        if let Some(session) = sid.and_then(|sid| self.sessions.get_mut(&sid)) {
            match ask.asked.question {
                Question::Words { .. } => session.words = Some(id),
                Question::Permission { .. } => session.open += 1,
                Question::Form { .. } | Question::Page { .. } => {
                    session.open += 1;
                    session.forms += 1;
                }
            }
        }
        self.asks.insert(ask);
        id
    }

    /// Questions that end with the turns of a source: of one session, or of none. Those in words do not.
    pub(super) fn drop_asks(
        &mut self,
        now: Now,
        sid: Option<Sid>,
        source: SourceId,
        reply: Option<&Reply>,
        by: By,
    ) {
        if sid.is_some_and(|sid| self.sessions.get(&sid).is_none_or(|session| session.open == 0)) {
            return;
        }
        let gone = self
            .asks
            .open
            .values()
            .filter(|ask| ask.sid == sid && ask.source == Some(source) && !ask.is_words())
            .map(|ask| ask.id);
        for id in gone.collect::<Vec<_>>() {
            self.settle_ask(now, id, reply.cloned(), None, by, None);
        }
    }

    /// The question in words of a session is over.
    pub(super) fn drop_words(&mut self, now: Now, sid: Sid, by: By) {
        if let Some(words) = self.sessions.get(&sid).and_then(|session| session.words) {
            self.settle_ask(now, words, None, None, by, None);
        }
    }

    /// The one place where a question ends. It moves no queue: a step does that once, at its end.
    pub(super) fn settle_ask(
        &mut self,
        now: Now,
        id: ApprovalId,
        reply: Option<Reply>,
        option: Option<String>,
        by: By,
        who: Option<Who>,
    ) {
        let settlement = Settlement { option, by, who, at: now.unix };
        let Some(Ask { sid, source, asked, .. }) = self.asks.close(id, settlement) else { return };
        let (sid, source, ask) = (*sid, *source, asked.ask);
        if let Some(session) = sid.and_then(|sid| self.sessions.get_mut(&sid)) {
            match asked.question {
                Question::Words { .. } => session.words = session.words.filter(|words| *words != id),
                Question::Permission { .. } => session.open -= 1,
                Question::Form { .. } | Question::Page { .. } => {
                    session.open -= 1;
                    session.forms -= 1;
                }
            }
        }
        if let (Some(reply), Some(source)) = (reply, source) {
            // The answer is written before anybody hears of it.
            self.out.push_back(Do::Answer(source, Wish::Answer { ask, reply }));
        }
        self.out.push_back(Do::Tell(sid, Fact::Settled(id)));
    }

    /// A source says that a question needs no answer.
    pub(super) fn settled_there(&mut self, now: Now, source: SourceId, ask: AskId, by: By) {
        if let Some(id) = self.asks.by_source(source, ask) {
            self.settle_ask(now, id, None, None, by, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(question: Question) -> Ask {
        let asked = Asked { ask: AskId(1), question, of: None, expires: None };
        let (id, sid, at) = (ApprovalId(1), None, Duration::ZERO);
        Ask { id, sid, asker: "a".into(), asked, at, settled: None, source: None }
    }

    #[test]
    fn a_form_takes_what_fits_it_and_a_page_no_words() {
        let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let form = ask(Question::Form { text: "how many".into(), schema: Some(Json::new(&schema)) });
        let page = ask(Question::Page { text: "go".into(), url: "https://a.b".into(), id: "p".into() });
        let says = |content| Answer::Content(Json::new(&content));
        assert!(form.reply(&says(json!({"n": 3}))).is_some());
        for content in [json!({"n": "three"}), json!({}), json!({"n": 3, "m": 4}), json!("3"), json!([3])] {
            assert_eq!(form.reply(&says(content.clone())), None, "{content}");
        }
        assert_eq!(page.reply(&says(json!("no"))), None);
        assert_eq!(page.reply(&says(json!({}))), Some(Reply::Accept(None)));
        assert_eq!(page.reply(&Answer::Decision(Decision::Allow)), Some(Reply::Accept(None)));
        assert_eq!(page.reply(&Answer::Decision(Decision::Deny)), Some(Reply::Decline));
    }

    #[test]
    fn what_is_too_large_to_be_shown_is_left_out() {
        for (length, is_shown) in [(100, true), (SHOWN, false)] {
            let text = "x".repeat(length);
            let diff = json!([{"type": "diff", "path": "/a", "newText": text}]);
            let call =
                json!({"toolCallId": "c", "title": "t", "rawInput": {"content": text}, "content": diff});
            let mut call = serde_json::from_str::<ToolCallUpdate>(&call.to_string()).expect("a call");
            lighten(&mut call, SHOWN);
            assert_eq!((call.raw_input.is_some(), call.content.is_some()), (is_shown, is_shown), "{length}");
            assert_eq!(call.title.as_deref(), Some("t"));
        }
    }
}
