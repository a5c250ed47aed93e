//! Machines made of machines: the one generic piece of every composite.
//!
//! The body of a composite is always the same: route the input, tick, then
//! `while let Some((key, told)) = nest.next(..) { translate }`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::limits::{Graces, Limits};
use crate::link::{Link, Report};
use crate::machine::{
    Action, Address, Deadline, Heard, Ids, Input, LinkId, Machine, Now, Open, OpenError, Output, Outputs,
    Peer, Refused, StoreId, Time, soonest,
};

/// Many machines of one kind inside another machine: renames their links and files, indexes their deadlines, hands up
/// their events, and holds them, those to come as well, while whoever takes these is full.
#[derive(Debug)]
pub struct Nest<K, M> {
    children: BTreeMap<K, Child<M>>,
    routes: BTreeMap<LinkId, (K, LinkId)>,
    stores: BTreeMap<StoreId, (K, StoreId)>,
    /// By time, so that no wait and no tick has to ask every child.
    due: BTreeSet<(Time, K)>,
    /// In the order they were fed, so that a busy child starves nobody.
    touched: VecDeque<K>,
    held: bool,
}

#[derive(Debug)]
struct Child<M> {
    machine: M,
    /// The child's own name of a link, and ours.
    links: BTreeMap<LinkId, LinkId>,
    /// The child's own name of a file, and ours.
    stores: BTreeMap<StoreId, StoreId>,
    due: Option<Deadline>,
    held: Held,
    touched: bool,
}

/// Who wants a child to be held: it is told that it is when the first does, and that it is not when none does any more.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    alone: bool,
    with_all: bool,
}

/// What a child of a nest came to.
#[derive(Debug)]
pub enum Told<E> {
    /// It tells its owner something.
    Event(E),
    /// It is done and gone from the nest.
    Ended,
}

impl<K, M> Default for Nest<K, M> {
    fn default() -> Self {
        Self {
            children: BTreeMap::new(),
            routes: BTreeMap::new(),
            stores: BTreeMap::new(),
            due: BTreeSet::new(),
            touched: VecDeque::new(),
            held: false,
        }
    }
}

impl<K: Clone + Ord, M: Machine> Nest<K, M> {
    /// One machine that opens its links itself.
    pub fn of(key: K, machine: M) -> Self {
        let mut nest = Self::default();
        nest.touched.push_back(key.clone());
        nest.children.insert(key, Child { touched: true, ..Child::new(machine) });
        nest
    }

    /// Puts in a machine that opens its links itself.
    ///
    /// # Errors
    ///
    /// The key is taken: the machine comes back, and nothing changed.
    pub fn insert(&mut self, now: Now, key: K, machine: M) -> Result<(), M> {
        self.place(now, key, Child::new(machine))
    }

    /// Puts in a machine around a link that is open already; it is the child's [`LinkId::FIRST`].
    ///
    /// # Errors
    ///
    /// The key is taken: the machine comes back, and nothing changed.
    pub fn adopt(&mut self, now: Now, key: K, machine: M, link: LinkId) -> Result<(), M> {
        let links = BTreeMap::from([(LinkId::FIRST, link)]);
        self.place(now, key.clone(), Child { links, ..Child::new(machine) })?;
        self.routes.insert(link, (key, LinkId::FIRST));
        Ok(())
    }

    fn place(&mut self, now: Now, key: K, mut child: Child<M>) -> Result<(), M> {
        let Entry::Vacant(seat) = self.children.entry(key.clone()) else { return Err(child.machine) };
        child.touch(&key, &mut self.touched);
        child.hold(now, Held { with_all: self.held, ..Held::default() });
        seat.insert(child);
        Ok(())
    }

