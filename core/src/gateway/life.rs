//! The life of the agent: when it is started, what its end means, and which sessions it is wanted for.

use super::api::Event;
use super::machine::{Expects, Gateway, Only};
use crate::closed::{Cause, Closed};
use crate::hub::api::{Reason, Status};
use crate::hub::book::{Sid, SourceId, Stand};
use crate::machine::{Machine, Now};
use crate::rpc::{RpcError, code};
use crate::session::{Done, Early, Name, News, Open, Source, Told, Trouble, Up, Wish, why};

/// How far the agent is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Life {
    Down,
    Starting(SourceId),
    Up(SourceId),
    Leaving(SourceId),
}

impl Gateway {
    /// Starts the agent, unless it runs or is about to.
    pub(super) fn launch(&mut self, now: Now) {
        if self.life != Life::Down || self.is_leaving {
            return;
        }
        self.lives += 1;
        let source = SourceId(self.lives);
        let placed = self.sources.insert(now, source, Source::new(now, self.config.source.clone()));
        debug_assert!(placed.is_ok(), "each number is given once");
        self.life = Life::Starting(source);
        self.out.tell(Event::Started);
    }

    /// A session wants the agent.
    pub(super) fn want(&mut self, now: Now, sid: Sid) {
        if let Life::Up(source) = self.life {
            return self.open_at(now, source, sid);
        }
        self.wanted.insert(sid);
        self.launch(now);
    }

    /// It shook hands.
    pub(super) fn came_up(&mut self, now: Now, source: SourceId, up: Up) {
        if self.life != Life::Starting(source) {
            return;
        }
        self.life = Life::Up(source);
        self.up = Some(up.clone());
        // It changes nothing for a client that has been greeted.
        self.show(now, Told::Up(Box::new(up)));
        for (tag, wish) in std::mem::take(&mut self.later) {
            self.pass(now, tag, wish);
        }
        for sid in std::mem::take(&mut self.wanted) {
            self.open_at(now, source, sid);
        }
    }

    /// A session is opened as the client wants it, or as it was before.
    fn open_at(&mut self, now: Now, source: SourceId, sid: Sid) {
        let name = self.book.get(sid).and_then(|session| session.name.clone());
        let Some(session) = self.sessions.get(&sid) else { return };
        let can = self.can();
        let open = match (&session.asked, name.or_else(|| Some(self.single.as_ref()?.name.clone()))) {
            // There is one, and no new one can be made.
            (Some((_, Open::New)), Some(name)) if !can.new => Open::Resume(name),
            (Some((_, open)), _) => open.clone(),
            (None, Some(name)) if can.resume => Open::Resume(name),
            (None, Some(name)) if can.load => Open::Load(name),
            (None, _) => {
                let why =
                    "the agent was started again, and cannot go on with a session of before: open a new one";
                self.book.not_opened(now, sid, failed("lost", why));
                self.drain(now);
                return self.news(now, sid, News::Closed);
            }
        };
        // What it says of an old one before it has opened it is known to be of that one.
        if let Open::Load(name) | Open::Resume(name) = &open {
            self.names.insert(name.clone(), sid);
        }
        let wish = Wish::Open(open, session.setup.clone());
        if let Err(refused) = self.wish(now, source, wish, Expects::Open(sid)) {
            self.cannot_open(now, sid, super::front::refusal(refused));
        }
    }

