//! What the agent tells: first what the rules, the budget and the book make of it, and then the front.

use super::api::{Event, Ruled};
use super::machine::{Expects, Gateway, Only, TAGS};
use crate::acp::PermissionRequest;
use crate::hub::api::By;
use crate::hub::book::{ApprovalId, Sid, SourceId};
use crate::machine::Now;
use crate::session::{AskId, Item, Moment, News, Question, Reply, Settled, Told, Wish};

impl Gateway {
    /// A rule decides before the client does.
    pub(super) fn asked(&mut self, now: Now, sid: Sid, id: ApprovalId) {
        let Some(ask) = self.book.ask(id) else { return };
        let mut asked = ask.asked.clone();
        asked.ask = AskId(id.0.into());
        let (Some(session), Some(name)) =
            (self.sessions.get(&sid), self.book.get(sid).and_then(|session| session.name.clone()))
        else {
            return;
        };
        let Question::Permission { call, options, .. } = &asked.question else {
            return self.news(now, sid, News::Asked(Box::new(asked)));
        };
        let (tool_call, options) = (call.clone(), options.clone());
        let request = PermissionRequest { session_id: name.clone(), tool_call, options, meta: None };
        let Ok(ruling) = session.judge.decide(&request) else {
            return self.news(now, sid, News::Asked(Box::new(asked)));
        };
        let option = ruling.option.map(|option| option.option_id.clone());
        let allowed = ruling.option.is_some_and(|option| option.kind.allows());
        let rule = ruling.rule.as_deref().map(str::to_owned);
        let title = request.tool_call.title.clone().unwrap_or_default();
        self.out.tell(Event::Ruled(Box::new(Ruled {
            session: name,
            title,
            option: option.clone(),
            allowed,
            rule,
        })));
        let reply = option.map_or(Reply::Cancel, Reply::Choose);
        let _ = self.book.reply(now, id, reply, By::Policy);
    }

    pub(super) fn told(&mut self, now: Now, source: SourceId, told: Told) {
        match told {
            Told::Up(up) => self.came_up(now, source, *up),
            Told::News(item) => self.heard(now, source, item),
            Told::Done(tag, done) => {
                let Some((_, expects)) = self.expects.remove(&tag) else { return };
                match expects {
                    Expects::Open(sid) => self.opened(now, source, sid, *done),
                    Expects::Front(tag) => self.done(now, tag, *done),
                    Expects::Nothing => {}
                }
            }
            Told::Wanted(ask, wanted) => {
                self.next += 1;
                let ours = AskId(self.next - TAGS);
                self.services.insert(ours, (source, ask));
                self.show(now, Told::Wanted(ours, wanted));
            }
            Told::Noted(noted) => self.out.tell(Event::Noted(noted)),
            Told::Other(other) => self.show(now, Told::Other(other)),
            Told::Down(closed) => self.down(now, source, *closed),
            // Only what dials in says the one, and nothing is hosted for the other.
            Told::Hello(_) | Told::File(_) => {}
        }
    }

    /// What the agent says of a session.
    pub(super) fn heard(&mut self, now: Now, source: SourceId, item: Item) {
        if let News::Announced(there) = item.news {
            self.single = self.can().single.then_some(Only { name: item.session, cwd: there.cwd });
            return;
        }
        let Some(sid) = self.names.get(&item.session).copied() else {
            return self.unknown(now, source, item);
        };
        if item.moment == Moment::Replay {
            // The client has seen the history that was not asked for by it.
            if self.sessions.get(&sid).is_some_and(|session| session.asked.is_some()) {
                self.show(now, Told::News(item));
            }
            return;
        }
        self.count(now, sid, &item);
        if let News::Settled(ask, Settled::Elsewhere) = &item.news
            && let Some(id) = self.pages.remove(&(source, *ask))
        {
            return self.news(now, sid, News::Settled(AskId(id.0.into()), Settled::Elsewhere));
        }
        if let (News::Busy(busy), Some(session)) = (&item.news, self.sessions.get_mut(&sid)) {
            session.is_busy = *busy;
        }
        let is_news = self.book.news(now, sid, source, &item);
        // What the book makes of it comes first, and is told instead of what is the book's to tell.
        self.drain(now);
        let is_books = matches!(
            item.news,
            News::Began(_) | News::Ended(_) | News::Asked(_) | News::Settled(..) | News::Opened
        );
        if is_news && !is_books {
            self.show(now, Told::News(item));
        }
    }

    /// News of a name that nobody knows: of a session that is being opened, or one of the agent's own.
    fn unknown(&mut self, now: Now, source: SourceId, item: Item) {
        if let News::Asked(asked) = &item.news {
            let wish = Wish::Answer { ask: asked.ask, reply: Reply::Cancel };
            return self.whatever(now, source, wish);
        }
        if self.expects.values().any(|(of, expects)| *of == source && matches!(expects, Expects::Open(_))) {
            self.early.keep(&item);
        }
    }

    /// Counts what a session costs. One that costs too much is stopped, once.
    fn count(&mut self, now: Now, sid: Sid, item: &Item) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let too_much = if let News::Usage(usage) = &item.news {
            session.purse.usage(usage)
        } else if let (News::Tool { is_new: true, .. }, Moment::Turn) = (&item.news, item.moment) {
            session.purse.tool()
        } else {
            None
        };
        let Some(too_much) = too_much.filter(|_| session.overspent.is_none()) else { return };
        session.overspent = Some(too_much.clone());
        self.out.tell(Event::Overspent(item.session.clone(), Box::new(too_much)));
        // Refused when it takes no cancel: then its turn fails when it ends.
        let _ = self.book.stop(now, sid);
    }
}
