//! Turns: how one begins, what its source says, and how it ends, once.

use std::sync::Arc;

use super::session::{Child, Queued, Stuck, Turn};
use super::{Book, CONFIRM, Do, Fact, Kept, No, Session, Sid, SourceId, Stand, TurnEnd};
use crate::hub::api::{By as Settler, Reason, Status};
use crate::machine::{Now, Refused, Time};
use crate::rpc::RpcError;
use crate::session::{By, Can, Ended, Item, Moment, Name, News, Outcome, Reply, Settled, TurnId, Wish};

impl Book {
    /// It is open in that child, under that name. `false`: too late, a link has taken it or nobody wants it any more.
    pub fn opened(&mut self, now: Now, sid: Sid, source: SourceId, name: Name, can: Can) -> bool {
        let Some(session) = self.sessions.get_mut(&sid).filter(|session| session.child == Child::Wanted)
        else {
            return false;
        };
        let is_new = session.name.is_none();
        session.child = Child::Open(source);
        session.can = Some(can);
        session.story.read(true);
        session.story.complete |= is_new;
        self.meets(source, sid);
        self.name(sid, name);
        self.settle(now, sid);
        true
    }

    /// It could not be opened. The prompt that wanted it is over, those behind it wait for a person.
    pub fn not_opened(&mut self, now: Now, sid: Sid, stand: Stand) {
        let Some(session) = self.sessions.get_mut(&sid).filter(|session| session.child == Child::Wanted)
        else {
            return;
        };
        session.child = Child::None;
        session.story.read(false);
        let wanted = session.queue.pop_front();
        session.hold(stand.reason.unwrap_or(Reason::StartFailed));
        session.stand = stand;
        session.active = now.unix;
        if let Some(Queued { turn, prompt, .. }) = wanted {
            self.remember(sid, Some((turn, prompt)));
            self.tell(sid, Fact::NotSent(turn, "start_failed"));
        }
        self.settle(now, sid);
    }