    /// The child of that key, to be looked at.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&M> {
        self.children.get(key).map(|child| &child.machine)
    }

    /// The keys of all children, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.children.keys()
    }

    /// How many children there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Whether there is no child.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Feeds what happened on a link; `false`: the link is none of ours.
    pub fn handle(&mut self, now: Now, link: LinkId, heard: Heard<'_>) -> bool {
        let Some((key, own)) = self.routes.get(&link).cloned() else { return false };
        self.feed(now, &key, Input::Link(own, heard));
        true
    }

    /// Feeds a failed store to the child whose file it is; `false`: it is no child's.
    pub fn store_failed(&mut self, now: Now, id: StoreId, errno: i32) -> bool {
        let Some((key, own)) = self.stores.get(&id).cloned() else { return false };
        self.feed(now, &key, Input::StoreFailed(own, errno));
        true
    }

    /// Ticks the children whose deadline has come, each once.
    pub fn tick(&mut self, now: Now) {
        // What is due is taken out of the index here and put back by `next`: so each child fires once.
        while let Some((at, key)) = self.due.first().cloned()
            && at <= now.mono
        {
            self.due.pop_first();
            if let Some(child) = self.children.get_mut(&key) {
                child.due = None;
            }
            self.feed(now, &key, Input::Tick);
        }
    }

    /// Passes a command to a child.
    ///
    /// # Errors
    ///
    /// The child refused, or there is no such child.
    pub fn command(&mut self, now: Now, key: &K, command: M::Command) -> Result<(), Refused> {
        let child = self.children.get_mut(key).ok_or(Refused::Unknown)?;
        let done = child.machine.command(now, command);
        child.touch(key, &mut self.touched);
        done
    }

    /// Whoever takes the events of that child is full, or has room again.
    pub fn hold(&mut self, now: Now, key: &K, hold: bool) {
        if let Some(child) = self.children.get_mut(key)
            && child.hold(now, Held { alone: hold, ..child.held })
        {
            child.touch(key, &mut self.touched);
        }
    }

    /// Whoever takes our events is full, or has room again. Children that come meanwhile are held from the start.
    pub fn hold_all(&mut self, now: Now, hold: bool) {
        if self.held == hold {
            return;
        }
        self.held = hold;
        for (key, child) in &mut self.children {
            if child.hold(now, Held { with_all: hold, ..child.held }) {
                child.touch(key, &mut self.touched);
            }
        }
    }

    /// Moves the actions of touched children to `out` and returns the first event met. Call until `None`.
    pub fn next<E>(&mut self, ids: &mut Ids, out: &mut Outputs<E>) -> Option<(K, Told<M::Event>)> {
        while let Some(key) = self.touched.front().cloned() {
            let Some(child) = self.children.get_mut(&key) else {
                self.touched.pop_front();
                continue;
            };
            while let Some(output) = child.machine.poll() {
                match output {
                    Output::Do(own, mut action) => {
                        let link = *child.links.entry(own).or_insert_with(|| ids.fresh());
                        // The listener is named inside the action: it goes by our name outside as well.
                        if let Action::Open(Open::Accept(listener)) = &mut action
                            && let Some(ours) = child.links.get(listener)
                        {
                            *listener = *ours;
                        }
                        // A late word on a closed link is nobody's from here on.
                        if let Action::Close = action {
                            child.links.remove(&own);
                            self.routes.remove(&link);
                        } else if let Action::Open(_) = action {
                            self.routes.insert(link, (key.clone(), own));
                        }
                        out.act(link, action);
                    }
                    Output::Store(own, store) => {
                        let id = *child.stores.entry(own).or_insert_with(|| {
                            let id = ids.fresh_store();
                            self.stores.insert(id, (key.clone(), own));
                            id
                        });
                        out.push(Output::Store(id, store));
                    }
                    Output::Tell(event) => return Some((key, Told::Event(event))),
                    Output::End => {
                        self.touched.pop_front();
                        if let Some(child) = self.children.remove(&key) {
                            self.forget(&key, &child);
                        }
                        return Some((key, Told::Ended));
                    }
                }
            }
            self.touched.pop_front();
            child.touched = false;
            child.schedule(&key, &mut self.due);
        }
        None
    }

    /// The earliest deadline of all children.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let (_, key) = self.due.first()?;
        self.children.get(key)?.due
    }

    fn feed(&mut self, now: Now, key: &K, input: Input<'_>) {
        if let Some(child) = self.children.get_mut(key) {
            child.machine.handle(now, input);
            child.touch(key, &mut self.touched);
        }
    }

    fn forget(&mut self, key: &K, child: &Child<M>) {
        if let Some((at, _)) = child.due {
            self.due.remove(&(at, key.clone()));
        }
        for link in child.links.values() {
            self.routes.remove(link);
        }
        for id in child.stores.values() {
            self.stores.remove(id);
        }
    }
}