    /// What came of it.
    pub(super) fn opened(&mut self, now: Now, source: SourceId, sid: Sid, done: Result<Done, Trouble>) {
        let (name, state) = match done {
            Ok(Done::Opened(name, state)) => (name, state),
            Ok(_) => return self.cannot_open(now, sid, RpcError::new(code::INTERNAL_ERROR, "no session")),
            Err(trouble) => return self.cannot_open(now, sid, trouble),
        };
        // A session that we cannot make is not ours: it is never closed or ended here, and its cancel has no clock. To the
        // book it is a link's.
        let can = self.can();
        let taken = if can.single && !can.new {
            self.book.announce(now, sid, source, name.clone(), can)
        } else {
            self.book.opened(now, sid, source, name.clone(), can)
        };
        if !taken {
            return self.close_again(now, source, name);
        }
        self.names.insert(name.clone(), sid);
        if let (Some(only), Some(session)) = (&self.single, self.sessions.get_mut(&sid))
            && only.cwd != session.setup.cwd
        {
            session.note = Some(format!("This session works in {}.", only.cwd));
        }
        if let (true, None, Some(session)) = (can.single, &self.single, self.sessions.get(&sid)) {
            self.single = Some(Only { name: name.clone(), cwd: session.setup.cwd.clone() });
        }
        let asked = self.sessions.get_mut(&sid).and_then(|session| session.asked.take());
        if let Some((tag, _)) = asked {
            self.done(now, tag, Ok(Done::Opened(name.clone(), state)));
        }
        // While others are being opened it may wait again.
        for item in std::mem::take(&mut self.early).into_items() {
            self.heard(now, source, item);
        }
    }

    /// Nobody wants it any more.
    fn close_again(&mut self, now: Now, source: SourceId, session: Name) {
        if self.can().close {
            self.whatever(now, source, Wish::Close { session });
        }
    }

    /// A session that was never open is forgotten; one that was has lost the prompt that wanted it.
    fn cannot_open(&mut self, now: Now, sid: Sid, trouble: Trouble) {
        self.book.not_opened(now, sid, failed("rpc", trouble.message.clone()));
        let asked = self.sessions.get_mut(&sid).and_then(|session| session.asked.take());
        if let Some((tag, _)) = asked {
            self.forget(sid);
            self.done(now, tag, Err(trouble));
        }
    }

    /// It told its last word. Of every turn that it had the end was told before.
    pub(super) fn down(&mut self, now: Now, source: SourceId, closed: Closed<String>) {
        let (kind, text) = why(&closed);
        self.out.tell(Event::Ended((closed.cause != Cause::Left).then(|| text.clone())));
        let replaced = std::mem::replace(&mut self.life, Life::Leaving(source)) == Life::Leaving(source);
        if replaced {
            // Whatever waits by now waits for the next one.
            return;
        }
        let trouble = RpcError::new(code::INTERNAL_ERROR, &*text);
        for (tag, _) in std::mem::take(&mut self.later) {
            self.done(now, tag, Err(trouble.clone()));
        }
        for sid in std::mem::take(&mut self.wanted) {
            self.cannot_open(now, sid, trouble.clone());
        }
        let exited = Stand::new(Status::Error, Some(Reason::AgentExited)).because(kind, text);
        self.book.down(now, source, &exited);
        if self.up.is_none() {
            self.show(now, Told::Up(Box::default()));
        }
    }

    /// It goes on with a turn that was given up, and has nothing else to do.
    pub(super) fn replace(&mut self, now: Now, source: SourceId) {
        if self.life != Life::Up(source) {
            return;
        }
        self.life = Life::Leaving(source);
        self.whatever(now, source, Wish::Leave);
        self.book.down(now, source, &Stand::default());
    }

    /// It is gone. Whoever waited for that has it started again.
    pub(super) fn ended(&mut self, now: Now, source: SourceId) {
        self.early = Early::default();
        self.expects.retain(|_, (of, _)| *of != source);
        self.life = Life::Down;
        if !self.wanted.is_empty() || !self.later.is_empty() {
            self.launch(now);
        }
    }

    /// The client is gone, or we are: nothing is sent any more, and the agent goes down its ladder.
    pub(super) fn leave(&mut self, now: Now) {
        if std::mem::replace(&mut self.is_leaving, true) {
            return;
        }
        self.book.pause();
        if let Life::Starting(source) | Life::Up(source) = self.life {
            self.life = Life::Leaving(source);
            self.whatever(now, source, Wish::Leave);
        }
    }
}

fn failed(kind: &str, why: impl Into<String>) -> Stand {
    Stand::new(Status::Error, Some(Reason::StartFailed)).because(kind, why)
}