    /// What is told next is its history, until it is open.
    pub fn reread(&mut self, sid: Sid) {
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.story.reread();
        }
    }

    /// All of it was told.
    pub fn reread_over(&mut self, sid: Sid) {
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.story.read(true);
        }
    }

    /// A link says that it has the session. `false`: it is somebody else's.
    pub fn announce(&mut self, now: Now, sid: Sid, link: SourceId, name: Name, can: Can) -> bool {
        let Some(session) = self.sessions.get_mut(&sid) else { return false };
        if session.link == Some(link) {
            return true;
        }
        if session.link.is_some() || session.turn.is_some() || session.stuck.is_some() || session.archived {
            return false;
        }
        (session.link, session.child) = (Some(link), Child::None);
        session.can = Some(can);
        session.story.read(false);
        self.meets(link, sid);
        self.name(sid, name);
        self.drop_words(now, sid, Settler::Withdrawn);
        if !can.prompt {
            self.drop_queue(sid, "no_prompt");
        }
        self.settle(now, sid);
        true
    }

    /// A link has opened it, and has it from here on. `false`: nobody wants it any more.
    pub fn opened_by_link(&mut self, now: Now, sid: Sid, link: SourceId, name: Name, can: Can) -> bool {
        let Some(session) = self.sessions.get_mut(&sid) else { return false };
        session.story.complete |= session.name.is_none();
        self.announce(now, sid, link, name, can)
    }

    /// What a source says of a session. `false`: it is not for readers, since that source has no say in it, or since
    /// they have it already.
    pub fn news(&mut self, now: Now, sid: Sid, source: SourceId, item: &Item) -> bool {
        let Some(session) = self.sessions.get_mut(&sid) else { return false };
        if item.moment == Moment::Replay {
            if !self.forgets {
                session.story.hear(now.unix, &item.news, true);
            }
            return false;
        }
        if let News::Asked(asked) = &item.news
            && !session.may_ask(source, &asked.question)
        {
            let reply = if session.is_at(source) { Reply::Cancel } else { Reply::NotMe };
            self.out.push_back(Do::Answer(source, Wish::Answer { ask: asked.ask, reply }));
            return false;
        }
        if !session.is_at(source) {
            return false;
        }
        if !self.forgets {
            if is_echo(&item.news) && session.turn.as_ref().is_some_and(|turn| turn.prompt.is_some()) {
                return false;
            }
            session.story.hear(now.unix, &item.news, false);
        }
        match &item.news {
            News::Text { .. } | News::Block(_) | News::Tool { .. } => {
                session.active = now.unix;
                return true;
            }
            News::Began(By::There) => self.began_there(now, sid, source),
            News::Ended(ended) => self.ended(now, sid, source, ended),
            News::Asked(asked) => self.asked(now, sid, source, asked),
            News::Settled(ask, how) => self.settled_there(now, source, *ask, settler(*how)),
            News::Can(can) => session.can = Some(**can),
            News::Closed => self.leave(now, sid, source, &gone()),
            News::Opened
            | News::Announced(_)
            | News::Began(By::Us(_))
            | News::Busy(_)
            | News::Step(_)
            | News::Plan(_)
            | News::Commands(_)
            | News::Info { .. }
            | News::Mode(_)
            | News::Options(_)
            | News::Usage(_)
            | News::Warned(_)
            | News::Note(_)
            | News::Hosted(_)
            | News::Other(_) => {}
        }
        self.settle(now, sid);
        true
    }

    /// A prompt that its source would not take: not a byte of it was sent.
    pub fn refused(&mut self, now: Now, sid: Sid, turn: TurnId, why: Refused) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        if session.turn.take_if(|it| it.id == turn).is_none() {
            return;
        }
        session.stand = Stand::new(Status::Error, Some(Reason::NotSent)).because("refused", why.to_string());
        // The first refusal for room holds the rest: they would be refused in the same step.
        session.hold(Reason::NotSent);
        self.tell(sid, Fact::NotSent(turn, "refused"));
        self.settle(now, sid);
    }

    /// The source is over; every session of it stands as that says, if it was at work, and what waits is held for that
    /// reason. Without a reason it left since it had nothing to do, or was replaced.
    pub fn down(&mut self, now: Now, source: SourceId, stand: &Stand) {
        self.leaving.remove(&source);
        for sid in self.at.remove(&source).unwrap_or_default() {
            self.leave(now, sid, source, stand);
            // How its process ended is known later than that the turn did.
            if let Some(session) = self.sessions.get_mut(&sid)
                && session.stand.reason == Some(Reason::AgentExited)
                && stand.reason == session.stand.reason
                && stand.error.is_some()
            {
                session.stand.error.clone_from(&stand.error);
            }
            self.settle(now, sid);
        }
        self.drop_asks(now, None, source, None, Settler::Gone);
    }

    /// Fires the clocks of cancels.
    pub fn tick(&mut self, now: Now) {
        while let Some((at, sid)) = self.clocks.first().copied()
            && at <= now.mono
        {
            self.clocks.pop_first();
            self.give_up(now, sid, at);
        }
    }

    fn give_up(&mut self, now: Now, sid: Sid, at: Time) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        if let Some(stuck) = session.stuck.as_mut().filter(|stuck| stuck.due == Some(at)) {
            (stuck.due, stuck.given_up) = (None, true);
            let source = stuck.source;
            self.replace(source);
            return;
        }
        let Some(turn) = session.turn.as_ref().filter(|turn| turn.due == Some(at)) else { return };
        let (id, source) = (turn.id, turn.source);
        session.stuck = Some(Stuck { source, turn: id, due: None, given_up: true });
        let stand = Stand::new(Status::Cancelled, Some(Reason::Unconfirmed));
        self.end(now, sid, Outcome::Cancelled, stand, None, Some(&Reply::Cancel));
        if !self.replace(source)
            && let Some(session) = self.sessions.get_mut(&sid)
        {
            session.hold(Reason::AgentBusy);
        }
        self.settle(now, sid);
    }

    /// A child that goes on with turns that were given up is replaced as soon as it has no other. Whether it is.
    fn replace(&mut self, source: SourceId) -> bool {
        let all = || self.at(source).filter_map(|sid| self.sessions.get(&sid));
        let is_stuck = |session: &Session| session.stuck.is_some_and(|it| it.source == source && it.given_up);
        if !all().any(is_stuck) || all().any(|session| session.turn_at() == Some(source)) {
            return false;
        }
        if self.leaving.insert(source) {
            self.out.push_back(Do::Replace(source));
        }
        true
    }

    /// Sends what waits, if it may go: the driver is looked up in the same step that sends.
    pub(super) fn go_on(&mut self, now: Now, sid: Sid) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let Some(next) = session.next().filter(|_| !session.waits() && !self.paused) else { return };
        let source = match (session.link, session.child) {
            (Some(link), _) => link,
            (None, Child::Open(child)) if self.leaving.contains(&child) => return,
            (None, Child::Open(child)) => child,
            (None, Child::Wanted) => return,
            (None, Child::None) => {
                session.child = Child::Wanted;
                return self.out.push_back(Do::Open(sid));
            }
        };
        let Some(Queued { turn, prompt, .. }) = session.queue.remove(next) else { return };
        let wish = Wish::Prompt {
            session: session.name.clone().unwrap_or_else(|| "".into()),
            turn,
            words: prompt.words.clone(),
        };
        self.remember(sid, Some((turn, Arc::clone(&prompt))));
        self.begin(now, sid, source, turn, Some(prompt));
        self.drop_words(now, sid, Settler::Client);
        self.wish(source, sid, wish);
    }

    fn begin(
        &mut self,
        now: Now,
        sid: Sid,
        source: SourceId,
        id: TurnId,
        prompt: Option<Arc<super::Prompt>>,
    ) {
        self.make_room(sid);
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        session.active = now.unix;
        if !self.forgets {
            session.story.began(now.unix, prompt.as_deref());
        }
        session.turn = Some(Turn { id, source, prompt: prompt.clone(), cancelled: false, due: None });
        self.tell(sid, Fact::Began(id, prompt));
    }

    /// The transcripts of an agent's sessions are bounded: the one that was quiet for longest is forgotten, unless its
    /// session is at work.
    fn make_room(&mut self, sid: Sid) {
        let Some(session) = self.sessions.get(&sid).filter(|it| it.story.transcript.is_empty()) else {
            return;
        };
        let all = self.of(&session.home.agent).filter_map(|of| Some((of, self.sessions.get(&of)?)));
        let kept: Vec<_> =
            all.filter(|(of, session)| *of != sid && !session.story.transcript.is_empty()).collect();
        if kept.len() < TRANSCRIPTS {
            return;
        }
        let idle = kept.iter().filter(|(_, session)| session.turn.is_none() && session.questions() == 0);
        let oldest = idle.min_by_key(|(_, session)| session.active).map(|(sid, _)| *sid);
        if let Some(session) = oldest.and_then(|sid| self.sessions.get_mut(&sid)) {
            session.story.forget();
        }
    }

    fn began_there(&mut self, now: Now, sid: Sid, source: SourceId) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        if session.turn.is_some() {
            return;
        }
        session.stuck = None;
        // A question of before is nobody's any more.
        self.drop_asks(now, Some(sid), source, Some(&Reply::NotMe), Settler::Withdrawn);
        self.drop_words(now, sid, Settler::Terminal);
        let id = self.turn_id();
        self.begin(now, sid, source, id, None);
    }

    fn ended(&mut self, now: Now, sid: Sid, source: SourceId, ended: &Ended) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let is = |turn: TurnId| ended.turn.is_none_or(|of| of == turn);
        if session.turn.as_ref().is_some_and(|turn| turn.source == source && is(turn.id)) {
            let is_link = session.link == Some(source);
            let reply = if ended.how == Outcome::Lost { None } else { Some(&Reply::Cancel) };
            self.end(now, sid, ended.how, stand(ended, is_link), Some(ended), reply);
        } else if session.stuck.is_some_and(|stuck| stuck.source == source && is(stuck.turn)) {
            let due = session.stuck.take().and_then(|stuck| stuck.due);
            due.map(|at| self.clocks.remove(&(at, sid)));
            // It came to its end after all.
            self.leaving.remove(&source);
        }
        self.replace(source);
    }

    /// The end of a turn: told once, whatever else says so later. Its questions are answered by `reply`, if its source
    /// can still be answered.
    pub(super) fn end(
        &mut self,
        now: Now,
        sid: Sid,
        how: Outcome,
        stand: Stand,
        ended: Option<&Ended>,
        reply: Option<&Reply>,
    ) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let Some(turn) = session.turn.take() else { return };
        turn.due.map(|at| self.clocks.remove(&(at, sid)));
        session.active = now.unix;
        let word = ended.and_then(|ended| ended.word.as_deref());
        session.story.ended(how, word, &stand, ended.and_then(|ended| ended.spent.as_ref()));
        session.stand = stand.clone();
        if how == Outcome::Lost {
            session.hold(stand.reason.unwrap_or(Reason::AgentExited));
        }
        if how == Outcome::Completed && turn.prompt.is_some() {
            self.remember(sid, None);
        }
        let by = match reply {
            Some(_) => Settler::TurnEnded,
            None => Settler::Gone,
        };
        self.drop_asks(now, Some(sid), turn.source, reply, by);
        self.tell(sid, Fact::Ended(Box::new(TurnEnd { turn: turn.id, how, stand, ended: ended.cloned() })));
        if !self.at(turn.source).any(|sid| self.get(sid).is_some_and(|it| it.turn_at() == Some(turn.source)))
        {
            self.drop_asks(now, None, turn.source, reply, by);
        }
    }

    /// That source and that session have nothing to do with each other any more.
    pub(super) fn leave(&mut self, now: Now, sid: Sid, source: SourceId, stand: &Stand) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let mine = session.driver() == Some(source);
        // It was not at work, and its agent cannot open it again: that is all that its row can say.
        let is_lost = mine && session.turn.is_none() && session.link.is_none() && !session.is_openable();
        if let Some(reason) = stand.reason.filter(|_| is_lost) {
            (session.stand.reason, session.stand.error) = (Some(reason), stand.error.clone());
        }
        if let Some(rows) = self.of.get_mut(&session.home.agent) {
            // It may go from here on, where there are too many.
            rows.enough = 0;
        }
        if let Some(stuck) = session.stuck.take_if(|stuck| stuck.source == source) {
            stuck.due.map(|at| self.clocks.remove(&(at, sid)));
        }
        if session.link.take_if(|link| *link == source).is_some() {
            // What the link offered ends with it; what the agent's own process offers is told when it has the session.
            session.can = None;
        }
        if session.child() == Some(source) {
            session.child = Child::None;
        }
        // Where nothing went wrong, what waits goes on with the next process.
        if let Some(reason) = stand.reason.filter(|_| mine && session.held.is_none()) {
            session.hold(reason);
        }
        let words = session.words.filter(|_| mine);
        if session.turn_at() == Some(source) {
            self.end(now, sid, Outcome::Lost, stand.clone(), None, None);
        }
        self.drop_asks(now, Some(sid), source, None, Settler::Gone);
        if words.is_some() {
            self.drop_words(now, sid, Settler::Gone);
        }
    }

    /// The prompt that can be tried again from here on.
    pub(super) fn remember(&mut self, sid: Sid, last: Option<(TurnId, Arc<super::Prompt>)>) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let before = std::mem::replace(&mut session.last, last);
        if let Some((before, _)) = before {
            self.files.push_back(Kept::NoPrompt(sid, before));
        }
    }

    /// What waits is over.
    pub(super) fn drop_queue(&mut self, sid: Sid, why: &'static str) -> usize {
        let Some(session) = self.sessions.get_mut(&sid) else { return 0 };
        let waiting = std::mem::take(&mut session.queue);
        for Queued { turn, .. } in &waiting {
            self.files.push_back(Kept::NoPrompt(sid, *turn));
            self.tell(sid, Fact::NotSent(*turn, why));
        }
        waiting.len()
    }

    /// A child has that long to confirm.
    pub(super) fn confirm_by(&mut self, now: Now, sid: Sid) -> Time {
        let due = now.mono + CONFIRM;
        self.clocks.insert((due, sid));
        due
    }

    /// Everything about a session, to be changed.
    pub(super) fn session(&mut self, sid: Sid) -> Result<&mut Session, No> {
        self.sessions.get_mut(&sid).ok_or(No::Session)
    }
}