impl<M: Machine> Child<M> {
    fn new(machine: M) -> Self {
        let (links, stores) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, links, stores, due: None, held: Held::default(), touched: false }
    }

    /// Whether that is news to the child.
    fn hold(&mut self, now: Now, held: Held) -> bool {
        let was = std::mem::replace(&mut self.held, held);
        let news = was.is_held() != held.is_held();
        if news {
            self.machine.handle(now, Input::Hold(held.is_held()));
        }
        news
    }

    /// Its outputs are to be moved.
    fn touch<K: Clone>(&mut self, key: &K, touched: &mut VecDeque<K>) {
        if !std::mem::replace(&mut self.touched, true) {
            touched.push_back(key.clone());
        }
    }

    /// Its outputs were moved: its deadline is what counts from here.
    fn schedule<K: Clone + Ord>(&mut self, key: &K, all: &mut BTreeSet<(Time, K)>) {
        let due = self.machine.deadline();
        let was = std::mem::replace(&mut self.due, due);
        let [was, due] = [was, due].map(|deadline| deadline.map(|(at, _)| at));
        if was != due {
            was.map(|at| all.remove(&(at, key.clone())));
            due.map(|at| all.insert((at, key.clone())));
        }
    }
}

impl Held {
    const fn is_held(self) -> bool {
        self.alone || self.with_all
    }
}

/// A listener and its connections. One accept is outstanding at most, so the core decides how many
/// connections there are, how fast they come, and when the next attempt is after a shortage.
#[derive(Debug)]
pub struct Serve<M> {
    /// The connections, numbered in the order they came.
    pub conns: Nest<u32, M>,
    listener: Link,
    state: Listening,
    next: u32,
    max: usize,
}

#[derive(Debug, Eq, PartialEq)]
enum Listening {
    Opening,
    /// The seats are taken.
    Full,
    Accepting(LinkId),
    /// The last accept failed.
    AcceptingAgain(Time),
    Closed,
}

/// What an input meant for a listener's owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Served {
    /// The link is none of ours.
    NotOurs,
    /// Routed, or nothing to tell.
    Quiet,
    /// Connections are taken from here on.
    Listening,
    /// There will be none.
    ListenFailed(OpenError),
    /// A connection came, and has that number.
    Accepted(u32),
}

impl<M: Machine> Serve<M> {
    /// Begins to listen; takes up to `max` connections at once.
    pub fn new<E>(
        now: Now,
        address: Address,
        max: usize,
        graces: &Graces,
        ids: &mut Ids,
        out: &mut Outputs<E>,
    ) -> Self {
        // A link, so that a shortage of the system is asked about again. It carries no bytes, so no limit of bytes
        // concerns it.
        let listener = Link::open(now, ids.fresh(), Open::Listen(address), &Limits::default(), graces, out);
        Self { conns: Nest::default(), listener, state: Listening::Opening, next: 0, max }
    }

