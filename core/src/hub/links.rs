//! Agents that dial in: who is let in, which sessions are theirs, and what the end of a link means.
//!
//! A link owns a session from its announcement on until it ends: no child is asked for it, and no other link gets it. An
//! announcement of a session that another link has, or on which a turn runs here, is nothing. New sessions are opened by
//! a link that offers it, even where the agent has a command.

use std::sync::Arc;

use super::agents::{broken_off, start_failed};
use super::api::{HubProblem, Reason, Status};
use super::book::{Home, Session, Sid, SourceId, Stand};
use super::lives::{Life, Of};
use super::machine::Hub;
use super::open::{Expects, Stage};
use crate::acp::session::SessionSetup;
use crate::limits::Graces;
use crate::machine::{Address, Heard, LinkId, Machine, Now, OpenError, Refused, Tag};
use crate::nest::{Serve, Served, Told as Nested};
use crate::reverse::acceptor::Config;
use crate::session::{Announced, Item, Name, News, Open, Reply, Reverse, Told, Up, Wish};

/// The listener and its links.
pub(super) type Links = Serve<Reverse>;

/// Links at once; more wait in the system's queue.
const MOST: usize = 256;
/// Links are numbered from there, and the lives of processes below.
const FIRST: u32 = 1 << 31;
/// The id of a conversation in a terminal whose agent nobody knows. It needs no manifest.
const CHAT: &str = "agentline-chat";
/// The problem of a socket that cannot be listened at.
const DEAF: &str = "no_reverse";

/// The number of a link, if the source is one.
const fn number(source: SourceId) -> Option<u32> {
    source.0.checked_sub(FIRST)
}

pub(super) const fn is_link(source: SourceId) -> bool {
    number(source).is_some()
}

impl Hub {
    pub(super) fn listen(&mut self, now: Now, address: Address) {
        let graces = Graces::default();
        self.links = Some(Serve::new(now, address, MOST, &graces, &mut self.ids, &mut self.out));
    }

    /// The same where the name of the socket is gone. Links go on.
    pub(super) fn listen_anew(&mut self, now: Now, address: Address) {
        if let Some(links) = &mut self.links {
            links.renew(now, address, &Graces::default(), &mut self.ids, &mut self.out);
        }
    }

