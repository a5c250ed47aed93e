//! Machines made of machines: the one generic piece of every composite.
//!
//! The body of a composite is always the same: route the input, tick, then
//! `while let Some((key, told)) = nest.next(..) { translate }`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::machine::{
    Action, Address, Deadline, Heard, Ids, Input, LinkId, Machine, Now, Open, OpenError, Output, Outputs,
    Peer, Refused, StoreFailed, Time,
};

/// Many machines of one kind inside another machine: renames their links, indexes their deadlines, hands up
/// their events.
#[derive(Debug)]
pub struct Nest<K, M> {
    children: BTreeMap<K, Child<M>>,
    routes: BTreeMap<LinkId, (K, LinkId)>,
    due: BTreeSet<(Time, K)>,
    touched: VecDeque<K>,
}

#[derive(Debug)]
struct Child<M> {
    machine: M,
    /// The child's own name of a link, and ours.
    links: BTreeMap<LinkId, LinkId>,
    due: Option<Deadline>,
    held: bool,
    touched: bool,
}

/// What a child of a nest came to.
#[derive(Debug)]
pub enum Told<E> {
    /// It said something.
    Event(E),
    /// It is done and gone from the nest.
    Ended,
}

impl<K, M> Default for Nest<K, M> {
    fn default() -> Self {
        Self {
            children: BTreeMap::new(),
            routes: BTreeMap::new(),
            due: BTreeSet::new(),
            touched: VecDeque::new(),
        }
    }
}

impl<K: Clone + Ord, M: Machine> Nest<K, M> {
    /// Puts in a machine that opens its links itself.
    pub fn insert(&mut self, key: K, machine: M) {
        self.place(key, machine, BTreeMap::new());
    }

    /// Puts in a machine around a link that is open already; it is the child's [`LinkId::FIRST`].
    pub fn adopt(&mut self, key: K, machine: M, link: LinkId) {
        self.routes.insert(link, (key.clone(), LinkId::FIRST));
        self.place(key, machine, BTreeMap::from([(LinkId::FIRST, link)]));
    }

    fn place(&mut self, key: K, machine: M, links: BTreeMap<LinkId, LinkId>) {
        let mut child = Child { machine, links, due: None, held: false, touched: false };
        child.touch(&key, &mut self.touched);
        if let Some(old) = self.children.insert(key.clone(), child) {
            debug_assert!(false, "two children of one key");
            self.forget(&key, &old);
        }
    }

    /// A child.
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

    /// Feeds a failed store to every child: whose file it was knows it.
    pub fn store_failed(&mut self, now: Now, failed: StoreFailed<'_>) {
        let keys: Vec<K> = self.children.keys().cloned().collect();
        for key in keys {
            self.feed(now, &key, Input::StoreFailed(failed));
        }
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

    /// Tells a child that whoever takes its events is full, or has room again.
    pub fn hold(&mut self, now: Now, key: &K, hold: bool) {
        if let Some(child) = self.children.get_mut(key)
            && child.held != hold
        {
            child.held = hold;
            self.feed(now, key, Input::Hold(hold));
        }
    }

    /// Tells every child that whoever takes our events is full, or has room again.
    pub fn hold_all(&mut self, now: Now, hold: bool) {
        let keys: Vec<K> = self.children.keys().cloned().collect();
        for key in keys {
            self.hold(now, &key, hold);
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
                        if let Action::Open(Open::Accept(listener)) = &mut action
                            && let Some(ours) = child.links.get(listener)
                        {
                            *listener = *ours;
                        }
                        if let Action::Close = action {
                            child.links.remove(&own);
                            self.routes.remove(&link);
                        } else if let Action::Open(_) = action {
                            self.routes.insert(link, (key.clone(), own));
                        }
                        out.act(link, action);
                    }
                    Output::Store(store) => out.store(store),
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
    }
}

impl<M: Machine> Child<M> {
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

/// A listener and its connections. One accept is outstanding at most, so the core decides how many
/// connections there are, how fast they come, and when the next attempt is after a shortage.
#[derive(Debug)]
pub struct Serve<M> {
    /// The connections, numbered in the order they came.
    pub conns: Nest<u32, M>,
    listener: LinkId,
    address: Address,
    state: Listening,
    next: u32,
    max: usize,
}

#[derive(Debug, Eq, PartialEq)]
enum Listening {
    Opening,
    /// The system was short of something.
    OpeningAgain(Time),
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
    /// A connection came.
    Accepted(u32),
}

impl<M: Machine> Serve<M> {
    /// Begins to listen; takes up to `max` connections at once.
    pub fn new<E>(address: Address, max: usize, ids: &mut Ids, out: &mut Outputs<E>) -> Self {
        let listener = ids.fresh();
        out.act(listener, Action::Open(Open::Listen(address.clone())));
        Self { conns: Nest::default(), listener, address, state: Listening::Opening, next: 0, max }
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
            (Listening::Opening, Heard::Opened(_)) if link == self.listener => {
                self.state = Listening::Full;
                self.accept(ids, out);
                Served::Listening
            }
            (Listening::Opening, Heard::OpenFailed(error)) if link == self.listener && error.passes() => {
                self.state = Listening::OpeningAgain(now.mono + AGAIN);
                Served::Quiet
            }
            (Listening::Opening, Heard::OpenFailed(error)) if link == self.listener => {
                self.state = Listening::Closed;
                out.act(link, Action::Close);
                Served::ListenFailed(error)
            }
            (Listening::Accepting(pending), Heard::Opened(peer)) if link == *pending => {
                self.state = Listening::Full;
                self.next += 1;
                self.conns.adopt(self.next, make(peer), link);
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

    /// Fires what is due.
    pub fn tick<E>(&mut self, now: Now, ids: &mut Ids, out: &mut Outputs<E>) {
        match self.state {
            Listening::OpeningAgain(at) if at <= now.mono => {
                self.state = Listening::Opening;
                out.act(self.listener, Action::Open(Open::Listen(self.address.clone())));
            }
            Listening::AcceptingAgain(at) if at <= now.mono => {
                self.state = Listening::Full;
                self.accept(ids, out);
            }
            Listening::Opening
            | Listening::OpeningAgain(_)
            | Listening::Full
            | Listening::Accepting(_)
            | Listening::AcceptingAgain(_)
            | Listening::Closed => {}
        }
        self.conns.tick(now);
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
            Listening::Opening
            | Listening::OpeningAgain(_)
            | Listening::Full
            | Listening::AcceptingAgain(_) => {}
        }
        out.act(self.listener, Action::Close);
    }

    /// The earliest deadline of the listener and of all connections.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        let again = match self.state {
            Listening::OpeningAgain(at) => Some((at, "listen again")),
            Listening::AcceptingAgain(at) => Some((at, "accept again")),
            Listening::Opening | Listening::Full | Listening::Accepting(_) | Listening::Closed => None,
        };
        crate::machine::soonest(again, self.conns.deadline())
    }

    fn accept<E>(&mut self, ids: &mut Ids, out: &mut Outputs<E>) {
        if self.state == Listening::Full && self.conns.len() < self.max {
            let link = ids.fresh();
            self.state = Listening::Accepting(link);
            out.act(link, Action::Open(Open::Accept(self.listener)));
        }
    }
}

/// The pause after a shortage: descriptors come back when a connection ends.
const AGAIN: Duration = Duration::from_secs(1);