    /// Feeds an input of the listener or of a connection; `make` builds the machine around an accepted link.
    pub fn handle<E>(
        &mut self,
        now: Now,
        link: LinkId,
        heard: Heard<'_>,
        ids: &mut Ids,
        out: &mut Outputs<E>,
        make: impl FnOnce(Peer) -> M,
    ) -> Served {
        match (&self.state, heard) {
            (_, Heard::Opened(_) | Heard::OpenFailed(_)) if link == self.listener.id() => {
                let report = self.listener.heard(now, heard, out);
                self.listened(report, ids, out)
            }
            (Listening::Accepting(pending), Heard::Opened(peer)) if link == *pending => {
                self.state = Listening::Full;
                self.next += 1;
                let taken = self.conns.adopt(now, self.next, make(peer), link);
                debug_assert!(taken.is_ok(), "each number is given once");
                self.accept(ids, out);
                Served::Accepted(self.next)
            }
            (Listening::Accepting(pending), Heard::OpenFailed(_)) if link == *pending => {
                out.act(link, Action::Close);
                self.state = Listening::AcceptingAgain(now.mono + AGAIN);
                Served::Quiet
            }
            _ if self.conns.handle(now, link, heard) => Served::Quiet,
            _ => Served::NotOurs,
        }
    }

    /// Fires what is due: the children's timers, and those of the listener, whose end may be news.
    pub fn tick<E>(&mut self, now: Now, ids: &mut Ids, out: &mut Outputs<E>) -> Served {
        if let Listening::AcceptingAgain(at) = self.state
            && at <= now.mono
        {
            self.state = Listening::Full;
            self.accept(ids, out);
        }
        self.conns.tick(now);
        let report = self.listener.tick(now, out);
        self.listened(report, ids, out)
    }

    /// Moves actions up and returns the first event met. Call until `None`.
    pub fn next<E>(&mut self, ids: &mut Ids, out: &mut Outputs<E>) -> Option<(u32, Told<M::Event>)> {
        let told = self.conns.next(ids, out);
        // A connection that ended has left its seat.
        self.accept(ids, out);
        told
    }

    /// Stops listening. Connections go on.
    pub fn close<E>(&mut self, out: &mut Outputs<E>) {
        match std::mem::replace(&mut self.state, Listening::Closed) {
            Listening::Closed => return,
            Listening::Accepting(pending) => out.act(pending, Action::Close),
            Listening::Opening | Listening::Full | Listening::AcceptingAgain(_) => {}
        }
        self.listener.cut(out);
    }

    /// Listens anew, since the socket's name is gone. Connections go on.
    pub fn renew<E>(
        &mut self,
        now: Now,
        address: Address,
        graces: &Graces,
        ids: &mut Ids,
        out: &mut Outputs<E>,
    ) {
        self.close(out);
        self.listener = Link::open(now, ids.fresh(), Open::Listen(address), &Limits::default(), graces, out);
        self.state = Listening::Opening;
    }

    /// The earliest deadline of the listener and of all connections.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let again = match self.state {
            Listening::AcceptingAgain(at) => Some((at, "accept again")),
            Listening::Opening | Listening::Full | Listening::Accepting(_) | Listening::Closed => None,
        };
        soonest(soonest(again, self.listener.deadline()), self.conns.deadline())
    }

    fn listened<E>(&mut self, report: Report<'_>, ids: &mut Ids, out: &mut Outputs<E>) -> Served {
        match report {
            Report::Opened(_) => {
                self.state = Listening::Full;
                self.accept(ids, out);
                Served::Listening
            }
            Report::Failed(error) => {
                self.state = Listening::Closed;
                Served::ListenFailed(error)
            }
            Report::Quiet | Report::Bytes(_) | Report::Stderr(_) | Report::Ended => Served::Quiet,
        }
    }

    fn accept<E>(&mut self, ids: &mut Ids, out: &mut Outputs<E>) {
        if self.state == Listening::Full && self.conns.len() < self.max {
            let link = ids.fresh();
            self.state = Listening::Accepting(link);
            out.act(link, Action::Open(Open::Accept(self.listener.id())));
        }
    }
}

/// The pause after a failed accept: descriptors come back when a connection ends.
const AGAIN: Duration = Duration::from_secs(1);