    /// Takes what was heard on a link, and fires the clocks of links.
    pub(super) fn links_heard(&mut self, now: Now, heard: Option<(LinkId, Heard<'_>)>) {
        let Some(links) = &mut self.links else { return };
        let (ids, out) = (&mut self.ids, &mut self.out);
        let first = heard.map(|(link, heard)| {
            links.handle(now, link, heard, ids, out, |_| Reverse::new(now, Config::taken()))
        });
        let then = links.tick(now, ids, out);
        for served in first.into_iter().chain([then]) {
            if let Served::ListenFailed(error) = served {
                self.deaf(now, error);
            }
        }
    }

    fn deaf(&mut self, now: Now, error: OpenError) {
        let text = format!("agents that run already cannot show themselves here: {error}");
        let next = (error == OpenError::InUse)
            .then(|| "another program, such as BotBus, serves them; everything else works".to_owned());
        self.problem(now, HubProblem { id: DEAF.to_owned(), since: String::new(), text, next });
    }

    /// Where agents dial in, if they can.
    pub(super) fn reverse(&self) -> Option<String> {
        let address = self.config.reverse.as_ref().filter(|_| self.links.is_some());
        address.filter(|_| !self.problems.contains_key(DEAF)).map(|at| at.0.display().to_string())
    }

    /// How many were let in.
    pub(super) fn links(&self) -> usize {
        self.lives.keys().filter(|source| is_link(**source)).count()
    }

    pub(super) fn no_links(&self) -> bool {
        self.links.as_ref().is_none_or(|links| links.conns.is_empty())
    }

    pub(super) fn is_linked(&self, source: SourceId) -> bool {
        let link = self.links.as_ref().zip(number(source));
        link.is_some_and(|(links, number)| links.conns.get(&number).is_some())
    }

    pub(super) fn next_of_links(&mut self) -> Option<(SourceId, Nested<Told>)> {
        let links = self.links.as_mut()?;
        let (number, told) = links.next(&mut self.ids, &mut self.out)?;
        Some((SourceId(FIRST + number), told))
    }

    /// Says something to a source, wherever it is.
    pub(super) fn say(&mut self, now: Now, source: SourceId, tag: Tag, wish: Wish) -> Result<(), Refused> {
        match (number(source), &mut self.links) {
            (None, _) => self.sources.command(now, &source, (tag, wish)),
            (Some(number), Some(links)) => links.conns.command(now, &number, (tag, wish)),
            (Some(_), None) => Err(Refused::Closed),
        }
    }

    /// Somebody dialled in, and says who it is.
    pub(super) fn hello(&mut self, now: Now, source: SourceId, up: &Up) {
        let id: Arc<str> = up.who.as_ref().map_or("", |who| &*who.name).into();
        let wish = match self.may_link(&id) {
            Ok(()) => {
                self.lives.insert(source, Life::new(Arc::clone(&id), Of::Link(up.can)));
                if let Some(agent) = self.agents.get_mut(&id) {
                    agent.proven();
                }
                Wish::Accept
            }
            Err(why) => Wish::Refuse(why),
        };
        // Refused when it has gone meanwhile.
        let _ = self.wish(now, source, wish, Expects::Nothing);
    }

    /// Whether an agent of that id may dial in; or why not, for its people.
    fn may_link(&self, id: &str) -> Result<(), String> {
        match self.agents.get(id) {
            _ if self.stage != Stage::Serving => Err("the hub is stopping".to_owned()),
            None if id == CHAT => Ok(()),
            None => Err(format!("no agent with id {id}: agentline agent add {id} -- COMMAND")),
            Some(agent) if !agent.spec.enabled => {
                Err(format!("{id} is switched off: agentline agent enable {id}"))
            }
            Some(_) => Ok(()),
        }
    }

    /// A link shows a session.
    pub(super) fn announced(&mut self, now: Now, source: SourceId, item: &Item, there: &Announced) {
        let opens = self.opening.values().any(|of| *of == source);
        let Some(life) = self.lives.get_mut(&source) else { return };
        // It may be the one that is being opened there: that is known when the link says which one it opened.
        if opens && !life.names.contains_key(&item.session) && life.early.keep(item) {
            return;
        }
        let (agent, name, can) =
            (Arc::clone(&life.agent), item.session.clone(), life.of.link().unwrap_or_default());
        let sid = self.book.find(&agent, &name).unwrap_or_else(|| {
            self.book.add_named(now, Home { agent, cwd: there.cwd.as_str().into() }, name.clone())
        });
        if self.book.announce(now, sid, source, name.clone(), can)
            && let Some(life) = self.lives.get_mut(&source)
        {
            life.names.insert(name, sid);
            self.news(now, source, item);
        }
    }

    /// Whatever a link says of a session that it does not have, or does not have yet. Where it is not its own, its
    /// terminal goes on asking.
    pub(super) fn unknown_of_link(&mut self, now: Now, source: SourceId, item: &Item) {
        let life = self.lives.get_mut(&source).filter(|life| life.early.knows(&item.session));
        if life.is_some_and(|life| life.early.keep(item)) {
            return;
        }
        if let News::Asked(asked) = &item.news {
            let wish = Wish::Answer { ask: asked.ask, reply: Reply::NotMe };
            // Refused when it is over by itself.
            let _ = self.wish(now, source, wish, Expects::Nothing);
        }
    }

    /// The link that opens new sessions of an agent: of those that offer it the one that came last.
    pub(super) fn opener(&self, id: &str) -> Option<SourceId> {
        let offers = |life: &Life| life.of.link().is_some_and(|can| can.new && can.prompt);
        let mut links = self.lives.iter().rev().filter(|(_, life)| *life.agent == *id && offers(life));
        links.next().map(|(source, _)| *source)
    }

    pub(super) fn open_by_link(&mut self, now: Now, link: SourceId, sid: Sid) {
        let Some(session) = self.book.get(sid) else { return };
        let setup = Box::new(SessionSetup::in_directory(&*session.home.cwd));
        self.opening.insert(sid, link);
        if let Err(refused) = self.wish(now, link, Wish::Open(Open::New, setup), Expects::Open(sid)) {
            self.cannot_open(now, sid, start_failed("refused", refused.to_string()));
        }
    }

    /// The link has opened it, and drives it from here on.
    pub(super) fn opened_by_link(&mut self, now: Now, link: SourceId, sid: Sid, name: Name) {
        let Some(life) = self.lives.get_mut(&link) else { return };
        let (agent, can) = (Arc::clone(&life.agent), life.of.link().unwrap_or_default());
        let other = self.book.find(&agent, &name).filter(|other| *other != sid);
        if other.and_then(|other| self.book.get(other)).is_some_and(Session::is_driven) {
            let text = format!("{agent} says that it opened {name}, which is a session of another program");
            return self.cannot_open(now, sid, start_failed("protocol", text));
        }
        life.names.insert(name.clone(), sid);
        self.opening.remove(&sid);
        self.due.insert(sid);
        self.book.opened_by_link(now, sid, link, name, can);
        self.catch_up(now, link);
    }

    /// A link told its last word: its turns are over, and what waits is held.
    pub(super) fn link_down(&mut self, now: Now, source: SourceId) {
        self.fail_openings(now, source, &start_failed("exited", "the agent's own program went away"));
        self.book.down(now, source, &Stand::new(Status::Cancelled, Some(Reason::LinkLost)));
    }

    /// Ends links: those of an agent, or all of them. Their sessions stand as that says first.
    pub(super) fn unlink(&mut self, now: Now, of: Option<&str>, stand: &Stand) {
        let theirs = self
            .lives
            .iter()
            .filter(|(source, life)| is_link(**source) && of.is_none_or(|id| *life.agent == *id));
        for source in theirs.map(|(source, _)| *source).collect::<Vec<_>>() {
            self.fail_openings(now, source, &broken_off(stand));
            self.book.down(now, source, stand);
            // Refused when it is leaving by itself.
            let _ = self.wish(now, source, Wish::Leave, Expects::Nothing);
        }
    }

    /// Nobody dials in any more, and whoever has is left.
    pub(super) fn stop_links(&mut self, now: Now, stand: &Stand) {
        self.unlink(now, None, stand);
        let Some(links) = &mut self.links else { return };
        links.close(&mut self.out);
        for link in links.conns.keys().copied().collect::<Vec<_>>() {
            // Also those that have said nothing. Refused by those that leave already.
            let _ = links.conns.command(now, &link, (Tag(0), Wish::Leave));
        }
    }
}