/// Transcripts that are kept of one agent.
const TRANSCRIPTS: usize = 100;

fn is_echo(news: &News) -> bool {
    use crate::acp::update::Speaker;
    match news {
        News::Text { speaker, .. } => *speaker == Speaker::User,
        News::Block(block) => block.0 == Speaker::User,
        News::Opened
        | News::Announced(_)
        | News::Can(_)
        | News::Began(_)
        | News::Busy(_)
        | News::Step(_)
        | News::Tool { .. }
        | News::Plan(_)
        | News::Commands(_)
        | News::Asked(_)
        | News::Settled(..)
        | News::Info { .. }
        | News::Mode(_)
        | News::Options(_)
        | News::Usage(_)
        | News::Warned(_)
        | News::Note(_)
        | News::Hosted(_)
        | News::Ended(_)
        | News::Closed
        | News::Other(_) => false,
    }
}

const fn settler(how: Settled) -> Settler {
    match how {
        Settled::Elsewhere => Settler::Terminal,
        Settled::Withdrawn => Settler::Withdrawn,
        Settled::TurnOver => Settler::TurnEnded,
        Settled::Expired => Settler::Expired,
        Settled::Lost => Settler::Gone,
    }
}

/// How a source that left a session by itself leaves it.
const fn gone() -> Stand {
    Stand::new(Status::Cancelled, Some(Reason::LinkLost))
}

