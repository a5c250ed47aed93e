//! What readers are told: of news, of what the book says, and when nobody looks.

use super::agents::Agent;
use super::api::Status;
use super::book::{ApprovalId, Fact, Sid};
use super::config::{Event, Notice, NoticeKind};
use super::frames;
use super::machine::Hub;
use super::show;
use super::watch::Once;
use crate::control::{Answer, ErrorTag, Failure, Key, server};
use crate::excerpt;
use crate::machine::{Now, Refused};
use crate::session::{Item, Moment, Outcome};

impl Hub {
    /// Encoded once for all, and not at all for nobody.
    pub(super) fn show(&mut self, now: Now, sid: Sid, item: &Item) {
        let Some(session) = self.book.get(sid) else { return };
        if self.watch.of(sid).next().is_none() {
            return;
        }
        let Some(what) = frames::news(item, session, now.unix, self.started.unix) else { return };
        let (thought, raw_only) = (frames::is_thought(&what), frames::is_raw(&what));
        let running = session.running().map(|(turn, _)| turn.0).filter(|_| item.moment == Moment::Turn);
        let mut once = Once::new(frames::frame(sid, running, now.unix, what), item.raw.as_ref());
        let takes = |it: &&super::watch::Watcher| (it.thoughts || !thought) && (it.raw || !raw_only);
        let told: Vec<_> = self.watch.of(sid).filter(takes).map(|it| (it.key, once.of(it))).collect();
        for (key, frame) in told {
            self.frame(now, key, frame);
        }
    }

    /// What the book says goes to whoever follows that session, and of questions to whoever follows those.
    pub(super) fn fact(&mut self, now: Now, sid: Option<Sid>, fact: &Fact) {
        let asks = if let Fact::Asked(id) | Fact::Settled(id) = fact { Some(*id) } else { None };
        if let (Some(sid), Fact::NotSent(turn, _)) = (sid, fact) {
            self.unsent.insert(*turn);
            self.due.insert(sid);
        }
        if let Some(sid) = sid {
            self.note_fact(now, sid, fact);
            if let Fact::Settled(id) = fact {
                self.learn(now, sid, *id);
            }
            self.fact_of(now, sid, fact, asks);
        }
        if let Some(id) = asks {
            self.question(now, id, matches!(fact, Fact::Settled(_)));
        }
        self.notify(sid, fact);
        if let Some(sid) = sid {
            self.check_waits(now, sid);
        }
    }

    fn fact_of(&mut self, now: Now, sid: Sid, fact: &Fact, asks: Option<ApprovalId>) {
        if *fact == Fact::Changed {
            return self.changed(now, sid);
        }
        if self.watch.of(sid).next().is_none() {
            return;
        }
        let ask = asks.and_then(|id| self.book.ask(id));
        let frames = frames::fact(fact, ask, self.book.get(sid), self.is_retryable(sid, fact));
        let keys: Vec<Key> = self.watch.of(sid).map(|watcher| watcher.key).collect();
        for what in frames {
            let json = frames::frame(sid, frames::turn_of(fact), now.unix, what).to_json();
            for key in &keys {
                self.frame(now, *key, json.clone());
            }
        }
    }

    /// Whether a turn that is over could be tried again. What is lost has to be opened once more.
    fn is_retryable(&self, sid: Sid, fact: &Fact) -> bool {
        let (Fact::Ended(end), Some(session)) = (fact, self.book.get(sid)) else { return false };
        let usable = self.agents.get(&session.home.agent).is_some_and(Agent::is_usable);
        let stays = end.how != Outcome::Lost && session.driver().is_some();
        session.can_retry() && (stays || (usable && session.is_openable()))
    }

    /// A person is told, if none looks.
    fn notify(&mut self, sid: Option<Sid>, fact: &Fact) {
        let (kind, text, ask) = match fact {
            Fact::Asked(id) => {
                let Some(ask) = self.book.ask(*id).filter(|ask| ask.settled.is_none()) else { return };
                let kind = if ask.options().is_empty() { NoticeKind::Question } else { NoticeKind::Approval };
                (kind, show::approval(ask).title, Some(*id))
            }
            Fact::Ended(end) if end.how == Outcome::Completed => (NoticeKind::Finished, String::new(), None),
            Fact::Ended(end) if end.stand.status == Status::Error => {
                let why = end.stand.error.as_ref().map(|error| excerpt::line(&error.message, 200));
                (NoticeKind::Failed, why.unwrap_or_default(), None)
            }
            Fact::Queued(..)
            | Fact::Began(..)
            | Fact::Ended(_)
            | Fact::NotSent(..)
            | Fact::Changed
            | Fact::Settled(_) => return,
        };
        if self.watch.is_attended(sid, ask.is_some()) {
            return;
        }
        let session = sid.and_then(|sid| self.book.get(sid));
        let title = session.and_then(|it| it.label.clone().or_else(|| it.story.title().map(str::to_owned)));
        let text = if text.is_empty() {
            session.and_then(|it| it.story.last()).unwrap_or_default().to_owned()
        } else {
            text
        };
        self.out.tell(Event::Notify(Box::new(Notice {
            kind,
            session_id: sid.map(|sid| sid.to_string()),
            approval_id: ask.map(|id| id.to_string()),
            title: title.unwrap_or_default(),
            agent: session.map(|it| it.home.agent.to_string()).unwrap_or_default(),
            text: excerpt::line(&text, 200),
        })));
    }

    pub(super) fn frame(&mut self, now: Now, key: Key, data: crate::rpc::Json) {
        self.answer(now, key, Answer::Frame(data));
    }

    /// How things stand: written as the client reads.
    pub(super) fn state(&mut self, now: Now, key: Key, frames: Vec<crate::rpc::Json>) {
        // Refused when the client is gone.
        let _ = self.control.command(now, &(), server::Command::State(key, frames));
    }

    pub(super) fn fail(&mut self, now: Now, key: Key, failure: Failure) {
        self.answer(now, key, Answer::Fail(failure));
    }

    pub(super) fn answer(&mut self, now: Now, key: Key, answer: Answer) {
        let too_long = self.control.command(now, &(), server::Command::Answer(key, answer));
        // Any other refusal means that the client is gone.
        if too_long == Err(Refused::Limit("bytes of an answer")) {
            let failure =
                Failure::new(ErrorTag::Internal, "the answer is too long: ask for less, by limit or tail");
            let _ = self.control.command(now, &(), server::Command::Answer(key, Answer::Fail(failure)));
        }
    }
}
