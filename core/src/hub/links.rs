//! Agents that dial in: who is let in, which sessions are theirs, and what the end of a link means.
//!
//! A link owns a session from its announcement on until it ends: no child is asked for it, and no other link gets it. An
//! announcement of a session that another link has, or on which a turn runs here, is nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::agents::Life;
use super::api::{HubProblem, Reason, Status};
use super::book::{Home, SourceId, Stand};
use super::machine::{Expects, Hub, Stage};
use crate::limits::Graces;
use crate::machine::{Address, Heard, LinkId, Machine, Now, OpenError, Refused, Tag};
use crate::nest::{Serve, Served, Told as Nested};
use crate::reverse::acceptor::Config;
use crate::session::{Announced, Item, Reply, Reverse, Told, Up, Wish};

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
                let life = Life { agent: Arc::clone(&id), names: BTreeMap::new(), link: Some(up.can) };
                self.lives.insert(source, life);
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
        let Some(life) = self.lives.get(&source) else { return };
        let (agent, name, can) =
            (Arc::clone(&life.agent), item.session.clone(), life.link.unwrap_or_default());
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

    /// Whatever a link says of a session that it does not have. Its terminal goes on asking.
    pub(super) fn not_theirs(&mut self, now: Now, source: SourceId, item: &Item) {
        if let crate::session::News::Asked(asked) = &item.news {
            let wish = Wish::Answer { ask: asked.ask, reply: Reply::NotMe };
            // Refused when it is over by itself.
            let _ = self.wish(now, source, wish, Expects::Nothing);
        }
    }

    /// A link told its last word: its turns are over, and what waits is held.
    pub(super) fn link_down(&mut self, now: Now, source: SourceId) {
        self.book.down(now, source, &Stand::new(Status::Cancelled, Some(Reason::LinkLost)));
    }

    /// Ends links: those of an agent, or all of them. Their sessions stand as that says first.
    pub(super) fn unlink(&mut self, now: Now, of: Option<&str>, stand: &Stand) {
        let theirs = self
            .lives
            .iter()
            .filter(|(source, life)| is_link(**source) && of.is_none_or(|id| *life.agent == *id));
        for source in theirs.map(|(source, _)| *source).collect::<Vec<_>>() {
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