/// Where the end of a turn leaves a session.
fn stand(ended: &Ended, is_link: bool) -> Stand {
    let error = |reason| Stand::new(Status::Error, Some(reason));
    let word = ended.word.as_deref();
    let stand = match ended.how {
        Outcome::Completed => Stand::new(Status::Completed, None),
        Outcome::MaxTokens => error(Reason::MaxTokens).because("stopped", "the model's output limit came"),
        Outcome::Refused => error(Reason::Refusal).because("stopped", "the agent will not"),
        Outcome::Failed if ended.trouble.is_some() => error(Reason::PromptError),
        Outcome::Failed if word == Some("max_turn_requests") => {
            error(Reason::MaxTurns).because("stopped", "too many model requests in one turn")
        }
        Outcome::Failed => error(Reason::UnknownStop)
            .because("stopped", format!("the agent ended the turn with \"{}\"", word.unwrap_or_default())),
        Outcome::Cancelled => Stand::new(Status::Cancelled, None),
        Outcome::Lost if is_link => gone(),
        Outcome::Lost => error(Reason::AgentExited),
        Outcome::Unseen => error(Reason::Unconfirmed),
        Outcome::NotSent => error(Reason::NotSent),
    };
    match ended.trouble.as_deref() {
        Some(RpcError { code: crate::rpc::code::AUTH_REQUIRED, message, .. }) => {
            error(Reason::NeedsLogin).because("needs_login", message)
        }
        Some(RpcError { message, .. }) => {
            let kind = if ended.how == Outcome::Lost { "exited" } else { "rpc" };
            stand.because(kind, message)
        }
        None => stand,
    }
}
